//! spec 5.8: what hangs or takes long delays nothing else, and can be cancelled.

use super::super::{MALFORMED, serve_with};
use super::peer::{Peer, any_read, grep_op};
use super::*;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use stockade_plan::file::{FileMessage, FileReply};

/// A folder with so many files that a search of it takes a while.
fn large_tree(world: &World) {
    for folder in 0..200 {
        for file in 0..50 {
            world.put(&format!("{folder}/{file}"), "some text\n".repeat(50));
        }
    }
}

/// In one round of many: what else this machine does is not what is measured.
#[track_caller]
fn assert_within_50_ms(mut round: impl FnMut(u64) -> Duration) {
    let mut rounds = (0..50).map(&mut round);
    assert!(rounds.any(|took| took < Duration::from_millis(50)));
}

fn long_searches(world: &World) -> [FileOp; 2] {
    let root = Bytes::from(world.folder.path());
    [
        FileOp::Grep(grep_op(root.clone(), "never found")),
        FileOp::Glob { pattern: "**/never".into(), root, max_results: 9 },
    ]
}

#[test]
fn a_cancelled_search_of_a_large_tree_is_answered_within_50_ms() {
    let world = World::new();
    large_tree(&world);
    let mut peer = Peer::new(world.folder.path());
    for op in long_searches(&world) {
        assert_within_50_ms(|id| {
            peer.request(id, op.clone());
            std::thread::sleep(Duration::from_millis(1));
            let start = Instant::now();
            peer.send(&FileMessage::Cancel { id });
            assert_eq!(peer.reply(), FileReply { id, result: Err(FileError::Cancelled) });
            start.elapsed()
        });
    }
    assert_eq!(peer.finish(), 0);
}

// The answer alone would prove little: the work itself must stop.
#[test]
fn the_work_of_a_cancelled_search_stops_within_50_ms() {
    let world = World::new();
    large_tree(&world);
    for op in long_searches(&world) {
        assert_within_50_ms(|_| {
            let cancel = Cancel::default();
            std::thread::scope(|scope| {
                let work = scope.spawn(|| (world.files.run(&op, &cancel), Instant::now()));
                std::thread::sleep(Duration::from_millis(1));
                let start = Instant::now();
                cancel.set();
                let (answer, end) = work.join().unwrap();
                assert_eq!(answer, Err(FileError::Cancelled));
                end.saturating_duration_since(start)
            })
        });
    }
}

/// A handler whose reads hang until something is sent, or hang for ever once cancelled.
fn hanging(release: Receiver<()>) -> impl FnOnce(UnixStream) -> i32 + Send + 'static {
    let release = Mutex::new(release);
    let handler = move |op: &FileOp, _: &Cancel| match op {
        FileOp::Read { .. } => {
            release.lock().unwrap().recv().unwrap();
            Err(FileError::Changed { path: "late".into() })
        }
        _ => Ok(FileDone::Found { entries: vec![], truncated: false, unreadable: vec![] }),
    };
    move |stream| serve_with(stream, Arc::new(handler))
}

#[test]
fn hanging_reads_delay_no_other_request_and_can_be_cancelled() {
    let (release, receiver) = channel();
    let mut peer = Peer::start(hanging(receiver));
    let glob = || FileOp::Glob { pattern: "*".into(), root: "/".into(), max_results: 1 };
    for id in 0..7 {
        peer.request(id, any_read());
    }
    peer.request(100, glob());
    assert_eq!(peer.reply().id, 100);
    // All threads hang now, and one request waits. Cancelled ones are replaced.
    for id in 7..9 {
        peer.request(id, any_read());
    }
    peer.request(101, glob());
    for id in 0..9 {
        peer.send(&FileMessage::Cancel { id });
    }
    let mut ids: Vec<u64> = (0..10)
        .map(|_| {
            let reply = peer.reply();
            assert!(reply.id == 101 || reply.result == Err(FileError::Cancelled), "{reply:?}");
            reply.id
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6, 7, 8, 101]);

    // A number may be used again; the late end of the first request is not taken for its answer.
    for _ in 0..8 {
        release.send(()).unwrap();
    }
    std::thread::sleep(Duration::from_millis(20));
    peer.request(0, glob());
    let reply = peer.reply();
    assert!(reply.id == 0 && reply.result.is_ok(), "{reply:?}");
    assert_eq!(peer.finish(), 0);
}

#[test]
fn a_number_that_is_still_in_use_ends_the_worker_like_a_malformed_frame() {
    let (_release, receiver) = channel();
    let mut peer = Peer::start(hanging(receiver));
    peer.request(1, any_read());
    peer.request(1, any_read());
    assert_eq!(peer.worker.join().unwrap(), MALFORMED);
}

#[test]
fn a_change_under_way_is_answered_by_what_became_of_it() {
    let (release, receiver) = channel();
    let receiver = Mutex::new(receiver);
    let mut peer = Peer::start(move |stream| {
        let handler = move |_: &FileOp, cancel: &Cancel| {
            receiver.lock().unwrap().recv().unwrap();
            assert!(cancel.is_set());
            Err(FileError::ExistsUnread { path: "f".into() })
        };
        serve_with(stream, Arc::new(handler))
    });
    peer.request(1, FileOp::Write { path: "/f".into(), content: "x".into(), expected: None });
    std::thread::sleep(Duration::from_millis(50));
    peer.send(&FileMessage::Cancel { id: 1 });
    std::thread::sleep(Duration::from_millis(50));
    release.send(()).unwrap();
    assert_eq!(peer.reply().result, Err(FileError::ExistsUnread { path: "f".into() }));
    assert_eq!(peer.finish(), 0);
}

#[test]
fn too_many_waiting_requests_are_refused_and_none_is_lost() {
    let (release, receiver) = channel();
    let mut peer = Peer::start(hanging(receiver));
    for id in 0..300 {
        peer.request(id, any_read());
    }
    // All but those that 8 threads work on and the 256 that may wait; more if a thread was slow to come.
    let mut replies: Vec<FileReply> = (0..300 - 8 - 256).map(|_| peer.reply()).collect();
    for reply in &replies {
        assert_os(&reply.result, nix::errno::Errno::EAGAIN);
    }
    for _ in 0..300 {
        release.send(()).unwrap();
    }
    replies.extend((replies.len()..300).map(|_| peer.reply()));
    let done = |reply: &&FileReply| matches!(reply.result, Err(FileError::Changed { .. }));
    assert!(replies.iter().filter(done).count() >= 256);
    let ids: std::collections::HashSet<u64> = replies.iter().map(|reply| reply.id).collect();
    assert_eq!(ids.len(), 300);
    assert_eq!(peer.finish(), 0);
}

#[test]
fn a_peer_that_does_not_read_for_a_while_gets_everything_all_the_same() {
    let world = World::new();
    world.put("f", "x".repeat(4 * 1024 * 1024));
    let mut peer = Peer::new(world.folder.path());
    // More than the socket and the outbox hold together: whoever waits for whom, nothing locks up.
    for id in 0..40 {
        peer.request(id, read_op(&world.path("f"), 1, 1, u64::MAX));
    }
    peer.send(&FileMessage::Cancel { id: 1234 });
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..40 {
        let reply = peer.reply();
        let Ok(FileDone::Read { content, .. }) = reply.result else { panic!("{}", reply.id) };
        assert_eq!(content.0.len(), 4 * 1024 * 1024);
    }
    assert_eq!(peer.finish(), 0);
}
