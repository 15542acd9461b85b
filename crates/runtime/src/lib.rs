//! Scheduler, pipeline, hooks, approval, session log: the ToolRuntime.
#![forbid(unsafe_code)]
