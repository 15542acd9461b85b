//! A policy's paths on a tree of folders, files and links, both made from the input: whatever links there are, the mounts are in order,
//! no source is behind a link, and nothing hidden is shown that the policy does not name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;
use stockade_plan::MountStep;
use stockade_policy::{PathPattern, Policy, Variables};
use stockade_sandbox::linux::resolve_for_fuzzing;

const NAMES: [&[u8]; 8] = [b"a", b"b", b"ab", b".git", b"hooks", b"config", b"\xff", b"*"];

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// One to four names.
    fn relative(&mut self) -> Option<PathBuf> {
        let mut path = PathBuf::new();
        for _ in 0..=self.next()? % 4 {
            path.push(OsStr::from_bytes(NAMES[usize::from(self.next()?) % NAMES.len()]));
        }
        Some(path)
    }
}

/// In memory: the tree is made anew each time.
fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let root = PathBuf::from(format!("/dev/shm/stockade-fuzz-{}", std::process::id()));
        fs::create_dir_all(&root).expect("a folder in memory");
        root.canonicalize().expect("it exists")
    })
}

fn plant(input: &mut Input, root: &Path) -> Option<()> {
    for _ in 0..input.next()? % 12 {
        let kind = input.next()?;
        let path = root.join(input.relative()?);
        if let Some(parent) = path.parent() {
            // A file or link may be in the way: then nothing is made.
            let _ = fs::create_dir_all(parent);
        }
        let _ = match kind % 5 {
            0 | 1 => fs::create_dir_all(&path),
            2 => fs::write(&path, b"x"),
            3 => symlink(input.relative()?, &path),
            _ => symlink(root.join(input.relative()?), &path),
        };
    }
    Some(())
}

fn policy(input: &mut Input, root: &Path) -> Option<Policy> {
    let mut policy = Policy::load(OsStr::new("read-only")).expect("it is shipped");
    let files = &mut policy.filesystem;
    for list in [&mut files.read, &mut files.write, &mut files.hide, &mut files.protect] {
        list.clear();
    }
    for _ in 0..input.next()? % 12 {
        let kind = input.next()?;
        let relative = input.relative()?;
        let entry = relative.to_str().map(|text| format!("$WORKSPACE/{text}"));
        let literal = root.join(&relative);
        match (kind % 8, entry) {
            (0, Some(entry)) => files.read.push(entry),
            (1, Some(entry)) => files.write.push(entry),
            (2 | 3, Some(entry)) => files.hide.push(entry),
            (4, _) => files.literal.read.push(literal),
            (5, _) => files.literal.write.push(literal),
            (6, _) => files.literal.hide.push(literal),
            (7, Some(_)) => files.literal.protect.push(literal),
            _ => {}
        }
    }
    Some(policy)
}

fn matches(patterns: &[PathPattern]) -> impl Iterator<Item = PathBuf> {
    let list = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).collect()
    };
    patterns.iter().flat_map(move |pattern| pattern.matches(list))
}

fn check(policy: &Policy, variables: &Variables, root: &Path) {
    let Ok(resolved) = resolve_for_fuzzing(policy, variables) else { return };
    let files = policy.expand(variables).expect("it was resolved");
    let hidden: Vec<PathBuf> =
        matches(&files.hide).filter_map(|path| path.canonicalize().ok()).collect();
    let mut binds: Vec<&Path> = Vec::new();
    let mut shown: Vec<&Path> = Vec::new();
    let mut covered: Vec<&Path> = Vec::new();
    for step in &resolved.mounts {
        match step {
            MountStep::Bind { source, target, .. } => {
                assert_eq!(source, target);
                let path = source.as_path();
                assert!(
                    !binds.iter().any(|earlier| earlier.starts_with(path)),
                    "{path:?} too late"
                );
                binds.push(path);
            }
            MountStep::Hide { target, .. } => covered.push(target.as_path()),
            MountStep::HideExcept { target, shown: inside } => {
                covered.push(target.as_path());
                for path in inside {
                    let path = path.source.as_path();
                    assert!(path.starts_with(target.as_path()) && path != target.as_path());
                    shown.push(path);
                }
            }
            _ => {}
        }
    }
    for path in binds.iter().chain(&shown) {
        assert!(path.is_absolute() && path.components().all(|part| part != Component::ParentDir));
        if path.starts_with(root) {
            assert_eq!(path.canonicalize().ok().as_deref(), Some(*path), "a source behind a link");
        }
    }
    for path in &hidden {
        let is_shown = binds.iter().any(|bind| path.starts_with(bind));
        assert!(!is_shown || covered.contains(&path.as_path()), "{path:?} is hidden, and shown");
        for inside in shown.iter().filter(|inside| inside.starts_with(path)) {
            let named = policy.access(inside, variables).expect("it was resolved").read;
            assert!(named, "{inside:?} is shown in {path:?}, and no entry is more exact");
        }
    }
    for root in &resolved.write_roots {
        let mut named = matches(&files.write);
        let granted =
            named.any(|path| path.canonicalize().is_ok_and(|real| root.starts_with(real)));
        assert!(granted, "{root:?} is writable, and nothing says so");
    }
    for path in &resolved.protected {
        assert!(resolved.write_roots.iter().any(|root| root == path.root.as_path()));
        assert!(path.relative.as_path().is_relative());
    }
}

fuzz_target!(|bytes: &[u8]| {
    let root = root();
    let _ = fs::remove_dir_all(root);
    fs::create_dir_all(root).expect("a folder in memory");
    let mut input = Input(bytes);
    if plant(&mut input, root).is_none() {
        return;
    }
    let Some(policy) = policy(&mut input, root) else { return };
    let variables = Variables { workspace: root.to_owned(), home: root.join("ab"), session: None };
    check(&policy, &variables, root);
});
