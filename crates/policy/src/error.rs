use crate::{LimitError, Place};

/// Why a policy could not be loaded. Nothing of it is in force then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No shipped policy has this name.
    #[error(
        "there is no policy named {name:?}{hint}; a policy file is named by a path with a '/' or by a name that ends in .toml"
    )]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// What there is instead.
        hint: String,
    },
    /// The file could not be read.
    #[error("cannot read the policy file {file}: {reason}")]
    Unreadable {
        /// The file, as it was named.
        file: String,
        /// Why.
        reason: String,
    },
    /// Something in the file is wrong.
    #[error("{place}: {problem}")]
    Invalid {
        /// Where.
        place: Place,
        /// What, and what would be right.
        problem: String,
    },
    /// Files extend each other in a circle.
    #[error("{place}: these policies extend each other in a circle: {}", chain.join(" -> "))]
    Cycle {
        /// The `extends` that closes the circle.
        place: Place,
        /// Each file of the circle, the first one again at the end.
        chain: Vec<String>,
    },
}

/// Why an overlay (`--read`, `--hide`, …) cannot be laid over a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverlayError {
    /// A path is not absolute, or holds `..`.
    #[error("{option} {path}: the path must be absolute and without '..'")]
    Path {
        /// `--read`, `--write` or `--hide`.
        option: &'static str,
        /// The path, for people.
        path: String,
    },
    /// The path is hidden, and hiding always wins.
    #[error("{option} {path}: the path is hidden by {by:?}, and what is hidden cannot be granted")]
    Hidden {
        /// `--read` or `--write`.
        option: &'static str,
        /// The path, for people.
        path: String,
        /// The `hide` entry.
        by: String,
    },
    /// The path is protected, and an option does not undo that.
    #[error(
        "{option} {path}: the path is protected by {by:?}; a policy file that names it in `write` lifts that"
    )]
    Protected {
        /// `--write`.
        option: &'static str,
        /// The path, for people.
        path: String,
        /// The `protect` entry.
        by: String,
    },
    /// Full access hides and protects nothing, so the two exclude each other.
    #[error(
        "{option}: writing everything (\"/\") is full access, in which nothing can be hidden or protected; use the policy danger-full-access alone, or write to fewer paths"
    )]
    FullAccess {
        /// `--write` or `--hide`.
        option: &'static str,
    },
    /// A limit is wrong.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// An entry of the policy itself is wrong.
    #[error(transparent)]
    Entry(#[from] EntryError),
}

/// Why an entry of a policy means nothing. A loaded policy has none of these.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{entry:?}: {problem}")]
pub struct EntryError {
    /// The entry, as written.
    pub entry: String,
    /// What is wrong with it.
    pub problem: String,
}

/// `; did you mean "x"?`, or nothing.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let best = known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .min_by_key(|(distance, _)| *distance);
    match best {
        Some((distance, candidate))
            if distance <= 1 + candidate.len() / 4 && distance < candidate.len() =>
        {
            format!("; did you mean {candidate:?}?")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggestion_is_made_only_where_it_is_near() {
        let known = ["read", "write", "hide"];
        assert_eq!(did_you_mean("reed", known), "; did you mean \"read\"?");
        assert_eq!(did_you_mean("wrtie", known), "; did you mean \"write\"?");
        assert_eq!(did_you_mean("network", known), "");
    }
}
