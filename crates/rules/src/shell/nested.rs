//! Commands that run other commands: each of those is a command of the line too.

use super::walk::is_harmless;
use super::{Analysis, Invocation, Redirect, Word, analyze_into, system_program};

/// Where in a wrapper's words the command begins that it runs.
struct Wrapper {
    name: &'static str,
    /// Options that take a value in the next word.
    with_value: &'static [&'static str],
    /// Words of its own that come before the command.
    operands: usize,
    /// Whether it does nothing but run the command.
    transparent: bool,
}

const fn wrapper(
    name: &'static str,
    with_value: &'static [&'static str],
    operands: usize,
    transparent: bool,
) -> Wrapper {
    Wrapper { name, with_value, operands, transparent }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper("timeout", &["-k", "-s", "--kill-after", "--signal"], 1, true),
    wrapper("nice", &["-n", "--adjustment"], 0, true),
    wrapper("ionice", &["-c", "-n", "--class", "--classdata"], 0, true),
    wrapper("nohup", &[], 0, true),
    wrapper("setsid", &[], 0, true),
    wrapper("stdbuf", &["-i", "-o", "-e", "--input", "--output", "--error"], 0, true),
    wrapper("command", &[], 0, true),
    wrapper("builtin", &[], 0, true),
    wrapper("exec", &["-a"], 0, true),
    wrapper("time", &["-f", "--format"], 0, true),
    wrapper("chronic", &[], 0, true),
    wrapper("taskset", &[], 1, true),
    wrapper("chrt", &["-p", "-T", "-P", "-D"], 1, true),
    wrapper("unbuffer", &[], 0, true),
    wrapper("catchsegv", &[], 0, true),
    wrapper(
        "xargs",
        &[
            "-I",
            "-i",
            "-n",
            "-P",
            "-L",
            "-l",
            "-d",
            "-E",
            "-s",
            "-a",
            "--max-args",
            "--max-procs",
            "--max-lines",
            "--delimiter",
            "--arg-file",
            "--replace",
            "--max-chars",
            "--eof",
        ],
        0,
        true,
    ),
    wrapper(
        "parallel",
        &["-j", "-N", "-n", "-I", "-a", "--jobs", "--arg-file", "--colsep", "--delay", "--timeout"],
        0,
        false,
    ),
    wrapper(
        "sudo",
        &["-u", "-g", "-h", "-p", "-C", "-T", "-R", "-D", "-r", "-t", "--user", "--group"],
        0,
        false,
    ),
    wrapper("doas", &["-u", "-C"], 0, false),
    wrapper("runuser", &["-u", "-g"], 0, false),
    wrapper("setpriv", &["--reuid", "--regid"], 0, false),
    wrapper("chroot", &[], 1, false),
    wrapper("unshare", &[], 0, false),
    wrapper("nsenter", &["-t", "--target"], 0, false),
    wrapper("strace", &["-e", "-o", "-p", "-s", "-u", "-E", "-a", "-P", "-O", "-S"], 0, false),
    wrapper("ltrace", &["-e", "-o", "-p", "-s", "-u"], 0, false),
    wrapper("flock", &["-w", "-E", "--timeout", "--conflict-exit-code"], 1, false),
    wrapper("watch", &["-n", "--interval"], 0, false),
    wrapper("busybox", &[], 0, false),
    wrapper("toybox", &[], 0, false),
    wrapper("systemd-run", &["-p", "--unit", "-u"], 0, false),
    wrapper("dbus-run-session", &[], 0, false),
    wrapper("xvfb-run", &["-s", "-n", "-e", "-f", "-w"], 0, false),
    wrapper("faketime", &[], 1, false),
    wrapper("proot", &[], 0, false),
    wrapper("fakeroot", &["-i", "-s", "-l", "-b"], 0, false),
    wrapper("bwrap", &[], 0, false),
    wrapper("firejail", &[], 0, false),
    wrapper("prlimit", &[], 0, false),
    wrapper("pkexec", &["--user"], 0, false),
    wrapper("coproc", &[], 0, true),
];

const SHELLS: &[&str] = &["bash", "sh", "dash", "zsh", "ksh", "ash", "mksh", "rbash", "fish"];

/// Words after which bash, not a program, does something with code.
const EVALUATORS: &[&str] = &[
    "eval",
    "source",
    ".",
    "trap",
    "alias",
    "enable",
    "hash",
    "bind",
    "complete",
    "compgen",
    "mapfile",
    "readarray",
    "fc",
    "shopt",
    "set",
];

