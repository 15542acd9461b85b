//! From a session log back to what the model was given (spec 9.1): byte for byte, up to the last whole record.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use stockade_spill::{SpillError, SpillStore};
use stockade_types::{CallId, ContentBlock, ToolCall, ToolResult};

/// One turn of a session, as its log has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayedTurn {
    /// Which turn, from 1.
    pub number: u64,
    /// Its calls, in the order of their starts.
    pub calls: Vec<ToolCall>,
    /// Their results, in the model's order.
    pub results: Vec<ToolResult>,
    /// The turn was discarded: the model saw nothing of it.
    pub discarded: bool,
}

/// Why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It could not be read.
    #[error("session log {path}: cannot read: {source}")]
    Read {
        /// The log.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A whole line of it is no record.
    #[error("session log {path}:{line}: no record: {message}")]
    Damaged {
        /// The log.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// What is wrong with the line.
        message: String,
    },
    /// A block that lies in the spill store is not there any more.
    #[error("session log {path}:{line}: {source}")]
    Media {
        /// The log.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// What became of the block.
        source: SpillError,
    },
}

/// A block of a result as the log has it: media lie in the spill store, where there is one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum RecordedBlock {
    /// A reference.
    Kept(KeptImage),
    /// The block itself.
    Block(ContentBlock),
}

/// A picture in the spill store: its base64 text.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptImage {
    r#type: ImageType,
    media_type: String,
    spill: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ImageType {
    Image,
}

impl KeptImage {
    pub(crate) fn new(media_type: String, spill: String) -> Self {
        Self { r#type: ImageType::Image, media_type, spill }
    }
}

#[derive(Deserialize)]
struct Record {
    seq: u64,
    r#type: String,
    turn: u64,
    call_id: Option<CallId>,
    name: Option<String>,
    arguments: Option<Value>,
    is_error: Option<bool>,
    content: Option<Vec<RecordedBlock>>,
    #[serde(default)]
    stop_turn: bool,
}

/// The turns of a log, in order. A last record that was cut off is none. A log that another process still writes may be
/// replayed too.
pub fn replay(log: &Path) -> Result<Vec<ReplayedTurn>, ReplayError> {
    let read = |source| ReplayError::Read { path: log.to_owned(), source };
    let mut lines = BufReader::new(File::open(log).map_err(read)?);
    let mut turns: BTreeMap<u64, ReplayedTurn> = BTreeMap::new();
    let (mut line, mut number) = (Vec::new(), 0);
    loop {
        line.clear();
        number += 1;
        lines.read_until(b'\n', &mut line).map_err(read)?;
        if line.last() != Some(&b'\n') {
            break;
        }
        let damaged =
            |message: String| ReplayError::Damaged { path: log.to_owned(), line: number, message };
        let record: Record =
            serde_json::from_slice(&line).map_err(|error| damaged(error.to_string()))?;
        // One writer counts up: a gap or a second writer makes another history of it.
        if record.seq != number {
            return Err(damaged(format!("its number is {}, and {number} was due", record.seq)));
        }
        let turn = turns.entry(record.turn).or_default();
        turn.number = record.turn;
        match (record.r#type.as_str(), record.call_id) {
            ("tool/call", Some(id)) => {
                let (name, arguments) = (record.name.unwrap_or_default(), record.arguments);
                turn.calls.push(ToolCall { id, name, arguments: arguments.unwrap_or_default() });
            }
            ("tool/result", Some(call_id)) => {
                let blocks = record.content.unwrap_or_default().into_iter();
                let content = blocks.map(|block| whole(log, block)).collect::<Result<_, _>>();
                let content = content.map_err(|source| ReplayError::Media {
                    path: log.to_owned(),
                    line: number,
                    source,
                })?;
                let is_error = record.is_error.unwrap_or_default();
                let stop_turn = record.stop_turn;
                turn.results.push(ToolResult { call_id, content, is_error, stop_turn });
            }
            ("turn/discard", _) => turn.discarded = true,
            (other, _) => return Err(damaged(format!("{other:?} is no kind of record"))),
        }
    }
    Ok(turns.into_values().collect())
}

fn whole(log: &Path, block: RecordedBlock) -> Result<ContentBlock, SpillError> {
    match block {
        RecordedBlock::Block(block) => Ok(block),
        RecordedBlock::Kept(KeptImage { media_type, spill, .. }) => {
            let session = log.parent().unwrap_or(Path::new(""));
            let data = SpillStore::read(&session.join("spill"), &spill)?;
            let data = String::from_utf8(data).map_err(|_| SpillError::Unknown(spill))?;
            Ok(ContentBlock::Image { media_type, data })
        }
    }
}
