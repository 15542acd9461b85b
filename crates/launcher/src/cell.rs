//! A cell: pid 1 of its own namespaces. Builds the view, then starts inits and the file worker on demand. It keeps the session's
//! capabilities, so that it can mount, and never runs foreign code.

use crate::calls::Calls;
use crate::cgroup::CellGroup;
use crate::filter::Filter;
use crate::landlock_rules::RulesetTemplate;
use crate::protect::{Protected, Start, Swept};
use crate::server::{Shape, failure};
use crate::tree;
use crate::{spawn, view, worker};
use std::cell::RefCell;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use stockade_plan::{
    Bytes, CellPlan, CellReply, CellRequest, CommandPlan, MESSAGE_MAX, Stage, StageFailure,
    TerminalSize, WorkerPlan, decode, encode,
};
use stockade_sys::mount::{self, MountAttributes};
use stockade_sys::process::{Namespaces, SingleThreaded};
use stockade_sys::{caps, confine, errno, fd, net, process, signal, socket, tty};

/// What a process that is to be confined puts on itself, prepared so that it needs no heap.
pub struct Confinement<'a> {
    /// Its Landlock ruleset; `None` where the policy asks for none.
    pub ruleset: Option<OwnedFd>,
    /// The seccomp filter; `None` where the policy asks for none.
    pub filter: Option<&'a Filter>,
    /// Full access: keep capabilities, and the right to gain more.
    pub whole_host: bool,
}

impl Confinement<'_> {
    /// Puts all layers but the filter on the calling process, for good. Async-signal-safe. Says which step failed. With a mark the
    /// process takes it as its name, and what its Landlock domain refuses is logged.
    pub fn apply(&self, audit_mark: Option<&CStr>) -> Result<(), (Stage, io::Error)> {
        if self.whole_host {
            return match self.filter {
                Some(_) => confine::no_new_privs().map_err(|error| (Stage::NoNewPrivs, error)),
                None => Ok(()),
            };
        }
        caps::drop_all().map_err(|error| (Stage::Capabilities, error))?;
        confine::no_new_privs().map_err(|error| (Stage::NoNewPrivs, error))?;
        if let Some(ruleset) = &self.ruleset {
            let logged = audit_mark.is_some();
            audit_mark
                .map_or(Ok(()), process::set_name)
                .and_then(|()| confine::landlock(ruleset.as_fd(), logged))
                .map_err(|error| (Stage::Landlock, error))?;
        }
        Ok(())
    }
}

struct Cell<'a> {
    proof: SingleThreaded,
    control: &'a OwnedFd,
    ruleset: Option<RulesetTemplate>,
    filter: Option<Filter>,
    protected: Protected,
    /// The host's /proc, where the cell has no namespaces.
    host_proc: Option<OwnedFd>,
    whole_host: bool,
    /// Where the runtime was delegated some; without a pid namespace also where it can make some without limits.
    groups: Option<CellGroup>,
    /// pids of file workers.
    workers: RefCell<Vec<i32>>,
    calls: RefCell<Calls>,
}

/// How often a cell that ends looks whether its calls have ended.
const REAP_INTERVAL: Duration = Duration::from_millis(1);

/// How long a cell that has lost its launcher waits for the runtime to ask what was planted.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How long the inits of a cell without namespaces may take to end their trees before the cell does it.
const BARE_PATIENCE: Duration = Duration::from_secs(2);

/// Takes the cell's plan, builds it and serves it until the runtime closes `control` or the launcher (which holds the other end
/// of `launcher`) ends. Returns the exit status.
///
/// No parent-death signal: it would not leave the time to put aside what a call has planted.
pub fn run(proof: SingleThreaded, shape: Shape, control: &OwnedFd, launcher: &OwnedFd) -> i32 {
    let mut cell = match prepare(shape).and_then(|proc| {
        Ok(match receive_plan(control)? {
            Some((plan, group)) => Some(build(proof, plan, group, proc.as_ref(), control)?),
            None => None,
        })
    }) {
        // The runtime gave the cell up before it had a plan.
        Ok(None) => return 0,
        Ok(Some((cell, skipped))) => {
            if reply(control, &CellReply::Ready { skipped }, &[]).is_err() {
                return 125;
            }
            cell
        }
        Err(failure) => {
            let _ = reply(control, &CellReply::Failed(failure), &[]);
            return 125;
        }
    };
    let status = cell.serve(launcher);
    cell.end();
    cell.tell_what_was_planted();
    drop(cell.groups.take());
    // The kernel takes the rest apart faster, and the session waits for it.
    std::mem::forget(cell);
    status
}

