//! Code that is not ours may hold the thread that runs it. What waits behind it could then run on another thread, and the executor calls
//! none for it: it counts on tasks that give their thread back. To call one for each task in advance costs more than all else that the
//! runtime does for a call, so it is done where a thread really is held: a watcher looks once a millisecond while there is anything to
//! watch, and goes when there is nothing any more.

use std::cell::{Cell, OnceCell};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};

/// How often the watcher looks.
const TICK: Duration = Duration::from_millis(1);
/// The same while nothing happens but that a thread is held.
const TICK_MAX: Duration = Duration::from_millis(16);
/// Ticks without anything to watch, after which the watcher goes.
const IDLE_TICKS: u32 = 200;

/// What is to be done as soon as it is known that a thread is held: once or twice, it makes no difference.
pub(crate) type Then = Arc<dyn Fn() + Send + Sync>;

/// Runs a future's steps under watch.
pub(crate) fn watched<T>(future: impl Future<Output = T> + Send) -> impl Future<Output = T> + Send {
    // As in `caught_async`.
    let mut future = Box::pin(future);
    let mut woken = WokenByBodies::default();
    poll_fn(move |context| {
        let _held = Held::begin(None);
        future.as_mut().poll(&mut Context::from_waker(woken.waker(context)))
    })
}

thread_local! {
    /// This thread is in a body's step.
    static IN_BODY: Cell<bool> = const { Cell::new(false) };
}

/// Runs a body's step.
pub(crate) fn in_body<T>(step: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            let _ = IN_BODY.try_with(|inside| inside.set(self.0));
        }
    }
    let _before = Before(IN_BODY.try_with(|inside| inside.replace(true)).unwrap_or_default());
    step()
}

/// What a body wakes is what its thread runs next, and in a place from which no other thread takes anything: if the body then holds its
/// thread, what it woke waits for it. One more task in that place, and the one before it goes to where idle threads look.
pub(crate) fn hand_on_what_was_woken() {
    if IN_BODY.try_with(Cell::get).unwrap_or_default()
        && let Ok(executor) = Handle::try_current()
        && executor.runtime_flavor() == RuntimeFlavor::MultiThread
    {
        drop(executor.spawn(async {}));
    }
}

/// The waker of a task of ours, for which a body that wakes it hands it on.
#[derive(Default)]
pub(crate) struct WokenByBodies(Option<(Waker, Waker)>);

impl WokenByBodies {
    /// Around the context's own.
    pub(crate) fn waker(&mut self, context: &Context<'_>) -> &Waker {
        let own = context.waker();
        if self.0.as_ref().is_some_and(|(inner, _)| !inner.will_wake(own)) {
            self.0 = None;
        }
        let (_, handing_on) = self
            .0
            .get_or_insert_with(|| (own.clone(), Waker::from(Arc::new(HandingOn(own.clone())))));
        handing_on
    }
}

struct HandingOn(Waker);

impl Wake for HandingOn {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake_by_ref();
        hand_on_what_was_woken();
    }
}

/// This thread is held by code that is not ours, until this is dropped.
pub(crate) struct Held(Option<Arc<Slot>>);

impl Held {
    /// On an executor of one thread there is no other to call.
    pub(crate) fn begin(then: Option<Then>) -> Self {
        let executor = match Handle::try_current() {
            Ok(executor) if executor.runtime_flavor() == RuntimeFlavor::MultiThread => executor,
            _ => return Self(None),
        };
        // A thread that is going away has nobody to watch it.
        let slot = SLOT.try_with(|slot| Arc::clone(slot.get_or_init(Slot::of_this_thread))).ok();
        if let Some(slot) = &slot {
            let mut state = slot.state();
            state.steps = state.steps.wrapping_add(1);
            state.inside = Some(Inside { executor, then });
            drop(state);
            // The watcher says that it goes before it looks at the slots a last time: it saw this one, or this sees that it went.
            if !WATCHES.load(Ordering::Acquire) && !begin_to_watch() {
                // Nobody watches: as if the thread were held from the first.
                let inside = slot.state().inside.take();
                if let Some(inside) = inside {
                    inside.call_another_thread();
                }
            }
        }
        Self(slot)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            let inside = slot.state().inside.take();
            // Not under the lock: it may be the last of an executor.
            drop(inside);
        }
    }
}

