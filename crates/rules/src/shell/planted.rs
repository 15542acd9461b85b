//! Code that a line writes into a file, and runs from there. A file is known by its name, and what it holds is not looked into; but what
//! the same line has put there stands in the line.

use super::hazards::{hazard, takes_data};
use super::nested::unfolds;
use super::{
    Analysis, Invocation, Word, is_interpreter, is_known, is_shell, program_of, system_program,
};
use crate::overlap::{literal, overlap, pieces};

/// Files that programs run, or take settings from, without being told.
const IMPLICIT: &[&str] = &[
    "Makefile",
    "makefile",
    "GNUmakefile",
    "package.json",
    ".npmrc",
    "setup.py",
    "setup.cfg",
    "conftest.py",
    "pytest.ini",
    "tox.ini",
    "noxfile.py",
    "build.rs",
    "Cargo.toml",
    "pom.xml",
    "build.gradle",
    "CMakeLists.txt",
    "Rakefile",
    "Gemfile",
    "Justfile",
    "justfile",
    "Vagrantfile",
    ".gdbinit",
    ".vimrc",
    ".exrc",
    ".nvimrc",
    ".bashrc",
    ".profile",
    ".bash_profile",
    ".bash_aliases",
    ".zshrc",
    ".inputrc",
    ".gitconfig",
    ".gitattributes",
    ".gitmodules",
    ".envrc",
    ".lesskey",
    ".psqlrc",
    ".sqliterc",
    ".my.cnf",
    ".curlrc",
    ".wgetrc",
    ".screenrc",
    ".tmux.conf",
    ".perldb",
    "sitecustomize.py",
    "usercustomize.py",
    "Rprofile",
    ".Rprofile",
    ".irbrc",
    ".pryrc",
    ".rspec",
    ".babelrc",
    ".mailcap",
    ".netrc",
    ".lua",
    ".guile",
    ".octaverc",
    ".gnuplot",
    ".ripgreprc",
    ".ackrc",
    "ssh_config",
    "authorized_keys",
];
/// Folders in which every file counts as such.
const SETTINGS: &[&str] =
    &[".git", "hooks", ".cargo", ".config", ".ssh", ".vscode", "bin", ".local"];

/// Why a file that the line writes may be code that it runs.
pub(crate) fn planted_code(analysis: &Analysis) -> Option<String> {
    let written = written(analysis);
    let written: Vec<(Option<&Invocation>, String)> = written
        .into_iter()
        .flat_map(|(by, text)| possible(analysis, text).into_iter().map(move |text| (by, text)))
        .collect();
    if written.is_empty() {
        return None;
    }
    for command in &analysis.commands {
        let name = program_of(command.words.first().map_or("", |word| word.text.as_str()));
        if is_interpreter(name)
            && let Some((_, module)) = written.iter().find(|(_, written)| is_module(written))
        {
            return Some(format!("it writes {module:?}, which {name} may load"));
        }
        for ran in files_run(command) {
            let found = written.iter().find(|(by, written)| {
                by.is_none_or(|by| !std::ptr::eq(by, command)) && may_be(written, ran)
            });
            if let Some((_, written)) = found {
                return Some(format!("it writes {written:?}, and may run it"));
            }
        }
    }
    let acts = analysis.commands.iter().any(|command| !command.transparent && !is_data(command));
    let implicit =
        written.iter().find(|(by, written)| acts && is_implicit(written, by.is_none()))?;
    Some(format!("it writes {:?}, which another command of it may act upon", implicit.1))
}

fn is_data(command: &Invocation) -> bool {
    let name = command.name();
    takes_data(name) && !name.contains('/') && hazard(command).is_none()
}

/// Paths that are written, each with the command that names them.
fn written(analysis: &Analysis) -> Vec<(Option<&Invocation>, &str)> {
    let mut found: Vec<(Option<&Invocation>, &str)> = Vec::new();
    for redirect in analysis.redirects.iter().filter(|redirect| redirect.writes) {
        let text = redirect.path.text.as_str();
        if !matches!(text, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty") {
            found.push((None, text));
        }
    }
    for command in &analysis.commands {
        if !may_write(command) {
            continue;
        }
        // Which file is in the program's own text, or follows from a name.
        if matches!(
            program_of(command.words.first().map_or("", |word| word.text.as_str())),
            "sed" | "gsed" | "awk" | "gawk" | "mawk" | "nawk" | "split" | "csplit"
        ) {
            found.push((Some(command), "…"));
        }
        for word in command.words.iter().skip(1) {
            let text = word.text.as_str();
            let value = text.split_once('=').map_or(text, |(_, value)| value);
            let is_option = text.starts_with('-') && !text.contains('=');
            if !value.is_empty() && !is_option {
                found.push((Some(command), value));
            }
        }
    }
    found
}

