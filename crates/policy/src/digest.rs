use crate::{
    EnvironmentPolicy, EscalationPolicy, FilesystemPolicy, LimitsPolicy, LiteralPaths, NetworkMode,
    NetworkPolicy, Policy, SyscallPolicy,
};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

impl Policy {
    /// A SHA-256 in hexadecimal over what the policy says: the key of a cell, and the policy's mark in logs. Its name and
    /// the order of its lists do not count, since they change nothing of what is allowed.
    pub fn digest(&self) -> String {
        // Taken apart without `..`, here and below: a new field that were forgotten would let two policies share a cell.
        let Policy {
            name: _,
            require,
            filesystem,
            network,
            environment,
            limits,
            syscalls,
            escalation,
        } = self;
        let FilesystemPolicy { read, write, hide, protect, literal } = filesystem;
        let LiteralPaths {
            read: literal_read,
            write: literal_write,
            hide: literal_hide,
            protect: literal_protect,
            unix_sockets: literal_sockets,
            granted,
        } = literal;
        let NetworkPolicy { mode, allow, deny, unix_sockets } = network;
        let EnvironmentPolicy { keep, set, scrub, scrub_secrets, scrub_loaders } = environment;
        let LimitsPolicy { wall, grace, memory, pids, cpu, files, file_size, output, task_output } =
            limits;
        let SyscallPolicy { allow: syscalls_allow, deny: syscalls_deny } = syscalls;
        let EscalationPolicy { ceiling, always_ask } = escalation;

        let mut form = Canonical(Sha256::new());
        form.bytes(b"stockade policy 4");
        form.list(require.iter().map(|layer| layer.name().as_bytes()));
        for list in [
            read,
            write,
            hide,
            protect,
            allow,
            deny,
            unix_sockets,
            keep,
            scrub,
            syscalls_allow,
            syscalls_deny,
        ] {
            form.list(list.iter().map(String::as_bytes));
        }
        for list in
            [literal_read, literal_write, literal_hide, literal_protect, literal_sockets, granted]
        {
            form.list(list.iter().map(|path: &PathBuf| path.as_os_str().as_bytes()));
        }
        form.bytes(match mode {
            NetworkMode::None => b"none",
            NetworkMode::Proxy => b"proxy",
            NetworkMode::Host => b"host",
        });
        form.number(Some(set.len() as u128));
        for (name, value) in set {
            form.bytes(name.as_bytes());
            form.bytes(value.as_bytes());
        }
        form.number(Some(u128::from(*scrub_secrets)));
        form.number(Some(u128::from(*scrub_loaders)));
        for time in [wall, grace] {
            form.number(time.as_ref().map(Duration::as_nanos));
        }
        for number in [memory, pids, cpu, files, file_size, output, task_output] {
            form.number(number.map(u128::from));
        }
        form.list(ceiling.iter().map(|ceiling| ceiling.as_os_str().as_bytes()));
        form.list(always_ask.iter().map(|kind| kind.name().as_bytes()));
        form.finish()
    }
}

/// Every piece carries its length, so that no two policies give the same bytes.
struct Canonical(Sha256);

impl Canonical {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn list<'a>(&mut self, items: impl Iterator<Item = &'a [u8]>) {
        let mut items: Vec<&[u8]> = items.collect();
        items.sort_unstable();
        items.dedup();
        self.0.update((items.len() as u64).to_le_bytes());
        items.into_iter().for_each(|item| self.bytes(item));
    }

    fn number(&mut self, number: Option<u128>) {
        match number {
            Some(number) => self.bytes(&number.to_le_bytes()),
            None => self.bytes(&[]),
        }
    }

    fn finish(self) -> String {
        self.0.finalize().iter().fold(String::with_capacity(64), |mut hex, byte| {
            // Writing into a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::policy;
    use crate::{GrantKind, NetworkMode, Policy};
    use std::time::Duration;
    use stockade_types::Layer;

    #[test]
    fn a_digest_is_the_same_for_the_same_permissions() {
        let mut a = policy();
        a.filesystem.read = vec!["/a".into(), "/b".into()];
        let mut b = a.clone();
        b.name = "another".into();
        b.filesystem.read.reverse();
        assert_eq!(a.digest(), b.digest());
        assert_eq!(a.digest().len(), 64);
        assert!(a.digest().bytes().all(|byte| byte.is_ascii_hexdigit()));
    }

    #[test]
    fn every_key_counts_in_the_digest() {
        let changes: Vec<fn(&mut Policy)> = vec![
            |p| p.require.retain(|layer| *layer != Layer::Seccomp),
            |p| p.filesystem.read.push("/a".into()),
            |p| p.filesystem.write.push("/a".into()),
            |p| p.filesystem.hide.push("/a".into()),
            |p| p.filesystem.protect.push("a".into()),
            |p| p.filesystem.literal.read.push("/a".into()),
            |p| p.filesystem.literal.write.push("/a".into()),
            |p| p.filesystem.literal.hide.push("/a".into()),
            |p| p.filesystem.literal.protect.push("/a".into()),
            |p| p.filesystem.literal.unix_sockets.push("/a".into()),
            |p| p.network.mode = NetworkMode::Host,
            |p| p.network.mode = NetworkMode::Proxy,
            |p| p.network.allow.push("a".into()),
            |p| p.network.deny.push("a".into()),
            |p| p.network.unix_sockets.push("/a".into()),
            |p| p.environment.keep.push("a".into()),
            |p| p.environment.scrub.push("a".into()),
            |p| drop(p.environment.set.insert("a".into(), String::new())),
            |p| drop(p.environment.set.insert("a".into(), "b".into())),
            |p| p.environment.scrub_secrets = false,
            |p| p.environment.scrub_loaders = false,
            |p| p.limits.wall = Some(Duration::ZERO),
            |p| p.limits.grace = Some(Duration::ZERO),
            |p| p.limits.memory = Some(0),
            |p| p.limits.pids = Some(0),
            |p| p.limits.cpu = Some(0),
            |p| p.limits.files = Some(0),
            |p| p.limits.file_size = Some(0),
            |p| p.limits.output = Some(0),
            |p| p.limits.task_output = Some(0),
            |p| p.syscalls.allow.push("a".into()),
            |p| p.syscalls.deny.push("a".into()),
            |p| p.escalation.ceiling = Some("a".into()),
            |p| p.escalation.always_ask.push(GrantKind::Write),
        ];
        let mut digests = vec![policy().digest()];
        for change in changes {
            let mut changed = policy();
            change(&mut changed);
            digests.push(changed.digest());
        }
        let all = digests.len();
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), all);
    }
}
