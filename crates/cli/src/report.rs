//! How a command went: the JSON object of `run --json` and `--status-fd`, and the exit code (spec 10.1, 10.2).

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use stockade_subprocess::{Captured, Finished};
use stockade_types::{
    Denial, Killed, LayerReport, LimitMet, LimitName, Outcome, Refusal, SetupFailure, Usage,
};

/// Exit codes of `stockade` itself.
pub mod exit {
    /// The command's time was up.
    pub const TIMED_OUT: u8 = 124;
    /// The confinement could not be set up; nothing was run.
    pub const SETUP_FAILED: u8 = 125;
    /// Refused, or found and not executable.
    pub const REFUSED: u8 = 126;
    /// Not found.
    pub const NOT_FOUND: u8 = 127;
    /// Ended by a signal, whose number is added.
    pub const SIGNAL: u8 = 128;
}

/// One command's end, as scripts read it.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    outcome: &'static str,
    exit_code: Option<i32>,
    signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
    truncated: Streams<bool>,
    bytes: Streams<u64>,
    usage: Usage,
    denials: &'a [Denial],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    limits_met: &'a [LimitMet],
    killed: Killed,
    layers: &'a LayerReport,
    /// What the outcome means, where it is not plain from the keys above.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<LimitName>,
    /// Why the program could not be executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    errno: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<&'a SetupFailure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'a Refusal>,
}

#[derive(Debug, Serialize)]
struct Streams<T> {
    stdout: T,
    stderr: T,
}

impl<'a> Report<'a> {
    /// The whole object (`--json`).
    pub fn whole(finished: &'a Finished, layers: &'a LayerReport, workspace: &Path) -> Self {
        Self {
            stdout: Some(finished.stdout.text()),
            stdout_base64: base64(&finished.stdout),
            stderr: Some(finished.stderr.text()),
            stderr_base64: base64(&finished.stderr),
            ..Self::status(finished, layers, workspace)
        }
    }

    /// The object without the output (`--status-fd`).
    pub fn status(finished: &'a Finished, layers: &'a LayerReport, workspace: &Path) -> Self {
        let (stdout, stderr) = (&finished.stdout, &finished.stderr);
        let mut report = Self {
            outcome: "",
            exit_code: None,
            signal: None,
            stdout: None,
            stdout_base64: None,
            stderr: None,
            stderr_base64: None,
            truncated: Streams { stdout: stdout.omitted > 0, stderr: stderr.omitted > 0 },
            bytes: Streams { stdout: stdout.total, stderr: stderr.total },
            usage: finished.usage,
            denials: &finished.denials,
            limits_met: &finished.limits_met,
            killed: finished.killed,
            layers,
            message: message(finished, workspace),
            timeout_ms: None,
            limit: None,
            errno: None,
            failure: None,
            refusal: None,
        };
        report.outcome = match &finished.outcome {
            Outcome::Exited { code } => {
                report.exit_code = Some(*code);
                "exited"
            }
            Outcome::Signaled { signal } => {
                report.signal = Some(*signal);
                "signaled"
            }
            Outcome::TimedOut { timeout_ms } => {
                report.timeout_ms = Some(*timeout_ms);
                "timed_out"
            }
            Outcome::LimitExceeded { limit } => {
                report.limit = Some(*limit);
                "limit_exceeded"
            }
            Outcome::Cancelled { .. } => "cancelled",
            Outcome::SetupFailed(failure) => {
                report.failure = Some(failure);
                "setup_failed"
            }
            Outcome::NotExecutable { errno, .. } => {
                report.errno = Some(*errno);
                "not_executable"
            }
            Outcome::Refused(refusal) => {
                report.refusal = Some(refusal);
                "refused"
            }
            Outcome::Lost { .. } => "lost",
        };
        report
    }
}

/// Only where the text could not carry the bytes.
fn base64(captured: &Captured) -> Option<String> {
    std::str::from_utf8(&captured.bytes).is_err().then(|| BASE64.encode(&captured.bytes))
}

/// One line of what the sandbox refused, or put aside.
pub fn refused(denial: &Denial) -> String {
    let text = stockade_tools::describe_denial(denial);
    text.trim_start_matches('[').trim_end_matches(']').to_owned()
}

