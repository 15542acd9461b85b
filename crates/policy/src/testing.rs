//! What the tests of this crate share.
use crate::{
    EnvironmentPolicy, FilesystemPolicy, LimitsPolicy, NetworkMode, NetworkPolicy, Policy,
    SyscallPolicy,
};
use stockade_types::Layer;

/// A policy that allows nothing and requires everything.
pub(crate) fn policy() -> Policy {
    Policy {
        name: "test".into(),
        require: Layer::ALL.to_vec(),
        filesystem: FilesystemPolicy::default(),
        network: NetworkPolicy { mode: NetworkMode::None, allow: Vec::new() },
        environment: EnvironmentPolicy::default(),
        limits: LimitsPolicy::default(),
        syscalls: SyscallPolicy::default(),
    }
}
