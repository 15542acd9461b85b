//! The tools by name, in layers (spec 3): a global layer, those of ancestors, and a scope's own. It may change while a turn
//! runs: every call looks its tool up when it is about to start (spec 1.4).

mod layer;
mod registered;
#[cfg(test)]
mod tests;
mod view;

pub use layer::{Filter, Restriction};
pub use registered::{RUN_CODE, RegisteredTool};
pub use view::{Presentation, View, ViewError};

use crate::Tool;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use layer::Layer;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, Weak};

/// A scope's tools: its own layer over what it inherits. A nearer layer shadows a farther one.
#[derive(Default)]
pub struct Registry {
    parent: Option<Arc<Registry>>,
    layer: RwLock<Layer>,
    shared: Arc<Shared>,
}

/// What all scopes of one tree share.
#[derive(Default)]
struct Shared {
    changes: AtomicU64,
    listeners: Mutex<Vec<Weak<dyn ToolsChanged>>>,
    run_code: RwLock<Option<Arc<RegisteredTool>>>,
}

/// Told whenever a tool, a restriction or a presentation changes in any scope: `tools/change` goes to everyone (spec 3.5).
pub trait ToolsChanged: Send + Sync {
    /// The tools have changed. `generation` counts the changes.
    fn tools_changed(&self, generation: u64);
}

/// How a name is answered to a direct call.
pub enum Lookup {
    /// With this tool.
    Found(Arc<RegisteredTool>),
    /// There is one, but this scope's model may only use it from a program (spec 3.3).
    CodeOnly,
    /// There is none.
    Unknown,
}

/// Why a tool was not registered (spec 3.4).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    /// Another tool has the name.
    #[error(
        "a tool called {0:?} is registered already in this layer: replace it, or remove it first"
    )]
    NameTaken(String),
    /// The name is kept for code mode.
    #[error("the name {0:?} is reserved")]
    NameReserved(String),
    /// The name is none that models can call.
    #[error("{0:?} is no tool name: use 1 to 128 ASCII letters, digits, '_' or '-'")]
    NameInvalid(String),
    /// The schema is not valid.
    #[error("the input schema of {name:?} is not valid: {reason}")]
    SchemaInvalid {
        /// The tool.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The output schema is not valid.
    #[error("the output schema of {name:?} is not valid: {reason}")]
    OutputSchemaInvalid {
        /// The tool.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A time budget of nothing.
    #[error("{0:?} has a timeout of 0: leave it out for no bound, or give it at least 1 ns")]
    TimeoutZero(String),
    /// A call without a time of its own would have more than the most.
    #[error(
        "the default timeout of {0:?} is longer than its longest: lower the one, or raise the other"
    )]
    TimeoutOverMax(String),
    /// Only exclusive calls may change the turn's context (spec 1.20).
    #[error("{0:?} changes the turn's context and runs beside others: make it exclusive")]
    ParallelContextChange(String),
}

/// A restriction names tools that are not there (spec 3.2).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such tools to restrict in what this scope inherits: {}", .0.join(", "))]
pub struct UnknownTools(pub Vec<String>);

