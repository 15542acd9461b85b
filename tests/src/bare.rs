use std::fs;
use std::path::{Path, PathBuf};

const FORBID: &str = "echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all --inh-caps=-all -- \"$@\"";

/// The beginning of a command that runs the rest where nobody may make a namespace: in a user namespace that allows no other, without a
/// capability.
pub const WITHOUT_NAMESPACES: [&str; 7] =
    ["unshare", "--user", "--map-root-user", "bash", "-c", FORBID, "forbidden"];

/// Writes a policy of the user's into a folder that gives up everything but what needs no namespace.
///
/// # Panics
/// When the file cannot be written.
pub fn lowered_policy(folder: &Path) -> PathBuf {
    let path = folder.join("lowered.toml");
    let text = "name = \"lowered\"\nextends = \"workspace-write\"\n\
        require = [\"landlock\", \"seccomp\", \"rlimits\", \"no_new_privs\", \"capabilities\"]\n";
    fs::write(&path, text).expect("a policy");
    path
}
