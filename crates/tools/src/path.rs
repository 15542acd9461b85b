use crate::{SessionContext, ToolError};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// An absolute path in frozen input. JSON text cannot hold every path: one that is not UTF-8 (a workspace's name
/// need not be) is written as `{"percent_encoded": "/tmp/%FF/a"}`, so that what hooks and approvers see is exactly
/// what runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathInput(pub PathBuf);

#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Written {
    Plain(String),
    Encoded { percent_encoded: String },
}

impl PathInput {
    /// Makes a model's path absolute, by its text alone: relative to the working directory, `~` for the home, `.` and `..`
    /// taken out.
    pub fn resolve(text: &str, session: &SessionContext) -> Result<Self, ToolError> {
        if text.is_empty() || text.contains('\0') {
            let what = if text.is_empty() { "is empty" } else { "holds a NUL character" };
            return Err(ToolError::InvalidArguments(format!("the path {text:?} {what}")));
        }
        let path = match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                let home = session.home.as_ref().ok_or_else(|| {
                    ToolError::InvalidArguments(format!(
                        "{text:?}: no home folder is known here: use an absolute path"
                    ))
                })?;
                home.join(rest.trim_start_matches('/'))
            }
            _ => session.cwd.join(text),
        };
        Ok(Self(lexically_normal(&path)))
    }

    /// The path for people and the model.
    pub fn display(&self) -> std::path::Display<'_> {
        self.0.display()
    }
}

/// Takes out `.` and `..` without looking at the file system. `/..` is `/`.
fn lexically_normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => {
                normal.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    normal
}

impl Serialize for PathInput {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => Written::Plain(text.to_owned()),
            None => Written::Encoded { percent_encoded: encode(self.0.as_os_str().as_bytes()) },
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PathInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let path = match Written::deserialize(deserializer)? {
            Written::Plain(text) => PathBuf::from(text),
            Written::Encoded { percent_encoded } => decode(&percent_encoded)
                .map(|bytes| PathBuf::from(OsString::from_vec(bytes)))
                .ok_or_else(|| D::Error::custom("not percent-encoded"))?,
        };
        if !path.is_absolute() {
            return Err(D::Error::custom(format!("{} is not absolute", path.display())));
        }
        Ok(Self(path))
    }
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b' '..=b'~' if *byte != b'%' => text.push(char::from(*byte)),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after.get(2..)?;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(workspace: impl Into<PathBuf>) -> SessionContext {
        SessionContext { home: Some("/home/u".into()), ..SessionContext::new(workspace) }
    }

    // spec 2.2
    #[test]
    fn paths_become_absolute_by_their_text_alone() {
        let session = session("/ws");
        for (text, path) in [
            ("a.rs", "/ws/a.rs"),
            ("./a/../b", "/ws/b"),
            ("../../../etc/x", "/etc/x"),
            ("~", "/home/u"),
            ("~/x", "/home/u/x"),
            ("~//etc/x", "/home/u/etc/x"),
            ("~x", "/ws/~x"),
            ("/a//b/./c/", "/a/b/c"),
        ] {
            assert_eq!(
                PathInput::resolve(text, &session).unwrap().0,
                PathBuf::from(path),
                "{text}"
            );
        }
        assert!(PathInput::resolve("", &session).is_err());
        assert!(PathInput::resolve("a\0b", &session).is_err());
    }

    #[test]
    fn a_path_that_is_not_utf_8_survives_the_frozen_input_byte_for_byte() {
        let workspace = PathBuf::from(OsString::from_vec(b"/tmp/w%\xff \n".to_vec()));
        let path = PathInput::resolve("a", &session(&workspace)).unwrap();
        let value = serde_json::to_value(&path).unwrap();
        assert_eq!(value, serde_json::json!({"percent_encoded": "/tmp/w%25%FF %0A/a"}));
        let back: PathInput = serde_json::from_value(value).unwrap();
        assert_eq!(back.0, workspace.join("a"));
    }

    #[test]
    fn a_path_without_a_home_to_start_from_is_refused() {
        let session = SessionContext { home: None, ..session("/ws") };
        assert!(PathInput::resolve("~/x", &session).is_err());
    }
}
