//! spec 5.8: the whole worker, on a real stream.

use super::super::{MALFORMED, frame, serve_with};
use super::peer::{Peer, any_read, grep_op};
use super::*;
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use stockade_plan::file::{FRAME_MAX, FileMessage};

#[test]
fn many_requests_at_once_are_each_answered_under_their_number() {
    let world = World::new();
    let mut peer = Peer::new(world.folder.path());
    for id in 0..100 {
        let path = Bytes::from(world.path(&format!("f{id}")));
        let content = Bytes(id.to_string().into_bytes());
        peer.request(id, FileOp::Write { path, content, expected: None });
    }
    for _ in 0..100 {
        let reply = peer.reply();
        assert!(matches!(reply.result, Ok(FileDone::Written { created: true, .. })), "{reply:?}");
    }
    for id in 0..100 {
        peer.request(1000 + id, read_op(&world.path(&format!("f{id}")), 1, 1, 100));
    }
    let replies: HashMap<u64, Answer> =
        (0..100).map(|_| peer.reply()).map(|reply| (reply.id, reply.result)).collect();
    for id in 0..100u64 {
        let reply = &replies[&(1000 + id)];
        let Ok(FileDone::Read { content, .. }) = reply else { panic!("{reply:?}") };
        assert_eq!(content.0, id.to_string().into_bytes());
    }
    assert_eq!(peer.finish(), 0);
}

#[test]
fn each_operation_and_each_error_travels_over_the_stream() {
    let world = World::new();
    world.put("f", "old\n");
    let mut peer = Peer::new(world.folder.path());
    let path = Bytes::from(world.path("f"));
    let expected = world.fingerprint("f");
    let root = Bytes::from(world.folder.path());
    let (old, new) = ("old".into(), "new".into());
    peer.request(1, FileOp::Edit { path, old, new, replace_all: false, expected });
    assert!(matches!(peer.reply().result, Ok(FileDone::Edited { replacements: 1, .. })));
    peer.request(2, FileOp::Glob { pattern: "*".into(), root: root.clone(), max_results: 9 });
    assert!(
        matches!(peer.reply().result, Ok(FileDone::Found { entries, .. }) if entries.len() == 1)
    );
    let hook = Bytes::from(world.path("sub/.git/hooks/x"));
    peer.request(3, FileOp::Write { path: hook, content: "x".into(), expected: None });
    assert!(matches!(peer.reply().result, Err(FileError::Protected { .. })));
    peer.request(4, FileOp::Grep(grep_op(root, "new")));
    assert!(
        matches!(peer.reply().result, Ok(FileDone::Found { entries, .. }) if entries.len() == 1)
    );
    assert_eq!(peer.finish(), 0);
}

#[test]
fn a_panic_is_an_error_of_its_request_and_the_worker_goes_on() {
    let mut peer = Peer::start(|stream| {
        serve_with(stream, Arc::new(|_: &FileOp, _: &Cancel| panic!("a fault for the test")))
    });
    for id in 0..20 {
        peer.request(id, any_read());
        let reply = peer.reply();
        assert_eq!(reply.id, id);
        assert_unsuitable(&reply.result, "a fault for the test");
    }
    assert_eq!(peer.finish(), 0);
}

#[test]
fn an_answer_too_long_for_a_frame_becomes_an_error() {
    let mut peer = Peer::start(|stream| {
        let handler = |_: &FileOp, _: &Cancel| {
            let entries = vec![Bytes(vec![b'x'; FRAME_MAX])];
            Ok(FileDone::Found { entries, truncated: false, unreadable: vec![] })
        };
        serve_with(stream, Arc::new(handler))
    });
    peer.request(1, any_read());
    assert_unsuitable(&peer.reply().result, "too long");
    assert_eq!(peer.finish(), 0);
}

#[test]
fn malformed_frames_end_the_worker_with_an_exit_status_of_its_own() {
    let request = stockade_plan::encode(&FileMessage::Request {
        id: 1,
        op: FileOp::Glob { pattern: "**".into(), root: "/proc".into(), max_results: 1 },
    })
    .unwrap();
    let framed = |content: &[u8]| {
        let mut bytes = Vec::new();
        frame::write(&mut bytes, content).unwrap();
        bytes
    };
    let too_long = u32::try_from(FRAME_MAX + 1).unwrap().to_le_bytes().to_vec();
    let cut_off = framed(&request)[..10].to_vec();
    for bytes in [framed(b"no message"), framed(b""), too_long, cut_off, vec![1, 0]] {
        let world = World::new();
        let mut peer = Peer::new(world.folder.path());
        peer.stream.write_all(&bytes).unwrap();
        peer.stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(peer.worker.join().unwrap(), MALFORMED, "{bytes:?}");
    }
}

#[test]
fn a_peer_that_leaves_in_the_middle_ends_the_worker_in_order_and_tidily() {
    let world = World::new();
    let mut peer = Peer::new(world.folder.path());
    for id in 0..20 {
        let path = Bytes::from(world.path(&format!("f{id}")));
        let content = Bytes(vec![b'x'; 4 * 1024 * 1024]);
        peer.request(id, FileOp::Write { path, content, expected: None });
    }
    assert_eq!(peer.finish(), 0);
    world.assert_tidy();
}
