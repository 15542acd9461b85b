//! Rules and shell lines: a line is allowed when every command in it is, and every file it writes.

use crate::command::Match;
use crate::links::Links;
use crate::rule::{Effect, Pattern, Rule, covers};
use crate::set::{Opinion, RuleScope, Verdict};
use crate::shell::{Analysis, Invocation, Redirect, analyze, hazard, planted_code, unseen_code};
use crate::touch::{About, paths_of, touches};
use std::path::PathBuf;

/// What rules say of a line. `None`: they have no opinion.
pub(crate) fn judge(
    line: &str,
    rules: &[&Rule],
    scope: &RuleScope,
    links: &dyn Links,
) -> Option<Opinion> {
    let concerns = |rule: &&&Rule| covers(&rule.tool, "Bash");
    let analysis = analyze(line);
    let mut maybe = None;
    for rule in rules.iter().filter(|rule| rule.effect == Effect::Deny) {
        match forbids(rule, &analysis, line, (scope, links)) {
            Match::Yes => return Some(Opinion::by(Verdict::Deny, rule, String::new())),
            Match::Maybe if maybe.is_none() => maybe = Some(*rule),
            _ => {}
        }
    }
    for rule in rules.iter().filter(|rule| rule.effect == Effect::Ask) {
        match forbids(rule, &analysis, line, (scope, links)) {
            Match::Yes => return Some(Opinion::by(Verdict::Ask, rule, String::new())),
            Match::Maybe if maybe.is_none() => maybe = Some(*rule),
            _ => {}
        }
    }
    if let Some(rule) = maybe {
        return Some(Opinion::by(
            Verdict::Ask,
            rule,
            "it may be what this rule means; that cannot be told before it runs".into(),
        ));
    }
    if !rules.iter().any(|rule| concerns(&rule)) {
        return None;
    }
    if let Some(doubt) = analysis.doubts.first() {
        return Some(Opinion {
            verdict: Verdict::Ask,
            rule: None,
            reason: format!("what the line runs cannot be told: {doubt}"),
        });
    }
    let allows: Vec<&&Rule> =
        rules.iter().filter(|rule| rule.effect == Effect::Allow).filter(concerns).collect();
    if let Some(reason) = unseen(&analysis, rules, &allows) {
        return Some(Opinion { verdict: Verdict::Ask, rule: None, reason });
    }
    if allows.is_empty() {
        return None;
    }
    let mut by = None;
    for command in analysis.commands.iter().filter(|command| !command.transparent) {
        match allowed(command, &allows) {
            Ok(rule) => by = by.or(Some(rule)),
            Err(reason) => return Some(Opinion { verdict: Verdict::Ask, rule: None, reason }),
        }
    }
    for redirect in analysis.redirects.iter().filter(|redirect| redirect.writes) {
        if !may_write(redirect, &analysis, rules, (scope, links)) {
            let reason = format!("no rule allows writing {:?}", redirect.path.text);
            return Some(Opinion { verdict: Verdict::Ask, rule: None, reason });
        }
    }
    match by {
        Some(rule) => Some(Opinion::by(Verdict::Allow, rule, String::new())),
        None if analysis.commands.is_empty() => Some(Opinion {
            verdict: Verdict::Ask,
            rule: None,
            reason: "the line runs no command that a rule could allow".into(),
        }),
        // Nothing but `true` and its like.
        None => Some(Opinion {
            verdict: Verdict::Allow,
            rule: None,
            reason: "the line runs nothing".into(),
        }),
    }
}

/// Whether every command of a line is certainly meant by one of these rules, and the line does nothing besides.
pub(crate) fn all_meant(line: &str, rules: &[&Rule]) -> bool {
    let rules: Vec<_> = rules.iter().filter(|rule| covers(&rule.tool, "Bash")).collect();
    if rules.iter().any(|rule| matches!(rule.pattern, Pattern::Any)) {
        return true;
    }
    let analysis = analyze(line);
    let meant = |command: &Invocation| {
        rules.iter().any(|rule| match &rule.pattern {
            Pattern::Command(pattern) => pattern.forbids(command) == Match::Yes,
            _ => false,
        })
    };
    analysis.doubts.is_empty()
        && !analysis.redirects.iter().any(|redirect| redirect.writes)
        && !analysis.commands.is_empty()
        && analysis.commands.iter().filter(|command| !command.transparent).all(meant)
}

