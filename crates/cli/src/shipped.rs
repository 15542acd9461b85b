//! The shipped policies as the build read them (`build.rs`).

use stockade_policy::Policy;

const SHIPPED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// A shipped policy, without reading its text.
pub fn policy(name: &str) -> Option<Policy> {
    let (_, bytes) = SHIPPED.iter().find(|(known, _)| *known == name)?;
    postcard::from_bytes(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_policy::shipped_names;

    #[test]
    fn the_build_read_every_shipped_policy_as_it_is() {
        for name in shipped_names() {
            assert_eq!(policy(name), Some(Policy::load(name.as_ref()).unwrap()), "{name}");
        }
        assert_eq!(policy("./read-only"), None);
    }
}
