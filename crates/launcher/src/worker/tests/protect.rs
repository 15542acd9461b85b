//! spec 5.4: protected paths, whether they exist yet or not, and however they are reached.

use super::*;

#[track_caller]
fn assert_protected(world: &World, name: &str) {
    let answer = world.write(name, "planted", None);
    assert!(matches!(answer, Err(FileError::Protected { .. })), "{name}: {answer:?}");
}

#[track_caller]
fn assert_allowed(world: &World, name: &str) {
    let answer = world.write(name, "content", None);
    assert!(answer.is_ok(), "{name}: {answer:?}");
}

fn bare_repository(world: &World, name: &str) {
    world.put(&format!("{name}/HEAD"), "ref: refs/heads/main\n");
    for folder in ["objects", "refs", "hooks"] {
        std::fs::create_dir_all(world.path(&format!("{name}/{folder}"))).unwrap();
    }
}

#[test]
fn a_protected_path_is_refused_before_it_exists_and_at_any_depth() {
    let world = World::new();
    for name in [
        ".git/hooks/pre-commit",
        ".git/config",
        "sub/repo/.git/hooks/pre-commit",
        "sub/repo/.git/hooks/deep/er",
        ".vscode/settings.json",
        "a/.vscode",
        ".bashrc",
    ] {
        assert_protected(&world, name);
    }
    // Nothing was made on the way.
    assert_eq!(std::fs::read_dir(world.folder.path()).unwrap().count(), 0);
}

#[test]
fn a_protected_name_that_is_a_link_leads_nowhere() {
    let world = World::new();
    std::fs::create_dir_all(world.path("cfg")).unwrap();
    std::fs::create_dir_all(world.path("sub/plain")).unwrap();
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, world.path(at)).unwrap();
    link("../cfg", "sub/.vscode");
    link("../cfg/envrc", "sub/.bashrc");
    link("sub", "way");
    link("../cfg", "sub/seen");
    bare_repository(&world, "bare.git");
    std::fs::remove_dir(world.path("bare.git/hooks")).unwrap();
    link("../cfg", "bare.git/hooks");
    for name in [
        "sub/.vscode/settings.json",
        "way/.vscode/settings.json",
        "sub/plain/../.vscode/deep/er",
        "sub/.bashrc",
        "bare.git/hooks/pre-commit",
    ] {
        assert_protected(&world, name);
    }
    assert_eq!(std::fs::read_dir(world.path("cfg")).unwrap().count(), 0);
    // Nothing of this is a protected name, and the last one leaves it again.
    for name in ["cfg/a", "sub/seen/b", "way/plain/c", "sub/.vscode/../d"] {
        assert_allowed(&world, name);
    }
}

#[test]
fn what_only_resembles_a_protected_path_is_written() {
    let world = World::new();
    for name in [
        ".gitignore",
        "hooks/pre-commit",
        "config",
        ".git/description",
        "git/hooks/x",
        "x.bashrc",
        ".git-hooks/x",
        ".github/config",
        "src/hooks/use.ts",
        "data/objects/a",
        "data/refs/b",
        "HEAD",
    ] {
        assert_allowed(&world, name);
    }
}

#[test]
fn links_dots_and_other_case_lead_to_the_same_refusal() {
    let world = World::new();
    world.put(".git/hooks/sample", "x");
    std::fs::create_dir(world.path("src")).unwrap();
    world.link("h", ".git/hooks");
    world.link("g", world.path(".git"));
    world.link("file", ".git/hooks/pre-commit");
    for name in [
        "h/pre-commit",
        "g/hooks/pre-commit",
        "g/config",
        "file",
        "src/../.git/hooks/pre-commit",
        ".GIT/Hooks/pre-commit",
        ".git/CONFIG",
        // As a case-folding file system compares: Kelvin sign, long s, zero-width joiner.
        ".git/hoo\u{212a}s/x",
        ".git/hook\u{17f}/x",
        ".g\u{200d}it/hooks/x",
    ] {
        assert_protected(&world, name);
    }
    let proc = format!("/proc/self/root{}", world.path(".git/hooks/x").display());
    let op = FileOp::Write { path: proc.as_str().into(), content: "x".into(), expected: None };
    let answer = world.run(&op);
    assert!(matches!(answer, Err(FileError::Protected { .. })), "{answer:?}");
}

#[test]
fn a_git_directory_under_another_name_is_protected_too() {
    let world = World::new();
    bare_repository(&world, "foo.git");
    bare_repository(&world, ".git/modules/sub");
    bare_repository(&world, "renamed");
    world.put(".git/worktrees/w/HEAD", "");
    world.put(".git/worktrees/w/commondir", "../..");
    for name in [
        "foo.git/hooks/pre-receive",
        "foo.git/config",
        ".git/modules/sub/hooks/x",
        "renamed/HOOKS/x",
        "renamed/commondir",
        ".git/worktrees/w/config.worktree",
        ".git/worktrees/w/gitdir",
    ] {
        assert_protected(&world, name);
    }
    world.link("into", "foo.git/hooks");
    assert_protected(&world, "into/x");
    assert_allowed(&world, "foo.git/description");
    assert_allowed(&world, "foo.git/refs/heads/main");
}

#[test]
fn a_folder_with_hooks_cannot_be_made_a_git_directory_afterwards() {
    let world = World::new();
    assert_allowed(&world, "evil/hooks/pre-commit");
    assert_allowed(&world, "evil/HEAD");
    assert_allowed(&world, "evil/objects/x");
    assert_protected(&world, "evil/refs/heads/main");
    // A file `.git` names any folder as the repository.
    assert_protected(&world, "sub/.git");
}

#[test]
fn an_edit_is_refused_like_a_write() {
    let world = World::new();
    world.put("sub/.git/config", "[core]\n");
    let answer = world.edit("sub/.git/config", "core", "evil", false);
    let Err(FileError::Protected { path, pattern }) = answer else { panic!("{answer:?}") };
    assert_eq!(path.as_path(), world.path("sub/.git/config").canonicalize().unwrap());
    assert_eq!(pattern, ".git/config");
    assert_eq!(world.content("sub/.git/config"), "[core]\n");
}

#[test]
fn a_writable_root_inside_of_a_protected_path_was_granted_on_purpose() {
    let world = World::new();
    world.put(".git/hooks/sample", "x");
    let files = files(vec![Bytes::from(world.path(".git/hooks"))], &[".git/hooks"]);
    let path = Bytes::from(world.path(".git/hooks/new"));
    let op = FileOp::Write { path, content: "x".into(), expected: None };
    assert!(files.run(&op, &Cancel::default()).is_ok());
}

#[test]
fn a_root_that_is_spelled_with_a_link_protects_the_same() {
    let world = World::new();
    std::fs::create_dir(world.path("real")).unwrap();
    world.link("alias", "real");
    let files = files(vec![Bytes::from(world.path("alias"))], &[".git/hooks"]);
    let path = Bytes::from(world.path("alias/.git/hooks/x"));
    let op = FileOp::Write { path, content: "x".into(), expected: None };
    let answer = files.run(&op, &Cancel::default());
    assert!(matches!(answer, Err(FileError::Protected { .. })), "{answer:?}");
}

#[test]
fn without_patterns_nothing_is_refused_here() {
    let world = World::protecting(&[]);
    bare_repository(&world, "foo.git");
    assert_allowed(&world, ".git/hooks/pre-commit");
    assert_allowed(&world, "foo.git/hooks/pre-receive");
}
