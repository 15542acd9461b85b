//! Which files the words of a shell line may mean, for rules about paths: `cat .e[n]v` reads what `Read(.env)` forbids. What a word can
//! become is compared with what the rule means; where that is not known before the line runs, it may be that very file.

use crate::command::Match;
use crate::links::Links;
use crate::overlap::{Piece, literal, overlap, pieces};
use crate::path::{PathRule, absolute};
use crate::set::RuleScope;
use crate::shell::{
    Analysis, Invocation, Word, hazard, is_interpreter, is_known, program_of, takes_data,
};
use std::path::{Path, PathBuf};

/// What a rule is about.
#[derive(Clone, Copy)]
pub(crate) struct About {
    pub reads: bool,
    pub writes: bool,
}

/// Words of these are names, and no file's content is looked at or changed by them.
const NAMES_ONLY: &str = "echo printf test [ : true false ls cd pushd popd pwd basename dirname realpath readlink which type \
    seq date sleep kill wait exit return break continue shift export local declare typeset readonly unset read let expr \
    stat du df find fd fdfind command hash umask ulimit id whoami uname hostname ps pgrep pkill alias set shopt trap eval jobs \
    useradd usermod userdel groupadd ping dig host nslookup mkdir rmdir touch chmod chown chgrp mktemp tr yes factor rm unlink ssh \
    apt apt-get pip npm make systemctl service";

/// Their first word is a pattern, or a program.
const PATTERN_FIRST: &str =
    "grep egrep fgrep zgrep rg ripgrep ag ack sed gsed awk gawk mawk nawk jq yq perl";

/// All their words are files that they change.
const CHANGES_ALL: &str = "rm rmdir mv tee sponge truncate touch shred mkdir chmod chown chgrp unlink gzip gunzip bzip2 bunzip2 xz unxz \
    zstd patch ed setfacl setfattr chattr rename mkfifo mknod fallocate";
/// The last of their words is what they change, or a folder in which they do.
const CHANGES_LAST: &str = "cp install ginstall ln link rsync scp";

fn among(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|known| known == name)
}

/// Whether a line does to a file that the rule means what the rule is about.
pub(crate) fn touches(
    rule: &PathRule,
    analysis: &Analysis,
    about: About,
    (scope, links): (&RuleScope, &dyn Links),
) -> Match {
    let folders = Folders::of(analysis, scope);
    let looking = Looking { rule, analysis, folders: &folders, scope, links };
    // Commands that nobody sees may do anything.
    let mut found = if analysis.may_run_more() { Match::Maybe } else { Match::No };
    if analysis.assigned_texts().any(|text| looking.path(text, true) != Match::No) {
        found = Match::Maybe;
    }
    if about.writes && targets::in_variables(&looking, analysis) {
        found = Match::Maybe;
    }
    for redirect in &analysis.redirects {
        if if redirect.writes { about.writes } else { about.reads } {
            found = found.max(looking.word(&redirect.path));
        }
    }
    for command in &analysis.commands {
        if found == Match::Yes {
            break;
        }
        found = found.max(ways::of(&looking, command, about));
        if command.transparent {
            continue;
        }
        if about.reads {
            found = found.max(looking.read_by(command));
        }
        if about.writes {
            found = found.max(looking.written_by(command));
        }
    }
    found
}

/// All that a written path may be: from each folder in which the line may stand, as it is written and as links lead it. `None`: a folder that is
/// not known.
pub(crate) fn paths_of(
    text: &str,
    analysis: &Analysis,
    scope: &RuleScope,
    links: &dyn Links,
) -> Option<Vec<PathBuf>> {
    let folders = Folders::of(analysis, scope);
    let anywhere = folders.unknown && !text.starts_with(['/', '~']);
    let of_folder = |base: &PathBuf| {
        let scope = RuleScope { workspace: base.clone(), home: scope.home.clone() };
        std::iter::once(absolute(text, &scope)).chain(links.lead(&joined(text, &scope)))
    };
    (!anywhere).then(|| folders.known.iter().flat_map(of_folder).collect())
}

mod find;
mod folders;
mod targets;
mod ways;

use folders::Folders;

