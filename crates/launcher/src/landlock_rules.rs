//! Landlock rulesets, by the `landlock` crate. Everything is required: what the kernel cannot handle is a failure, never
//! silently left out.

use crate::server::failure;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope,
};
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::stat::{Mode, SFlag, fstat};
use std::error::Error;
use std::io;
use std::os::fd::OwnedFd;
use stockade_plan::{Bytes, LandlockPlan, LandlockRule, Stage, StageFailure};

/// What a cell's rulesets are made of. Each call gets a ruleset of its own, since each has a /proc of its own: a rule is about
/// a file system's folder, and one about the folder below a mount is ignored by the kernel.
pub struct RulesetTemplate {
    abi: ABI,
    paths: Vec<(OwnedFd, BitFlags<AccessFs>, Bytes)>,
}

impl RulesetTemplate {
    /// Opens the paths, inside the finished view. One that does not exist is left out: there is nothing to allow. Neither is there in what
    /// covers a hidden one, which can be opened, and of which the kernel says then that it does not exist.
    pub fn open(plan: &LandlockPlan) -> Self {
        let abi = abi_of(plan.abi);
        let open = |rule: &LandlockRule| {
            let fd: OwnedFd = path_fd(&rule.path)?;
            let mode = SFlag::from_bits_truncate(fstat(&fd).ok()?.st_mode);
            let rights = rights(rule, abi, mode & SFlag::S_IFMT == SFlag::S_IFDIR);
            Some((fd, rights, rule.path.clone()))
        };
        Self { abi, paths: plan.rules.iter().filter_map(open).collect() }
    }

    /// Makes a ruleset. `streams` are standard streams: what of them is a file or a device may be opened again by its name in
    /// /proc/self/fd, as `tee /dev/stderr` does.
    pub fn build(&self, streams: &[OwnedFd]) -> Result<OwnedFd, StageFailure> {
        let whole = |error: &(dyn Error + 'static)| {
            failure(Stage::LandlockRuleset, &kernels(error), Bytes::default())
        };
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(self.abi))
            .map_err(|error| whole(&error))?;
        if self.abi >= ABI::V6 {
            // No abstract sockets and no signals out of the domain.
            let scopes = Scope::from_all(self.abi);
            ruleset = ruleset.scope(scopes).map_err(|error| whole(&error))?;
        }
        let mut created = ruleset.create().map_err(|error| whole(&error))?;
        for (path, rights, name) in &self.paths {
            created = created
                .add_rule(PathBeneath::new(path, *rights))
                .map_err(|error| failure(Stage::LandlockRuleset, &kernels(&error), name.clone()))?;
        }
        for stream in streams {
            if let Some(rights) = stream_rights(stream, self.abi) {
                created = created
                    .add_rule(PathBeneath::new(stream, rights))
                    .map_err(|error| whole(&error))?;
            }
        }
        Option::<OwnedFd>::from(created)
            .ok_or_else(|| whole(&io::Error::other("the kernel made no ruleset")))
    }
}

/// What the kernel said, if it was the kernel.
fn kernels(error: &(dyn Error + 'static)) -> io::Error {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(at) = cause {
        if let Some(number) = at.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return io::Error::from_raw_os_error(number);
        }
        cause = at.source();
    }
    io::Error::other(error.to_string())
}

fn path_fd(path: &Bytes) -> Option<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    open(path.as_path(), flags, Mode::empty()).ok()
}

/// What a stream's own descriptor allows already. `None` for pipes and sockets, which no rule is about.
fn stream_rights(stream: &OwnedFd, abi: ABI) -> Option<BitFlags<AccessFs>> {
    let kind = SFlag::from_bits_truncate(fstat(stream).ok()?.st_mode) & SFlag::S_IFMT;
    if kind != SFlag::S_IFREG && kind != SFlag::S_IFCHR {
        return None;
    }
    let flags = OFlag::from_bits_truncate(fcntl(stream, FcntlArg::F_GETFL).ok()?);
    let mut rights = BitFlags::EMPTY;
    let mode = flags & OFlag::O_ACCMODE;
    if mode != OFlag::O_WRONLY {
        rights |= AccessFs::ReadFile;
    }
    if mode != OFlag::O_RDONLY {
        rights |= AccessFs::WriteFile | AccessFs::Truncate;
    }
    if kind == SFlag::S_IFCHR {
        rights |= AccessFs::IoctlDev;
    }
    Some(rights & AccessFs::from_all(abi))
}

fn rights(rule: &LandlockRule, abi: ABI, is_folder: bool) -> BitFlags<AccessFs> {
    let mut rights = BitFlags::EMPTY;
    if rule.list {
        rights |= AccessFs::ReadDir;
    }
    if rule.read {
        rights |= AccessFs::from_read(abi);
    }
    if rule.write {
        rights |= AccessFs::from_write(abi) & !AccessFs::IoctlDev;
    }
    if rule.ioctl {
        rights |= AccessFs::from_all(abi) & AccessFs::IoctlDev;
    }
    if is_folder { rights } else { rights & AccessFs::from_file(abi) }
}

fn abi_of(number: i32) -> ABI {
    match number {
        i32::MIN..=1 => ABI::V1,
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        6 => ABI::V6,
        // Newer ABIs add nothing that this crate handles yet; a newer kernel accepts an older ruleset.
        _ => ABI::V7,
    }
}
