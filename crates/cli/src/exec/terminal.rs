//! The person at the terminal (spec 2.6). Asked on `/dev/tty`, since stdin is the turn's. Where there is no terminal nobody is asked,
//! and the answer is no at once.

use crate::shown::{foreign_letters, in_lines, on_one_line};
use async_trait::async_trait;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{self, OptionalActions, SpecialCodeIndex, Termios};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stockade_runtime::{
    ApprovalReason, ApprovalRequest, Approver, ApproverKind, Decision, HookError,
};
use stockade_tools::{Display, describe_denial};
use tokio::sync::Mutex;

/// How often a question that nobody wants answered any more is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Asks at `/dev/tty`. One question at a time.
pub struct TerminalApprover {
    timeout: Duration,
    turn: Mutex<()>,
}

impl TerminalApprover {
    pub fn new(timeout: Duration) -> Self {
        Self { timeout, turn: Mutex::default() }
    }
}

#[async_trait]
impl Approver for TerminalApprover {
    async fn decide(&self, request: &ApprovalRequest) -> Result<Decision, HookError> {
        let _turn = self.turn.lock().await;
        let request = request.clone();
        let timeout = self.timeout;
        // Set when this future is dropped: the thread must not go on waiting for a key.
        let given_up = GivenUp(Arc::default());
        let flag = Arc::clone(&given_up.0);
        let answer = tokio::task::spawn_blocking(move || ask(&request, timeout, &flag)).await;
        Ok(answer.unwrap_or_else(|error| no(&format!("the terminal could not be asked: {error}"))))
    }

    fn kind(&self) -> ApproverKind {
        ApproverKind::Terminal
    }
}

struct GivenUp(Arc<AtomicBool>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn no(reason: &str) -> Decision {
    Decision::Deny { reason: reason.to_owned() }
}

/// What the person reads: the exact bytes, what they would change, the evidence, the narrowest grant.
fn question(request: &ApprovalRequest, size: Size) -> String {
    let line = |head: &str, text: &str| in_lines(head, text, size.columns);
    let mut text = String::from("\n");
    text.push_str(&line("── must be approved before it runs: ", request.call.tool()));
    if let Some(arguments) = request.call.input().value().as_object() {
        for (name, value) in arguments
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "sandbox_permissions" | "justification"))
        {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            text.push_str(&line(&format!("  {}: ", on_one_line(name)), &value));
            if matches!(name.as_str(), "command" | "file_path" | "path")
                && let Some(letters) = foreign_letters(&value)
            {
                text.push_str(&line(
                    "  Not ASCII in it, and perhaps not what it seems: ",
                    &letters,
                ));
            }
        }
    }
    if let Some(place) = &request.leads_to {
        text.push_str(&line("  A link is on this path, and leads to: ", &place.to_string_lossy()));
    }
    if let Some(Display::Diff { path, hunks, omitted_lines }) = &request.preview {
        text.push_str(&line("  It would change: ", path));
        for changed in hunks.iter().flat_map(|hunk| &hunk.lines) {
            text.push_str(&line("    │ ", changed));
        }
        if *omitted_lines > 0 {
            text.push_str(&format!("  … and {omitted_lines} more lines\n"));
        }
    }
    for reason in &request.reasons {
        text.push_str(&match reason {
            ApprovalReason::Hook { name, question } => {
                line("  A hook asks: ", &format!("{name}: {question}"))
            }
            ApprovalReason::Rule { rule, reason } => {
                line("  A rule asks: ", &format!("{rule} {reason}"))
            }
            ApprovalReason::Tool => "  The tool itself asks.\n".to_owned(),
            ApprovalReason::Escalation { permissions, justification } => {
                let permissions = serde_json::to_string(permissions).unwrap_or_default();
                line("  It wants more than its policy: ", &permissions)
                    + &line("  It says why: ", justification)
            }
        });
    }
    for denial in &request.evidence {
        let head = if denial.is_evidence() {
            "  Before: "
        } else {
            "  No evidence, only what the command itself printed: "
        };
        text.push_str(&line(head, &describe_denial(denial)));
    }
    if request.may_hold_for_session {
        let granted = request.granted_to_session.join(", ");
        text.push_str(&line(
            "  With s, every later call of this session, whatever it runs, may do this without being asked about: ",
            &granted,
        ));
    }
    let lines = text.lines().count();
    if lines + 1 > size.rows {
        text.push_str(&format!(
            "  This is {lines} lines, more than the screen shows: scroll up, and read from the beginning.\n"
        ));
    }
    let session = if request.may_hold_for_session { "  s: yes, for the session" } else { "" };
    text.push_str(&format!("  y: yes, this once{session}  n: no  q: no, and stop the turn ? "));
    text
}

