use serde::{Deserialize, Serialize};
use std::fmt;

/// One mechanism of the kernel that a confinement is made of (spec 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Layer {
    UserNamespace,
    PidNamespace,
    MountNamespace,
    NetworkNamespace,
    IpcNamespace,
    UtsNamespace,
    CgroupNamespace,
    /// A mount tree made for the policy.
    MountTree,
    Landlock,
    Seccomp,
    NoNewPrivs,
    /// No capabilities left, in any set.
    Capabilities,
    Rlimits,
}

impl Layer {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Layer; 13] = [
        Layer::UserNamespace,
        Layer::PidNamespace,
        Layer::MountNamespace,
        Layer::NetworkNamespace,
        Layer::IpcNamespace,
        Layer::UtsNamespace,
        Layer::CgroupNamespace,
        Layer::MountTree,
        Layer::Landlock,
        Layer::Seccomp,
        Layer::NoNewPrivs,
        Layer::Capabilities,
        Layer::Rlimits,
    ];

    /// The layer's name in files and output.
    pub fn name(self) -> &'static str {
        match self {
            Layer::UserNamespace => "user_namespace",
            Layer::PidNamespace => "pid_namespace",
            Layer::MountNamespace => "mount_namespace",
            Layer::NetworkNamespace => "network_namespace",
            Layer::IpcNamespace => "ipc_namespace",
            Layer::UtsNamespace => "uts_namespace",
            Layer::CgroupNamespace => "cgroup_namespace",
            Layer::MountTree => "mount_tree",
            Layer::Landlock => "landlock",
            Layer::Seccomp => "seccomp",
            Layer::NoNewPrivs => "no_new_privs",
            Layer::Capabilities => "capabilities",
            Layer::Rlimits => "rlimits",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a layer was in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum LayerState {
    /// In force; with a detail such as `abi 7`.
    Enforced {
        /// A detail for people; may be empty.
        #[serde(skip_serializing_if = "String::is_empty", default)]
        detail: String,
    },
    /// The policy does not ask for it (`network = "host"`, full access).
    NotRequested,
    /// Asked for, missing here, and the policy's `require` let it go.
    Missing {
        /// Why it is missing.
        reason: String,
    },
}

/// What confined a call, layer by layer, in the order of [`Layer::ALL`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LayerReport(pub Vec<LayerEntry>);

/// One line of a [`LayerReport`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerEntry {
    /// Which layer.
    pub layer: Layer,
    /// Its state.
    #[serde(flatten)]
    pub state: LayerState,
}

impl LayerReport {
    /// Adds a line.
    pub fn push(&mut self, layer: Layer, state: LayerState) {
        self.0.push(LayerEntry { layer, state });
    }
}
