//! The policy file as TOML has it, key by key. What it means is made of it in `merge` and `check`.
use crate::{GrantKind, NetworkMode};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use stockade_types::Layer;
use toml::Spanned;

type List<T> = Vec<Spanned<T>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct PolicyFile {
    pub name: Option<Spanned<String>>,
    pub extends: Option<Spanned<String>>,
    pub require: Option<List<Layer>>,
    #[serde(default)]
    pub filesystem: FilesystemSection,
    #[serde(default)]
    pub network: NetworkSection,
    #[serde(default)]
    pub environment: EnvironmentSection,
    #[serde(default)]
    pub limits: BTreeMap<Spanned<String>, Spanned<Scalar>>,
    #[serde(default)]
    pub syscalls: SyscallSection,
    #[serde(default)]
    pub escalation: EscalationSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(crate) struct FilesystemSection {
    pub read: List<String>,
    pub write: List<String>,
    pub hide: List<String>,
    pub protect: List<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(crate) struct NetworkSection {
    pub mode: Option<Spanned<NetworkMode>>,
    pub allow: List<String>,
    pub deny: List<String>,
    pub unix_sockets: List<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(crate) struct EnvironmentSection {
    pub keep: List<String>,
    pub set: BTreeMap<Spanned<String>, Spanned<String>>,
    pub scrub: List<String>,
    pub scrub_secrets: Option<Spanned<bool>>,
    pub scrub_loaders: Option<Spanned<bool>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(crate) struct SyscallSection {
    pub allow: List<String>,
    pub deny: List<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(crate) struct EscalationSection {
    pub ceiling: Option<Spanned<String>>,
    pub always_ask: Option<List<GrantKind>>,
}

/// A limit's value: `4096`, `"2G"`, `"90s"`. Kept as text, so that files and `--limit` share one parser.
#[derive(Debug)]
pub(crate) struct Scalar(pub String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;

        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number or a text such as \"2G\" or \"90s\"")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(text.to_owned()))
            }
        }

        deserializer.deserialize_any(ScalarVisitor)
    }
}
