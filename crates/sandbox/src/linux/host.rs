//! What this host's kernel has, as a value: so that every degradation can be a unit test.

use super::launcher::{Launcher, LauncherSource, reason};
use caps::{CapSet, Capability};
use std::str::FromStr;
use stockade_types::{Layer, SetupFailure};

/// In which way this host can confine (spec 5.3), best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Namespaces inside a user namespace, a mount tree, Landlock, seccomp.
    Namespaces,
    /// The same without a user namespace, by the capabilities of root: the cell keeps them, the command has none.
    RootNamespaces,
    /// No namespaces and no mounts: Landlock, seccomp, rlimits.
    Bare,
}

/// The host's capabilities (spec 5.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCaps {
    /// Major and minor number of the kernel.
    pub kernel: (u32, u32),
    /// The newest Landlock ABI, if there is Landlock at all.
    pub landlock_abi: Option<i32>,
    /// Whether seccomp filters exist.
    pub seccomp: bool,
    /// Whether the kernel can tell who tries what the filter refuses (Linux 5.19).
    pub seccomp_notify: bool,
    /// Whether what Landlock refuses can be read from the kernel's audit records, while auditing is switched on: ABI 7, and as root
    /// with `CAP_AUDIT_READ` on the host itself.
    pub audit_records: bool,
    /// Whether this process is root in its own user namespace.
    pub root: bool,
    /// Whether this process may make namespaces and mounts as it is (`CAP_SYS_ADMIN`), without a user namespace of its own.
    pub admin: bool,
    /// Layers that were tried and failed, with the reason; empty if nothing was tried yet.
    pub missing: Vec<(Layer, String)>,
}

impl Tier {
    /// What it is made of, in words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces in a user namespace, a mount tree, Landlock, seccomp",
            Self::RootNamespaces => {
                "namespaces and a mount tree as root, without a user namespace; Landlock, seccomp"
            }
            Self::Bare => "Landlock, seccomp and rlimits alone: no namespaces and no mounts",
        }
    }
}

impl FromStr for Lack {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word.split_once('=') {
            Some(("landlock", abi)) => abi
                .parse()
                .map(Self::LandlockAbove)
                .map_err(|_| format!("landlock={abi}: {abi:?} is no ABI number")),
            None if word == "no-userns" => Ok(Self::UserNamespaces),
            None if word == "no-mounts" => Ok(Self::Mounts),
            None if word == "no-admin" => Ok(Self::Admin),
            None if word == "no-landlock" => Ok(Self::LandlockAbove(0)),
            None if word == "no-seccomp" => Ok(Self::Seccomp),
            None if word == "no-seccomp-notify" => Ok(Self::SeccompNotify),
            _ => Err(format!(
                "{word:?} is none of landlock=ABI, no-landlock, no-userns, no-admin, no-mounts, no-seccomp, no-seccomp-notify"
            )),
        }
    }
}

/// Something that a host may lack, to see what becomes of policies then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Landlock newer than this ABI; all of it for 0.
    LandlockAbove(i32),
    /// User namespaces.
    UserNamespaces,
    /// `CAP_SYS_ADMIN` of this process.
    Admin,
    /// Mounts in a namespace of one's own.
    Mounts,
    /// Seccomp filters.
    Seccomp,
    /// Seccomp notifications that wait through signals.
    SeccompNotify,
}

/// The first Landlock ABI that writes audit records.
const AUDITING_ABI: i32 = 7;

impl HostCaps {
    /// What can be asked of the kernel without trying anything out: a few system calls.
    pub fn ask() -> Self {
        let landlock_abi = stockade_sys::confine::landlock_abi().ok();
        let root = stockade_sys::host::effective_ids().0 == 0;
        Self {
            kernel: stockade_sys::host::kernel_version(),
            landlock_abi,
            audit_records: root
                && landlock_abi >= Some(AUDITING_ABI)
                && stockade_sys::audit::AuditListener::join().is_ok(),
            seccomp: stockade_sys::confine::has_seccomp_filter(),
            seccomp_notify: stockade_sys::notify::is_available(),
            root,
            admin: caps::has_cap(None, CapSet::Effective, Capability::CAP_SYS_ADMIN)
                .unwrap_or(false),
            missing: Vec::new(),
        }
    }