struct Looking<'a> {
    rule: &'a PathRule,
    analysis: &'a Analysis,
    folders: &'a Folders,
    scope: &'a RuleScope,
    links: &'a dyn Links,
}

impl Looking<'_> {
    fn read_by(&self, command: &Invocation) -> Match {
        let name = program_of(command.words.first().map_or("", |word| word.text.as_str()));
        let rest = command.words.get(1..).unwrap_or_default();
        let names_only = among(NAMES_ONLY, name);
        let pattern = among(PATTERN_FIRST, name)
            .then(|| rest.iter().position(|word| !word.text.starts_with('-')))
            .flatten();
        let mut found = Match::No;
        for (at, word) in rest.iter().enumerate() {
            if !word.exact && (names_only || pattern == Some(at)) {
                continue;
            }
            found = found.max(self.word(word));
        }
        if goes_down(name, rest) && !(skips_hidden(name, rest) && self.rule.is_hidden()) {
            let mut operands: Vec<&Word> =
                rest.iter().filter(|word| word.exact && !word.text.starts_with('-')).collect();
            if pattern.is_some() && !operands.is_empty() {
                operands.remove(0);
            }
            if operands.is_empty() && pattern.is_some() {
                found = found.max(self.below("."));
            }
            for word in operands {
                found = found.max(self.below(&word.text));
            }
        }
        found
    }

    fn written_by(&self, command: &Invocation) -> Match {
        let name = program_of(command.words.first().map_or("", |word| word.text.as_str()));
        let rest = command.words.get(1..).unwrap_or_default();
        let operands: Vec<&Word> =
            rest.iter().filter(|word| !(word.exact && word.text.starts_with('-'))).collect();
        let mut found = Match::No;
        let makes_folders = matches!(name, "install" | "ginstall")
            && rest.iter().any(|word| {
                let text = word.text.as_str();
                (text.len() > 3 && "--directory".starts_with(text))
                    || (text.starts_with('-') && !text.starts_with("--") && text.contains('d'))
            });
        if among(CHANGES_ALL, name) || makes_folders {
            for word in &operands {
                found = found.max(self.word(word)).max(self.within(word));
            }
        }
        if name == "mktemp" {
            return targets::made_by_mktemp(self, rest);
        }
        if among(CHANGES_LAST, name) || name == "mv" {
            let into = targets::into(name, rest);
            // A link to one thing is made here, under that one's name.
            let here = (name == "ln" && operands.len() == 1).then(|| Word::known("."));
            let named = into.is_some();
            let last = || operands.last().map(|word| (*word).clone());
            let Some(target) = into.or(here.clone()).or_else(last) else { return found };
            if here.is_none() || named {
                found = found.max(self.word(&target)).max(self.within(&target));
            }
            // Into a folder, each under its own name.
            for source in operands.iter().filter(|word| word.text != target.text) {
                let folder = target.text.trim_end_matches('/');
                let name = source.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                let text = format!("{folder}/{name}");
                let both = Word { text, exact: target.exact && source.exact, ..target.clone() };
                found = found.max(self.word(&both));
            }
        } else if !among(CHANGES_ALL, name) {
            // What is not known to leave files alone may change those that it names.
            let changes = hazard(command).is_some() || name == "dd";
            let unknown = is_interpreter(name) || !(is_known(name) || takes_data(name));
            if changes || unknown {
                for word in rest {
                    let owns = unknown && word.exact && self.owns(&word.text);
                    let here = self.word(word);
                    let here = if owns { here.max(Match::Maybe) } else { here };
                    let sure = matches!(name, "sed" | "gsed" | "dd" | "curl" | "wget" | "sort");
                    found = found.max(if sure { here } else { here.min(Match::Maybe) });
                }
            }
        }
        found
    }

    /// A folder in which the rule means something.
    fn within(&self, word: &Word) -> Match {
        if word.exact { self.below(&word.text) } else { Match::No }
    }

    /// A folder in which whatever is written may be what the rule means.
    fn owns(&self, folder: &str) -> bool {
        self.folders.known.iter().any(|base| {
            let scope = RuleScope { workspace: base.clone(), home: self.scope.home.clone() };
            let led = self.links.lead(&joined(folder, &scope));
            self.rule.owns(&absolute(folder, &scope), self.scope)
                || led.is_some_and(|led| self.rule.owns(&led, self.scope))
        })
    }

    fn below(&self, folder: &str) -> Match {
        let met = self.folders.known.iter().map(|base| {
            let scope = RuleScope { workspace: base.clone(), home: self.scope.home.clone() };
            let meets = |folder: &Path| self.rule.meets(folder, self.scope).min(Match::Maybe);
            let led = self.links.lead(&joined(folder, &scope)).map(|led| meets(&led));
            meets(&absolute(folder, &scope)).max(led.unwrap_or(Match::No))
        });
        met.max().unwrap_or(Match::No)
    }

    /// A word, and what may stand in it behind an option, an `=`, an `@`.
    fn word(&self, word: &Word) -> Match {
        let text = word.text.as_str();
        let behind_equals = text.split_once('=').map(|(_, value)| value);
        let last_equals = text.rsplit_once('=').map(|(_, value)| value);
        let attached = (text.starts_with('-') && !text.starts_with("--"))
            .then(|| text.char_indices().nth(2).and_then(|(at, _)| text.get(at..)))
            .flatten();
        let mut found = self.path(text, word.exact);
        for part in [behind_equals, last_equals, attached].into_iter().flatten() {
            found = found.max(self.path(part, word.exact));
            if let Some(file) = part.strip_prefix('@') {
                found = found.max(self.path(file, word.exact));
            }
        }
        for prefix in ["@", "file://", "file:", "<", ":"] {
            if let Some(file) = text.strip_prefix(prefix) {
                found = found.max(self.path(file, word.exact));
            }
        }
        found
    }

    fn path(&self, text: &str, exact: bool) -> Match {
        if text.is_empty() {
            return Match::No;
        }
        // What comes in is named by another command of the line, or found by `find`.
        if text == "…" && self.found_by_find() == Some(false) {
            return Match::No;
        }
        // Where a process or a descriptor leads is not told by the text.
        if let Some(behind) = led_by_process(text)
            && self.pattern(&format!("…/{behind}")) == Match::Maybe
        {
            return Match::Maybe;
        }
        let led = self.led(text, exact);
        let exact = exact || (text.starts_with("~/") && !text.contains(['*', '?', '[', '{', '…']));
        if !exact {
            let possible = self.analysis.possible_texts(text);
            return possible.iter().map(|text| self.pattern(text)).max().unwrap_or(led).max(led);
        }
        let mut found = led;
        for (at, base) in self.folders.known.iter().enumerate() {
            let scope = RuleScope { workspace: base.clone(), home: self.scope.home.clone() };
            if self.rule.matches(&absolute(text, &scope), self.scope) {
                let is_last = at + 1 == self.folders.known.len() && !self.folders.unknown;
                let sure = self.folders.never_changed() || is_last || Path::new(text).is_absolute();
                found = found.max(if sure { Match::Yes } else { Match::Maybe });
            }
        }
        if self.folders.unknown && !text.starts_with(['/', '~', '-']) && found == Match::No {
            let mut anywhere = vec![Piece::Any];
            anywhere.extend(literal(&format!("/{}", text.trim_start_matches("./"))));
            if overlap(&anywhere, &self.rule.pieces(self.scope)) {
                found = Match::Maybe;
            }
        }
        found
    }

    /// What a word means where links lead it: by themselves, or as what a pattern in it may find.
    fn led(&self, text: &str, exact: bool) -> Match {
        let means = |path: &Path| path.ancestors().any(|path| self.rule.matches(path, self.scope));
        let mut found = Match::No;
        for base in &self.folders.known {
            let scope = RuleScope { workspace: base.clone(), home: self.scope.home.clone() };
            if exact {
                let path = joined(text, &scope);
                if self.links.lead(&path).is_some_and(|led| means(&led)) {
                    let sure = self.folders.never_changed() || Path::new(text).is_absolute();
                    found = found.max(if sure { Match::Yes } else { Match::Maybe });
                }
                continue;
            }
            // What is written before the pattern is a folder; what the pattern means may be a link in it.
            let Some(at) = text.find(['*', '?', '[', '{', '…', '$']) else { continue };
            let folder = text.get(..at).and_then(|text| Some(text.rsplit_once('/')?.0));
            let folder = joined(folder.unwrap_or("."), &scope);
            let inside = self.links.in_folder(&folder);
            let real = self.links.lead(&folder);
            let meets =
                |real: PathBuf| means(&real) || self.rule.meets(&real, self.scope) != Match::No;
            if real.is_some_and(meets) || inside.iter().any(|led| means(led)) {
                found = found.max(Match::Maybe);
            }
        }
        found
    }

    /// A word of which something is not known.
    fn pattern(&self, text: &str) -> Match {
        let text = &text.replace("$((…))", "…").replace("$(…)", "…");
        let rule = self.rule.pieces(self.scope);
        let hits = |pieces: &[Piece]| overlap(pieces, &rule);
        // What is not known may lead upwards, so nothing before it counts.
        let found = match text.rsplit_once('…') {
            Some((_, end)) => {
                let mut any = vec![Piece::Any];
                any.extend(pieces(end.trim_end_matches('/')));
                hits(&any)
            }
            None if self.folders.unknown && !text.starts_with(['/', '~']) => {
                let mut any = vec![Piece::Any];
                any.extend(pieces(text));
                hits(&any)
            }
            None => self.folders.known.iter().any(|base| {
                let scope = RuleScope { workspace: base.clone(), home: self.scope.home.clone() };
                absolute(text, &scope).to_str().is_none_or(|path| hits(&pieces(path)))
            }),
        };
        if found { Match::Maybe } else { Match::No }
    }
}

