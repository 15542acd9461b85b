//! git runs pagers, editors, filters, helpers and remote programs that its options and settings name.

use super::{Hazard, changes, runs};
use crate::shell::Word;

/// Before the subcommand: settings for this one run, which may name programs.
const SETS: &[&str] = &["-c", "--config-env", "--exec-path"];
/// Before the subcommand: another repository, with other settings and hooks.
const ELSEWHERE: &[&str] = &[
    "-C",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "-p",
    "--paginate",
    "--super-prefix",
    "--attr-source",
];
/// Options that name a program.
const RUNS: &[&str] = &[
    "--upload-pack",
    "--receive-pack",
    "--exec",
    "--open-files-in-pager",
    "--extcmd",
    "--index-filter",
    "--tree-filter",
    "--msg-filter",
    "--env-filter",
    "--commit-filter",
    "--parent-filter",
    "--tag-name-filter",
    "--config",
    "--smtp-server",
    "--to-cmd",
    "--cc-cmd",
    "--header-cmd",
    "--sendmail-cmd",
];
/// Options that write a file, or run what settings and files name.
const CHANGES: &[&str] = &[
    "--output",
    "--output-directory",
    "--ext-diff",
    "--textconv",
    "--template",
    "--separate-git-dir",
    "--tool",
    "--gpg-sign",
    "--filter",
    "--run",
    "--edit",
    "--hook-path",
    "--pager",
];
/// Subcommands that run, or configure, other programs.
const PLUMBING: &[&str] = &[
    "filter-branch",
    "config",
    "instaweb",
    "daemon",
    "send-email",
    "credential",
    "shell",
    "upload-pack",
    "receive-pack",
    "hook",
    "maintenance",
    "difftool",
    "mergetool",
    "citool",
    "gui",
];
/// Settings that name no program.
const HARMLESS_KEYS: &[&str] = &[
    "user.name",
    "user.email",
    "init.defaultbranch",
    "pull.rebase",
    "pull.ff",
    "push.default",
    "core.autocrlf",
    "core.quotepath",
    "core.filemode",
    "commit.gpgsign",
    "tag.gpgsign",
    "safe.directory",
    "merge.conflictstyle",
    "fetch.prune",
];

pub(super) fn hazards(rest: &[Word]) -> Vec<Hazard> {
    let mut found = Vec::new();
    let mut before_subcommand = true;
    let mut subcommand = "";
    for (place, word) in rest.iter().enumerate() {
        let text = word.text.as_str();
        let key = text.split('=').next().unwrap_or(text);
        if !word.exact && word.maybe_option {
            found.push(runs(
                place,
                format!("{text:?} may become an option of git that runs something"),
            ));
            continue;
        }
        if before_subcommand {
            let sets = SETS.contains(&key) || (text.starts_with("-c") && !text.starts_with("--"));
            if sets {
                found.push(runs(place, format!("git {text} changes what git runs")));
            } else if ELSEWHERE.contains(&key) {
                found.push(changes(place, format!("git {text} changes what git runs")));
            }
            // The value of `-c` and its like is no subcommand.
            let is_value = place
                .checked_sub(1)
                .and_then(|before| rest.get(before))
                .is_some_and(|before| matches!(before.text.as_str(), "-c" | "-C"));
            if !text.starts_with('-') && !is_value {
                before_subcommand = false;
                subcommand = text;
            }
            continue;
        }
        if text == "--" {
            break;
        }
        found.extend(option(subcommand, place, text, key));
        found.extend(operand(subcommand, place, text));
    }
    found.extend(plumbing(subcommand, rest));
    found
}

fn option(subcommand: &str, place: usize, text: &str, key: &str) -> Option<Hazard> {
    let abbreviated =
        |known: &&str| key.len() > 3 && key.starts_with("--") && known.starts_with(key);
    let reason = || format!("git {subcommand} {text} may write a file, or run something");
    if RUNS.iter().any(abbreviated) {
        return Some(runs(place, reason()));
    }
    if CHANGES.iter().any(abbreviated) {
        return Some(changes(place, reason()));
    }
    let cluster = text.strip_prefix('-').filter(|cluster| !cluster.starts_with('-'))?;
    let (running, changing) = match subcommand {
        "rebase" => ("x", "t"),
        "difftool" => ("x", "t"),
        "mergetool" => ("", "xt"),
        "clone" => ("uc", ""),
        "fetch" | "pull" | "ls-remote" => ("", "u"),
        "grep" => ("O", ""),
        "archive" => ("", "o"),
        "config" => ("", "ef"),
        "format-patch" => ("", "o"),
        _ => ("", ""),
    };
    if cluster.contains(|letter| running.contains(letter)) {
        return Some(runs(place, reason()));
    }
    cluster.contains(|letter| changing.contains(letter)).then(|| changes(place, reason()))
}

fn operand(subcommand: &str, place: usize, text: &str) -> Option<Hazard> {
    if text.contains("ext::") || text.starts_with("fd::") {
        return Some(runs(place, "this address runs a command"));
    }
    let reason = || format!("git {subcommand} {text} changes the repository, or runs something");
    match (subcommand, text) {
        ("bisect" | "bisect--helper", "run" | "--bisect-run")
        | ("submodule" | "submodule--helper", "foreach")
        | ("merge-index", _) => Some(runs(place, reason())),
        ("remote", "add" | "set-url" | "update")
        | (
            "stash",
            "drop" | "clear" | "pop" | "apply" | "push" | "store" | "branch" | "create" | "save",
        )
        | ("reflog", "expire" | "delete")
        | ("worktree", "add")
        | ("lfs" | "svn" | "p4", _) => Some(changes(place, reason())),
        _ => None,
    }
}

fn plumbing(subcommand: &str, rest: &[Word]) -> Option<Hazard> {
    if !PLUMBING.contains(&subcommand) {
        return None;
    }
    let asked = |word: &Word| {
        matches!(
            word.text.as_str(),
            "--get" | "--get-all" | "--list" | "-l" | "--get-regexp" | "get" | "list"
        )
    };
    let place = rest.iter().position(|word| word.text == subcommand).unwrap_or(0);
    let reason = format!("git {subcommand} runs, or configures, other programs");
    if subcommand != "config" {
        return Some(changes(place, reason));
    }
    if rest.iter().any(asked) {
        return None;
    }
    let key = rest
        .iter()
        .skip(place + 1)
        .find(|word| !word.text.starts_with('-') && !matches!(word.text.as_str(), "set" | "unset"));
    let harmless = key.is_none_or(|key| {
        let key_text = key.text.to_ascii_lowercase();
        key.exact
            && (HARMLESS_KEYS.contains(&key_text.as_str())
                || key_text.starts_with("color.")
                || key_text.starts_with("advice."))
    });
    Some(if harmless { changes(place, reason) } else { runs(place, reason) })
}
