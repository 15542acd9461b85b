//! The launcher: opens the session and clones its cells.

use crate::session_root::HOST;
use crate::{cell, probe, session_root};
use std::cell::{Cell, RefCell};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use stockade_plan::{
    Bytes, CellReply, LauncherReply, LauncherRequest, MESSAGE_MAX, Stage, StageFailure, decode,
    encode,
};
use stockade_sys::process::{Cloned, Namespaces, SingleThreaded};
use stockade_sys::{errno, fd, memory, process, signal, socket, tty};

/// Serves a session on its control socket until the runtime closes it. Returns the exit status. The process must have one thread,
/// and gives up its environment, its standard streams and every other descriptor. Enters a user namespace if told to, and if there is
/// one to be had.
pub fn serve(control: OwnedFd, user_namespace: bool) -> i32 {
    match Launcher::prepare(control) {
        Ok(launcher) => launcher.serve(user_namespace),
        Err(_) => 125,
    }
}

struct Launcher {
    proof: SingleThreaded,
    control: OwnedFd,
    /// Never written to: every cell holds the other end, and ends with this process.
    lifetime: OwnedFd,
    lifetime_of_cells: OwnedFd,
    /// The session's root is this process's.
    session_open: Cell<bool>,
    /// Folders of the host that are the session's.
    remove_at_end: RefCell<Vec<Bytes>>,
}

/// How long the cells of a session that is over may take to end.
const CELLS_PATIENCE: Duration = Duration::from_secs(5);

/// What a cell is made of.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub new_network: bool,
    pub bare: bool,
    /// It starts in the session's root, and not in the host's.
    pub session_open: bool,
}

impl Shape {
    fn namespaces(self) -> Namespaces {
        if self.bare {
            // Where the session's root stands, the way back to the host's leads through mounts.
            return if self.session_open { Namespaces::MOUNT } else { Namespaces::NONE };
        }
        cell_namespaces(self.new_network).and(Namespaces::PID)
    }
}

/// What a cell has of its own besides its pid namespace.
fn cell_namespaces(new_network: bool) -> Namespaces {
    // A cgroup namespace is each call's own: it begins at the call's cgroup.
    let namespaces = Namespaces::MOUNT.and(Namespaces::IPC).and(Namespaces::UTS);
    if new_network { namespaces.and(Namespaces::NETWORK) } else { namespaces }
}

/// A step of the set-up as a [`StageFailure`].
pub(crate) fn failure(stage: Stage, error: &io::Error, subject: impl Into<Bytes>) -> StageFailure {
    StageFailure {
        stage,
        errno: errno(error),
        subject: subject.into(),
        detail: if errno(error) == 0 { error.to_string() } else { String::new() },
    }
}

/// Leaves behind what this process has of the runtime's: signal dispositions, environment, descriptors, terminal, working directory.
/// Returns the control socket anew, and the proof that there is one thread.
fn leave_the_runtime(control: OwnedFd) -> io::Result<(SingleThreaded, OwnedFd)> {
    let proof = SingleThreaded::check()?;
    // A host that ignores SIGCHLD would have its children reaped behind our back.
    signal::reset_all();
    signal::ignore_terminal_signals();
    memory::wipe_environment(proof);
    // Above the standard streams, which become /dev/null: a panic message must not land in a socket. What is closed by
    // number has no owner any more.
    let old = control.into_raw_fd();
    let control = fd::duplicate(old)?;
    fd::close_all_but(&[control.as_raw_fd()])?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let null = fd::duplicate(null.into_raw_fd())?;
    fd::install_stdio([null.as_fd(), null.as_fd(), null.as_fd()])?;
    // Fails where this process leads its group already; then it has no terminal of ours to lose either.
    let _ = tty::new_session();
    std::env::set_current_dir("/")?;
    Ok((proof, control))
}

impl Launcher {
    fn prepare(control: OwnedFd) -> io::Result<Self> {
        let (proof, control) = leave_the_runtime(control)?;
        let (lifetime_of_cells, lifetime) = socket::packet_pair()?;
        Ok(Self {
            proof,
            control,
            lifetime,
            lifetime_of_cells,
            session_open: Cell::new(false),
            remove_at_end: RefCell::default(),
        })
    }

