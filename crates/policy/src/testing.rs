//! What the tests of this crate share.
use crate::{
    EnvironmentPolicy, EscalationPolicy, FilesystemPolicy, LimitsPolicy, NetworkPolicy, Policy,
    SyscallPolicy, Variables,
};
use stockade_types::Layer;

/// A policy that allows nothing and requires everything.
pub(crate) fn policy() -> Policy {
    Policy {
        name: "test".into(),
        require: Layer::ALL.to_vec(),
        filesystem: FilesystemPolicy::default(),
        network: NetworkPolicy::default(),
        environment: EnvironmentPolicy::default(),
        limits: LimitsPolicy::default(),
        syscalls: SyscallPolicy::default(),
        escalation: EscalationPolicy::default(),
    }
}

pub(crate) fn variables() -> Variables {
    Variables { workspace: "/w".into(), home: "/home/u".into(), session: Some("/s/1".into()) }
}
