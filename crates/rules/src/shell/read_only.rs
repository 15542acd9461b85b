//! Whether a line only reads (spec 1.23). It errs on the side of no: then the call runs alone, that is all.

use super::{Invocation, analyze, hazard};

/// Commands that only read, as long as no option makes more of them.
const READERS: &[&str] = &[
    "ls",
    "cat",
    "head",
    "tail",
    "wc",
    "grep",
    "egrep",
    "fgrep",
    "zgrep",
    "rg",
    "ag",
    "find",
    "fd",
    "fdfind",
    "sort",
    "uniq",
    "cut",
    "tr",
    "nl",
    "tac",
    "rev",
    "paste",
    "join",
    "comm",
    "diff",
    "cmp",
    "file",
    "stat",
    "du",
    "df",
    "pwd",
    "echo",
    "printf",
    "true",
    "false",
    ":",
    "test",
    "[",
    "basename",
    "dirname",
    "realpath",
    "readlink",
    "seq",
    "date",
    "env",
    "printenv",
    "id",
    "whoami",
    "groups",
    "uname",
    "hostname",
    "arch",
    "nproc",
    "uptime",
    "free",
    "ps",
    "pgrep",
    "which",
    "type",
    "command",
    "tree",
    "od",
    "xxd",
    "hexdump",
    "strings",
    "md5sum",
    "sha1sum",
    "sha224sum",
    "sha256sum",
    "sha384sum",
    "sha512sum",
    "b2sum",
    "cksum",
    "sum",
    "expr",
    "sleep",
    "cd",
    "fold",
    "fmt",
    "column",
    "expand",
    "unexpand",
    "numfmt",
    "jq",
    "yq",
    "sed",
    "gsed",
    "awk",
    "gawk",
    "mawk",
    "zcat",
    "xzcat",
    "bzcat",
    "zstdcat",
    "base64",
    "base32",
    "locale",
    "getconf",
    "tsort",
    "look",
    "cal",
    "lscpu",
    "lsblk",
    "dpkg-query",
    "man",
    "xargs",
    "timeout",
    "nice",
    "nohup",
    "stdbuf",
    "time",
    "wait",
    "exit",
    "return",
    "break",
    "continue",
    "shift",
    "bat",
    "cloc",
    "tokei",
    "nm",
    "objdump",
    "readelf",
    "ldd",
    "size",
    "getent",
];

const GIT_READERS: &[&str] = &[
    "status",
    "log",
    "diff",
    "show",
    "rev-parse",
    "ls-files",
    "ls-tree",
    "blame",
    "annotate",
    "describe",
    "cat-file",
    "shortlog",
    "rev-list",
    "name-rev",
    "merge-base",
    "for-each-ref",
    "grep",
    "show-ref",
    "whatchanged",
    "count-objects",
    "check-ignore",
    "check-attr",
    "diff-tree",
    "diff-index",
    "diff-files",
    "var",
    "version",
    "cherry",
    "range-diff",
    "show-branch",
    "verify-commit",
    "verify-tag",
];

/// Whether a line of bash certainly only reads.
pub fn is_read_only(line: &str) -> bool {
    let analysis = analyze(line);
    let harmless = |path: &str| matches!(path, "/dev/null" | "/dev/stdout" | "/dev/stderr");
    analysis.doubts.is_empty()
        && !analysis.commands.is_empty()
        && analysis.redirects.iter().all(|redirect| {
            !redirect.writes || (redirect.path.exact && harmless(&redirect.path.text))
        })
        && analysis.commands.iter().all(reads)
}

fn reads(command: &Invocation) -> bool {
    if hazard(command).is_some() {
        return false;
    }
    let name = command.name();
    let operands = || command.words.iter().skip(1).filter(|word| !word.text.starts_with('-'));
    match name {
        "git" => git_reads(command),
        // An awk program that cannot be seen whole may do anything.
        "awk" | "gawk" | "mawk" => operands().next().is_some_and(|word| word.exact),
        _ if command.transparent => true,
        _ => READERS.contains(&name),
    }
}

fn git_reads(command: &Invocation) -> bool {
    let mut words = command.words.iter().skip(1).filter(|word| word.text != "--no-pager");
    let Some(subcommand) = words.next() else {
        return true;
    };
    let rest: Vec<&str> = words.map(|word| word.text.as_str()).collect();
    let only = |allowed: &[&str]| rest.iter().all(|word| allowed.contains(word));
    match subcommand.text.as_str() {
        "branch" => only(&[
            "-a",
            "-r",
            "-v",
            "-vv",
            "--all",
            "--list",
            "--show-current",
            "--remotes",
            "--verbose",
        ]),
        "tag" => only(&["-l", "--list", "-n"]),
        "remote" => only(&["-v", "--verbose", "show"]),
        "stash" => matches!(rest.first(), Some(&("list" | "show"))),
        "reflog" => rest.is_empty() || rest.first() == Some(&"show"),
        "worktree" => rest.first() == Some(&"list"),
        "config" => rest.first().is_some_and(|word| {
            matches!(*word, "--get" | "--get-all" | "--list" | "-l" | "get" | "list")
        }),
        name => GIT_READERS.contains(&name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 1.23
    #[test]
    fn lines_that_only_read_are_known() {
        for line in [
            "ls -la src",
            "cat a.txt | grep -n foo | sort | uniq -c | head -5",
            "git status && git log --oneline -5",
            "find . -name '*.rs' -not -path './target/*'",
            "rg -n 'fn main' src 2>/dev/null",
            "cd src && wc -l *.rs",
            "sed -n '10,20p' src/main.rs",
            "for f in a b; do cat \"$f\"; done",
            "timeout 5 git diff",
            "test -f x && echo yes || echo no",
            "cat <<'E'\nx\nE",
            "awk '{print $1}' file",
            "find . -type f | xargs grep -l foo",
            "bash -c 'ls | wc -l'",
        ] {
            assert!(is_read_only(line), "{line}: {:?}", analyze(line));
        }
    }

    // spec 1.23
    #[test]
    fn lines_that_write_or_may_are_not_taken_for_reading() {
        for line in [
            "",
            "rm x",
            "ls > out",
            "echo x >> f",
            "cat a | tee b",
            "sed -i s/a/b/ f",
            "sed 's/a/b/w out' f",
            "find . -delete",
            "find . -exec rm {} ;",
            "sort -o f f",
            "git commit -m x",
            "git branch new",
            "git -c core.pager=x log",
            "git diff --output=x",
            "$X",
            "ls $(rm x)",
            "eval ls",
            "PATH=. ls",
            "./ls",
            "npm test",
            "cargo check",
            "awk 'BEGIN{system(\"x\")}'",
            "awk '{print > \"f\"}' g",
            "uniq a b",
            "curl x",
            "python3 -c 1",
            "xargs rm",
            "ls | sh",
            "make",
            "touch x",
            "cat &> f",
            "date -s 0",
            "find . $X",
            "sort *",
            "git stash",
            "cd x; ./run",
            "exec 3>f",
        ] {
            assert!(!is_read_only(line), "{line}");
        }
    }
}
