//! What a policy's files mean, path by path. Whoever walks down a path passes folders that entries name; what the deepest of them
//! says counts: `read` shows, `write` shows and lets write, `protect` takes writing away, `hide` takes all. Named at one and the same
//! folder, `hide` is stronger than `write`, and `write` than `protect`. What a wildcard stands for is not named: an entry shows something in a
//! hidden folder only if that folder is passed by what stands before the entry's first `*`.

use super::name::{Fit, Name, one_of_each_kind};
use crate::{ExpandedFilesystem, PathPattern, ProtectPattern};
use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// What may be done with a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Access {
    /// It is there, and may be read and executed.
    pub read: bool,
    /// It may be written to, made, removed and renamed.
    pub write: bool,
    /// It may be connected to, if it is a socket of the host.
    pub connect: bool,
}

/// All of it.
const ALL: Access = Access { read: true, write: true, connect: true };

/// What an entry says. In the order in which those of one folder are applied: the last word wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Protect,
    Read,
    Connect,
    Write,
    Hide,
}

/// Where an entry's components begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Root,
    WritableRoots,
    Anywhere,
}

#[derive(Clone, Debug)]
struct Rule {
    names: Vec<Name>,
    mark: Mark,
    start: Start,
    /// How many of the names come before the first wildcard.
    fixed: usize,
}

impl Rule {
    fn new(names: Vec<Name>, mark: Mark, start: Start) -> Self {
        let fixed = names.iter().take_while(|name| matches!(name, Name::Literal(_))).count();
        Self { names, mark, start, fixed }
    }
}

/// The entries of a policy, ready to be walked along.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    rules: Vec<Rule>,
}

/// A rule of which the first components have been passed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Live {
    rule: usize,
    passed: usize,
    /// Every path that this walk stands for has passed them, not only some.
    sure: bool,
    /// A wildcard of it has stood for a folder that is hidden, or for what lies in one: it shows nothing there, since it does not name
    /// that folder.
    led_into_hidden: bool,
}

/// How far a walk has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Walk {
    live: Vec<Live>,
    pub access: Access,
    at_root: bool,
}

/// A path at which something is allowed that should not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileExcess {
    At(PathBuf, Access),
    /// The patterns are too many to be compared.
    Undecided,
}

/// States looked at before the comparison is given up.
const STATES_MOST: usize = 2_000_000;

/// The components of a pattern.
pub(super) fn names(pattern: &PathPattern) -> Vec<Name> {
    let base = pattern.base().components().filter_map(|component| match component {
        Component::Normal(name) => Some(Name::literal(name.as_bytes())),
        _ => None,
    });
    base.chain(pattern.rest().iter().map(|name| Name::written(name))).collect()
}

impl Files {
    pub fn new(files: &ExpandedFilesystem) -> Self {
        let mut rules = Vec::new();
        for (patterns, mark) in [
            (&files.read, Mark::Read),
            (&files.unix_sockets, Mark::Connect),
            (&files.write, Mark::Write),
            (&files.hide, Mark::Hide),
        ] {
            let rule = |pattern| Rule::new(names(pattern), mark, Start::Root);
            rules.extend(patterns.iter().map(rule));
        }
        rules.extend(files.protect.iter().map(|pattern| {
            let written = |names: &[String]| names.iter().map(|name| Name::written(name)).collect();
            let (names, start) = match pattern {
                ProtectPattern::BelowRoots(names) => (written(names), Start::WritableRoots),
                ProtectPattern::Anywhere(names) => (written(names), Start::Anywhere),
                ProtectPattern::At(path) => (names(path), Start::Root),
            };
            Rule::new(names, Mark::Protect, start)
        }));
        Self { rules }
    }

    /// What may be done with this path: absolute, and without `..`.
    pub fn access(&self, path: &Path) -> Access {
        let names = names(&PathPattern::literal(path));
        self.walk(&names).access
    }

    /// Along all paths that these components stand for: what is allowed is allowed on each.
    pub(super) fn walk(&self, names: &[Name]) -> Walk {
        names.iter().fold(self.begin(), |walk, name| self.step(&walk, name))
    }

