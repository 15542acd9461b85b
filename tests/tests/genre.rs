//! Attacks that made the genre's CVEs, where no other test holds them (docs/threat-model.md). Each is shown to work without
//! Stockade first.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Command;
use stockade_tests::{Confined, Scratch, unique};

fn bare(line: &str) -> String {
    let output = Command::new("bash").args(["-c", line]).output().expect("bash");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn confined(scratch: &Scratch, options: &[&str], line: &str) -> String {
    let work = scratch.folder("work");
    let ran = Confined::new("workspace-write", &work).options(options).bash(line);
    // The line runs to its end, whatever of it is refused.
    assert!(ran.out().ends_with("end\n"), "{}", ran.err());
    ran.out()
}

// CVE-2019-5736, CVE-2016-9962: the way back into the runtime through a process of its that shares the call's /proc
#[test]
fn the_init_of_a_call_can_neither_be_opened_nor_traced_nor_overwritten() {
    let reach = |pid: &str| {
        format!(
            "head -c 4 /proc/{pid}/exe >/dev/null && echo exe; ls /proc/{pid}/root/ && echo root; \
             readlink /proc/{pid}/fd/0 && echo fd; cat /proc/{pid}/environ >/dev/null && echo environ; \
             (echo x >> /proc/{pid}/exe) && echo overwritten; echo end"
        )
    };
    let own = bare(&format!("sleep 60 & {}; kill %1", reach("$!")));
    for word in ["exe", "root", "fd", "environ"] {
        assert!(own.contains(&format!("{word}\n")), "{word} works on one's own process: {own}");
    }
    let scratch = Scratch::new();
    assert_eq!(confined(&scratch, &[], &reach("1")), "end\n");
}

// CVE-2022-0492: a namespace of one's own, then the release_agent of a cgroup
#[test]
fn no_cgroup_can_be_seen_mounted_or_made_one_s_own() {
    let look = "ls -d /sys/fs/cgroup; echo end";
    assert!(bare(look).contains("/sys/fs/cgroup"), "this host has cgroups");
    let scratch = Scratch::new();
    let attack = "ls -d /sys/fs/cgroup; unshare -UrC true && echo unshared; mkdir -p cg; \
                  mount -t cgroup2 none cg && echo mounted; mount -t cgroup -o rdma none cg && echo mounted; echo end";
    assert_eq!(confined(&scratch, &[], attack), "end\n");
}

// CVE-2020-15257: an abstract socket knows no file system, only a network namespace
#[test]
fn an_abstract_socket_of_the_host_cannot_be_reached_even_with_its_network() {
    let name = format!("stockade-test-{}", unique());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let _listener = UnixListener::bind_addr(&address).expect("a listener");
    let connect = format!(
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"\\0{name}\")' && echo connected; echo end"
    );
    assert_eq!(bare(&connect), "connected\nend\n");
    let scratch = Scratch::new();
    for options in [&[][..], &["--net", "host"]] {
        assert_eq!(confined(&scratch, options, &connect), "end\n", "{options:?}");
    }
}
