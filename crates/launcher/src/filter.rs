//! A cell's seccomp filter, in the two forms that it is installed in.

use crate::listing::HiddenName;
use std::io;
use stockade_plan::{SECCOMP_NOTIFY, SeccompPlan, TellingArguments};
use stockade_sys::confine::{self, BpfProgram};
use stockade_sys::{errno, notify};

/// `SECCOMP_RET_ERRNO` with `EPERM` (linux/seccomp.h).
const NOT_PERMITTED: u32 = 0x0005_0000 | nix::libc::EPERM as u32;

/// linux/audit.h: `AUDIT_ARCH_*` of this program.
#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;

/// Made once for a cell, installed for each command.
pub struct Filter {
    /// As it was planned.
    program: BpfProgram,
    /// The same with refusals that the kernel answers itself, if the program asks somebody.
    silent: Option<BpfProgram>,
    telling: Vec<TellingArguments>,
    /// What listings leave out, if they are asked for at all.
    hidden: Option<Vec<HiddenName>>,
}

impl Filter {
    /// From its plan, and what the cell hides.
    pub fn new(plan: SeccompPlan, hidden: Vec<HiddenName>) -> Self {
        let program = BpfProgram::new(plan.program.iter().map(|i| (i.code, i.jt, i.jf, i.k)));
        let silent = program
            .returns(SECCOMP_NOTIFY)
            .then(|| program.with_returns(SECCOMP_NOTIFY, NOT_PERMITTED))
            // Names are seen then, and what they name is not there.
            .map(|silent| match plan.listings {
                true => silent.with_allowed(NATIVE, nix::libc::SYS_getdents64 as u32),
                false => silent,
            });
        let hidden = plan.listings.then_some(hidden);
        Self { program, silent, telling: plan.telling, hidden }
    }

    /// Puts the filter on the calling process. Returns the number of its listener, if there is one. Async-signal-safe.
    pub fn install(&self) -> io::Result<Option<i32>> {
        let Some(silent) = &self.silent else {
            confine::seccomp(&self.program)?;
            return Ok(None);
        };
        match notify::install(&self.program) {
            Ok(listener) => Ok(Some(listener)),
            // Only one filter of a process can have a listener, and a sandbox around this one has it. The same is refused.
            Err(error) if errno(&error) == nix::libc::EBUSY => {
                confine::seccomp(silent)?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The same for the file worker, which nobody listens to, and which is ours: it opens paths by openat2, whose flags no filter can see,
    /// and never with a mode of the command's choosing.
    pub fn install_for_worker(&self) -> io::Result<()> {
        let silent = self.silent.as_ref().unwrap_or(&self.program);
        let number = nix::libc::SYS_openat2 as u32;
        confine::seccomp(&silent.with_allowed(NATIVE, number))
    }

    /// What a listing is to leave out; `None` where this system call is none, or is refused like others.
    pub fn hidden(&self, number: u32) -> Option<&[HiddenName]> {
        let asked = i64::from(number) == nix::libc::SYS_getdents64;
        self.hidden.as_deref().filter(|_| asked)
    }

    /// The arguments that tell attempts apart; the others become 0. Async-signal-safe.
    pub fn telling(&self, number: u32, mut arguments: [u64; 6]) -> [u64; 6] {
        let known = self.telling.iter().find(|telling| telling.number == number);
        let bits = known.map_or(0, |telling| telling.arguments);
        for (index, argument) in arguments.iter_mut().enumerate() {
            // The kernel looks at the lower half of those that are looked at here.
            *argument = if bits & 1 << index == 0 { 0 } else { *argument & 0xffff_ffff };
        }
        arguments
    }
}
