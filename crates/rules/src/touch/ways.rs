//! Ways to a file that lead past the words of a command: code in them, names that stand elsewhere, what a repository holds, links that the line
//! makes. All of them ask; what the kernel hides or protects holds whether or not one was found.

use super::{About, Looking, PATTERN_FIRST, among, targets};
use crate::command::Match;
use crate::path::absolute;
use crate::shell::{
    Invocation, Word, hazard, is_compiler, is_interpreter, program_of, takes_data, unseen_code,
};

/// Code stands in their words, names of files in it.
const CODE_IN_WORDS: &str = "sed gsed awk gawk mawk nawk ed ex red vi vim nvim view emacs sqlite sqlite3 make gmake bc dc gdb lldb";

/// Programs that unpack what they do not name.
const UNPACKERS: &str = "patch unzip 7z 7za 7zr unrar rar cpio pax bsdcpio unar dpkg-deb ar";

/// What git does to files of the worktree.
const GIT_CHANGES: &str = "checkout restore reset stash apply am merge rebase cherry-pick revert pull switch rm mv clean read-tree \
    checkout-index bundle worktree bisect submodule sparse-checkout fast-import mergetool filter-branch";

/// What git prints, or puts elsewhere, of the files that a repository holds.
const GIT_READS: &str = "show diff log whatchanged cat-file archive bundle fast-export format-patch stash blame annotate grep difftool \
    range-diff unpack-file checkout-index worktree clone diff-tree diff-index diff-files rev-list show-branch submodule";

/// Whether a command may lead to what the rule means in a way of its own.
pub(super) fn of(looking: &Looking, command: &Invocation, about: About) -> Match {
    let name = program_of(command.words.first().map_or("", |word| word.text.as_str()));
    let rest = command.words.get(1..).unwrap_or_default();
    let maybe = (about.reads && reads(looking, name, rest))
        || (about.writes && writes(looking, name, rest))
        || runs_code(command, name)
        || (name == "git" && by_git(looking, rest, about))
        || leads_on(looking, command, name);
    if maybe { Match::Maybe } else { Match::No }
}

fn reads(looking: &Looking, name: &str, rest: &[Word]) -> bool {
    let has = |known: &[&str]| {
        rest.iter().any(|word| {
            let name = word.text.split('=').next().unwrap_or_default();
            known.contains(&name)
        })
    };
    let elsewhere = has(&["--files-from", "--files0-from", "--arg-file"])
        || (matches!(name, "tar" | "bsdtar" | "gtar") && has(&["-T"]))
        || (name == "zip" && has(&["-@"]))
        || matches!(name, "cpio" | "pax")
        || (name == "history" && has(&["-r", "-n"]))
        || (name == "fc" && has(&["-R"]));
    let comes_in = is_compiler(name)
        && (rest.iter().any(|word| word.text == "-")
            || !rest.iter().any(|word| !word.text.starts_with('-')));
    elsewhere || comes_in || rest.iter().any(|word| looking.named_in(name, word, rest))
}

fn writes(looking: &Looking, name: &str, rest: &[Word]) -> bool {
    let first = rest.first().map_or("", |word| word.text.as_str());
    let unpacks = among(UNPACKERS, name)
        || (matches!(name, "tar" | "bsdtar" | "gtar")
            && (first.trim_start_matches('-').starts_with(|c: char| c.is_ascii_lowercase())
                && !first.starts_with("--")
                && first.contains('x')
                || rest.iter().any(|word| {
                    word.text.len() > 4 && "--extract".starts_with(&word.text)
                        || word.text == "--get"
                        || (word.text.starts_with('-')
                            && !word.text.starts_with("--")
                            && word.text.contains('x'))
                })));
    if unpacks && looking.is_in_reach() {
        return true;
    }
    if (name == "history" && rest.iter().any(|word| matches!(word.text.as_str(), "-w" | "-a")))
        || (name == "fc" && rest.iter().any(|word| matches!(word.text.as_str(), "-W" | "-A")))
    {
        return true;
    }
    // The first word of `zip` that is no option is what it makes.
    let archive = rest.iter().find(|word| !word.text.starts_with('-'));
    if name == "zip" && archive.is_some_and(|word| looking.word(word) != Match::No) {
        return true;
    }
    // Readers write nowhere; of all others a word that names it may be where they write.
    let reader = takes_data(name) && !among(WRITES_TOO, name);
    if name == "git" && targets::named(looking, name, rest) {
        return true;
    }
    if reader || among(PATTERN_FIRST, name) && !among(CODE_IN_WORDS, name) || among(LOOKS, name) {
        return false;
    }
    rest.iter().any(|word| looking.word(word) != Match::No || looking.named_in(name, word, rest))
        || targets::named(looking, name, rest)
}

