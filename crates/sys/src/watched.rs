//! A descriptor that tokio watches.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// An owned descriptor, registered with the tokio runtime's I/O driver. It is never swapped for another, which
/// `AsyncFd` by itself would permit.
#[derive(Debug)]
pub struct WatchedFd(AsyncFd<OwnedFd>);

impl WatchedFd {
    /// Registers it. Needs a tokio runtime with its I/O driver; panics without one, as tokio does.
    pub fn new(fd: OwnedFd, interest: Interest) -> io::Result<Self> {
        // SAFETY: the AsyncFd owns the descriptor, so it stays open while registered, and this type gives out no
        // mutable access by which another descriptor could take its place.
        let watched = unsafe { AsyncFd::register_with_interest(fd, interest) };
        Ok(Self(watched.map_err(io::Error::from)?))
    }

    /// Waits until it is readable or closed at its other end, then forgets that: the caller reads until nothing is left.
    pub async fn readable(&self) -> io::Result<()> {
        self.0.readable().await?.clear_ready();
        Ok(())
    }

    /// Waits until something can be done with it ([`Interest::READABLE`], [`Interest::WRITABLE`]), for [`WatchedFd::try_io`].
    pub async fn ready(&self, interest: Interest) -> io::Result<()> {
        self.0.ready(interest).await.map(drop)
    }

    /// Does `work` if it need not wait, as far as is known; `WouldBlock` if it must.
    pub fn try_io<T>(
        &self,
        interest: Interest,
        work: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.0.try_io(interest, |fd| work(fd.as_fd()))
    }

    /// Does `read` as soon as it does not have to wait. `read` returns `WouldBlock` when there is nothing.
    pub async fn read_with<T>(
        &self,
        mut read: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.0.async_io(Interest::READABLE, |fd| read(fd.as_fd())).await
    }

    /// Does `write` as soon as it does not have to wait. `write` returns `WouldBlock` when there is no room.
    pub async fn write_with<T>(
        &self,
        mut write: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.0.async_io(Interest::WRITABLE, |fd| write(fd.as_fd())).await
    }
}

impl AsFd for WatchedFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_ref().as_fd()
    }
}
