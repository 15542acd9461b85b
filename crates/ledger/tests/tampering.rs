//! Each kind of tampering is found, named, and placed (spec 9.2).

use sha2::{Digest, Sha256};
use std::fs;
use std::path::PathBuf;
use stockade_ledger::{
    Entry, Event, FaultKind, FsyncPolicy, Ledger, LedgerError, LedgerOptions, LedgerPaths,
    Verified, VerifierKey, VerifyOptions, verify,
};
use tempfile::TempDir;

const RECORDS: u64 = 40;

struct Scene {
    _folder: TempDir,
    paths: LedgerPaths,
}

fn record(n: u64) -> Entry {
    Entry::of(Event::SessionEnded { calls: n, reason: format!("the {n}th") })
}

/// A ledger with a checkpoint at every tenth record, closed by a last one.
fn scene() -> Scene {
    scene_with(LedgerOptions {
        checkpoint_every: 10,
        fsync: FsyncPolicy::Never,
        ..LedgerOptions::default()
    })
}

fn scene_with(options: LedgerOptions) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let paths = LedgerPaths::of_state_dir(folder.path());
    let ledger = Ledger::open(paths.clone(), options).unwrap();
    for n in 0..RECORDS {
        ledger.append(&record(n)).unwrap();
    }
    ledger.checkpoint().unwrap();
    Scene { _folder: folder, paths }
}

impl Scene {
    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.paths.current).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn write(&self, lines: &[String]) {
        fs::write(&self.paths.current, lines.join("\n") + "\n").unwrap();
    }

    fn verify(&self) -> Verified {
        verify(&self.paths, &VerifyOptions::default()).unwrap()
    }

    /// Tampers with the lines, and says what is found and at which line.
    fn tampered(&self, with: impl FnOnce(&mut Vec<String>)) -> (FaultKind, u64) {
        let whole = self.lines();
        let mut lines = whole.clone();
        with(&mut lines);
        self.write(&lines);
        let found = self.verify().fault.expect("tampering is found");
        self.write(&whole);
        assert_eq!(self.verify().fault, None, "and nothing is found without it");
        (found.kind, found.line)
    }
}

/// A line with its hash made anew, as anybody can without the key.
fn rehashed(line: &str, prev: &str) -> String {
    let body = line.split(",\"prev\":").next().unwrap();
    let body = format!("{body},\"prev\":\"{prev}\"");
    let hash: String =
        Sha256::digest(body.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{body},\"hash\":\"{hash}\"}}")
}

fn hash_of(line: &str) -> String {
    line.rsplit("\"hash\":\"").next().unwrap().trim_end_matches("\"}").to_owned()
}

/// All lines from one on, chained anew.
fn rechain(lines: &mut [String], from: usize) {
    for at in from..lines.len() {
        let prev = if at == 0 { "0".repeat(64) } else { hash_of(&lines[at - 1]) };
        lines[at] = rehashed(&lines[at], &prev);
    }
}

fn renumbered(line: &str, seq: usize) -> String {
    let (front, rest) = line.split_once("\"seq\":").unwrap();
    let digits = rest.chars().take_while(char::is_ascii_digit).count();
    format!("{front}\"seq\":{seq}{}", &rest[digits..])
}

#[test]
fn a_whole_ledger_verifies() {
    let scene = scene();
    let found = scene.verify();
    assert_eq!(found.fault, None);
    assert_eq!(found.records, scene.lines().len() as u64);
    assert!(found.checkpoints >= 5);
    assert_eq!(found.unsigned, 0);
}

#[test]
fn a_changed_line_is_found_wherever_it_is() {
    let scene = scene();
    for at in 0..scene.lines().len() {
        let found = scene
            .tampered(|lines| lines[at] = lines[at].replacen("\"time\":\"2", "\"time\":\"3", 1));
        assert_eq!(found, (FaultKind::Changed, at as u64 + 1));
    }
    let found = scene.tampered(|lines| lines[14] = "{\"nonsense\":true}".into());
    assert_eq!(found, (FaultKind::Changed, 15));
    let found = scene.tampered(|lines| lines[14] = String::new());
    assert_eq!(found, (FaultKind::Changed, 15));
}

#[test]
fn a_changed_line_whose_own_hash_was_made_anew_is_found() {
    let scene = scene();
    let found = scene.tampered(|lines| {
        let prev = hash_of(&lines[13]);
        lines[14] = rehashed(&lines[14].replace("th\"", "TH\""), &prev);
    });
    assert_eq!(found, (FaultKind::Changed, 15));
}

