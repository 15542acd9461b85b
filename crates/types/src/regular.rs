//! Files that somebody has named, or left where one is looked for.

use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a file to be read, if it is a regular one: a fifo might never be opened, and some devices never end. A pipe that the caller's
/// shell has made (`<(…)`, `/dev/stdin`) is one of the caller's own descriptors, and is taken.
pub fn open(path: &Path) -> io::Result<File> {
    let is_own = path == Path::new("/dev/stdin") || path.starts_with("/dev/fd");
    if !is_own && !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    File::open(path)
}
