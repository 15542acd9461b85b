//! Arguments by which a harmless command writes a file or runs another one. A rule that allows `sort` does not mean `sort -o`; one that
//! names the option does. And a rule that denies `rm` also means the `rm` in `git -c core.pager=rm log`, which nobody can find there
//! for sure: whatever runs code that stands in its arguments makes a doubt of the line.

mod git;
mod helpers;
mod interpreters;
mod known;
mod options;
mod programs;
mod sed;

pub(crate) use interpreters::is_one as is_interpreter;
pub(crate) use known::{is_known, takes_data};

use super::{Invocation, Word, nested, program_of};

/// An argument that makes more of a command than its name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hazard {
    /// The word's place, 0 being the command's name.
    pub at: usize,
    /// Whether code or a command is run that stands in the line itself, unseen. What lies in a file of its own does not count: it is
    /// known by the file's name, as `make` or `./script` is.
    pub runs: bool,
    /// What it does.
    pub reason: String,
}

/// The first hazard of a command, if it has one.
pub(crate) fn hazard(command: &Invocation) -> Option<Hazard> {
    first_of(command, false)
}

/// The first hazard of a command by which it runs code that stands in the line.
pub(crate) fn unseen_code(command: &Invocation) -> Option<Hazard> {
    first_of(command, true)
}

fn first_of(command: &Invocation, runs_only: bool) -> Option<Hazard> {
    let name = program_of(command.words.first().map_or("", |word| word.text.as_str()));
    let rest = command.words.get(1..).unwrap_or_default();
    let wanted = |hazard: &Hazard| hazard.runs || !runs_only;
    let git = || if name == "git" { git::hazards(rest) } else { Vec::new() };
    git()
        .into_iter()
        .chain(options::hazards(name, rest))
        .chain(programs::hazards(name, rest))
        .chain(helpers::hazard(name, rest))
        .chain(interpreters::hazard(name, rest))
        .chain(inner_command(name, rest))
        .find(wanted)
}

/// Of a program that is not known a word may be a command that it runs, and that command one that runs others.
fn inner_command(name: &str, rest: &[Word]) -> Option<Hazard> {
    if is_known(name) || interpreters::is_one(name) || nested::unfolds(name) {
        return None;
    }
    let starts = |word: &Word| {
        let program = program_of(&word.text);
        word.exact && (nested::unfolds(program) || interpreters::is_one(program))
    };
    let place = rest.iter().position(starts)?;
    let inner = rest.get(place).map_or("", |word| word.text.as_str());
    Some(runs(place, format!("{name} may run {inner}")))
}

/// Whether a program is asked for nothing but its version or its help.
fn is_version(name: &str, rest: &[Word]) -> bool {
    let short = matches!(name, "node" | "nodejs" | "perl" | "ruby" | "php" | "lua");
    let asks = |word: &Word| {
        matches!(word.text.as_str(), "--version" | "-V" | "--help" | "-version" | "-help")
            || (short && matches!(word.text.as_str(), "-v" | "-h"))
    };
    matches!(rest, [word] if asks(word))
}

/// It changes files, settings, or what is run from files.
fn changes(place: usize, reason: impl Into<String>) -> Hazard {
    Hazard { at: place + 1, runs: false, reason: reason.into() }
}

/// It runs what stands in its words.
fn runs(place: usize, reason: impl Into<String>) -> Hazard {
    Hazard { at: place + 1, runs: true, reason: reason.into() }
}

fn operands(rest: &[Word]) -> impl Iterator<Item = (usize, &Word)> {
    rest.iter().enumerate().filter(|(_, word)| !word.text.starts_with('-') || word.text == "-")
}
