//! What an error text says that the sandbox refused, checked against what the cell shows (spec 5.9). A text can be forged, so this
//! is for people to read and never a reason to grant anything; and nothing is asked of the host here, or a command could find
//! out by it what exists outside.

use std::path::{Component, Path, PathBuf};
use stockade_plan::{MountStep, ProtectedPath};
use stockade_types::{Denial, DenialKind, Evidence};

/// The most that is inferred from one command's output.
const DENIALS_MAX: usize = 16;
/// How much of an output is looked at, from its end, and the most characters of one line.
const TEXT_MAX: usize = 64 * 1024;
const LINE_MAX: usize = 2048;

/// What a cell shows, as far as an error text needs checking against it.
#[derive(Debug, Default)]
pub struct Shown {
    pub mounts: Vec<MountStep>,
    pub protected: Vec<ProtectedPath>,
    /// Nothing but loopback can be reached.
    pub no_network: bool,
}

/// What became of an attempt, in the words of the C library and of the runtimes that have their own.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    NotWritable,
    NotAllowed,
    Busy,
    Absent,
    Unreachable,
}

const PHRASES: [(&str, Fault); 15] = [
    ("read-only file system", Fault::NotWritable),
    // A mount point cannot be renamed, removed or replaced, which is how git changes its settings.
    ("device or resource busy", Fault::Busy),
    ("permission denied", Fault::NotAllowed),
    ("operation not permitted", Fault::NotAllowed),
    ("no such file or directory", Fault::Absent),
    ("network is unreachable", Fault::Unreachable),
    ("failed to connect to ", Fault::Unreachable),
    ("connect enetunreach ", Fault::Unreachable),
    ("could not resolve host", Fault::Unreachable),
    ("temporary failure in name resolution", Fault::Unreachable),
    ("name or service not known", Fault::Unreachable),
    ("failed to lookup address", Fault::Unreachable),
    ("getaddrinfo eai_again", Fault::Unreachable),
    ("getaddrinfo enotfound", Fault::Unreachable),
    ("no address associated with hostname", Fault::Unreachable),
];

impl Shown {
    /// What the output of a command that ran in `cwd` lets one suppose.
    pub fn infer(&self, output: &[u8], cwd: &Path) -> Vec<Denial> {
        // Full access shows the host itself, and refuses nothing.
        if self.mounts.is_empty() {
            return Vec::new();
        }
        let end = output.get(output.len().saturating_sub(TEXT_MAX)..).unwrap_or(output);
        let text = String::from_utf8_lossy(end);
        let mut denials: Vec<Denial> = Vec::new();
        for line in text.lines().filter(|line| line.len() <= LINE_MAX) {
            let lower = line.to_ascii_lowercase();
            if let Some(denial) = self.git_folder_elsewhere(line)
                && !denials.iter().any(|known| same(known, &denial))
            {
                denials.push(denial);
            }
            let Some((at, fault)) =
                PHRASES.iter().find_map(|(phrase, fault)| Some((lower.find(phrase)?, *fault)))
            else {
                continue;
            };
            let found = match fault {
                Fault::Unreachable => self.no_network.then(|| unreachable(line)).flatten(),
                _ => {
                    candidates(line, at).into_iter().find_map(|path| self.judge(&path, cwd, fault))
                }
            };
            if let Some(denial) = found
                && denials.len() < DENIALS_MAX
                && !denials.iter().any(|known| same(known, &denial))
            {
                denials.push(denial);
            }
            if denials.len() == DENIALS_MAX {
                break;
            }
        }
        denials
    }

    /// A linked worktree, a submodule or a folder of a repository as the workspace: its git folder lies outside.
    fn git_folder_elsewhere(&self, line: &str) -> Option<Denial> {
        let (_, path) = line.split_once("not a git repository: ")?;
        let path = path.trim().trim_matches('\'');
        let (above, _) = path.split_once("/.git/")?;
        let folder = Path::new(above).join(".git");
        if !folder.is_absolute() || !matches!(self.place(&folder), Place::Outside) {
            return None;
        }
        Some(Denial {
            kind: DenialKind::Read,
            target: folder.to_string_lossy().into_owned(),
            evidence: Evidence::Inferred,
            grant: format!("--write {}", folder.display()),
            note: "the git folder of this worktree, which the policy does not show; granted, its hooks and settings stay protected".to_owned(),
        })
    }

