//! Words after which bash itself does something with code, or with what names mean.

use crate::shell::walk::{assigned, is_harmless};
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

/// Builtins that evaluate the subscript of a name they are given, and with it the commands in there.
pub(super) const SUBSCRIPTS: &[&str] = &[
    "let", "declare", "typeset", "local", "export", "readonly", "unset", "read", "printf", "test",
    "[", "getopts", "wait",
];

pub(super) fn evaluator(name: &str, rest: &[Word], depth: usize, analysis: &mut Analysis) {
    match name {
        "eval" => {
            if rest.iter().all(|word| word.exact) {
                let line = rest.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
                analyze_into(&line, depth + 1, analysis);
            } else {
                analysis.doubts.push("eval runs text that is not known before it runs".into());
            }
        }
        "trap" => match rest.first() {
            Some(word) if word.exact && !matches!(word.text.as_str(), "-" | "" | "-l" | "-p") => {
                analyze_into(&word.text.clone(), depth + 1, analysis);
            }
            Some(word) if !word.exact => {
                analysis.doubts.push("trap runs text that is not known before it runs".into())
            }
            _ => {}
        },
        "alias" if rest.is_empty() => {}
        // Options that make the shell stricter change nothing of what it runs.
        "set"
            if rest.iter().all(|word| {
                word.exact
                    && matches!(
                        word.text.as_str(),
                        "-e" | "-u"
                            | "-x"
                            | "-eu"
                            | "-ex"
                            | "-eux"
                            | "-euo"
                            | "-euxo"
                            | "-o"
                            | "+e"
                            | "+u"
                            | "+x"
                            | "pipefail"
                    )
            }) => {}
        "shopt"
            if rest.iter().all(|word| {
                word.exact
                    && matches!(
                        word.text.as_str(),
                        "-s" | "-u"
                            | "nullglob"
                            | "globstar"
                            | "dotglob"
                            | "failglob"
                            | "nocaseglob"
                            | "inherit_errexit"
                    )
            }) => {}
        _ => analysis.doubts.push(format!("{name} changes what bash runs")),
    }
}

pub(super) fn subscripts(name: &str, rest: &[Word], analysis: &mut Analysis) {
    let suspicious = |word: &Word| {
        word.text.contains('[') && (word.text.contains("$(") || word.text.contains('`'))
    };
    if rest.iter().any(suspicious) || (name == "let" && rest.iter().any(|word| !word.exact)) {
        analysis.doubts.push(format!("{name} evaluates its words, and may run a command"));
    }
    // They assign what comes in.
    if matches!(name, "read" | "getopts")
        || (name == "wait" && rest.iter().any(|word| word.text.starts_with("-p")))
    {
        for word in rest {
            if word.exact {
                assigned(&word.text, analysis);
                analysis.texts.insert(word.text.clone());
            } else {
                analysis.doubts.push(format!("{name} assigns a variable that is not known"));
            }
        }
    }
    if name == "printf"
        && let Some(at) = rest.iter().position(|word| word.text.starts_with("-v"))
    {
        let word = rest
            .get(at)
            .map(|word| word.text.trim_start_matches("-v"))
            .filter(|name| !name.is_empty());
        let name = word.or(rest.get(at + 1).map(|word| word.text.as_str())).unwrap_or_default();
        assigned(name, analysis);
        analysis.texts.insert(name.to_owned());
    }
    if name == "let" {
        for word in rest {
            scan_arithmetic(&word.text, 0, analysis);
        }
    }
    let exports = matches!(name, "declare" | "typeset" | "export" | "readonly" | "local");
    if exports {
        for word in rest {
            let variable = word.text.split('=').next().unwrap_or_default();
            let sets =
                word.text.contains('=') && !variable.starts_with('-') && !is_harmless(variable);
            if sets || (!word.exact && !is_harmless(variable)) {
                analysis.doubts.push(format!(
                    "{name} sets the variable {variable}, which may change what later commands do"
                ));
            }
        }
    }
}
