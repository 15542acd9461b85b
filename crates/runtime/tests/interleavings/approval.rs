//! Answers of a client in the same process, which may come as soon as the question is registered.

use crate::explore;
use crate::world::{World, call, rest};
use async_trait::async_trait;
use shuttle::future::block_on;
use shuttle::sync::Mutex;
use shuttle::thread;
use std::sync::Arc;
use stockade_runtime::{
    ApprovalRequest, Approver, Decision, Hook, HookError, PreDecision, PreVerdict, PreparedCall,
    SlotApprover,
};

struct Asks;

#[async_trait]
impl Hook for Asks {
    fn name(&self) -> &str {
        "asks"
    }

    async fn pre_execute(&self, _: &PreparedCall) -> Result<PreDecision, HookError> {
        Ok(PreVerdict::Ask("sure?".into()).into())
    }
}

type Answering = thread::JoinHandle<bool>;

/// Two clients answer as soon as they can.
#[derive(Default)]
struct Clients {
    slots: Arc<SlotApprover>,
    answering: Mutex<Vec<Answering>>,
}

#[async_trait]
impl Approver for Clients {
    fn register(&self, request: &ApprovalRequest) {
        self.slots.register(request);
        for _ in 0..2 {
            let (slots, token) = (Arc::clone(&self.slots), request.call.token());
            let answer = thread::spawn(move || slots.answer(token, Decision::Allow).is_ok());
            self.answering.lock().expect("nobody panics with it").push(answer);
        }
    }

    async fn decide(&self, request: &ApprovalRequest) -> Result<Decision, HookError> {
        self.slots.decide(request).await
    }

    fn settled(&self, request: &ApprovalRequest, by: &str) {
        self.slots.settled(request, by);
    }
}

impl Clients {
    /// How many answers counted.
    fn counted(&self) -> usize {
        let answering: Vec<_> =
            self.answering.lock().expect("nobody panics with it").drain(..).collect();
        answering
            .into_iter()
            .map(|answer| answer.join().expect("no panic"))
            .filter(|ok| *ok)
            .count()
    }
}

// spec 2.6
#[test]
fn an_answer_that_is_as_quick_as_the_question_counts_and_counts_once() {
    explore(|| {
        let clients = Arc::new(Clients::default());
        let approver = Arc::clone(&clients);
        let world = World::with(|builder| builder.hook(Arc::new(Asks)).approver(approver));
        let results = block_on(world.runtime.run_turn([call(0, "Read")])).expect("no fault");
        assert!(!results[0].is_error, "{results:?}");
        assert_eq!(clients.counted(), 1);
    });
}

// spec 1.16, 2.6
#[test]
fn a_call_that_is_cancelled_while_somebody_answers_ran_or_did_not() {
    explore(|| {
        let clients = Arc::new(Clients::default());
        let approver = Arc::clone(&clients);
        let world = World::with(|builder| builder.hook(Arc::new(Asks)).approver(approver));
        let mut turn = world.runtime.open_turn();
        turn.submit(call(0, "Read")).expect("open");
        turn.close();
        let submitter = turn.submitter();
        let abort = thread::spawn(move || submitter.abort());
        let results = block_on(rest(&mut turn));
        abort.join().expect("it does not panic");
        let text = serde_json::to_string(&results[0].content).expect("JSON");
        assert!(text.contains("done") || text.contains("ABORTED"), "{text}");
        assert!(clients.counted() <= 1);
    });
}
