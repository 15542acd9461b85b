//! Interpreters, by the options that are known to run nothing but the file that is named: any other option, and any other source of
//! code, counts as code that stands in the line.

use super::{Hazard, first_of, is_version, runs};
use crate::shell::incoming::is_code_incoming;
use crate::shell::{Invocation, Word};

/// A line for each kind: names; letters of options without a value; of those with one, in the same word or the next; of those whose value
/// can only stand in the same word; of those whose value is the file that is run; long options without a value; long ones with one; long
/// ones whose value is the file that is run.
const KINDS: &str = "\
python pypy|bBdEIOPqRsSuvVx||||help version|check-hash-based-pycs|
perl|cwWtTvVSnpas|I|l0iCDx|||help version||
ruby|cwvnpasSUyh|IrCX|l0iWKTx|||version verbose yjit jit help|encoding|
node nodejs|cvh||||check version help test watch no-warnings trace-warnings trace-uncaught enable-source-maps expose-gc harmony preserve-symlinks experimental-vm-modules experimental-strip-types experimental-modules experimental-test-coverage no-deprecation|max-old-space-size stack-size unhandled-rejections test-name-pattern test-timeout test-concurrency|
php|lnqsHwmiv|||f|version help syntax-check ini info modules||file
lua luajit|vEW|l||||||
tclsh wish irb ocaml ghci racket guile groovy scala elixir iex erl sbcl gnuplot octave m4|||||version help no-gui silent quiet||script
Rscript R|||||vanilla no-save no-restore no-environ no-init-file no-site-file quiet slave version help verbose||file
julia|qh|tpJL|||version help quiet|project threads optimize startup-file compile banner color procs load|
";

/// Modules that run no code but that of the project's own files, for `python -m`.
const MODULES: &[&str] = &[
    "pytest",
    "unittest",
    "pip",
    "venv",
    "http.server",
    "json.tool",
    "mypy",
    "black",
    "ruff",
    "flake8",
    "pylint",
    "isort",
    "build",
    "compileall",
    "py_compile",
    "doctest",
    "zipfile",
    "tarfile",
    "gzip",
    "ensurepip",
    "virtualenv",
    "twine",
    "tox",
    "nox",
    "sphinx",
    "mkdocs",
    "uvicorn",
    "gunicorn",
    "flask",
    "django",
    "coverage",
    "cProfile",
    "profile",
    "trace",
    "tokenize",
    "ast",
    "dis",
    "calendar",
    "this",
    "site",
    "sysconfig",
    "platform",
    "base64",
    "uuid",
    "pyflakes",
    "pycodestyle",
    "pydocstyle",
    "bandit",
    "poetry",
    "pipx",
    "autopep8",
    "yapf",
    "pyright",
    "pre_commit",
    "pylsp",
    "jupyter",
    "streamlit",
    "alembic",
    "celery",
];

struct Kind<'a> {
    flags: &'a str,
    values: &'a str,
    attached: &'a str,
    files: &'a str,
    long_flags: &'a str,
    long_values: &'a str,
    long_files: &'a str,
}

pub(crate) fn is_one(name: &str) -> bool {
    kind(name).is_some() || matches!(name, "deno" | "bun")
}

fn kind(name: &str) -> Option<Kind<'static>> {
    KINDS.lines().find_map(|line| {
        let mut parts = line.split('|');
        parts.next()?.split(' ').find(|known| *known == name)?;
        Some(Kind {
            flags: parts.next()?,
            values: parts.next()?,
            attached: parts.next()?,
            files: parts.next()?,
            long_flags: parts.next()?,
            long_values: parts.next()?,
            long_files: parts.next()?,
        })
    })
}

fn has(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word && !known.is_empty())
}

/// What one word of options does.
enum Effect {
    Plain,
    TakesNext,
    /// The file that is run, in the same word or the next.
    File(Option<String>),
    Module(Option<String>),
    Unknown,
}

impl Kind<'_> {
    fn option(&self, name: &str, text: &str) -> Effect {
        if let Some(long) = text.strip_prefix("--") {
            let (key, value) = match long.split_once('=') {
                Some((key, value)) => (key, Some(value.to_owned())),
                None => (long, None),
            };
            return match value {
                _ if has(self.long_files, key) => Effect::File(value),
                Some(_) if has(self.long_values, key) => Effect::Plain,
                None if has(self.long_values, key) => Effect::TakesNext,
                _ if has(self.long_flags, key) => Effect::Plain,
                _ => Effect::Unknown,
            };
        }
        let cluster = text.trim_start_matches('-');
        for (at, letter) in cluster.char_indices() {
            let behind = cluster.get(at + letter.len_utf8()..).unwrap_or_default();
            let attached = (!behind.is_empty()).then(|| behind.to_owned());
            if name.starts_with("py") && letter == 'm' {
                return Effect::Module(attached);
            }
            if name.starts_with("py") && matches!(letter, 'W' | 'X') || self.values.contains(letter)
            {
                return if attached.is_some() { Effect::Plain } else { Effect::TakesNext };
            }
            if self.files.contains(letter) {
                return Effect::File(attached);
            }
            if self.attached.contains(letter) {
                // `-l` and `-0` take digits, and more letters may follow; `-i` takes all.
                if matches!(letter, 'i' | 'C' | 'D' | 'x' | 'K' | 'W') {
                    return Effect::Plain;
                }
                continue;
            }
            if !(self.flags.contains(letter) || (letter.is_ascii_digit() && at > 0)) {
                return Effect::Unknown;
            }
        }
        Effect::Plain
    }
}

