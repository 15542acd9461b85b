//! Commands whose plain arguments, or whose input, are programs of their own, or name files to write.

use super::{Hazard, changes, operands, runs, sed};
use crate::shell::Word;

/// Programs that run what comes in where no file is named. What comes in may stand in the line: a here-document, an `echo`.
const READS_CODE: &[&str] = &[
    "python", "pypy", "perl", "ruby", "irb", "node", "nodejs", "deno", "bun", "php", "lua",
    "luajit", "tclsh", "wish", "Rscript", "R", "julia", "guile", "racket", "sbcl", "ghci", "ocaml",
    "erl", "elixir", "iex", "scala", "groovy", "gnuplot", "octave", "m4", "ed", "red", "ex", "dc",
    "gdb", "lldb", "sqlite", "psql", "mysql", "mariadb",
];

pub(super) fn hazards(name: &str, rest: &[Word]) -> Vec<Hazard> {
    let mut found: Vec<Hazard> = Vec::new();
    found.extend(by_text(name, rest));
    found.extend(comes_in(name, rest));
    found
}

/// Code on standard input.
fn comes_in(name: &str, rest: &[Word]) -> Option<Hazard> {
    // `-` and the files that stand for it; `make` takes its own file there.
    let standing = rest.iter().position(|word| {
        let path = word.text.rsplit('=').next().unwrap_or_default();
        matches!(path, "-" | "/dev/stdin" | "/proc/self/fd/0") || path.starts_with("/dev/fd/")
    });
    if let Some(place) = standing
        && (READS_CODE.contains(&name) || matches!(name, "make" | "gmake"))
    {
        return Some(runs(place, format!("{name} runs what comes in")));
    }
    let asks = |word: &Word| {
        matches!(word.text.as_str(), "--version" | "-V" | "-v" | "--help" | "-h" | "-version")
    };
    // Its clients name a database first, and run what comes in all the same.
    let most = match name {
        "ed" | "red" | "ex" | "gdb" | "lldb" | "sqlite" | "psql" | "mysql" | "mariadb" => 1,
        _ => 0,
    };
    let comes_in =
        READS_CODE.contains(&name) && operands(rest).count() <= most && !rest.iter().any(asks);
    comes_in.then(|| runs(rest.len(), format!("{name} runs what comes in")))
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
        "cargo" => rest
            .first()
            .filter(|word| word.text.starts_with('+'))
            .map(|_| changes(0, "another toolchain runs")),
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
