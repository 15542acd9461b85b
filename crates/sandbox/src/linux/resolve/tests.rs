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
    let variables = Variables { workspace: workspace.into(), home: home.into(), session: None };
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
fn a_link_in_what_is_writable_leads_to_nothing_that_is_not_named_without_it() {
    // spec 5.4
    let folder = tempfile::tempdir().unwrap();
    let (work, other) = (folder.path().join("work"), folder.path().join("other"));
    fs::create_dir_all(work.join("real")).unwrap();
    fs::create_dir_all(other.join("inner")).unwrap();
    symlink(&other, work.join("link")).unwrap();
    symlink("real", work.join("near")).unwrap();
    symlink(&other, folder.path().join("hosts")).unwrap();
    let home = Path::new("/nonexistent");
    let read = |entry: &str| {
        let entry = entry.to_owned();
        resolved(&work, home, |policy| policy.filesystem.read.push(entry))
    };
    for entry in ["$WORKSPACE/link", "$WORKSPACE/l*", "$WORKSPACE/link/inner", "$WORKSPACE/*/inner"]
    {
        let resolved = read(entry);
        assert!(bind(&resolved, &other).is_none(), "{entry}");
        assert!(bind(&resolved, &other.join("inner")).is_none(), "{entry}");
    }
    let hosts = folder.path().join("hosts");
    let resolved = resolved(&work, home, |policy| policy.filesystem.literal.read.push(hosts));
    assert!(bind(&resolved, &other).is_some(), "a link of the host's");
    let write = |entry: &str, granted: Option<&Path>| {
        let entry = entry.to_owned();
        try_resolve(&work, home, |policy| {
            policy.filesystem.write.push(entry);
            policy.filesystem.literal.write.extend(granted.map(Path::to_owned));
        })
    };
    for entry in ["$WORKSPACE/link", "$WORKSPACE/l*"] {
        let refused = write(entry, None).unwrap_err();
        assert!(format!("{refused:?}").contains("through the link"), "{entry}: {refused:?}");
        assert!(write(entry, Some(&other)).is_ok(), "{entry}: named without it as well");
    }
    assert!(write("$WORKSPACE/near", None).is_ok(), "it leads to what is writable anyway");
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
            .any(|step| matches!(step, MountStep::Hide { target, .. } if target.as_path() == path))
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

fn step<'a>(resolved: &'a Resolved, path: &Path) -> Option<&'a MountStep> {
    resolved.mounts.iter().find(|step| match step {
        MountStep::Hide { target, .. } | MountStep::HideExcept { target, .. } => {
            target.as_path() == path
        }
        _ => false,
    })
}

#[test]
fn a_root_that_is_named_inside_a_hidden_folder_is_shown_there_and_nothing_else() {
    // spec 5.4, issue 3: allow in deny
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().canonicalize().unwrap();
    for path in ["keys/pub", "keys/out/secret/open", "keys/secret"] {
        fs::create_dir_all(home.join(path)).unwrap();
    }
    let resolved = resolved(&home, &home, |policy| {
        let files = &mut policy.filesystem;
        files.hide.extend(["~/keys".into(), "~/keys/out/secret".into()]);
        files.read.extend(["~/keys/pub".into(), "~/keys/out/secret/open".into()]);
        files.write.push("~/keys/out".into());
    });
    let Some(MountStep::HideExcept { shown, .. }) = step(&resolved, &home.join("keys")) else {
        panic!("{:?}", resolved.mounts)
    };
    let shown: Vec<(&Path, bool)> =
        shown.iter().map(|shown| (shown.source.as_path(), shown.writable)).collect();
    assert_eq!(shown, [(&*home.join("keys/out"), true), (&*home.join("keys/pub"), false)]);
    let inner = step(&resolved, &home.join("keys/out/secret"));
    assert!(matches!(inner, Some(MountStep::HideExcept { shown, .. }) if shown.len() == 1));
    assert!(resolved.write_roots.contains(&home.join("keys/out")));
    assert!(bind(&resolved, &home.join("keys/pub")).is_none());
}

