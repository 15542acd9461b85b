//! The person at the terminal (spec 2.6). Asked on `/dev/tty`, since stdin is the turn's. Where there is no terminal nobody is asked,
//! and the answer is no at once.

use async_trait::async_trait;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{self, OptionalActions, SpecialCodeIndex, Termios};
use std::fmt::Write as _;
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
        let question = question(request);
        let may_hold = request.may_hold_for_session;
        let timeout = self.timeout;
        // Set when this future is dropped: the thread must not go on waiting for a key.
        let given_up = GivenUp(Arc::default());
        let flag = Arc::clone(&given_up.0);
        let answer =
            tokio::task::spawn_blocking(move || ask(&question, may_hold, timeout, &flag)).await;
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
fn question(request: &ApprovalRequest) -> String {
    let mut text = String::from("\n");
    // Writing to a String cannot fail.
    let _ =
        writeln!(text, "── {} wants to run, and must be approved ──", shown(request.call.tool()));
    if let Some(arguments) = request.call.input().value().as_object() {
        for (name, value) in arguments
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "sandbox_permissions" | "justification"))
        {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let _ = writeln!(text, "  {}: {}", shown(name), shown(&value));
        }
    }
    if let Some(Display::Diff { path, hunks, omitted_lines }) = &request.preview {
        let _ = writeln!(text, "  It would change {}:", shown(path));
        for hunk in hunks {
            for line in &hunk.lines {
                let _ = writeln!(text, "    {}", shown(line));
            }
        }
        if *omitted_lines > 0 {
            let _ = writeln!(text, "    … and {omitted_lines} more lines");
        }
    }
    for reason in &request.reasons {
        let _ = match reason {
            ApprovalReason::Hook { name, question } => {
                writeln!(text, "  The hook {} asks: {}", shown(name), shown(question))
            }
            ApprovalReason::Rule { rule, reason } => {
                writeln!(text, "  A rule asks: {} {}", shown(rule), shown(reason))
            }
            ApprovalReason::Tool => writeln!(text, "  The tool itself asks."),
            ApprovalReason::Escalation { permissions, justification } => {
                let permissions = serde_json::to_string(permissions).unwrap_or_default();
                writeln!(
                    text,
                    "  It wants more than its policy: {}\n  It says why: {}",
                    shown(&permissions),
                    shown(justification)
                )
            }
        };
    }
    for denial in &request.evidence {
        let _ = writeln!(text, "  Before: {}", shown(&describe_denial(denial)));
    }
    let session = if request.may_hold_for_session { "  s: yes, for the session" } else { "" };
    let _ = write!(text, "  y: yes, this once{session}  n: no  q: no, and stop the turn ? ");
    text
}

/// Controls and characters that turn the text's direction are shown as what they are: nothing may paint over the question.
fn shown(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        let hidden = matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}');
        match c {
            '\n' => shown.push_str("\n      "),
            '\t' => shown.push(c),
            c if c.is_control() || hidden => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

fn ask(question: &str, may_hold: bool, timeout: Duration, given_up: &AtomicBool) -> Decision {
    let Ok(mut tty) = OpenOptions::new().read(true).write(true).open("/dev/tty") else {
        return no("there is no terminal at which somebody could be asked");
    };
    let Ok(raw) = Raw::enter(&tty) else {
        return no("the terminal cannot be asked for a key");
    };
    if tty.write_all(question.as_bytes()).is_err() {
        return no("the terminal cannot be written to");
    }
    let ends = Instant::now() + timeout;
    let decision = loop {
        if given_up.load(Ordering::Acquire) {
            break no("no answer is wanted any more");
        }
        let left = ends.saturating_duration_since(Instant::now());
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
