//! Options by which a harmless command writes a file or runs another one. A rule that allows `sort` does not mean `sort -o`; one that
//! names the option does.

use super::{Invocation, Word};

/// An argument that makes more of a command than its name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hazard {
    /// The word's place, 0 being the command's name.
    pub at: usize,
    /// What it does.
    pub reason: String,
}

struct Options {
    names: &'static [&'static str],
    /// One-letter options, also in a cluster (`-ni`).
    short: &'static str,
    /// Long options; abbreviations count.
    long: &'static [&'static str],
    /// Words that count as they are, or up to their `=`.
    words: &'static [&'static str],
}

const fn options(
    names: &'static [&'static str],
    short: &'static str,
    long: &'static [&'static str],
    words: &'static [&'static str],
) -> Options {
    Options { names, short, long, words }
}

const OPTIONS: &[Options] = &[
    options(&["sed", "gsed"], "if", &["in-place", "file"], &[]),
    options(&["find"], "", &[], &["-delete", "-fprint", "-fprint0", "-fprintf", "-fls"]),
    options(&["fd", "fdfind"], "xX", &["exec", "exec-batch"], &[]),
    options(&["sort"], "oT", &["output", "compress-program", "temporary-directory"], &[]),
    options(&["rg", "ripgrep"], "", &["pre", "hostname-bin"], &[]),
    options(&["ag", "ack", "bat", "delta"], "", &["pager"], &[]),
    options(
        &["tar", "bsdtar", "gtar"],
        "IF",
        &[
            "to-command",
            "checkpoint-action",
            "use-compress-program",
            "rsh-command",
            "info-script",
            "new-volume-script",
            "rmt-command",
        ],
        &[],
    ),
    options(
        &["awk", "gawk", "mawk", "nawk"],
        "fiElpodD",
        &["file", "include", "exec", "load", "profile", "pretty-print", "dump-variables", "debug"],
        &[],
    ),
    options(&["python", "python2", "python3", "pypy", "pypy3"], "cim", &[], &[]),
    options(&["perl"], "eEnpiIMmx", &[], &[]),
    options(&["ruby"], "enpirIx", &[], &[]),
    options(
        &["node", "nodejs", "deno", "bun"],
        "eprc",
        &["eval", "print", "require", "import", "loader", "experimental-loader"],
        &[],
    ),
    options(&["php"], "rBREdz", &["run"], &[]),
    options(&["lua", "luajit"], "el", &[], &[]),
    options(
        &["vim", "vi", "nvim", "view", "ex", "vimdiff"],
        "cSsuUeEW",
        &["cmd", "startuptime"],
        &[],
    ),
    options(
        &["emacs", "emacsclient"],
        "fl",
        &["eval", "execute", "load", "funcall", "script"],
        &[],
    ),
    options(&["less", "more", "most"], "oOkT", &["log-file", "LOG-FILE", "lesskey-file"], &[]),
    options(&["man"], "PHCM", &["pager", "html", "config-file", "preprocessor"], &[]),
    options(
        &["curl"],
        "oOTKDcJd",
        &[
            "output",
            "remote-name",
            "upload-file",
            "config",
            "dump-header",
            "cookie-jar",
            "trace",
            "trace-ascii",
            "stderr",
            "data",
            "data-binary",
            "form",
            "output-dir",
            "engine",
            "libcurl",
            "etag-save",
            "hsts",
            "alt-svc",
        ],
        &[],
    ),
    options(
        &["wget"],
        "OoaePi",
        &[
            "output-document",
            "output-file",
            "append-output",
            "execute",
            "directory-prefix",
            "post-file",
            "body-file",
            "use-askpass",
            "input-file",
            "config",
            "warc-file",
            "save-cookies",
        ],
        &[],
    ),
    options(
        &["rsync"],
        "e",
        &["rsh", "rsync-path", "log-file", "remove-source-files", "delete"],
        &[],
    ),
    options(&["scp", "sftp"], "SoFbD", &[], &[]),
    options(&["zip"], "TmO", &["unzip-command", "test", "move", "output-file"], &["-TT"]),
    options(&["split"], "", &["filter"], &[]),
    options(&["shuf"], "o", &["output"], &[]),
    options(&["tree"], "o", &[], &[]),
    options(&["file"], "Cm", &["compile", "magic-file"], &[]),
    options(&["date"], "s", &["set"], &[]),
    options(
        &["make", "gmake"],
        "fCIEj",
        &["file", "makefile", "directory", "eval", "include-dir", "environment-overrides"],
        &[],
    ),
    options(
        &["npm", "pnpm", "yarn", "npx"],
        "Cc",
        &[
            "script-shell",
            "prefix",
            "node-options",
            "userconfig",
            "globalconfig",
            "call",
            "shell",
            "cwd",
            "use-yarnrc",
        ],
        &[],
    ),
    options(&["cargo"], "ZC", &["config", "manifest-path"], &[]),
    options(
        &["go"],
        "o",
        &[],
        &[
            "-exec",
            "-toolexec",
            "-vettool",
            "-overlay",
            "-modfile",
            "-C",
            "--exec",
            "--toolexec",
            "--vettool",
            "--overlay",
            "--modfile",
        ],
    ),
    options(
        &["pytest", "py.test"],
        "pco",
        &[
            "rootdir",
            "override-ini",
            "confcutdir",
            "basetemp",
            "junitxml",
            "debugger",
            "pdbcls",
            "import-mode",
        ],
        &[],
    ),
    options(
        &["jest", "vitest", "mocha"],
        "cr",
        &["config", "require", "globalSetup", "setupFiles", "rootDir"],
        &[],
    ),
    options(
        &["tsc", "eslint", "prettier"],
        "co",
        &[
            "config",
            "plugin",
            "rulesdir",
            "resolve-plugins-relative-to",
            "output-file",
            "fix",
            "write",
            "parser",
            "plugin-search-dir",
        ],
        &[],
    ),
    options(&["yq"], "i", &["inplace", "in-place"], &[]),
    options(&["fzf"], "", &["preview", "bind", "history"], &[]),
    options(
        &["nc", "ncat", "netcat", "socat"],
        "ec",
        &["exec", "sh-exec", "lua-exec"],
        &["EXEC", "SYSTEM"],
    ),
    options(
        &["openssl"],
        "",
        &[],
        &["-engine", "-provider", "-provider-path", "-out", "-writerand", "-config"],
    ),
    options(
        &["gdb", "lldb"],
        "xoes",
        &["command", "eval-command", "ex", "one-line", "source"],
        &["-ex", "-ix", "-iex"],
    ),
    options(&["sqlite3"], "", &[], &["-cmd", "-init", "-A"]),
    options(&["psql"], "cfoL", &["command", "file", "output", "log-file"], &[]),
    options(&["mysql", "mariadb"], "e", &["execute", "pager", "tee"], &[]),
    options(&["apt", "apt-get"], "oc", &["option", "config-file"], &[]),
    options(
        &["pip", "pip3"],
        "rcei",
        &[
            "requirement",
            "index-url",
            "extra-index-url",
            "editable",
            "target",
            "prefix",
            "root",
            "log",
        ],
        &[],
    ),
    options(
        &["gcc", "cc", "g++", "clang"],
        "oBT",
        &["wrapper", "specs", "plugin"],
        &["-wrapper", "-specs", "-fplugin"],
    ),
    options(&["ps", "pgrep", "lsof", "ss"], "D", &[], &[]),
    options(&["printf"], "v", &[], &[]),
    options(&["hostname"], "bF", &["boot", "file"], &[]),
    options(&["xxd"], "r", &["revert"], &[]),
    options(&["ed", "red", "dc", "bc"], "", &[], &[]),
    options(&["ffmpeg", "convert", "magick"], "", &[], &[]),
    options(&["unzip", "7z", "7za"], "", &[], &[]),
    options(&["history"], "warnc", &[], &[]),
];

