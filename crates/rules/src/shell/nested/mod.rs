//! Commands that run other commands: each of those is a command of the line too.

mod builtins;
mod find;
mod runners;
mod settings;
mod shells;
mod wrappers;

use super::{Analysis, DEPTH_MAX, Invocation, Redirect, Word, program_of, system_program};

/// Whether a program runs a command that stands in its words, or a line.
pub(crate) fn unfolds(name: &str) -> bool {
    // `jobs` is a word of many tools, and a command of the shell alone.
    (wrappers::named(name).is_some() && name != "jobs")
        || shells::ALIKE.contains(&name)
        || shells::OTHERS.contains(&name)
        || runners::runs(name)
        || runners::gives_to_a_shell(name)
        || matches!(name, "env" | "find" | "fd" | "fdfind" | "eval" | "source" | "." | "trap")
        || name.starts_with("ld-")
        || name.starts_with("ld.")
}

/// Whether a program is a shell.
pub(crate) fn is_shell(name: &str) -> bool {
    shells::ALIKE.contains(&name) || shells::OTHERS.contains(&name)
}

/// Adds a command to the analysis, with those that it runs.
pub(super) fn invocation(mut found: Invocation, depth: usize, analysis: &mut Analysis) {
    let Some(name_word) = found.words.first() else {
        return;
    };
    if !name_word.exact {
        analysis
            .doubts
            .push(format!("the command {:?} is not known before it runs", name_word.text));
        analysis.commands.push(found);
        return;
    }
    if depth > DEPTH_MAX {
        analysis.doubts.push("commands lie too deep in each other".into());
        analysis.commands.push(found);
        return;
    }
    let path = name_word.text.clone();
    let name = program_of(&path);
    let rest: Vec<Word> = found.words.iter().skip(1).cloned().collect();
    let looked_into = wrappers::named(name).is_some()
        || shells::ALIKE.contains(&name)
        || matches!(name, "env" | "find" | "fd" | "fdfind");
    if looked_into && path.contains('/') && system_program(&path).is_none() {
        // Looked into all the same: under any path it may be the system's own.
        analysis.doubts.push(format!("{path} need not be the {name} that it seems to be"));
    }
    if let Some(wrapper) = wrappers::named(name) {
        return wrappers::wrapped(&wrapper, found, &rest, depth, analysis);
    }
    if shells::ALIKE.contains(&name) {
        return shells::given_a_line(found, &rest, depth, analysis);
    }
    if shells::OTHERS.contains(&name) || runners::gives_to_a_shell(name) {
        analysis.doubts.push(format!("{name} has a syntax of its own, which is not looked into"));
    }
    match name {
        "env" => return wrappers::env(found, &rest, depth, analysis),
        "find" | "fd" | "fdfind" => {
            let inner = find::commands(&rest, analysis);
            analysis.commands.push(found);
            for words in inner {
                invocation(Invocation { words, transparent: false }, depth + 1, analysis);
            }
            return;
        }
        "tee" | "sponge" => {
            for word in rest.iter().filter(|word| !word.text.starts_with('-')) {
                analysis.redirects.push(Redirect { path: word.clone(), writes: true });
            }
        }
        "unset" => {
            analysis.unsets = true;
            builtins::naming(name, &rest, depth, analysis);
        }
        "ssh"
        | "su"
        | "script"
        | "expect"
        | "at"
        | "batch"
        | "crontab"
        | "screen"
        | "tmux"
        | "docker"
        | "podman"
        | "kubectl"
        | "rsh"
        | "mosh"
        | "osascript"
        | "ld.so"
        | "ld-linux-x86-64.so.2"
        | "nerdctl"
        | "buildah"
        | "crictl"
        | "machinectl"
        | "run-parts"
        | "systemd-nspawn" => {
            analysis.doubts.push(format!("{name} runs commands that are not looked into"));
        }
        _ if builtins::EVALUATORS.contains(&name) => {
            builtins::evaluator(name, &rest, depth, analysis)
        }
        _ if builtins::NAMING.contains(&name) => builtins::naming(name, &rest, depth, analysis),
        _ if name.starts_with("ld-") || name.starts_with("ld.") => {
            analysis.doubts.push("the loader runs a program that is not looked into".into());
        }
        _ => {}
    }
    found.transparent = matches!(system_program(&path).unwrap_or(&path), ":" | "true" | "false");
    analysis.commands.push(found);
    runners::commands(name, &rest, depth, analysis);
}
