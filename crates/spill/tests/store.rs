//! The store as its users see it (spec 8.3).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};
use stockade_spill::{Ages, Limits, Retention, SpillError, SpillStore, sweep};
use stockade_types::{CallId, SessionId};

fn open(state: &Path, session: &str) -> SpillStore {
    open_limited(state, session, Limits::default())
}

fn open_limited(state: &Path, session: &str, limits: Limits) -> SpillStore {
    let session = SessionId::new(session).unwrap();
    SpillStore::open(state, &session, Path::new("/inside"), limits).unwrap()
}

fn id(text: &str) -> CallId {
    CallId(text.to_owned())
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, |entries| entries.count())
}

// spec 8.3
#[test]
fn a_file_is_named_by_its_call_and_a_uuid_and_found_by_its_uri() {
    let state = tempfile::tempdir().unwrap();
    let store = open(state.path(), "s1");
    let first = store.put(&id("toolu_01"), "txt", b"all of it", Retention::Session).unwrap();
    let again = store.put(&id("toolu_01"), "txt", b"other", Retention::Session).unwrap();
    assert_ne!(first.host, again.host);
    let name = first.host.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("toolu_01-") && name.ends_with(".txt"), "{name}");
    assert_eq!(first.uri, format!("spill://s1/session/{name}"));
    assert_eq!(first.inside, Path::new("/inside/session").join(name));
    assert_eq!(first.bytes, 9);
    assert_eq!(store.get(&first.uri).unwrap(), b"all of it");
    assert_eq!(fs::read(&first.host).unwrap(), b"all of it");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&first.host), mode(store.folder())), (0o600, 0o700));
}

#[test]
fn neither_an_id_nor_a_uri_leads_out_of_the_store() {
    let state = tempfile::tempdir().unwrap();
    let store = open(state.path(), "s1");
    let long = "x".repeat(500);
    for odd in ["../../evil", "/etc/x", "", "ä\n\0", &long] {
        let kept = store.put(&id(odd), "txt", b"x", Retention::Session).unwrap();
        assert_eq!(kept.host.parent().unwrap(), store.folder().join("session"), "{odd:?}");
    }
    fs::write(state.path().join("sessions/s1/secret"), "x").unwrap();
    for uri in [
        "spill://s1/session/../../secret",
        "spill://s1/../secret",
        "spill://s2/session/x",
        "spill://s1/session/",
        "spill://s10/session/x",
        "/etc/passwd",
    ] {
        assert!(matches!(store.get(uri), Err(SpillError::Unknown(_))), "{uri}");
    }
}

// spec 8.3
#[test]
fn the_quota_counts_what_is_there_already_and_what_was_not_written_does_not_count() {
    let state = tempfile::tempdir().unwrap();
    let limits = Limits { session_bytes: 100 };
    let store = open_limited(state.path(), "s", limits);
    store.put(&id("a"), "txt", &[b'x'; 60], Retention::Session).unwrap();
    let full = store.put(&id("b"), "txt", &[b'x'; 41], Retention::Session).unwrap_err();
    assert!(matches!(full, SpillError::Quota { quota: 100, wanted: 41, .. }), "{full}");
    assert_eq!(files(&store.folder().join("session")), 1);
    drop(store);
    let store = open_limited(state.path(), "s", limits);
    assert!(store.put(&id("b"), "txt", &[b'x'; 41], Retention::Session).is_err());
    fs::remove_dir_all(store.folder().join("project")).unwrap();
    for _ in 0..3 {
        let failed = store.put(&id("c"), "txt", &[b'x'; 40], Retention::Project).unwrap_err();
        assert!(matches!(failed, SpillError::Io { step: "write", .. }), "{failed}");
    }
    store.put(&id("c"), "txt", &[b'x'; 40], Retention::Session).unwrap();
}

// spec 8.3: retention is enforced
#[test]
fn temporary_files_go_with_their_store_and_the_others_stay() {
    let state = tempfile::tempdir().unwrap();
    let store = open(state.path(), "s");
    let folder = store.folder().to_owned();
    for retention in [Retention::Temporary, Retention::Session, Retention::Project] {
        store.put(&id("a"), "txt", b"x", retention).unwrap();
    }
    drop(store);
    let left = ["temporary", "session", "project"].map(|name| files(&folder.join(name)));
    assert_eq!(left, [0, 1, 1]);
}

// spec 2.12: what a hook took away is not to be found
#[test]
fn a_file_that_is_removed_is_gone_and_gives_its_room_back() {
    let state = tempfile::tempdir().unwrap();
    let store = open_limited(state.path(), "s", Limits { session_bytes: 5 });
    let kept = store.put(&id("a"), "txt", b"12345", Retention::Session).unwrap();
    store.remove(&kept.uri).unwrap();
    assert!(!kept.host.exists());
    assert!(store.remove(&kept.uri).is_err());
    assert!(matches!(
        store.remove("spill://s/session/../../session.jsonl"),
        Err(SpillError::Unknown(_))
    ));
    store.put(&id("b"), "txt", b"54321", Retention::Session).unwrap();
}

// spec 8.3: retention is enforced, for sessions that nobody opens again too
#[test]
fn a_sweep_removes_what_has_outlived_its_retention_and_nothing_else() {
    let state = tempfile::tempdir().unwrap();
    let mut folders = Vec::new();
    for session in ["s1", "s2"] {
        let store = open(state.path(), session);
        folders.push(store.folder().to_owned());
        for retention in [Retention::Temporary, Retention::Session, Retention::Project] {
            store.put(&id("a"), "txt", b"12345", retention).unwrap();
        }
        // As if its process had been killed.
        std::mem::forget(store);
    }
    fs::write(state.path().join("sessions/s1/session.jsonl"), "a log").unwrap();
    let after = |days: u64| {
        let now = SystemTime::now() + Duration::from_secs(days * 86_400 + 60);
        let swept = sweep(state.path(), &Ages::default(), now);
        (swept.files, swept.bytes, swept.stuck)
    };
    assert_eq!(after(0), (0, 0, 0));
    assert_eq!(after(1), (2, 10, 0));
    assert_eq!(after(6), (0, 0, 0));
    assert_eq!(after(7), (2, 10, 0));
    assert_eq!(after(89), (0, 0, 0));
    assert_eq!(after(90), (2, 10, 0));
    assert!(folders.iter().all(|folder| folder.join("session").exists()));
    assert!(state.path().join("sessions/s1/session.jsonl").exists());
}