const GIT_GLOBAL: &[&str] = &[
    "-c",
    "-C",
    "--config-env",
    "--exec-path",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "-p",
    "--paginate",
    "--super-prefix",
    "--attr-source",
];
const GIT_ANYWHERE: &[&str] = &[
    "--output",
    "--output-directory",
    "--ext-diff",
    "--textconv",
    "--upload-pack",
    "--receive-pack",
    "--exec",
    "--open-files-in-pager",
    "--template",
    "--separate-git-dir",
    "--extcmd",
    "--tool",
    "--gpg-sign",
    "--filter",
    "--index-filter",
    "--tree-filter",
    "--msg-filter",
    "--run",
    "--edit",
    "--config",
    "--hook-path",
    "--pager",
];

/// The first hazard of a command, if it has one.
pub(crate) fn hazard(command: &Invocation) -> Option<Hazard> {
    let name = command.name();
    let rest = command.words.get(1..).unwrap_or_default();
    let found = match name {
        "git" => git(rest),
        _ => None,
    };
    found.or_else(|| by_table(name, rest)).or_else(|| by_text(name, rest))
}

fn at(place: usize, reason: impl Into<String>) -> Option<Hazard> {
    Some(Hazard { at: place + 1, reason: reason.into() })
}

fn by_table(name: &str, rest: &[Word]) -> Option<Hazard> {
    let options = OPTIONS.iter().find(|options| options.names.contains(&name))?;
    for (place, word) in rest.iter().enumerate() {
        let text = word.text.as_str();
        if text == "--" && word.exact && !matches!(name, "npm" | "pnpm" | "yarn" | "cargo") {
            return None;
        }
        if !word.exact && word.maybe_option {
            return at(
                place,
                format!("{text:?} may become an option of {name} that writes, or runs something"),
            );
        }
        if options.dangerous(text) {
            return at(place, format!("{name} {text} may write a file, or run something"));
        }
    }
    None
}

