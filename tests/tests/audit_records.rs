//! What Landlock refuses is named by the kernel's own audit records, where they can be read (spec 5.9). Auditing is switched on for the
//! time of the test, and back to what it was.

#![forbid(unsafe_code)]

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use stockade_policy::Policy;
use stockade_sandbox::SandboxProvider;
use stockade_sandbox::linux::HostCaps;
use stockade_subprocess::Finished;
use stockade_tests::Scratch;
use stockade_tests::embedded::{self, bash};
use stockade_types::{Denial, DenialKind, Evidence};

/// linux/audit.h
const AUDIT_GET: u16 = 1000;
const AUDIT_SET: u16 = 1001;

/// Auditing switched on until it is dropped.
struct Auditing {
    socket: OwnedFd,
    before: u32,
}

impl Auditing {
    fn on() -> Self {
        let protocol = SockProtocol::NetlinkAudit;
        let socket =
            socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)
                .expect("a kernel with auditing");
        let answer = ask(&socket, AUDIT_GET, &[]);
        // struct audit_status: mask, enabled, …
        let before = u32::from_ne_bytes(answer[20..24].try_into().expect("a status"));
        assert!(before < 2, "auditing is locked here");
        let auditing = Self { socket, before };
        auditing.set(1);
        auditing
    }

    fn set(&self, enabled: u32) {
        let mut status = [0u8; 44];
        // AUDIT_STATUS_ENABLED
        status[..4].copy_from_slice(&1u32.to_ne_bytes());
        status[4..8].copy_from_slice(&enabled.to_ne_bytes());
        let answer = ask(&self.socket, AUDIT_SET, &status);
        let error = i32::from_ne_bytes(answer[16..20].try_into().expect("an acknowledgement"));
        assert_eq!(error, 0, "auditing cannot be switched: it takes CAP_AUDIT_CONTROL");
    }
}

impl Drop for Auditing {
    fn drop(&mut self) {
        self.set(self.before);
    }
}

fn ask(socket: &OwnedFd, kind: u16, body: &[u8]) -> Vec<u8> {
    // struct nlmsghdr; to be acknowledged unless it is answered.
    let flags: u16 = if kind == AUDIT_SET { 5 } else { 1 };
    let mut message = u32::try_from(16 + body.len()).expect("short").to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    send(socket.as_raw_fd(), &message, MsgFlags::empty()).expect("the kernel takes it");
    let mut answer = vec![0; 512];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty()).expect("an answer");
    answer.truncate(length);
    answer
}

fn named(ran: &Finished, kind: DenialKind, target: &Path) -> Option<(String, String)> {
    let target = target.to_string_lossy();
    let fits = |denial: &&Denial| {
        denial.kind == kind && denial.target == target && denial.evidence == Evidence::Kernel
    };
    let found = ran.denials.iter().find(fits)?;
    Some((found.grant.clone(), found.note.clone()))
}

// One test: auditing is the machine's.
#[tokio::test(flavor = "multi_thread")]
async fn what_landlock_refuses_is_named_by_the_kernels_records_and_by_nobody_elses_call() {
    if !nix::unistd::geteuid().is_root() {
        // Nobody else may switch auditing on, nor read its records.
        assert!(!HostCaps::ask().audit_records);
        return;
    }
    let auditing = Auditing::on();
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let outside = scratch.folder("outside folder");
    let secret = outside.join("secret");
    fs::write(&secret, "the secret").expect("a file");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).expect("its mode");
    let policy = scratch.path().join("policy.toml");
    let text = "name = \"few\"\nextends = \"workspace-write\"\nrequire = []\n";
    fs::write(&policy, text).expect("a policy");
    let policy = Policy::load(OsStr::new(&policy)).expect("a policy");

    let host = HostCaps::ask();
    assert!(host.audit_records, "auditing is on: {host:?}");
    assert!(!host.clone().landlock(6).audit_records, "older ones write none");
    // Where paths are Landlock's alone.
    let host = host.no_userns();
    let session = embedded::session(host, &work).await;
    let cell = session.cell(&policy).await.expect("a cell");

    let reading = format!("cat '{}'", secret.display());
    let writing = format!("echo x >'{}/new'; exit 3", outside.display());
    let quiet = "echo not refused anything; exit 1";
    let mut all_named = false;
    // A record that comes long after the end of its call is not waited for, which a busy machine may bring about.
    for _ in 0..20 {
        let (read, wrote, quiet) = tokio::join!(
            bash(&*cell, &work, &reading),
            bash(&*cell, &work, &writing),
            bash(&*cell, &work, quiet)
        );
        assert!(!outside.join("new").exists());
        assert!(!read.stdout.text().contains("the secret"));
        assert!(named(&wrote, DenialKind::Read, &secret).is_none(), "{wrote:#?}");
        assert!(quiet.denials.is_empty(), "{quiet:#?}");
        // Told once, by the better evidence.
        let of_secret = |denial: &&Denial| denial.target == secret.to_string_lossy();
        assert_eq!(read.denials.iter().filter(of_secret).count(), 1, "{read:#?}");
        let (Some(of_read), Some(of_write)) =
            (named(&read, DenialKind::Read, &secret), named(&wrote, DenialKind::Write, &outside))
        else {
            continue;
        };
        let grant = |option: &str, path: &Path| format!("{option} {}", path.display());
        assert_eq!(of_read, (grant("--read", &secret), "fs.read_file".into()));
        assert_eq!(of_write, (grant("--write", &outside), "fs.make_reg".into()));
        all_named = true;
        break;
    }
    assert!(all_named);
    drop(auditing);
}