/// What a thread is at.
#[derive(Default)]
struct Slot(Mutex<State>);

#[derive(Default)]
struct State {
    /// Counts what was begun.
    steps: u64,
    inside: Option<Inside>,
}

#[derive(Clone)]
struct Inside {
    executor: Handle,
    then: Option<Then>,
}

thread_local! {
    static SLOT: OnceCell<Arc<Slot>> = const { OnceCell::new() };
}
/// The slots of all threads.
static SLOTS: Mutex<Vec<Weak<Slot>>> = Mutex::new(Vec::new());
/// There is a watcher.
static WATCHES: AtomicBool = AtomicBool::new(false);

impl Slot {
    fn of_this_thread() -> Arc<Self> {
        let slot = Arc::default();
        let mut slots = slots();
        slots.retain(|slot| slot.strong_count() > 0);
        slots.push(Arc::downgrade(&slot));
        slot
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn slots() -> MutexGuard<'static, Vec<Weak<Slot>>> {
    SLOTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether there is a watcher now.
#[cold]
fn begin_to_watch() -> bool {
    if WATCHES.swap(true, Ordering::AcqRel) {
        return true;
    }
    let watcher = std::thread::Builder::new().name("stockade-watch".to_owned()).spawn(watch);
    if let Err(error) = &watcher {
        // The next step tries again.
        WATCHES.store(false, Ordering::Release);
        tracing::warn!(%error, "there is no thread to watch for threads that are held");
    }
    watcher.is_ok()
}

fn watch() {
    // By slot: the step that it was at when it was looked at last.
    let mut seen: Vec<(Weak<Slot>, u64)> = Vec::new();
    let (mut idle, mut tick) = (0, TICK);
    loop {
        std::thread::sleep(tick);
        let (mut moved, mut held) = (false, false);
        seen.retain(|(slot, _)| slot.strong_count() > 0);
        let known = slots().clone();
        for weak in known {
            let Some(slot) = weak.upgrade() else { continue };
            let (steps, inside) = {
                let state = slot.state();
                (state.steps, state.inside.clone())
            };
            let before = seen.iter_mut().find(|(known, _)| known.ptr_eq(&weak));
            let is_same = before.as_ref().is_some_and(|(_, before)| *before == steps);
            match before {
                Some((_, before)) => *before = steps,
                None => seen.push((weak, steps)),
            }
            moved |= !is_same;
            if let (true, Some(inside)) = (is_same, inside) {
                held = true;
                inside.call_another_thread();
            }
        }
        tick = if held && !moved { (tick * 2).min(TICK_MAX) } else { TICK };
        idle = if held || moved { 0 } else { idle + 1 };
        if idle > IDLE_TICKS && !stays() {
            return;
        }
    }
}

/// Says that the watcher goes, and looks a last time whether it may. Whoever begins something later sees that it went.
fn stays() -> bool {
    WATCHES.store(false, Ordering::Release);
    let known = slots().clone();
    let busy = known.iter().filter_map(Weak::upgrade).any(|slot| slot.state().inside.is_some());
    // Somebody else may have begun to watch meanwhile.
    busy && !WATCHES.swap(true, Ordering::AcqRel)
}

impl Inside {
    fn call_another_thread(self) {
        if let Some(then) = self.then {
            then();
        }
        // From outside: an idle thread is woken for it, and then takes over what waits behind the one that is held, deadlines too.
        drop(self.executor.spawn(async {}));
    }
}
