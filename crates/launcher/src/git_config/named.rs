//! What a repository's own settings make git run or obey, as far as it lies in the workspace (spec 5.4). Settings of the host may well
//! name a hook folder or a program of the repository: a command that can write it would run outside.

use super::command::of_command;
use super::is_harmless;
use super::settings::{Setting, settings};

/// A path that settings name, relative to the worktree unless it is absolute.
#[derive(Debug, PartialEq, Eq)]
pub enum Named {
    /// A program or a folder that git runs or obeys, whether or not it exists.
    Path(Vec<u8>),
    /// A word of a command: a program or its code, if there is such a file.
    Word(Vec<u8>),
    /// What an interpreter reads as its code, if there is such a file.
    Code(Vec<u8>),
    /// More settings. Relative to the folder of the file that names them.
    Settings(Vec<u8>),
}

/// What the text of a settings file names.
pub fn named(text: &[u8]) -> Vec<Named> {
    let mut all = Vec::new();
    for setting in settings(text) {
        of_setting(&setting, &mut all);
    }
    all
}

/// Settings that name a file which nothing runs, and which a job may well change.
const READ_ONLY_BY_GIT: [(&str, &str); 9] = [
    ("blame", "ignorerevsfile"),
    ("commit", "template"),
    ("core", "attributesfile"),
    ("core", "excludesfile"),
    ("core", "worktree"),
    ("mailmap", "file"),
    ("remote", "url"),
    ("remote", "pushurl"),
    ("submodule", "url"),
];

fn of_setting(setting: &Setting, all: &mut Vec<Named>) {
    let (section, key) = (setting.section.as_str(), setting.key.as_str());
    let is_plain = |value: &str| is_harmless(section, key, value);
    if READ_ONLY_BY_GIT.contains(&(section, key))
        || std::str::from_utf8(&setting.value).is_ok_and(is_plain)
    {
        return;
    }
    match (section, key) {
        ("include" | "includeif", "path") => all.push(Named::Settings(setting.value.clone())),
        ("core", "hookspath") => {
            // husky's `_` has nothing in it but callers of the hooks in the folder above.
            let value = setting.value.strip_suffix(b"/").unwrap_or(&setting.value);
            let folder = value.strip_suffix(b"/_").unwrap_or(value);
            all.push(Named::Path(folder.to_vec()));
        }
        ("init", "templatedir") => all.push(Named::Path(setting.value.clone())),
        // Without it, it is a command of git's own.
        ("alias", _) if !setting.value.starts_with(b"!") => {}
        _ => of_command(&setting.value, all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // spec 5.4
    fn hooks_programs_their_code_and_more_settings_are_named_and_harmless_things_are_not() {
        let text = b"[core]\nbare = false\nhooksPath = .husky/_\nfsmonitor = true\nexcludesFile = x/y\n[filter \"x\"]\nclean = 'tools/x' -f %f\n\
            [alias]\nst = status src/lib.rs\nr = \"!sh tools/r.sh; true\"\n[include]\npath = ../c\n[user]\nname = a/b\n";
        let path = |text: &str| Named::Path(text.into());
        let word = |text: &str| Named::Word(text.into());
        assert_eq!(
            named(text),
            [
                path(".husky"),
                path("tools/x"),
                word("tools/x"),
                word("-f"),
                word("%f"),
                word("sh"),
                Named::Code("tools/r.sh".into()),
                word("true"),
                Named::Settings("../c".into()),
            ]
        );
    }
}