/// What a person is told on stderr; `None` where the command speaks for itself. Relative programs are looked for in the
/// workspace.
pub fn message(finished: &Finished, workspace: &Path) -> Option<String> {
    let ended = match finished.killed.outrun {
        true => "but for processes that forked faster than they could be found",
        false => "with all its processes",
    };
    match &finished.outcome {
        Outcome::Exited { .. } | Outcome::Signaled { .. } => None,
        Outcome::TimedOut { timeout_ms } => Some(format!(
            "the command was ended, {ended}, after {timeout_ms} ms; --timeout and the policy's wall limit set the time"
        )),
        Outcome::LimitExceeded { limit } => {
            Some(format!("the command exceeded its limit {limit}; --limit {limit}=… sets it"))
        }
        Outcome::Cancelled { .. } => Some(format!("the command was cancelled, {ended}")),
        Outcome::SetupFailed(failure) => Some(failure.to_string()),
        Outcome::NotExecutable { program, errno } => Some(format!(
            "cannot execute {program:?} in the sandbox: {}",
            not_executable(program, *errno, workspace)
        )),
        Outcome::Refused(refusal) => Some(refusal.to_string()),
        Outcome::Lost { detail } => {
            Some(format!("the command was lost, and all its processes ended: {detail}"))
        }
    }
}

fn not_executable(program: &str, errno: i32, workspace: &Path) -> String {
    let is_path = program.contains('/');
    match errno {
        libc::ENOENT if is_path => {
            let path = workspace.join(program);
            match interpreter(&path) {
                Some(interpreter) => format!(
                    "its interpreter {interpreter} is not there, or not under a path that the policy can read"
                ),
                None if path.exists() => "it is on this machine; either the policy cannot read it (--read adds a path), or \
                     the loader that it needs is missing in the sandbox"
                    .to_owned(),
                None => "not found; it must be under a path that the policy can read".to_owned(),
            }
        }
        libc::ENOENT => {
            "not found in PATH; it must be under a path that the policy can read".to_owned()
        }
        libc::ENOEXEC => "it has no #! line, and is no binary for this machine".to_owned(),
        libc::EACCES => "permission denied; it must be a file with the permission to execute it (chmod +x), and so must the \
             interpreter that its #! line names"
            .to_owned(),
        errno => std::io::Error::from_raw_os_error(errno).to_string(),
    }
}

/// The interpreter that a script's `#!` line names.
fn interpreter(script: &Path) -> Option<String> {
    // Opening a FIFO would wait for a writer.
    if !script.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return None;
    }
    // No kernel reads more of the line (BINPRM_BUF_SIZE).
    let mut head = Vec::new();
    File::open(script).and_then(|file| file.take(256).read_to_end(&mut head)).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let name = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// The exit code of `run` (spec 10.2). `stopped_by` is the signal that cancelled it, if one did.
