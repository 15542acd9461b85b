//! Whether a git settings file is one that `git init`, `git clone` or `git remote add` could have written: an allowlist of
//! settings that make git run nothing (git-config(1)).

mod command;
mod named;
mod settings;

pub use named::{Named, named};
use std::collections::HashSet;

const CORE: [&str; 27] = [
    "repositoryformatversion",
    "filemode",
    "bare",
    "logallrefupdates",
    "ignorecase",
    "precomposeunicode",
    "protecthfs",
    "protectntfs",
    "symlinks",
    "autocrlf",
    "safecrlf",
    "eol",
    "abbrev",
    "quotepath",
    "whitespace",
    "commentchar",
    "sharedrepository",
    "sparsecheckout",
    "sparsecheckoutcone",
    "untrackedcache",
    "preloadindex",
    "fscache",
    "longpaths",
    "compression",
    "commitgraph",
    "multipackindex",
    "splitindex",
];

/// Whether every line is understood and allowed, but for those that stood in the same section of a file of before: what they make git
/// run is nothing new. A line that goes on in the next one is none of them. `is_worktree` is asked whether a worktree may lie there.
pub fn runs_nothing_new(text: &[u8], before: &[u8], is_worktree: &dyn Fn(&str) -> bool) -> bool {
    let (Ok(text), Ok(before)) = (std::str::from_utf8(text), std::str::from_utf8(before)) else {
        return false;
    };
    let mut goes_on = false;
    let is_whole = |(_, line): &(&str, &str)| {
        let was_begun = std::mem::replace(&mut goes_on, line.ends_with('\\'));
        !was_begun && !goes_on
    };
    let before: HashSet<(&str, &str)> = lines(before).filter(is_whole).collect();
    let mut section = String::new();
    for (header, line) in lines(text) {
        if line.is_empty() || line.starts_with('#') || line.starts_with(';') {
            continue;
        }
        if !line.starts_with('[') && before.contains(&(header, line)) {
            continue;
        }
        // A section's name, with nothing behind it that git would read as a setting.
        if let Some(name) = line.strip_prefix('[') {
            let Some(name) = name.strip_suffix(']').and_then(section_of) else { return false };
            section = name;
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "true"));
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        // Quotes and escapes could spell what the words below do not show; a name may be quoted. A transport such as `ext::sh -c …`
        // is a command.
        let spelled = value.contains('\\') || (value.contains('"') && section != "user");
        let is_allowed = is_harmless(&section, &key, value)
            // A submodule's worktree lies above its git folder. Nowhere else: a checkout there would overwrite whatever it finds.
            || (section == "core" && key == "worktree" && is_worktree(value));
        if spelled || value.contains("::") || !is_allowed {
            return false;
        }
    }
    true
}

/// Each line, with the last line before it that begins a section.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().map(str::trim).scan("", |header, line| {
        if line.starts_with('[') {
            *header = line;
        }
        Some((*header, line))
    })
}

/// The section in `section` or `section "subsection"`; `None` for anything else, such as `core] fsmonitor = evil`, in which git
/// would see a setting.
fn section_of(name: &str) -> Option<String> {
    let (section, subsection) = match name.split_once(' ') {
        None => (name, ""),
        Some((section, quoted)) => {
            (section, quoted.trim_start().strip_prefix('"')?.strip_suffix('"')?)
        }
    };
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let sound = section.chars().all(is_word) && !subsection.contains(['"', '\\', ']']);
    sound.then(|| section.to_ascii_lowercase())
}

/// Whether a value is one that switches something on or off, to every version of git.
fn is_switch(value: &str) -> bool {
    matches!(value, "true" | "false")
}

/// Whether a value is a word or a number: it names no program, since none of these settings takes one.
fn is_word(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+%".contains(c))
}