#[test]
fn a_link_that_leads_into_a_hidden_folder_shows_nothing_of_it() {
    // A command may have put the link there, in the place of a folder that the policy reads.
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().canonicalize().unwrap();
    fs::create_dir_all(home.join("keys/inner")).unwrap();
    symlink("keys", home.join(".ssh")).unwrap();
    symlink("keys/inner", home.join(".pyenv")).unwrap();
    let resolved = resolved(&home, &home, |_| {});
    assert!(matches!(step(&resolved, &home.join("keys")), Some(MountStep::Hide { .. })));
    assert!(bind(&resolved, &home.join("keys/inner")).is_none());
}

#[test]
fn a_writable_root_at_a_protected_path_lifts_it_and_one_inside_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().canonicalize().unwrap();
    fs::create_dir_all(work.join(".github/workflows")).unwrap();
    fs::create_dir_all(work.join(".vscode/snippets")).unwrap();
    fs::create_dir_all(work.join("vendor")).unwrap();
    let resolve = |write: &str| {
        try_resolve(&work, Path::new("/nonexistent"), |policy| {
            policy.filesystem.write.push(write.into());
            policy.filesystem.protect.push("$WORKSPACE/vendor".into());
        })
    };
    let lifted = resolve("$WORKSPACE/.github/workflows").unwrap();
    let protects = |relative: &str| {
        lifted.protected.iter().any(|path| path.relative.as_path() == Path::new(relative))
    };
    assert!(!protects(".github/workflows"));
    assert!(protects(".github/actions") && protects("vendor"));
    let Err(ResolveError::Refused(refusal)) = resolve("$WORKSPACE/.vscode/snippets") else {
        panic!()
    };
    assert!(refusal.reason.contains("protected by \".vscode\""), "{refusal}");
}

#[test]
fn a_socket_of_the_host_is_shown_where_it_is_named() {
    // spec 5.1 (unix_sockets)
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().canonicalize().unwrap().join("s");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let work = tempfile::tempdir().unwrap();
    let resolved = resolved(work.path(), Path::new("/nonexistent"), |policy| {
        policy.filesystem.literal.unix_sockets.extend([socket.clone(), "/nonexistent/s".into()]);
    });
    assert!(matches!(bind(&resolved, &socket), Some(MountStep::Bind { writable: false, .. })));
}

#[test]
fn a_writable_folder_of_the_home_folder_that_does_not_exist_is_skipped_and_any_other_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().canonicalize().unwrap();
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    fs::create_dir(home.join(".ccache")).unwrap();
    let write = |entries: &[&str]| {
        try_resolve(&work, &home, |policy| {
            policy.filesystem.write.extend(entries.iter().map(|entry| (*entry).to_owned()));
        })
    };
    let resolved = write(&["~/.ccache", "~/.cache/sccache"]).unwrap();
    assert_eq!(resolved.write_roots.len(), 2);
    assert!(matches!(write(&["$WORKSPACE/absent"]), Err(ResolveError::Setup(_))));
    let literal = try_resolve(&work, &home, |policy| {
        policy.filesystem.literal.write.push(home.join("absent"));
    });
    assert!(matches!(literal, Err(ResolveError::Setup(_))));
}

// spec 7.2: by exactly what was shown
#[test]
fn a_granted_path_that_a_link_leads_elsewhere_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    let (work, other) = (real.join("work"), real.join("other"));
    fs::create_dir_all(work.join("sub")).unwrap();
    fs::create_dir_all(other.join("sub")).unwrap();
    symlink(&other, real.join("link")).unwrap();
    let with = |path: PathBuf| {
        try_resolve(&work, Path::new("/nonexistent"), |policy| {
            policy.filesystem.literal.write.push(path.clone());
            policy.filesystem.literal.granted.push(path);
        })
    };
    assert!(with(other.clone()).is_ok());
    for led in [real.join("link"), real.join("link/sub")] {
        let Err(ResolveError::Refused(refusal)) = with(led) else { panic!("it was followed") };
        assert!(refusal.reason.contains("leads to"), "{}", refusal.reason);
    }
}
