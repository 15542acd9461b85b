use std::time::Duration;

/// `90s`, `2m`, `500ms`, `1m 30s`, or a plain number of seconds, which may have decimals.
pub fn parse(text: &str) -> Result<Duration, String> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let parsed = if plain {
        text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    } else {
        humantime::parse_duration(text).ok()
    };
    parsed.ok_or_else(|| {
        "write a duration as in 90s, 2m, 500ms, or as a number of seconds".to_owned()
    })
}

/// The same, and more than nothing.
pub fn parse_some(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("it must be longer than 0".to_owned()),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 10.1
    #[test]
    fn durations_have_a_unit_or_are_seconds() {
        for (text, millis) in [
            ("90s", 90_000),
            ("2m", 120_000),
            ("500ms", 500),
            ("1m 30s", 90_000),
            ("5", 5_000),
            ("0.25", 250),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "soon", "-1", "5 parsecs", "1.2.3", ".", "1e3", "inf", "NaN"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse("99999999999999999999999999").is_err());
    }
}
