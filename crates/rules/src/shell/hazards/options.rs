//! Options by which a command writes a file or runs another one.

use super::{Hazard, changes, runs};
use crate::shell::Word;

struct Tool {
    names: &'static [&'static str],
    /// What runs code that stands in the line.
    runs: Flags,
    /// What writes, or runs what lies in a file.
    changes: Flags,
}

struct Flags {
    /// One-letter options, also in a cluster (`-ni`).
    short: &'static str,
    /// Long options; abbreviations count.
    long: &'static [&'static str],
    /// Words that count as they are, or up to their `=`; those in capitals at a word's beginning, whatever its case.
    words: &'static [&'static str],
}

const fn tool(names: &'static [&'static str], runs: Flags, changes: Flags) -> Tool {
    Tool { names, runs, changes }
}

const fn flags(
    short: &'static str,
    long: &'static [&'static str],
    words: &'static [&'static str],
) -> Flags {
    Flags { short, long, words }
}

const NONE: Flags = flags("", &[], &[]);

const TOOLS: &[Tool] = &[
    tool(&["sed", "gsed"], NONE, flags("if", &["in-place", "file"], &[])),
    tool(&["find"], NONE, flags("", &[], &["-delete", "-fprint", "-fprint0", "-fprintf", "-fls"])),
    tool(&["fd", "fdfind"], flags("xX", &["exec", "exec-batch"], &[]), NONE),
    tool(
        &["sort"],
        flags("", &["compress-program"], &[]),
        flags("oT", &["output", "temporary-directory"], &[]),
    ),
    tool(&["rg", "ripgrep"], flags("", &["pre", "hostname-bin"], &[]), NONE),
    tool(&["ag", "ack", "bat", "delta"], flags("", &["pager"], &[]), NONE),
    tool(
        &["tar", "bsdtar", "gtar"],
        flags(
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
        NONE,
    ),
    tool(
        &["awk", "gawk", "mawk", "nawk"],
        flags("e", &["source"], &[]),
        flags(
            "fiElpodD",
            &[
                "file",
                "include",
                "exec",
                "load",
                "profile",
                "pretty-print",
                "dump-variables",
                "debug",
            ],
            &[],
        ),
    ),
    tool(&["python", "pypy"], flags("ci", &[], &[]), flags("m", &[], &[])),
    tool(&["perl"], flags("eEMm", &[], &[]), flags("inpIx", &[], &[])),
    tool(&["ruby"], flags("e", &[], &[]), flags("inprIx", &[], &[])),
    tool(
        &["node", "nodejs", "deno", "bun"],
        flags("epr", &["eval", "print", "require", "import", "loader", "experimental-loader"], &[]),
        flags("c", &[], &[]),
    ),
    tool(&["php"], flags("rBREd", &["run"], &[]), flags("z", &[], &[])),
    tool(&["lua", "luajit"], flags("e", &[], &[]), flags("l", &[], &[])),
    tool(
        &["vim", "vi", "nvim", "view", "ex", "vimdiff"],
        flags("ceE", &["cmd"], &[]),
        flags("SsuUW", &["startuptime"], &[]),
    ),
    tool(
        &["emacs", "emacsclient"],
        flags("f", &["eval", "execute", "funcall"], &[]),
        flags("l", &["load", "script"], &[]),
    ),
    tool(
        &["less", "more", "most"],
        flags("", &["cmd"], &[]),
        flags("oOkT", &["log-file", "LOG-FILE", "lesskey-file"], &[]),
    ),
    tool(
        &["man"],
        flags("PH", &["pager", "html"], &[]),
        flags("CM", &["config-file", "preprocessor"], &[]),
    ),
    tool(
        &["curl"],
        NONE,
        flags(
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
    ),
    tool(
        &["wget"],
        flags("e", &["execute", "use-askpass"], &[]),
        flags(
            "OoaPi",
            &[
                "output-document",
                "output-file",
                "append-output",
                "directory-prefix",
                "post-file",
                "body-file",
                "input-file",
                "config",
                "warc-file",
                "save-cookies",
            ],
            &[],
        ),
    ),
    tool(
        &["rsync"],
        flags("e", &["rsh", "rsync-path"], &[]),
        flags("", &["log-file", "remove-source-files", "delete"], &[]),
    ),
    tool(&["scp", "sftp"], flags("SoD", &[], &[]), flags("Fb", &[], &[])),
    tool(
        &["zip"],
        flags("T", &["unzip-command"], &["-TT"]),
        flags("mO", &["test", "move", "output-file"], &[]),
    ),
    tool(&["split"], flags("", &["filter"], &[]), NONE),
    tool(&["shuf"], NONE, flags("o", &["output"], &[])),
    tool(&["tree"], NONE, flags("o", &[], &[])),
    tool(&["file"], NONE, flags("Cm", &["compile", "magic-file"], &[])),
    tool(&["date"], NONE, flags("s", &["set"], &[])),
    tool(
        &["make", "gmake"],
        flags("E", &["eval"], &[]),
        flags(
            "fCIj",
            &["file", "makefile", "directory", "include-dir", "environment-overrides"],
            &[],
        ),
    ),
    tool(
        &["npm", "pnpm", "yarn", "npx"],
        flags("c", &["script-shell", "node-options", "call", "shell"], &[]),
        flags("C", &["prefix", "userconfig", "globalconfig", "cwd", "use-yarnrc"], &[]),
    ),
    tool(&["cargo"], flags("", &["config"], &[]), flags("ZC", &["manifest-path"], &[])),
    tool(
        &["go"],
        flags("", &[], &["-exec", "-toolexec", "-vettool", "--exec", "--toolexec", "--vettool"]),
        flags("o", &[], &["-overlay", "-modfile", "-C", "--overlay", "--modfile"]),
    ),
    tool(
        &["pytest", "py.test"],
        flags("", &["override-ini"], &[]),
        flags(
            "pco",
            &["rootdir", "confcutdir", "basetemp", "junitxml", "debugger", "pdbcls", "import-mode"],
            &[],
        ),
    ),
    tool(
        &["jest", "vitest", "mocha"],
        NONE,
        flags("cr", &["config", "require", "globalSetup", "setupFiles", "rootDir"], &[]),
    ),
    tool(
        &["tsc", "eslint", "prettier"],
        NONE,
        flags(
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
    ),
    tool(&["yq"], NONE, flags("i", &["inplace", "in-place"], &[])),
    tool(&["fzf"], flags("", &["preview", "bind"], &[]), flags("", &["history"], &[])),
    tool(
        &["nc", "ncat", "netcat", "socat"],
        flags("ec", &["exec", "sh-exec", "lua-exec"], &["EXEC", "SYSTEM"]),
        NONE,
    ),
    tool(
        &["openssl"],
        NONE,
        flags(
            "",
            &[],
            &["-engine", "-provider", "-provider-path", "-out", "-writerand", "-config"],
        ),
    ),
    tool(
        &["gdb", "lldb"],
        flags("eo", &["eval-command", "ex", "one-line", "one-line-before-file"], &["-ex", "-iex"]),
        flags("xs", &["command", "source"], &["-ix"]),
    ),
    tool(&["sqlite"], flags("", &[], &["-cmd"]), flags("", &[], &["-init", "-A"])),
    tool(
        &["psql"],
        flags("c", &["command"], &[]),
        flags("foL", &["file", "output", "log-file"], &[]),
    ),
    tool(&["mysql", "mariadb"], flags("e", &["execute", "pager"], &[]), flags("", &["tee"], &[])),
    tool(&["apt", "apt-get"], flags("o", &["option"], &[]), flags("c", &["config-file"], &[])),
    tool(
        &["pip"],
        NONE,
        flags(
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
    ),
    tool(
        &["gcc", "cc", "g++", "clang"],
        flags("", &["wrapper"], &["-wrapper"]),
        flags("oBT", &["specs", "plugin"], &["-specs", "-fplugin"]),
    ),
    tool(&["ps", "pgrep", "lsof", "ss"], NONE, flags("D", &[], &[])),
    tool(&["printf"], NONE, flags("v", &[], &[])),
    tool(&["hostname"], NONE, flags("bF", &["boot", "file"], &[])),
    tool(&["xxd"], NONE, flags("r", &["revert"], &[])),
    tool(&["history"], NONE, flags("warnc", &[], &[])),
    tool(&["install", "ginstall"], flags("", &["strip-program"], &[]), NONE),
    tool(&["dc"], flags("e", &["expression"], &[]), flags("f", &["file"], &[])),
    tool(&["gnuplot"], flags("e", &[], &[]), NONE),
    tool(
        &[
            "R", "Rscript", "julia", "octave", "guile", "racket", "sbcl", "clojure", "elixir",
            "erl", "ghc", "scala", "groovy", "raku", "tclsh", "iex", "swift", "crystal", "nim",
        ],
        flags("eEcr", &["eval", "load", "expr", "no-halt"], &["-eval", "-run", "-s", "-c", "-e"]),
        flags("lf", &["file"], &[]),
    ),
    tool(
        &["pwsh", "powershell", "nu", "osascript", "xonsh", "elvish"],
        flags("cCeE", &["command", "commands", "execute"], &["-Command", "-EncodedCommand"]),
        flags("f", &["file"], &["-File"]),
    ),
    tool(&["rpm", "rpmbuild"], flags("E", &["eval", "define", "pipe"], &[]), NONE),
    tool(&["dpkg"], flags("", &["pre-invoke", "post-invoke", "status-logger"], &[]), NONE),
    tool(&["tcpdump"], flags("z", &["postrotate-command"], &[]), flags("wF", &[], &[])),
    tool(&["tshark", "wireshark"], flags("X", &[], &[]), flags("w", &[], &[])),
    tool(&["nmap"], flags("", &["script", "interactive"], &[]), flags("o", &[], &[])),
    tool(
        &["hg", "svn", "bzr"],
        flags(
            "",
            &[
                "config",
                "config-option",
                "diff-cmd",
                "diff3-cmd",
                "editor-cmd",
                "ssh",
                "remotecmd",
                "tool",
            ],
            &[],
        ),
        flags("", &["cwd", "repository"], &[]),
    ),
    tool(
        &["pdftex", "tex", "latex", "pdflatex", "xelatex", "lualatex"],
        flags(
            "",
            &["shell-escape", "enable-write18", "output-directory"],
            &["-shell-escape", "-enable-write18"],
        ),
        NONE,
    ),
    tool(&["msgfmt", "msgexec", "msgfilter"], NONE, flags("o", &["output-file"], &[])),
    tool(&["journalctl", "systemctl", "loginctl"], NONE, flags("HM", &["host", "machine"], &[])),
    tool(&["mail", "mailx", "mutt", "sendmail", "exim"], flags("eSI", &[], &[]), NONE),
    tool(&["start-stop-daemon"], flags("axS", &["exec", "startas", "start"], &[]), NONE),
    tool(&["run-parts"], NONE, flags("a", &["arg"], &[])),
    tool(&["ncdu"], NONE, flags("o", &[], &[])),
    tool(&["mplayer", "mpv"], flags("", &["script", "input-ipc-server"], &["-script"]), NONE),
    tool(
        &["ansible", "ansible-playbook"],
        flags("ame", &["args", "module-name", "extra-vars"], &[]),
        NONE,
    ),
    tool(&["cmake"], flags("E", &[], &[]), flags("DP", &["build", "install"], &[])),
    tool(&["rustc"], NONE, flags("oC", &["out-dir", "emit", "codegen"], &[])),
    tool(&["ld", "as"], flags("", &["plugin"], &["-plugin"]), flags("o", &["output"], &[])),
];

pub(super) fn hazards(name: &str, rest: &[Word]) -> Vec<Hazard> {
    let mut found = Vec::new();
    let Some(tool) = TOOLS.iter().find(|tool| tool.names.contains(&name)) else {
        return found;
    };
    for (place, word) in rest.iter().enumerate() {
        let text = word.text.as_str();
        if text == "--" && word.exact && !matches!(name, "npm" | "pnpm" | "yarn" | "cargo") {
            break;
        }
        if !word.exact && word.maybe_option {
            let reason =
                format!("{text:?} may become an option of {name} that writes, or runs something");
            // Only where there is an option that runs something.
            let can_run = !(tool.runs.short.is_empty() && tool.runs.long.is_empty());
            found.push(if can_run { runs(place, reason) } else { changes(place, reason) });
        } else if tool.runs.has(text) {
            found.push(runs(place, format!("{name} {text} may run something")));
        } else if tool.changes.has(text) {
            found.push(changes(place, format!("{name} {text} may write a file, or run something")));
        }
    }
    found
}

impl Flags {
    fn has(&self, text: &str) -> bool {
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