    /// Whether the policy is what stands behind the fault.
    fn judge(&self, path: &str, cwd: &Path, fault: Fault) -> Option<Denial> {
        let path = plain(&cwd.join(path));
        let place = self.place(&path);
        let by_rule = |kind, grant: String, note: &str| {
            Some(Denial {
                kind,
                target: path.to_string_lossy().into_owned(),
                evidence: Evidence::Inferred,
                grant,
                note: note.to_owned(),
            })
        };
        match (fault, place) {
            (Fault::Absent | Fault::NotAllowed, Place::Hidden) => {
                by_rule(DenialKind::Read, String::new(), "hidden by the policy")
            }
            (Fault::NotWritable | Fault::NotAllowed | Fault::Busy, Place::Protected) => {
                by_rule(DenialKind::Write, String::new(), "protected by the policy")
            }
            (Fault::Busy, _) if self.holds_protected(&path) => {
                by_rule(DenialKind::Write, String::new(), "it holds what the policy protects")
            }
            (Fault::NotWritable | Fault::NotAllowed, Place::Readable) => {
                by_rule(DenialKind::Write, format!("--write {}", path.display()), "")
            }
            (Fault::NotWritable, Place::Own | Place::Outside) => {
                by_rule(DenialKind::Write, String::new(), "it belongs to the sandbox")
            }
            (Fault::Absent, Place::Outside) => {
                let grant = format!("--read {}", path.display());
                by_rule(
                    DenialKind::Read,
                    grant,
                    "the policy does not show it, whether or not it exists",
                )
            }
            _ => None,
        }
    }

    fn holds_protected(&self, path: &Path) -> bool {
        self.protected.iter().any(|protected| {
            let whole = protected.root.as_path().join(protected.relative.as_path());
            whole.starts_with(path)
        })
    }

    /// What to do about a path that the kernel refused: the grant that would allow it, or why none can.
    pub fn grant(&self, kind: DenialKind, path: &Path) -> (String, &'static str) {
        match (self.place(path), kind) {
            (Place::Hidden, _) => (String::new(), "hidden by the policy"),
            (Place::Protected, DenialKind::Write) => (String::new(), "protected by the policy"),
            (Place::Own, _) => (String::new(), "it belongs to the sandbox"),
            (_, DenialKind::Read) => (format!("--read {}", path.display()), ""),
            (_, DenialKind::Write) => (format!("--write {}", path.display()), ""),
            _ => (String::new(), ""),
        }
    }

    fn place(&self, path: &Path) -> Place {
        let mut path = path.to_path_buf();
        // Links that the cell's tree has, such as /bin; a link may lead to another.
        for _ in 0..8 {
            let link = self.mounts.iter().find_map(|step| match step {
                MountStep::Symlink { target, to } => {
                    let rest = path.strip_prefix(target.as_path()).ok()?;
                    let folder = target.as_path().parent()?;
                    Some(plain(&folder.join(to.as_path()).join(rest)))
                }
                _ => None,
            });
            match link {
                Some(next) => path = next,
                None => break,
            }
        }
        let under = |target: &stockade_plan::Bytes| path.starts_with(target.as_path());
        let hidden =
            |step: &MountStep| matches!(step, MountStep::Hide { target, .. } if under(target));
        if self.mounts.iter().any(hidden) {
            return Place::Hidden;
        }
        let protected = |protected: &ProtectedPath| {
            let whole = protected.root.as_path().join(protected.relative.as_path());
            path.starts_with(whole)
        };
        if self.protected.iter().any(protected) {
            return Place::Protected;
        }
        if path.starts_with("/proc") || path.starts_with("/dev") {
            return Place::Own;
        }
        // The innermost counts.
        let mut best: Option<(usize, Place)> = None;
        for step in &self.mounts {
            let (target, place) = match step {
                MountStep::Bind { target, writable: true, .. } => (target, Place::Writable),
                MountStep::Bind { target, .. } => (target, Place::Readable),
                MountStep::Session { target, .. } => (target, Place::Writable),
                _ => continue,
            };
            let depth = target.0.len();
            if under(target) && best.is_none_or(|(known, _)| depth > known) {
                best = Some((depth, place));
            }
        }
        best.map_or(Place::Outside, |(_, place)| place)
    }
}

