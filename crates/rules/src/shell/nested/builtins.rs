//! Words after which bash itself does something with code, or with what names mean.

use super::settings;
use crate::shell::variables::{Value, assigned, is_harmless, is_name};
use crate::shell::words::scan_arithmetic;
use crate::shell::{Analysis, Word, analyze_into};

/// Words after which bash, not a program, does something with code.
pub(super) const EVALUATORS: &[&str] = &[
    "eval",
    "source",
    ".",
    "trap",
    "alias",
    "enable",
    "hash",
    "bind",
    "complete",
    "compgen",
    "mapfile",
    "readarray",
    "fc",
    "shopt",
    "set",
];

/// Builtins that take the names of variables, and evaluate the subscripts of those.
pub(super) const NAMING: &[&str] = &[
    "let", "declare", "typeset", "local", "export", "readonly", "unset", "read", "printf", "test",
    "[", "getopts", "wait",
];

pub(super) fn evaluator(name: &str, rest: &[Word], depth: usize, analysis: &mut Analysis) {
    match name {
        "eval" => {
            let rest = behind_dashes(rest);
            if rest.iter().all(|word| word.exact) {
                let line = rest.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
                analyze_into(&line, depth + 1, analysis);
            } else {
                analysis.doubts.push("eval runs text that is not known before it runs".into());
            }
        }
        "trap" => trap(rest, depth, analysis),
        "alias" if rest.is_empty() => {}
        // Options that make the shell stricter change nothing of what it runs.
        "set" if settings::set(rest) => {}
        "shopt" if settings::shopt(rest) => {}
        _ => analysis.doubts.push(format!("{name} changes what bash runs")),
    }
}

/// The words behind a `--`.
fn behind_dashes(rest: &[Word]) -> &[Word] {
    match rest.first() {
        Some(word) if word.exact && word.text == "--" => rest.get(1..).unwrap_or_default(),
        _ => rest,
    }
}

fn trap(rest: &[Word], depth: usize, analysis: &mut Analysis) {
    let rest = behind_dashes(rest);
    match rest.first() {
        None => {}
        Some(word) if !word.exact => {
            analysis.doubts.push("trap runs text that is not known before it runs".into());
        }
        Some(word) if matches!(word.text.as_str(), "-l" | "-p" | "-P" | "-" | "") => {}
        Some(word) => analyze_into(&word.text.clone(), depth + 1, analysis),
    }
}

/// Words that name variables: each must be a plain name, since bash evaluates the subscript of any other.
fn names<'a>(
    builtin: &str,
    words: impl IntoIterator<Item = &'a Word>,
    analysis: &mut Analysis,
) -> Vec<String> {
    let mut found = Vec::new();
    for word in words {
        if is_name(word) {
            found.push(word.text.split('[').next().unwrap_or_default().to_owned());
        } else {
            analysis.doubts.push(format!(
                "{builtin} evaluates {:?} as the name of a variable, and may run a command in it",
                word.text
            ));
        }
    }
    found
}

fn assign(name: &str, value: Value, analysis: &mut Analysis) {
    assigned(name, analysis);
    analysis.variables.set(name, value);
}

pub(super) fn naming(name: &str, rest: &[Word], depth: usize, analysis: &mut Analysis) {
    match name {
        "let" => {
            for word in rest {
                if !word.exact {
                    analysis.doubts.push("let evaluates its words, and may run a command".into());
                }
                scan_arithmetic(&word.text, depth, analysis);
            }
        }
        "test" | "[" => test(name, rest, analysis),
        "printf" => printf(rest, analysis),
        "read" => read(rest, analysis),
        "unset" => {
            let (_, operands) = options(name, rest, "fvn", "", analysis);
            names(name, &operands, analysis);
        }
        "wait" => {
            let (values, _) = options(name, rest, "nf", "p", analysis);
            for name in names(name, &values, analysis) {
                analysis.variables.set(&name, Value::Number);
            }
        }
        "getopts" => {
            for name in names(name, rest.iter().skip(1).take(1), analysis) {
                assign(&name, Value::Unknown, analysis);
            }
            analysis.variables.set("OPTARG", Value::Unknown);
        }
        _ => declaration(name, rest, analysis),
    }
}

/// `declare` and its like.
fn declaration(name: &str, rest: &[Word], analysis: &mut Analysis) {
    let is_flag = |word: &&Word| word.exact && word.text.starts_with(['-', '+']);
    let flags: String =
        rest.iter().take_while(is_flag).map(|word| word.text.trim_matches(['-', '+'])).collect();
    // A function that is exported was looked into; a name for a name is not known.
    if flags
        .contains(|flag: char| !"aAfFgilprtuxI".contains(flag) && (flag != 'n' || name != "export"))
    {
        analysis.doubts.push(format!("{name} -{flags} changes what a name means"));
    }
    let exports = (name == "export" && !flags.contains('n')) || flags.contains('x');
    for word in rest.iter().skip_while(is_flag) {
        let variable = word.text.split(['=', '[']).next().unwrap_or_default();
        let variable = variable.strip_suffix('+').unwrap_or(variable);
        let target =
            Word { text: word.text.split('=').next().unwrap_or_default().into(), ..word.clone() };
        let plain = Word { text: target.text.trim_end_matches('+').into(), exact: true, ..target };
        let sets = word.text.contains('=');
        // A value may be unknown where the name before it is not.
        if !is_name(&plain) || (!word.exact && !sets) {
            analysis.doubts.push(format!(
                "{name} evaluates {:?} as the name of a variable, and may run a command in it",
                word.text
            ));
            continue;
        }
        if sets {
            let value = word.text.split_once('=').map_or("", |(_, value)| value);
            analysis.variables.given(variable, value);
            let value = Value::of(&Word { text: value.into(), ..word.clone() });
            // Arrays are written as a text that is parsed once more.
            if value == Value::Unknown && !matches!(name, "export") {
                analysis.doubts.push(format!("{name} evaluates the value of {variable} once more"));
            }
            if exports && !is_harmless(variable) {
                analysis.doubts.push(format!(
                    "{name} sets the variable {variable}, which may change what later commands do"
                ));
            }
            assign(variable, value, analysis);
        }
        if flags.contains('i') {
            analysis.variables.evaluated(variable);
        }
        if exports && !flags.contains('f') {
            analysis.variables.exported(variable);
        }
    }
}

