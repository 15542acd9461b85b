//! `--transcript`: what a terminal shows, in a file too.

use std::fs::{File, OpenOptions};
use std::io::{self, Stdout, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use stockade_types::SetupFailure;

/// Our stdout, and a file that is given the same, byte for byte. A file that takes no more is given nothing further, and the
/// session goes on.
pub struct Transcript {
    shown: Stdout,
    file: Option<File>,
}

impl Transcript {
    /// Opens the file, if one is asked for; what it held before goes.
    pub fn open(path: Option<&Path>) -> Result<Self, SetupFailure> {
        let open = |path: &Path| {
            // What is typed into a shell is often shown there, and is nobody else's business.
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(path)
                .map_err(|error| SetupFailure {
                    step: "transcript".to_owned(),
                    subject: Some(path.display().to_string()),
                    errno: error.raw_os_error(),
                    detail: error.to_string(),
                    remedy: "name a file that can be written with --transcript".to_owned(),
                })
        };
        Ok(Self { shown: io::stdout(), file: path.map(open).transpose()? })
    }
}

impl Write for Transcript {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.shown.write(bytes)?;
        let written = bytes.get(..length).unwrap_or_default();
        if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(written)
        {
            self.file = None;
            tracing::warn!(%error, "the transcript is not written any further");
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.shown.flush()
    }
}