    /// Tries each namespace and mount out in a launcher, but for what is known to be missing.
    pub async fn probe(self, source: LauncherSource) -> Self {
        let mut host = self;
        let outcome = async {
            let launcher = Launcher::start(source, &host)?;
            launcher.map_ids(&mut host).await?;
            launcher.probe().await
        };
        match outcome.await {
            Err(failure) => host.missing.push((Layer::UserNamespace, failure.to_string())),
            Ok(report) => {
                for feature in report.features.iter().filter(|feature| feature.errno != 0) {
                    let error = std::io::Error::from_raw_os_error(feature.errno);
                    if let Some(layer) = layer_of(&feature.name)
                        && host.lacks(layer).is_none()
                    {
                        host.missing.push((layer, format!("{}: {error}", feature.name)));
                    }
                }
            }
        }
        if host.lacks(Layer::Landlock).is_none_or(|reason| reason == NO_LANDLOCK)
            && host.landlock_abi.is_none()
        {
            host.missing.push((
                Layer::Landlock,
                "the kernel has no Landlock: it needs 5.13 or newer with landlock among its lsm= modules".into(),
            ));
        }
        if host.lacks(Layer::Seccomp).is_none_or(|reason| reason == NO_SECCOMP) && !host.seccomp {
            host.missing.push((
                Layer::Seccomp,
                "the kernel has no seccomp filters (CONFIG_SECCOMP_FILTER)".into(),
            ));
        }
        host
    }

    /// The same with something less.
    pub fn without(mut self, lack: Lack) -> Self {
        let layer = match lack {
            Lack::LandlockAbove(abi) => {
                self.landlock_abi =
                    self.landlock_abi.map(|known| known.min(abi)).filter(|abi| *abi > 0);
                self.audit_records &= self.landlock_abi >= Some(AUDITING_ABI);
                return self;
            }
            Lack::Admin => {
                self.admin = false;
                return self;
            }
            Lack::SeccompNotify => {
                self.seccomp_notify = false;
                return self;
            }
            Lack::Seccomp => {
                (self.seccomp, self.seccomp_notify) = (false, false);
                return self;
            }
            Lack::UserNamespaces => Layer::UserNamespace,
            Lack::Mounts => Layer::MountTree,
        };
        self.missing.push((layer, "said to be missing".into()));
        self
    }

    /// The same with no newer Landlock than this ABI; none at all for 0.
    pub fn landlock(self, abi: i32) -> Self {
        self.without(Lack::LandlockAbove(abi))
    }

    /// The same where nobody may make namespaces: no user namespaces, and no capability for the others.
    pub fn no_userns(self) -> Self {
        self.without(Lack::Admin).without(Lack::UserNamespaces)
    }

    /// What is known after a set-up failed, if that tells that namespaces or mounts are forbidden, as where /proc is masked: the same
    /// without a mount tree.
    pub fn after(&self, failure: &SetupFailure) -> Option<Self> {
        const STEPS: [&str; 5] =
            ["session-root", "cell-clone", "mount", "pivot-root", "mount-proc"];
        let forbidden =
            failure.errno == Some(libc::EPERM) && STEPS.contains(&failure.step.as_str());
        if !forbidden || self.tier() == Tier::Bare {
            return None;
        }
        let mut host = self.clone();
        host.missing.push((Layer::MountTree, reason(failure)));
        Some(host)
    }

    /// What can be built on these.
    pub fn tier(&self) -> Tier {
        const CARRYING: [Layer; 6] = [
            Layer::PidNamespace,
            Layer::MountNamespace,
            Layer::IpcNamespace,
            Layer::UtsNamespace,
            Layer::CgroupNamespace,
            Layer::MountTree,
        ];
        if CARRYING.iter().any(|layer| self.missing.iter().any(|(missing, _)| missing == layer)) {
            return Tier::Bare;
        }
        match (self.lacks(Layer::UserNamespace), self.admin) {
            (None, _) => Tier::Namespaces,
            (Some(_), true) => Tier::RootNamespaces,
            (Some(_), false) => Tier::Bare,
        }
    }

    /// Whether a pid namespace has its own `pid_max` (Linux 6.14).
    pub fn has_own_pid_max(&self) -> bool {
        self.kernel >= (6, 14)
    }

    /// Why a layer cannot be had here; `None` if it can, or if nothing is known against it.
    pub fn lacks(&self, layer: Layer) -> Option<String> {
        let known = self.missing.iter().find(|(missing, _)| *missing == layer);
        match layer {
            _ if known.is_some() => known.map(|(_, reason)| reason.clone()),
            Layer::Landlock if self.landlock_abi.is_none() => Some(NO_LANDLOCK.into()),
            Layer::Seccomp if !self.seccomp => Some(NO_SECCOMP.into()),
            _ => None,
        }
    }
}

const NO_LANDLOCK: &str = "the kernel has no Landlock";
const NO_SECCOMP: &str = "the kernel has no seccomp filters";

fn layer_of(feature: &str) -> Option<Layer> {
    match feature {
        "mount_proc" | "mount_tmpfs" => Some(Layer::MountTree),
        name => Layer::ALL.into_iter().find(|layer| layer.name() == name),
    }
}
