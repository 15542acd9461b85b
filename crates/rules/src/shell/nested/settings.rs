//! Settings of a shell that change nothing of what a line runs: those of `set`, which are a shell's own options too, and those of `shopt`, which a
//! shell takes behind `-O`. Any other is a doubt.

use crate::shell::Word;

/// Options of `set` by their letters.
pub(super) const LETTERS: &str = "efuvxCET";

/// The same by their names, behind `-o`.
const OF_SET: &str =
    "errexit nounset pipefail xtrace verbose noexec noglob noclobber errtrace functrace posix";

const OF_SHOPT: &str =
    "nullglob globstar dotglob failglob extglob nocaseglob inherit_errexit lastpipe huponexit";

fn among(list: &str, word: &Word) -> bool {
    word.exact && list.split(' ').any(|known| known == word.text)
}

/// Whether a shell may be given this behind `-o` or `-O`.
pub(super) fn is_harmless(word: &Word) -> bool {
    among(OF_SET, word) || among(OF_SHOPT, word)
}

/// Whether `set` with these words changes nothing of what is run.
pub(super) fn set(rest: &[Word]) -> bool {
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        let Some(cluster) = word.text.strip_prefix(['-', '+']).filter(|_| word.exact) else {
            return false;
        };
        if cluster.is_empty() || !cluster.chars().all(|c| c == 'o' || LETTERS.contains(c)) {
            return false;
        }
        // Each `o` takes a word; without one the settings are only shown.
        let names = cluster.matches('o').count();
        if !words.by_ref().take(names).all(|name| among(OF_SET, name)) {
            return false;
        }
    }
    true
}

/// Whether `shopt` with these words changes nothing of what is run.
pub(super) fn shopt(rest: &[Word]) -> bool {
    rest.iter().all(|word| among("-s -u -q -p", word) || among(OF_SHOPT, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 2.5
    #[test]
    fn what_makes_a_shell_stricter_is_harmless_and_all_else_is_not() {
        let words = |line: &str| line.split_whitespace().map(Word::known).collect::<Vec<_>>();
        for line in ["-e", "-euo pipefail", "-eu -o pipefail", "+x", "-o errexit -o nounset", "-o"]
        {
            assert!(set(&words(line)), "{line}");
        }
        for line in [
            "-a",
            "-k",
            "-eua",
            "-o allexport",
            "pipefail",
            "-- x",
            "x",
            "-euo x",
            "-oo errexit history",
        ] {
            assert!(!set(&words(line)), "{line}");
        }
        assert!(shopt(&words("-s nullglob globstar")) && !shopt(&words("-s expand_aliases")));
        assert!(!set(&[Word::unknown("-e")]));
    }
}
