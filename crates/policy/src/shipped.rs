/// The policies that come with Stockade: name and text.
const SHIPPED: [(&str, &str); 3] = [
    ("read-only", include_str!("../../../policies/read-only.toml")),
    ("workspace-write", include_str!("../../../policies/workspace-write.toml")),
    ("danger-full-access", include_str!("../../../policies/danger-full-access.toml")),
];

/// The names of the policies that come with Stockade, the narrowest first.
pub fn shipped_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.into_iter().map(|(name, _)| name)
}

pub(crate) fn shipped(name: &str) -> Option<&'static str> {
    SHIPPED.into_iter().find(|(known, _)| *known == name).map(|(_, text)| text)
}
