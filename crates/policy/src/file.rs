//! The policy file as TOML has it, key by key. What it means is made of it in `merge` and `check`. The doc comments of the keys are the
//! descriptions in the JSON Schema.
use crate::schema::{
    HostEntry, LayerName, LimitTable, PathEntry, PolicyName, PolicyReference, ProtectEntry,
    RefusedSyscallName, SyscallName, VariablePattern, VariableTable,
};
use crate::{GrantKind, NetworkMode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use stockade_types::Layer;
use toml::Spanned;

type List<T> = Vec<Spanned<T>>;

/// What a call may do. Files that extend one another are laid over each other: lists are joined, single values replaced.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct PolicyFile {
    /// The policy's name [default: the file's, without its ending].
    #[schemars(with = "Option<PolicyName>")]
    pub name: Option<Spanned<String>>,
    /// The policy that this one is laid over: a shipped one's name, or a file, which counts from this file's folder.
    #[schemars(with = "Option<PolicyReference>")]
    pub extends: Option<Spanned<String>>,
    /// The layers without which nothing may run [default: all that the policy asks for].
    #[schemars(with = "Option<Vec<LayerName>>")]
    pub require: Option<List<Layer>>,
    /// Which files may be read and written. Of the entries that a path lies in, the deepest decides.
    #[serde(default, deserialize_with = "table")]
    pub filesystem: FilesystemSection,
    /// Which network a call sees.
    #[serde(default, deserialize_with = "table")]
    pub network: NetworkSection,
    /// Which variables a call gets.
    #[serde(default, deserialize_with = "table")]
    pub environment: EnvironmentSection,
    /// Limits.
    #[serde(default)]
    #[schemars(with = "LimitTable")]
    pub limits: BTreeMap<Spanned<String>, Spanned<Scalar>>,
    /// Which system calls are allowed or refused beside the usual ones.
    #[serde(default, deserialize_with = "table")]
    pub syscalls: SyscallSection,
    /// What may be granted beyond the policy.
    #[serde(default, deserialize_with = "table")]
    pub escalation: EscalationSection,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(crate) struct FilesystemSection {
    /// Readable and executable, with everything below. '*' stands for any characters within one component.
    #[schemars(with = "Vec<PathEntry>")]
    pub read: List<String>,
    /// Readable and writable, with everything below.
    #[schemars(with = "Vec<PathEntry>")]
    pub write: List<String>,
    /// Absent, with everything below, unless a deeper entry names it.
    #[schemars(with = "Vec<PathEntry>")]
    pub hide: List<String>,
    /// Read-only inside writable roots, whether it exists or not: "a/b" at the top of each, "**/a/b" at any depth, or a path.
    #[schemars(with = "Vec<ProtectEntry>")]
    pub protect: List<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(crate) struct NetworkSection {
    /// "none": loopback alone; "proxy": what `allow` names; "host": the host's network.
    #[schemars(with = "Option<NetworkMode>")]
    pub mode: Option<Spanned<NetworkMode>>,
    /// HOST or HOST:PORT, with mode = "proxy". "*.name" stands for what ends with it, "*" for every host.
    #[schemars(with = "Vec<HostEntry>")]
    pub allow: List<String>,
    /// Refused although `allow` names it.
    #[schemars(with = "Vec<HostEntry>")]
    pub deny: List<String>,
    /// Sockets of the host that may be connected to, whatever the mode.
    #[schemars(with = "Vec<PathEntry>")]
    pub unix_sockets: List<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(crate) struct EnvironmentSection {
    /// Variables to take over from the host. '*' stands for any characters.
    #[schemars(with = "Vec<VariablePattern>")]
    pub keep: List<String>,
    /// Variables to set. $WORKSPACE, $HOME and $SESSION are replaced in their values, and a '~' that begins one; '$$' is '$'.
    #[schemars(with = "VariableTable")]
    pub set: BTreeMap<Spanned<String>, Spanned<String>>,
    /// Variables to remove from what `keep` took over.
    #[schemars(with = "Vec<VariablePattern>")]
    pub scrub: List<String>,
    /// Whether to remove what looks like a secret, by its name or its value [default: true].
    #[schemars(with = "Option<bool>")]
    pub scrub_secrets: Option<Spanned<bool>>,
    /// Whether to remove what makes programs load or run something, such as LD_PRELOAD [default: true].
    #[schemars(with = "Option<bool>")]
    pub scrub_loaders: Option<Spanned<bool>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(crate) struct SyscallSection {
    /// Groups or calls to allow although the filter refuses them; "all": no filter.
    #[schemars(with = "Vec<SyscallName>")]
    pub allow: List<String>,
    /// Groups or calls to refuse.
    #[schemars(with = "Vec<RefusedSyscallName>")]
    pub deny: List<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(crate) struct EscalationSection {
    /// The policy that is the most that may ever be granted.
    #[schemars(with = "Option<PolicyReference>")]
    pub ceiling: Option<Spanned<String>>,
    /// Kinds of grants that are asked for each time, and never hold for longer than one call.
    #[schemars(with = "Option<Vec<GrantKind>>")]
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

/// A section is a table and nothing else: serde alone would take a list for one as well, its items for the keys in their order.
fn table<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct TableVisitor<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for TableVisitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_map(TableVisitor(PhantomData))
}
