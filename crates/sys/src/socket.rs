//! Unix sockets that carry descriptors (unix(7)).

use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, Shutdown, SockFlag, SockType,
    recvmsg, sendmsg, shutdown, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// The most descriptors that one message carries.
pub const MAX_FDS: usize = 8;

/// A connected pair of `SOCK_SEQPACKET` sockets, close-on-exec: messages keep their borders, and the end of either side is
/// seen at once by the other.
pub fn packet_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?)
}

/// A connected pair of stream sockets, close-on-exec.
pub fn stream_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?)
}

/// Ends a connection for all who hold either end, whatever copies there are; what was sent before is still received.
pub fn end(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(shutdown(socket.as_raw_fd(), Shutdown::Both)?)
}

/// Sends one packet with descriptors beside it.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let raw: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control: &[ControlMessage<'_>] = if raw.is_empty() { &[] } else { &rights };
    let sent = sendmsg::<()>(
        socket.as_raw_fd(),
        &[IoSlice::new(bytes)],
        control,
        MsgFlags::MSG_NOSIGNAL,
        None,
    )?;
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives one packet of at most `buffer.len()` bytes, with the descriptors beside it, close-on-exec. `None`: the other side
/// is gone. A packet that was longer is an error (`EMSGSIZE`).
pub fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<Option<(usize, Vec<OwnedFd>)>> {
    let mut space = nix::cmsg_space!([std::os::fd::RawFd; MAX_FDS]);
    let mut slices = [IoSliceMut::new(buffer)];
    let message = loop {
        match recvmsg::<()>(
            socket.as_raw_fd(),
            &mut slices,
            Some(&mut space),
            MsgFlags::MSG_CMSG_CLOEXEC,
        ) {
            Err(nix::errno::Errno::EINTR) => {}
            other => break other?,
        }
    };
    // There is space for as many as are ever sent: what is missing found no place in the table of this process.
    if message.flags.contains(MsgFlags::MSG_CTRUNC) {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    let mut fds = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = control {
            for fd in raw {
                // SAFETY: the kernel has just installed it for this process; nothing else owns it.
                fds.push(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
    }
    if message.flags.contains(MsgFlags::MSG_TRUNC) {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    let length = message.bytes;
    if length == 0 && fds.is_empty() {
        return Ok(None);
    }
    Ok(Some((length, fds)))
}

/// The longest message that travels in a packet; a longer one goes in a memfd beside it, so that no list of paths or
/// arguments is too long for a socket buffer.
const INLINE_MAX: usize = 8 * 1024;

/// Sends one message of any length, with descriptors beside it.
pub fn send_message(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    if bytes.len() <= INLINE_MAX {
        let mut packet = Vec::with_capacity(bytes.len() + 1);
        packet.push(0);
        packet.extend_from_slice(bytes);
        return send(socket, &packet, fds);
    }
    let mut file = std::fs::File::from(crate::memory::memfd("stockade-message")?);
    file.write_all(bytes)?;
    let mut fds = fds.to_vec();
    fds.push(file.as_fd());
    send(socket, &[1], &fds)
}

/// Receives one message of at most `max` bytes, with the descriptors beside it. `None`: the other side is gone.
pub fn receive_message(
    socket: BorrowedFd<'_>,
    max: usize,
) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    // On the stack: a block of this size from the heap makes the allocator tidy up, every time.
    let mut packet = [0; INLINE_MAX + 1];
    let Some((length, mut fds)) = receive(socket, &mut packet)? else {
        return Ok(None);
    };
    match packet.get(..length).and_then(<[u8]>::split_first) {
        Some((0, bytes)) => Ok(Some((bytes.to_vec(), fds))),
        Some((1, _)) => {
            let memfd = fds.pop().ok_or(io::ErrorKind::InvalidData)?;
            let file = std::fs::File::from(memfd);
            if file.metadata()?.len() > max as u64 {
                return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
            }
            let mut bytes = vec![0; file.metadata()?.len() as usize];
            file.read_exact_at(&mut bytes, 0)?;
            Ok(Some((bytes, fds)))
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Sends a short packet without a heap. Async-signal-safe.
pub fn send_short(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the buffer is readable for its whole length.
    crate::check(unsafe {
        libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL)
    } as libc::c_long)?;
    Ok(())
}

/// Receives a short packet without a heap and without waiting. `Some(0)`: the other side is gone; `None`: nothing is there.
/// Async-signal-safe.
pub fn receive_short(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: the buffer is writable for its whole length.
    let read = crate::check(unsafe {
        libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT)
    } as libc::c_long);
    match read {
        Ok(read) => Ok(Some(read as usize)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}
