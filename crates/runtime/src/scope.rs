use crate::events::Events;
use crate::pipeline::Pipeline;
use crate::sync::atomic::AtomicU64;
use crate::{EventSink, Guard, Hook, Observer, Settings, ToolRuntime};
use std::sync::Arc;

/// Builds a scope: a runtime below another one, with tools, hooks and listeners of its own (spec 3.1, 3.5). Register its tools
/// with [`ToolRuntime::registry`].
pub struct ScopeBuilder {
    pipeline: Pipeline,
    settings: Settings,
    last_turn: Arc<AtomicU64>,
    own: Events,
}

impl ScopeBuilder {
    pub(crate) fn new(
        mut pipeline: Pipeline,
        settings: Settings,
        last_turn: Arc<AtomicU64>,
    ) -> Self {
        pipeline.registry = pipeline.registry.scope();
        Self { pipeline, settings, last_turn, own: Events::default() }
    }

    /// Adds a hook at the chain's end. It sees this scope's calls alone.
    pub fn hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.pipeline.hooks.push(hook);
        self
    }

    /// Adds a guard.
    pub fn guard(mut self, guard: Arc<dyn Guard>) -> Self {
        self.pipeline.guards.push(guard);
        self
    }

    /// Adds an observer.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.pipeline.observers.push(observer);
        self
    }

    /// Adds somebody who takes this scope's events, and is told when tools change anywhere.
    pub fn events(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.pipeline.events.0.push(Arc::clone(&sink));
        self.own.0.push(sink);
        self
    }

    /// The scope.
    pub fn build(self) -> ToolRuntime {
        ToolRuntime::new(self.pipeline, self.settings, self.last_turn, self.own)
    }
}
