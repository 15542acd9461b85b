//! The system call filter, from inside a real cell (spec 5.2, 5.9): every rule of its data is tried there, and unconfined first.
//! Arguments are such that the kernel does nothing where it gets to see them.

#![forbid(unsafe_code)]

use nix::libc;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use stockade_sandbox::linux::{FilterRule, filter_rules};
use stockade_tests::{Confined, RunReport, Scratch};

/// Makes each call in a process of its own, without a terminal, and prints its error number, or 0.
const PROBE: &str = r#"
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for number, arguments in json.loads(sys.argv[1]):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        ctypes.set_errno(0)
        result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments])
        # A clone that was let through is here twice.
        if result != 0 or os.getpid() == os.getsid(0):
            os.write(writing, b"%d\n" % (ctypes.get_errno() if result < 0 else 0))
        os._exit(0)
    os.close(writing)
    print(os.read(reading, 100).decode().strip() or "none")
    os.close(reading)
    os.waitpid(pid, 0)
"#;

const BAD: i64 = -1;
const ENOSYS: i32 = libc::ENOSYS;
const EPERM: i32 = libc::EPERM;

/// (system call, argument that decides, arguments, error inside). An argument with a `+` is one that is allowed.
type Row = (&'static str, &'static str, &'static [i64], i32);

#[rustfmt::skip]
const TABLE: &[Row] = &[
    ("mount", "", &[0, 0, 0, 0, 0], EPERM),
    ("umount2", "", &[0, 0], EPERM),
    ("pivot_root", "", &[0, 0], EPERM),
    ("chroot", "", &[0], EPERM),
    ("open_tree", "", &[BAD, 0, 0], EPERM),
    ("move_mount", "", &[BAD, 0, BAD, 0, 0], EPERM),
    ("fsopen", "", &[0, 0], EPERM),
    ("fsconfig", "", &[BAD, 99, 0, 0, 0], EPERM),
    ("fsmount", "", &[BAD, 0, 0], EPERM),
    ("fspick", "", &[BAD, 0, 0], EPERM),
    ("mount_setattr", "", &[BAD, 0, 0, 0, 0], EPERM),
    ("open_tree_attr", "", &[BAD, 0, 0, 0, 0], EPERM),
    ("statmount", "", &[0, 0, 0, 0], ENOSYS),
    ("listmount", "", &[0, 0, 0, 0], ENOSYS),
    ("clone", "CLONE_NEWNS", &[0x0002_0000 | 17, 0, 0, 0, 0], EPERM),
    ("clone", "CLONE_NEWCGROUP", &[0x0200_0000 | 17, 0, 0, 0, 0], EPERM),
    ("clone", "CLONE_NEWUTS", &[0x0400_0000 | 17, 0, 0, 0, 0], EPERM),
    ("clone", "CLONE_NEWIPC", &[0x0800_0000 | 17, 0, 0, 0, 0], EPERM),
    ("clone", "CLONE_NEWUSER", &[0x1000_0000 | 17, 0, 0, 0, 0], EPERM),
    ("clone", "CLONE_NEWPID", &[0x2000_0000 | 17, 0, 0, 0, 0], EPERM),
    ("clone", "CLONE_NEWNET", &[0x4000_0000 | 17, 0, 0, 0, 0], EPERM),
    ("unshare", "CLONE_NEWNS", &[0x0002_0000], EPERM),
    ("unshare", "CLONE_NEWCGROUP", &[0x0200_0000], EPERM),
    ("unshare", "CLONE_NEWUTS", &[0x0400_0000], EPERM),
    ("unshare", "CLONE_NEWIPC", &[0x0800_0000], EPERM),
    ("unshare", "CLONE_NEWUSER", &[0x1000_0000], EPERM),
    ("unshare", "CLONE_NEWPID", &[0x2000_0000], EPERM),
    ("unshare", "CLONE_NEWNET", &[0x4000_0000], EPERM),
    ("unshare", "CLONE_NEWTIME", &[0x80], EPERM),
    ("setns", "", &[BAD, 0], EPERM),
    ("clone3", "", &[0, 0], ENOSYS),
    ("bpf", "", &[BAD, 0, 0], EPERM),
    ("perf_event_open", "", &[0, 0, BAD, BAD, 0], EPERM),
    ("userfaultfd", "", &[BAD], EPERM),
    ("io_uring_setup", "", &[0, 0], ENOSYS),
    ("io_uring_enter", "", &[BAD, 0, 0, 0, 0, 0], ENOSYS),
    ("io_uring_register", "", &[BAD, 999, 0, 0], ENOSYS),
    ("add_key", "", &[0, 0, 0, 0, 0], EPERM),
    ("request_key", "", &[0, 0, 0, 0], EPERM),
    ("keyctl", "", &[BAD, 0, 0, 0, 0], EPERM),
    ("init_module", "", &[0, 0, 0], EPERM),
    ("finit_module", "", &[BAD, 0, 0], EPERM),
    ("delete_module", "", &[0, 0], EPERM),
    ("kexec_load", "", &[0, 99, 0, 0], EPERM),
    ("kexec_file_load", "", &[BAD, BAD, 0, 0, 0], EPERM),
    ("reboot", "", &[0, 0, 0, 0], EPERM),
    ("swapon", "", &[0, 0], EPERM),
    ("swapoff", "", &[0], EPERM),
    // Not 0, which switches accounting off: an address that cannot be read.
    ("acct", "", &[1], EPERM),
    ("quotactl", "", &[BAD, 0, 0, 0], EPERM),
    ("quotactl_fd", "", &[BAD, 0, 0, 0], EPERM),
    ("syslog", "", &[BAD, 0, 0], EPERM),
    ("vhangup", "", &[], EPERM),
    ("iopl", "", &[99], EPERM),
    ("ioperm", "", &[1 << 20, 1, 1], EPERM),
    ("modify_ldt", "", &[99, 0, 0], EPERM),
    ("settimeofday", "", &[1, 0], EPERM),
    ("clock_settime", "", &[999, 0], EPERM),
    ("sethostname", "", &[0, BAD], EPERM),
    ("setdomainname", "", &[0, BAD], EPERM),
    ("open_by_handle_at", "", &[BAD, 0, 0], EPERM),
    ("fanotify_init", "", &[BAD, 0], EPERM),
    ("lookup_dcookie", "", &[0, 0, 0], EPERM),
    ("ioctl", "TIOCSTI", &[BAD, 0x5412, 0], EPERM),
    ("ioctl", "TIOCLINUX", &[BAD, 0x541c, 0], EPERM),
    ("ioctl", "TIOCSETD", &[BAD, 0x5423, 0], EPERM),
    ("socket", "", &[libc::AF_VSOCK as i64, 1, 0], EPERM),
    ("socket", "", &[libc::AF_ALG as i64, 5, 0], EPERM),
    ("socket", "", &[libc::AF_PACKET as i64, 3, 0], EPERM),
    ("socket", "", &[libc::AF_INET as i64, 3, 1], EPERM),
    ("socket", "", &[libc::AF_INET6 as i64, 3, 58], EPERM),
    ("socket", "", &[libc::AF_NETLINK as i64, 3, 9], EPERM),
    ("socket", "+unix", &[1, 1, 0], 0),
    ("socket", "+netlink route", &[16, 3, 0], 0),
    ("socket", "+IPv4 stream", &[2, 1 | 0x80000, 0], 0),
    ("socket", "+IPv4 datagram", &[2, 2, 0], 0),
    ("socket", "+IPv6 stream", &[10, 1, 0], 0),
    ("socket", "+IPv6 datagram", &[10, 2, 0], 0),
    ("socket", "", &[2, 1, 262], EPERM),
    ("socket", "", &[10, 1, 132], EPERM),
    ("socket", "+IPv4 TCP", &[2, 1, 6], 0),
    ("socket", "+IPv4 UDP", &[2, 2, 17], 0),
    ("socket", "+IPv6 TCP", &[10, 1, 6], 0),
    ("socket", "+IPv6 UDP", &[10, 2, 17], 0),
    // The kernel gets to see these: it has a sysctl for who may.
    ("socket", "+IPv4 ping", &[2, 2, 1], libc::EACCES),
    ("socket", "+IPv6 ping", &[10, 2, 58], libc::EACCES),
    ("socketpair", "", &[libc::AF_TIPC as i64, 1, 0, 0], EPERM),
    // The kernel gets to see it: the place for the pair cannot be written to.
    ("socketpair", "+unix", &[1, 1, 0, 0], libc::EFAULT),
    ("prlimit64", "", &[1, 7, 0, 0], EPERM),
    ("prlimit64", "+own", &[0, 7, 0, 0], 0),
    // Addresses that cannot be read, or no descriptors: nothing is changed.
    ("chmod", "S_ISUID", &[1, 0o4755], EPERM),
    ("fchmod", "S_ISUID", &[BAD, 0o4755], EPERM),
    ("fchmodat", "S_ISUID", &[BAD, 1, 0o4755], EPERM),
    ("fchmodat2", "S_ISUID", &[BAD, 1, 0o4755, 0], EPERM),
    ("creat", "S_ISUID", &[1, 0o4755], EPERM),
    ("mknod", "S_ISUID", &[1, 0o104_755, 0], EPERM),
    ("mknodat", "S_ISUID", &[BAD, 1, 0o104_755, 0], EPERM),
    ("open", "", &[1, 0o101, 0o4755], EPERM),
    ("open", "", &[1, 0o20_200_001, 0o4755], EPERM),
    ("open", "+makes nothing", &[1, 0, 0o4755], libc::EFAULT),
    ("open", "+ordinary mode", &[1, 0o101, 0o3755], libc::EFAULT),
    ("openat", "", &[BAD, 1, 0o101, 0o4755], EPERM),
    ("openat", "+makes nothing", &[BAD, 1, 0, 0o4755], libc::EFAULT),
    ("openat", "+ordinary mode", &[BAD, 1, 0o101, 0o3755], libc::EFAULT),
    ("openat2", "", &[BAD, 0, 0, 0], ENOSYS),
    ("personality", "", &[0x0040_0000], EPERM),
    ("personality", "+PER_LINUX", &[0], 0),
    ("personality", "+ADDR_NO_RANDOMIZE", &[0x0004_0000], 0),
    ("personality", "+ask", &[0xffff_ffff], 0),
    ("ptrace", "", &[BAD, 0, 0, 0], EPERM),
    ("process_vm_readv", "", &[BAD, 0, 0, 0, 0, 99], EPERM),
    ("process_vm_writev", "", &[BAD, 0, 0, 0, 0, 99], EPERM),
    ("process_madvise", "", &[BAD, 0, 0, 99, 0], EPERM),
    ("pidfd_getfd", "", &[BAD, 0, 0], EPERM),
    ("kcmp", "", &[BAD, BAD, 99, 0, 0], EPERM),
];

fn rule_of(row: &Row, rules: &[FilterRule]) -> FilterRule {
    let (call, argument) = (row.0, row.1.trim_start_matches('+'));
    let fits = |rule: &&FilterRule| {
        rule.call == call
            && rule.argument.unwrap_or("") == argument
            && rule.allows == row.1.starts_with('+')
    };
    rules.iter().find(fits).unwrap_or_else(|| panic!("no rule for {call} {argument}")).clone()
}

/// The rows that this architecture has, by their group.
fn by_group() -> BTreeMap<&'static str, Vec<(Row, FilterRule)>> {
    let rules = filter_rules();
    let known: BTreeSet<_> = rules.iter().map(|rule| rule.call).collect();
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for row in TABLE.iter().filter(|row| known.contains(row.0)) {
        let rule = rule_of(row, &rules);
        groups.entry(rule.group).or_default().push((*row, rule));
    }
    groups
}

