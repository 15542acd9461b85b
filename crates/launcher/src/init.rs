//! pid 1 of one call's pid namespace: mounts the call's /proc, starts the command, reaps, and passes on what the runtime
//! orders. When it ends, for whatever reason, the kernel ends every process of the call.
//!
//! It is never executed anew, so all of it runs between a clone and an exec: no heap, no locks, no formatting.

use crate::cgroup::CallGroup;
use crate::command;
use crate::hunt::Hunt;
use crate::memory::TreeWatch;
use crate::refused::Refused;
use crate::spawn::{self, Prepared, number};
use crate::tree::{self, Tree};
use crate::view;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use stockade_plan::Stage;
use stockade_plan::record::{Order, Record, RecordUsage};
use stockade_sys::mount::{self, MountAttributes};
use stockade_sys::process::{self, ChildStack, Reaped, SingleThreaded};
use stockade_sys::{confine, fd, notify, signal, socket};

/// Tells the runtime that a step failed, and ends.
pub fn fail(lifeline: BorrowedFd<'_>, stage: Stage, error: &io::Error, index: u32) -> ! {
    let record = Record::Failed { stage: stage as u8, errno: number(error), index };
    let _ = socket::send_short(lifeline, &record.encode());
    process::exit_now(125)
}

/// The init's whole life.
pub fn run(prepared: &Prepared<'_>, stack: &mut ChildStack) -> ! {
    let lifeline = prepared.lifeline.as_fd();
    if let Err(error) = fd::close_all_but(&prepared.keep) {
        fail(lifeline, Stage::Descriptors, &error, 0);
    }
    let tree = match tree(prepared) {
        Ok(tree) => tree,
        Err((stage, error)) => fail(lifeline, stage, &error, 0),
    };
    let children = match signal::child_watch() {
        Ok(children) => children,
        Err(error) => fail(lifeline, Stage::Session, &error, 0),
    };
    // Its standard streams, which the command stage replaces in the table that both share.
    let null = match fd::duplicate(0) {
        Ok(null) => null,
        Err(error) => fail(lifeline, Stage::Descriptors, &error, 1),
    };
    let main = match clone_command(prepared, stack) {
        Ok(pid) => pid,
        Err(error) => fail(lifeline, Stage::CommandClone, &error, 0),
    };
    if let Some((stage, errno, index)) = prepared.left.failure() {
        let _ = socket::send_short(lifeline, &Record::Failed { stage, errno, index }.encode());
        process::exit_now(125)
    }
    // The command's streams must end with its tree, not with the init. /proc was needed for nothing else below.
    let listener = prepared.left.listener().unwrap_or(-1);
    let [group, _, kill] = spawn::group_descriptors(prepared.group.as_ref());
    let mut keep =
        [0, 1, 2, raw(lifeline), raw(children.as_fd()), raw(tree.proc()), listener, group, kill];
    keep.sort_unstable();
    if let Err(error) = fd::install_stdio([null.as_fd(), null.as_fd(), null.as_fd()])
        .and_then(|()| fd::close_all_but(&keep))
    {
        fail(lifeline, Stage::Descriptors, &error, 2);
    }
    let refused = match (notify::listener(listener), prepared.confinement.filter) {
        (Some(listener), Some(filter)) => Some(Refused::new(listener, filter)),
        _ => None,
    };
    watch(main, prepared, &children, &tree, refused)
}

/// The command is born in its cgroup, outside of which this process stays: it must live to tell what became of that one.
fn clone_command(prepared: &Prepared<'_>, stack: &mut ChildStack) -> io::Result<i32> {
    let proof = prepared.proof;
    if let Some(group) = &prepared.group {
        let folder = group.folder();
        match process::clone_until_exec_into(proof, stack, command::run, prepared, folder) {
            // Where a filter hides clone3(2), and where cgroups of one's own do not give the right to fill them from above.
            Err(error) if [nix::libc::ENOSYS, nix::libc::EACCES].contains(&number(&error)) => {
                prepared.left.begin_outside();
            }
            cloned => return cloned,
        }
    }
    process::clone_until_exec(proof, stack, command::run, prepared)
}

fn raw(fd: BorrowedFd<'_>) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(&fd)
}

/// The call's processes, and the /proc that shows them.
fn tree<'a>(prepared: &'a Prepared<'_>) -> Result<Tree<'a>, (Stage, io::Error)> {
    if !prepared.bare {
        return mount_proc(prepared).map(Tree::Namespace);
    }
    // SIGCHLD is what this process looks out for anyway: it sees then that its parent is another one.
    process::become_subreaper()
        .and_then(|()| process::signal_at_parents_end(nix::libc::SIGCHLD))
        .map_err(|error| (Stage::Session, error))?;
    let proc = tree::host_proc().map_err(|error| (Stage::MountProc, error))?;
    Ok(Tree::Descendants(proc, prepared.group.as_ref()))
}

