//! spec 10.4: Glob.

use super::*;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use std::time::{Duration, SystemTime};

fn glob(world: &World, pattern: &str, root: &Path, max_results: u64) -> Answer {
    world.run(&FileOp::Glob { pattern: pattern.into(), root: Bytes::from(root), max_results })
}

/// What a pattern finds below the folder, sorted by name.
fn names(world: &World, pattern: &str) -> Vec<String> {
    let mut names = found(world, glob(world, pattern, world.folder.path(), 100));
    names.sort();
    names
}

fn age(path: &Path, seconds: u64) {
    let time = SystemTime::now() - Duration::from_secs(seconds);
    std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn stars_double_stars_and_braces_are_understood() {
    let world = World::new();
    for name in ["a.rs", "src/b.rs", "src/deep/c.rs", "src/d.ts", "src/e.md", "x y/[id]/f.rs"] {
        world.put(name, "");
    }
    assert_eq!(names(&world, "*.rs"), ["a.rs"]);
    assert_eq!(names(&world, "src/*.rs"), ["src/b.rs"]);
    assert_eq!(names(&world, "**/*.rs"), ["a.rs", "src/b.rs", "src/deep/c.rs", "x y/[id]/f.rs"]);
    assert_eq!(names(&world, "src/**/*.{rs,ts}"), ["src/b.rs", "src/d.ts", "src/deep/c.rs"]);
    assert_eq!(names(&world, "{src/deep,x y}/**"), ["src/deep/c.rs", "x y/[id]/f.rs"]);
    assert_eq!(names(&world, "./src//b.rs"), ["src/b.rs"]);
    assert_eq!(names(&world, "sr[a-c]/*"), ["src/b.rs", "src/d.ts", "src/e.md"]);
    assert_eq!(names(&world, "missing/*.rs"), [""; 0]);
}

#[test]
fn a_folder_whose_name_looks_like_a_class_is_found_by_that_name() {
    let world = World::new();
    world.put("app/[id]/page.tsx", "");
    world.put("app/[id]/[slug].tsx", "");
    assert_eq!(names(&world, "app/[id]/p*.tsx"), ["app/[id]/page.tsx"]);
    assert_eq!(names(&world, "app/[id]/[slug].tsx"), ["app/[id]/[slug].tsx"]);
}

#[test]
fn an_absolute_pattern_counts_from_the_root_and_paths_are_absolute() {
    let world = World::new();
    let path = world.put("src/b.rs", "");
    let pattern = format!("{}/src/*.rs", world.folder.path().display());
    let Ok(FileDone::Found { entries, .. }) = glob(&world, &pattern, Path::new("/usr"), 9) else {
        panic!()
    };
    assert_eq!(entries, [Bytes::from(path)]);
    assert_eq!(found(&world, glob(&world, "../src/b.rs", &world.path("src"), 9)), ["src/b.rs"]);
}

#[test]
fn the_newest_come_first_and_of_equals_the_first_by_path() {
    let world = World::new();
    let time = SystemTime::now();
    for name in ["b", "a", "c"] {
        let path = world.put(name, "");
        std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    age(&world.put("old", ""), 1000);
    age(&world.put("older", ""), 2000);
    let all = glob(&world, "*", world.folder.path(), 9);
    assert!(matches!(all, Ok(FileDone::Found { truncated: false, .. })));
    assert_eq!(found(&world, all), ["a", "b", "c", "old", "older"]);
    let some = glob(&world, "*", world.folder.path(), 2);
    assert!(matches!(some, Ok(FileDone::Found { truncated: true, .. })));
    assert_eq!(found(&world, some), ["a", "b"]);
}

#[test]
fn hidden_and_ignored_files_are_found_but_not_the_inside_of_git() {
    let world = World::new();
    for name in [".env", "target/out.rs", ".git/config", ".gitignore", "sub/.git/HEAD"] {
        world.put(name, "target/\n");
    }
    assert_eq!(names(&world, "**"), [".env", ".gitignore", "target/out.rs"]);
    assert_eq!(names(&world, ".git*"), [".gitignore"]);
    assert_eq!(names(&world, ".git/*"), [".git/config"]);
    assert_eq!(names(&world, "**/.git/HEAD"), ["sub/.git/HEAD"]);
    // A linked worktree's `.git` is a file like any other.
    world.put("tree/.git", "gitdir: elsewhere");
    assert_eq!(names(&world, "tree/*"), ["tree/.git"]);
}

#[test]
fn only_files_count_and_links_to_folders_are_not_followed() {
    let world = World::new();
    world.put("real/f", "");
    std::fs::create_dir(world.path("empty")).unwrap();
    world.link("folder", "real");
    world.link("file", "real/f");
    world.link("dangling", "nowhere");
    world.link("real/loop", "..");
    assert_eq!(names(&world, "**"), ["file", "real/f"]);
    // A link that is named is followed.
    assert_eq!(names(&world, "folder/*"), ["folder/f"]);
}

#[test]
fn a_folder_that_cannot_be_read_is_listed_and_stops_nothing() {
    let world = World::new();
    world.put("f", "");
    // Deeper than a path may be long: not even root can look in there by name.
    let name = "d".repeat(250);
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut folder = nix::fcntl::open(world.folder.path(), flags, Mode::empty()).unwrap();
    for _ in 0..20 {
        mkdirat(&folder, name.as_str(), Mode::S_IRWXU).unwrap();
        folder = openat(&folder, name.as_str(), flags, Mode::empty()).unwrap();
    }
    let answer = glob(&world, "**/f", world.folder.path(), 9);
    let Ok(FileDone::Found { unreadable, .. }) = &answer else { panic!("{answer:?}") };
    assert_eq!(unreadable.len(), 1, "{unreadable:?}");
    let line = String::from_utf8_lossy(&unreadable[0].0).replace(&name, "d");
    assert!(line.ends_with("/d: File name too long"), "{line}");
    assert_eq!(found(&world, answer), ["f"]);
}

#[test]
fn a_bad_pattern_and_a_root_that_is_none_are_errors() {
    let world = World::new();
    world.put("f", "");
    for pattern in ["a[", "{a", "", "/"] {
        let answer = glob(&world, pattern, world.folder.path(), 9);
        assert!(matches!(answer, Err(FileError::Pattern { .. })), "{pattern}: {answer:?}");
    }
    assert_os(&glob(&world, "*", &world.path("missing"), 9), Errno::ENOENT);
    assert_os(&glob(&world, "*", &world.path("f"), 9), Errno::ENOTDIR);
}

#[test]
fn names_that_are_not_utf_8_are_found() {
    use std::os::unix::ffi::OsStrExt;
    let world = World::new();
    let path = world.folder.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9.rs"));
    std::fs::write(&path, "").unwrap();
    let answer = glob(&world, "*.rs", world.folder.path(), 9);
    assert!(
        matches!(&answer, Ok(FileDone::Found { entries, .. }) if *entries == [Bytes::from(path)])
    );
}
