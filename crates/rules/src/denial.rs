//! What rules forbid of the file system, for whoever can have the kernel forbid it too: a shell line has more ways to a file than its text
//! tells.

use crate::path::PathRule;
use crate::rule::{Effect, Pattern, Rule, covers};
use crate::set::{RuleScope, RuleSet};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A rule that denies what it means of the file system.
#[derive(Clone, Debug)]
pub struct PathDenial {
    /// The rule, with its place.
    pub rule: String,
    /// What it means must not be read.
    pub read: bool,
    /// What it means must not be changed.
    pub write: bool,
    pattern: PathRule,
    scope: RuleScope,
}

impl PathDenial {
    /// The folder from which what is meant can be looked for: absolute, without a wildcard in it. The path itself, if it is one. `None`: it lies
    /// in a home folder that there is not.
    pub fn start(&self) -> Option<PathBuf> {
        self.pattern.start(&self.scope)
    }

    /// How many folders below its start what is meant lies, at most; `None`: at any depth.
    pub fn depth(&self) -> Option<usize> {
        self.pattern.depth()
    }

    /// The same where links lead its start there; `None`: that path is no text.
    pub fn led_to(&self, start: &Path) -> Option<PathDenial> {
        Some(Self { pattern: self.pattern.moved_to(start)?, ..self.clone() })
    }

    /// Whether a path is meant.
    pub fn matches(&self, path: &Path) -> bool {
        self.pattern.matches(path, &self.scope)
    }

    /// Whether whatever lies in a folder is meant, at any depth, whether it exists or not.
    pub fn means_all_in(&self, folder: &Path) -> bool {
        self.pattern.means_all_in(folder, &self.scope)
    }
}

impl RuleSet {
    /// The rules of all layers that deny paths to the tools that read or change files. `deny = ["Read"]` names no path, and is not one.
    pub fn path_denials(&self, scope: &RuleScope) -> Vec<PathDenial> {
        let denials = self.rules().filter(|rule| rule.effect == Effect::Deny);
        denials
            .filter_map(|rule| {
                let Pattern::Path(pattern) = &rule.pattern else { return None };
                let read = covers(&rule.tool, "Read");
                let write = covers(&rule.tool, "Write") || covers(&rule.tool, "Edit");
                (read || write).then(|| PathDenial {
                    rule: format!("{} ({}:{})", rule.text, rule.file.display(), rule.line),
                    read,
                    write,
                    pattern: pattern.clone(),
                    scope: scope.clone(),
                })
            })
            .collect()
    }

    /// The folders, or paths, from which what the rules deny or ask about is looked for.
    pub fn starts(&self, scope: &RuleScope) -> BTreeSet<PathBuf> {
        let strict = self.rules().filter(|rule| rule.effect != Effect::Allow);
        strict
            .filter_map(|rule| match &rule.pattern {
                Pattern::Path(pattern) => pattern.start(scope),
                _ => None,
            })
            .collect()
    }

    /// The same rules, which also deny and ask about what their patterns mean where links lead these starts. What they allow stays as it is
    /// written: whoever can change a link would widen it.
    pub fn led(&self, scope: &RuleScope, leads: &BTreeMap<PathBuf, BTreeSet<PathBuf>>) -> RuleSet {
        let mut set = self.clone();
        for rules in set.all_rules_mut() {
            let led: Vec<Rule> = rules
                .iter()
                .filter(|rule| rule.effect != Effect::Allow)
                .filter_map(|rule| match &rule.pattern {
                    Pattern::Path(pattern) => {
                        Some((rule, pattern, leads.get(&pattern.start(scope)?)?))
                    }
                    _ => None,
                })
                .flat_map(|(rule, pattern, leads)| {
                    leads.iter().filter_map(|lead| {
                        let pattern = Pattern::Path(pattern.moved_to(lead)?);
                        Some(Rule { pattern, ..rule.clone() })
                    })
                })
                .collect();
            rules.extend(led);
        }
        set
    }
}
