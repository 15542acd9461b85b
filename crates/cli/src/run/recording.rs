//! What `run` and `shell` write down when `--state-dir` asks for it (spec 9.2). Without it none of this is touched: the start of a plain
//! `run` is not to wait for a ledger.

use super::failure;
use crate::complain;
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use stockade_ledger::{
    ApproverKind, DecidedBy, Entry, Event, Ledger, LedgerOptions, LedgerPaths, Verdict,
};
use stockade_policy::Policy;
use stockade_runtime::recorded_digest;
use stockade_sandbox::SandboxError;
use stockade_subprocess::Finished;
use stockade_types::{CallId, LayerReport, LayerState, Outcome, Refusal, SessionId};

/// The ledger's key is in this folder: made, and hidden from the command.
pub fn folder(state_dir: &Path, workspace: &Path) -> Result<PathBuf, SandboxError> {
    let failed = |error: std::io::Error| {
        failure("ledger", error.raw_os_error(), format!("{}: {error}", state_dir.display()))
    };
    std::fs::create_dir_all(state_dir).map_err(failed)?;
    let folder = state_dir.canonicalize().map_err(failed)?;
    if workspace.starts_with(&folder) {
        let reason = format!(
            "the workspace lies in {}, where the ledger is kept, so that the command could change it; name another folder with --state-dir",
            folder.display()
        );
        return Err(Refusal { by: "ledger".to_owned(), reason }.into());
    }
    Ok(folder)
}

/// A command's records: one session of one call.
pub struct Recording {
    ledger: Ledger,
    session: SessionId,
    policy_digest: String,
    begun: Instant,
}

impl Recording {
    /// Writes down what is about to run. When that fails nothing may.
    pub fn begin(
        state_dir: &Path,
        command: &[OsString],
        policy: &Policy,
        workspace: &Path,
        layers: &LayerReport,
    ) -> Result<Self, SandboxError> {
        let failed = |problem: String| SandboxError::from(failure("ledger", None, problem));
        let ledger = Ledger::open(LedgerPaths::of_state_dir(state_dir), LedgerOptions::default())
            .map_err(|error| failed(error.to_string()))?;
        let session = SessionId::new(uuid::Uuid::new_v4().to_string()).map_err(failed)?;
        let recording =
            Self { ledger, session, policy_digest: policy.digest(), begun: Instant::now() };
        let arguments = json!({
            "command": command.iter().map(|word| readable(word)).collect::<Vec<_>>().join(" "),
            "argv": command.iter().map(|word| argument(word)).collect::<Vec<_>>(),
        });
        let arguments_sha256 = recorded_digest("run", &arguments);
        let mut events = vec![Event::SessionStarted {
            policy: policy.name.clone(),
            policy_digest: recording.policy_digest.clone(),
            workspace: workspace.display().to_string(),
            ceiling: None,
            approver: ApproverKind::Deny,
            uid: rustix::process::geteuid().as_raw(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            correlation: Value::Null,
        }];
        for layer in &layers.0 {
            if let LayerState::Missing { reason } = &layer.state {
                let what = layer.layer.name().to_owned();
                events.push(Event::NotEnforced { what, reason: reason.clone() });
            }
        }
        events.push(Event::CallRequested { arguments, arguments_sha256 });
        events.push(Event::Decided {
            decision: Verdict::Allow,
            by: DecidedBy::Policy,
            approver: None,
            rule: String::new(),
            reason: "who started stockade asked for it, and the policy confines it".to_owned(),
            policy_digest: recording.policy_digest.clone(),
            permissions: Value::Null,
        });
        for event in events {
            recording.append(event).map_err(failed)?;
        }
        Ok(recording)
    }

    fn append(&self, event: Event) -> Result<(), String> {
        let is_session = matches!(event, Event::SessionStarted { .. } | Event::SessionEnded { .. });
        let call = (!is_session).then(|| CallId("run".to_owned()));
        let tool = call.as_ref().map(|_| "run".to_owned());
        let entry = Entry { session: Some(self.session.clone()), turn: None, call, tool, event };
        self.ledger.append(&entry).map(|_| ()).map_err(|error| error.to_string())
    }

    /// Writes down that the command could not be run.
    pub fn broken_off(&self, error: &SandboxError) {
        self.write_end(vec![Event::CallEnded {
            outcome: "setup_failed".to_owned(),
            is_error: true,
            exit_code: None,
            policy_digest: self.policy_digest.clone(),
            took_ms: None,
            message: error.to_string(),
        }]);
    }

    /// Writes down how it ended, and what was refused to it. It has run: what cannot be written any more is told.
    pub fn end(&self, finished: &Finished) {
        let outcome = serde_json::to_value(&finished.outcome).unwrap_or_default();
        let outcome = outcome.get("outcome").and_then(Value::as_str).unwrap_or_default().to_owned();
        let exit_code = match finished.outcome {
            Outcome::Exited { code } => Some(code),
            _ => None,
        };
        let mut events: Vec<Event> = finished
            .denials
            .iter()
            .map(|denial| Event::SandboxDenied { denial: denial.clone(), decision: Verdict::Deny })
            .collect();
        events.push(Event::CallEnded {
            outcome,
            is_error: exit_code != Some(0),
            exit_code,
            policy_digest: self.policy_digest.clone(),
            took_ms: u64::try_from(self.begun.elapsed().as_millis()).ok(),
            message: String::new(),
        });
        self.write_end(events);
    }

    fn write_end(&self, mut events: Vec<Event>) {
        events.push(Event::SessionEnded { calls: 1, reason: "its command ended".to_owned() });
        let written = events.into_iter().try_for_each(|event| self.append(event));
        let signed = written
            .and_then(|()| self.ledger.checkpoint().map(|_| ()).map_err(|error| error.to_string()));
        if let Err(error) = signed {
            complain(&format!("how the command ended is not in the ledger: {error}"));
        }
    }
}

fn readable(word: &OsStr) -> String {
    word.to_string_lossy().into_owned()
}

/// A word as it is, or, where it is no text, its bytes escaped.
fn argument(word: &OsStr) -> Value {
    match word.to_str() {
        Some(text) => text.into(),
        None => json!({ "bytes": word.as_bytes().escape_ascii().to_string() }),
    }
}