/// Builtins that evaluate the subscript of a name they are given, and with it the commands in there.
const SUBSCRIPTS: &[&str] = &[
    "let", "declare", "typeset", "local", "export", "readonly", "unset", "read", "printf", "test",
    "[", "getopts", "wait",
];

/// Adds a command to the analysis, with those that it runs.
pub(super) fn invocation(mut found: Invocation, depth: usize, analysis: &mut Analysis) {
    let Some(name_word) = found.words.first() else {
        return;
    };
    if !name_word.exact {
        analysis
            .doubts
            .push(format!("the command {:?} is not known before it runs", name_word.text));
        analysis.commands.push(found);
        return;
    }
    let name = name_word.text.clone();
    let name = system_program(&name).unwrap_or(&name);
    let rest: Vec<Word> = found.words.iter().skip(1).cloned().collect();
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
        return wrapped(wrapper, found, &rest, depth, analysis);
    }
    if SHELLS.contains(&name) {
        return shell(found, &rest, depth, analysis);
    }
    match name {
        "env" => return env(found, &rest, depth, analysis),
        "find" | "fd" | "fdfind" => {
            let inner = find_commands(&rest, analysis);
            analysis.commands.push(found);
            for words in inner {
                invocation(Invocation { words, transparent: false }, depth + 1, analysis);
            }
            return;
        }
        "tee" | "sponge" => {
            for word in rest.iter().filter(|word| !word.text.starts_with('-')) {
                analysis.redirects.push(Redirect { path: word.clone(), writes: true });
            }
        }
        "unset"
            if rest.iter().any(|word| word.text.starts_with('-') || !word.exact)
                && !analysis.functions.is_empty() =>
        {
            analysis.doubts.push("unset may take a function away".into());
        }
        "ssh"
        | "su"
        | "script"
        | "expect"
        | "at"
        | "batch"
        | "crontab"
        | "screen"
        | "tmux"
        | "docker"
        | "podman"
        | "kubectl"
        | "rsh"
        | "mosh"
        | "osascript"
        | "ld.so"
        | "ld-linux-x86-64.so.2"
        | "make-initrd" => {
            analysis.doubts.push(format!("{name} runs commands that are not looked into"));
        }
        _ if EVALUATORS.contains(&name) => evaluator(name, &rest, depth, analysis),
        _ if SUBSCRIPTS.contains(&name) => subscripts(name, &rest, analysis),
        _ if name.starts_with("ld-") || name.starts_with("ld.") => {
            analysis.doubts.push("the loader runs a program that is not looked into".into());
        }
        _ => {}
    }
    found.transparent = matches!(name, ":" | "true" | "false");
    analysis.commands.push(found);
}

/// The words behind a wrapper's own options and operands.
fn behind<'a>(wrapper: &Wrapper, rest: &'a [Word], analysis: &mut Analysis) -> &'a [Word] {
    let mut at = 0;
    let mut operands = wrapper.operands;
    while let Some(word) = rest.get(at) {
        if !word.exact && (word.maybe_option || operands == 0) {
            analysis.doubts.push(format!("what {} runs is not known before it runs", wrapper.name));
            return &[];
        }
        let text = word.text.as_str();
        if text == "--" {
            at += 1;
            return rest.get(at + operands..).unwrap_or_default();
        }
        if text.starts_with('-') && text.len() > 1 {
            at += 1;
            if wrapper.with_value.contains(&text) {
                at += 1;
            }
            continue;
        }
        if operands == 0 {
            break;
        }
        operands -= 1;
        at += 1;
    }
    rest.get(at..).unwrap_or_default()
}

