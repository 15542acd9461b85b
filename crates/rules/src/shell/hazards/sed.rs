//! A sed program may write (`w`) and run (`e`).

use super::{Hazard, changes, runs};
use crate::shell::Word;

pub(super) fn hazard(rest: &[Word]) -> Option<Hazard> {
    // An option that is not known may take the word after it, and what is taken for the program is none.
    if let Some(place) = rest.iter().position(|word| !is_understood(&word.text)) {
        return Some(runs(place, "this option of sed is not looked into"));
    }
    let mut scripts = Vec::new();
    let mut place = 0;
    while let Some(word) = rest.get(place) {
        let text = word.text.as_str();
        if text == "-e" || text == "--expression" {
            place += 1;
            if let Some(script) = rest.get(place) {
                scripts.push((place, script.text.clone(), script.exact));
            }
        } else if let Some(script) =
            text.split_once('=').filter(|(key, _)| is_expression(key)).map(|(_, script)| script)
        {
            scripts.push((place, script.to_owned(), word.exact));
        } else if (text.starts_with('-') && text.contains('e') && !text.starts_with("--"))
            || is_expression(text)
        {
            scripts.push((place, text.to_owned(), false));
        }
        place += 1;
    }
    if scripts.is_empty()
        && let Some((place, word)) =
            rest.iter().enumerate().find(|(_, word)| !word.text.starts_with('-'))
    {
        scripts.push((place, word.text.clone(), word.exact));
    }
    let mut doubtful: Vec<_> =
        scripts.into_iter().filter(|(_, script, exact)| !exact || !is_plain(script)).collect();
    // Those that may run something first. Without the letter there is no such command.
    doubtful.sort_by_key(|(_, script, exact)| *exact && !script.contains('e'));
    let (place, script, exact) = doubtful.into_iter().next()?;
    let reason =
        "a sed program may write files and run commands; this one is not plain enough to tell";
    let may_run = !exact || script.contains('e');
    Some(if may_run { runs(place, reason) } else { changes(place, reason) })
}

fn is_understood(text: &str) -> bool {
    const LONG: &[&str] = &[
        "quiet",
        "silent",
        "regexp-extended",
        "expression",
        "file",
        "in-place",
        "posix",
        "separate",
        "unbuffered",
        "null-data",
        "debug",
        "sandbox",
        "follow-symlinks",
        "help",
        "version",
        "",
    ];
    if let Some(long) = text.strip_prefix("--") {
        let key = long.split('=').next().unwrap_or(long);
        return LONG.iter().any(|known| known.starts_with(key));
    }
    let Some(cluster) = text.strip_prefix('-') else { return true };
    // `-i.bak`, `-e…` and `-f…` take the rest of their word.
    let flags = cluster.split(['i', 'e', 'f']).next().unwrap_or_default();
    flags.chars().all(|letter| "nrEsuzb".contains(letter))
}

/// `--expression`, or so much of it that nothing else can be meant.
fn is_expression(text: &str) -> bool {
    text.len() > 2 && text.starts_with("--e") && "--expression".starts_with(text)
}

/// Printing, deleting and substituting lines, and nothing else.
fn is_plain(script: &str) -> bool {
    let mut rest = script.trim_start();
    loop {
        rest = rest.trim_start_matches([';', '\n', ' ', '{', '}']);
        if rest.is_empty() {
            return true;
        }
        // Addresses.
        loop {
            rest = rest.trim_start_matches(|c: char| {
                c.is_ascii_digit() || matches!(c, ',' | '$' | '!' | '~' | '+' | ' ')
            });
            match rest.strip_prefix('/') {
                Some(pattern) => match delimited(pattern, '/') {
                    Some(after) => rest = after.trim_start_matches('I'),
                    None => return false,
                },
                None => break,
            }
        }
        rest = rest.trim_start_matches(['{', ' ']);
        let mut chars = rest.chars();
        match chars.next() {
            None => return true,
            Some(
                'p' | 'd' | 'q' | 'Q' | '=' | 'n' | 'N' | 'D' | 'P' | 'h' | 'H' | 'g' | 'G' | 'x'
                | 'l' | '}',
            ) => {
                rest = chars.as_str().trim_start_matches(|c: char| c.is_ascii_digit());
            }
            Some(command @ ('s' | 'y')) => {
                let Some(delimiter) =
                    chars.next().filter(|c| !c.is_alphanumeric() && *c != '\\' && *c != '\n')
                else {
                    return false;
                };
                let Some(after) = delimited(chars.as_str(), delimiter)
                    .and_then(|after| delimited(after, delimiter))
                else {
                    return false;
                };
                rest = if command == 's' {
                    after.trim_start_matches(|c: char| {
                        c.is_ascii_digit() || matches!(c, 'g' | 'p' | 'i' | 'I' | 'm')
                    })
                } else {
                    after
                };
            }
            Some(_) => return false,
        }
        let next = rest.trim_start_matches(' ');
        if !(next.is_empty() || next.starts_with([';', '\n', '}'])) {
            return false;
        }
    }
}

/// What follows the next delimiter that no backslash and no brackets protect.
fn delimited(text: &str, delimiter: char) -> Option<&str> {
    let mut escaped = false;
    for (place, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == delimiter => return text.get(place + c.len_utf8()..),
            _ => {}
        }
    }
    None
}