/// The terminal's size.
#[derive(Clone, Copy)]
struct Size {
    columns: usize,
    rows: usize,
}

impl Size {
    fn of(tty: &File) -> Self {
        let size = termios::tcgetwinsize(tty).ok();
        let size = size.filter(|size| size.ws_col >= 20 && size.ws_row > 0);
        size.map_or(Self { columns: 80, rows: 24 }, |size| Self {
            columns: usize::from(size.ws_col),
            rows: usize::from(size.ws_row),
        })
    }
}

fn ask(request: &ApprovalRequest, timeout: Duration, given_up: &AtomicBool) -> Decision {
    let may_hold = request.may_hold_for_session;
    let Ok(mut tty) = OpenOptions::new().read(true).write(true).open("/dev/tty") else {
        return no("there is no terminal at which somebody could be asked");
    };
    let Ok(raw) = Raw::enter(&tty) else {
        return no("the terminal cannot be asked for a key");
    };
    if tty.write_all(question(request, Size::of(&tty)).as_bytes()).is_err() {
        return no("the terminal cannot be written to");
    }
    let begun = Instant::now();
    let decision = loop {
        if given_up.load(Ordering::Acquire) {
            break no("no answer is wanted any more");
        }
        let left = timeout.saturating_sub(begun.elapsed());
        if left.is_zero() {
            break no("nobody answered in time");
        }
        match key(&mut tty, left.min(LOOK)) {
            Key::None => {}
            Key::Gone => break no("the terminal is gone"),
            Key::Byte(b'y' | b'Y') => break Decision::Allow,
            Key::Byte(b's' | b'S') if may_hold => {
                break Decision::AllowSession { expires_in: None };
            }
            Key::Byte(b'q' | b'Q') => {
                break Decision::Stop {
                    reason: "the person at the terminal stopped the turn".into(),
                };
            }
            // n, Escape, Ctrl-C, Ctrl-D, Ctrl-Z, Enter: only a definite yes is one.
            Key::Byte(b'n' | b'N' | 0x1b | 3 | 4 | 26 | b'\r' | b'\n') => {
                break no("the person at the terminal said no");
            }
            Key::Byte(_) => {}
        }
    };
    let word = match decision {
        Decision::Allow | Decision::AllowSession { .. } => "yes\n",
        _ => "no\n",
    };
    // The answer counts whether or not it can be shown.
    let _ = tty.write_all(word.as_bytes());
    drop(raw);
    decision
}

enum Key {
    Byte(u8),
    None,
    Gone,
}

fn key(tty: &mut File, wait: Duration) -> Key {
    let wait = Timespec { tv_sec: 0, tv_nsec: i64::try_from(wait.as_nanos()).unwrap_or(0) };
    let ready = poll(&mut [PollFd::new(tty, PollFlags::IN)], Some(&wait));
    match ready {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Key::None,
        Ok(_) => {}
        Err(_) => return Key::Gone,
    }
    let mut byte = [0];
    match tty.read(&mut byte) {
        Ok(1..) => Key::Byte(byte[0]),
        Ok(0) | Err(_) => Key::Gone,
    }
}

/// The terminal gives each key at once, and Ctrl-C as a key, for as long as this lives. What was typed before the question does not
/// count as its answer.
struct Raw {
    tty: File,
    before: Termios,
}

impl Raw {
    fn enter(tty: &File) -> std::io::Result<Self> {
        let tty = tty.try_clone()?;
        let before = termios::tcgetattr(&tty)?;
        let mut raw = before.clone();
        raw.local_modes -=
            termios::LocalModes::ICANON | termios::LocalModes::ECHO | termios::LocalModes::ISIG;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        termios::tcsetattr(&tty, OptionalActions::Flush, &raw)?;
        Ok(Self { tty, before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Nothing is left to be done where this fails: the terminal is gone.
        let _ = termios::tcsetattr(&self.tty, OptionalActions::Flush, &self.before);
    }
}
