//! JSON on which a decision hangs: no key may stand twice in an object, since readers differ in which of the two they take, and whoever
//! wrote a prohibition may have written the other one.

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Reads one JSON value and nothing behind it. A key that stands twice is an error, with its place.
pub fn unique(text: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice::<Unique>(text).map(|unique| unique.0)
}

struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Unique)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(de::Error::custom(format!("the key {key:?} stands twice")));
            }
            let Unique(value) = entries.next_value()?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

/// Where something stands in a text that [`unique`] has read.
#[derive(Clone, Copy)]
pub(crate) enum Step<'a> {
    /// The value of this key.
    Key(&'a str),
    /// This key itself; the last step.
    Name(&'a str),
    /// The item at this place of a list.
    At(usize),
}

/// The byte at which it stands; 0 where it does not.
pub(crate) fn offset(text: &str, steps: &[Step]) -> usize {
    let mut walk = Walk { text: text.as_bytes(), at: 0 };
    walk.find(steps).unwrap_or(0)
}

struct Walk<'a> {
    text: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn find(&mut self, steps: &[Step]) -> Option<usize> {
        self.space();
        let Some((step, rest)) = steps.split_first() else { return Some(self.at) };
        let is_object = self.peek()? == b'{';
        self.at += 1;
        let mut number = 0;
        loop {
            self.space();
            if matches!(self.peek()?, b'}' | b']') {
                return None;
            }
            let begins = self.at;
            let mut key = None;
            if is_object {
                self.skip()?;
                key = serde_json::from_slice::<String>(self.text.get(begins..self.at)?).ok();
                self.space();
                // The colon.
                self.at += 1;
            }
            match step {
                Step::Name(name) if key.as_deref() == Some(*name) => return Some(begins),
                Step::Key(name) if key.as_deref() == Some(*name) => return self.find(rest),
                Step::At(at) if !is_object && *at == number => return self.find(rest),
                _ => self.skip()?,
            }
            number += 1;
            self.space();
            if self.peek()? == b',' {
                self.at += 1;
            }
        }
    }

    /// Goes past one value.
    fn skip(&mut self) -> Option<()> {
        self.space();
        let mut open = 0_usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    while self.peek()? != b'"' {
                        self.at += if self.peek()? == b'\\' { 2 } else { 1 };
                    }
                }
                b'{' | b'[' => open += 1,
                b'}' | b']' => open = open.checked_sub(1)?,
                _ => {}
            }
            self.at += 1;
            let ends = self.peek().is_none_or(|next| {
                next.is_ascii_whitespace() || matches!(next, b',' | b':' | b'}' | b']')
            });
            if open == 0 && ends {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_twice_is_an_error_at_any_depth_however_it_is_written() {
        for twice in [
            r#"{"a": 1, "a": 2}"#,
            r#"{"a": {"deny": ["x"], "deny": []}}"#,
            r#"[{"a": 1, "\u0061": 2}]"#,
        ] {
            assert!(serde_json::from_str::<Value>(twice).is_ok(), "{twice}");
            let error = unique(twice.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("stands twice at line 1"), "{error}");
        }
        let text = r#"{"a": [1, -2, 3.5, true, null, "x\"y"], "b": {"a": {}}}"#;
        let plain: Value = serde_json::from_str(text).unwrap();
        assert_eq!(unique(text.as_bytes()).unwrap(), plain);
        assert!(unique(br#"{"a": 1} {"a": 2}"#).is_err());
    }

    #[test]
    fn what_was_read_is_found_again_where_it_stands() {
        use Step::{At, Key, Name};
        let text = r#"{"x": "\"permissions\"", "permissions": {"allow": ["a, ]}", "b"], "deny": [ "b" ]}}"#;
        let found = |steps: &[Step]| text.get(offset(text, steps)..).unwrap();
        assert!(found(&[Name("permissions")]).starts_with(r#""permissions": {"#));
        let second = [Key("permissions"), Key("allow"), At(1)];
        assert!(found(&second).starts_with(r#""b"], "deny""#));
        assert!(found(&[Key("permissions"), Key("deny"), At(0)]).starts_with(r#""b" ]}"#));
        assert_eq!(offset(text, &[Key("nowhere")]), 0);
    }
}
