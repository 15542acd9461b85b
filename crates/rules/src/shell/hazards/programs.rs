//! Commands whose plain arguments, or whose input, are programs of their own, or name files to write.

use super::{Hazard, changes, interpreters, is_version, operands, runs, sed, takes_data};
use crate::shell::Word;
use crate::shell::incoming::is_incoming;
use crate::shell::nested;

/// Programs that run what comes in where no file is named, besides the interpreters. What comes in may stand in the line: a
/// here-document, an `echo`. Their clients name a database first, and run what comes in all the same.
const READS_CODE: &[&str] = &[
    "ed",
    "red",
    "ex",
    "dc",
    "gdb",
    "lldb",
    "sqlite",
    "psql",
    "mysql",
    "mariadb",
    "ftp",
    "sftp",
    "lftp",
    "ncftp",
    "telnet",
    "smbclient",
    "debugfs",
    "sqlplus",
    "jshell",
    "gs",
    "gsx",
    "gsnd",
    "ghostscript",
];

pub(super) fn hazards(name: &str, rest: &[Word]) -> Vec<Hazard> {
    let mut found: Vec<Hazard> = Vec::new();
    found.extend(by_text(name, rest));
    found.extend(comes_in(name, rest));
    if matches!(name, "awk" | "gawk" | "mawk" | "nawk" | "original-awk") {
        found.extend(interpreters::awk(rest));
    }
    found
}

/// Code on standard input.
fn comes_in(name: &str, rest: &[Word]) -> Option<Hazard> {
    let reads_code = READS_CODE.contains(&name);
    let reason = || format!("{name} may run what comes in");
    // What is a file's name to it is data, or may be code.
    if !takes_data(name)
        && !nested::unfolds(name)
        && let Some(place) = rest.iter().position(is_incoming)
    {
        return Some(runs(place, reason()));
    }
    let by_dash =
        matches!(name, "make" | "gmake" | "sed" | "gsed" | "awk" | "gawk" | "mawk" | "nawk");
    let dash = |(at, word): (usize, &Word)| {
        let text = word.text.as_str();
        let behind_file = at
            .checked_sub(1)
            .and_then(|before| rest.get(before))
            .is_some_and(|before| is_file_option(&before.text));
        (text == "-" && (reads_code || behind_file))
            || (text.len() > 2
                && text.starts_with('-')
                && text.ends_with('-')
                && text.contains('f'))
    };
    if (reads_code || by_dash)
        && let Some(place) = rest.iter().enumerate().position(dash)
    {
        return Some(runs(place, reason()));
    }
    let most = if name == "dc" { 0 } else { 1 };
    let comes_in = reads_code && operands(rest).count() <= most && !is_version(name, rest);
    comes_in.then(|| runs(rest.len(), reason()))
}

/// `-f`, `-nf`, `--file` and its abbreviations.
fn is_file_option(text: &str) -> bool {
    match text.strip_prefix("--") {
        Some(long) => ["file", "makefile", "exec"].iter().any(|known| known.starts_with(long)),
        None => text.starts_with('-') && text.ends_with(['f', 'E']),
    }
}

/// What stands behind `--`, for a tool that is run, and the place where it begins.
fn handed_on(rest: &[Word]) -> Option<(usize, &[Word])> {
    let at = rest.iter().position(|word| word.text == "--")? + 1;
    Some((at, rest.get(at..)?))
}

fn is_one_of(word: &Word, known: &str) -> bool {
    known.split(' ').any(|known| known == word.text)
}

fn by_text(name: &str, rest: &[Word]) -> Option<Hazard> {
    match name {
        "sed" | "gsed" => sed::hazard(rest),
        "awk" | "gawk" | "mawk" | "nawk" => operands(rest)
            .find(|(_, word)| {
                !word.exact
                    || word.text.contains("system")
                    || word.text.contains(['|', '>', '@', '`'])
                    || word.text.contains("getline")
            })
            .map(|(place, word)| {
                let reason = "an awk program may write files and run commands";
                if !word.exact || word.text.contains("system") || word.text.contains(['|', '@']) {
                    runs(place, reason)
                } else {
                    changes(place, reason)
                }
            }),
        "dd" => rest
            .iter()
            .position(|word| word.text.starts_with("of=") || !word.exact)
            .map(|place| changes(place, "dd writes")),
        "uniq" | "xxd" => operands(rest)
            .nth(1)
            .map(|(place, _)| changes(place, format!("the second operand of {name} is written"))),
        "make" | "gmake" => rest
            .iter()
            .position(|word| word.text.contains('='))
            .map(|place| runs(place, "a variable of make may be a command")),
        "vim" | "vi" | "nvim" | "view" | "ex" | "less" | "more" | "vimdiff" | "emacs" => rest
            .iter()
            .position(|word| word.text.starts_with('+'))
            .map(|place| runs(place, format!("{name} runs what follows '+'"))),
        "cargo" => handed_on(rest)
            .filter(|_| rest.iter().any(|word| is_one_of(word, "rustc rustdoc clippy")))
            .and_then(|(at, words)| {
                let names = |word: &Word| {
                    !word.exact
                        || ["link", "runtool", "test-builder"].iter().any(|k| word.text.contains(k))
                };
                let place = at + words.iter().position(names)?;
                Some(runs(place, "an option of the compiler's may name a program"))
            })
            .or_else(|| {
                let other = rest.first().filter(|word| word.text.starts_with('+'));
                other.map(|_| changes(0, "another toolchain runs"))
            }),
        "cmake" => handed_on(rest).and_then(|(at, words)| {
            let names =
                |word: &Word| !word.exact || word.text.contains('=') || word.text.starts_with('-');
            let is_jobs = |word: &Word| word.text.starts_with("-j") || word.text == "-k";
            let place = at + words.iter().position(|word| names(word) && !is_jobs(word))?;
            Some(runs(place, "a variable of the build tool's may be a command"))
        }),
        "ed" | "red" => operands(rest)
            .find(|(_, word)| word.text.starts_with('!') || !word.exact)
            .map(|(place, _)| runs(place, format!("{name} runs what follows '!'"))),
        "sqlite" | "gdb" | "lldb" | "mysql" | "mariadb" => operands(rest)
            .nth(1)
            .map(|(place, _)| runs(place, format!("{name} has commands that run others"))),
        "ffmpeg" | "convert" | "magick" => {
            operands(rest).nth(1).map(|(place, _)| changes(place, format!("{name} writes files")))
        }
        // The first word of an old-style cluster has no dash, and takes its values from the words after it.
        "tar" | "bsdtar" | "gtar" => rest
            .first()
            .filter(|word| !word.text.starts_with('-') && word.text.contains(['I', 'F']))
            .map(|word| runs(0, format!("tar {} runs another program", word.text))),
        "deno" | "bun" => rest
            .first()
            .filter(|word| matches!(word.text.as_str(), "eval" | "x" | "repl" | "exec"))
            .map(|word| runs(0, format!("{name} {} runs its words", word.text))),
        "hostname" => {
            operands(rest).next().map(|(place, _)| changes(place, "hostname sets the name"))
        }
        _ => None,
    }
}