/// The first thing by which an interpreter runs code that stands in the line.
pub(super) fn hazard(name: &str, rest: &[Word]) -> Option<Hazard> {
    if is_version(name, rest) {
        return None;
    }
    if matches!(name, "deno" | "bun") {
        return by_subcommand(name, rest);
    }
    let kind = kind(name)?;
    let mut at = 0;
    let mut tests = false;
    while let Some(word) = rest.get(at) {
        let text = word.text.as_str();
        if !word.exact && (word.maybe_option || word.splits) {
            return Some(runs(at, format!("{text:?} may make {name} run code")));
        }
        if !text.starts_with('-') || text == "-" {
            break;
        }
        if text == "--" {
            at += 1;
            break;
        }
        tests |= text == "--test";
        match kind.option(name, text) {
            Effect::Plain => {}
            Effect::TakesNext => {
                at += 1;
                if rest.get(at).is_some_and(is_code_incoming) {
                    return Some(runs(at, format!("{name} runs what comes in")));
                }
            }
            Effect::File(file) => {
                let file = file.map(Word::known).or_else(|| rest.get(at + 1).cloned());
                return script(name, at, file.as_ref());
            }
            Effect::Module(module) => {
                let behind = if module.is_some() { at + 1 } else { at + 2 };
                let module = module.map(Word::known).or_else(|| rest.get(at + 1).cloned());
                return by_module(name, module.as_ref(), at, rest.get(behind..)?, behind);
            }
            Effect::Unknown => {
                return Some(runs(at, format!("{name} {text} may run code of the line's own")));
            }
        }
        at += 1;
    }
    if tests && rest.get(at).is_none() {
        return None;
    }
    script(name, at, rest.get(at))
}

/// The file that is run must be one, and known by its name.
fn script(name: &str, at: usize, script: Option<&Word>) -> Option<Hazard> {
    match script {
        None => Some(runs(at, format!("{name} runs what comes in"))),
        Some(script) if !script.exact || script.text == "-" || is_code_incoming(script) => {
            Some(runs(at, format!("{name} runs {:?}, which is no known file", script.text)))
        }
        Some(_) => None,
    }
}

fn by_module(
    name: &str,
    module: Option<&Word>,
    at: usize,
    rest: &[Word],
    behind: usize,
) -> Option<Hazard> {
    let Some(module) = module.filter(|module| module.exact) else {
        return Some(runs(at, format!("the module that {name} runs is not known")));
    };
    if !MODULES.contains(&module.text.as_str()) {
        return Some(runs(
            at,
            format!("the module {} may run code of the line's own", module.text),
        ));
    }
    if let Some(place) = rest.iter().position(|word| word.text == "-" || is_code_incoming(word)) {
        return Some(runs(behind + place, format!("{} may run what comes in", module.text)));
    }
    let mut words = vec![module.clone()];
    words.extend(rest.iter().cloned());
    let inner = first_of(&Invocation { words, transparent: false }, true)?;
    Some(Hazard { at: inner.at + behind, ..inner })
}

fn by_subcommand(name: &str, rest: &[Word]) -> Option<Hazard> {
    let known: &[&str] = &[
        "run", "test", "fmt", "lint", "check", "task", "bench", "compile", "doc", "info", "cache",
        "install", "add", "remove", "upgrade", "types", "vendor", "init", "publish", "serve",
        "coverage", "update", "build", "create", "pm", "link", "outdated", "unlink",
    ];
    let first = rest.first().filter(|word| word.exact);
    let Some(first) = first else {
        return Some(runs(0, format!("{name} runs what comes in")));
    };
    let text = first.text.as_str();
    let is_file = text.contains(['.', '/']) && !text.starts_with('-');
    if !known.contains(&text) && !is_file {
        return Some(runs(0, format!("{name} {text} may run code of the line's own")));
    }
    let place = rest.iter().position(|word| word.text == "-" || is_code_incoming(word))?;
    Some(runs(place, format!("{name} runs what comes in")))
}

/// awk, whose program is its first operand, or stands in files.
pub(super) fn awk(rest: &[Word]) -> Option<Hazard> {
    const FLAGS: &str = "bcknNOPrsStIhVMLdpoD";
    const LONG: &str = "posix traditional re-interval lint sandbox csv characters-as-bytes non-decimal-data optimize use-lc-numeric \
        no-optimize field-separator assign file exec include load version help pretty-print dump-variables debug profile source bignum";
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        let text = word.text.as_str();
        if !text.starts_with('-') || text == "-" || text == "--" {
            break;
        }
        if let Some(long) = text.strip_prefix("--") {
            let (key, value) = long.split_once('=').map_or((long, None), |(k, v)| (k, Some(v)));
            if !has(LONG, key) {
                return Some(runs(at, format!("awk {text} may run code of the line's own")));
            }
            if value.is_none()
                && matches!(
                    key,
                    "field-separator" | "assign" | "file" | "exec" | "include" | "load"
                )
            {
                at += 1;
            }
        } else {
            for (place, letter) in text.char_indices().skip(1) {
                if "FvfEile".contains(letter) {
                    if text.len() == place + 1 {
                        at += 1;
                    }
                    break;
                }
                if !FLAGS.contains(letter) {
                    return Some(runs(at, format!("awk {text} may run code of the line's own")));
                }
            }
        }
        at += 1;
    }
    None
}
