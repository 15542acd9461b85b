//! One span for each call (spec 2.17), in the target `stockade::call`. What a model made up is never exported: a name that no
//! tool has is `unknown`.

use crate::call::QueuedCall;
use crate::failure::CallFailure;
use crate::permission::Permitted;
use crate::render;
use std::time::Duration;
use stockade_tools::ToolOutput;
use stockade_types::{CallFlags, ContentBlock, ToolResult};
use tokio::time::Instant;
use tracing::{Span, field};

/// How far a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Lookup,
    Validate,
    Permission,
    Execute,
    Serialize,
    Post,
}

/// What became of the question of permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    Allowed,
    Denied,
    Cancelled,
}

/// A call's span while it lives.
pub(crate) struct Telemetry {
    span: Span,
    begun: Instant,
    stage: Stage,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Stage::Lookup => "lookup",
            Stage::Validate => "validate",
            Stage::Permission => "permission",
            Stage::Execute => "execute",
            Stage::Serialize => "serialize",
            Stage::Post => "post",
        }
    }
}

impl Permission {
    pub(crate) fn of(permitted: &Result<Permitted, CallFailure>) -> Self {
        match permitted {
            Ok(_) => Permission::Allowed,
            Err(CallFailure::AbortedBeforeDispatch) => Permission::Cancelled,
            Err(_) => Permission::Denied,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Permission::Allowed => "allowed",
            Permission::Denied => "denied",
            Permission::Cancelled => "cancelled",
        }
    }
}

impl Telemetry {
    pub(crate) fn begin(call: &QueuedCall, flags: CallFlags, known: bool) -> Self {
        let span = tracing::info_span!(
            target: "stockade::call",
            "tool_call",
            tool = if known { call.name.as_str() } else { "unknown" },
            turn = call.turn,
            read_only = flags.read_only,
            permission = field::Empty,
            permission_wait_ms = field::Empty,
            queued_ms = field::Empty,
            total_ms = field::Empty,
            output_bytes = field::Empty,
            truncated = field::Empty,
            is_error = field::Empty,
            stage = field::Empty,
            error = field::Empty,
        );
        Self { span, begun: Instant::now(), stage: Stage::Lookup }
    }

    pub(crate) fn at(&mut self, stage: Stage) {
        self.stage = stage;
    }

    pub(crate) fn permission(&self, permission: Permission, waited: Duration) {
        self.span.record("permission", permission.name());
        self.span.record("permission_wait_ms", milliseconds(waited));
    }

    pub(crate) fn queued(&self, queued: Duration) {
        self.span.record("queued_ms", milliseconds(queued));
    }

    pub(crate) fn truncated(&self) {
        self.span.record("truncated", true);
    }

    pub(crate) fn finished(&self, result: &ToolResult, outcome: &Result<ToolOutput, CallFailure>) {
        if self.span.is_disabled() {
            return;
        }
        let bytes: usize = result.content.iter().map(bytes).sum();
        self.span.record("output_bytes", bytes);
        self.span.record("total_ms", milliseconds(self.begun.elapsed()));
        self.span.record("is_error", result.is_error);
        let class = match outcome {
            Err(failure) => failure.class(),
            Ok(output) if render::is_error(output) => "tool_reported",
            Ok(_) if result.is_error => "blocked",
            Ok(_) => return,
        };
        self.span.record("stage", self.stage.name());
        self.span.record("error", class);
    }
}

fn bytes(block: &ContentBlock) -> usize {
    match block {
        ContentBlock::Text { text } => text.len(),
        ContentBlock::Image { data, .. } => data.len(),
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
