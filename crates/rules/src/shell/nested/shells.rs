//! Shells that are given a line.

use crate::shell::{Analysis, Invocation, Word, analyze_into};

/// Shells whose lines mean what bash's do, as far as it matters here.
pub(super) const ALIKE: &[&str] = &["bash", "sh", "dash", "ksh", "ash", "mksh", "rbash"];

/// Shells with a syntax of their own: `=rm` names a program in zsh, brackets run one in fish.
pub(super) const OTHERS: &[&str] =
    &["zsh", "fish", "csh", "tcsh", "yash", "nu", "elvish", "xonsh", "pwsh", "powershell"];

/// `bash -c 'line'` runs the line; without `-c` it runs a file, or whatever comes in.
pub(super) fn given_a_line(
    mut found: Invocation,
    rest: &[Word],
    depth: usize,
    analysis: &mut Analysis,
) {
    let mut at = 0;
    let mut line = None;
    while let Some(word) = rest.get(at) {
        let text = word.text.as_str();
        if !word.exact && word.maybe_option {
            analysis.doubts.push("what the shell runs is not known before it runs".into());
            break;
        }
        if text == "--" || !(text.starts_with('-') || text.starts_with('+')) {
            break;
        }
        if text.starts_with("--") {
            if matches!(text, "--rcfile" | "--init-file") {
                at += 1;
                analysis.doubts.push("the shell reads a start file".into());
            }
        } else {
            if text.contains(['i', 'l', 's']) {
                analysis.doubts.push(format!("the shell reads start files, or its input ({text})"));
            }
            if matches!(text, "-o" | "+o" | "-O" | "+O") {
                at += 1;
            } else if text.contains('c') {
                line = rest.get(at + 1);
                break;
            }
        }
        at += 1;
    }
    match line {
        Some(word) if word.exact => {
            found.transparent = true;
            analysis.commands.push(found);
            analyze_into(&word.text.clone(), depth + 1, analysis);
            return;
        }
        Some(_) => {
            analysis.doubts.push("the line that the shell runs is not known before it runs".into())
        }
        None if rest.iter().all(|word| word.exact && word.text.starts_with('-'))
            && !rest.iter().any(|word| word.text == "--version" || word.text == "--help") =>
        {
            analysis.doubts.push("the shell runs whatever comes in".into());
        }
        None => {}
    }
    analysis.commands.push(found);
}