#[derive(Clone, Copy)]
enum Place {
    Hidden,
    Protected,
    Readable,
    Writable,
    /// /proc and /dev, which every cell has of its own.
    Own,
    Outside,
}

/// Two denials of one thing.
fn same(one: &Denial, other: &Denial) -> bool {
    one.kind == other.kind && one.target == other.target
}

/// `None` for the call's own loopback, which it has whatever the policy says.
fn unreachable(line: &str) -> Option<Denial> {
    let after = |marker: &str| line.split_once(marker).map(|(_, rest)| rest);
    let port = |rest: &str| {
        let mut words = rest.splitn(4, ' ');
        let (host, port, number) = (words.next()?, words.next()?, words.next()?);
        let number = number.trim_end_matches(|c: char| !c.is_ascii_digit());
        (port == "port").then(|| format!("{host}:{number}"))
    };
    let with_port = after("ailed to connect to ").and_then(port);
    let host = with_port
        .as_deref()
        .or_else(|| after("ailed to connect to "))
        .or_else(|| after("ENETUNREACH "))
        .or_else(|| after("://"))
        .or_else(|| after("resolve host: "))
        .or_else(|| after("EAI_AGAIN "))
        .or_else(|| after("ENOTFOUND "))
        .map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-._:[]".contains(c));
            rest.get(..end.unwrap_or(rest.len())).unwrap_or(rest).trim_end_matches([':', '.'])
        })
        .filter(|host| !host.is_empty());
    let own = ["localhost", "127.", "[::1]", "::1", "0.0.0.0"];
    if host.is_some_and(|host| own.iter().any(|own| host.starts_with(own))) {
        return None;
    }
    Some(Denial {
        kind: DenialKind::Network,
        target: host.unwrap_or("the network").to_owned(),
        evidence: Evidence::Inferred,
        grant: "--net host".into(),
        note: String::new(),
    })
}

/// What in a line may be the path: what stands in quotes, then the words, the one nearest to the phrase first.
fn candidates(line: &str, phrase: usize) -> Vec<String> {
    let mut quoted = Vec::new();
    for (open, close) in [('\'', '\''), ('"', '"'), ('‘', '’'), ('`', '\'')] {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once(open) {
            let Some((inner, behind)) = after.split_once(close) else { break };
            if !inner.is_empty() {
                quoted.push(inner.to_owned());
            }
            rest = behind;
        }
    }
    // "tool: path: phrase", as perror(3) has it; a path may hold spaces.
    let before = line.get(..phrase).unwrap_or_default().trim_end_matches([' ', ':']);
    let last = before.rsplit(": ").next().unwrap_or_default();
    let words = last.split_whitespace().rev().filter(|word| word.contains('/'));
    quoted.into_iter().chain([last.to_owned()]).chain(words.map(str::to_owned)).collect()
}