    fn begin(&self) -> Walk {
        let mut walk = Walk { live: Vec::new(), access: Access::default(), at_root: true };
        let at_root = self.rules.iter().enumerate().filter(|(_, rule)| rule.start == Start::Root);
        let reached = at_root
            .map(|(rule, _)| Live { rule, passed: 0, sure: true, led_into_hidden: false })
            .filter_map(|live| self.arrive(live, &mut walk.live));
        let reached: Vec<(Mark, bool)> = reached.collect();
        self.apply(reached, &mut walk);
        walk
    }

    fn step(&self, walk: &Walk, name: &Name) -> Walk {
        let mut next = Walk { live: Vec::new(), access: walk.access, at_root: false };
        let anywhere =
            self.rules.iter().enumerate().filter(|(_, rule)| rule.start == Start::Anywhere);
        let anywhere =
            anywhere.map(|(rule, _)| Live { rule, passed: 0, sure: true, led_into_hidden: false });
        let mut reached = Vec::new();
        for live in walk.live.iter().cloned().chain(anywhere) {
            let wanted = self.rules.get(live.rule).and_then(|rule| rule.names.get(live.passed));
            let fit = wanted.map_or(Fit::No, |wanted| wanted.fit(name));
            if fit == Fit::No {
                continue;
            }
            let live =
                Live { passed: live.passed + 1, sure: live.sure && fit == Fit::Must, ..live };
            reached.extend(self.arrive(live, &mut next.live));
        }
        self.apply(reached, &mut next);
        next
    }

    /// The mark of a rule all of whose components are passed; others stay alive.
    fn arrive(&self, live: Live, alive: &mut Vec<Live>) -> Option<(Mark, bool)> {
        let rule = self.rules.get(live.rule)?;
        if live.passed == rule.names.len() {
            let shows = matches!(rule.mark, Mark::Read | Mark::Connect | Mark::Write);
            return (!shows || !live.led_into_hidden).then_some((rule.mark, live.sure));
        }
        alive.push(live);
        None
    }

    fn apply(&self, mut reached: Vec<(Mark, bool)>, walk: &mut Walk) {
        reached.sort_unstable();
        for (mark, sure) in reached {
            let access = &mut walk.access;
            match mark {
                Mark::Protect => access.write = false,
                Mark::Read => access.read |= sure,
                Mark::Connect => {
                    access.read |= sure;
                    access.connect |= sure;
                }
                Mark::Write => {
                    access.read |= sure;
                    access.write |= sure;
                    // Full access confines no file, and so no socket.
                    access.connect |= walk.at_root;
                    let below = self.rules.iter().enumerate();
                    let below = below.filter(|(_, rule)| rule.start == Start::WritableRoots);
                    walk.live.extend(below.map(|(rule, _)| Live {
                        rule,
                        passed: 0,
                        sure,
                        led_into_hidden: false,
                    }));
                }
                Mark::Hide => {
                    *access = Access::default();
                    for live in &mut walk.live {
                        let rule = self.rules.get(live.rule);
                        live.led_into_hidden |= rule.is_some_and(|rule| rule.fixed < live.passed);
                    }
                }
            }
        }
        walk.live.sort_unstable();
        walk.live.dedup();
    }

    /// Whether a rule with such a mark may still be met below.
    fn may_meet(&self, walk: &Walk, is_such: impl Fn(Mark) -> bool) -> bool {
        let live = walk.live.iter().filter_map(|live| self.rules.get(live.rule));
        // These begin again anywhere, or at a writable root.
        let later = self.rules.iter().filter(|rule| rule.start != Start::Root);
        live.chain(later).any(|rule| is_such(rule.mark))
    }

    /// The components that lead on from here to what some rule names.
    fn next_names<'a>(&'a self, walk: &'a Walk) -> impl Iterator<Item = &'a Name> {
        let live = walk.live.iter().filter_map(|live| {
            self.rules.get(live.rule).and_then(|rule| rule.names.get(live.passed))
        });
        let anywhere = self.rules.iter().filter(|rule| rule.start == Start::Anywhere);
        live.chain(anywhere.filter_map(|rule| rule.names.first()))
    }
}