/// What does not depend on the plan. Returns a /proc that is not mounted anywhere yet: made while the host's /proc is in sight,
/// since the kernel gives an unprivileged mount namespace a new one only if it shows a whole one already, and each call will
/// ask for one.
/// `None` for a bare cell, which has the host's.
fn prepare(shape: Shape) -> Result<Option<OwnedFd>, StageFailure> {
    if shape.bare {
        process::become_subreaper()
            .map_err(|error| failure(Stage::CellClone, &error, Bytes::default()))?;
        if shape.session_open {
            view::enter_host()?;
        }
        return Ok(None);
    }
    if shape.new_network {
        net::loopback_up().map_err(|e| failure(Stage::Loopback, &e, Bytes::default()))?;
    }
    mount::new_filesystem(c"proc", &[], MountAttributes::NONE)
        .map(Some)
        .map_err(|error| failure(Stage::MountProc, &error, "/proc"))
}

/// The plan, and the folder of the cell's cgroup, if it has one.
fn receive_plan(control: &OwnedFd) -> Result<Option<(CellPlan, Option<OwnedFd>)>, StageFailure> {
    let malformed = |error: io::Error| failure(Stage::Message, &error, Bytes::default());
    match socket::receive_message(control.as_fd(), MESSAGE_MAX).map_err(malformed)? {
        Some((bytes, mut fds)) => decode(&bytes)
            .map(|plan| Some((plan, fds.pop())))
            .map_err(|error| malformed(io::Error::other(error))),
        None => Ok(None),
    }
}

fn build<'a>(
    proof: SingleThreaded,
    plan: CellPlan,
    group: Option<OwnedFd>,
    proc: Option<&OwnedFd>,
    control: &'a OwnedFd,
) -> Result<(Cell<'a>, Vec<Bytes>), StageFailure> {
    let group = group.zip(plan.group.as_ref());
    let group = group.map(|(folder, name)| CellGroup::given(folder, name.as_path()));
    let view::Built { skipped, hidden } = match (proc, plan.whole_host) {
        (None, _) => view::Built::default(),
        (_, true) => view::enter_host().map(|()| view::Built::default())?,
        (_, false) => view::build(proof, &plan.mounts)?,
    };
    let protected = Protected::new(plan.protected, proc.is_some())?;
    if let Some(proc) = proc {
        view::mount_proc(proc.as_fd(), !plan.whole_host)
            .map_err(|error| failure(Stage::MountProc, &error, "/proc"))?;
    }
    let host_proc = match proc {
        Some(_) => None,
        None => {
            Some(tree::host_proc().map_err(|error| failure(Stage::MountProc, &error, "/proc"))?)
        }
    };
    if !plan.whole_host {
        // Here, once, instead of forty system calls on the way of each call; the cell's own capabilities stay.
        match caps::forbid_gaining() {
            // Without the capability for it there are no others to gain either: no_new_privs holds what an exec could give.
            Err(error) if proc.is_none() && errno(&error) == nix::libc::EPERM => {}
            other => {
                other.map_err(|error| failure(Stage::Capabilities, &error, Bytes::default()))?
            }
        }
    }
    let cell = Cell {
        proof,
        control,
        ruleset: plan.landlock.as_ref().map(RulesetTemplate::open),
        filter: plan.seccomp.map(|plan| Filter::new(plan, hidden)),
        protected,
        groups: group.or_else(|| host_proc.as_ref().and_then(|_| CellGroup::make(proof))),
        host_proc,
        whole_host: plan.whole_host,
        workers: RefCell::default(),
        calls: RefCell::default(),
    };
    Ok((cell, skipped))
}