/// Where some commands must not run, one that runs code out of its own words may run them. Only a rule that names the very option
/// allows it: the one who wrote that knew.
fn unseen(analysis: &Analysis, rules: &[&Rule], allows: &[&&Rule]) -> Option<String> {
    let forbids =
        |rule: &&Rule| rule.effect != Effect::Allow && matches!(rule.pattern, Pattern::Command(_));
    if !rules.iter().any(forbids) {
        return None;
    }
    let in_words = analysis.commands.iter().find_map(|command| {
        let hazard = unseen_code(command)?;
        let named = allows.iter().any(|rule| match &rule.pattern {
            Pattern::Command(pattern) => {
                pattern.allows(command) && pattern.named_words(command) > hazard.at
            }
            _ => false,
        });
        (!named).then(|| {
            format!("a rule forbids some commands, and this may run one: {}", hazard.reason)
        })
    });
    in_words.or_else(|| {
        let planted = planted_code(analysis)?;
        Some(format!("a rule forbids some commands, and this line may run one: {planted}"))
    })
}

fn allowed<'a>(command: &Invocation, rules: &[&&'a Rule]) -> Result<&'a Rule, String> {
    let hazard = hazard(command);
    let mut stopped = None;
    for rule in rules {
        let named = match &rule.pattern {
            Pattern::Any => usize::MAX,
            Pattern::Command(pattern) if pattern.allows(command) => pattern.named_words(command),
            _ => continue,
        };
        match &hazard {
            // The rule names the option itself, or means everything.
            Some(hazard) if hazard.at >= named => stopped = Some(hazard.reason.clone()),
            _ => return Ok(rule),
        }
    }
    Err(stopped.unwrap_or_else(|| format!("no rule allows {:?}", command.text())))
}

fn forbids(
    rule: &Rule,
    analysis: &Analysis,
    line: &str,
    (scope, links): (&RuleScope, &dyn Links),
) -> Match {
    match &rule.pattern {
        Pattern::Any if covers(&rule.tool, "Bash") => Match::Yes,
        Pattern::Command(pattern) => {
            let in_commands = analysis
                .commands
                .iter()
                .map(|command| pattern.forbids(command).max(pattern.may_hide_in(command)))
                .max();
            let found = in_commands.unwrap_or(Match::No);
            // A line that could not be read has no commands to look at, but has its text.
            let whole = Invocation {
                words: line.split_whitespace().map(crate::shell::Word::known).collect(),
                transparent: false,
            };
            found.max(pattern.forbids(&whole))
        }
        // What a file tool must not touch, a command must not either, as far as its words tell.
        Pattern::Path(path) => {
            let reads = covers(&rule.tool, "Read");
            let writes = covers(&rule.tool, "Write") || covers(&rule.tool, "Edit");
            touches(path, analysis, About { reads, writes }, (scope, links))
        }
        _ => Match::No,
    }
}

/// Whether a file that a line writes is allowed wherever the line may stand by then, and where links lead it as well.
fn may_write(
    redirect: &Redirect,
    analysis: &Analysis,
    rules: &[&Rule],
    (scope, links): (&RuleScope, &dyn Links),
) -> bool {
    if !redirect.path.exact {
        return false;
    }
    let text = redirect.path.text.as_str();
    if matches!(text, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty") {
        return true;
    }
    let Some(paths) = paths_of(text, analysis, scope, links) else { return false };
    let allowed = |path: &PathBuf| {
        rules.iter().filter(|rule| rule.effect == Effect::Allow).any(|rule| match &rule.pattern {
            Pattern::Any => covers(&rule.tool, "Write"),
            Pattern::Path(pattern) => covers(&rule.tool, "Write") && pattern.matches(path, scope),
            _ => false,
        })
    };
    paths.iter().all(allowed)
}
