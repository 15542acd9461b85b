use stockade_sandbox::TreeSignal;
use stockade_types::CancelReason;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Reaches into a [`crate::RunningCommand`] while it is being waited for. Orders to a command that has ended do nothing.
#[derive(Clone, Debug)]
pub struct Control(UnboundedSender<Order>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Signal(TreeSignal),
    Cancel(CancelReason),
    KillNow,
    Suspend,
    Resume,
}

impl Control {
    pub(crate) fn new() -> (Self, UnboundedReceiver<Order>) {
        let (sender, receiver) = unbounded_channel();
        (Self(sender), receiver)
    }

    /// Passes a signal on to the whole tree and lets it do with it what it likes: no grace begins, and should the
    /// command end by it, the outcome says so. [`TreeSignal::Kill`] is [`Control::kill_now`].
    pub fn signal(&self, signal: TreeSignal) {
        self.send(match signal {
            TreeSignal::Kill => Order::KillNow,
            other => Order::Signal(other),
        });
    }

    /// Cancels: SIGTERM, the grace, SIGKILL (spec 6.1). The second time, by whatever way the first came, the grace is
    /// skipped.
    pub fn cancel(&self, reason: CancelReason) {
        self.send(Order::Cancel(reason));
    }

    /// SIGKILL at once. A command that nothing was ending yet counts as interrupted by the user.
    pub fn kill_now(&self) {
        self.send(Order::KillNow);
    }

    /// Stops every process of the tree (SIGSTOP), and the clock of its deadline. Whatever ends the tree wakes it first.
    pub fn suspend(&self) {
        self.send(Order::Suspend);
    }

    /// Undoes [`Control::suspend`]: the tree goes on (SIGCONT), with exactly the time that it had left.
    pub fn resume(&self) {
        self.send(Order::Resume);
    }

    fn send(&self, order: Order) {
        // Fails only when nobody waits for the command any more; its tree is gone then.
        let _ = self.0.send(order);
    }
}
