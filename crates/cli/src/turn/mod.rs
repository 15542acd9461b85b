//! A turn as agent hosts write it, in three dialects, whole or as a stream of JSON lines; and its
//! results in the same dialect (spec 10.1). Pure code: nothing in here reads, writes or waits.

mod depth;
mod error;
mod item;
mod reader;
mod render;
mod shape;
#[cfg(test)]
mod tests;

pub use error::TurnError;
pub use reader::{Event, Reader, Turn};
pub use render::{stream_item, whole_answer};

use stockade_runtime::Submission;

/// The longest whole turn, and the longest line of a stream, in bytes.
pub const INPUT_MAX: usize = 32 * 1024 * 1024;

/// Whose shapes a turn is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// A Messages API message: `tool_use` blocks, answered by `tool_result` blocks.
    Anthropic,
    /// Output items of the Responses API: `function_call`, answered by `function_call_output`.
    OpenAiResponses,
    /// A chat completion's message: `tool_calls`, answered by messages of the role `tool`.
    OpenAiChat,
}

impl Dialect {
    /// The name that `--format` takes.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Anthropic => "anthropic",
            Dialect::OpenAiResponses => "openai-responses",
            Dialect::OpenAiChat => "openai-chat",
        }
    }
}

/// One call of a turn, in the model's order: to be run, or to be answered with an error because it
/// cannot be run as it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The dialect in which it is to be answered.
    pub dialect: Dialect,
    /// The call, or the error result in its place.
    pub submission: Submission,
}