/// Whether the setting makes git run nothing and obey nothing else. Section and key in lower case.
fn is_harmless(section: &str, key: &str, value: &str) -> bool {
    match section {
        // Anything else is the path of a program.
        "core" if key == "fsmonitor" => is_switch(value),
        "core" => CORE.contains(&key),
        "user" => matches!(key, "name" | "email" | "useconfigonly" | "signingkey"),
        "author" | "committer" => matches!(key, "name" | "email"),
        "init" => key == "defaultbranch",
        "branch" => {
            matches!(key, "remote" | "pushremote" | "merge" | "rebase" | "description")
                || (matches!(key, "autosetuprebase" | "autosetupmerge" | "sort") && is_word(value))
                || key.starts_with("vscode-")
        }
        "extensions" => {
            matches!(
                key,
                "objectformat" | "refstorage" | "partialclone" | "preciousobjects" | "noop"
            ) || (key == "relativeworktrees" && is_switch(value))
        }
        "remote" => {
            matches!(
                key,
                "url"
                    | "pushurl"
                    | "fetch"
                    | "push"
                    | "tagopt"
                    | "mirror"
                    | "prune"
                    | "prunetags"
                    | "promisor"
                    | "partialclonefilter"
                    | "skipdefaultupdate"
                    | "skipfetchall"
                    | "followremotehead"
                    | "gh-resolved"
            ) || (key == "pushdefault" && is_word(value))
        }
        "submodule" => {
            matches!(
                key,
                "url" | "active" | "branch" | "recurse" | "fetchjobs" | "propagatebranches"
            ) || (key == "update" && matches!(value, "checkout" | "rebase" | "merge" | "none"))
                || (key == "ignore" && is_word(value))
        }
        "receive" => {
            matches!(
                key,
                "denynonfastforwards" | "denydeletes" | "denycurrentbranch" | "fsckobjects"
            ) && is_word(value)
        }
        "index" => matches!(key, "sparse" | "version" | "threads" | "skiphash") && is_word(value),
        // Of these, no key but those that name a program or a file is left out.
        "commit" | "tag" => {
            matches!(
                key,
                "gpgsign" | "verbose" | "status" | "cleanup" | "sort" | "forcesignannotated"
            ) && is_word(value)
        }
        "pull" => matches!(key, "rebase" | "ff" | "octopus") && is_word(value),
        "push" => {
            matches!(
                key,
                "default"
                    | "autosetupremote"
                    | "followtags"
                    | "gpgsign"
                    | "recursesubmodules"
                    | "useforceifincludes"
                    | "usebitmaps"
                    | "negotiate"
            ) && is_word(value)
        }
        "fetch" => {
            matches!(
                key,
                "prune"
                    | "prunetags"
                    | "all"
                    | "parallel"
                    | "output"
                    | "writecommitgraph"
                    | "recursesubmodules"
                    | "fsckobjects"
                    | "unpacklimit"
                    | "showforcedupdates"
            ) && is_word(value)
        }
        "merge" => {
            matches!(
                key,
                "ff" | "conflictstyle"
                    | "renames"
                    | "renamelimit"
                    | "directoryrenames"
                    | "stat"
                    | "log"
                    | "autostash"
                    | "branchdesc"
                    | "verbosity"
            ) && is_word(value)
        }
        "diff" => {
            matches!(
                key,
                "renames"
                    | "renamelimit"
                    | "algorithm"
                    | "context"
                    | "interhunkcontext"
                    | "mnemonicprefix"
                    | "noprefix"
                    | "colormoved"
                    | "colormovedws"
                    | "submodule"
                    | "ignoresubmodules"
                    | "indentheuristic"
                    | "suppressblankempty"
                    | "wserrorhighlight"
                    | "relative"
                    | "statgraphwidth"
            ) && is_word(value)
        }
        "rebase" => {
            matches!(
                key,
                "autosquash" | "autostash" | "stat" | "updaterefs" | "missingcommitscheck"
            ) && is_word(value)
        }
        "rerere" => matches!(key, "enabled" | "autoupdate") && is_word(value),
        "color" | "column" | "advice" | "feature" | "gc" | "maintenance" | "pack" | "status"
        | "log" | "stash" | "transfer" | "help" => is_word(value) && !is_program_or_file(key),
        _ => false,
    }
}

