//! What is refused before anything looks at it: arguments and values so deep or so large that looking at them would be the
//! harm.

use serde_json::Value;

/// Levels of arrays and objects: with what a record adds around them, fewer than whoever reads the session log follows.
const DEPTH_MAX: usize = 100;
/// Bytes of text, and 16 for each value: about what the arguments take as JSON.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Of what a value has too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    /// Of levels.
    #[error("nested more than {DEPTH_MAX} levels deep")]
    Deep,
    /// Of bytes.
    #[error("larger than {BYTES_MAX} bytes")]
    Large,
}

/// Gives a value back, or takes it apart if it is too much.
pub fn hold(value: Value) -> Result<Value, Excess> {
    match check(&value) {
        Ok(()) => Ok(value),
        Err(excess) => {
            dismantle(value);
            Err(excess)
        }
    }
}

/// Says what is wrong with a value that is too much. Neither recursive nor longer than the bounds.
pub fn check(value: &Value) -> Result<(), Excess> {
    let mut bytes = 0_usize;
    let mut next = vec![(value, 1)];
    while let Some((value, depth)) = next.pop() {
        bytes = bytes.saturating_add(16);
        match value {
            Value::String(text) => bytes = bytes.saturating_add(text.len()),
            Value::Array(_) | Value::Object(_) if depth > DEPTH_MAX => {
                return Err(Excess::Deep);
            }
            Value::Array(items) => next.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(entries) => {
                for (key, item) in entries {
                    bytes = bytes.saturating_add(key.len());
                    next.push((item, depth + 1));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        if bytes > BYTES_MAX {
            return Err(Excess::Large);
        }
    }
    Ok(())
}

/// Drops a value level by level: the derived drop is recursive, and a deep value would overflow the stack.
pub fn dismantle(value: Value) {
    let mut next = vec![value];
    while let Some(value) = next.pop() {
        match value {
            Value::Array(items) => next.extend(items),
            Value::Object(entries) => next.extend(entries.into_iter().map(|(_, item)| item)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn deep_and_huge_arguments_are_refused_by_name_and_do_not_overflow_the_stack() {
        let mut deep = json!(1);
        for _ in 0..DEPTH_MAX {
            deep = json!([deep]);
        }
        assert_eq!(check(&deep), Ok(()));
        for _ in 0..1_000_000 {
            deep = Value::Array(vec![deep]);
        }
        assert_eq!(check(&deep), Err(Excess::Deep));
        dismantle(deep);
        let huge = json!({ "content": "x".repeat(BYTES_MAX) });
        assert_eq!(check(&huge), Err(Excess::Large));
        assert_eq!(check(&json!({ "content": "x".repeat(1_000_000) })), Ok(()));
    }
}
