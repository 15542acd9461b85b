//! Shells that are given a line.

use super::settings;
use crate::shell::incoming::is_code_incoming;
use crate::shell::{Analysis, Invocation, Word, analyze_into};

/// Shells whose lines mean what bash's do, as far as it matters here.
pub(super) const ALIKE: &[&str] = &["bash", "sh", "dash", "ksh", "ash", "mksh", "rbash"];

/// Shells with a syntax of their own: `=rm` names a program in zsh, brackets run one in fish.
pub(super) const OTHERS: &[&str] =
    &["zsh", "fish", "csh", "tcsh", "yash", "nu", "elvish", "xonsh", "pwsh", "powershell"];

/// Options that change nothing of what a line runs, besides those of `set`. Any other is a doubt.
const LETTERS: &str = "Bhnp";
const LONG: &[&str] = &[
    "--posix",
    "--norc",
    "--noprofile",
    "--verbose",
    "--noediting",
    "--restricted",
    "--debug",
    "--dump-strings",
    "--dump-po-strings",
    "--pretty-print",
];
/// What stands in a shell's words.
struct Given<'a> {
    /// With `-c`: the first operand is a line.
    is_line: bool,
    operands: &'a [Word],
}

/// `bash -c 'line'` runs the line; without `-c` it runs a file, or whatever comes in.
pub(super) fn given_a_line(
    mut found: Invocation,
    rest: &[Word],
    depth: usize,
    analysis: &mut Analysis,
) {
    if let [word] = rest
        && matches!(word.text.as_str(), "--version" | "--help")
    {
        analysis.commands.push(found);
        return;
    }
    let given = options(rest, analysis);
    match given.operands.first() {
        Some(line) if given.is_line && line.exact => {
            analysis.variables.arguments(given.operands.get(1..).unwrap_or_default());
            found.transparent = true;
            analysis.commands.push(found);
            analyze_into(&line.text.clone(), depth + 1, analysis);
            return;
        }
        Some(_) if given.is_line => {
            analysis.doubts.push("the line that the shell runs is not known before it runs".into());
        }
        Some(script) if !script.exact || is_code_incoming(script) => {
            analysis
                .doubts
                .push(format!("the shell runs {:?}, which is no known file", script.text));
        }
        Some(_) => {}
        None => analysis.doubts.push("the shell runs whatever comes in".into()),
    }
    analysis.commands.push(found);
}

/// Reads the options as shells do: all of them first, also behind `-c`, and each `o` in a cluster takes a word behind it.
fn options<'a>(rest: &'a [Word], analysis: &mut Analysis) -> Given<'a> {
    let mut at = 0;
    let mut is_line = false;
    while let Some(word) = rest.get(at) {
        let text = word.text.as_str();
        if !word.exact && word.maybe_option {
            analysis.doubts.push("what the shell runs is not known before it runs".into());
            break;
        }
        if !text.starts_with(['-', '+']) || text == "+" {
            break;
        }
        at += 1;
        if matches!(text, "--" | "-") {
            break;
        }
        if text.starts_with("--") {
            if matches!(text, "--rcfile" | "--init-file") {
                at += 1;
            }
            if !LONG.contains(&text) {
                analysis.doubts.push(format!("the shell's option {text} may make it run more"));
            }
            continue;
        }
        for letter in text.chars().skip(1) {
            match letter {
                'c' => is_line = true,
                'o' | 'O' => {
                    let named = rest.get(at);
                    at += 1;
                    if !named.is_some_and(settings::is_harmless) {
                        analysis
                            .doubts
                            .push(format!("the shell's option {text} may make it run more"));
                    }
                }
                letter if LETTERS.contains(letter) || settings::LETTERS.contains(letter) => {}
                _ => analysis.doubts.push(format!(
                    "the shell's option {text} may make it read start files, or its input"
                )),
            }
        }
        // Not every shell takes it for `-c`.
        if text.starts_with('+') && text.contains('c') {
            analysis.doubts.push(format!("not all shells take {text} for the same"));
        }
    }
    Given { is_line, operands: rest.get(at..).unwrap_or_default() }
}
