use std::collections::HashSet;

/// The policies that come with Stockade: name and text.
const SHIPPED: [(&str, &str); 6] = [
    ("read-only", include_str!("../../../policies/read-only.toml")),
    ("offline-tests", include_str!("../../../policies/offline-tests.toml")),
    ("workspace-write", include_str!("../../../policies/workspace-write.toml")),
    ("ci", include_str!("../../../policies/ci.toml")),
    ("build", include_str!("../../../policies/build.toml")),
    ("danger-full-access", include_str!("../../../policies/danger-full-access.toml")),
];

/// The names of the policies that come with Stockade, the narrowest first.
pub fn shipped_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.into_iter().map(|(name, _)| name)
}

/// What a shipped policy is for: the sentence with which its file begins.
pub fn shipped_summary(name: &str) -> Option<&'static str> {
    let first = shipped(name)?.lines().next()?;
    first.strip_prefix("# ")?.split_once(": ").map(|(_, summary)| summary.trim_end_matches('.'))
}

/// The entries of `written` that no shipped policy has, word for word.
pub(crate) fn not_shipped(written: &[String]) -> impl Iterator<Item = &String> {
    let lines = SHIPPED.into_iter().flat_map(|(_, text)| text.lines());
    let entries = lines.filter_map(|line| line.trim_start().strip_prefix('"')?.split('"').next());
    let known: HashSet<&str> = entries.collect();
    written.iter().filter(move |entry| !known.contains(entry.as_str()))
}

pub(crate) fn shipped(name: &str) -> Option<&'static str> {
    SHIPPED.into_iter().find(|(known, _)| *known == name).map(|(_, text)| text)
}
