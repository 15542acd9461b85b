use std::io::{self, Read, Write};
use stockade_plan::file::FRAME_MAX;

/// Reads one frame; `None` at an end of the stream between two frames. A frame that is too long or
/// cut off is `InvalidData`.
pub(super) fn read(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut header = Vec::with_capacity(4);
    stream.take(4).read_to_end(&mut header)?;
    if header.is_empty() {
        return Ok(None);
    }
    let header: [u8; 4] = header.try_into().map_err(|_| invalid("a frame's length is cut off"))?;
    let length = u32::from_le_bytes(header);
    if usize::try_from(length).is_ok_and(|length| length > FRAME_MAX) {
        return Err(invalid("a frame is longer than allowed"));
    }
    // Grows with what really arrives, not with what the header claims.
    let mut frame = Vec::new();
    let read = stream.take(u64::from(length)).read_to_end(&mut frame)?;
    if read as u64 != u64::from(length) {
        return Err(invalid("a frame is cut off"));
    }
    Ok(Some(frame))
}

/// Writes one frame.
pub(super) fn write(stream: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    let length = u32::try_from(frame.len()).map_err(|_| invalid("a frame is too long"))?;
    stream.write_all(&length.to_le_bytes())?;
    stream.write_all(frame)?;
    stream.flush()
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