    fn serve(self, user_namespace: bool) -> i32 {
        // Unasked: nearly every session wants it, and so it happens while the runtime still reads its policy.
        let entered = match user_namespace {
            true => process::unshare(Namespaces::USER),
            false => Err(io::Error::other("it was not to be tried")),
        };
        let entered = match entered {
            Ok(()) => LauncherReply::MapIds,
            Err(error) => LauncherReply::NoUserNamespace(failure(
                Stage::UserNamespace,
                &error,
                Bytes::default(),
            )),
        };
        if self.reply(&entered).is_err() {
            return 125;
        }
        let Ok(children) = signal::child_watch() else {
            return 125;
        };
        loop {
            let fds = [self.control.as_fd(), children.as_fd()];
            let Ok([request, child]) = signal::wait_readable(fds, -1) else {
                return 125;
            };
            if child {
                signal::drain(children.as_fd());
                while let process::Reaped::Ended(..) = process::reap() {}
            }
            if request {
                match socket::receive_message(self.control.as_fd(), MESSAGE_MAX) {
                    Ok(Some((bytes, fds))) => {
                        if self.answer(&bytes, fds).is_err() {
                            return 125;
                        }
                    }
                    Ok(None) => {
                        self.end_cells();
                        self.remove_folders();
                        return 0;
                    }
                    Err(_) => return 125,
                }
            }
        }
    }

    /// Waits for them: what nobody has waited for is left to the first process of the host's or the container's, which may be one that
    /// leaves it there for ever.
    fn end_cells(&self) {
        let _ = socket::end(self.lifetime.as_fd());
        let patience = Instant::now() + CELLS_PATIENCE;
        loop {
            match process::reap() {
                process::Reaped::Ended(..) => {}
                process::Reaped::Alive if Instant::now() < patience => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                process::Reaped::Alive | process::Reaped::NoChildren => return,
            }
        }
    }

    /// Once nothing of the session writes to them any more.
    fn remove_folders(&self) {
        for folder in self.remove_at_end.take() {
            // From within the session's root, the host's tree lies elsewhere.
            let path = match self.session_open.get() {
                true => Path::new(HOST)
                    .join(folder.as_path().strip_prefix("/").unwrap_or(Path::new(""))),
                false => folder.as_path().to_owned(),
            };
            let _ = stockade_sys::remove::remove_tree(&path);
        }
    }

    fn answer(&self, bytes: &[u8], mut fds: Vec<OwnedFd>) -> io::Result<()> {
        let request = match decode::<LauncherRequest>(bytes) {
            Ok(request) => request,
            Err(error) => {
                return self.reply(&LauncherReply::Failed(StageFailure {
                    stage: Stage::Message,
                    errno: 0,
                    subject: Bytes::default(),
                    detail: error.to_string(),
                }));
            }
        };
        let reply = match request {
            LauncherRequest::OpenSession => match session_root::open() {
                Ok(()) => {
                    self.session_open.set(true);
                    LauncherReply::SessionReady
                }
                Err(failure) => LauncherReply::Failed(failure),
            },
            LauncherRequest::RemoveAtEnd { folder } => {
                self.remove_at_end.borrow_mut().push(folder);
                return Ok(());
            }
            LauncherRequest::Probe => LauncherReply::Probed(probe::probe(self.proof)),
            LauncherRequest::MakeCell { new_network, bare } => match (fds.pop(), fds.is_empty()) {
                (Some(cell_control), true) => {
                    return self.make_cell(new_network, bare, &cell_control);
                }
                _ => LauncherReply::Failed(StageFailure {
                    stage: Stage::Message,
                    errno: 0,
                    subject: Bytes::default(),
                    detail: "a cell needs exactly one descriptor".into(),
                }),
            },
        };
        self.reply(&reply)
    }

