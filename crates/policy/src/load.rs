use crate::error::did_you_mean;
use crate::explain::explain;
use crate::file::PolicyFile;
use crate::merge::Merged;
use crate::place::{Source, Sourced};
use crate::shipped::{shipped, shipped_names};
use crate::{Policy, PolicyError};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// No policy comes near this; a device or a mistaken file does.
const FILE_MOST: u64 = 1 << 20;
/// Longer chains of `extends` help nobody, and each costs a file to read.
const CHAIN_MOST: usize = 16;

/// Where a policy's text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    Shipped(&'static str),
    File(PathBuf),
    /// A text that lies in no folder, and what people know it by.
    Text {
        label: String,
        text: String,
    },
}

impl Policy {
    /// Loads a shipped policy by its name, or a file: whatever holds a `/` or ends in `.toml` names a file.
    pub fn load(name_or_file: &OsStr) -> Result<Policy, PolicyError> {
        merged(name_or_file)?.into_policy()
    }

    /// The policy that is the most that this one may be widened to; `None` if it names none. Loaded when it is asked for.
    pub fn ceiling(&self) -> Result<Option<Policy>, PolicyError> {
        self.escalation.ceiling.as_ref().map(|ceiling| Self::load(ceiling.as_os_str())).transpose()
    }
}

/// The files of a policy, merged; what contradicts itself is found when a policy is made of it.
pub(crate) fn merged(name_or_file: &OsStr) -> Result<Merged, PolicyError> {
    load_chain(Origin::of(name_or_file, Path::new(""))?)
}

/// The same for a text, which can extend shipped policies alone.
pub(crate) fn merged_text(label: &str, text: &str) -> Result<Merged, PolicyError> {
    load_chain(Origin::Text { label: label.to_owned(), text: text.to_owned() })
}

/// What to load as the ceiling: a shipped policy's name, which must be one, or a file, which need not be there yet.
pub(crate) fn ceiling(written: &Sourced<String>) -> Result<PathBuf, PolicyError> {
    let origin = Origin::of(OsStr::new(&written.value), &written.source.folder);
    match origin.map_err(|error| at_key("escalation.ceiling", error, written))? {
        Origin::Shipped(name) => Ok(name.into()),
        Origin::File(path) => Ok(path),
        // Only a caller's own text is one.
        Origin::Text { label, .. } => Ok(label.into()),
    }
}

impl Origin {
    /// `base` is the folder that a relative file counts from.
    fn of(name_or_file: &OsStr, base: &Path) -> Result<Self, PolicyError> {
        let bytes = name_or_file.as_bytes();
        if bytes.contains(&b'/') || bytes.ends_with(b".toml") {
            return Ok(Self::File(base.join(name_or_file)));
        }
        let name = name_or_file.to_string_lossy();
        match shipped_names().find(|known| *known == name) {
            Some(name) => Ok(Self::Shipped(name)),
            None => Err(PolicyError::Unknown {
                hint: format!(
                    "{} (shipped: {})",
                    did_you_mean(&name, shipped_names()),
                    shipped_names().collect::<Vec<_>>().join(", ")
                ),
                name: name.into_owned(),
            }),
        }
    }

    /// How people know it.
    fn label(&self) -> String {
        match self {
            Self::Shipped(name) => format!("policies/{name}.toml"),
            Self::File(path) => path.display().to_string(),
            Self::Text { label, .. } => label.clone(),
        }
    }

    /// The same file by two ways must be known as one, or a circle through symlinks would not be seen.
    fn identity(&self) -> Self {
        match self {
            Self::Shipped(_) | Self::Text { .. } => self.clone(),
            Self::File(path) => Self::File(path.canonicalize().unwrap_or_else(|_| path.clone())),
        }
    }

    fn folder(&self) -> PathBuf {
        match self {
            Self::File(path) => path.parent().map(Path::to_owned).unwrap_or_default(),
            Self::Shipped(_) | Self::Text { .. } => PathBuf::new(),
        }
    }

    fn read(&self) -> Result<String, PolicyError> {
        let path = match self {
            Self::Shipped(name) => return Ok(shipped(name).unwrap_or_default().to_owned()),
            Self::Text { text, .. } => return Ok(text.clone()),
            Self::File(path) => path,
        };
        let refuse = |reason: String| PolicyError::Unreadable { file: self.label(), reason };
        let file =
            stockade_types::regular::open(path).map_err(|error| refuse(error.to_string()))?;
        let mut bytes = Vec::new();
        file.take(FILE_MOST + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| refuse(error.to_string()))?;
        if bytes.len() as u64 > FILE_MOST {
            return Err(refuse("it is longer than 1 MiB, which no policy is".into()));
        }
        String::from_utf8(bytes).map_err(|error| {
            refuse(format!("it is not UTF-8 from byte {} on", error.utf8_error().valid_up_to()))
        })
    }

    fn default_name(&self) -> String {
        match self {
            Self::Shipped(name) => (*name).to_owned(),
            Self::File(path) => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            Self::Text { .. } => "text".to_owned(),
        }
    }
}

/// Reads a file and everything it extends, and merges them, the farthest first.
fn load_chain(first: Origin) -> Result<Merged, PolicyError> {
    let name = first.default_name();
    let mut seen: Vec<(Origin, String)> = Vec::new();
    let mut files: Vec<(PolicyFile, Rc<Source>)> = Vec::new();
    let mut next = first;
    let mut because: Option<Sourced<String>> = None;
    loop {
        let text = next.read().map_err(|error| at_extends(error, because.as_ref()))?;
        seen.push((next.identity(), next.label()));
        let source = Rc::new(Source { label: next.label(), text, folder: next.folder() });
        let mut file: PolicyFile =
            toml::from_str(&source.text).map_err(|error| explain(&error, &source))?;
        let extends = file.extends.take().map(|extends| Sourced::new(extends, &source));
        files.push((file, source));
        let Some(extends) = extends else { break };

        let is_text = matches!(next, Origin::Text { .. });
        next = Origin::of(OsStr::new(&extends.value), &extends.source.folder)
            .map_err(|error| at_extends(error, Some(&extends)))?;
        if is_text && matches!(next, Origin::File(_)) {
            let problem = "a policy that is no file can extend the shipped ones alone".to_owned();
            return Err(PolicyError::Invalid { place: extends.place(), problem });
        }
        let identity = next.identity();
        if let Some(start) = seen.iter().position(|(origin, _)| *origin == identity) {
            let mut chain: Vec<String> =
                seen.iter().skip(start).map(|(_, label)| label.clone()).collect();
            chain.extend(chain.first().cloned());
            return Err(PolicyError::Cycle { place: extends.place(), chain });
        }
        if seen.len() == CHAIN_MOST {
            return Err(PolicyError::Invalid {
                place: extends.place(),
                problem: format!("more than {CHAIN_MOST} policies extend one another"),
            });
        }
        because = Some(extends);
    }
    let mut merged = Merged::new(name);
    while let Some((file, source)) = files.pop() {
        // A name is its file's own: what extends another policy is not that policy.
        merged.add(file, &source, files.is_empty())?;
    }
    Ok(merged)
}

/// An error about a file that another one extends, told at that place.
fn at_extends(error: PolicyError, extends: Option<&Sourced<String>>) -> PolicyError {
    match extends {
        Some(extends) => at_key("extends", error, extends),
        None => error,
    }
}

fn at_key(key: &str, error: PolicyError, written: &Sourced<String>) -> PolicyError {
    PolicyError::Invalid { place: written.place(), problem: format!("{key}: {error}") }
}