fn script(rows: &[(Row, FilterRule)]) -> Vec<String> {
    let calls: Vec<_> = rows.iter().map(|(row, rule)| json!([rule.number, row.2])).collect();
    ["python3", "-c", PROBE, &json!(calls).to_string()].map(str::to_owned).to_vec()
}

fn errors(text: &str) -> Vec<i32> {
    text.lines().map(|line| line.parse().expect("an error number")).collect()
}

fn confined(policy: &str, argv: &[String]) -> RunReport {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let file = scratch.path().join("policy.toml");
    fs::write(&file, format!("name = \"filtered\"\nextends = \"workspace-write\"\n{policy}"))
        .expect("a policy");
    Confined::new(file.to_str().expect("UTF-8"), &work).report(argv)
}

// spec 5.2
#[test]
fn every_rule_of_the_filter_is_tried_by_the_table() {
    let rules = filter_rules();
    let tried: Vec<_> = by_group().into_values().flatten().map(|(_, rule)| rule).collect();
    let missed: Vec<_> = rules.iter().filter(|rule| !tried.contains(rule)).collect();
    assert!(missed.is_empty(), "not in the table: {missed:#?}");
}

// spec 5.2, 5.9
#[test]
fn every_rule_holds_inside_a_cell_and_what_it_refuses_is_named() {
    let root = nix::unistd::geteuid().is_root();
    for (group, rows) in by_group() {
        let argv = script(&rows);
        let free = Command::new(&argv[0]).args(&argv[1..]).output().expect("python3");
        let free = errors(&String::from_utf8_lossy(&free.stdout));
        let refused_by_default = rows.iter().all(|(_, rule)| rule.refused);
        let policy = if refused_by_default {
            String::new()
        } else {
            format!("[syscalls]\ndeny = [{group:?}]\n")
        };
        let ran = confined(&policy, &argv);
        let inside = errors(&ran.stdout);
        assert_eq!((free.len(), inside.len()), (rows.len(), rows.len()), "{group}: {ran:?}");
        let named: Vec<&str> = ran.denials.iter().filter_map(|d| d["target"].as_str()).collect();
        for (((row, rule), free), inside) in rows.iter().zip(free).zip(inside) {
            assert_eq!(inside, row.3, "{} {} inside", row.0, row.1);
            if rule.allows {
                assert_eq!(free, inside, "{} {} is as it is outside", row.0, row.1);
                continue;
            }
            // Without privileges the kernel itself refuses much of it with the same error; that it was the filter is then to
            // be seen from the denial alone.
            assert!(!root || free != inside, "{} {} does something outside: {free}", row.0, row.1);
            if row.3 == EPERM {
                let named = named.iter().find(|name| {
                    name.starts_with(row.0) && name.contains(rule.argument.unwrap_or(""))
                });
                assert!(named.is_some(), "{} {} is not among {:?}", row.0, row.1, ran.denials);
            }
        }
        assert!(ran.denials.iter().all(|denial| denial["evidence"] == "kernel"), "{ran:?}");
    }
}

