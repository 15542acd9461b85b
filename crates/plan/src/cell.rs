use crate::{Bytes, CommandPlan, StageFailure};
use serde::{Deserialize, Serialize};

/// What the runtime asks of its launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LauncherRequest {
    /// The maps are written: build the session's root. Answered by [`LauncherReply::SessionReady`]; a launcher that cannot says
    /// so, and ends.
    OpenSession,
    /// Clone a cell; the descriptor beside it becomes its control socket, on which it takes its [`CellPlan`] as the first
    /// message and answers from then on. So its namespaces are made while the runtime still resolves the plan.
    MakeCell {
        /// A network namespace of its own, with nothing in it but loopback.
        new_network: bool,
        /// No namespaces and no mount tree: Landlock and the filter have to do.
        bare: bool,
    },
    /// Remove this folder of the host, with all that is in it, when the session is over. Not answered.
    RemoveAtEnd {
        /// Which: one that the runtime has made for the session.
        folder: Bytes,
    },
    /// Try out what this machine has. Answered by [`LauncherReply::Probed`].
    Probe,
}

/// What the launcher answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LauncherReply {
    /// The launcher's first word, unasked: its user namespace exists and waits for its maps, which the runtime writes, since it
    /// still has its rights in the parent namespace.
    MapIds,
    /// The same first word where there is no user namespace to be had, with the reason. The launcher goes on without.
    NoUserNamespace(StageFailure),
    /// The session's root stands.
    SessionReady,
    /// The cell was cloned; the descriptor beside it is its pidfd.
    CellStarted,
    /// What was found.
    Probed(ProbeReport),
    /// A step failed.
    Failed(StageFailure),
}

/// Each thing the launcher tried, and how it went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// In the order in which they were tried.
    pub features: Vec<ProbedFeature>,
}

/// One thing the launcher tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbedFeature {
    /// A stable name such as `user_namespace`, `mount_proc`.
    pub name: String,
    /// 0, or the kernel's error number.
    pub errno: i32,
}

/// A cell to build: one (session, policy).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellPlan {
    /// Full access: the host's own tree instead of a built one, all of the session's capabilities kept, no other layer.
    pub whole_host: bool,
    /// As in [`LauncherRequest::MakeCell`]: there is no tree to be built, paths are the host's.
    pub bare: bool,
    /// The mounts of the tree, in this order. Targets are absolute paths inside.
    pub mounts: Vec<MountStep>,
    /// The Landlock ruleset; `None` where the policy asks for none.
    pub landlock: Option<LandlockPlan>,
    /// The seccomp filter; `None` where the policy asks for none.
    pub seccomp: Option<SeccompPlan>,
    /// Protected paths inside writable roots.
    pub protected: Vec<ProtectedPath>,
    /// The name of the cell's cgroup, whose folder is the descriptor beside the plan. Each call has one in it, with limits.
    pub group: Option<Bytes>,
}

/// One step in building the mount tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountStep {
    /// An empty folder, with its missing parents.
    Folder {
        /// Where.
        target: Bytes,
        /// Its permission bits.
        mode: u32,
    },
    /// A symbolic link; its missing parents are made.
    Symlink {
        /// Where.
        target: Bytes,
        /// What it holds.
        to: Bytes,
    },
    /// A file or folder of the host, with everything mounted below it.
    Bind {
        /// Its canonical path on the host; no component of it may be a symbolic link any more.
        source: Bytes,
        /// Where; its missing parents are made.
        target: Bytes,
        /// Read-only unless set.
        writable: bool,
        /// What the source was when the plan was made; anything else there now is a failure.
        identity: Option<FileIdentity>,
    },
    /// One of the session's own folders, shared by all its cells.
    Session {
        /// Which.
        folder: SessionFolder,
        /// Where.
        target: Bytes,
    },
    /// A small /dev: null, zero, full, random, urandom, tty, ptmx, pts, shm, fd.
    Dev,
    /// A folder on the way to a mount: it becomes a mount point itself, so that it cannot be renamed, and what lies below it
    /// cannot be reached by another path. Made, with its parents, if it does not exist.
    Pin {
        /// Which, inside.
        target: Bytes,
    },
    /// As [`MountStep::Hide`] for a folder, but for what is shown in it: only the folders on the way there exist.
    HideExcept {
        /// What, inside.
        target: Bytes,
        /// What is shown: it lies below `target`, and nothing of it below another.
        shown: Vec<ShownPath>,
    },
    /// Something that must not be seen: a folder is covered by an empty one, a file by an empty one, both
    /// without any permission. Nothing happens if it does not exist.
    Hide {
        /// What, inside.
        target: Bytes,
        /// Covered by something that answers `ENOENT` to whoever asks, where the kernel can be brought to it, and left out where its
        /// folder is listed, if the filter has the init answer that.
        absent: bool,
    },
}

