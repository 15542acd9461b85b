/// Whether `text` matches `pattern`, in which `*` stands for any bytes, none included, and every other byte for
/// itself. Never more than pattern × text steps: policies and environments come from outside.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to resume when what follows the last `*` does not fit: that star takes one byte more.
    let mut resume: Option<(usize, usize)> = None;
    while let Some(byte) = text.get(t) {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                resume = Some((p, t));
            }
            Some(wanted) if wanted == byte => {
                p += 1;
                t += 1;
            }
            _ => match resume {
                Some((after_star, taken)) => {
                    p = after_star;
                    t = taken + 1;
                    resume = Some((after_star, t));
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).unwrap_or(&[]).iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_bytes() {
        for (pattern, text, expected) in [
            ("LC_*", "LC_ALL", true),
            ("LC_*", "LC_", true),
            ("LC_*", "LC", false),
            ("*_KEY", "A_KEY_KEY", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("[x]", "x", false),
            ("?", "x", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_cost_no_exponential_time() {
        assert!(!matches("*a".repeat(200).as_bytes(), "b".repeat(20_000).as_bytes()));
    }
}
