//! The kernel's audit records, read as the multicast group that any number of readers may join (netlink(7), audit_netlink in the
//! kernel's security/ and kernel/audit.c). It takes `CAP_AUDIT_READ` in the first user namespace, and somebody who has switched
//! auditing on; nothing here does.

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send,
    setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// linux/audit.h: `AUDIT_NLGRP_READLOG`, as a bit.
const READLOG: u32 = 1;
/// linux/audit.h: the request for the status, and the type of its answer.
const AUDIT_GET: u16 = 1000;
/// struct nlmsghdr: length, type, flags, sequence number, port.
const HEADER: usize = 16;
/// linux/netlink.h
const NLM_F_REQUEST: u16 = 1;
/// Longer than any record (linux/audit.h: `AUDIT_MESSAGE_TEXT_MAX`).
const RECORD_MAX: usize = 16 * 1024;

/// How long an answer may take, in milliseconds.
const ANSWER_MS: i64 = 1000;

/// What a listener gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// `AUDIT_…` in linux/audit.h.
    pub kind: u16,
    /// `audit(time:serial): name=value …`
    pub text: Vec<u8>,
}

/// A socket that gets a copy of every audit record from now on. It never waits.
#[derive(Debug)]
pub struct AuditListener(OwnedFd);

/// Whether auditing is switched on; false also where that may not be asked. Takes some 30 microseconds.
pub fn is_on() -> bool {
    status().is_ok_and(|enabled| enabled)
}

fn status() -> io::Result<bool> {
    let socket = netlink()?;
    let mut request = [0u8; HEADER];
    request[..4].copy_from_slice(&(HEADER as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&AUDIT_GET.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    send(socket.as_raw_fd(), &request, MsgFlags::empty())?;
    // A thread of the kernel's answers.
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::milliseconds(ANSWER_MS))?;
    let mut buffer = [0u8; 256];
    let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
    let (kind, body) = message(buffer.get(..length).unwrap_or_default())?;
    // struct audit_status: mask, enabled, …
    let enabled = body.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
    Ok(kind == AUDIT_GET && enabled.is_some_and(|enabled| enabled != 0))
}

fn netlink() -> io::Result<OwnedFd> {
    let protocol = SockProtocol::NetlinkAudit;
    Ok(socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?)
}

/// Type and body of the one message that a datagram holds.
fn message(datagram: &[u8]) -> io::Result<(u16, &[u8])> {
    let kind = datagram.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    // The length in the header does not count itself in audit's own multicast messages: the datagram's is what counts.
    kind.zip(datagram.get(HEADER..)).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

impl AuditListener {
    /// Joins the readers; `EPERM` without the capability.
    pub fn join() -> io::Result<Self> {
        let socket = netlink()?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, READLOG))?;
        Ok(Self(socket))
    }

    /// Another descriptor of the same socket, to be watched.
    pub fn try_clone(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// The next record; `None` if there is none yet. `ENOBUFS`: some were lost since the last.
    pub fn next(&self) -> io::Result<Option<AuditRecord>> {
        let mut buffer = [0u8; RECORD_MAX];
        match recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
            Ok(length) => {
                let (kind, text) = message(buffer.get(..length).unwrap_or_default())?;
                Ok(Some(AuditRecord { kind, text: text.to_vec() }))
            }
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
