use std::collections::HashMap;
use std::sync::Arc;
use stockade_tools::{Lookup, RegisteredTool, Registry};

/// The calls that let others pass while they wait, by the tool that said so. A change of the tools costs one look-up for each name, and
/// not one for each call that waits.
#[derive(Default)]
pub(super) struct Passing {
    /// The tools' generation at the last look.
    generation: u64,
    by_name: HashMap<String, OfTool>,
}

struct OfTool {
    tool: Arc<RegisteredTool>,
    /// Some of them may have started since.
    calls: Vec<u64>,
}

impl Passing {
    /// A call was asked, and lets others pass. That its tool is the one that is known is seen to by [`Passing::changed`].
    pub(super) fn add(&mut self, number: u64, name: &str, lookup: Lookup) {
        let Lookup::Found(tool) = lookup else { return };
        match self.by_name.get_mut(name) {
            Some(known) => known.calls.push(number),
            None => {
                self.by_name.insert(name.to_owned(), OfTool { tool, calls: vec![number] });
            }
        }
    }

    /// The calls whose tool is another one than it was.
    pub(super) fn changed(&mut self, generation: u64, registry: &Registry) -> Vec<u64> {
        if self.generation == generation {
            return Vec::new();
        }
        self.generation = generation;
        let mut changed = Vec::new();
        self.by_name.retain(|name, of| {
            let is_same = matches!(registry.direct(name), Lookup::Found(tool) if Arc::ptr_eq(&tool, &of.tool));
            if !is_same {
                changed.append(&mut of.calls);
            }
            is_same
        });
        changed
    }
}
