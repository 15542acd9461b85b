use super::{Presentation, RegisteredTool, Registry};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

/// One scope's own part of a registry.
#[derive(Default)]
pub(super) struct Layer {
    pub(super) tools: BTreeMap<String, Arc<RegisteredTool>>,
    pub(super) presentation: Option<Presentation>,
    restrictions: Vec<(u64, Filter)>,
    last_restriction: u64,
}

/// Which tools come through (spec 3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// These alone.
    Allow(BTreeSet<String>),
    /// All but these.
    Deny(BTreeSet<String>),
}

impl Filter {
    /// These tools alone.
    pub fn allow<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self::Allow(names.into_iter().map(Into::into).collect())
    }

    /// All tools but these.
    pub fn deny<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self::Deny(names.into_iter().map(Into::into).collect())
    }

    pub(super) fn names(&self) -> &BTreeSet<String> {
        match self {
            Filter::Allow(names) | Filter::Deny(names) => names,
        }
    }

    fn lets_through(&self, name: &str) -> bool {
        match self {
            Filter::Allow(names) => names.contains(name),
            Filter::Deny(names) => !names.contains(name),
        }
    }
}

impl Layer {
    pub(super) fn restrict(&mut self, filter: Filter) -> u64 {
        self.last_restriction += 1;
        self.restrictions.push((self.last_restriction, filter));
        self.last_restriction
    }

    pub(super) fn lets_through(&self, name: &str) -> bool {
        self.restrictions.iter().all(|(_, filter)| filter.lets_through(name))
    }
}

/// A restriction that stands. Dropping the handle leaves it standing.
#[derive(Debug)]
pub struct Restriction {
    scope: Weak<Registry>,
    id: u64,
}

impl Restriction {
    pub(super) fn new(scope: &Arc<Registry>, id: u64) -> Self {
        Self { scope: Arc::downgrade(scope), id }
    }

    /// Takes it back. The scope's other restrictions stand.
    pub fn undo(self) {
        if let Some(scope) = self.scope.upgrade() {
            scope.write().restrictions.retain(|(id, _)| *id != self.id);
            scope.changed();
        }
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.visible().into_keys().collect();
        f.debug_struct("Registry").field("tools", &names).finish_non_exhaustive()
    }
}
