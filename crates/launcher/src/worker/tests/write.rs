//! spec 10.4: Write.

use super::*;
use nix::errno::Errno;
use nix::sys::stat::Mode;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Barrier;

#[track_caller]
fn written(answer: Answer) -> (bool, Fingerprint) {
    let Ok(FileDone::Written { created, fingerprint }) = answer else { panic!("{answer:?}") };
    (created, fingerprint)
}

#[test]
fn a_new_file_is_created_with_its_missing_folders() {
    let world = World::new();
    let (created, fingerprint) = written(world.write("a/b/c.txt", "content", None));
    assert!(created);
    assert_eq!(world.content("a/b/c.txt"), "content");
    assert_eq!(fingerprint, world.fingerprint("a/b/c.txt"));
    world.assert_tidy();
}

#[test]
fn a_new_file_has_the_mode_that_any_program_would_give_it() {
    let world = World::new();
    written(world.write("new/ours", "x", None));
    let theirs = world.put("theirs/file", "x");
    let mode = |path: &Path| path.metadata().unwrap().mode();
    assert_eq!(mode(&world.path("new/ours")), mode(&theirs));
    assert_eq!(mode(&world.path("new")), mode(&world.path("theirs")));
}

#[test]
fn a_replaced_file_keeps_its_mode_but_for_set_id_bits() {
    let world = World::new();
    let path = world.put("run.sh", "old");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o4751)).unwrap();
    let (created, fingerprint) =
        written(world.write("run.sh", "new", Some(world.fingerprint("run.sh"))));
    assert!(!created);
    assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o751);
    assert_eq!(fingerprint, world.fingerprint("run.sh"));
    assert_eq!(world.content("run.sh"), "new");
    world.assert_tidy();
}

#[test]
fn a_file_with_content_that_was_not_read_is_not_replaced() {
    let world = World::new();
    world.put("f", "precious");
    let answer = world.write("f", "x", None);
    assert!(matches!(answer, Err(FileError::ExistsUnread { .. })), "{answer:?}");
    assert_eq!(world.content("f"), "precious");
    world.put("empty", "");
    assert!(!written(world.write("empty", "x", None)).0);
    assert_eq!(world.content("empty"), "x");
    world.assert_tidy();
}

#[test]
fn a_file_that_changed_since_or_is_gone_is_not_replaced() {
    let world = World::new();
    world.put("f", "one");
    let read = world.fingerprint("f");
    world.put("f", "other");
    let answer = world.write("f", "x", Some(read));
    assert!(matches!(answer, Err(FileError::Changed { .. })), "{answer:?}");
    assert_eq!(world.content("f"), "other");
    std::fs::remove_file(world.path("f")).unwrap();
    let answer = world.write("f", "x", Some(read));
    assert!(matches!(answer, Err(FileError::Changed { .. })), "{answer:?}");
    world.assert_tidy();
}

#[test]
fn a_link_is_kept_and_what_it_leads_to_is_written() {
    let world = World::new();
    world.put("real/f", "old");
    world.link("folder", "real");
    world.link("first", "folder/f");
    world.link("second", world.path("first"));
    written(world.write("second", "new", Some(world.fingerprint("real/f"))));
    assert_eq!(world.content("real/f"), "new");
    assert!(world.path("second").is_symlink() && world.path("first").is_symlink());

    world.link("dangling", "real/later");
    assert!(written(world.write("dangling", "x", None)).0);
    assert_eq!(world.content("real/later"), "x");
    world.link("loop", "loop");
    assert_os(&world.write("loop", "x", None), Errno::ELOOP);
}

#[test]
fn dots_in_a_path_mean_what_the_kernel_means_by_them() {
    let world = World::new();
    world.put("real/deep/f", "x");
    world.link("link", "real/deep");
    // Not `<folder>/g`: the parent of what the link leads to.
    written(world.write("link/../g", "x", None));
    assert_eq!(world.content("real/g"), "x");
    written(world.write("./real//./h", "x", None));
    assert_eq!(world.content("real/h"), "x");
    assert_os(&world.write("missing/../i", "x", None), Errno::ENOENT);
    assert_os(&world.write("real/g/below", "x", None), Errno::ENOTDIR);
}

#[test]
fn what_is_not_a_regular_file_is_not_replaced() {
    let world = World::new();
    std::fs::create_dir(world.path("folder")).unwrap();
    nix::unistd::mkfifo(&world.path("pipe"), Mode::S_IRWXU).unwrap();
    world.link("null", "/dev/null");
    assert_not_a_file(&world.write("folder", "x", None), "a folder");
    assert_not_a_file(&world.write("folder/", "x", None), "a folder");
    assert_not_a_file(&world.write("new/", "x", None), "a folder");
    assert_not_a_file(&world.write("folder/..", "x", None), "a folder");
    assert_not_a_file(&world.write("pipe", "x", None), "a pipe");
    assert_not_a_file(&world.write("null", "x", None), "a device");
    assert!(!world.path("new").exists());
    world.assert_tidy();
}