impl Registry {
    /// An empty global layer.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty scope below this one.
    pub fn scope(self: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self {
            parent: Some(Arc::clone(self)),
            layer: RwLock::default(),
            shared: Arc::clone(&self.shared),
        })
    }

    /// Adds a tool under a name that is still free in this layer.
    pub fn register(&self, tool: Arc<dyn Tool>) -> Result<(), RegistrationError> {
        let registered = RegisteredTool::new(tool)?;
        let mut layer = self.write();
        if layer.tools.contains_key(registered.name()) {
            return Err(RegistrationError::NameTaken(registered.name().to_owned()));
        }
        layer.tools.insert(registered.name().to_owned(), Arc::new(registered));
        drop(layer);
        self.changed();
        Ok(())
    }

    /// Adds a tool, in place of one of the same name in this layer if there is one.
    pub fn replace(&self, tool: Arc<dyn Tool>) -> Result<(), RegistrationError> {
        let registered = RegisteredTool::new(tool)?;
        let replaced =
            self.write().tools.insert(registered.name().to_owned(), Arc::new(registered));
        // Not under the lock: a tool's end may look at the registry.
        drop(replaced);
        self.changed();
        Ok(())
    }

    /// Removes a tool from this layer; whether there was one. Calls of it that have started run on.
    pub fn remove(&self, name: &str) -> bool {
        let removed = self.write().tools.remove(name);
        let was_there = removed.is_some();
        // As above.
        drop(removed);
        if was_there {
            self.changed();
        }
        was_there
    }

    /// Installs what serves `run_code` in every scope of this tree (spec 3.3): without it no view can be resolved that needs
    /// it.
    pub fn provide_run_code(&self, tool: Arc<dyn Tool>) -> Result<(), RegistrationError> {
        let tool = Arc::new(RegisteredTool::run_code(tool)?);
        *self.shared.run_code.write().unwrap_or_else(PoisonError::into_inner) = Some(tool);
        self.changed();
        Ok(())
    }

    /// The tool of this name: the nearest that no restriction on the way hides.
    pub fn get(&self, name: &str) -> Option<Arc<RegisteredTool>> {
        let layer = self.read();
        if let Some(own) = layer.tools.get(name) {
            return Some(Arc::clone(own));
        }
        // A scope's restrictions filter what it inherits; its own tools are exempt (spec 3.2).
        if !layer.lets_through(name) {
            return None;
        }
        drop(layer);
        self.parent.as_ref()?.get(name)
    }

    /// What a call that the model makes itself is answered with.
    pub fn direct(&self, name: &str) -> Lookup {
        let presentation = self.presentation();
        if name == RUN_CODE {
            let run_code = self.run_code().filter(|_| presentation != Presentation::Native);
            return run_code.map_or(Lookup::Unknown, Lookup::Found);
        }
        match self.get(name) {
            None => Lookup::Unknown,
            Some(_) if presentation == Presentation::Code => Lookup::CodeOnly,
            Some(tool) => Lookup::Found(tool),
        }
    }

    /// All tools of this scope, by name.
    pub fn tools(&self) -> Vec<Arc<RegisteredTool>> {
        self.visible().into_values().collect()
    }

    fn visible(&self) -> BTreeMap<String, Arc<RegisteredTool>> {
        let mut tools = self.parent.as_ref().map(|parent| parent.visible()).unwrap_or_default();
        let layer = self.read();
        tools.retain(|name, _| layer.lets_through(name));
        tools.extend(layer.tools.iter().map(|(name, tool)| (name.clone(), Arc::clone(tool))));
        tools
    }

    /// Filters what this scope inherits, on top of all restrictions that stand already. It may name only tools that the
    /// scope inherits. The handle takes it back.
    pub fn restrict(self: &Arc<Self>, filter: Filter) -> Result<Restriction, UnknownTools> {
        let inherited = self.parent.as_ref().map(|parent| parent.visible()).unwrap_or_default();
        let mut layer = self.write();
        let known = |name: &&String| inherited.contains_key(*name) && layer.lets_through(name);
        let unknown: Vec<_> = filter.names().iter().filter(|name| !known(name)).cloned().collect();
        if !unknown.is_empty() {
            return Err(UnknownTools(unknown));
        }
        let id = layer.restrict(filter);
        drop(layer);
        self.changed();
        Ok(Restriction::new(self, id))
    }

    /// How the model is offered this scope's tools: its own setting, or the nearest ancestor's.
    pub fn presentation(&self) -> Presentation {
        let own = self.read().presentation;
        own.or_else(|| self.parent.as_ref().map(|parent| parent.presentation())).unwrap_or_default()
    }

    /// Sets how the model is offered this scope's tools; `None`: as the scope above.
    pub fn present(&self, presentation: Option<Presentation>) {
        self.write().presentation = presentation;
        self.changed();
    }

    /// What the model of this scope is offered.
    pub fn view(&self) -> Result<View, ViewError> {
        View::resolve(self.presentation(), self.tools(), self.run_code())
    }

    /// Tells `listener` of every change in this whole tree, for as long as it lives.
    pub fn on_change(&self, listener: &Arc<dyn ToolsChanged>) {
        self.listeners().push(Arc::downgrade(listener));
    }

    /// How many changes there have been in this whole tree.
    pub fn generation(&self) -> u64 {
        self.shared.changes.load(Ordering::Acquire)
    }

    fn run_code(&self) -> Option<Arc<RegisteredTool>> {
        self.shared.run_code.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn changed(&self) {
        let generation = self.shared.changes.fetch_add(1, Ordering::AcqRel) + 1;
        let listeners: Vec<_> = {
            let mut listeners = self.listeners();
            listeners.retain(|listener| listener.strong_count() > 0);
            listeners.iter().filter_map(Weak::upgrade).collect()
        };
        // Without the lock: a listener may look at the tools, or change them.
        for listener in listeners {
            listener.tools_changed(generation);
        }
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Weak<dyn ToolsChanged>>> {
        self.shared.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Layer> {
        self.layer.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Layer> {
        self.layer.write().unwrap_or_else(PoisonError::into_inner)
    }
}
