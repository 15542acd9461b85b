use crate::command::Match;
use crate::links::{Links, Unfollowed};
use crate::path::absolute;
use crate::rule::{Effect, Pattern, Rule, covers, host_matches};
use crate::{Example, RuleErrors, bash, file};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Where rules come from. A nearer layer's default counts before a farther one's; a prohibition counts whichever layer it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleLayer {
    /// The administrator's. It can only tighten.
    Managed,
    /// The project's.
    Project,
    /// The user's.
    User,
    /// What is shipped.
    Default,
}

/// What rules say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Verdict {
    Allow,
    Ask,
    Deny,
}

/// What rules say of a call, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// What.
    pub verdict: Verdict,
    /// The rule, with its place; `None` when none decided alone.
    pub rule: Option<String>,
    /// Why, where the rule does not say it.
    pub reason: String,
}

/// What paths in rules and calls start from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleScope {
    /// The workspace, absolute.
    pub workspace: PathBuf,
    /// The home folder, as calls see it.
    pub home: Option<PathBuf>,
}

/// Rules of all layers.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    files: Vec<Loaded>,
}

#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub layer: RuleLayer,
    pub rules: Vec<Rule>,
    /// What happens to a call that no rule is about.
    pub default: Option<DefaultVerdict>,
    pub examples: Vec<Example>,
}

/// `default = …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DefaultVerdict {
    /// No opinion: the policy alone confines the call.
    Confine,
    Ask,
    Deny,
}

impl Opinion {
    pub(crate) fn by(verdict: Verdict, rule: &Rule, reason: String) -> Self {
        let place = format!("{} ({}:{})", rule.text, rule.file.display(), rule.line);
        Self { verdict, rule: Some(place), reason }
    }
}

impl RuleSet {
    /// Adds a file's rules: TOML, or a settings file of an agent host by its ending `.json`. When anything in it is wrong, nothing of it
    /// is added, every fault is named, and what the set had before stays.
    pub fn add_file(&mut self, layer: RuleLayer, path: &Path) -> Result<(), RuleErrors> {
        let loaded = file::load(layer, path)?;
        self.files.push(loaded);
        self.files.sort_by_key(|file| file.layer);
        Ok(())
    }

    /// The same for the `permissions` of an agent host's settings file, whatever its name ends with.
    pub fn add_settings(&mut self, layer: RuleLayer, path: &Path) -> Result<(), RuleErrors> {
        let loaded = file::load_settings(layer, path)?;
        self.files.push(loaded);
        self.files.sort_by_key(|file| file.layer);
        Ok(())
    }

    /// Whether it has nothing to say.
    pub fn is_empty(&self) -> bool {
        self.files.iter().all(|file| file.rules.is_empty() && file.default.is_none())
    }

    /// How many rules it has.
    pub fn len(&self) -> usize {
        self.files.iter().map(|file| file.rules.len()).sum()
    }

    pub(crate) fn all_rules_mut(&mut self) -> impl Iterator<Item = &mut Vec<Rule>> {
        self.files.iter_mut().map(|file| &mut file.rules)
    }

    pub(crate) fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.files.iter().flat_map(|file| &file.rules)
    }

    /// The examples of all files.
    pub fn examples(&self) -> impl Iterator<Item = &Example> {
        self.files.iter().flat_map(|file| &file.examples)
    }

    /// What the rules say of a call with these resolved arguments; `None` when they have no opinion.
    pub fn judge(&self, tool: &str, arguments: &Value, scope: &RuleScope) -> Option<Opinion> {
        self.judge_following(tool, arguments, scope, &Unfollowed)
    }

    /// The same, where the words of a shell line also mean what links lead them to.
    pub fn judge_following(
        &self,
        tool: &str,
        arguments: &Value,
        scope: &RuleScope,
        links: &dyn Links,
    ) -> Option<Opinion> {
        let rules: Vec<&Rule> = self.files.iter().flat_map(|file| &file.rules).collect();
        let opinion = if tool == "Bash" {
            match arguments.get("command").and_then(Value::as_str) {
                Some(line) => bash::judge(line, &rules, scope, links),
                None => None,
            }
        } else {
            judge_other(tool, arguments, &rules, scope)
        };
        let opinion = self.or_default(opinion);
        self.held_by_managed(tool, arguments, scope, opinion)
    }

    /// The managed layer's default is about every call that its own rules are not about, whatever lower layers allow: they can only tighten.
    fn held_by_managed(
        &self,
        tool: &str,
        arguments: &Value,
        scope: &RuleScope,
        opinion: Option<Opinion>,
    ) -> Option<Opinion> {
        let default = self.default_of(|layer| layer == RuleLayer::Managed);
        let (floor, word) = match default {
            Some(DefaultVerdict::Deny) => (Verdict::Deny, "deny"),
            Some(DefaultVerdict::Ask) => (Verdict::Ask, "ask"),
            _ => return opinion,
        };
        if opinion.as_ref().is_some_and(|opinion| opinion.verdict >= floor)
            || self.managed_asks_about_all(tool, arguments, scope)
        {
            return opinion;
        }
        let reason =
            format!("no managed rule is about this call, and the managed default is to {word}");
        Some(Opinion { verdict: floor, rule: None, reason })
    }

    /// Whether every part of a call is meant by a managed rule that asks.
    fn managed_asks_about_all(&self, tool: &str, arguments: &Value, scope: &RuleScope) -> bool {
        let managed = self.files.iter().filter(|file| file.layer == RuleLayer::Managed);
        let asks: Vec<&Rule> = managed
            .flat_map(|file| &file.rules)
            .filter(|rule| rule.effect == Effect::Ask)
            .collect();
        if tool == "Bash" {
            let line = arguments.get("command").and_then(Value::as_str);
            return line.is_some_and(|line| bash::all_meant(line, &asks));
        }
        asks.iter().any(|rule| {
            covers(&rule.tool, tool) && meaning(rule, tool, arguments, scope) == Match::Yes
        })
    }

    /// A default speaks where no rule did, and may be stricter than a question that no rule asked.
    fn or_default(&self, opinion: Option<Opinion>) -> Option<Opinion> {
        let managed = self.default_of(|layer| layer == RuleLayer::Managed);
        let nearest = self.default_of(|layer| layer != RuleLayer::Managed);
        let default = managed.max(nearest);
        match (&opinion, default) {
            (Some(opinion), Some(DefaultVerdict::Deny))
                if opinion.verdict == Verdict::Ask && opinion.rule.is_none() =>
            {
                Some(Opinion {
                    verdict: Verdict::Deny,
                    rule: None,
                    reason: format!("{}, and what no rule is about is denied", opinion.reason),
                })
            }
            (Some(_), _) => opinion,
            (None, None | Some(DefaultVerdict::Confine)) => None,
            (None, Some(DefaultVerdict::Ask)) => Some(Opinion {
                verdict: Verdict::Ask,
                rule: None,
                reason: "no rule is about this call, and the default is to ask".into(),
            }),
            (None, Some(DefaultVerdict::Deny)) => Some(Opinion {
                verdict: Verdict::Deny,
                rule: None,
                reason: "no rule is about this call, and the default is to deny".into(),
            }),
        }
    }

    fn default_of(&self, layers: impl Fn(RuleLayer) -> bool) -> Option<DefaultVerdict> {
        self.files.iter().filter(|file| layers(file.layer)).find_map(|file| file.default)
    }
}

