use serde_json::Value;

/// What a tool says of itself without seeing any arguments (spec 1.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// It may destroy what cannot be got back.
    pub destructive: bool,
    /// Whether its calls may run beside others, where it says so.
    pub concurrency_safe: Option<bool>,
    /// It only reads. Counts only when the scope is [`SideEffects::None`].
    pub read_only: bool,
    /// How far its side effects reach.
    pub side_effects: SideEffects,
}

/// How far a tool's side effects reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SideEffects {
    /// Nowhere.
    None,
    /// To files of the workspace.
    Workspace,
    /// Beyond it, or nobody said.
    #[default]
    Unknown,
}

impl Metadata {
    /// A tool that only reads and may run beside others.
    pub const READ_ONLY: Self = Self {
        destructive: false,
        concurrency_safe: Some(true),
        read_only: true,
        side_effects: SideEffects::None,
    };

    /// Whether a call may run beside others: destructive ones never; else what is stated; else those that only read; else those
    /// whose side effects reach nowhere.
    pub fn is_parallel(&self) -> bool {
        if self.destructive {
            return false;
        }
        self.concurrency_safe.unwrap_or(self.side_effects == SideEffects::None)
    }

    /// Whether a call only reads: said so, and believed only with side effects that reach nowhere.
    pub fn is_read_only(&self) -> bool {
        self.read_only && !self.destructive && self.side_effects == SideEffects::None
    }

    /// From the annotations of an MCP tool (Model Context Protocol, `ToolAnnotations`): `readOnlyHint` and
    /// `idempotentHint` make it parallel, `destructiveHint` exclusive, and that one wins.
    pub fn from_mcp_annotations(annotations: &Value) -> Self {
        let hint = |name: &str| annotations.get(name).and_then(Value::as_bool) == Some(true);
        let read_only = hint("readOnlyHint");
        let parallel = read_only || hint("idempotentHint");
        Self {
            destructive: hint("destructiveHint"),
            concurrency_safe: parallel.then_some(true),
            read_only,
            side_effects: if read_only { SideEffects::None } else { SideEffects::Unknown },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // spec 1.3
    #[test]
    fn flags_are_asked_in_their_order_and_read_only_counts_only_without_side_effects() {
        let flags = |destructive, concurrency_safe, read_only, side_effects| {
            let flags = Metadata { destructive, concurrency_safe, read_only, side_effects };
            (flags.is_parallel(), flags.is_read_only())
        };
        use SideEffects::{None as Nowhere, Unknown, Workspace};
        assert_eq!(flags(true, Some(true), true, Nowhere), (false, false));
        assert_eq!(flags(false, Some(false), true, Nowhere), (false, true));
        assert_eq!(flags(false, Some(true), false, Workspace), (true, false));
        assert_eq!(flags(false, None, true, Nowhere), (true, true));
        assert_eq!(flags(false, None, true, Workspace), (false, false));
        assert_eq!(flags(false, None, true, Unknown), (false, false));
        assert_eq!(flags(false, None, false, Nowhere), (true, false));
        assert!(!Metadata::default().is_parallel());
    }

    // spec 1.3
    #[test]
    fn mcp_annotations_map_and_destructive_wins() {
        let parallel = |annotations| Metadata::from_mcp_annotations(&annotations).is_parallel();
        assert!(parallel(json!({"readOnlyHint": true})));
        assert!(parallel(json!({"idempotentHint": true})));
        assert!(!parallel(json!({"readOnlyHint": true, "destructiveHint": true})));
        assert!(!parallel(json!({"readOnlyHint": "yes"})));
        assert!(!parallel(json!({})));
        assert!(!parallel(json!(null)));
    }
}