// spec 5.1
#[test]
fn a_group_that_a_policy_allows_is_allowed() {
    for (group, rows) in by_group() {
        let ran = confined(&format!("[syscalls]\nallow = [{group:?}]\n"), &script(&rows));
        assert!(ran.denials.is_empty(), "{group}: {:?}", ran.denials);
        assert_eq!(ran.stdout.lines().count(), rows.len(), "{group}: {ran:?}");
    }
}

// spec 5.1
#[test]
fn a_single_call_can_be_refused_by_its_name() {
    let line = "touch f; chmod 600 f && echo changed";
    let argv = ["bash", "-c", line].map(str::to_owned);
    assert_eq!(confined("", &argv).stdout, "changed\n");
    let deny = "[syscalls]\ndeny = [\"chmod\", \"fchmod\", \"fchmodat\", \"fchmodat2\"]\n";
    let ran = confined(deny, &argv);
    assert_eq!(ran.stdout, "", "{ran:?}");
    assert!(ran.stderr.contains("Operation not permitted"), "{}", ran.stderr);
    assert!(ran.denials.iter().any(|d| d["target"] == "fchmodat"), "{:?}", ran.denials);
}

fn python(program: &str) -> RunReport {
    confined("", &["python3", "-c", program].map(str::to_owned))
}

