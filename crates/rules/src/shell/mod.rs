//! What a shell line would run: every simple command in it, wherever it hides, every file that it redirects to, and every doubt about
//! that. The parser is not the shell's own, so what is unusual is a doubt, and a doubt asks.

mod hazards;
mod incoming;
mod nested;
mod planted;
mod read_only;
mod variables;
mod walk;
mod words;

pub(crate) use hazards::{hazard, is_interpreter, is_known, takes_data, unseen_code};
pub(crate) use nested::{is_shell, unfolds};
pub(crate) use planted::planted_code;
pub use read_only::is_read_only;

use brush_parser::ast::Program;
use brush_parser::{ParserOptions, parse_tokens, uncached_tokenize_str};
use std::collections::BTreeSet;
use std::panic::catch_unwind;

/// Longer lines are not parsed: they ask.
const LINE_MAX: usize = 32 * 1024;
/// How deep commands may lie in each other.
const DEPTH_MAX: usize = 12;
/// How deep a line may nest brackets of any kind; the parser calls itself for each.
const BRACKETS_MAX: usize = 24;
/// How many words may open a compound command.
const OPENERS_MAX: usize = 64;

/// What a line would do, as far as that can be told from its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Analysis {
    /// Every simple command, outer ones before those that they run.
    pub commands: Vec<Invocation>,
    /// Every file that is opened by a redirection.
    pub redirects: Vec<Redirect>,
    /// Why this may not be all.
    pub doubts: Vec<String>,
    /// Functions that the line defines; their bodies are among the commands.
    functions: BTreeSet<String>,
    /// Something is unset.
    unsets: bool,
    variables: variables::Variables,
    /// Where `((…))` begin and end in the text that is being looked at, in characters.
    arithmetic: Vec<(usize, usize)>,
}

/// A simple command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Its words, its name first.
    pub words: Vec<Word>,
    /// Whether it only runs the command that follows in the list, so that it needs no permission of its own (`timeout`, `bash -c`).
    pub transparent: bool,
}

/// A word after expansion, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Its text; what is not known of it stands as it was written.
    pub text: String,
    /// Whether that is all that it can become.
    pub exact: bool,
    /// Whether it may begin with `-`, or become several words of which one does.
    pub maybe_option: bool,
    /// Whether it may become several words of which nothing is known.
    pub splits: bool,
}

impl Word {
    /// A word that is all that it can become.
    pub fn known(text: impl Into<String>) -> Self {
        let text = text.into();
        let maybe_option = text.starts_with('-');
        Self { text, exact: true, maybe_option, splits: false }
    }

    /// A word of which this text is what was written, and which can become any one word.
    pub fn unknown(text: impl Into<String>) -> Self {
        Self { text: text.into(), exact: false, maybe_option: true, splits: false }
    }
}

/// A file that is opened for a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// Its path.
    pub path: Word,
    /// Whether it is written.
    pub writes: bool,
}

impl Analysis {
    /// Whether commands may run that are not among its own. That a variable may change what a known one does is another doubt, and what runs in a
    /// container does not see the host's files by itself.
    pub(crate) fn may_run_more(&self) -> bool {
        self.doubts.iter().any(|doubt| {
            let in_container = ["docker ", "podman ", "nerdctl ", "kubectl "]
                .iter()
                .any(|name| doubt.starts_with(name));
            !in_container && !doubt.contains("may change what")
        })
    }

    /// What the line assigns to variables, as far as that is known.
    pub(crate) fn assigned_texts(&self) -> impl Iterator<Item = &str> {
        self.variables.assigned_texts()
    }

    /// Each variable that it sets, with what that may hold, as far as it is known.
    pub(crate) fn assignments(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.assignments()
    }

    /// What a variable may hold that the line sets.
    pub(crate) fn held_by(&self, name: &str) -> Vec<&str> {
        self.assignments().filter(|(known, _)| *known == name).map(|(_, text)| text).collect()
    }

