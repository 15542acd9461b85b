use serde::{Deserialize, Serialize};
use std::fmt;

/// The id that the model gave a call. Opaque; unique within a turn.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub String);

/// The name of a session: one launcher, one private /tmp, one session log. Made of ASCII letters,
/// digits, `-`, `_` and `.`, since it names a folder.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(String);

impl SessionId {
    /// Takes a name that is safe as a folder name, or says why it is not.
    pub fn new(name: impl Into<String>) -> Result<Self, String> {
        let name = name.into();
        let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > 128 || !name.chars().all(safe) || name.starts_with('.') {
            return Err(format!(
                "{name:?} is no session id: use 1 to 128 ASCII letters, digits, '-', '_' or '.', not starting with '.'"
            ));
        }
        Ok(Self(name))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
