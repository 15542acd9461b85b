//! Wrappers together with panics and aborts.

use super::probe::{all, builder, probe};
use crate::scene::{call_with, text};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use stockade_runtime::{Around, Next, PreparedCall};
use stockade_tools::{CallContext, ToolError, ToolOutput};
use stockade_types::ToolResult;

/// A wrapper that does not do as it should.
struct Wraps(&'static str);

#[async_trait]
impl Around for Wraps {
    async fn around(
        &self,
        _: &PreparedCall,
        mut context: CallContext,
        next: Next<'_>,
    ) -> Result<ToolOutput, ToolError> {
        match self.0 {
            "panics before" => panic!("expected"),
            "panics after" => {
                let _ = next.run(context).await;
                panic!("expected")
            }
            "never goes on" => Ok(ToolOutput::text("instead")),
            "cancels" => {
                context.cancel.cancel();
                next.run(context).await
            }
            "another token" => {
                context.cancel = Default::default();
                next.run(context).await
            }
            "drops" => {
                drop(tokio::time::timeout(Duration::from_millis(10), next.run(context)).await);
                Ok(ToolOutput::text("dropped"))
            }
            "deep" => {
                let deep = (0..1_000_000).fold(Value::Null, |v, _| Value::Array(vec![v]));
                Ok(ToolOutput::value(deep))
            }
            "deaf" => {
                let _ = next.run(context).await;
                std::future::pending().await
            }
            _ => next.run(context).await,
        }
    }
}

// spec 2.7, 2.14
#[tokio::test(start_paused = true)]
async fn whatever_a_wrapper_does_its_call_has_a_result_and_an_abort_reaches_the_body() {
    for (what, says) in [
        ("", "did"),
        ("panics before", "panicked"),
        ("panics after", "panicked"),
        ("never goes on", "instead"),
        ("cancels", "did"),
        ("another token", "did"),
        ("drops", "dropped"),
        ("deep", "levels deep"),
        ("deaf", "timed out"),
    ] {
        for outer in [true, false] {
            let wraps: [&'static str; 2] = if outer { [what, ""] } else { ["", what] };
            let mut builder = builder([probe("Share", true)]);
            for what in wraps {
                builder = builder.around(Arc::new(Wraps(what)));
            }
            let runtime = builder.build().unwrap();
            let calls = ["a", "b"].map(|id| call_with(id, "Share", json!({"ms": 20})));
            let results = runtime.run_turn(calls.clone()).await.unwrap();
            assert!(
                results.iter().all(|result| text(result).contains(says)),
                "{what}: {results:?}"
            );
            for discards in [false, true] {
                let mut turn = runtime.open_turn();
                for call in calls.clone() {
                    turn.submit(call).unwrap();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
                if discards {
                    turn.discard()
                } else {
                    turn.abort()
                }
                turn.close();
                let results = all(&mut turn).await;
                assert_eq!(results.len(), if discards { 0 } else { 2 }, "{what}: {results:?}");
                let at_once =
                    matches!(what, "panics before" | "never goes on" | "cancels" | "deep");
                let aborted = |result: &ToolResult| text(result).contains("ABORTED");
                assert!(at_once || results.iter().all(aborted), "{what}: {results:?}");
            }
        }
    }
}