fn mount_proc(prepared: &Prepared<'_>) -> Result<OwnedFd, (Stage, io::Error)> {
    let at_proc = |error: io::Error| (Stage::MountProc, error);
    let proc = mount::new_filesystem(c"proc", &[], MountAttributes::NONE).map_err(at_proc)?;
    if prepared.pid_max_length > 0 {
        let text = &prepared.pid_max[..prepared.pid_max_length];
        write_pid_max(&proc, text).map_err(|error| (Stage::PidMax, error))?;
    }
    let confinement = &prepared.confinement;
    view::mount_proc(proc.as_fd(), !confinement.whole_host).map_err(at_proc)?;
    if !confinement.whole_host {
        view::mask_proc(proc.as_fd()).map_err(at_proc)?;
    }
    if let Some(ruleset) = &confinement.ruleset {
        confine::landlock_allow_reading(ruleset.as_fd(), proc.as_fd())
            .map_err(|error| (Stage::LandlockRuleset, error))?;
    }
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    openat(&proc, c".", flags, Mode::empty()).map_err(|error| at_proc(error.into()))
}

/// proc_sys_kernel(5): `pid_max` belongs to the pid namespace from Linux 6.14 on.
fn write_pid_max(proc: &OwnedFd, text: &[u8]) -> io::Result<()> {
    let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    let file = openat(proc, c"sys/kernel/pid_max", flags, Mode::empty())?;
    fd::write_once(file.as_fd(), text)
}

/// A running call, as its init looks after it.
struct Call<'a> {
    main: i32,
    lifeline: BorrowedFd<'a>,
    tree: &'a Tree<'a>,
    memory: TreeWatch,
    pids: PidsLimit,
    group: Option<&'a CallGroup>,
    told_memory: bool,
}

fn watch(
    main: i32,
    prepared: &Prepared<'_>,
    children: &OwnedFd,
    tree: &Tree<'_>,
    mut refused: Option<Refused<'_>>,
) -> ! {
    let lifeline = prepared.lifeline.as_fd();
    let memory = match tree.own_proc() {
        Some(_) => TreeWatch::new(prepared.page_size, prepared.memory),
        None => TreeWatch::blind(),
    };
    let pids = PidsLimit { pids: prepared.pids, proof: prepared.proof, told: false };
    let group = prepared.group.as_ref();
    let mut call = Call { main, lifeline, tree, memory, pids, group, told_memory: false };
    let parent = process::own_and_parent_pid().1;
    loop {
        let timeout_ms = call.memory.next_look_ms();
        let ready = match &refused {
            Some(refused) => {
                signal::wait_readable([lifeline, children.as_fd(), refused.listener()], timeout_ms)
            }
            None => signal::wait_readable([lifeline, children.as_fd()], timeout_ms)
                .map(|[order, child]| [order, child, false]),
        };
        // A lifeline that cannot be waited for is as good as a closed one.
        let Ok([order, child, refusal]) = ready else { end(tree, 125) };
        let answer = |refused: &mut Refused<'_>| refused.answer_one(lifeline, tree.proc());
        if refusal && refused.as_mut().is_some_and(|refused| answer(refused).is_err()) {
            refused = None;
        }
        if child {
            signal::drain(children.as_fd());
            call.reap_all();
            if !tree.ends_with_caller() && process::own_and_parent_pid().1 != parent {
                end(tree, 125);
            }
        }
        if order {
            call.obey();
        }
        call.look();
    }
}

