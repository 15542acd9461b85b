use super::*;
use crate::tests::{QUIET, Trace, builder, call, ids, probes};
use std::sync::LazyLock;
use std::time::Duration;

// spec 1.17
#[tokio::test(start_paused = true)]
async fn a_fault_of_the_scheduler_itself_drains_what_runs_and_makes_up_no_results() {
    LazyLock::force(&QUIET);
    let trace = Trace::default();
    let runtime = builder(probes(&trace)).build().unwrap();
    let (submit, submissions) = mpsc::unbounded_channel();
    let (deliver, mut delivered) = mpsc::unbounded_channel();
    let signals = Arc::new(TurnSignals::default());
    let pipeline = Arc::clone(&runtime.pipeline);
    let settings = Settings::default();
    let mut scheduler = Scheduler::new(pipeline, 1, settings, signals, submissions, deliver);
    submit.send(QueuedCall::new(1, call("Share", "a", 100).into())).unwrap();
    submit.send(QueuedCall::new(1, call("Alone", "b", 0).into())).unwrap();
    scheduler.phases.spawn(async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        panic!("expected");
    });
    scheduler.run().await;
    let mut results = Vec::new();
    let fault = loop {
        match delivered.recv().await.unwrap() {
            Delivery::Result(delivered) => results.push(delivered.result),
            Delivery::Fault(fault) => break fault,
            Delivery::End => panic!("no fault"),
        }
    };
    assert_eq!(ids(&results), ["a"]);
    assert!(fault.to_string().contains("the scheduler failed"), "{fault}");
    assert_eq!(trace.taken(), ["start a", "end a"]);
}
