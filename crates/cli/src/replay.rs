//! `stockade replay`: what the model was given in a session, from its log (spec 9.1).

use crate::args::ReplayArgs;
use crate::turn::{self, Dialect};
use crate::{complain, session};
use std::io::{self, Write};
use std::process::ExitCode;
use stockade_runtime::replay;
use stockade_types::SessionId;

/// Prints the session's turns, each as `exec` answered it: a whole turn's answer a line.
pub fn main(args: &ReplayArgs) -> ExitCode {
    match print(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn print(args: &ReplayArgs) -> Result<(), Box<dyn std::error::Error>> {
    let state_dir = session::state_dir(args.state_dir.as_deref()).ok_or(
        "the user's state folder is unknown: set HOME or XDG_STATE_HOME, or name a folder with --state-dir",
    )?;
    let session = SessionId::new(args.session.as_str())?;
    let log = state_dir.join("sessions").join(session.as_str()).join("session.jsonl");
    let dialect = crate::exec::dialect(args.format).unwrap_or(Dialect::Anthropic);
    let mut out = io::stdout().lock();
    for turn in replay(&log)?.iter().filter(|turn| !turn.discarded) {
        if args.lines {
            for result in &turn.results {
                writeln!(out, "{}", turn::stream_item(dialect, result))?;
            }
        } else {
            writeln!(out, "{}", turn::whole_answer(dialect, &turn.results))?;
        }
    }
    out.flush()?;
    Ok(())
}