fn judge_other(
    tool: &str,
    arguments: &Value,
    rules: &[&Rule],
    scope: &RuleScope,
) -> Option<Opinion> {
    let about: Vec<(&&Rule, Match)> = rules
        .iter()
        .filter(|rule| covers(&rule.tool, tool))
        .map(|rule| (rule, meaning(rule, tool, arguments, scope)))
        .collect();
    let first = |effect: Effect, least: Match| {
        about
            .iter()
            .find(|(rule, found)| rule.effect == effect && *found >= least)
            .map(|(rule, _)| **rule)
    };
    if let Some(rule) = first(Effect::Deny, Match::Yes) {
        return Some(Opinion::by(Verdict::Deny, rule, String::new()));
    }
    if let Some(rule) = first(Effect::Ask, Match::Yes) {
        return Some(Opinion::by(Verdict::Ask, rule, String::new()));
    }
    if let Some(rule) = first(Effect::Deny, Match::Maybe).or(first(Effect::Ask, Match::Maybe)) {
        return Some(Opinion::by(
            Verdict::Ask,
            rule,
            "the call may come upon what this rule means".into(),
        ));
    }
    if let Some(rule) = first(Effect::Allow, Match::Yes) {
        return Some(Opinion::by(Verdict::Allow, rule, String::new()));
    }
    // Whoever lists what is allowed of a tool wants to be asked about the rest.
    about.iter().any(|(rule, _)| rule.effect == Effect::Allow).then(|| Opinion {
        verdict: Verdict::Ask,
        rule: None,
        reason: format!("no rule allows this call of {tool}"),
    })
}

fn meaning(rule: &Rule, tool: &str, arguments: &Value, scope: &RuleScope) -> Match {
    let yes = |found: bool| if found { Match::Yes } else { Match::No };
    match &rule.pattern {
        Pattern::Any => Match::Yes,
        Pattern::Command(_) => Match::No,
        Pattern::Path(pattern) => {
            // What forbids a folder forbids what is in it; what allows one says nothing of that.
            let is_meant = |path: &Path| match rule.effect {
                Effect::Allow => pattern.matches(path, scope),
                Effect::Ask | Effect::Deny => {
                    path.ancestors().any(|folder| pattern.matches(folder, scope))
                }
            };
            if matches!(tool, "Glob" | "Grep" | "LS") {
                let folder = arguments.get("path").and_then(Value::as_str).unwrap_or(".");
                let folder = absolute(folder, scope);
                return if is_meant(&folder) { Match::Yes } else { pattern.meets(&folder, scope) };
            }
            let path = ["file_path", "notebook_path", "path"]
                .iter()
                .find_map(|key| arguments.get(key)?.as_str());
            // A path that is no text cannot be compared: it is not allowed, and may be forbidden.
            path.map_or(Match::Maybe, |path| yes(is_meant(&absolute(path, scope))))
        }
        Pattern::Host(pattern) => {
            let url = arguments.get("url").and_then(Value::as_str).unwrap_or_default();
            let authority = url
                .split("://")
                .nth(1)
                .unwrap_or_default()
                .split(['/', '?', '#'])
                .next()
                .unwrap_or_default();
            let host = authority
                .rsplit('@')
                .next()
                .unwrap_or_default()
                .split(':')
                .next()
                .unwrap_or_default();
            yes(host_matches(pattern, host))
        }
        Pattern::Unknown => {
            if rule.effect == Effect::Allow {
                Match::No
            } else {
                Match::Yes
            }
        }
    }
}
