use crate::wildcard;
use std::collections::{HashSet, VecDeque};

/// One component of a path: a name, or all names that a pattern with `*` stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Name {
    Literal(Vec<u8>),
    Glob(Vec<u8>),
}

/// How a rule's component fits a set of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// None of them.
    No,
    /// Some of them.
    May,
    /// All of them.
    Must,
}

/// More patterns than this are not the intersection of two that a person wrote.
const INTERSECTION_MOST: usize = 64;
/// The most joint states of patterns that are looked at to find one name of each kind.
const STATES_MOST: usize = 20_000;

impl Name {
    pub fn literal(bytes: &[u8]) -> Self {
        Self::Literal(bytes.to_vec())
    }

    /// A component as a policy writes it.
    pub fn written(text: &str) -> Self {
        let bytes = text.as_bytes().to_vec();
        if bytes.contains(&b'*') { Self::Glob(bytes) } else { Self::Literal(bytes) }
    }

    pub(super) fn fit(&self, names: &Name) -> Fit {
        let whether = |fits: bool, how: Fit| if fits { how } else { Fit::No };
        match (self, names) {
            (Self::Literal(rule), Self::Literal(name)) => whether(rule == name, Fit::Must),
            (Self::Glob(rule), Self::Literal(name)) => {
                whether(wildcard::matches(rule, name), Fit::Must)
            }
            (Self::Literal(rule), Self::Glob(names)) => {
                whether(wildcard::matches(names, rule), Fit::May)
            }
            // The `*` of `names` is matched as a byte that only a `*` of the rule can stand for: then it stands for all of them.
            (Self::Glob(rule), Self::Glob(names)) if wildcard::matches(rule, names) => Fit::Must,
            (Self::Glob(rule), Self::Glob(names)) => whether(overlap(rule, names), Fit::May),
        }
    }

    /// The names that both stand for. Too many patterns give none, which is less than it could be, and never more.
    pub fn intersect(&self, other: &Name) -> Vec<Name> {
        match (self, other) {
            (Self::Glob(a), Self::Glob(b)) => {
                let mut found = HashSet::new();
                if intersect(a, b, &mut Vec::new(), &mut found).is_none() {
                    return Vec::new();
                }
                let mut found: Vec<Vec<u8>> = found.into_iter().collect();
                found.sort();
                let all = found.clone();
                found.retain(|glob| {
                    !all.iter().any(|wider| wider != glob && wildcard::matches(wider, glob))
                });
                let name = |glob: Vec<u8>| {
                    if glob.contains(&b'*') { Self::Glob(glob) } else { Self::Literal(glob) }
                };
                found.into_iter().map(name).collect()
            }
            (Self::Glob(_), Self::Literal(_)) if self.fit(other) == Fit::Must => {
                vec![other.clone()]
            }
            (Self::Literal(_), _) if other.fit(self) == Fit::Must => vec![self.clone()],
            _ => Vec::new(),
        }
    }
}

/// Whether any text is matched by both.
fn overlap(a: &[u8], b: &[u8]) -> bool {
    // Which ends of `b` go with each end of `a`, from the back.
    let mut below: Vec<bool> = Vec::new();
    for i in (0..=a.len()).rev() {
        let mut here = vec![false; b.len() + 1];
        for j in (0..=b.len()).rev() {
            let right = here.get(j + 1).copied().unwrap_or(false);
            let down = below.get(j).copied().unwrap_or(false);
            let diagonal = below.get(j + 1).copied().unwrap_or(false);
            let fits = match (a.get(i), b.get(j)) {
                (None, None) => true,
                (Some(b'*'), _) | (_, Some(b'*')) => {
                    // A star ends, or takes what the other has here.
                    (a.get(i) == Some(&b'*') && (down || (j < b.len() && right)))
                        || (b.get(j) == Some(&b'*') && (right || (i < a.len() && down)))
                }
                (Some(x), Some(y)) => x == y && diagonal,
                _ => false,
            };
            if let Some(slot) = here.get_mut(j) {
                *slot = fits;
            }
        }
        below = here;
    }
    below.first().copied().unwrap_or(false)
}