/// Whether a file that a command names may be written by it.
fn may_write(command: &Invocation) -> bool {
    let name = program_of(command.words.first().map_or("", |word| word.text.as_str()));
    match name {
        "cp" | "mv" | "ln" | "install" | "ginstall" | "dd" | "tee" | "sponge" | "rename"
        | "truncate" | "link" | "split" | "csplit" | "unzip" | "gunzip" | "unxz" | "bunzip2"
        | "unzstd" => true,
        // The file's content comes with the commit; scripts are run by these, not written.
        "git" => {
            command.words.iter().any(|word| word.text == "config")
                && hazard(command).is_some_and(|hazard| hazard.runs)
        }
        "chmod" | "chown" | "make" | "gmake" | "mkdir" | "rm" | "cd" | "pushd" | "touch" => false,
        "find" => {
            command.words.iter().any(|word| word.text.starts_with("-fprint") || word.text == "-fls")
        }
        _ if is_interpreter(name) || unfolds(name) || command.transparent => false,
        _ if takes_data(name) => hazard(command).is_some(),
        _ if command.words.first().is_some_and(|word| {
            word.text.contains('/') && system_program(&word.text).is_none()
        }) =>
        {
            false
        }
        _ => {
            hazard(command).is_some()
                || matches!(name, "curl" | "wget" | "rsync" | "scp" | "patch" | "objcopy")
        }
    }
}

/// The files that a command may run: a path that it is, and the words of shells and interpreters, of `make`, of what is not known, and of
/// what takes its orders from a file by an option.
fn files_run(command: &Invocation) -> impl Iterator<Item = &Word> {
    let first = command.words.first();
    let name = program_of(first.map_or("", |word| word.text.as_str()));
    let is_path =
        first.is_some_and(|word| word.text.contains('/') && system_program(&word.text).is_none());
    let script = matches!(name, "sed" | "gsed" | "awk" | "gawk" | "mawk" | "nawk");
    let runs_files = is_interpreter(name)
        || is_shell(name)
        || matches!(name, "make" | "gmake")
        || !(is_known(name) || unfolds(name))
        || (!takes_data(name) && hazard(command).is_some() && !unfolds(name));
    let itself = first.filter(|_| is_path);
    let words = command.words.iter().skip(1).filter(move |word| {
        let text = word.text.as_str();
        // The program itself is no file's name.
        runs_files
            && !command.transparent
            && !text.starts_with("--no")
            && (!script || !text.contains(['{', '|', ';', '(', '$', '^', ' ']))
    });
    itself.into_iter().chain(words)
}

/// What interpreters load by a name without an ending.
fn is_module(written: &str) -> bool {
    let endings =
        ["py", "pyc", "pth", "pl", "pm", "rb", "js", "mjs", "cjs", "ts", "lua", "php", "R", "jl"];
    base(written).rsplit_once('.').is_some_and(|(_, ending)| endings.contains(&ending))
}

fn base(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// Whether a word may mean a file that was written.
fn may_be(written: &str, ran: &Word) -> bool {
    let unknown = !ran.exact;
    let text = ran.text.as_str();
    let ran = text.split_once('=').map_or(text, |(_, value)| value);
    let (written, ran) = (base(written), base(ran));
    // `-fs`: the name stands behind letters.
    if text.starts_with('-') && !text.starts_with("--") && text.len() > 2 {
        return written.len() + 2 <= text.len() && text.ends_with(written);
    }
    if ran.is_empty() || (text.starts_with('-') && !text.contains('=')) {
        return false;
    }
    match written.rsplit_once(['…', '*', '?']) {
        // So much of it is known.
        Some((_, "")) => true,
        Some((_, end)) => ran.ends_with(end),
        None => written == ran || (unknown && ran.ends_with(['…', '*', '?', '}'])),
    }
}

fn is_implicit(written: &str, redirected: bool) -> bool {
    let name = base(written);
    let may_be = |known: &str| overlap(&pieces(name), &literal(known));
    let named = match name.rsplit_once('…') {
        // Where a redirection goes that is not known at all, it may be any of them.
        Some((_, "")) => redirected,
        Some((_, end)) => end.len() > 5 && IMPLICIT.iter().any(|known| known.ends_with(end)),
        None => IMPLICIT.iter().any(|known| may_be(known)) || name.ends_with(".mk"),
    };
    let mut folders = written.split('/').rev().skip(1);
    named
        || folders
            .any(|folder| SETTINGS.iter().any(|known| overlap(&pieces(folder), &literal(known))))
}

/// What a path may become, `…` standing for what is not known of it.
fn possible(analysis: &Analysis, text: &str) -> Vec<String> {
    let text = text.replace("$((…))", "…").replace("$(…)", "…").replace("$…", "…");
    analysis.possible_texts(&text)
}