#[test]
fn a_removed_line_is_found_wherever_it_is() {
    let scene = scene();
    let count = scene.lines().len();
    for at in 0..count - 1 {
        let found = scene.tampered(|lines| drop(lines.remove(at)));
        assert_eq!(found, (FaultKind::Removed, at as u64 + 1));
    }
    let found = scene.tampered(|lines| drop(lines.drain(3..20)));
    assert_eq!(found, (FaultKind::Removed, 4));
}

#[test]
fn swapped_and_moved_lines_are_found() {
    let scene = scene();
    assert_eq!(scene.tampered(|lines| lines.swap(7, 8)), (FaultKind::Reordered, 8));
    assert_eq!(scene.tampered(|lines| lines.swap(7, 30)), (FaultKind::Reordered, 8));
    assert_eq!(
        scene.tampered(|lines| {
            let line = lines.remove(5);
            lines.push(line);
        }),
        (FaultKind::Reordered, 6)
    );
}

#[test]
fn an_inserted_line_is_found_whether_its_hashes_are_good_or_not() {
    let scene = scene();
    let found = scene
        .tampered(|lines| lines.insert(9, "{\"type\":\"decided\",\"decision\":\"allow\"}".into()));
    assert_eq!(found, (FaultKind::Inserted, 10));
    let found = scene.tampered(|lines| lines.insert(9, lines[4].clone()));
    assert_eq!(found, (FaultKind::Inserted, 10));
    let found = scene.tampered(|lines| {
        let forged = rehashed(&lines[9].replace("th\"", "TH\""), &hash_of(&lines[8]));
        lines.insert(9, forged);
    });
    assert_eq!(found, (FaultKind::Inserted, 10));
}

#[test]
fn a_chain_made_anew_without_the_key_is_found_and_placed_behind_the_last_good_checkpoint() {
    let scene = scene();
    let found = scene.tampered(|lines| {
        lines[24] = lines[24].replace("th\"", "TH\"");
        rechain(lines, 24);
    });
    let checkpoints: Vec<usize> = scene
        .lines()
        .iter()
        .enumerate()
        .filter(|(_, line)| line.contains("\"type\":\"checkpoint\""))
        .map(|(at, _)| at + 1)
        .collect();
    let before = checkpoints.iter().rev().find(|at| **at < 25).unwrap();
    assert_eq!(found, (FaultKind::Rechained, *before as u64 + 1));
    // All checkpoints thrown out, the rest numbered and chained anew: the head beside the ledger knows better.
    let found = scene.tampered(|lines| {
        lines.retain(|line| !line.contains("\"type\":\"checkpoint\""));
        for (at, line) in lines.iter_mut().enumerate() {
            *line = renumbered(line, at + 1);
        }
        while lines.len() < 50 {
            let line = renumbered(&lines[9], lines.len() + 1);
            lines.push(line);
        }
        rechain(lines, 0);
    });
    assert_eq!(found, (FaultKind::Rechained, 1));
}

#[test]
fn a_cut_end_is_found_whole_lines_and_half_ones() {
    let scene = scene();
    let count = scene.lines().len() as u64;
    assert_eq!(scene.tampered(|lines| drop(lines.pop())), (FaultKind::CutOff, count));
    assert_eq!(scene.tampered(|lines| lines.truncate(12)), (FaultKind::CutOff, 13));
    let whole = fs::read(&scene.paths.current).unwrap();
    fs::write(&scene.paths.current, &whole[..whole.len() - 20]).unwrap();
    let fault = scene.verify().fault.unwrap();
    assert_eq!((fault.kind, fault.line), (FaultKind::CutOff, count));
    fs::write(&scene.paths.current, b"").unwrap();
    assert_eq!(scene.verify().fault.unwrap().kind, FaultKind::CutOff);
}

#[test]
fn a_cut_end_with_an_older_head_beside_it_is_found_by_a_head_published_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let paths = LedgerPaths::of_state_dir(folder.path());
    let ledger = Ledger::open(paths.clone(), LedgerOptions::default()).unwrap();
    ledger.append(&record(1)).unwrap();
    ledger.checkpoint().unwrap();
    let old = (fs::read(&paths.current).unwrap(), fs::read(&paths.head).unwrap());
    ledger.append(&record(2)).unwrap();
    ledger.checkpoint().unwrap();
    let published = folder.path().join("published");
    fs::copy(&paths.head, &published).unwrap();
    fs::write(&paths.current, old.0).unwrap();
    fs::write(&paths.head, old.1).unwrap();
    assert_eq!(verify(&paths, &VerifyOptions::default()).unwrap().fault, None);
    let options = VerifyOptions { published: Some(published), key: None };
    let fault = verify(&paths, &options).unwrap().fault.unwrap();
    assert_eq!((fault.kind, fault.record), (FaultKind::CutOff, 5));
}