/// Without `.` and `..`, by the words alone.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                out.pop();
            }
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_plan::SessionFolder;

    fn shown() -> Shown {
        let bind = |path: &str, writable| MountStep::Bind {
            source: path.into(),
            target: path.into(),
            writable,
            identity: None,
        };
        Shown {
            mounts: vec![
                bind("/usr", false),
                bind("/etc", false),
                bind("/home/u/work", true),
                MountStep::Symlink { target: "/bin".into(), to: "usr/bin".into() },
                MountStep::Session { folder: SessionFolder::Tmp, target: "/tmp".into() },
                MountStep::Hide { target: "/etc/shadow".into(), absent: false },
            ],
            protected: vec![ProtectedPath {
                root: "/home/u/work".into(),
                relative: ".git/hooks".into(),
            }],
            no_network: true,
        }
    }

    fn inferred(line: &str) -> Vec<(DenialKind, String, String)> {
        let denials = shown().infer(line.as_bytes(), Path::new("/home/u/work"));
        assert!(denials.iter().all(|denial| denial.evidence == Evidence::Inferred));
        denials.into_iter().map(|denial| (denial.kind, denial.target, denial.grant)).collect()
    }

    // spec 5.9
    #[test]
    fn an_error_that_the_policy_explains_names_the_path_and_the_grant() {
        use DenialKind::{Read, Write};
        for (line, kind, target, grant) in [
            ("bash: line 1: /usr/x: Read-only file system", Write, "/usr/x", "--write /usr/x"),
            (
                "touch: cannot touch '/etc/a b': Permission denied",
                Write,
                "/etc/a b",
                "--write /etc/a b",
            ),
            (
                "touch: cannot touch ‘/bin/x’: Read-only file system",
                Write,
                "/bin/x",
                "--write /bin/x",
            ),
            (
                "OSError: [Errno 30] Read-only file system: '/usr/y'",
                Write,
                "/usr/y",
                "--write /usr/y",
            ),
            (
                "Error: EROFS: read-only file system, open '/usr/z'",
                Write,
                "/usr/z",
                "--write /usr/z",
            ),
            (
                "cat: /opt/data/f: No such file or directory",
                Read,
                "/opt/data/f",
                "--read /opt/data/f",
            ),
            (
                "cat: ../other/f: No such file or directory",
                Read,
                "/home/u/other/f",
                "--read /home/u/other/f",
            ),
            ("cat: /etc/shadow: Permission denied", Read, "/etc/shadow", ""),
            ("bash: .git/hooks/x: Read-only file system", Write, "/home/u/work/.git/hooks/x", ""),
            (
                "error: could not write config file .git/hooks: Device or resource busy",
                Write,
                "/home/u/work/.git/hooks",
                "",
            ),
            (
                "mv: cannot move '.git' to 'g': Device or resource busy",
                Write,
                "/home/u/work/.git",
                "",
            ),
            (
                "fatal: not a git repository: /home/u/main/.git/worktrees/wt",
                Read,
                "/home/u/main/.git",
                "--write /home/u/main/.git",
            ),
            (
                "bash: line 1: /proc/sys/kernel/x: Read-only file system",
                Write,
                "/proc/sys/kernel/x",
                "",
            ),
        ] {
            assert_eq!(inferred(line), [(kind, target.to_owned(), grant.to_owned())], "{line}");
        }
    }

    #[test]
    fn an_error_that_the_policy_does_not_explain_is_the_commands_own() {
        for line in [
            "cat: missing.txt: No such file or directory",
            "cat: /usr/share/no-such: No such file or directory",
            "./script: Permission denied",
            "touch: cannot touch '/tmp/x/y': No such file or directory",
            "cat: /tmp/locked: Permission denied",
            "all is well in /usr",
            "umount: /usr: Device or resource busy",
            "fatal: not a git repository (or any of the parent directories): .git",
            "fatal: not a git repository: /home/u/work/.git/worktrees/wt",
            "",
        ] {
            assert_eq!(inferred(line), [], "{line}");
        }
    }

    #[test]
    fn a_host_that_cannot_be_reached_is_named() {
        for (line, target) in [
            ("curl: (6) Could not resolve host: example.com", "example.com"),
            (
                "fatal: unable to access 'https://example.com/x.git/': Could not resolve host: example.com",
                "example.com",
            ),
            ("Error: getaddrinfo EAI_AGAIN registry.example.org", "registry.example.org"),
            ("connect: Network is unreachable", "the network"),
            (
                "curl: (7) Failed to connect to 10.0.0.1 port 81 after 0 ms: Couldn't connect to server",
                "10.0.0.1:81",
            ),
            ("Error: connect ENETUNREACH 10.0.0.1:81 - Local (0.0.0.0:0)", "10.0.0.1:81"),
        ] {
            let grant = "--net host".to_owned();
            assert_eq!(inferred(line), [(DenialKind::Network, target.to_owned(), grant)], "{line}");
        }
        let own = "curl: (7) Failed to connect to 127.0.0.1 port 81 after 0 ms: Couldn't connect";
        assert_eq!(inferred(own), []);
        let shown = Shown { no_network: false, ..shown() };
        assert!(shown.infer(b"connect: Network is unreachable", Path::new("/")).is_empty());
    }

    #[test]
    fn what_is_inferred_is_bounded_and_any_bytes_will_do() {
        let mut text = b"\xff\xfe: Permission denied\n'\n: Permission denied\n".to_vec();
        for number in 0..1000 {
            text.extend(format!("x: /usr/{number}: Read-only file system\n").bytes());
        }
        assert_eq!(shown().infer(&text, Path::new("/home/u/work")).len(), DENIALS_MAX);
    }
}
