use crate::call::QueuedCall;
use crate::caught::caught;
use crate::pipeline::Pipeline;
use stockade_tools::{
    FrozenInput, InterruptBehavior, Lookup, RegisteredTool, SessionContext, SideEffects, bounds,
};
use stockade_types::{CallFlags, CallMode};

/// What the scheduler must know of a call that is about to start.
pub(crate) struct Classified {
    pub(crate) lookup: Lookup,
    pub(crate) flags: CallFlags,
    /// It may start while the model still streams (spec 1.19).
    pub(crate) safe: bool,
    pub(crate) cascades: bool,
    pub(crate) interrupt: InterruptBehavior,
}

/// The tool of a call, and how the call shares time with others. Asked each time the call is about to start, so that a
/// tool that an earlier call replaced counts (spec 1.4). Fails closed: anything but a definite yes is exclusive
/// (spec 1.2). Whether it is safe is asked only while the turn is `streaming`.
pub(crate) fn classify(
    pipeline: &Pipeline,
    call: &QueuedCall,
    context: &SessionContext,
    streaming: bool,
) -> Classified {
    let mut classified = Classified {
        lookup: Lookup::Unknown,
        flags: CallFlags { mode: CallMode::Exclusive, read_only: false },
        safe: false,
        cascades: false,
        interrupt: InterruptBehavior::Block,
    };
    if call.broken.is_some() {
        return classified;
    }
    classified.lookup = pipeline.registry.direct(&call.name);
    let Lookup::Found(registered) = &classified.lookup else { return classified };
    let tool = registered.tool();
    let asked = caught(|| (tool.cascades_on_error(), tool.interrupt_behavior()));
    if let Ok((cascades, interrupt)) = asked {
        (classified.cascades, classified.interrupt) = (cascades, interrupt);
    }
    let asked = caught(|| {
        let arguments = registered.validate(&call.arguments).ok()?;
        let parallel = tool.concurrency_safe(&arguments).unwrap_or(false);
        let mode = if parallel { CallMode::Parallel } else { CallMode::Exclusive };
        let flags = CallFlags { mode, read_only: tool.read_only(&arguments) };
        Some(flags)
    });
    if let Ok(Some(flags)) = asked {
        classified.flags = flags;
        classified.safe = streaming
            && flags.mode == CallMode::Parallel
            && flags.read_only
            && caught(|| is_safe(pipeline, registered, call, context)).unwrap_or(false);
    }
    classified
}

fn is_safe(
    pipeline: &Pipeline,
    registered: &RegisteredTool,
    call: &QueuedCall,
    context: &SessionContext,
) -> bool {
    let metadata = registered.tool().metadata();
    if metadata.destructive || metadata.side_effects != SideEffects::None {
        return false;
    }
    let resolved = registered
        .validate(&call.arguments)
        .and_then(|arguments| registered.tool().resolve_input(&arguments, context));
    // Too much of it is an error of the call, once that is prepared.
    let bounded = resolved.ok().and_then(|input| bounds::hold(input).ok());
    bounded.is_some_and(|input| pipeline.asks_nobody(registered, &FrozenInput::new(input)))
}