pub fn exit_code(outcome: &Outcome, stopped_by: Option<i32>) -> u8 {
    let signal =
        |number: i32| u8::try_from(number).map_or(u8::MAX, |n| exit::SIGNAL.saturating_add(n));
    match outcome {
        Outcome::Exited { code } => u8::try_from(*code).unwrap_or(u8::MAX),
        Outcome::Signaled { signal: number } => signal(*number),
        Outcome::TimedOut { .. } => exit::TIMED_OUT,
        // The signal by which the kernel ends who exceeds it; for the others, by which Stockade does.
        Outcome::LimitExceeded { limit } => signal(match limit {
            LimitName::Cpu => libc::SIGXCPU,
            LimitName::FileSize => libc::SIGXFSZ,
            LimitName::Memory | LimitName::Pids | LimitName::Files | LimitName::Output => {
                libc::SIGKILL
            }
        }),
        Outcome::Cancelled { .. } => signal(stopped_by.unwrap_or(libc::SIGINT)),
        Outcome::SetupFailed(_) => exit::SETUP_FAILED,
        Outcome::NotExecutable { errno: libc::ENOENT, .. } => exit::NOT_FOUND,
        Outcome::NotExecutable { .. } | Outcome::Refused(_) => exit::REFUSED,
        Outcome::Lost { .. } => signal(libc::SIGKILL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use stockade_types::{CancelReason, Layer, LayerState};

    fn setup_failure() -> SetupFailure {
        SetupFailure {
            step: "mount-proc".into(),
            subject: Some("/proc".into()),
            errno: Some(1),
            detail: "not permitted".into(),
            remedy: "run it unmasked".into(),
        }
    }

    fn outcomes() -> Vec<(Outcome, &'static str, u8)> {
        let refusal = Refusal { by: "policy".into(), reason: "no proxy".into() };
        let not_executable = |errno| Outcome::NotExecutable { program: "x".into(), errno };
        vec![
            (Outcome::Exited { code: 7 }, "exited", 7),
            (Outcome::Exited { code: 255 }, "exited", 255),
            (Outcome::Signaled { signal: 11 }, "signaled", 139),
            (Outcome::TimedOut { timeout_ms: 5 }, "timed_out", 124),
            (Outcome::LimitExceeded { limit: LimitName::Cpu }, "limit_exceeded", 152),
            (Outcome::LimitExceeded { limit: LimitName::Memory }, "limit_exceeded", 137),
            (Outcome::Cancelled { reason: CancelReason::UserInterrupted }, "cancelled", 143),
            (Outcome::SetupFailed(setup_failure()), "setup_failed", 125),
            (not_executable(libc::ENOENT), "not_executable", 127),
            (not_executable(libc::EACCES), "not_executable", 126),
            (Outcome::Refused(refusal), "refused", 126),
            (Outcome::Lost { detail: "gone".into() }, "lost", 137),
        ]
    }

    fn object(report: &Report) -> Value {
        serde_json::to_value(report).unwrap()
    }

    // spec 10.1, 10.2
    #[test]
    fn every_outcome_has_its_name_and_its_exit_code() {
        for (outcome, name, code) in outcomes() {
            assert_eq!(exit_code(&outcome, Some(libc::SIGTERM)), code, "{outcome:?}");
            let finished = Finished::never_ran(outcome);
            let report = object(&Report::whole(&finished, &LayerReport::default(), Path::new("/")));
            assert_eq!(report["outcome"], name);
        }
    }

    // spec 10.1: the keys
    #[test]
    fn the_object_has_the_contracts_keys_whatever_happened() {
        for (outcome, ..) in outcomes() {
            let finished = Finished::never_ran(outcome);
            let layers = LayerReport::default();
            let status = object(&Report::status(&finished, &layers, Path::new("/")));
            let whole = object(&Report::whole(&finished, &layers, Path::new("/")));
            for key in [
                "outcome",
                "exit_code",
                "signal",
                "truncated",
                "usage",
                "denials",
                "killed",
                "layers",
            ] {
                assert!(status.get(key).is_some() && whole.get(key).is_some(), "{key}");
            }
            for key in ["stdout", "stderr"] {
                assert!(status.get(key).is_none() && whole[key].is_string(), "{key}");
            }
        }
    }

    #[test]
    fn a_failed_set_up_is_named_with_its_step_and_its_remedy() {
        let finished = Finished::never_ran(Outcome::SetupFailed(setup_failure()));
        let report = object(&Report::whole(&finished, &LayerReport::default(), Path::new("/")));
        assert_eq!(report["failure"]["step"], "mount-proc");
        assert_eq!(
            report["message"],
            "sandbox set-up failed at mount-proc (/proc): not permitted; run it unmasked"
        );
        assert_eq!(report["exit_code"], Value::Null);
    }

    #[test]
    fn output_that_is_no_utf8_is_given_as_text_and_as_bytes() {
        let mut finished = Finished::never_ran(Outcome::Exited { code: 0 });
        finished.stdout.bytes = b"a\xffb".to_vec();
        finished.stderr.bytes = b"plain".to_vec();
        let mut layers = LayerReport::default();
        layers.push(Layer::Landlock, LayerState::Enforced { detail: "abi 7".into() });
        let report = object(&Report::whole(&finished, &layers, Path::new("/")));
        assert_eq!(report["stdout"], "a\u{fffd}b");
        assert_eq!(report["stdout_base64"], "Yf9i");
        assert_eq!(report["stderr"], "plain");
        assert!(report.get("stderr_base64").is_none());
        assert_eq!(
            report["layers"],
            json!([{"layer": "landlock", "state": "enforced", "detail": "abi 7"}])
        );
    }
}
