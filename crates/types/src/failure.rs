use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;

/// The confinement, or the start of the command in it, could not be set up. Nothing of the command
/// has run. Never a denial, and never a reason to offer an escalation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct SetupFailure {
    /// The step that failed: a stable name in kebab case, such as `mount-proc`.
    pub step: String,
    /// What the step was working on (a path, a namespace), where there is such a thing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub subject: Option<String>,
    /// The kernel's error number, where the kernel refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub errno: Option<i32>,
    /// What happened, in words.
    pub detail: String,
    /// What to do about it, in words; empty where nothing can be said.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub remedy: String,
}

impl SetupFailure {
    /// What the kernel answered to a step that worked on nothing in particular.
    pub fn of_step(step: &str, error: &io::Error) -> Self {
        let errno = error.raw_os_error();
        let remedy = errno.and_then(Self::general_remedy).unwrap_or_default().to_owned();
        Self { step: step.to_owned(), subject: None, errno, detail: error.to_string(), remedy }
    }

    /// What to do about an error number at whichever step, where that can be said.
    pub fn general_remedy(errno: i32) -> Option<&'static str> {
        // The other way round: what is no error number, 0 among them, makes no `Errno`.
        [Errno::MFILE, Errno::NFILE]
            .iter()
            .any(|few| few.raw_os_error() == errno)
            .then_some("a session takes some fifty open files: raise their limit (ulimit -n)")
    }
}

impl fmt::Display for SetupFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sandbox set-up failed at {}", self.step)?;
        if let Some(subject) = &self.subject {
            write!(f, " ({subject})")?;
        }
        write!(f, ": {}", self.detail)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

/// Refused before anything ran: by a rule, an approver, or because a policy asks for what cannot be
/// enforced here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("refused by {by}: {reason}")]
pub struct Refusal {
    /// Who refused: `policy`, `approver`, `guard`, `hook`, `host`, …
    pub by: String,
    /// Why, and what would be needed instead.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 10.2
    #[test]
    fn a_remedy_is_there_for_too_few_files_and_any_other_number_has_none() {
        for few in [Errno::MFILE, Errno::NFILE] {
            assert!(SetupFailure::general_remedy(few.raw_os_error()).is_some());
        }
        for number in [0, 1, -1, 4095, 4096, i32::MAX, i32::MIN] {
            assert_eq!(SetupFailure::general_remedy(number), None, "{number}");
        }
    }
}