impl Options {
    fn dangerous(&self, text: &str) -> bool {
        let key = text.split('=').next().unwrap_or(text);
        if self.words.iter().any(|word| {
            key == *word || (!word.starts_with('-') && text.to_uppercase().starts_with(word))
        }) {
            return true;
        }
        if let Some(long) = text.strip_prefix("--") {
            let long = long.split('=').next().unwrap_or(long);
            return !long.is_empty()
                && self.long.iter().any(|known| known.starts_with(long) || long == *known);
        }
        match text.strip_prefix('-') {
            // find and go have long options with one dash; their letters are no cluster.
            Some(cluster) => {
                !cluster.is_empty() && cluster.chars().any(|letter| self.short.contains(letter))
            }
            None => false,
        }
    }
}

/// Commands whose plain arguments are programs of their own, or name files to write.
fn by_text(name: &str, rest: &[Word]) -> Option<Hazard> {
    let operands = || {
        rest.iter().enumerate().filter(|(_, word)| !word.text.starts_with('-') || word.text == "-")
    };
    match name {
        "sed" | "gsed" => sed(rest),
        "awk" | "gawk" | "mawk" | "nawk" => operands()
            .find(|(_, word)| {
                !word.exact
                    || word.text.contains("system")
                    || word.text.contains(['|', '>', '@', '`'])
                    || word.text.contains("getline")
                    || word.text.contains("printf >")
            })
            .and_then(|(place, _)| at(place, "an awk program may write files and run commands")),
        "dd" => rest
            .iter()
            .position(|word| word.text.starts_with("of=") || !word.exact)
            .and_then(|place| at(place, "dd writes")),
        "uniq" | "xxd" => operands()
            .nth(1)
            .and_then(|(place, _)| at(place, format!("the second operand of {name} is written"))),
        "make" | "gmake" => rest
            .iter()
            .position(|word| word.text.contains('='))
            .and_then(|place| at(place, "a variable of make may be a command")),
        "vim" | "vi" | "nvim" | "view" | "ex" | "less" | "more" | "vimdiff" => rest
            .iter()
            .position(|word| word.text.starts_with('+'))
            .and_then(|place| at(place, format!("{name} runs what follows '+'"))),
        "cargo" => rest
            .first()
            .filter(|word| word.text.starts_with('+'))
            .and_then(|_| at(0, "another toolchain runs")),
        "sqlite3" | "ed" | "dc" | "bc" | "gdb" | "ffmpeg" => operands()
            .nth(1)
            .and_then(|(place, _)| at(place, format!("{name} has commands that run others"))),
        "hostname" => operands().next().and_then(|(place, _)| at(place, "hostname sets the name")),
        _ => None,
    }
}