// spec 5.4: the other names of a hard link stay what they were.
#[test]
fn the_other_name_of_a_hard_link_is_not_written() {
    let world = World::new();
    world.put(".git/hooks/pre-commit", "genuine");
    std::fs::hard_link(world.path(".git/hooks/pre-commit"), world.path("innocent")).unwrap();
    written(world.write("innocent", "planted", Some(world.fingerprint("innocent"))));
    assert_eq!(world.content("innocent"), "planted");
    assert_eq!(world.content(".git/hooks/pre-commit"), "genuine");
}

#[test]
fn the_kernel_s_refusal_is_passed_on_with_its_number() {
    let world = World::new();
    let name = "n".repeat(300);
    assert_os(&world.write(&name, "x", None), Errno::ENAMETOOLONG);
    let path = Bytes::from("/proc/self/nothing-is-made-here");
    let answer = world.run(&FileOp::Write { path, content: "x".into(), expected: None });
    assert!(matches!(answer, Err(FileError::Os { .. })), "{answer:?}");
}

#[test]
fn a_write_that_fails_leaves_no_folder_behind_that_it_made() {
    let world = World::new();
    std::fs::create_dir(world.path("kept")).unwrap();
    let name = format!("kept/new/newer/{}", "n".repeat(300));
    assert_os(&world.write(&name, "x", None), Errno::ENAMETOOLONG);
    assert_eq!(std::fs::read_dir(world.path("kept")).unwrap().count(), 0);
}

#[test]
fn of_two_writes_at_once_one_sees_that_the_other_was_first() {
    let world = World::new();
    for round in 0..50 {
        let (new, old) = (format!("new{round}"), format!("old{round}"));
        world.put(&old, "x");
        let read = world.fingerprint(&old);
        let barrier = Barrier::new(4);
        let answers: Vec<(String, Answer)> = std::thread::scope(|scope| {
            let writers = [(&new, None), (&new, None), (&old, Some(read)), (&old, Some(read))].map(
                |(name, expected)| {
                    let (world, barrier) = (&world, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        (name.clone(), world.write(name, "content", expected))
                    })
                },
            );
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        for name in [&new, &old] {
            let done = answers.iter().filter(|(of, answer)| of == name && answer.is_ok()).count();
            assert_eq!(done, 1, "{answers:?}");
        }
    }
    world.assert_tidy();
}

// The path is resolved once, to descriptors; what happens to the names afterwards does not matter.
#[test]
fn a_link_swapped_in_after_the_check_redirects_nothing() {
    let world = World::new();
    world.put("work/f", "x");
    world.put(".git/hooks/f", "genuine");
    let mut target = super::super::resolve::resolve(&Bytes::from(world.path("work/new"))).unwrap();
    world.files.protection.check(&target).unwrap();
    std::fs::rename(world.path("work"), world.path("elsewhere")).unwrap();
    world.link("work", ".git/hooks");
    super::super::replace::replace(
        (&world.files.protection, &world.files.commits),
        &mut target,
        b"content",
        super::super::replace::Expected::Absent,
        &Cancel::default(),
    )
    .unwrap();
    assert!(!world.path(".git/hooks/new").exists());
    assert_eq!(world.content("elsewhere/new"), "content");
}

#[test]
fn a_leaf_that_becomes_a_link_meanwhile_is_refused() {
    let world = World::new();
    world.put(".git/hooks/f", "");
    let mut target = super::super::resolve::resolve(&Bytes::from(world.path("f"))).unwrap();
    world.link("f", ".git/hooks/f");
    let answer = super::super::replace::replace(
        (&world.files.protection, &world.files.commits),
        &mut target,
        b"planted",
        super::super::replace::Expected::Absent,
        &Cancel::default(),
    );
    assert!(matches!(answer, Err(FileError::NotAFile { .. })), "{answer:?}");
    assert_eq!(world.content(".git/hooks/f"), "");
    world.assert_tidy();
}

// What a policy grants as a single file is a mount of its own: nothing can be made beside it or renamed to it.
#[test]
fn a_single_file_that_is_a_writable_root_is_written_in_place() {
    use super::super::{replace, resolve};
    let world = World::new();
    let path = world.put("f", "a longer old content");
    let files = files(vec![Bytes::from(path.as_path())], &[".git/hooks"]);
    let target = resolve::resolve(&Bytes::from(path.as_path())).unwrap();
    assert!(files.protection.is_root(&target) && !world.files.protection.is_root(&target));
    let before = world.fingerprint("f");
    let same = replace::Expected::Same(before);
    let (created, after) = replace::overwrite(&files.commits, &target, b"new", same).unwrap();
    assert!(!created && after.inode == before.inode && after == world.fingerprint("f"));
    assert_eq!(world.content("f"), "new");
    let answer = replace::overwrite(&files.commits, &target, b"newer", same);
    assert!(matches!(answer, Err(FileError::Changed { .. })), "{answer:?}");
    assert_eq!(world.content("f"), "new");
}

#[test]
fn a_cancelled_write_leaves_nothing() {
    let world = World::new();
    let cancel = Cancel::default();
    cancel.set();
    let path = Bytes::from(world.path("f"));
    let op = FileOp::Write { path, content: "x".into(), expected: None };
    assert_eq!(world.files.run(&op, &cancel), Err(FileError::Cancelled));
    assert!(!world.path("f").exists());
    world.assert_tidy();
}
