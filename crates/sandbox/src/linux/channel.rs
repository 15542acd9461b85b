//! A control socket, from the runtime's side.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use stockade_plan::{MESSAGE_MAX, decode, encode};
use stockade_sys::watched::WatchedFd;
use stockade_sys::{fd, socket};
use tokio::io::Interest;

/// One end of a `SOCK_SEQPACKET` pair on which requests are answered in their order.
pub struct Channel(WatchedFd);

impl Channel {
    /// Takes the socket over. Needs a tokio runtime with its I/O driver.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        fd::set_nonblocking(socket.as_fd())?;
        Ok(Self(WatchedFd::new(socket, Interest::READABLE | Interest::WRITABLE)?))
    }

    /// Sends one request.
    pub async fn send<T: serde::Serialize>(
        &self,
        request: &T,
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let bytes = encode(request).map_err(io::Error::other)?;
        self.0.write_with(|fd| socket::send_message(fd, &bytes, fds)).await
    }

    /// Tells the other side that nothing will follow.
    pub fn end(&self) {
        let _ = socket::end(self.0.as_fd());
    }

    /// Receives one answer; the end of the other side is `UnexpectedEof`.
    pub async fn receive<T: serde::de::DeserializeOwned>(&self) -> io::Result<(T, Vec<OwnedFd>)> {
        let receive = || self.0.read_with(|fd| socket::receive_message(fd, MESSAGE_MAX));
        let message = match receive().await {
            // Where the other side ended with something of ours unread, the kernel tells that once, before what it had sent.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => receive().await?,
            received => received?,
        };
        let (bytes, fds) = message.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((decode(&bytes).map_err(io::Error::other)?, fds))
    }
}