/// The values of options that take one, and the operands. What is not known of the options is a doubt.
fn options(
    builtin: &str,
    rest: &[Word],
    flags: &str,
    values: &str,
    analysis: &mut Analysis,
) -> (Vec<Word>, Vec<Word>) {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        if word.splits || (!word.exact && word.maybe_option) {
            // As the name of a variable it is a doubt of its own.
            break;
        }
        let Some(cluster) = word.text.strip_prefix('-').filter(|cluster| !cluster.is_empty())
        else {
            break;
        };
        at += 1;
        if cluster == "-" {
            break;
        }
        for (place, letter) in cluster.char_indices() {
            if values.contains(letter) {
                let attached = cluster.get(place + letter.len_utf8()..).unwrap_or_default();
                if attached.is_empty() {
                    found.extend(rest.get(at).cloned());
                    at += 1;
                } else {
                    found.push(Word { text: attached.to_owned(), ..word.clone() });
                }
                break;
            }
            if !flags.contains(letter) {
                analysis.doubts.push(format!("{builtin} -{letter} is not looked into"));
            }
        }
    }
    (found, rest.get(at..).unwrap_or_default().to_vec())
}

/// `read` gives what comes in to variables.
fn read(rest: &[Word], analysis: &mut Analysis) {
    // Only one option's value is the name of a variable; the others' are looked over.
    let mut array = Vec::new();
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        let Some(cluster) = word.text.strip_prefix('-').filter(|_| word.exact) else { break };
        at += 1;
        if cluster == "-" {
            break;
        }
        for (place, letter) in cluster.char_indices() {
            if "adinNptu".contains(letter) {
                let attached = cluster.get(place + letter.len_utf8()..).unwrap_or_default();
                let value = if attached.is_empty() {
                    at += 1;
                    rest.get(at - 1).cloned()
                } else {
                    Some(Word::known(attached))
                };
                array.extend(value.filter(|_| letter == 'a'));
                break;
            }
            if !"ers".contains(letter) {
                analysis.doubts.push(format!("read -{letter} is not looked into"));
            }
        }
    }
    let operands = rest.get(at..).unwrap_or_default();
    if operands.is_empty() && array.is_empty() {
        analysis.variables.set("REPLY", Value::Unknown);
    }
    for name in names("read", array.iter().chain(operands), analysis) {
        assign(&name, Value::Unknown, analysis);
    }
}

fn printf(rest: &[Word], analysis: &mut Analysis) {
    let Some(first) = rest.first() else { return };
    if !first.exact && first.maybe_option && (first.splits || first.text.ends_with('…')) {
        analysis.variables.named_by_chance();
    }
    if first.exact && first.text.starts_with("-v") {
        let (target, _) = options("printf", rest, "", "v", analysis);
        for name in names("printf", &target, analysis) {
            assign(&name, Value::Unknown, analysis);
        }
    }
}

/// `-v` and `-R` take a name, and evaluate its subscript.
fn test(name: &str, rest: &[Word], analysis: &mut Analysis) {
    const BETWEEN: &[&str] = &[
        "=", "==", "!=", "<", ">", "=~", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot",
        "-ef",
    ];
    for (at, word) in rest.iter().enumerate() {
        let next = rest.get(at + 1);
        if word.exact && matches!(word.text.as_str(), "-v" | "-R") {
            names(name, next.filter(|next| next.text != "]"), analysis);
        }
        // An operand that may be such an option, and is not surely compared with something.
        let operand_follows = next.is_some_and(|next| {
            !(next.exact
                && (BETWEEN.contains(&next.text.as_str())
                    || matches!(next.text.as_str(), "]" | "-a" | "-o" | ")")))
        });
        let behind_an_operator = at
            .checked_sub(1)
            .and_then(|before| rest.get(before))
            .is_some_and(|before| before.exact && BETWEEN.contains(&before.text.as_str()));
        let by_chance = !word.exact
            && (word.splits || (word.maybe_option && operand_follows && !behind_an_operator));
        if by_chance && word.text.starts_with("$(…)") && word.splits {
            analysis.doubts.push(format!("{name} may find an option in what a command says"));
        } else if by_chance {
            analysis.variables.named_by_chance();
        }
    }
}
