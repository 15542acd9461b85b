//! Whether a git settings file is one that `git init`, `git clone` or `git remote add` could have written: an allowlist of
//! settings that make git run nothing (git-config(1)).

const CORE: [&str; 14] = [
    "repositoryformatversion",
    "filemode",
    "bare",
    "logallrefupdates",
    "ignorecase",
    "precomposeunicode",
    "symlinks",
    "autocrlf",
    "eol",
    "abbrev",
    "quotepath",
    "sharedrepository",
    "sparsecheckout",
    "sparsecheckoutcone",
];

/// Whether every line is understood and allowed. `is_worktree` is asked whether a worktree may lie there.
pub fn runs_nothing(text: &[u8], is_worktree: &dyn Fn(&str) -> bool) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let mut section = String::new();
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line.starts_with(';') {
            continue;
        }
        // A section's name, with nothing behind it that git would read as a setting.
        if let Some(name) = line.strip_prefix('[') {
            let Some(name) = name.strip_suffix(']').and_then(section_of) else { return false };
            section = name;
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let key = key.trim().to_ascii_lowercase();
        // Quotes and escapes could spell what the words below do not show; a name may be quoted. A transport such as `ext::sh -c …`
        // is a command.
        let spelled = value.contains('\\') || (value.contains('"') && section != "user");
        if spelled || value.contains("::") || !is_allowed(&section, &key, value.trim(), is_worktree)
        {
            return false;
        }
    }
    true
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

fn is_allowed(section: &str, key: &str, value: &str, is_worktree: &dyn Fn(&str) -> bool) -> bool {
    match section {
        // A submodule's worktree lies above its git folder. Nowhere else: a checkout there would overwrite whatever it finds.
        "core" if key == "worktree" => is_worktree(value),
        "core" => CORE.contains(&key),
        "user" => matches!(key, "name" | "email"),
        "init" => key == "defaultbranch",
        "branch" => matches!(key, "remote" | "merge" | "rebase"),
        "extensions" => matches!(key, "objectformat" | "refstorage" | "partialclone"),
        "remote" => matches!(key, "url" | "fetch" | "tagopt"),
        "submodule" => matches!(key, "url" | "active" | "branch"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "[core]\nfilemode\nworktree = /",
            "[core",
            "\u{feff}[core]\nbare = x",
        ] {
            assert!(!runs_nothing(text.as_bytes(), &|_| false), "{text}");
        }
        assert!(!runs_nothing(b"[core]\n\xff = 1", &|_| false));
    }
}
