use crate::Reference;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use stockade_policy::{PathPattern, Policy, ProtectPattern, Variables};

/// One thing in bubblewrap's view.
enum Entry {
    Symlink(PathBuf),
    Bind { writable: bool },
    Tmpfs { mode: &'static str },
}

/// `bwrap` with a profile equal to a policy's, as far as bubblewrap can have one: the same folders readable, writable and hidden,
/// the same existing paths protected. It has neither Landlock, nor a seccomp filter, nor limits, nor what finds planted files.
pub fn equal_profile(reference: &Reference, policy: &Policy, variables: &Variables) -> Command {
    let files = policy.expand(variables).expect("the policy's paths");
    let mut view: BTreeMap<PathBuf, Entry> = BTreeMap::new();
    for path in ["/tmp", "/var/tmp"] {
        view.insert(path.into(), Entry::Tmpfs { mode: "1777" });
    }
    view.insert(variables.home.clone(), Entry::Tmpfs { mode: "0700" });
    let mut roots = BTreeSet::new();
    for (patterns, writable) in [(&files.read, false), (&files.write, true)] {
        for path in existing(patterns) {
            let real = path.canonicalize().expect("it exists");
            links(&path, &mut view);
            view.insert(real.clone(), Entry::Bind { writable });
            roots.insert(real);
        }
    }
    // What another root shows already needs no bind of its own.
    view.retain(|path, entry| match entry {
        Entry::Bind { writable: true } => true,
        Entry::Bind { .. } | Entry::Symlink(_) => {
            !path.ancestors().skip(1).any(|above| roots.contains(above))
        }
        Entry::Tmpfs { .. } => true,
    });
    let mut command = reference.namespaces();
    for (path, entry) in &view {
        match entry {
            Entry::Symlink(to) => command.arg("--symlink").args([to, path]),
            Entry::Bind { writable: true } => command.arg("--bind").args([path, path]),
            Entry::Bind { .. } => command.arg("--ro-bind").args([path, path]),
            Entry::Tmpfs { mode } => command.args(["--perms", mode, "--tmpfs"]).arg(path),
        };
    }
    command.args(["--proc", "/proc", "--dev", "/dev"]);
    for path in existing(&files.hide).filter(|path| path.ancestors().any(|a| roots.contains(a))) {
        let Ok(real) = path.canonicalize() else { continue };
        if real.is_dir() {
            command.args(["--perms", "0000", "--tmpfs"]).arg(real);
        } else {
            command.args(["--ro-bind", "/dev/null"]).arg(real);
        }
    }
    for pattern in &files.protect {
        let ProtectPattern::BelowRoots(components) = pattern else { continue };
        let path = variables.workspace.join(components.join("/"));
        if path.exists() {
            command.arg("--ro-bind").args([&path, &path]);
        }
    }
    reference.surroundings(&mut command);
    command.arg("--");
    command
}

/// The paths that a policy names and that are there.
fn existing(patterns: &[PathPattern]) -> impl Iterator<Item = PathBuf> {
    let list = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect()
    };
    patterns.iter().flat_map(move |pattern| pattern.matches(list)).filter(|path| path.exists())
}

/// The links on the way to a path.
fn links(path: &Path, view: &mut BTreeMap<PathBuf, Entry>) {
    for part in path.ancestors() {
        if let Ok(to) = fs::read_link(part) {
            view.insert(part.to_owned(), Entry::Symlink(to));
        }
    }
}