#[test]
fn a_removed_or_forged_head_and_another_key_are_found() {
    let scene = scene();
    let head = fs::read_to_string(&scene.paths.head).unwrap();
    fs::remove_file(&scene.paths.head).unwrap();
    assert_eq!(scene.verify().fault.unwrap().kind, FaultKind::Head);
    fs::write(&scene.paths.head, head.replacen("\n5", "\n4", 1).replacen("\n4", "\n3", 1)).unwrap();
    assert_eq!(scene.verify().fault.unwrap().kind, FaultKind::Head);
    fs::write(&scene.paths.head, head).unwrap();
    let other = self::scene();
    let options = VerifyOptions {
        key: Some(VerifierKey::read(&other.paths.verifier).unwrap()),
        published: None,
    };
    assert!(verify(&scene.paths, &options).unwrap().fault.is_some());
}

// spec 9.2
#[test]
fn a_ledger_replaced_with_its_key_and_its_head_is_found_by_what_lies_elsewhere() {
    let (scene, other) = (scene(), self::scene());
    let elsewhere = tempfile::tempdir().unwrap();
    let kept = |name: &str| elsewhere.path().join(name);
    fs::copy(&scene.paths.verifier, kept("pub")).unwrap();
    fs::copy(&scene.paths.head, kept("head")).unwrap();
    let pairs = [
        (&other.paths.current, &scene.paths.current),
        (&other.paths.head, &scene.paths.head),
        (&other.paths.key, &scene.paths.key),
        (&other.paths.verifier, &scene.paths.verifier),
    ];
    for (from, to) in pairs {
        fs::copy(from, to).unwrap();
    }
    assert_eq!(scene.verify().fault, None, "by itself it is whole");
    let key = Some(VerifierKey::read(&kept("pub")).unwrap());
    let by = |key: &Option<VerifierKey>, head: Option<&str>| {
        let options = VerifyOptions { key: key.clone(), published: head.map(kept) };
        verify(&scene.paths, &options).unwrap().fault.map(|fault| fault.kind)
    };
    assert_eq!(by(&key, None), Some(FaultKind::Rechained));
    assert_eq!(by(&None, Some("head")), Some(FaultKind::Head));
    assert!(by(&key, Some("head")).is_some());
    let missing = VerifyOptions { key: None, published: Some(kept("missing")) };
    assert!(verify(&scene.paths, &missing).is_err());
}

#[test]
fn segments_are_one_chain_and_a_missing_one_is_found() {
    let options =
        LedgerOptions { fsync: FsyncPolicy::Never, checkpoint_every: 10, segment_bytes: 4096 };
    let scene = scene_with(options);
    let segments: Vec<PathBuf> =
        scene.paths.segments().unwrap().into_iter().map(|(_, path)| path).collect();
    assert!(segments.len() >= 3, "{segments:?}");
    let whole = scene.verify();
    assert_eq!(whole.fault, None);
    assert!(whole.records > RECORDS);
    for gone in &segments {
        let kept = fs::read(gone).unwrap();
        fs::remove_file(gone).unwrap();
        assert_eq!(scene.verify().fault.unwrap().kind, FaultKind::Removed);
        fs::write(gone, kept).unwrap();
    }
    assert_eq!(scene.verify().fault, None);
}

#[test]
fn a_ledger_that_was_cut_cut_off_from_its_key_or_removed_takes_no_more_records() {
    let scene = scene();
    let open = || Ledger::open(scene.paths.clone(), LedgerOptions::default());
    let whole = scene.lines();
    scene.write(&whole[..12]);
    assert!(matches!(open(), Err(LedgerError::Broken { .. })));
    scene.write(&whole);
    let head = fs::read(&scene.paths.head).unwrap();
    fs::remove_file(&scene.paths.head).unwrap();
    assert!(matches!(open(), Err(LedgerError::Broken { .. })));
    fs::write(&scene.paths.head, head).unwrap();
    let key = fs::read(&scene.paths.key).unwrap();
    fs::remove_file(&scene.paths.key).unwrap();
    assert!(matches!(open(), Err(LedgerError::Key { .. })));
    fs::write(&scene.paths.key, key).unwrap();
    let ledger = open().unwrap();
    ledger.append(&record(0)).unwrap();
    fs::remove_file(&scene.paths.current).unwrap();
    assert!(matches!(ledger.append(&record(1)), Err(LedgerError::Removed { .. })));
    assert!(open().is_err(), "and no new one is begun beside the old head");
}
