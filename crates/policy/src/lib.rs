//! What a call may do: policy files, what they mean, and the environment they allow. Pure functions: nothing in here
//! asks the kernel or looks at the file system, except for loading a policy file.
#![forbid(unsafe_code)]

mod model;

pub use model::{
    EnvironmentPolicy, FilesystemPolicy, LimitsPolicy, NetworkMode, NetworkPolicy, Policy,
    SyscallPolicy, Variables,
};
