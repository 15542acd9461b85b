//! `find -exec` and its like.

use crate::shell::{Analysis, Word};

/// The commands behind `-exec` and its like.
pub(super) fn commands(rest: &[Word], analysis: &mut Analysis) -> Vec<Vec<Word>> {
    let mut commands = Vec::new();
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        at += 1;
        // What comes from xargs, and what a command of the line says, may hold an `-exec`.
        if word.splits && (word.text == "…" || word.text.contains("$(…)")) {
            analysis.doubts.push("what find is given may make it run a command".into());
        } else if word.splits {
            analysis.variables.named_by_chance();
        }
        if !matches!(
            word.text.as_str(),
            "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch"
        ) {
            continue;
        }
        let mut inner = Vec::new();
        while let Some(word) = rest.get(at) {
            at += 1;
            if word.text == ";"
                || (word.text == "+"
                    && inner.last().is_some_and(|last: &Word| last.text.contains('…')))
            {
                break;
            }
            let mut word = word.clone();
            if word.text.contains('{') {
                word.text = word.text.replace("{}", "…");
                word.exact = false;
                // A path that find found begins with where it began, which is no option.
                word.maybe_option = false;
            }
            inner.push(word);
        }
        if inner.is_empty() {
            analysis.doubts.push("find runs a command that is not known".into());
        } else {
            commands.push(inner);
        }
    }
    commands
}