fn wrapped(
    wrapper: &Wrapper,
    mut found: Invocation,
    rest: &[Word],
    depth: usize,
    analysis: &mut Analysis,
) {
    let mut inner = behind(wrapper, rest, analysis).to_vec();
    let name = wrapper.name;
    let own: Vec<&str> =
        rest.iter().take(rest.len() - inner.len()).map(|word| word.text.as_str()).collect();
    // `command -v`, `command -V`: only a question.
    let asks = name == "command" && own.iter().any(|word| matches!(*word, "-v" | "-V"));
    let writes = matches!(name, "time" | "strace" | "ltrace")
        && own.iter().any(|word| word.starts_with("-o") || word.starts_with("--output"));
    if writes {
        analysis.doubts.push(format!("{name} writes a file"));
    }
    if name == "stdbuf" && inner.is_empty() && !rest.is_empty() {
        analysis.doubts.push("what stdbuf runs is not known".into());
    }
    if name == "xargs" {
        if own.iter().any(|word| {
            word.starts_with("-a")
                || word.starts_with("--arg-file")
                || word.starts_with("--process-slot-var")
        }) {
            analysis.doubts.push("xargs reads its words from a file".into());
        }
        if !inner.is_empty() {
            // Whatever stands in its input follows, and with -I it may stand anywhere.
            let replace = own.iter().position(|word| {
                word.starts_with("-I") || word.starts_with("-i") || word.starts_with("--replace")
            });
            if let Some(at) = replace {
                let mark = match own.get(at) {
                    Some(&"-I") => own.get(at + 1).copied().unwrap_or("{}"),
                    Some(word) => word
                        .trim_start_matches("-I")
                        .trim_start_matches("-i")
                        .trim_start_matches("--replace")
                        .trim_start_matches('='),
                    None => "{}",
                };
                let mark = if mark.is_empty() { "{}" } else { mark };
                for word in &mut inner {
                    if word.text.contains(mark) {
                        word.exact = false;
                        word.maybe_option |= word.text.starts_with(mark);
                    }
                }
            } else {
                inner.push(Word { text: "…".into(), exact: false, maybe_option: true });
            }
        }
    }
    if name == "watch" || name == "parallel" {
        analysis.doubts.push(format!("{name} gives its words to a shell"));
    }
    if name == "flock" && inner.iter().any(|word| word.text == "-c" || word.text == "--command") {
        analysis.doubts.push("flock gives its words to a shell".into());
    }
    found.transparent = (wrapper.transparent && !inner.is_empty() && !writes) || asks;
    // `exec >file` and `nohup` alone run nothing.
    if name == "exec" && inner.is_empty() && rest.is_empty() {
        found.transparent = true;
    }
    analysis.commands.push(found);
    if !asks && !inner.is_empty() {
        if depth > super::DEPTH_MAX {
            analysis.doubts.push("commands lie too deep in each other".into());
            return;
        }
        invocation(Invocation { words: inner, transparent: false }, depth + 1, analysis);
    }
}

/// `env` sets variables, and runs the rest.
fn env(mut found: Invocation, rest: &[Word], depth: usize, analysis: &mut Analysis) {
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        let text = word.text.as_str();
        if !word.exact && word.maybe_option {
            analysis.doubts.push("what env runs is not known before it runs".into());
            break;
        }
        match text {
            "-i" | "-" | "--ignore-environment" | "-0" | "--null" => {}
            "-u" | "--unset" | "-C" | "--chdir" => at += 1,
            "--" => {
                at += 1;
                break;
            }
            _ if text.starts_with('-') => {
                analysis.doubts.push(format!("env {text} is not looked into"));
            }
            _ if text.contains('=') => {
                let name = text.split('=').next().unwrap_or_default();
                if !is_harmless(name) {
                    analysis
                        .doubts
                        .push(format!("the variable {name} may change what the command does"));
                }
            }
            _ => break,
        }
        at += 1;
    }
    let inner = rest.get(at..).unwrap_or_default().to_vec();
    // A plain assignment that a prefix may make is no doubt here either.
    if !inner.is_empty() {
        found.transparent = true;
    }
    analysis.commands.push(found);
    if !inner.is_empty() {
        invocation(Invocation { words: inner, transparent: false }, depth + 1, analysis);
    }
}