/// Keys of otherwise plain sections that are none: `log.mailmap` and `gc.recentObjectsHook`, for one, name a file or run something.
fn is_program_or_file(key: &str) -> bool {
    ["hook", "command", "cmd", "path", "file", "program", "helper", "browser"]
        .iter()
        .any(|part| key.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs_nothing(text: &[u8], is_worktree: &dyn Fn(&str) -> bool) -> bool {
        runs_nothing_new(text, b"", is_worktree)
    }

    #[test]
    fn what_git_init_and_git_clone_write_runs_nothing() {
        // spec 5.4
        let text = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\
            [remote \"origin\"]\n\turl = https://example.com/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
            [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[user]\n\tname = A [b]\n";
        assert!(runs_nothing(text.as_bytes(), &|_| false));
        assert!(runs_nothing(b"", &|_| false));
        let module = b"[core]\nworktree = ../../../lib/sub\n[submodule \"sub\"]\nactive = true\nurl = /a/b\n";
        assert!(runs_nothing(module, &|path| path == "../../../lib/sub"));
        assert!(!runs_nothing(module, &|_| false));
    }

    #[test]
    fn what_tools_and_people_set_that_runs_nothing_stays() {
        // spec 5.4
        for text in [
            "[remote \"o\"]\nurl = /a/b\nfetch = +refs/*:refs/*\nmirror = true\npromisor = true\npartialclonefilter = blob:none\n",
            "[core]\nsharedrepository = 1\nfsmonitor = true\n[receive]\ndenyNonFastforwards = true\n",
            "[core]\nsparseCheckout = true\n[index]\nsparse = true\n[commit]\ngpgsign = false\n",
            "[pull]\nrebase = true\n[diff]\nrenames = copies\n[push]\ndefault = simple\nautoSetupRemote = true\n",
            "[user]\nname = \"A B\"\nemail = a@b\n[color]\nui = auto\n[gc]\nauto = 0\n[rerere]\nenabled\n",
        ] {
            assert!(runs_nothing(text.as_bytes(), &|_| false), "{text}");
        }
    }

    #[test]
    fn what_ran_before_is_nothing_new_in_its_own_section_and_as_a_whole_line() {
        // spec 5.4
        let before = "[alias]\n\tst = \"!status\"\n[filter \"lfs\"]\nclean = git-lfs clean -- %f\n[core]\na = b \\\n";
        let new = |text: &str| runs_nothing_new(text.as_bytes(), before.as_bytes(), &|_| false);
        assert!(new(
            "[user]\nname = x\n[alias]\nst = \"!status\"\n[filter \"lfs\"]\nclean = git-lfs clean -- %f\n"
        ));
        assert!(!new("[filter \"x\"]\nclean = git-lfs clean -- %f\n"));
        assert!(!new("[alias]\nst = \"!status\" \n x = !evil\n"));
        assert!(!new("[core]\na = b \\\n evil\n"));
        assert!(!new("[alias] x = !evil\nst = \"!status\"\n"));
    }

    #[test]
    fn what_makes_git_run_something_is_found() {
        for text in [
            "[core]\nfsmonitor = ./evil",
            "[core] fsmonitor = ./evil",
            "[core] fsmonitor = ./evil]",
            "[core]fsmonitor=./evil]",
            "[remote \"a\"] uploadpack = \"evil\"]",
            "[CORE]\nhooksPath=evil",
            "[core]\nsshCommand = evil",
            "[alias]\nst = !evil",
            "[filter \"x\"]\nclean = evil",
            "[include]\npath = evil",
            "[remote \"o\"]\nurl = ext::sh -c evil",
            "[core]\nbare = false \\\n[alias]\n",
            "[remote \"o\"]\nurl = ext:\"\":sh -c evil",
            "[diff \"x\"]\ntextconv = evil",
            "[branch \"x\"]\nremote = ext::sh -c evil",
            "[submodule \"x\"]\nupdate = !evil",
            "[extensions]\nworktreeConfig = true",
            "[core]\nfsmonitor = fsm",
            "[core]\nattributesFile = x",
            "[core]\npager = less",
            "[gc]\nrecentObjectsHook = evil",
            "[push]\ndefault = ./evil",
            "[diff]\nexternal = evil",
            "[diff \"x\"]\ncommand = evil",
            "[merge \"x\"]\ndriver = evil",
            "[remote \"x\"]\nvcs = evil",
            "[remote \"x\"]\nreceivepack = evil",
            "[gpg]\nprogram = evil",
            "[help]\nbrowser = evil",
            "[user]\nname = x\n[pager]\nlog = evil",
            "[core]\nfilemode\nworktree = /",
            "[core",
            "\u{feff}[core]\nbare = x",
        ] {
            assert!(!runs_nothing(text.as_bytes(), &|_| false), "{text}");
        }
        assert!(!runs_nothing(b"[core]\n\xff = 1", &|_| false));
    }
}
