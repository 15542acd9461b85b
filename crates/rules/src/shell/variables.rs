//! What a line does with variables: texts that bash evaluates once more, names that are not known before it runs, and variables that
//! change what later commands do.

use super::{Analysis, Word};
use std::collections::{BTreeMap, BTreeSet};

/// What a variable may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Value {
    /// A number, which evaluates to itself.
    Number,
    /// One word without a subscript, and no option: arithmetic looks for the variables it names, and no further.
    Text,
    /// Anything; a command in a subscript, or several words, too.
    Unknown,
}

impl Value {
    pub fn of(word: &Word) -> Self {
        let text = word.text.as_str();
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        match word.exact {
            true if is_number => Self::Number,
            // One arithmetic expansion and nothing else.
            false if text == "$((…))" || text == "$#" => Self::Number,
            true if !text.contains(['[', ' ', '\t', '\n', ',', ':']) && !text.starts_with('-') => {
                Self::Text
            }
            _ => Self::Unknown,
        }
    }
}

/// The variables of a line. What matters is known at its end alone: a loop's body may come before what it runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Variables {
    values: BTreeMap<String, Value>,
    /// What they may hold, as patterns of what a word becomes; `None`: anything.
    texts: BTreeMap<String, Option<BTreeSet<String>>>,
    /// Each known value that a name is given, by whatever way, with the name.
    given: BTreeSet<(String, String)>,
    /// Names that arithmetic evaluates: it evaluates a variable's text once more, and runs the commands in its subscripts.
    evaluated: BTreeSet<String>,
    /// Names that become part of the environment.
    exported: BTreeSet<String>,
    /// Words that would name a variable if they held an option.
    names_by_chance: bool,
    /// Functions, and commands whose words may hold anything: together they are arguments.
    functions: BTreeSet<String>,
    calls: BTreeSet<String>,
}

/// Variables that bash evaluates as arithmetic whenever they are assigned.
const INTEGERS: &[&str] = &[
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "LINENO",
    "OPTIND",
    "HISTCMD",
    "HISTSIZE",
    "HISTFILESIZE",
    "TMOUT",
    "BASHPID",
    "PPID",
    "UID",
    "EUID",
    "GROUPS",
    "EPOCHSECONDS",
    "EPOCHREALTIME",
    "OPTERR",
    "BASH_MONOSECONDS",
    "COLUMNS",
    "LINES",
];

impl Variables {
    pub fn set_to(&mut self, name: &str, words: &[Word]) {
        for word in words {
            self.given(name, &word.text);
        }
        let before = self.texts.remove(name);
        let fresh: Option<BTreeSet<String>> = words
            .iter()
            .map(|word| (!word.text.contains('…')).then(|| word.text.clone()))
            .collect();
        let both = match (before, fresh) {
            (None, fresh) => fresh,
            (Some(Some(before)), Some(fresh)) => Some(before.union(&fresh).cloned().collect()),
            _ => None,
        };
        let value = words.iter().map(Value::of).max().unwrap_or(Value::Number);
        self.set(name, value);
        self.texts.insert(name.to_owned(), both);
    }

    pub fn assignments(&self) -> impl Iterator<Item = (&str, &str)> {
        self.given.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    pub fn given(&mut self, name: &str, text: &str) {
        if !text.contains('…') {
            self.given.insert((name.to_owned(), text.to_owned()));
        }
    }

    /// What is assigned, as far as that is known.
    pub fn assigned_texts(&self) -> impl Iterator<Item = &str> {
        self.texts.values().flatten().flatten().map(String::as_str)
    }

    /// What a text may become, `$name…` being what that variable holds and `…` alone whatever is not known.
    pub fn possible_texts(&self, text: &str) -> Vec<String> {
        let mut done = Vec::new();
        let mut open = vec![text.to_owned()];
        while let Some(text) = open.pop() {
            let named = text.match_indices('$').find_map(|(at, _)| {
                let (name, _) = text.get(at + 1..)?.split_once('…')?;
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
                (!name.is_empty() && name.chars().all(plain)).then(|| (at, name.to_owned()))
            });
            let Some((at, name)) = named else {
                done.push(text);
                continue;
            };
            let (before, behind) = (
                text.get(..at).unwrap_or_default(),
                text.get(at + name.len() + 1 + '…'.len_utf8()..).unwrap_or_default(),
            );
            match self.texts.get(&name) {
                Some(Some(values)) if values.len() + open.len() + done.len() < 64 => {
                    open.extend(values.iter().map(|value| format!("{before}{value}{behind}")));
                }
                _ => open.push(format!("{before}…{behind}")),
            }
        }
        done
    }

    pub fn set(&mut self, name: &str, value: Value) {
        self.texts.insert(name.to_owned(), None);
        let known = self.values.entry(name.to_owned()).or_insert(value);
        *known = value.max(*known);
    }

    /// Arguments of a function, or of a line that a shell is given.
    pub fn arguments(&mut self, words: &[Word]) {
        if let Some(value) = words.iter().map(Value::of).max() {
            self.set("1", value);
        }
    }

    /// A function is defined, here or in a shell that is started.
    pub fn defined(&mut self, name: &str) {
        self.functions.insert(name.to_owned());
    }

    /// A command is run that may be a function.
    pub fn called(&mut self, words: &[Word]) {
        let Some((name, rest)) = words.split_first() else { return };
        if rest.iter().any(|word| Value::of(word) == Value::Unknown) {
            self.calls.insert(name.text.clone());
        }
    }

    pub fn evaluated(&mut self, name: &str) {
        if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            self.evaluated.insert(name.to_owned());
        }
    }