/// A file or folder of the host that is shown at its own path. As in [`MountStep::Bind`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownPath {
    /// Its canonical path on the host, and inside.
    pub source: Bytes,
    /// Read-only unless set.
    pub writable: bool,
    /// What it was when the plan was made.
    pub identity: Option<FileIdentity>,
}

/// Which file it was: device and inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// The session's own folders: in memory, and gone with the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionFolder {
    /// /tmp.
    Tmp,
    /// /var/tmp.
    VarTmp,
    /// The home folder.
    Home,
    /// /dev/shm.
    Shm,
}

/// A Landlock ruleset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockPlan {
    /// The ABI whose rights are handled; the host has at least this one.
    pub abi: i32,
    /// Which paths, inside, allow what.
    pub rules: Vec<LandlockRule>,
}

/// One rule: everything below a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockRule {
    /// The path, inside. Skipped if it does not exist.
    pub path: Bytes,
    /// Listing folders.
    pub list: bool,
    /// Reading and listing, and executing.
    pub read: bool,
    /// Writing, creating, removing, renaming.
    pub write: bool,
    /// ioctl(2) on devices.
    pub ioctl: bool,
}

/// A seccomp filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeccompPlan {
    /// The filter as classic BPF.
    pub program: Vec<BpfInstruction>,
    /// Which arguments of a refused call are reported.
    pub telling: Vec<TellingArguments>,
    /// The init is asked for what a folder holds (`getdents64`): it leaves out what is hidden.
    pub listings: bool,
}

/// What a filter's return instruction holds that has the init asked, who refuses the call and reports it (`SECCOMP_RET_USER_NOTIF`,
/// seccomp(2)). A program without any needs nobody who listens.
pub const SECCOMP_NOTIFY: u32 = 0x7fc0_0000;

/// Which arguments of a system call tell one attempt from another. Those of all others are not reported: they may be pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TellingArguments {
    /// The number of the system call.
    pub number: u32,
    /// Bits, from the first argument up.
    pub arguments: u8,
}

/// One instruction of classic BPF, as in `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct BpfInstruction {
    pub code: u16,
    pub jt: u8,
    pub jf: u8,
    pub k: u32,
}

/// What the name of a file ends with, behind a dot, that was planted and has been put aside (spec 5.4).
pub const QUARANTINED: &str = "quarantined";

/// A path in a writable root that must not be changed, whether it exists yet or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectedPath {
    /// The writable root, inside.
    pub root: Bytes,
    /// The path below it, without a leading `/`.
    pub relative: Bytes,
}

/// What the runtime asks of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CellRequest {
    /// Start a command; see [`CommandPlan`] for the descriptors beside it.
    Spawn(Box<CommandPlan>),
    /// Say what the call with this number planted, once its init has ended.
    Sweep {
        /// The call's number.
        id: u64,
    },
    /// Start the file worker on the stream socket beside it.
    StartWorker(WorkerPlan),
}

/// What the file worker must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerPlan {
    /// Writable roots, inside, also those within others: protected patterns count below them.
    pub write_roots: Vec<Bytes>,
    /// Protected component sequences (`.git/hooks`), refused at any depth below a writable root, and protected paths, which begin with
    /// a `/`; unless a writable root lies as deep, or deeper.
    pub protected: Vec<Bytes>,
}

/// What a cell answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CellReply {
    /// The cell stands.
    Ready {
        /// What was left out because it does not exist: paths, for the report.
        skipped: Vec<Bytes>,
    },
    /// The cell could not be built, and is gone.
    Failed(StageFailure),
    /// The init of this call runs; the descriptor beside it is its pidfd, the next our end of its terminal, if it has one.
    Spawned {
        /// The call's number.
        id: u64,
    },
    /// What the call planted under protected names, and where it was put: pairs of the path and its new one.
    Swept {
        /// The call's number.
        id: u64,
        /// The pairs; an empty new path if it could not be put aside. Bounded.
        quarantined: Vec<(Bytes, Bytes)>,
        /// How many more there were.
        unlisted: u64,
        /// Protected files that somebody outside replaced while the call ran, so that they were not protected for a moment.
        replaced: Vec<Bytes>,
        /// Writable roots with too many folders to look at all of them.
        unchecked: Vec<Bytes>,
    },
    /// The call could not be started.
    SpawnFailed {
        /// The call's number.
        id: u64,
        /// Why.
        failure: StageFailure,
    },
    /// The file worker runs; the descriptor beside it is its pidfd.
    WorkerStarted,
    /// The file worker could not be started.
    WorkerFailed(StageFailure),
}