/// `bash -c 'line'` runs the line; without `-c` it runs a file, or whatever comes in.
fn shell(mut found: Invocation, rest: &[Word], depth: usize, analysis: &mut Analysis) {
    let mut at = 0;
    let mut line = None;
    while let Some(word) = rest.get(at) {
        let text = word.text.as_str();
        if !word.exact && word.maybe_option {
            analysis.doubts.push("what the shell runs is not known before it runs".into());
            break;
        }
        if text == "--" || !(text.starts_with('-') || text.starts_with('+')) {
            break;
        }
        if text.starts_with("--") {
            if matches!(text, "--rcfile" | "--init-file") {
                at += 1;
                analysis.doubts.push("the shell reads a start file".into());
            }
        } else {
            if text.contains(['i', 'l', 's']) {
                analysis.doubts.push(format!("the shell reads start files, or its input ({text})"));
            }
            if matches!(text, "-o" | "+o" | "-O" | "+O") {
                at += 1;
            } else if text.contains('c') {
                line = rest.get(at + 1);
                break;
            }
        }
        at += 1;
    }
    match line {
        Some(word) if word.exact => {
            found.transparent = true;
            analysis.commands.push(found);
            analyze_into(&word.text.clone(), depth + 1, analysis);
            return;
        }
        Some(_) => {
            analysis.doubts.push("the line that the shell runs is not known before it runs".into())
        }
        None if rest.iter().all(|word| word.exact && word.text.starts_with('-'))
            && !rest.iter().any(|word| word.text == "--version" || word.text == "--help") =>
        {
            analysis.doubts.push("the shell runs whatever comes in".into());
        }
        None => {}
    }
    analysis.commands.push(found);
}

/// The commands behind `-exec` and its like.
fn find_commands(rest: &[Word], analysis: &mut Analysis) -> Vec<Vec<Word>> {
    let mut commands = Vec::new();
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        at += 1;
        if !matches!(
            word.text.as_str(),
            "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch"
        ) {
            continue;
        }
        let mut inner = Vec::new();
        while let Some(word) = rest.get(at) {
            at += 1;
            if word.text == ";"
                || (word.text == "+"
                    && inner.last().is_some_and(|last: &Word| last.text.contains("{}")))
            {
                break;
            }
            let mut word = word.clone();
            if word.text.contains('{') {
                word.exact = false;
                // A path that find found begins with where it began, which is no option.
                word.maybe_option = false;
            }
            inner.push(word);
        }
        if inner.is_empty() {
            analysis.doubts.push("find runs a command that is not known".into());
        } else {
            commands.push(inner);
        }
    }
    commands
}

fn evaluator(name: &str, rest: &[Word], depth: usize, analysis: &mut Analysis) {
    match name {
        "eval" => {
            if rest.iter().all(|word| word.exact) {
                let line = rest.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
                analyze_into(&line, depth + 1, analysis);
            } else {
                analysis.doubts.push("eval runs text that is not known before it runs".into());
            }
        }
        "trap" => match rest.first() {
            Some(word) if word.exact && !matches!(word.text.as_str(), "-" | "" | "-l" | "-p") => {
                analyze_into(&word.text.clone(), depth + 1, analysis);
            }
            Some(word) if !word.exact => {
                analysis.doubts.push("trap runs text that is not known before it runs".into())
            }
            _ => {}
        },
        "alias" if rest.is_empty() => {}
        // Options that make the shell stricter change nothing of what it runs.
        "set"
            if rest.iter().all(|word| {
                word.exact
                    && matches!(
                        word.text.as_str(),
                        "-e" | "-u"
                            | "-x"
                            | "-eu"
                            | "-ex"
                            | "-eux"
                            | "-euo"
                            | "-euxo"
                            | "-o"
                            | "+e"
                            | "+u"
                            | "+x"
                            | "pipefail"
                    )
            }) => {}
        "shopt"
            if rest.iter().all(|word| {
                word.exact
                    && matches!(
                        word.text.as_str(),
                        "-s" | "-u"
                            | "nullglob"
                            | "globstar"
                            | "dotglob"
                            | "failglob"
                            | "nocaseglob"
                            | "inherit_errexit"
                    )
            }) => {}
        _ => analysis.doubts.push(format!("{name} changes what bash runs")),
    }
}

fn subscripts(name: &str, rest: &[Word], analysis: &mut Analysis) {
    let suspicious = |word: &Word| {
        word.text.contains('[') && (word.text.contains("$(") || word.text.contains('`'))
    };
    if rest.iter().any(suspicious) || (name == "let" && rest.iter().any(|word| !word.exact)) {
        analysis.doubts.push(format!("{name} evaluates its words, and may run a command"));
    }
    let exports = matches!(name, "declare" | "typeset" | "export" | "readonly" | "local");
    if exports {
        for word in rest {
            let variable = word.text.split('=').next().unwrap_or_default();
            let sets =
                word.text.contains('=') && !variable.starts_with('-') && !is_harmless(variable);
            if sets || (!word.exact && !is_harmless(variable)) {
                analysis.doubts.push(format!(
                    "{name} sets the variable {variable}, which may change what later commands do"
                ));
            }
        }
    }
}