/// Readers by their name, which write where an option or a further word says so.
const WRITES_TOO: &str = "iconv mount split csplit sort shuf tree dos2unix unix2dos recode enca uuencode uudecode exiftool dpkg";

/// Their words are read and not written, or not files at all.
const LOOKS: &str = "git cat bat less more find fd fdfind bash sh dash zsh node diff file ls grep cp scp rsync ln mv install ginstall code \
    pytest eslint mypy pylint flake8";

/// Code that nobody sees may open any file.
fn runs_code(command: &Invocation, name: &str) -> bool {
    let opens = matches!(name, "awk" | "gawk" | "mawk" | "nawk")
        && (hazard(command).is_some()
            || command.words.iter().any(|word| word.text.contains("ARG")));
    opens || (unseen_code(command).is_some() && (is_interpreter(name) || !command.transparent))
}

fn by_git(looking: &Looking, rest: &[Word], about: About) -> bool {
    let mut words = rest.iter();
    let mut subcommand = "";
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace" | "--exec-path" => {
                words.next();
            }
            text if text.starts_with('-') => {}
            text => {
                subcommand = text;
                break;
            }
        }
    }
    let words: Vec<&Word> = words.collect();
    let has = |flags: &[&str]| words.iter().any(|word| flags.contains(&word.text.as_str()));
    if !looking.is_in_reach() || looking.rule.is_of_git() {
        return false;
    }
    let paths = words.iter().position(|word| word.text == "--");
    if let Some(at) = paths
        && !matches!(subcommand, "stash" | "log" | "grep")
    {
        // Only what it names.
        return words
            .iter()
            .skip(at + 1)
            .any(|word| looking.word(word) != Match::No || looking.within(word) != Match::No);
    }
    let prints = match subcommand {
        "log" | "rev-list" | "show-branch" | "reflog" | "shortlog" => {
            words.iter().any(|word| !word.exact || !prints_no_content(&word.text))
        }
        "request-pull" | "reset" | "add" | "checkout" | "restore" | "commit"
            if words.iter().any(|word| is_patch(&word.text) || !word.exact) =>
        {
            true
        }
        // What is in the worktree alone is known to whoever asks: see [`crate::shell::shows_worktree`].
        "diff" => {
            let names =
                ["--stat", "--name-only", "--name-status", "--shortstat", "--numstat", "--quiet"];
            !words.is_empty() && !has(&names)
        }
        "show" => !has(&["--stat", "--name-only", "--name-status", "--no-patch", "-s"]),
        "stash" => has(&["show", "-p"]),
        "status" => {
            words.iter().any(|word| word.text.starts_with("-v") || word.text == "--verbose")
        }
        "bundle" => has(&["create"]),
        "worktree" => has(&["add"]),
        "submodule" => has(&["add", "foreach", "update"]),
        "commit" => words.iter().any(|word| {
            word.text.starts_with("-F")
                || word.text.starts_with("--file")
                || word.text.starts_with("-v")
        }),
        _ => among(GIT_READS, subcommand),
    };
    let changes = match subcommand {
        "stash" => !has(&["list", "show"]),
        "worktree" => has(&["add", "remove", "move"]),
        "bundle" => has(&["create"]),
        "reset" => has(&["--hard", "--merge", "--keep"]) || words.iter().any(|word| !word.exact),
        "checkout" | "switch" => !has(&["-b", "-c", "--orphan"]),
        _ => among(GIT_CHANGES, subcommand),
    };
    (about.reads && prints) || (about.writes && changes)
}

/// Options with which `git log` and its like tell of commits, and print nothing of the files. All others count: many imply a patch, each may be
/// shortened, and new ones come.
const GIT_LOG_TELLS: &str = "--oneline --graph --all --decorate --no-decorate --stat --shortstat --numstat --dirstat --summary --name-only \
    --name-status --no-patch -s --merges --no-merges --first-parent --reverse --follow --no-color --color --topo-order --date-order \
    --author-date-order --count --branches --tags --remotes -i -n --no-pager --abbrev-commit --left-right --boundary --no-walk -- -g \
    --walk-reflogs --relative-date --parents --children --source --use-mailmap --no-mailmap -e --email --no-ext-diff --current --list";

