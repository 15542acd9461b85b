//! Turns what the TOML parser says into what a person can act on.
use crate::PolicyError;
use crate::error::did_you_mean;
use crate::place::Source;
use toml::de::{DeTable, DeValue};

/// The error of a file that could not be read as a policy, with its place.
pub(crate) fn explain(error: &toml::de::Error, source: &Source) -> PolicyError {
    let offset = error.span().map_or(0, |span| span.start);
    let place = source.place(offset);
    let key = Key::at(&source.text, offset);
    PolicyError::Invalid { place, problem: reword(error.message(), &key) }
}

fn reword(message: &str, key: &Key) -> String {
    // serde words these three the same for every format; anything else is TOML's own word, which stays as it is.
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let mut words = quoted(rest);
        let unknown = words.next().unwrap_or_default();
        let known: Vec<&str> = words.collect();
        let section = key.section.as_ref().map(|name| format!(" in [{name}]")).unwrap_or_default();
        let hint = did_you_mean(unknown, known.iter().copied());
        return format!("unknown key {unknown:?}{section}{hint} (known: {})", known.join(", "));
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let mut words = quoted(rest);
        let unknown = words.next().unwrap_or_default();
        let known: Vec<&str> = words.collect();
        let hint = did_you_mean(unknown, known.iter().copied());
        return format!("{unknown:?} is no value for {key}{hint} (known: {})", known.join(", "));
    }
    if let Some(rest) = message.strip_prefix("invalid type: ") {
        let rest = rest
            .replace("expected a sequence", "expected a list")
            .replace("expected a map", "expected a table")
            .replace('`', "");
        return format!("wrong type for {key}: {rest}");
    }
    message.trim().replace('\n', "; ")
}

/// The words between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The key at a place of a file, such as `filesystem.read`.
#[derive(Default)]
struct Key {
    section: Option<String>,
    name: Option<String>,
}

impl Key {
    fn at(text: &str, offset: usize) -> Self {
        let Ok(table) = DeTable::parse(text) else {
            return Self::default();
        };
        Self::within(table.get_ref(), offset).unwrap_or_default()
    }

    fn within(table: &DeTable<'_>, offset: usize) -> Option<Self> {
        for (name, value) in table {
            let here = name.span().contains(&offset) || value.span().contains(&offset);
            if let DeValue::Table(inner) = value.get_ref()
                && let Some(found) = Self::within(inner, offset)
            {
                let section = match found.section {
                    Some(below) => format!("{}.{below}", name.get_ref()),
                    None => name.get_ref().to_string(),
                };
                return Some(Self { section: Some(section), name: found.name });
            }
            if here {
                return Some(Self { section: None, name: Some(name.get_ref().to_string()) });
            }
        }
        None
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.section, &self.name) {
            (Some(section), Some(name)) => write!(f, "{section}.{name}"),
            (None, Some(name)) => f.write_str(name),
            _ => f.write_str("this key"),
        }
    }
}