/// A path as the kernel is given it, from a folder: `..` and links are its to follow.
fn joined(text: &str, scope: &RuleScope) -> PathBuf {
    match (text.strip_prefix('~'), &scope.home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        _ => scope.workspace.join(text),
    }
}

/// What stands behind `/proc/self/cwd/` and its like.
fn led_by_process(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("/proc/").or_else(|| text.strip_prefix("/dev/fd/"))?;
    let folders = ["/cwd/", "/root/", "/fd/"];
    let behind = folders.iter().find_map(|folder| Some(rest.split_once(folder)?.1));
    Some(behind.unwrap_or_else(|| rest.rsplit('/').next().unwrap_or(rest)))
}

/// Whether a command leaves hidden files alone.
fn skips_hidden(name: &str, rest: &[Word]) -> bool {
    matches!(name, "rg" | "ripgrep" | "ag" | "ack")
        && !rest.iter().any(|word| {
            word.text == "--hidden"
                || word.text.starts_with("--unr")
                || (!word.text.starts_with("--")
                    && word.text.starts_with('-')
                    && word.text.contains(['u', '.', 'a']))
        })
}

/// Whether a command looks into all that lies below the folders it names.
fn goes_down(name: &str, rest: &[Word]) -> bool {
    let flag = |letters: &str, long: &str| {
        rest.iter().any(|word| {
            let text = word.text.as_str();
            match text.strip_prefix("--") {
                Some(word) => !word.is_empty() && long.starts_with(word),
                None => text.starts_with('-') && text.contains(|letter| letters.contains(letter)),
            }
        })
    };
    match name {
        "rg" | "ripgrep" | "ag" | "ack" | "rsync" => true,
        "tar" | "bsdtar" | "gtar" => {
            rest.first().is_some_and(|word| word.text.contains('c')) || flag("c", "create")
        }
        "grep" | "egrep" | "fgrep" | "zgrep" => {
            flag("rRd", "recursive")
                || flag("", "dereference-recursive")
                || flag("", "directories")
                || rest.iter().any(|word| word.text.starts_with("--dir"))
        }
        "diff" => flag("rR", "recursive"),
        "7z" | "7za" | "7zr" | "rar" | "mksquashfs" | "genisoimage" | "mkisofs" | "xorriso"
        | "borg" | "restic" => true,
        "docker" | "podman" => rest.iter().any(|word| matches!(word.text.as_str(), "build" | "cp")),
        name if name.starts_with("mkfs") || name.starts_with("mke2fs") => true,
        "cp" | "scp" | "zip" => flag("rRa", "recursive"),
        _ => false,
    }
}