fn git(rest: &[Word]) -> Option<Hazard> {
    let mut before_subcommand = true;
    let mut subcommand = "";
    for (place, word) in rest.iter().enumerate() {
        let text = word.text.as_str();
        let key = text.split('=').next().unwrap_or(text);
        if !word.exact && word.maybe_option {
            return at(place, format!("{text:?} may become an option of git that runs something"));
        }
        if before_subcommand {
            if GIT_GLOBAL.contains(&key)
                || (text.starts_with("-c") && text != "-c" && !text.starts_with("--"))
            {
                return at(place, format!("git {text} changes what git runs"));
            }
            if !text.starts_with('-') {
                before_subcommand = false;
                subcommand = text;
            }
            continue;
        }
        if text == "--" {
            break;
        }
        let abbreviated =
            |known: &&str| key.len() > 3 && key.starts_with("--") && known.starts_with(key);
        if GIT_ANYWHERE.iter().any(abbreviated) {
            return at(
                place,
                format!("git {subcommand} {text} may write a file, or run something"),
            );
        }
        let short = match subcommand {
            "rebase" | "difftool" | "mergetool" => "xt",
            "clone" => "uc",
            "fetch" | "pull" | "ls-remote" => "u",
            "grep" => "O",
            "archive" => "o",
            "config" => "ef",
            "format-patch" => "o",
            "diff" | "log" | "show" => "",
            _ => "",
        };
        if let Some(cluster) = text.strip_prefix('-').filter(|cluster| !cluster.starts_with('-'))
            && cluster.chars().any(|letter| short.contains(letter))
        {
            return at(
                place,
                format!("git {subcommand} {text} may write a file, or run something"),
            );
        }
        if text.contains("ext::") || text.starts_with("fd::") {
            return at(place, "this address runs a command");
        }
        let runs = matches!(
            (subcommand, text),
            ("bisect", "run")
                | ("submodule", "foreach")
                | ("remote", "add" | "set-url" | "update")
                | (
                    "stash",
                    "drop"
                        | "clear"
                        | "pop"
                        | "apply"
                        | "push"
                        | "store"
                        | "branch"
                        | "create"
                        | "save"
                )
                | ("reflog", "expire" | "delete")
                | ("worktree", "add")
                | ("lfs", _)
                | ("svn", _)
                | ("p4", _)
        );
        if runs {
            return at(
                place,
                format!("git {subcommand} {text} changes the repository, or runs something"),
            );
        }
    }
    let plumbing = [
        "filter-branch",
        "config",
        "instaweb",
        "daemon",
        "send-email",
        "credential",
        "shell",
        "upload-pack",
        "receive-pack",
        "hook",
        "maintenance",
        "difftool",
        "mergetool",
        "citool",
        "gui",
    ];
    let asked = |word: &Word| {
        matches!(
            word.text.as_str(),
            "--get" | "--get-all" | "--list" | "-l" | "--get-regexp" | "get" | "list"
        )
    };
    if plumbing.contains(&subcommand) && !(subcommand == "config" && rest.iter().any(asked)) {
        let place = rest.iter().position(|word| word.text == subcommand).unwrap_or(0);
        return at(place, format!("git {subcommand} runs, or configures, other programs"));
    }
    None
}

/// A sed program may write (`w`) and run (`e`).
fn sed(rest: &[Word]) -> Option<Hazard> {
    let mut scripts = Vec::new();
    let mut place = 0;
    while let Some(word) = rest.get(place) {
        let text = word.text.as_str();
        if text == "-e" || text == "--expression" {
            place += 1;
            if let Some(script) = rest.get(place) {
                scripts.push((place, script.text.clone(), script.exact));
            }
        } else if let Some(script) = text.strip_prefix("--expression=") {
            scripts.push((place, script.to_owned(), word.exact));
        } else if text.starts_with('-') && text.contains('e') && !text.starts_with("--") {
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
    let (place, _, _) =
        scripts.into_iter().find(|(_, script, exact)| !exact || !plain_sed(script))?;
    at(
        place,
        "a sed program may write files and run commands; this one is not plain enough to tell",
    )
}

/// Printing, deleting and substituting lines, and nothing else.
pub(super) fn plain_sed(script: &str) -> bool {
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
