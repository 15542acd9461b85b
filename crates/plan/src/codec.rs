use serde::{Serialize, de::DeserializeOwned};

/// Both ends are one binary, so a different version means that they were mixed up.
pub const VERSION: u16 = 1;

/// The longest message at all, in bytes.
pub const MESSAGE_MAX: usize = 64 * 1024 * 1024;

/// A message could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// Longer than [`MESSAGE_MAX`].
    #[error("a message of {0} bytes is longer than the {MESSAGE_MAX} allowed")]
    TooLong(usize),
    /// Not a message of this version.
    #[error("not a message of version {VERSION}: {0}")]
    Malformed(#[from] postcard::Error),
    /// Written by another version.
    #[error("a message of version {0}; this side speaks version {VERSION}")]
    Version(u16),
}

/// Writes a message: the version, then the value.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    let bytes = postcard::to_allocvec(&(VERSION, value))?;
    if bytes.len() > MESSAGE_MAX {
        return Err(CodecError::TooLong(bytes.len()));
    }
    Ok(bytes)
}

/// Reads a message that [`encode`] wrote. Bytes after it are an error.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    if bytes.len() > MESSAGE_MAX {
        return Err(CodecError::TooLong(bytes.len()));
    }
    let (version, rest) = postcard::take_from_bytes::<u16>(bytes)?;
    if version != VERSION {
        return Err(CodecError::Version(version));
    }
    let (value, rest) = postcard::take_from_bytes::<T>(rest)?;
    if !rest.is_empty() {
        return Err(CodecError::Malformed(postcard::Error::DeserializeUnexpectedEnd));
    }
    Ok(value)
}