/// Puts every pattern of the intersection, behind `before`, into `found`. `None` if there are too many.
fn intersect(a: &[u8], b: &[u8], before: &mut Vec<u8>, found: &mut HashSet<Vec<u8>>) -> Option<()> {
    if !overlap(a, b) {
        return Some(());
    }
    if found.len() > INTERSECTION_MOST {
        return None;
    }
    let mut with = |byte: u8, a: &[u8], b: &[u8]| {
        // Two stars in a row are one.
        let add = byte != b'*' || before.last() != Some(&b'*');
        if add {
            before.push(byte);
        }
        let done = intersect(a, b, before, found);
        if add {
            before.pop();
        }
        done
    };
    match (a.split_first(), b.split_first()) {
        (None, None) => {
            found.insert(before.clone());
            Some(())
        }
        (Some((b'*', a_rest)), Some((b'*', b_rest))) => {
            with(b'*', a_rest, b)?;
            with(b'*', a, b_rest)
        }
        (Some((b'*', a_rest)), None) => intersect(a_rest, b, before, found),
        (None, Some((b'*', b_rest))) => intersect(a, b_rest, before, found),
        (Some((b'*', a_rest)), Some((byte, b_rest))) => {
            with(*byte, a, b_rest)?;
            intersect(a_rest, b, before, found)
        }
        (Some((byte, a_rest)), Some((b'*', b_rest))) => {
            with(*byte, a_rest, b)?;
            intersect(a, b_rest, before, found)
        }
        (Some((byte, a_rest)), Some((_, b_rest))) => with(*byte, a_rest, b_rest),
        _ => Some(()),
    }
}

/// One name of each kind: names that the same patterns match, and that are none of `literals`, are of one kind. `None` if that
/// would take too long.
pub(super) fn one_of_each_kind(
    globs: &HashSet<&[u8]>,
    literals: &HashSet<&[u8]>,
) -> Option<Vec<Vec<u8>>> {
    let mut globs: Vec<&[u8]> = globs.iter().copied().collect();
    globs.sort_unstable();
    let mut near: Vec<&[u8]> = literals
        .iter()
        .copied()
        .filter(|literal| globs.iter().any(|glob| wildcard::matches(glob, literal)))
        .collect();
    near.sort_unstable();
    // Not names of files.
    near.extend([&b"."[..], b".."]);
    let used: HashSet<u8> =
        globs.iter().chain(literals).flat_map(|text| text.iter().copied()).collect();
    let fresh = (b'x'..=b'z').chain(b'a'..=b'w').chain(1..=255);
    let fresh = fresh.into_iter().find(|byte| !used.contains(byte) && !b"/*.".contains(byte));
    if globs.is_empty() {
        // Any name that is no literal: a letter that none has, or a name longer than all.
        let longest = literals.iter().map(|literal| literal.len()).max().unwrap_or(0);
        return Some(vec![fresh.map_or_else(|| vec![b'x'; longest + 1], |byte| vec![byte])]);
    }
    let mut alphabet: Vec<u8> = globs
        .iter()
        .chain(&near)
        .flat_map(|text| text.iter().copied())
        .filter(|byte| *byte != b'*')
        .collect();
    alphabet.sort_unstable();
    alphabet.dedup();
    alphabet.extend(fresh);

    let patterns: Vec<&[u8]> = globs.iter().chain(&near).copied().collect();
    let start: Vec<Positions> = patterns.iter().map(|pattern| closed(pattern, [0])).collect();
    let mut seen: HashSet<Vec<Positions>> = HashSet::from([start.clone()]);
    let mut queue = VecDeque::from([(start, Vec::new())]);
    let mut kinds: HashSet<Vec<bool>> = HashSet::new();
    let mut names = Vec::new();
    while let Some((state, word)) = queue.pop_front() {
        let accepts: Vec<bool> = state
            .iter()
            .zip(&patterns)
            .map(|(positions, pattern)| positions.contains(&pattern.len()))
            .collect();
        let (by_globs, by_literals) = accepts.split_at(globs.len());
        if !word.is_empty()
            && !by_literals.contains(&true)
            && !kinds.contains(by_globs)
            // Without a fresh letter, this may still be one.
            && !literals.contains(word.as_slice())
        {
            kinds.insert(by_globs.to_vec());
            names.push(word.clone());
        }
        for byte in &alphabet {
            let next: Vec<Positions> = state
                .iter()
                .zip(&patterns)
                .map(|(positions, pattern)| step(pattern, positions, *byte))
                .collect();
            if seen.len() > STATES_MOST {
                return None;
            }
            if seen.insert(next.clone()) {
                let mut word = word.clone();
                word.push(*byte);
                queue.push_back((next, word));
            }
        }
    }
    Some(names)
}

