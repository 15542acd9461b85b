//! A command's output: read as it comes, kept within bounds, passed on whole, told of now and then (spec 6.4).

mod arrival;
mod capture;
mod interleaved;
mod keeper;
mod progress;
mod sink;
mod streams;
mod strip;
mod text;

pub use capture::Captured;
pub use interleaved::Interleaved;
pub use progress::{Progress, ProgressFn};
pub use sink::{OutputSink, Stream};
pub use strip::stripped;
pub use text::Decoder;

pub(crate) use keeper::Keeper;
pub(crate) use streams::{InputStream, OutputStream, READ_SIZE};
pub(crate) use text::unfinished_character;
