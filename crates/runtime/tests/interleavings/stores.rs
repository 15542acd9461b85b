//! The registry, the spill store and a call's clock, each used by several threads.

use crate::explore;
use crate::world::Nothing;
use shuttle::future::block_on;
use shuttle::sync::Mutex;
use shuttle::thread;
use std::sync::Arc;
use std::time::Duration;
use stockade_spill::{Limits, Retention, SpillStore};
use stockade_tools::registry::ToolsChanged;
use stockade_tools::{QueueClock, Registry, ToolError, TypedTool};
use stockade_types::{CallId, SessionId};

#[derive(Default)]
struct Changes(Mutex<Vec<u64>>);

impl ToolsChanged for Changes {
    fn tools_changed(&self, generation: u64) {
        self.0.lock().expect("nobody panics with it").push(generation);
    }
}

fn tool(name: &str) -> Arc<dyn stockade_tools::Tool> {
    Arc::new(TypedTool::new(name, "", |_: Nothing, _| async { Ok::<_, ToolError>("") }))
}

// spec 3.4, 3.5
#[test]
fn of_two_tools_with_one_name_one_is_registered_and_every_change_is_told_once() {
    explore(|| {
        let registry = Arc::new(Registry::new());
        let changes = Arc::new(Changes::default());
        let listener: Arc<dyn ToolsChanged> = changes.clone();
        registry.on_change(&listener);
        let threads = [0, 1].map(|_| {
            let registry = Arc::clone(&registry);
            thread::spawn(move || registry.register(tool("Same")).is_ok())
        });
        let other = registry.register(tool("Other"));
        let accepted: Vec<_> = threads.into_iter().map(|t| t.join().expect("no panic")).collect();
        assert!(other.is_ok() && accepted.iter().filter(|ok| **ok).count() == 1, "{accepted:?}");
        assert_eq!(registry.tools().len(), 2);
        let mut told = std::mem::take(&mut *changes.0.lock().expect("nobody panics with it"));
        told.sort_unstable();
        assert_eq!((told, registry.generation()), (vec![1, 2], 2));
    });
}

// spec 8.3
#[test]
fn the_quota_holds_whoever_writes_at_once_and_what_failed_takes_none_of_it() {
    let state = tempfile::tempdir().expect("a folder");
    let path = state.path().to_owned();
    let number = std::sync::atomic::AtomicU64::new(0);
    explore(move || {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let session = SessionId::new(format!("s{number}")).expect("an id");
        let limits = Limits { session_bytes: 10 };
        let store = SpillStore::open(&path, &session, "/spill".as_ref(), limits).expect("a store");
        let store = Arc::new(store);
        let put = |store: &SpillStore, bytes: usize| {
            let content = vec![b'x'; bytes];
            store.put(&CallId("c".into()), "txt", &content, Retention::Temporary).is_ok()
        };
        let threads = [0, 1].map(|_| {
            let store = Arc::clone(&store);
            thread::spawn(move || put(&store, 6))
        });
        let kept = threads.into_iter().map(|t| t.join().expect("no panic"));
        assert_eq!(kept.filter(|kept| *kept).count(), 1);
        assert!(put(&store, 4) && !put(&store, 1));
    });
}

// spec 2.9
#[test]
fn a_deadline_that_is_over_bites_as_soon_as_the_last_gate_is_through() {
    explore(|| {
        let clock = QueueClock::default();
        let begun = tokio::time::Instant::now();
        let gates = [0, 1].map(|_| {
            let clock = clock.clone();
            thread::spawn(move || block_on(clock.wait(async { thread::yield_now() })))
        });
        // Were the end of a gate not heard of, this would wait for ever.
        block_on(clock.used_up(begun, Duration::ZERO));
        for gate in gates {
            gate.join().expect("it does not panic");
        }
        assert_eq!(clock.queued(), Duration::ZERO);
    });
}