/// Where in a pattern a text may have come to: sorted.
type Positions = Vec<usize>;

fn step(pattern: &[u8], positions: &[usize], byte: u8) -> Positions {
    closed(
        pattern,
        positions.iter().filter_map(|at| match pattern.get(*at) {
            Some(b'*') => Some(*at),
            Some(wanted) if *wanted == byte => Some(at + 1),
            _ => None,
        }),
    )
}

/// With what a star that stands for nothing leads to.
fn closed(pattern: &[u8], positions: impl IntoIterator<Item = usize>) -> Positions {
    let mut all = Vec::new();
    for mut at in positions {
        all.push(at);
        while pattern.get(at) == Some(&b'*') {
            at += 1;
            all.push(at);
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn glob(text: &str) -> Name {
        Name::written(text)
    }

    #[test]
    fn a_pattern_fits_all_some_or_none_of_anothers_names() {
        for (rule, names, fit) in [
            ("a*", "ab*", Fit::Must),
            ("ab*", "a*", Fit::May),
            ("a*", "*b", Fit::May),
            ("a*", "b*", Fit::No),
            ("a", "*", Fit::May),
            ("*", "a", Fit::Must),
            ("*x*", "a*", Fit::May),
            ("ab*", "*bc", Fit::May),
            ("a", "a", Fit::Must),
        ] {
            assert_eq!(glob(rule).fit(&glob(names)), fit, "{rule} {names}");
        }
    }

    #[test]
    fn the_intersection_of_patterns_is_patterns() {
        let of = |a: &str, b: &str| -> Vec<String> {
            let text = |name: Name| match name {
                Name::Literal(bytes) | Name::Glob(bytes) => String::from_utf8(bytes).unwrap(),
            };
            glob(a).intersect(&glob(b)).into_iter().map(text).collect()
        };
        assert_eq!(of("a*", "*b"), ["a*b"]);
        assert_eq!(of("ab*", "*bc"), ["ab*bc", "abc"]);
        assert_eq!(of("*", "x"), ["x"]);
        assert_eq!(of("a*", "b*"), [""; 0]);
        assert_eq!(of("*a*", "*b*"), ["*a*b*", "*b*a*"]);
    }

    #[test]
    fn there_is_one_name_of_each_kind() {
        let globs: HashSet<&[u8]> = [&b"a*"[..], b"*b"].into();
        let literals: HashSet<&[u8]> = [&b"ab"[..]].into();
        let mut kinds: Vec<(bool, bool)> = one_of_each_kind(&globs, &literals)
            .unwrap()
            .iter()
            .map(|name| {
                assert_ne!(name, b"ab");
                (wildcard::matches(b"a*", name), wildcard::matches(b"*b", name))
            })
            .collect();
        kinds.sort_unstable();
        assert_eq!(kinds, [(false, false), (false, true), (true, false), (true, true)]);
    }

    proptest! {
        #[test]
        fn an_intersection_matches_what_both_match(
            a in "[ab*]{0,5}", b in "[ab*]{0,5}", text in "[abc]{0,6}"
        ) {
            let both = wildcard::matches(a.as_bytes(), text.as_bytes())
                && wildcard::matches(b.as_bytes(), text.as_bytes());
            let (a, b) = (Name::Glob(a.into_bytes()), Name::Glob(b.into_bytes()));
            let text = Name::Literal(text.into_bytes());
            let found = a.intersect(&b);
            prop_assert_eq!(found.iter().any(|name| name.fit(&text) == Fit::Must), both);
            prop_assert_eq!(found.is_empty(), a.fit(&b) == Fit::No);
        }
    }
}