    pub fn exported(&mut self, name: &str) {
        self.exported.insert(name.to_owned());
    }

    pub fn named_by_chance(&mut self) {
        self.names_by_chance = true;
    }

    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        // Bash sets it to the last word of the command before.
        if self.evaluated.contains("_") {
            doubts.push("arithmetic evaluates $_, the last word of the command before".into());
        }
        if self.names_by_chance && !self.functions.is_disjoint(&self.calls) {
            doubts.push(
                "a function's argument may become an option that evaluates the word after it"
                    .into(),
            );
        }
        for (name, value) in self.values.iter().filter(|(_, value)| **value > Value::Number) {
            if self.evaluated.contains(name) || INTEGERS.contains(&name.as_str()) {
                doubts.push(format!(
                    "arithmetic evaluates the text of {name}, and may run a command in it"
                ));
            } else if self.names_by_chance && *value == Value::Unknown {
                doubts.push(format!(
                    "what {name} holds may become an option that evaluates the word after it"
                ));
            }
        }
        for name in self.exported.iter().filter(|name| !is_harmless(name)) {
            if self.values.contains_key(name) {
                doubts.push(format!(
                    "the variable {name} is exported, and may change what later commands do"
                ));
            }
        }
        doubts
    }
}

/// Whether a word certainly names one variable, and evaluates nothing to find it.
pub(super) fn is_name(word: &Word) -> bool {
    let (name, index) = match word.text.split_once('[') {
        Some((name, index)) => (name, index.strip_suffix(']')),
        None => (word.text.as_str(), Some("0")),
    };
    let plain =
        |index: &str| matches!(index, "@" | "*") || index.bytes().all(|byte| byte.is_ascii_digit());
    word.exact
        && (name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            || name.bytes().all(|byte| byte.is_ascii_digit()))
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && index.is_some_and(plain)
}

/// Variables that change nothing but what a program says, so that a command may be run with them set.
const HARMLESS: &[&str] = &[
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "LINES",
    "CI",
    "DEBUG",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "RUST_MIN_STACK",
    "CARGO_TERM_COLOR",
    "CARGO_INCREMENTAL",
    "NODE_ENV",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "GIT_TERMINAL_PROMPT",
    "GIT_OPTIONAL_LOCKS",
    "VERBOSE",
    "V",
    "SOURCE_DATE_EPOCH",
    "DEBIAN_FRONTEND",
    "GOOS",
    "GOARCH",
    "CGO_ENABLED",
];

/// Whether a variable changes nothing of what commands do.
pub(super) fn is_harmless(name: &str) -> bool {
    HARMLESS.contains(&name) || name.starts_with("LC_")
}

/// Variables that programs act upon and that may well be in the environment already, so that assigning them is enough.
const ACTS: &str = "PATH IFS ENV PS4 PROMPT_COMMAND SHELLOPTS BASHOPTS CDPATH HOME EDITOR VISUAL PAGER MANPAGER SYSTEMD_PAGER SHELL \
    GLOBIGNORE EXECIGNORE LESS LESSOPEN LESSCLOSE LESSKEY LESSKEYIN BROWSER TAR_OPTIONS MAKEFLAGS MAKEFILES GNUMAKEFLAGS EXINIT VIMINIT \
    GVIMINIT VIM VIMRUNTIME MYVIMRC MANOPT MANROFFOPT TERMINFO TERMCAP FIGNORE INPUTRC HISTFILE FCEDIT POSIXLY_CORRECT \
    RIPGREP_CONFIG_PATH GREP_OPTIONS SSH_ASKPASS SUDO_ASKPASS SUDO_EDITOR SSH_AUTH_SOCK DOCKER_HOST KUBECONFIG CC CXX CPP LD AR AS \
    RUSTC RUSTDOC RUSTFLAGS GOFLAGS GOROOT CFLAGS CXXFLAGS LDFLAGS JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH RSYNC_RSH \
    CVS_RSH ZIPOPT UNZIP XZ_OPT GREP_COLOR AWKPATH AWKLIBPATH PSQL_EDITOR WGETRC CURL_HOME NETRC INIT EMACSLOADPATH ZDOTDIR TEXINPUTS \
    GCONV_PATH LOCPATH NLSPATH MALLOC_TRACE HOSTALIASES RES_OPTIONS LOCALDOMAIN GETCONF_DIR OPENSSL_CONF SSL_CERT_FILE PKG_CONFIG PYTEST_ADDOPTS";
const FAMILIES: &[&str] = &[
    "LD_",
    "BASH_",
    "GIT_",
    "PYTHON",
    "PERL",
    "NODE_",
    "RUBY",
    "GEM_",
    "BUNDLE_",
    "DYLD_",
    "JAVA_",
    "MAVEN_",
    "GRADLE_",
    "CARGO_",
    "RUSTC",
    "RUSTUP_",
    "NPM_",
    "npm_",
    "YARN_",
    "XDG_",
    "LUA_",
    "PHP",
    "DENO_",
    "BUN_",
    "DBUS_",
    "FZF_",
    "PIP_",
    "UV_",
    "GPG_",
    "CMAKE_",
    "CCACHE_",
    "GCC_",
    "LESS_",
    "LIBRARY_",
    "DEBUGINFOD_",
];

/// A variable of the shell itself. Those that programs, or bash, act upon are exported already or need no export.
pub(super) fn assigned(name: &str, analysis: &mut Analysis) {
    let acts = ACTS.split_whitespace().any(|known| known == name);
    if acts || FAMILIES.iter().any(|family| name.starts_with(family)) {
        analysis.doubts.push(format!("the variable {name} may change what later commands do"));
    }
}
