//! What this host's kernel has, as a value: so that every degradation can be a unit test.

use super::launcher::{Launcher, LauncherSource};
use stockade_types::Layer;

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
    /// Whether this process is root in its own user namespace.
    pub root: bool,
    /// Layers that were tried and failed, with the reason; empty if nothing was tried yet.
    pub missing: Vec<(Layer, String)>,
}

impl HostCaps {
    /// What can be asked of the kernel without trying anything out: a few system calls.
    pub fn ask() -> Self {
        Self {
            kernel: stockade_sys::host::kernel_version(),
            landlock_abi: stockade_sys::confine::landlock_abi().ok(),
            seccomp: stockade_sys::confine::has_seccomp_filter(),
            seccomp_notify: stockade_sys::notify::is_available(),
            root: stockade_sys::host::effective_ids().0 == 0,
            missing: Vec::new(),
        }
    }

    /// Asks, and tries each namespace and mount out in a launcher.
    pub async fn probe(source: LauncherSource) -> Self {
        let mut host = Self::ask();
        let outcome = async {
            let launcher = Launcher::start(source)?;
            launcher.map_ids().await?;
            launcher.probe().await
        };
        match outcome.await {
            Err(failure) => host.missing.push((Layer::UserNamespace, failure.to_string())),
            Ok(report) => {
                for feature in report.features.iter().filter(|feature| feature.errno != 0) {
                    let error = std::io::Error::from_raw_os_error(feature.errno);
                    if let Some(layer) = layer_of(&feature.name) {
                        host.missing.push((layer, format!("{}: {error}", feature.name)));
                    }
                }
            }
        }
        if host.landlock_abi.is_none() {
            host.missing.push((
                Layer::Landlock,
                "the kernel has no Landlock: it needs 5.13 or newer with landlock among its lsm= modules".into(),
            ));
        }
        if !host.seccomp {
            host.missing.push((
                Layer::Seccomp,
                "the kernel has no seccomp filters (CONFIG_SECCOMP_FILTER)".into(),
            ));
        }
        host
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
            Layer::Landlock if self.landlock_abi.is_none() => {
                Some("the kernel has no Landlock".into())
            }
            Layer::Seccomp if !self.seccomp => Some("the kernel has no seccomp filters".into()),
            _ => None,
        }
    }
}

fn layer_of(feature: &str) -> Option<Layer> {
    match feature {
        "mount_proc" | "mount_tmpfs" => Some(Layer::MountTree),
        name => Layer::ALL.into_iter().find(|layer| layer.name() == name),
    }
}