impl Cell<'_> {
    /// Nobody waits for the calls that still run: they end with the cell, and what they planted is put aside before.
    fn end(&self) {
        process::kill_all(nix::libc::SIGKILL);
        // Without a pid namespace each init ends its tree itself, and gets the time for it.
        self.calls.borrow().give_up();
        self.workers.borrow().iter().for_each(|pid| process::kill_one(*pid, nix::libc::SIGKILL));
        let patience = Instant::now() + BARE_PATIENCE;
        loop {
            match process::reap() {
                process::Reaped::Ended(pid, _) => self.ended(pid),
                process::Reaped::NoChildren => return self.protected.end(),
                process::Reaped::Alive => {
                    if let Some(proc) = &self.host_proc
                        && Instant::now() > patience
                    {
                        tree::kill_strays(proc.as_fd(), &|_| false);
                    }
                    std::thread::sleep(REAP_INTERVAL);
                }
            }
        }
    }

    /// Whose launcher was killed may have a runtime that still asks what its calls planted.
    fn tell_what_was_planted(&self) {
        let until = Instant::now() + LAST_WORDS;
        while self.calls.borrow().has_untold() {
            let left = until.saturating_duration_since(Instant::now()).as_millis();
            let wait = i32::try_from(left).unwrap_or(0);
            let Ok([true]) = signal::wait_readable([self.control.as_fd()], wait) else { return };
            let Ok(Some((bytes, _))) = socket::receive_message(self.control.as_fd(), MESSAGE_MAX)
            else {
                return;
            };
            match decode::<CellRequest>(&bytes) {
                Ok(CellRequest::Sweep { id }) if self.sweep(id).is_ok() => {}
                _ => return,
            }
        }
    }

    fn serve(&self, launcher: &OwnedFd) -> i32 {
        let Ok(children) = signal::child_watch() else {
            return 125;
        };
        loop {
            let ready = {
                let calls = self.calls.borrow();
                let news = calls.watch().fd();
                let [control, launcher] = [self.control.as_fd(), launcher.as_fd()];
                let fds = [control, children.as_fd(), launcher, news.unwrap_or(launcher)];
                signal::wait_readable(fds, calls.watch().timeout_ms())
            };
            let Ok([request, child, launcher_gone, news]) = ready else { return 125 };
            if launcher_gone {
                return 0;
            }
            if child {
                signal::drain(children.as_fd());
                while let process::Reaped::Ended(pid, _) = process::reap() {
                    self.ended(pid);
                }
                self.kill_strays();
            }
            self.calls.borrow_mut().look(news, &self.protected);
            if request {
                match socket::receive_message(self.control.as_fd(), MESSAGE_MAX) {
                    Ok(Some((bytes, fds))) => {
                        if self.answer(&bytes, fds).is_err() {
                            return 125;
                        }
                    }
                    // The runtime is gone, and with this process everything of the cell goes.
                    Ok(None) => return 0,
                    Err(error) => {
                        let failure = failure(Stage::Message, &error, Bytes::default());
                        let _ = reply(self.control, &CellReply::Failed(failure), &[]);
                        return 125;
                    }
                }
            }
        }
    }

    fn answer(&self, bytes: &[u8], fds: Vec<OwnedFd>) -> io::Result<()> {
        match decode::<CellRequest>(bytes) {
            Ok(CellRequest::Spawn(plan)) => self.spawn(&plan, fds),
            Ok(CellRequest::Sweep { id }) => self.sweep(id),
            Ok(CellRequest::StartWorker(plan)) => self.start_worker(plan, fds),
            // A runtime that cannot be understood is another version: nothing sensible can follow.
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn spawn(&self, plan: &CommandPlan, fds: Vec<OwnedFd>) -> io::Result<()> {
        let started = self.protect().and_then(|start| {
            let (fds, terminal) = match plan.terminal {
                Some(size) => open_terminal(size, fds)?,
                None => (fds, None),
            };
            let confinement = self.confinement(fds.get(1..).unwrap_or_default())?;
            let group = self.groups.as_ref().map(|groups| groups.for_call(plan)).transpose();
            let group = group.map_err(|error| failure(Stage::Cgroup, &error, Bytes::default()))?;
            let bare = self.host_proc.is_some();
            let started = spawn::start(self.proof, plan, fds, confinement, bare, group)?;
            Ok((start, started, terminal))
        });
        match started {
            Ok((start, started, terminal)) => {
                let spawn::Started { pid, pidfd, lifeline } = started;
                // In a pid namespace nobody has to tell the init of the end.
                let lifeline = self.host_proc.is_some().then_some(lifeline);
                self.calls.borrow_mut().started(pid, plan.id, start, lifeline);
                let fds: Vec<_> = [&pidfd].into_iter().chain(&terminal).map(AsFd::as_fd).collect();
                reply(self.control, &CellReply::Spawned { id: plan.id }, &fds)
            }
            Err(failure) => {
                reply(self.control, &CellReply::SpawnFailed { id: plan.id, failure }, &[])
            }
        }
    }

    /// What came to exist since the last call is protected before the next one can touch it, but for what calls that still run have
    /// planted: that is put aside first.
    fn protect(&self) -> Result<Start, StageFailure> {
        let mut calls = self.calls.borrow_mut();
        let starts = calls.sweep_all(&self.protected);
        self.protected.protect(&starts)
    }

    /// An init that somebody killed has left its tree to this process.
    fn kill_strays(&self) {
        if let Some(proc) = &self.host_proc {
            let (calls, workers) = (self.calls.borrow(), self.workers.borrow());
            tree::kill_strays(proc.as_fd(), &|pid| calls.has(pid) || workers.contains(&pid));
        }
    }

    /// A child was reaped: if it was a call's init, what the call planted is put aside at once, whether or not the runtime
    /// asks.
    fn ended(&self, pid: i32) {
        let Some(ended) = self.calls.borrow_mut().ended(pid) else { return };
        if let Some(groups) = &self.groups {
            groups.ended(ended.id);
        }
        self.kill_strays();
        self.calls.borrow_mut().sweep_ended(ended, &self.protected);
    }

    /// The runtime knows that no process of the call is left but its init, which is about to end.
    fn sweep(&self, id: u64) -> io::Result<()> {
        let swept = self.calls.borrow_mut().sweep(id, &self.protected);
        let Swept { quarantined, unlisted, replaced, unchecked, stock: _ } = swept;
        let swept = CellReply::Swept { id, quarantined, unlisted, replaced, unchecked };
        reply(self.control, &swept, &[])
    }

    fn confinement(&self, streams: &[OwnedFd]) -> Result<Confinement<'_>, StageFailure> {
        let ruleset = self.ruleset.as_ref().map(|template| template.build(streams)).transpose()?;
        Ok(Confinement { ruleset, filter: self.filter.as_ref(), whole_host: self.whole_host })
    }

    fn start_worker(&self, plan: WorkerPlan, mut fds: Vec<OwnedFd>) -> io::Result<()> {
        let Some(stream) = fds.pop().filter(|_| fds.is_empty()) else {
            return Err(io::Error::other("a file worker needs exactly one descriptor"));
        };
        match self.protect() {
            Ok(start) => self.protected.worker_started(start),
            Err(failure) => return reply(self.control, &CellReply::WorkerFailed(failure), &[]),
        }
        match process::fork(self.proof) {
            Ok(None) => process::exit_now(self.worker_main(plan, stream)),
            Ok(Some(pid)) => {
                self.workers.borrow_mut().push(pid);
                let pidfd = process::pidfd_open(pid)?;
                reply(self.control, &CellReply::WorkerStarted, &[pidfd.as_fd()])
            }
            Err(error) => {
                let failure = failure(Stage::Worker, &error, Bytes::default());
                reply(self.control, &CellReply::WorkerFailed(failure), &[])
            }
        }
    }

    /// The forked child: confines itself, then serves. A failure shows as the end of its stream.
    fn worker_main(&self, plan: WorkerPlan, stream: OwnedFd) -> i32 {
        let Ok(confinement) = self.confinement(&[]) else { return 125 };
        let ruleset = confinement.ruleset.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let mut keep = [0, 1, 2, stream.as_raw_fd(), ruleset];
        keep.sort_unstable();
        if fd::close_all_but(&keep).is_err()
            || (self.host_proc.is_none() && process::unshare(Namespaces::CGROUP).is_err())
            || confinement.apply(None).is_err()
            || confinement.filter.is_some_and(|filter| filter.install_for_worker().is_err())
        {
            return 125;
        }
        worker::serve(UnixStream::from(stream), plan)
    }
}

/// Opens a terminal by the view's own ptmx, so that it has a name there, and exists nowhere else. Returns the call's
/// descriptors with it as the three streams, and our end.
fn open_terminal(
    size: TerminalSize,
    mut fds: Vec<OwnedFd>,
) -> Result<(Vec<OwnedFd>, Option<OwnedFd>), StageFailure> {
    let failed = |error: io::Error| failure(Stage::Terminal, &error, "/dev/ptmx");
    let (ours, theirs) = tty::open_pair(c"/dev/ptmx").map_err(failed)?;
    let pixels = (size.pixel_width, size.pixel_height);
    tty::set_size(ours.as_fd(), size.rows, size.columns, pixels).map_err(failed)?;
    for _ in 0..2 {
        fds.push(theirs.try_clone().map_err(failed)?);
    }
    fds.push(theirs);
    Ok((fds, Some(ours)))
}

fn reply(
    control: &OwnedFd,
    reply: &CellReply,
    fds: &[std::os::fd::BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = encode(reply).map_err(io::Error::other)?;
    socket::send_message(control.as_fd(), &bytes, fds)
}
