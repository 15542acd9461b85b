//! A cell whose one command follows a script on tokio's clock, over real pipes.
#![allow(dead_code, missing_docs)]

use async_trait::async_trait;
use std::collections::VecDeque;
use std::io::{PipeReader, PipeWriter, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stockade_policy::LimitsPolicy;
use stockade_sandbox::file::{FileDone, FileError, FileOp};
use stockade_sandbox::{
    Cell, Child, ChildEvent, ChildHandle, CommandSpec, Exit, SandboxError, Stdio, TreeSignal,
};
use stockade_types::{Denial, LayerReport, Usage};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug)]
pub enum Do {
    Out(Vec<u8>),
    Err(Vec<u8>),
    /// No process holds the writing ends any more.
    CloseOutput,
    Tell(ChildEvent),
}

pub type Steps = Vec<(u64, Do)>;

/// What the tree does: at its start, and after the first of each signal. Times are milliseconds from there.
#[derive(Default)]
pub struct Script {
    pub start: Steps,
    pub on_terminate: Steps,
    pub on_interrupt: Steps,
    pub on_kill: Steps,
    /// Signals fail as if nothing were left to signal.
    pub gone_before_signals: bool,
    pub denials: Vec<Denial>,
}

pub fn out(text: &str) -> Do {
    Do::Out(text.as_bytes().to_vec())
}

pub fn exits(code: i32, left: u32) -> Do {
    Do::Tell(ChildEvent::MainEnded { exit: Exit::Code(code), left, usage: Usage::default() })
}

pub fn dies_by(signal: i32) -> Do {
    let exit = Exit::Signal(signal);
    Do::Tell(ChildEvent::MainEnded { exit, left: 0, usage: Usage::default() })
}

pub fn gone() -> Do {
    Do::Tell(ChildEvent::Gone { usage: Usage::default() })
}

#[derive(Default)]
pub struct Seen {
    /// Each signal with its time from the start.
    pub signals: Vec<(Duration, TreeSignal)>,
    pub spawned: bool,
    pub dropped: bool,
    /// The outer writing ends, kept open where a test asks for it.
    pub held: Option<PipeWriter>,
    pub stdin: Option<PipeReader>,
}

pub struct ScriptedCell {
    script: Mutex<Option<Script>>,
    pub limits: LimitsPolicy,
    pub error: Option<SandboxError>,
    /// Someone outside the tree keeps a copy of stdout's writing end.
    pub hold_output: bool,
    pub spawn_hangs: bool,
    /// How long after the command's start that is told.
    pub told_after: std::time::Duration,
    /// Our end of a terminal, where the command has one.
    pub terminal: Mutex<Option<std::os::fd::OwnedFd>>,
    pub seen: Arc<Mutex<Seen>>,
}

impl ScriptedCell {
    fn spawn_now(&self, command: CommandSpec) -> Result<Child, SandboxError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let script = self.script.lock().unwrap().take().expect("one spawn");
        let mut seen = self.seen.lock().unwrap();
        seen.spawned = true;
        let piped = |stdio: &Stdio| matches!(stdio, Stdio::Pipe).then(|| std::io::pipe().unwrap());
        let (stdout, out) = piped(&command.stdout).unzip();
        let (stderr, err) = piped(&command.stderr).unzip();
        let (stdin_reader, stdin) = piped(&command.stdin).unzip();
        seen.stdin = stdin_reader;
        if self.hold_output {
            seen.held = out.as_ref().map(|pipe: &PipeWriter| pipe.try_clone().unwrap());
        }
        let started = Instant::now();
        let mut handle = ScriptedChild {
            started,
            pending: VecDeque::new(),
            script,
            out,
            err,
            seen: self.seen.clone(),
        };
        let steps = std::mem::take(&mut handle.script.start);
        handle.schedule(steps);
        Ok(Child {
            stdin: stdin.map(Into::into),
            stdout: stdout.map(Into::into),
            stderr: stderr.map(Into::into),
            terminal: self.terminal.lock().unwrap().take(),
            handle: Box::new(handle),
        })
    }

    pub fn new(script: Script) -> Self {
        Self {
            script: Mutex::new(Some(script)),
            limits: LimitsPolicy::default(),
            error: None,
            hold_output: false,
            spawn_hangs: false,
            told_after: std::time::Duration::ZERO,
            terminal: Mutex::default(),
            seen: Arc::default(),
        }
    }

    pub fn signals(&self) -> Vec<(u64, TreeSignal)> {
        let seen = self.seen.lock().unwrap();
        seen.signals.iter().map(|(at, signal)| (at.as_millis() as u64, *signal)).collect()
    }
}

