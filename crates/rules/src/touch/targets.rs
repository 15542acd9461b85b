//! Folders into which a command writes, where only an option or the environment names them: attached to its letter, among others, by a shortened
//! long name, in a variable. What a rule means may lie in there under a name of the tool's choosing.

use super::{Looking, among};
use crate::command::Match;
use crate::shell::{Analysis, Word, is_compiler};

/// Tools with `-t`, and the letters before it that would take the rest of the cluster as their value.
const INTO: &[(&str, &str)] =
    &[("cp", "S"), ("mv", "S"), ("ln", "S"), ("install", "Sgmo"), ("ginstall", "Sgmo")];

/// Behind one of these an operand is a folder that is made, or filled.
const MAKES: &str = "init new create clone setup install startproject startapp generate venv cp copy sync extract download";

/// The same of git, whose other words may be branches.
const GIT_MAKES: &str = "init clone";

/// Tools that fill a folder, or files that begin with it, without any such word.
const FILLS: &str = "split csplit dpkg exiftool";

/// Options of git that name where it writes.
const GIT_INTO: &str = "-o --output --output-directory --separate-git-dir --git-dir --work-tree";

/// Parts of the names of variables that tell tools where to write.
const VARIABLES: &str = "tmp temp target prefix destdir git_ cache xdg_ gopath gobin cargo install_root userbase home out_";

/// The folder that `-t` or `--target-directory` names, however it is written.
pub(super) fn into(name: &str, rest: &[Word]) -> Option<Word> {
    let (_, valued) = INTO.iter().find(|(known, _)| *known == name)?;
    let options = rest.iter().take_while(|word| word.text != "--");
    options.enumerate().find_map(|(at, word)| {
        let value = option_value(&word.text, 't', valued, "target-directory")?;
        value_of(word, value, rest.get(at + 1))
    })
}

fn value_of(word: &Word, value: &str, next: Option<&Word>) -> Option<Word> {
    if value.is_empty() {
        return next.cloned();
    }
    Some(Word { text: value.to_owned(), maybe_option: false, ..word.clone() })
}

/// What is attached to an option; empty where the next word is its value.
fn option_value<'a>(text: &'a str, letter: char, valued: &str, long: &str) -> Option<&'a str> {
    if let Some(rest) = text.strip_prefix("--") {
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        return (!key.is_empty() && long.starts_with(key)).then_some(value);
    }
    let (before, value) = text.strip_prefix('-')?.split_once(letter)?;
    (!before.contains(|c| valued.contains(c))).then_some(value)
}

/// All that `mktemp` may make.
pub(super) fn made_by_mktemp(looking: &Looking, rest: &[Word]) -> Match {
    let mut folder = None;
    let mut in_folder = false;
    let mut templates = Vec::new();
    let mut words = rest.iter().peekable();
    let mut ended = false;
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        if ended || !text.starts_with('-') {
            templates.push(word.clone());
        } else if text == "--" {
            ended = true;
        } else if let Some(value) = option_value(text, 'p', "", "tmpdir") {
            in_folder = true;
            // The long one takes none but an attached value.
            let next = if text.starts_with("--") { None } else { words.peek().copied() };
            folder = value_of(word, value, next).or(folder);
            if value.is_empty() && !text.starts_with("--") {
                words.next();
            }
        } else {
            in_folder |= !text.starts_with("--") && text.contains('t');
        }
    }
    let mut folders: Vec<Word> = folder.into_iter().collect();
    if folders.is_empty() {
        folders.extend(looking.analysis.held_by("TMPDIR").into_iter().map(Word::known));
    }
    if folders.is_empty() {
        folders.push(Word::known("/tmp"));
    }
    if templates.is_empty() {
        in_folder = true;
        templates.push(Word::known("tmp.XXXXXXXXXX"));
    }
    let mut found = Match::No;
    for template in &templates {
        if !in_folder || template.text.starts_with('/') {
            found = found.max(made(looking, template));
            continue;
        }
        for folder in &folders {
            let text = format!("{}/{}", folder.text.trim_end_matches('/'), template.text);
            let exact = folder.exact && template.exact;
            found = found.max(made(looking, &Word { text, exact, ..template.clone() }));
        }
    }
    found
}

/// Its X become anything.
fn made(looking: &Looking, template: &Word) -> Match {
    let text = template.text.as_str();
    let mut open = text.to_owned();
    while open.contains("XX") {
        open = open.replace("XX", "X");
    }
    let may_be =
        if open == text { Match::No } else { looking.path(&open.replace('X', "*"), false) };
    looking.path(text, template.exact).max(may_be)
}

/// Whether an option of a tool that may write names a folder of which the rule means something.
pub(super) fn named(looking: &Looking, name: &str, rest: &[Word]) -> bool {
    // Where a compiler looks for headers and libraries it only reads.
    let only_read = |text: &str| {
        is_compiler(name)
            && ["-I", "-L", "-l", "-D", "-W", "-i"].iter().any(|start| text.starts_with(start))
    };
    let making = if name == "git" { GIT_MAKES } else { MAKES };
    let makes = among(FILLS, name) || rest.iter().any(|word| among(making, &word.text));
    let mut before = "";
    for word in rest {
        let text = word.text.as_str();
        let is_value = if name == "git" {
            among(GIT_INTO, before)
        } else {
            before.starts_with('-') && !before.contains('=') && !only_read(before)
        };
        before = text;
        let owned = |text: &str| word.exact && looking.owns(text);
        if (is_value || makes) && !text.starts_with('-') && owned(text) {
            return true;
        }
        let assigned = text.split_once('=').is_some_and(|(key, value)| {
            (name != "git" || among(GIT_INTO, key)) && !only_read(text) && owned(value)
        });
        let letters = text.starts_with('-') && !text.starts_with("--") && !only_read(text);
        let mut attached = text.char_indices().skip(2).filter_map(|(at, _)| text.get(at..));
        if assigned || (letters && attached.any(owned)) {
            return true;
        }
        // `git clone u/keep` makes `keep`.
        let last = text.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
        if name == "git" && makes && last != text && owned(last.trim_end_matches(".git")) {
            return true;
        }
    }
    false
}

/// Whether a variable that the line sets tells tools to write where the rule means something.
pub(super) fn in_variables(looking: &Looking, analysis: &Analysis) -> bool {
    analysis.assignments().any(|(name, text)| {
        let name = name.to_ascii_lowercase();
        VARIABLES.split(' ').any(|part| name.contains(part)) && looking.owns(text)
    })
}
