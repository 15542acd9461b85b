use crate::call::QueuedCall;
use crate::cancel::CallCancel;
use crate::classify::Classified;
use crate::sync::atomic::{AtomicBool, Ordering};
use serde_json::Value;
use std::collections::BTreeMap;
use stockade_tools::InterruptBehavior;
use stockade_types::CancelReason;

/// A sibling's description is cut at so many characters (spec 1.11).
const DESCRIPTION_CHARS_MAX: usize = 40;

/// The calls that have started and not ended, by number. What has ended leaves nothing behind.
#[derive(Default)]
pub(super) struct Live(BTreeMap<u64, LiveCall>);

pub(super) struct LiveCall {
    pub(super) cancel: CallCancel,
    /// Whether its failure is its siblings' business.
    pub(super) cascades: bool,
    pub(super) description: String,
    interrupt: InterruptBehavior,
    executing: bool,
}

impl Live {
    pub(super) fn add(
        &mut self,
        number: u64,
        queued: &QueuedCall,
        classified: &Classified,
        cancel: CallCancel,
    ) {
        let call = LiveCall {
            cancel,
            cascades: classified.cascades,
            description: if classified.cascades { describe(queued) } else { String::new() },
            interrupt: classified.interrupt,
            executing: false,
        };
        self.0.insert(number, call);
    }

    pub(super) fn executing(&mut self, number: u64, interruptible: &AtomicBool) {
        if let Some(call) = self.0.get_mut(&number) {
            call.executing = true;
        }
        self.tell(interruptible);
    }

    pub(super) fn remove(&mut self, number: u64, interruptible: &AtomicBool) -> Option<LiveCall> {
        let call = self.0.remove(&number);
        self.tell(interruptible);
        call
    }

    pub(super) fn cancel_all(&self, reason: CancelReason, sibling: &str) {
        for call in self.0.values() {
            call.cancel.cancel(reason, sibling);
        }
    }

    pub(super) fn interrupt(&self, before: u64) {
        let calls = self.0.range(..before).map(|(_, call)| call);
        for call in calls.filter(|call| call.interrupt == InterruptBehavior::Cancel) {
            call.cancel.cancel(CancelReason::UserInterrupted, "");
        }
    }

    /// True only while every running call can be cancelled, and there is one (spec 1.14).
    fn tell(&self, interruptible: &AtomicBool) {
        let mut running = self.0.values().filter(|call| call.executing).peekable();
        let any = running.peek().is_some();
        let all = running.all(|call| call.interrupt == InterruptBehavior::Cancel);
        interruptible.store(any && all, Ordering::Release);
    }
}

/// A call for the siblings that its failure cancels: `Bash(mkdir /tmp/x)`.
fn describe(call: &QueuedCall) -> String {
    let telling = ["command", "file_path", "pattern"];
    let about = telling.iter().find_map(|key| call.arguments.get(*key).and_then(Value::as_str));
    let Some(about) = about else { return call.name.clone() };
    let cut = match about.char_indices().nth(DESCRIPTION_CHARS_MAX) {
        None => about.to_owned(),
        Some((byte, _)) => format!("{}…", about.split_at(byte).0),
    };
    format!("{}({cut})", call.name)
}
