//! JSON that is nested too deeply for its parser, in one call of many, is no reason to refuse all of them.

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Levels that are kept of a document that the parser finds too deep. What lies deeper is null: a call's arguments that
/// lose anything so are still deeper than the runtime takes (100 levels), which refuses that call by itself. Fewer than the parser's own
/// 128.
const DEPTH_KEPT: usize = 120;

/// Parses a document, however deep.
pub(super) fn parse(text: &[u8]) -> Result<Value, serde_json::Error> {
    let plain = serde_json::from_slice(text);
    match plain {
        // The parser has no other way to tell of it.
        Err(error) if error.to_string().starts_with("recursion limit exceeded") => {
            let mut parser = serde_json::Deserializer::from_slice(text);
            let kept = Level(DEPTH_KEPT).deserialize(&mut parser);
            kept.and_then(|value| parser.end().map(|()| value)).map_err(|_| error)
        }
        plain => plain,
    }
}

/// So many levels of arrays and objects.
struct Level(usize);

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Value, D::Error> {
        if self.0 == 0 {
            // Serde's JSON parser passes over what is ignored without recursion.
            return parser.deserialize_ignored_any(IgnoredAny).map(|_| Value::Null);
        }
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element_seed(Level(self.0 - 1))? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(Level(self.0 - 1))?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}