// spec 5.9: a notification waits through signals, and is answered once
#[test]
fn signals_neither_hang_nor_repeat_a_refused_call() {
    let ran = python(
        "import errno, signal, socket\n\
         heard = [0]\n\
         signal.signal(signal.SIGALRM, lambda *_: heard.__setitem__(0, heard[0] + 1))\n\
         signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)\n\
         refused = 0\n\
         while heard[0] < 100:\n\
         \x20 try: socket.socket(40, socket.SOCK_STREAM)\n\
         \x20 except OSError as e: refused += e.errno == errno.EPERM\n\
         \x20 else: raise SystemExit('let through')\n\
         signal.setitimer(signal.ITIMER_REAL, 0)\n\
         print(refused > 100)",
    );
    assert_eq!((ran.exit_code, ran.stdout.as_str()), (Some(0), "True\n"), "{ran:?}");
    assert_eq!(ran.denials.len(), 1, "the same attempt is told once: {:?}", ran.denials);
}

// spec 5.9
#[test]
fn threads_that_are_refused_at_once_all_get_their_answer() {
    let ran = python(
        "import socket, threading\n\
         refused = []\n\
         def attempt():\n\
         \x20 for _ in range(200):\n\
         \x20   try: socket.socket(40, socket.SOCK_STREAM)\n\
         \x20   except PermissionError: refused.append(1)\n\
         threads = [threading.Thread(target=attempt) for _ in range(8)]\n\
         [t.start() for t in threads]; [t.join() for t in threads]\n\
         print(len(refused))",
    );
    assert_eq!(ran.stdout, "1600\n", "{ran:?}");
}

// spec 5.9: bounded, however much is tried
#[test]
fn a_command_that_tries_everything_fills_no_list_without_end() {
    let ran = python(
        "import socket\n\
         for family in range(100, 400):\n\
         \x20 try: socket.socket(family, socket.SOCK_STREAM)\n\
         \x20 except PermissionError: pass\n\
         print('done')",
    );
    assert_eq!(ran.stdout, "done\n");
    assert_eq!(ran.denials.len(), 64, "{:?}", ran.denials.len());
}