/// The first path found at which `lower` allows what none of `uppers` allows. Every path is of one kind with some path that is
/// looked at: rules tell names apart only by which of their components match.
pub(super) fn excess(lower: &Files, uppers: &[&Files]) -> Option<FileExcess> {
    let all: Vec<&Files> = std::iter::once(lower).chain(uppers.iter().copied()).collect();
    let start: Vec<Walk> = all.iter().map(|files| files.begin()).collect();
    let mut seen: HashSet<Vec<Walk>> = HashSet::from([start.clone()]);
    let mut left = vec![(start, PathBuf::from("/"))];
    while let Some((walks, path)) = left.pop() {
        let Some((low, high)) = walks.split_first() else { continue };
        let any = |of: fn(&Access) -> bool| high.iter().any(|walk| of(&walk.access));
        let beyond = Access {
            read: low.access.read && !any(|access| access.read),
            write: low.access.write && !any(|access| access.write),
            connect: low.access.connect && !any(|access| access.connect),
        };
        if beyond != Access::default() {
            return Some(FileExcess::At(path, beyond));
        }
        // Most subtrees need no look: nothing is allowed in there, or all of it, whatever comes.
        let only_gains = |(files, walk): (&&Files, &Walk)| {
            walk.access == ALL
                && !files.may_meet(walk, |mark| matches!(mark, Mark::Hide | Mark::Protect))
        };
        let gains_nothing = low.access == Access::default()
            && !lower.may_meet(low, |mark| !matches!(mark, Mark::Hide | Mark::Protect));
        if gains_nothing || uppers.iter().zip(high).any(only_gains) {
            continue;
        }
        let mut literals: HashSet<&[u8]> = HashSet::new();
        let mut globs: HashSet<&[u8]> = HashSet::new();
        for name in all.iter().zip(&walks).flat_map(|(files, walk)| files.next_names(walk)) {
            match name {
                Name::Literal(name) => literals.insert(name),
                Name::Glob(glob) => globs.insert(glob),
            };
        }
        let Some(others) = one_of_each_kind(&globs, &literals) else {
            return Some(FileExcess::Undecided);
        };
        for name in literals.into_iter().map(<[u8]>::to_vec).chain(others) {
            let step = Name::Literal(name.clone());
            let next: Vec<Walk> =
                all.iter().zip(&walks).map(|(files, walk)| files.step(walk, &step)).collect();
            if seen.len() > STATES_MOST {
                return Some(FileExcess::Undecided);
            }
            if seen.insert(next.clone()) {
                left.push((next, path.join(OsString::from_vec(name))));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{policy, variables};

    fn files(entries: &[(&str, &str)]) -> Files {
        let mut policy = policy();
        for (key, entry) in entries {
            let list = match *key {
                "read" => &mut policy.filesystem.read,
                "write" => &mut policy.filesystem.write,
                "hide" => &mut policy.filesystem.hide,
                "protect" => &mut policy.filesystem.protect,
                "unix_sockets" => &mut policy.network.unix_sockets,
                _ => panic!("{key}"),
            };
            list.push((*entry).to_owned());
        }
        Files::new(&policy.expand(&variables()).unwrap())
    }

    /// `r`, `w`, `c`, or `-` for nothing.
    fn access(files: &Files, path: &str) -> String {
        let Access { read, write, connect } = files.access(Path::new(path));
        let text: String = [(read, 'r'), (write, 'w'), (connect, 'c')]
            .into_iter()
            .filter_map(|(may, letter)| may.then_some(letter))
            .collect();
        if text.is_empty() { "-".to_owned() } else { text }
    }

    #[test]
    fn what_the_deepest_entry_says_counts() {
        // spec 5.4, issue 3: deny in allow and allow in deny
        let files = files(&[
            ("read", "~"),
            ("hide", "~/.config"),
            ("read", "~/.config/git/ignore"),
            ("write", "$WORKSPACE"),
            ("hide", "$WORKSPACE/secret"),
            ("write", "$WORKSPACE/secret/out"),
        ]);
        for (path, expected) in [
            ("/", "-"),
            ("/home/u", "r"),
            ("/home/u/x", "r"),
            ("/home/u/.config", "-"),
            ("/home/u/.config/git", "-"),
            ("/home/u/.config/git/ignore", "r"),
            ("/w/a", "rw"),
            ("/w/secret/key", "-"),
            ("/w/secret/out/x", "rw"),
        ] {
            assert_eq!(access(&files, path), expected, "{path}");
        }
    }

    #[test]
    fn a_wildcard_names_nothing_that_lies_in_a_hidden_folder() {
        // issue 3
        let files = files(&[
            ("read", "~/*/config"),
            ("write", "~/.*/cache"),
            ("hide", "~/.ssh"),
            ("read", "~/.ssh/*.pub"),
            ("read", "/a/*/open"),
            ("hide", "/a/b"),
            ("write", "/a/b/open/*"),
        ]);
        for (path, expected) in [
            ("/home/u/x/config", "r"),
            ("/home/u/.ssh/config", "-"),
            ("/home/u/.ssh/cache", "-"),
            ("/home/u/.cfg/cache", "rw"),
            ("/home/u/.ssh/id.pub", "r"),
            ("/home/u/.ssh/id", "-"),
            ("/a/c/open", "r"),
            ("/a/b/open", "-"),
            ("/a/b/open/x", "rw"),
        ] {
            assert_eq!(access(&files, path), expected, "{path}");
        }
    }

    #[test]
    fn a_wider_root_undoes_neither_what_is_hidden_nor_what_is_protected() {
        // issue 3
        let files = files(&[
            ("write", "$WORKSPACE"),
            ("write", "/"),
            ("hide", "$WORKSPACE/.ssh"),
            ("protect", "**/.git/hooks"),
            ("protect", "$WORKSPACE/vendor"),
        ]);
        assert_eq!(access(&files, "/w/.ssh/id"), "-");
        assert_eq!(access(&files, "/w/.git/hooks/pre-commit"), "rc");
        assert_eq!(access(&files, "/w/deep/er/.git/hooks"), "rc");
        assert_eq!(access(&files, "/w/vendor/x"), "rc");
        assert_eq!(access(&files, "/w/.git/HEAD"), "rwc");
    }

    #[test]
    fn a_writable_root_at_or_below_a_protected_path_was_named_on_purpose() {
        let files = files(&[
            ("write", "$WORKSPACE"),
            ("protect", ".github/workflows"),
            ("write", "$WORKSPACE/.github/workflows"),
            ("protect", ".vscode"),
            ("write", "$WORKSPACE/.vscode/snippets"),
        ]);
        assert_eq!(access(&files, "/w/.github/workflows/ci.yml"), "rw");
        assert_eq!(access(&files, "/w/.vscode/tasks.json"), "r");
        assert_eq!(access(&files, "/w/.vscode/snippets/x"), "rw");
    }

    #[test]
    fn a_protected_name_counts_below_every_root_and_not_deeper_unless_it_says_so() {
        let files = files(&[
            ("write", "/a"),
            ("write", "/b"),
            ("protect", ".git/hooks"),
            ("protect", "**/.envrc"),
        ]);
        for (path, expected) in [
            ("/a/.git/hooks/x", "r"),
            ("/b/.git/hooks", "r"),
            ("/a/n/.git/hooks", "rw"),
            ("/a/n/.envrc", "r"),
            ("/a/.git", "rw"),
        ] {
            assert_eq!(access(&files, path), expected, "{path}");
        }
    }

    #[test]
    fn sockets_are_connected_to_where_they_are_named_and_under_full_access() {
        let named = files(&[("read", "/run"), ("unix_sockets", "/run/db/*.sock")]);
        assert_eq!(access(&named, "/run/db/a.sock"), "rc");
        assert_eq!(access(&named, "/run/db/a.pid"), "r");
        assert_eq!(access(&files(&[("write", "/")]), "/run/x"), "rwc");
    }

    #[test]
    fn a_path_beyond_is_found_and_named() {
        let policy = files(&[("read", "/usr"), ("hide", "/usr/*/key*")]);
        let wider = files(&[("read", "/usr"), ("hide", "/usr/a/key*")]);
        assert_eq!(excess(&policy, &[&wider]), None);
        let Some(FileExcess::At(path, beyond)) = excess(&wider, &[&policy]) else { panic!() };
        assert!(path.starts_with("/usr") && beyond.read, "{path:?}");
        assert!(policy.access(&path) == Access::default() && wider.access(&path).read);
        // What neither alone allows, both together do.
        let a = files(&[("read", "/a")]);
        let b = files(&[("read", "/b")]);
        assert_eq!(excess(&files(&[("read", "/a"), ("read", "/b")]), &[&a, &b]), None);
    }
}
