//! Paths that stand for what comes in: a file by its name, and what is in it by the line.

use super::Word;

/// Whether a word may name standard input, or another descriptor, however that is spelled.
pub(super) fn is_incoming(word: &Word) -> bool {
    in_word(&word.text, false)
}

/// The same for a word that names code: nothing in the folders of devices and processes is a file with a name of its own, and a path of
/// which something is not known may lead there.
pub(super) fn is_code_incoming(word: &Word) -> bool {
    in_word(&word.text, true)
}

fn in_word(text: &str, strict: bool) -> bool {
    let may = |path: &str| may_be_incoming(path, strict);
    // `--file=/dev/stdin`, `-f/dev/stdin`.
    may(text)
        || text.split_once('=').is_some_and(|(_, value)| may(value))
        || (text.starts_with('-') && text.find('/').and_then(|at| text.get(at..)).is_some_and(may))
}

fn may_be_incoming(path: &str, strict: bool) -> bool {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let Some((last, before)) = parts.split_last() else { return false };
    let folder = before.last().copied();
    // A relative path counts, too: the folder may have been changed before.
    let named = *last == "stdin"
        || (folder == Some("fd") && last.bytes().all(|byte| byte.is_ascii_digit()))
        || path.starts_with("/dev/fd/");
    let absolute = path.starts_with('/');
    let first = parts.first().copied().unwrap_or_default();
    let device = absolute && matches!(first, "dev" | "proc") && *last != "null";
    let pattern = (absolute && is_pattern(first)) || (folder == Some("dev") && is_pattern(last));
    named || (strict && (device || pattern))
}

fn is_pattern(part: &str) -> bool {
    part.contains(['*', '?', '[', '…'])
}
