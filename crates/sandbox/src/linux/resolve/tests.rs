use super::*;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;

fn resolved(workspace: &Path, home: &Path, change: impl FnOnce(&mut Policy)) -> Resolved {
    try_resolve(workspace, home, change).unwrap()
}

fn try_resolve(
    workspace: &Path,
    home: &Path,
    change: impl FnOnce(&mut Policy),
) -> Result<Resolved, ResolveError> {
    let mut policy = Policy::load(OsStr::new("workspace-write")).unwrap();
    change(&mut policy);
    let variables = Variables { workspace: workspace.into(), home: home.into() };
    resolve(&policy, &variables)
}

fn bind<'a>(resolved: &'a Resolved, path: &Path) -> Option<&'a MountStep> {
    resolved
        .mounts
        .iter()
        .find(|step| matches!(step, MountStep::Bind { target, .. } if target.as_path() == path))
}

#[test]
fn parents_are_mounted_before_what_lies_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let resolved = resolved(folder.path(), Path::new("/nonexistent"), |_| {});
    let mut seen: Vec<PathBuf> = Vec::new();
    for step in &resolved.mounts {
        let target = match step {
            MountStep::Bind { target, .. } | MountStep::Session { target, .. } => target.as_path(),
            _ => continue,
        };
        assert!(!seen.iter().any(|earlier| earlier.starts_with(target)), "{target:?}");
        seen.push(target.to_owned());
    }
    assert!(bind(&resolved, folder.path()).is_some());
}

#[test]
fn the_workspace_is_writable_and_the_system_is_not() {
    // spec 5.4
    let folder = tempfile::tempdir().unwrap();
    let resolved = resolved(folder.path(), Path::new("/nonexistent"), |_| {});
    assert!(matches!(
        bind(&resolved, folder.path()),
        Some(MountStep::Bind { writable: true, identity: Some(_), .. })
    ));
    assert!(matches!(
        bind(&resolved, Path::new("/usr")),
        Some(MountStep::Bind { writable: false, .. })
    ));
    assert_eq!(resolved.write_roots, [folder.path()]);
}

#[test]
fn links_on_the_way_exist_inside_and_lead_to_the_real_folder() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().join("real");
    fs::create_dir(&real).unwrap();
    symlink("real", folder.path().join("link")).unwrap();
    let link = folder.path().join("link");
    let resolved = resolved(&link, Path::new("/nonexistent"), |_| {});
    assert!(bind(&resolved, &real).is_some());
    assert!(resolved.mounts.iter().any(|step| matches!(
        step,
        MountStep::Symlink { target, to } if target.as_path() == link && to.as_path() == Path::new("real")
    )));
}

#[test]
fn a_workspace_of_any_bytes_is_the_very_same_folder_inside() {
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join(OsString::from_vec(b"a\xff\n*[id] b".to_vec()));
    fs::create_dir(&odd).unwrap();
    let resolved = resolved(&odd, Path::new("/nonexistent"), |_| {});
    assert!(bind(&resolved, &odd).is_some());
}

#[test]
fn the_root_folder_cannot_be_a_writable_root_nor_can_proc() {
    for path in ["/", "/proc/self", "/dev"] {
        let result = try_resolve(Path::new("/usr"), Path::new("/nonexistent"), |policy| {
            policy.filesystem.literal.write.push(path.into());
            policy.filesystem.write.clear();
        });
        assert!(matches!(result, Err(ResolveError::Refused(_))), "{path}");
    }
}

#[test]
fn a_writable_root_that_does_not_exist_is_named() {
    let result = try_resolve(Path::new("/nonexistent/x"), Path::new("/nonexistent"), |_| {});
    let Err(ResolveError::Setup(failure)) = result else { panic!("{result:?}") };
    assert_eq!(failure.subject.as_deref(), Some("/nonexistent/x"));
}

#[test]
fn a_home_that_the_policy_does_not_name_is_the_sessions_own() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let workspace = home.join("project");
    fs::create_dir_all(&workspace).unwrap();
    let is_own = |resolved: &Resolved| {
        resolved
            .mounts
            .iter()
            .any(|step| matches!(step, MountStep::Session { folder: SessionFolder::Home, .. }))
    };
    assert!(is_own(&resolved(&workspace, &home, |_| {})));
    // A workspace that is the home folder, or holds it, shows it.
    assert!(!is_own(&resolved(&home, &home, |_| {})));
    assert!(!is_own(&resolved(folder.path(), &home, |_| {})));
}

#[test]
fn what_is_hidden_is_covered_wherever_a_root_shows_it() {
    // spec 5.4
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("keys")).unwrap();
    symlink("keys", home.path().join(".ssh")).unwrap();
    let resolved = resolved(home.path(), home.path(), |_| {});
    let hides = |path: &Path| {
        resolved
            .mounts
            .iter()
            .any(|step| matches!(step, MountStep::Hide { target } if target.as_path() == path))
    };
    assert!(hides(&home.path().join("keys")));
}

#[test]
fn reading_the_root_folder_reads_what_lies_in_it_but_the_cells_own() {
    let folder = tempfile::tempdir().unwrap();
    let resolved = resolved(folder.path(), Path::new("/nonexistent"), |policy| {
        policy.filesystem.literal.read.push("/".into());
    });
    assert!(bind(&resolved, Path::new("/")).is_none());
    assert!(bind(&resolved, Path::new("/proc")).is_none());
    assert!(bind(&resolved, Path::new("/usr")).is_some());
}