/// The same with a value.
const GIT_LOG_VALUES: &str = "--format= --pretty= --author= --committer= --since= --until= --after= --before= --grep= --date= --abbrev= \
    --max-count= --skip= --decorate= --color= --max-parents= --min-parents= --branches= --tags= --remotes= --glob= --exclude= --stat=";

fn prints_no_content(word: &str) -> bool {
    let is_number = word.strip_prefix("-n").or(word.strip_prefix('-'));
    let is_number =
        is_number.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()));
    !word.starts_with('-')
        || is_number
        || among(GIT_LOG_TELLS, word)
        || GIT_LOG_VALUES.split_whitespace().any(|option| word.starts_with(option))
}

/// A patch for a person to choose from, or after what is printed: `-p`, also among other letters, and the long names as they may be shortened.
fn is_patch(word: &str) -> bool {
    let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    letters.is_some_and(|letters| letters.contains(['p', 'i', 'e', 'v']))
        || ["--p", "--i", "--e", "--verb"].iter().any(|start| word.starts_with(start))
}

/// Where the line makes a link or mounts something, a path may lead anywhere: its last names alone tell.
fn leads_on(looking: &Looking, command: &Invocation, name: &str) -> bool {
    let makes_links = |command: &Invocation| {
        let rest = command.words.get(1..).unwrap_or_default();
        match program_of(command.words.first().map_or("", |word| word.text.as_str())) {
            "ln" | "link" | "mount" | "bindfs" | "mv" | "rename" => true,
            "cp" => rest.iter().any(|word| {
                word.text.starts_with('-')
                    && (word.text.contains(['s', 'l', 'a', 'd', 'P'])
                        || word.text.starts_with("--"))
            }),
            _ => false,
        }
    };
    if !looking.analysis.commands.iter().any(makes_links) {
        return false;
    }
    let words = command.words.get(1..).unwrap_or_default();
    let redirects = looking.analysis.redirects.iter().map(|redirect| &redirect.path);
    let making = makes_links(command);
    words.iter().chain(redirects).any(|word| {
        let text = word.text.as_str();
        let ends = text.match_indices('/').filter_map(|(at, _)| text.get(at + 1..));
        let mut ends = ends.filter(|end| !end.is_empty());
        (making
            && (looking.word(word) != Match::No || looking.below(text) != Match::No && text != "."))
            || ends.any(|end| looking.anywhere(end))
    }) && name != "echo"
}

impl Looking<'_> {
    /// Whether what the rule means lies in a folder of the line, or below one.
    fn is_in_reach(&self) -> bool {
        self.below(".") != Match::No || self.folders.unknown
    }

    /// Whether the rule means something of this name in any folder.
    fn anywhere(&self, end: &str) -> bool {
        self.pattern(&format!("…/{end}")) != Match::No
    }

    /// Whether the text of a word holds the name of what is meant, among other things: behind the letters of options, in quotes, in code.
    fn named_in(&self, name: &str, word: &Word, rest: &[Word]) -> bool {
        let text = word.text.as_str();
        let is_path =
            |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '~' | '+' | '…');
        let is_option = text.starts_with('-');
        let code = among(CODE_IN_WORDS, name);
        if !is_option && !code && text.chars().all(is_path) {
            return false;
        }
        // A message for people, or a pattern to look for.
        let alone = matches!(name, "echo" | "printf") && self.analysis.commands.len() == 1;
        let at = rest.iter().position(|other| std::ptr::eq(other, word)).unwrap_or_default();
        let before = at.checked_sub(1).and_then(|before| rest.get(before));
        let message = name == "git"
            && before.is_some_and(|before| {
                matches!(before.text.as_str(), "-m" | "-am" | "--message" | "--grep" | "-S" | "-G")
            });
        let pattern = among(PATTERN_FIRST, name)
            && !code
            && rest.iter().position(|word| !word.text.starts_with('-')) == Some(at);
        if alone || message || pattern {
            return false;
        }
        text.split(|c| !is_path(c)).filter(|token| !token.is_empty()).any(|token| {
            self.path(token, true) != Match::No
                || ((is_option || code)
                    && token.char_indices().skip(1).take(40).any(|(at, _)| {
                        token.get(at..).is_some_and(|end| {
                            let scope = crate::RuleScope {
                                workspace: self.scope.workspace.clone(),
                                home: self.scope.home.clone(),
                            };
                            self.rule.matches(&absolute(end, &scope), self.scope)
                        })
                    }))
        })
    }
}
