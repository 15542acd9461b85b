//! What `find` may hand to another command of the line.

use super::{Looking, joined};
use crate::overlap::{overlap, pieces};
use crate::path::absolute;
use crate::set::RuleScope;
use crate::shell::{Invocation, Word};

impl Looking<'_> {
    /// Whether what `find` comes upon may be what the rule means; `None` where that is not known, or nothing is looked for.
    pub(super) fn found_by_find(&self) -> Option<bool> {
        let rule = self.rule.pieces(self.scope);
        let mut any = None;
        for command in self.analysis.commands.iter().filter(|command| command.name() == "find") {
            for pattern in find_patterns(command)? {
                let hits = self.folders.known.iter().any(|base| {
                    let scope =
                        RuleScope { workspace: base.clone(), home: self.scope.home.clone() };
                    let (root, below) = match pattern.split_once("/**/") {
                        Some((root, below)) => (root, Some(below)),
                        None => (pattern.as_str(), None),
                    };
                    let led = self.links.lead(&joined(root, &scope));
                    let led = led.map(|led| match below {
                        Some(below) => led.join("**").join(below),
                        None => led,
                    });
                    let paths = std::iter::once(absolute(&pattern, &scope)).chain(led);
                    let mut paths = paths.map(|path| path.into_os_string().into_string());
                    paths.any(|path| path.is_ok_and(|path| overlap(&pieces(&path), &rule)))
                });
                any = Some(any.unwrap_or(false) || hits || self.folders.unknown);
            }
        }
        any
    }
}

/// What `find` may come upon: below its folders, by the names that it is told.
fn find_patterns(command: &Invocation) -> Option<Vec<String>> {
    let rest = command.words.get(1..).unwrap_or_default();
    let is = |word: &Word, known: &[&str]| known.contains(&word.text.as_str());
    let roots = rest
        .iter()
        .skip_while(|word| is(word, &["-L", "-P", "-H"]))
        .take_while(|word| !word.text.starts_with(['-', '(', '!']));
    let mut folders = Vec::new();
    for root in roots {
        let known = root.exact || root.text.starts_with('~');
        folders.push(known.then(|| root.text.trim_end_matches('/').to_owned())?);
    }
    if folders.is_empty() {
        folders.push(".".to_owned());
    }
    let mut names = Vec::new();
    for (at, word) in rest.iter().enumerate() {
        let name = || rest.get(at + 1).filter(|name| name.exact).map(|name| name.text.as_str());
        match word.text.as_str() {
            "-name" => names.push(name()?.to_owned()),
            // Letters of either case.
            "-iname" => names
                .push(name()?.chars().map(|c| if c.is_alphabetic() { '?' } else { c }).collect()),
            _ => {}
        }
    }
    let negated = rest.iter().any(|word| is(word, &["!", "-not"]));
    let either = rest.iter().filter(|word| is(word, &["-o", "-or", ","])).count();
    if negated || names.len() <= either {
        names = vec!["**".to_owned()];
    }
    let below =
        |folder: &String| names.iter().map(move |name| format!("{folder}/**/{name}")).collect();
    let mut found: Vec<String> =
        folders.iter().flat_map(|folder| -> Vec<String> { below(folder) }).collect();
    // Its folders, too.
    found.extend(folders);
    Some(found)
}
