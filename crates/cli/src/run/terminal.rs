//! `--tty`: a terminal of the command's own, joined to ours.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use stockade_sandbox::{Cell, CommandSpec, SandboxError};
use stockade_subprocess::pty::{RawMode, Size, Terminal, TerminalError};
use stockade_subprocess::{Finished, RunOptions};
use stockade_types::SetupFailure;
use tokio::sync::mpsc::UnboundedReceiver;

/// Runs it in a terminal. Where our own stdin is one, it is in raw mode meanwhile: Ctrl-C goes to the command.
pub async fn run(
    cell: &dyn Cell,
    mut command: CommandSpec,
    options: RunOptions,
    stop: &mut UnboundedReceiver<i32>,
    stopped_by: &mut Option<i32>,
) -> Result<Finished, SandboxError> {
    let host = std::io::stdin();
    let (terminal, command_end) =
        Terminal::open(Size::of(&host).unwrap_or_default()).map_err(failure)?;
    command_end.attach(&mut command).map_err(failure)?;
    let input = host
        .as_fd()
        .try_clone_to_owned()
        .map_err(|source| failure(TerminalError::Host { action: "duplicating stdin", source }))?;
    let raw = match host.is_terminal() {
        true => Some(RawMode::enter(&host).map_err(failure)?),
        false => None,
    };
    let relay = terminal.relay(input, std::io::stdout()).map_err(failure)?;
    let finished = {
        let mut end = std::pin::pin!(super::supervise(cell, command, options, stop, stopped_by));
        if raw.is_some() {
            tokio::select! {
                finished = &mut end => finished,
                error = relay.follow_size(&host) => {
                    tracing::warn!(%error, "the terminal's size is not followed any more");
                    end.await
                }
            }
        } else {
            end.await
        }
    };
    let copied = relay.finish().await;
    drop(raw);
    if let Err(error) = copied {
        crate::complain(&error.to_string());
    }
    finished
}

fn failure(error: TerminalError) -> SetupFailure {
    SetupFailure {
        step: "terminal".to_owned(),
        subject: None,
        errno: None,
        detail: error.to_string(),
        remedy: String::new(),
    }
}