    /// What a word's text may become, as far as the line says what its variables hold.
    pub(crate) fn possible_texts(&self, text: &str) -> Vec<String> {
        self.variables.possible_texts(text)
    }
}

impl Invocation {
    /// Its words, parted by single spaces.
    pub fn text(&self) -> String {
        self.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// The name of its program, without the folders that hold the system's own programs.
    pub fn name(&self) -> &str {
        let name = self.words.first().map_or("", |word| word.text.as_str());
        system_program(name).unwrap_or(name)
    }
}

/// The name of a program that is named by its path in one of the system's own folders.
pub(crate) fn system_program(path: &str) -> Option<&str> {
    let (folder, name) = path.rsplit_once('/')?;
    ["/bin", "/usr/bin", "/sbin", "/usr/sbin"].contains(&folder).then_some(name)
}

/// Whether a program is a compiler, a preprocessor or an assembler: `cc`, and `x86_64-linux-gnu-gcc-14` as well.
pub(crate) fn is_compiler(name: &str) -> bool {
    matches!(
        class_of(name),
        "gcc"
            | "cc"
            | "g++"
            | "c++"
            | "clang"
            | "clang++"
            | "cpp"
            | "clang-cpp"
            | "tcc"
            | "as"
            | "icc"
            | "icx"
            | "nvcc"
            | "c89"
            | "c99"
            | "gfortran"
            | "gdc"
            | "gnat"
            | "gccgo"
            | "gas"
            | "yasm"
            | "nasm"
            | "tpp"
            | "mcpp"
    )
}

/// A program without the triplet of the machine that it is for: `aarch64-linux-gnu-gcc` is `gcc`.
pub(crate) fn class_of(name: &str) -> &str {
    let mut parts = name.rsplitn(2, '-');
    let last = parts.next().unwrap_or(name);
    let is_triplet = |before: &str| {
        let machine = before.split('-').next().unwrap_or_default();
        before.contains('-')
            || matches!(before, "c89" | "c99")
            || [
                "x86_64", "i386", "i486", "i586", "i686", "amd64", "mips", "riscv", "sparc",
                "s390", "alpha", "avr", "wasm32",
            ]
            .iter()
            .any(|known| machine.starts_with(known))
            || ["arm", "aarch", "powerpc", "ppc", "loongarch", "hppa", "m68k", "sh4"]
                .iter()
                .any(|known| machine.starts_with(known))
    };
    match parts.next() {
        Some(before) if is_triplet(before) => last,
        _ => name,
    }
}

/// What a program is, whatever folder it is said to lie in and whatever version it has: `python3.12` is `python`.
pub(crate) fn program_of(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = [".basic", ".tiny", ".nox", "-static", ".static", ".exe"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name);
    // In these the digit belongs to the name.
    if matches!(
        name,
        "linux64" | "linux32" | "i386" | "x86_64" | "proxychains4" | "box64" | "m4" | "c89" | "c99"
    ) || name.starts_with("qemu-")
    {
        return name;
    }
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    if bare.is_empty() { name } else { bare }
}

/// Whether a line certainly prints words of its own and does nothing else: no permission helps it.
pub fn prints_only(line: &str) -> bool {
    let analysis = analyze(line);
    let prints = |command: &Invocation| {
        matches!(command.name(), "echo" | "printf" | "true" | "false" | ":" | "pwd")
            && command.words.iter().all(|word| word.exact)
    };
    analysis.doubts.is_empty()
        && analysis.redirects.is_empty()
        && !analysis.commands.is_empty()
        && analysis.commands.iter().all(prints)
}

/// Whether a line lets git show how tracked files differ from what is committed: one that is not there is shown whole.
pub fn shows_worktree(line: &str) -> bool {
    analyze(line).commands.iter().any(|command| {
        command.name() == "git"
            && command.words.iter().any(|word| word.text == "diff" || !word.exact)
    })
}

/// Analyses a line of bash.
pub fn analyze(line: &str) -> Analysis {
    let mut analysis = Analysis::default();
    analyze_into(line, 0, &mut analysis);
    let doubts = analysis.variables.doubts();
    analysis.doubts.extend(doubts);
    analysis
}

fn analyze_into(line: &str, depth: usize, analysis: &mut Analysis) {
    if let Some(doubt) = beyond_parsing(line, depth) {
        analysis.doubts.push(doubt);
        return;
    }
    match parse(line) {
        Ok(program) => {
            let outer = std::mem::take(&mut analysis.arithmetic);
            walk::program(&program, depth, analysis);
            let found = std::mem::replace(&mut analysis.arithmetic, outer);
            if !found.iter().all(|span| is_arithmetic(line, *span)) {
                analysis.doubts.push("brackets that bash may take for subshells".into());
            }
        }
        Err(doubt) => analysis.doubts.push(doubt),
    }
}

/// Whether bash, too, takes it for arithmetic. The parser does so with spaces between the brackets, where bash runs commands in a subshell
/// within a subshell; and bash gives up when the inner bracket is closed too early.
fn is_arithmetic(line: &str, (start, end): (usize, usize)) -> bool {
    let text: String = line.chars().skip(start).take(end.saturating_sub(start)).collect();
    let Some(inner) = text.strip_prefix("((").and_then(|text| text.strip_suffix("))")) else {
        return false;
    };
    words::is_closed(inner)
}

/// What is not given to the parser at all: what a person could not read, and what would cost too much.
fn beyond_parsing(line: &str, depth: usize) -> Option<String> {
    if depth > DEPTH_MAX {
        return Some("commands lie too deep in each other".into());
    }
    if line.len() > LINE_MAX {
        return Some(format!("the line is longer than {LINE_MAX} bytes"));
    }
    if let Some(hidden) = line.chars().find(|c| is_hidden(*c)) {
        return Some(format!(
            "it holds the character U+{:04X}, which is not shown",
            u32::from(hidden)
        ));
    }
    let (mut open, mut deepest) = (0_usize, 0);
    for byte in line.bytes() {
        match byte {
            b'(' | b'{' | b'[' | b'`' => {
                open += 1;
                deepest = deepest.max(open);
            }
            b')' | b'}' | b']' => open = open.saturating_sub(1),
            _ => {}
        }
    }
    // A backquote opens and closes; pairs of them would only count up.
    let backquotes = line.bytes().filter(|byte| *byte == b'`').count();
    if deepest.saturating_sub(backquotes) > BRACKETS_MAX || backquotes > 4 * BRACKETS_MAX {
        return Some("brackets lie too deep in each other".into());
    }
    let opens = |word: &&str| {
        matches!(*word, "if" | "for" | "while" | "until" | "case" | "select" | "do" | "then")
    };
    if line.split(|c: char| c.is_whitespace() || c == ';').filter(opens).count() > OPENERS_MAX {
        return Some("it has too many compound commands".into());
    }
    None
}

/// Controls, and characters that turn a text's direction or have no width: what is shown is not what runs.
fn is_hidden(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
        || (c.is_whitespace() && !matches!(c, ' ' | '\n' | '\t'))
}

fn options() -> ParserOptions {
    ParserOptions::default()
}

fn parse(line: &str) -> Result<Program, String> {
    let options = options();
    // The parser is somebody else's, and this input is the model's.
    let parsed = catch_unwind(|| {
        let tokens = uncached_tokenize_str(line, &options.tokenizer_options())
            .map_err(|error| format!("it cannot be read as bash: {error}"))?;
        parse_tokens(&tokens, &options)
            .map_err(|error| format!("it cannot be read as bash: {error}"))
    });
    parsed.unwrap_or_else(|_| Err("the parser failed".into()))
}