    fn make_cell(&self, new_network: bool, bare: bool, control: &OwnedFd) -> io::Result<()> {
        let shape = Shape { new_network, bare, session_open: self.session_open.get() };
        if !bare && !shape.session_open {
            // The runtime does not wait for the session before it asks on, and has had the reason.
            return self.reply(&LauncherReply::Failed(failure(
                Stage::SessionRoot,
                &io::Error::other("the session does not stand"),
                Bytes::default(),
            )));
        }
        let namespaces = shape.namespaces();
        match process::clone_process(self.proof, namespaces) {
            Ok(Cloned::Child) => {
                // The runtime's end of everything else must not stay open here, or its end would go unnoticed.
                let mut keep = [0, 1, 2, control.as_raw_fd(), self.lifetime_of_cells.as_raw_fd()];
                keep.sort_unstable();
                let status = match fd::close_all_but(&keep) {
                    Ok(()) => cell::run(self.proof, shape, control, &self.lifetime_of_cells),
                    Err(_) => 125,
                };
                process::exit_now(status)
            }
            Ok(Cloned::Parent { pidfd, .. }) => {
                let bytes = encode_reply(&LauncherReply::CellStarted)?;
                socket::send_message(self.control.as_fd(), &bytes, &[pidfd.as_fd()])
            }
            Err(error) => self.reply(&LauncherReply::Failed(failure(
                Stage::CellClone,
                &error,
                Bytes::default(),
            ))),
        }
    }

    fn reply(&self, reply: &LauncherReply) -> io::Result<()> {
        socket::send_message(self.control.as_fd(), &encode_reply(reply)?, &[])
    }
}

fn encode_reply(reply: &LauncherReply) -> io::Result<Vec<u8>> {
    encode(reply).map_err(io::Error::other)
}

/// Forks the launcher from this process: for a program that starts one before it has any thread, since it saves executing itself
/// anew. Returns the control socket and the launcher's pid.
pub fn fork() -> io::Result<(OwnedFd, i32)> {
    let proof = SingleThreaded::check()?;
    let (ours, theirs) = socket::packet_pair()?;
    match process::fork(proof)? {
        // `theirs` is all that the child keeps: `ours` must not stay open in it, or it would not see the runtime end.
        None => process::exit_now(serve(theirs, true)),
        Some(pid) => Ok((ours, pid)),
    }
}

/// A cell that was started by itself, for a session that needs no other.
pub struct OnlyCell {
    /// Its control socket.
    pub control: OwnedFd,
    /// Its pid.
    pub pid: i32,
    /// Its pidfd.
    pub pidfd: OwnedFd,
    /// Whether it has a network namespace of its own.
    pub new_network: bool,
}

/// Forks a session's only cell from this process, without a launcher between: for a program that runs one command, before it has any
/// thread. It makes its namespaces at once, and waits for its id maps and its plan. Fails where user namespaces cannot be had.
pub fn fork_only_cell(new_network: bool) -> io::Result<OnlyCell> {
    let proof = SingleThreaded::check()?;
    let (ours, theirs) = socket::packet_pair()?;
    match process::clone_process(proof, Namespaces::USER.and(Namespaces::PID))? {
        // `ours` does not stay open in it, or it would not see the runtime end.
        Cloned::Child => process::exit_now(serve_only_cell(theirs, new_network)),
        Cloned::Parent { pid, pidfd } => Ok(OnlyCell { control: ours, pid, pidfd, new_network }),
    }
}

fn serve_only_cell(control: OwnedFd, new_network: bool) -> i32 {
    let Ok((proof, control)) = leave_the_runtime(control) else { return 125 };
    // Before the maps are there: no namespace but the user's needs them, and making them takes its time.
    let opened = process::unshare(cell_namespaces(new_network))
        .map_err(|error| failure(Stage::CellClone, &error, Bytes::default()));
    match socket::receive_message(control.as_fd(), MESSAGE_MAX)
        .map(|message| message.map(|(bytes, _)| decode::<LauncherRequest>(&bytes)))
    {
        Ok(Some(Ok(LauncherRequest::OpenSession))) => {}
        // The runtime is gone.
        Ok(None) => return 0,
        _ => return 125,
    }
    let failed = opened.and_then(|()| session_root::open_in_own_namespace()).err();
    if let Some(failure) = failed {
        let _ = encode(&CellReply::Failed(failure))
            .map(|bytes| socket::send_message(control.as_fd(), &bytes, &[]));
        return 125;
    }
    // There is no launcher that could end.
    let Ok((launcher, _never_written)) = socket::packet_pair() else { return 125 };
    let shape = Shape { new_network, bare: false, session_open: true };
    cell::run(proof, shape, &control, &launcher)
}