pub fn command() -> CommandSpec {
    CommandSpec {
        argv: vec!["scripted".into()],
        env: Vec::new(),
        cwd: PathBuf::from("/"),
        stdin: Stdio::Null,
        stdout: Stdio::Pipe,
        stderr: Stdio::Pipe,
        terminal: None,
    }
}

#[async_trait]
impl Cell for ScriptedCell {
    async fn spawn(&self, command: CommandSpec) -> Result<Child, SandboxError> {
        if self.spawn_hangs {
            std::future::pending::<()>().await;
        }
        let child = self.spawn_now(command);
        if !self.told_after.is_zero() {
            tokio::time::sleep(self.told_after).await;
        }
        child
    }
    async fn file(
        &self,
        _: FileOp,
        _: CancellationToken,
    ) -> Result<Result<FileDone, FileError>, SandboxError> {
        unreachable!("a command's tests do no file work")
    }

    fn layers(&self) -> LayerReport {
        LayerReport::default()
    }

    fn limits(&self) -> LimitsPolicy {
        self.limits.clone()
    }
}

struct ScriptedChild {
    started: Instant,
    pending: VecDeque<(Instant, Do)>,
    script: Script,
    out: Option<PipeWriter>,
    err: Option<PipeWriter>,
    seen: Arc<Mutex<Seen>>,
}

impl ScriptedChild {
    fn schedule(&mut self, steps: Steps) {
        let now = Instant::now();
        self.pending
            .extend(steps.into_iter().map(|(ms, step)| (now + Duration::from_millis(ms), step)));
        self.pending.make_contiguous().sort_by_key(|(at, _)| *at);
    }
}

#[async_trait]
impl ChildHandle for ScriptedChild {
    async fn event(&mut self) -> ChildEvent {
        loop {
            let Some((at, _)) = self.pending.front() else {
                return std::future::pending().await;
            };
            sleep_until(*at).await;
            match self.pending.pop_front().unwrap().1 {
                Do::Out(bytes) => self.out.as_mut().unwrap().write_all(&bytes).unwrap(),
                Do::Err(bytes) => self.err.as_mut().unwrap().write_all(&bytes).unwrap(),
                Do::CloseOutput => (self.out, self.err) = (None, None),
                Do::Tell(event) => {
                    if matches!(event, ChildEvent::Gone { .. } | ChildEvent::Lost { .. }) {
                        (self.out, self.err) = (None, None);
                        self.pending.clear();
                    }
                    return event;
                }
            }
        }
    }

    fn signal(&mut self, signal: TreeSignal) -> std::io::Result<()> {
        self.seen.lock().unwrap().signals.push((self.started.elapsed(), signal));
        if self.script.gone_before_signals {
            return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
        }
        let steps = std::mem::take(match signal {
            TreeSignal::Interrupt => &mut self.script.on_interrupt,
            TreeSignal::Terminate => &mut self.script.on_terminate,
            TreeSignal::Stop | TreeSignal::Continue => return Ok(()),
            TreeSignal::Kill => {
                self.pending.clear();
                &mut self.script.on_kill
            }
        });
        self.schedule(steps);
        Ok(())
    }

    fn denials(&mut self) -> Vec<Denial> {
        self.script.denials.clone()
    }
}

impl Drop for ScriptedChild {
    fn drop(&mut self) {
        self.seen.lock().unwrap().dropped = true;
    }
}