impl Call<'_> {
    fn tell(&self, record: Record) {
        let _ = socket::send_short(self.lifeline, &record.encode());
    }

    /// Looks at its memory and its processes when it is time to.
    fn look(&mut self) {
        let Some(proc) = self.tree.own_proc() else { return };
        let due = self.memory.next_look_ms() == 0;
        let exceeded = self.memory.look_if_due(proc);
        if due {
            self.pids.look(&self.memory, self.lifeline);
        }
        if exceeded {
            self.tell(Record::MemoryExceeded);
            self.kill_all();
        }
    }

    /// The reaping that follows gives the usage of the whole tree, then ends.
    fn kill_all(&mut self) {
        self.tell_effort();
        self.tell(Record::Killing { processes: self.tree.others() });
        self.tree.signal(nix::libc::SIGKILL);
        if let Some(group) = self.group {
            group.kill();
        }
        if !self.tree.ends_with_caller() {
            // One sweep may have missed what was just being forked.
            let mut hunt = Hunt::default();
            loop {
                self.reap_all();
                if !self.tree.hunt(&mut hunt) {
                    let _ = signal::wait_readable([], SWEEP_INTERVAL_MS);
                }
            }
        }
    }

    /// What is ended without a namespace or a cgroup is ended as well as can be, and the runtime is told so before it is.
    fn tell_effort(&self) {
        if self.tree.is_best_effort() {
            self.tell(Record::BestEffort);
        }
    }

    /// What the kernel says of the cgroup's limits, each once.
    fn tell_limits(&mut self) {
        let Some(group) = self.group else { return };
        if !self.told_memory && group.memory_exceeded() {
            self.told_memory = true;
            self.tell(Record::MemoryExceeded);
        }
        if !self.pids.told && group.pids_met() {
            self.pids.told = true;
            self.tell(Record::PidsMet);
        }
    }

    fn reap_all(&mut self) {
        loop {
            match process::reap() {
                Reaped::Ended(pid, status) if pid == self.main => {
                    let left = self.tree.others();
                    if let (Some(proc), Some(_), false) =
                        (self.tree.own_proc(), self.pids.pids, status == 0)
                    {
                        self.memory.count_started(proc);
                        self.pids.look(&self.memory, self.lifeline);
                    }
                    self.tell_limits();
                    self.tell(Record::MainEnded { status, left, usage: self.usage() });
                }
                Reaped::Ended(..) => {}
                Reaped::Alive => return,
                Reaped::NoChildren => {
                    if let Some(proc) = self.tree.own_proc() {
                        self.memory.count_started(proc);
                    }
                    self.tell_limits();
                    self.tell(Record::TreeEnded { usage: self.usage() });
                    process::exit_now(0)
                }
            }
        }
    }

    fn obey(&mut self) {
        let mut order = [0u8; 1];
        match socket::receive_short(self.lifeline, &mut order) {
            Ok(None) => {}
            Ok(Some(1)) => match Order::from_u8(order[0]) {
                Some(Order::Terminate) => {
                    self.tell_effort();
                    self.tell(Record::Terminating { processes: self.tree.terminate() });
                }
                Some(Order::Interrupt) => self.tree.signal(nix::libc::SIGINT),
                Some(Order::Stop) => self.tree.signal(nix::libc::SIGSTOP),
                Some(Order::Continue) => self.tree.signal(nix::libc::SIGCONT),
                Some(Order::Kill) => self.kill_all(),
                None => {}
            },
            // The runtime is gone, or the cell has given the call up: so is this call.
            _ => end(self.tree, 0),
        }
    }

    fn usage(&self) -> RecordUsage {
        let usage = process::children_usage();
        let peak = self.group.and_then(CallGroup::memory_peak);
        let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        RecordUsage {
            user_us: usage.user_us,
            system_us: usage.system_us,
            max_rss_kib: usage.max_rss_kib,
            voluntary_switches: narrow(usage.voluntary_switches),
            involuntary_switches: narrow(usage.involuntary_switches),
            tree_peak_kib: narrow(peak.unwrap_or(self.memory.peak()) / 1024),
            started: self.memory.started(),
        }
    }
}

/// Finds out whether the limit on processes has been met. The kernel tells nobody but who wanted to fork, so it is tried.
struct PidsLimit {
    pids: Option<u32>,
    proof: SingleThreaded,
    told: bool,
}

impl PidsLimit {
    fn look(&mut self, watch: &TreeWatch, lifeline: BorrowedFd<'_>) {
        if self.told || !self.pids.is_some_and(|pids| watch.may_have(pids)) {
            return;
        }
        match process::fork(self.proof) {
            // Reaped with the rest.
            Ok(None) => process::exit_now(0),
            Ok(Some(_)) => {}
            Err(error) if number(&error) == nix::libc::EAGAIN => {
                self.told = true;
                let _ = socket::send_short(lifeline, &Record::PidsMet.encode());
            }
            Err(_) => {}
        }
    }
}

/// How long a sweep waits for what it has killed, in milliseconds.
const SWEEP_INTERVAL_MS: i32 = 2;

/// Ends the tree and then itself.
fn end(tree: &Tree<'_>, status: i32) -> ! {
    if !tree.ends_with_caller() {
        tree.signal(nix::libc::SIGKILL);
        let mut hunt = Hunt::default();
        loop {
            while let Reaped::Ended(..) = process::reap() {}
            if process::reap() == Reaped::NoChildren {
                break;
            }
            if !tree.hunt(&mut hunt) {
                let _ = signal::wait_readable([], SWEEP_INTERVAL_MS);
            }
        }
    }
    process::exit_now(status)
}
