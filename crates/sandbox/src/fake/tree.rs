//! A scripted command while it lives, and the handle to it.

use super::script::{OnTerminate, Script, Step};
use super::{Running, World};
use crate::{ChildEvent, ChildHandle, Exit, TreeSignal};
use async_trait::async_trait;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use stockade_types::Denial;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

pub(super) struct FakeHandle {
    pub(super) events: mpsc::UnboundedReceiver<ChildEvent>,
    pub(super) signals: mpsc::UnboundedSender<TreeSignal>,
    pub(super) denials: Vec<Denial>,
    pub(super) world: Arc<World>,
}

#[async_trait]
impl ChildHandle for FakeHandle {
    async fn event(&mut self) -> ChildEvent {
        match self.events.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    fn signal(&mut self, signal: TreeSignal) -> io::Result<()> {
        self.world.state().signals.push(signal);
        // 3 is ESRCH, as kill(2) says when the tree is gone.
        self.signals.send(signal).map_err(|_| io::Error::from_raw_os_error(3))
    }

    fn denials(&mut self) -> Vec<Denial> {
        self.denials.clone()
    }
}

/// A scripted command while it lives.
pub(super) struct Tree {
    pub(super) script: Script,
    pub(super) program: String,
    pub(super) stdin: Option<pipe::Receiver>,
    pub(super) stdout: Option<pipe::Sender>,
    pub(super) stderr: Option<pipe::Sender>,
    pub(super) signals: mpsc::UnboundedReceiver<TreeSignal>,
    pub(super) events: mpsc::UnboundedSender<ChildEvent>,
    pub(super) _running: Running,
}

/// What made a tree stop before its script's end.
enum Stopped {
    Ends(Exit),
    Killed,
    /// The handle was dropped.
    Dropped,
}

impl Tree {
    pub(super) async fn live(mut self) {
        let steps: VecDeque<Step> = std::mem::take(&mut self.script.steps).into();
        let mut exit = self.script.exit;
        for step in steps {
            let (event, last) = match step {
                Step::FailSetup(failure) => (Some(ChildEvent::SetupFailed(failure)), true),
                Step::NotExecutable(errno) => {
                    let program = self.program.clone();
                    (Some(ChildEvent::NotExecutable { program, errno }), true)
                }
                Step::Vanish(detail) => {
                    self.send(ChildEvent::Lost { detail });
                    return;
                }
                other => {
                    match self.act(other).await {
                        None => continue,
                        Some(Stopped::Ends(how)) => exit = how,
                        Some(Stopped::Killed) => exit = Exit::Signal(9),
                        Some(Stopped::Dropped) => return,
                    }
                    (None, true)
                }
            };
            if let Some(event) = event {
                self.send(event);
                self.gone();
                return;
            }
            if last {
                break;
            }
        }
        self.end(exit).await;
    }

    /// Does one step; `Some` if a signal ended the tree meanwhile.
    async fn act(&mut self, step: Step) -> Option<Stopped> {
        let on_terminate = self.script.on_terminate;
        let work = async {
            match step {
                Step::Stdout(bytes) => write_all(self.stdout.as_ref(), &bytes).await,
                Step::Stderr(bytes) => write_all(self.stderr.as_ref(), &bytes).await,
                Step::Cat => copy(self.stdin.take(), self.stdout.as_ref()).await,
                Step::Sleep(time) => tokio::time::sleep(time).await,
                Step::Hang => std::future::pending().await,
                _ => {
                    self.stdout = None;
                    self.stderr = None;
                }
            }
        };
        tokio::select! {
            biased;
            stopped = stopped(&mut self.signals, on_terminate) => Some(stopped),
            () = work => None,
        }
    }

    /// The main process has ended; those that it leaves live on.
    async fn end(&mut self, exit: Exit) {
        let Script { left, left_for, usage, on_terminate, .. } = self.script;
        let killed = exit == Exit::Signal(9);
        let left = if killed { 0 } else { left };
        self.send(ChildEvent::MainEnded { exit, left, usage });
        if left > 0 {
            let by_itself = async {
                match left_for {
                    Some(time) => tokio::time::sleep(time).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = stopped(&mut self.signals, on_terminate) => {}
                () = by_itself => {}
            }
        }
        self.gone();
    }

    fn gone(&mut self) {
        self.stdout = None;
        self.stderr = None;
        let usage = self.script.usage;
        self.send(ChildEvent::Gone { usage });
    }

    fn send(&self, event: ChildEvent) {
        // A dropped handle has nobody to tell.
        let _ = self.events.send(event);
    }
}

/// Waits for the signal that ends the tree.
async fn stopped(
    signals: &mut mpsc::UnboundedReceiver<TreeSignal>,
    on_terminate: OnTerminate,
) -> Stopped {
    loop {
        let signal = match signals.recv().await {
            None => return Stopped::Dropped,
            Some(TreeSignal::Kill) => return Stopped::Killed,
            Some(TreeSignal::Terminate) => 15,
            Some(TreeSignal::Interrupt) => 2,
            Some(TreeSignal::Stop | TreeSignal::Continue) => continue,
        };
        match on_terminate {
            OnTerminate::Ignore => {}
            OnTerminate::Die => return Stopped::Ends(Exit::Signal(signal)),
            OnTerminate::CleanUp(time, exit) => {
                let killed = async {
                    loop {
                        match signals.recv().await {
                            Some(TreeSignal::Kill) => return Stopped::Killed,
                            None => return Stopped::Dropped,
                            Some(_) => {}
                        }
                    }
                };
                return tokio::select! {
                    biased;
                    stopped = killed => stopped,
                    () = tokio::time::sleep(time) => Stopped::Ends(exit),
                };
            }
        }
    }
}

/// Writes everything, or as much as a reader takes before it goes away.
async fn write_all(pipe: Option<&pipe::Sender>, mut bytes: &[u8]) {
    let Some(pipe) = pipe else { return };
    while !bytes.is_empty() {
        match pipe.try_write(bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if pipe.writable().await.is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

async fn copy(from: Option<pipe::Receiver>, to: Option<&pipe::Sender>) {
    let Some(from) = from else { return };
    let mut buffer = [0; 8192];
    loop {
        match from.try_read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => write_all(to, buffer.get(..count).unwrap_or_default()).await,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if from.readable().await.is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}
