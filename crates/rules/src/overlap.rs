//! Whether two patterns of paths have a path in common.

/// A piece of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Is(char),
    /// Any one character but `/`.
    One,
    /// Any characters but `/`.
    Some,
    /// Any characters.
    Any,
}

/// Reads a glob. Classes and alternatives count as whatever they might be.
pub(crate) fn pieces(glob: &str) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut chars = glob.chars().peekable();
    while let Some(c) = chars.next() {
        let piece = match c {
            '\\' => chars.next().map_or(Piece::Is(c), Piece::Is),
            '…' => Piece::Any,
            '*' if chars.peek() == Some(&'*') => {
                chars.next();
                // `a/**/b` is also `a/b`.
                if chars.peek() == Some(&'/') {
                    chars.next();
                }
                Piece::Any
            }
            '*' | '?' | '@' | '+' | '!' if chars.peek() == Some(&'(') => {
                for c in chars.by_ref() {
                    if c == ')' {
                        break;
                    }
                }
                Piece::Any
            }
            '*' => Piece::Some,
            '?' => Piece::One,
            '[' if chars.clone().any(|c| c == ']') => {
                for c in chars.by_ref() {
                    if c == ']' {
                        break;
                    }
                }
                Piece::One
            }
            '{' if chars.clone().any(|c| c == '}') => {
                for c in chars.by_ref() {
                    if c == '}' {
                        break;
                    }
                }
                Piece::Any
            }
            c => Piece::Is(c),
        };
        found.push(piece);
    }
    found
}

/// A text that is no pattern.
pub(crate) fn literal(text: &str) -> Vec<Piece> {
    text.chars().map(Piece::Is).collect()
}

/// Whether some path is meant by both.
pub(crate) fn overlap(left: &[Piece], right: &[Piece]) -> bool {
    // From the ends to the beginnings: `next` is the row below.
    let width = right.len() + 1;
    let mut next = vec![false; width];
    for at in (0..=left.len()).rev() {
        let mut row = vec![false; width];
        for to in (0..width).rev() {
            let (a, b) = (left.get(at), right.get(to));
            let below = next.get(to).copied().unwrap_or(false);
            let beside = row.get(to + 1).copied().unwrap_or(false);
            let across = next.get(to + 1).copied().unwrap_or(false);
            let found = match (a, b) {
                (None, None) => true,
                (Some(a), None) => is_open(*a) && below,
                (None, Some(b)) => is_open(*b) && beside,
                (Some(a), Some(b)) => match (is_open(*a), is_open(*b)) {
                    (true, true) => below || beside,
                    (true, false) => below || (fits(*a, *b) && beside),
                    (false, true) => beside || (fits(*b, *a) && below),
                    (false, false) => fits(*a, *b) && across,
                },
            };
            if let Some(cell) = row.get_mut(to) {
                *cell = found;
            }
        }
        next = row;
    }
    next.first().copied().unwrap_or(false)
}

fn is_open(piece: Piece) -> bool {
    matches!(piece, Piece::Some | Piece::Any)
}

fn fits(left: Piece, right: Piece) -> bool {
    match (left, right) {
        (Piece::Any, _) | (_, Piece::Any) => true,
        (Piece::Is(a), Piece::Is(b)) => a == b,
        (_, Piece::Is('/')) | (Piece::Is('/'), _) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_overlap_exactly_when_a_path_is_meant_by_both() {
        for (left, right, expected) in [
            ("/w/.env", "/w/.e[n]v", true),
            ("/w/.env", "/w/*", true),
            ("/w/.env", "/w/*.txt", false),
            ("/w/a/**", "/w/*/b", true),
            ("/w/a/**", "/w/b/*", false),
            ("/w/**/x", "/w/x", true),
            ("/w/a", "…", true),
            ("/w/a", "…b", false),
            ("/w/a/b", "/w/*", false),
            ("/w/{a,b}", "/w/b", true),
        ] {
            assert_eq!(overlap(&pieces(left), &pieces(right)), expected, "{left} {right}");
            assert_eq!(overlap(&pieces(right), &pieces(left)), expected, "{right} {left}");
        }
        assert!(!overlap(&literal("/w/*"), &literal("/w/a")));
    }
}
