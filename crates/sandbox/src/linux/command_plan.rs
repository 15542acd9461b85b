//! From a command to its plan: the final environment, the files to try, the limits.

use super::host::{HostCaps, Tier};
use crate::CommandSpec;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use stockade_plan::{Bytes, CommandPlan, RlimitPlan};
use stockade_policy::LimitsPolicy;
use stockade_sys::cgroup::Controllers;
use stockade_types::SetupFailure;

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A policy's limits, and what holds them.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    pub policy: &'a LimitsPolicy,
    /// Those of the call's cgroup, which go before everything else.
    pub controllers: Controllers,
    pub host: &'a HostCaps,
}

/// Builds the plan.
pub fn plan(
    id: u64,
    command: &CommandSpec,
    environment: &[(OsString, OsString)],
    Limits { policy: limits, controllers, host }: Limits<'_>,
    audit_mark: Option<&str>,
) -> Result<CommandPlan, SetupFailure> {
    let mut all: BTreeMap<&OsStr, &OsStr> =
        environment.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())).collect();
    all.extend(command.env.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())));
    let program = command.argv.first().map(OsString::as_os_str).unwrap_or_default();
    let search = all.get(OsStr::new("PATH")).copied().unwrap_or(OsStr::new(DEFAULT_PATH));
    let own_pid_max = host.has_own_pid_max() && host.tier() != Tier::Bare;
    Ok(CommandPlan {
        id,
        argv: command.argv.iter().map(|argument| argument.as_os_str().into()).collect(),
        candidates: candidates(program, search),
        env: all
            .into_iter()
            .map(|(name, value)| {
                let mut entry = name.as_bytes().to_vec();
                entry.push(b'=');
                entry.extend_from_slice(value.as_bytes());
                Bytes(entry)
            })
            .collect(),
        cwd: command.cwd.as_path().into(),
        rlimits: rlimits(limits, own_pid_max || controllers.pids)?,
        pid_max: limits
            .pids
            .filter(|_| own_pid_max && !controllers.pids)
            .map(|pids| u32::try_from(pids).unwrap_or(u32::MAX).min(PID_MAX_LIMIT)),
        audit_mark: audit_mark.map(|mark| mark.into()),
        memory: limits.memory.filter(|_| !controllers.memory),
        memory_max: limits.memory.filter(|_| controllers.memory),
        pids_max: limits.pids.filter(|_| controllers.pids),
        terminal: command.terminal,
    })
}

/// The kernel's highest `pid_max` on 64 bits (proc_sys_kernel(5)).
const PID_MAX_LIMIT: u32 = 4_194_304;

/// As execvp(3): a name with a slash is a path, any other is looked for in each folder of `PATH`.
fn candidates(program: &OsStr, search: &OsStr) -> Vec<Bytes> {
    if program.as_bytes().contains(&b'/') {
        return vec![program.into()];
    }
    if program.is_empty() {
        return Vec::new();
    }
    search
        .as_bytes()
        .split(|&byte| byte == b':')
        .map(|folder| {
            let folder = if folder.is_empty() { b"." } else { folder };
            Path::new(OsStr::from_bytes(folder)).join(program).into()
        })
        .collect()
}

fn rlimits(limits: &LimitsPolicy, pids_are_held: bool) -> Result<Vec<RlimitPlan>, SetupFailure> {
    // A core dump would be a copy of memory in a file nobody asked for.
    let mut wanted = vec![(libc::RLIMIT_CORE, Some(0))];
    wanted.push((libc::RLIMIT_CPU, limits.cpu));
    wanted.push((libc::RLIMIT_NOFILE, limits.files));
    wanted.push((libc::RLIMIT_FSIZE, limits.file_size));
    wanted.push((libc::RLIMIT_NPROC, limits.pids.filter(|_| !pids_are_held)));
    wanted
        .into_iter()
        .filter_map(|(resource, value)| Some((resource, value?)))
        .map(|(resource, value)| {
            // More than the hard limit cannot be set, and would be no tighter anyway.
            let most =
                stockade_sys::confine::hard_rlimit(resource).map_err(|error| unreadable(&error))?;
            let soft = value.min(most);
            // At the soft limit the kernel sends SIGXCPU, which names the limit; at the hard one, SIGKILL, which names
            // nothing.
            let hard =
                if resource == libc::RLIMIT_CPU { soft.saturating_add(2).min(most) } else { soft };
            Ok(RlimitPlan { resource, soft, hard })
        })
        .collect()
}

fn unreadable(error: &io::Error) -> SetupFailure {
    SetupFailure {
        step: "rlimit".into(),
        subject: None,
        errno: error.raw_os_error(),
        detail: error.to_string(),
        remedy: String::new(),
    }
}

/// A NUL byte cannot be in an argument, an environment or a path: the kernel's strings end there.
pub fn check(command: &CommandSpec) -> Result<(), SetupFailure> {
    let texts = command
        .argv
        .iter()
        .chain(command.env.iter().flat_map(|(name, value)| [name, value]))
        .map(|text| text.as_bytes())
        .chain([command.cwd.as_os_str().as_bytes()]);
    for text in texts {
        if text.contains(&0) {
            return Err(SetupFailure {
                step: "message".into(),
                subject: Some(OsString::from_vec(text.to_vec()).to_string_lossy().into_owned()),
                errno: None,
                detail: "a NUL byte cannot be passed to a program".into(),
                remedy: "take it out of the command".into(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_for_in_every_folder_of_the_path() {
        let found = candidates(OsStr::new("ls"), OsStr::new("/a::/b"));
        assert_eq!(found, ["/a/ls".into(), "./ls".into(), "/b/ls".into()]);
    }

    #[test]
    fn a_path_is_taken_as_it_is_and_nothing_is_found_for_nothing() {
        assert_eq!(candidates(OsStr::new("./x"), OsStr::new("/a")), ["./x".into()]);
        assert!(candidates(OsStr::new(""), OsStr::new("/a")).is_empty());
    }

    #[test]
    fn no_core_dumps_are_made_and_no_limit_is_above_the_hard_one() {
        let limits = LimitsPolicy { files: Some(u64::MAX - 1), ..LimitsPolicy::default() };
        let rlimits = rlimits(&limits, true).unwrap();
        assert!(rlimits.contains(&RlimitPlan { resource: libc::RLIMIT_CORE, soft: 0, hard: 0 }));
        let hard = stockade_sys::confine::hard_rlimit(libc::RLIMIT_NOFILE).unwrap();
        let files = RlimitPlan { resource: libc::RLIMIT_NOFILE, soft: hard, hard };
        assert!(rlimits.contains(&files));
    }
}
