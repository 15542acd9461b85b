//! What of the host a run cannot reach: descriptors, terminals, capabilities, processes, its loopback; and who may run it (spec 5.2, 5.3, 5.5, 5.7).

use crate::{work, workspace_write};
use std::ffi::OsStr;
use std::fs;
use std::time::{Duration, Instant};
use stockade_tests::{Confined, Listener, Scratch, tree, unique};

// spec 5.7
#[test]
fn no_descriptor_but_the_three_is_inherited() {
    let scratch = Scratch::new();
    let secret = scratch.path().join("secret");
    fs::write(&secret, "leaked").expect("a file");
    let open = "exec 7<\"$1\" 9>>\"$1\" 55<\"$1\"; shift; exec \"$@\"";
    let inside =
        "ls /proc/self/fd; cat <&7; cat <&55; echo x >&9; ls -l /proc/self/fd | grep -c socket:";
    let through = |argv: &[&OsStr]| {
        let mut command = std::process::Command::new("bash");
        command.args(["-c", open, "bash"]).arg(&secret).args(argv);
        stockade_tests::finish(&mut command, &[], Duration::from_secs(120))
    };
    let bare = through(&["bash", "-c", inside].map(OsStr::new));
    assert!(bare.out().contains("leaked"), "bash passes them on: {}", bare.out());
    fs::write(&secret, "leaked").expect("a file");
    let work = work(&scratch);
    let binary = stockade_tests::stockade_bin().as_os_str();
    let mut argv = vec![binary, OsStr::new("run"), OsStr::new("--workspace"), work.as_os_str()];
    argv.extend(["--", "bash", "-c", inside].map(OsStr::new));
    let ran = through(&argv);
    // The fourth is the one by which ls reads the folder.
    assert_eq!(ran.out(), "0\n1\n2\n3\n0\n", "{}", ran.err());
    assert_eq!(fs::read_to_string(&secret).expect("the file"), "leaked");
}

// spec 5.7
#[test]
fn the_hosts_terminal_cannot_be_reached() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    // 0x5412 is TIOCSTI, ioctl_tty(2).
    let probe = "(: < /dev/tty) 2>/dev/null && echo has a terminal; perl -e 'ioctl(STDIN, 0x5412, \"x\") and print \"typed\\n\"'; echo probed";
    let script = |line: &str| {
        let mut command = std::process::Command::new("script");
        command.args(["-qec", line, "/dev/null"]);
        stockade_tests::finish(&mut command, b"\n", Duration::from_secs(120)).out()
    };
    fs::write(work.join("probe"), probe).expect("a file");
    let bare = script(&format!("bash {:?}/probe", work));
    assert!(bare.contains("has a terminal"), "the probe works without Stockade: {bare}");
    let binary = stockade_tests::stockade_bin();
    let inside = script(&format!("{binary:?} run --workspace {work:?} -- bash probe"));
    assert!(inside.contains("probed"), "{inside}");
    assert!(!inside.contains("has a terminal") && !inside.contains("typed"), "{inside}");
}

// spec 5.2
#[test]
fn a_command_has_no_capability_and_can_gain_none() {
    let scratch = Scratch::new();
    let ran = workspace_write(&work(&scratch)).bash(
        "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; unshare -Ur true && echo nested",
    );
    let out = ran.out();
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(out.contains(&format!("{set}:\t0000000000000000")), "{out}");
    }
    assert!(out.contains("NoNewPrivs:\t1") && out.contains("Seccomp:\t2"), "{out}");
    assert!(!out.contains("nested"), "a user namespace gives every capability back: {out}");
}

// spec 5.2
#[test]
fn a_command_sees_and_signals_no_process_of_the_host() {
    let scratch = Scratch::new();
    let mut sleeper = std::process::Command::new("sleep").arg(unique()).spawn().expect("sleep");
    let line = format!("kill -9 {} ; kill -9 -1; ls /proc | grep -c '^[0-9]'", sleeper.id());
    let ran =
        workspace_write(&work(&scratch)).bash(&format!("({line}) 2>&1; ps ax 2>/dev/null | wc -l"));
    assert!(sleeper.try_wait().expect("a child can be waited for").is_none(), "it was killed");
    sleeper.kill().ok();
    sleeper.wait().ok();
    let count: Vec<u32> = ran.out().lines().filter_map(|line| line.trim().parse().ok()).collect();
    assert!(count.iter().all(|n| *n < 12), "few processes are visible: {}", ran.out());
}

// spec 5.5
#[test]
fn loopback_of_the_host_is_out_of_reach_and_the_cells_own_works() {
    let scratch = Scratch::new();
    let listener = Listener::start();
    let line = format!("exec 3<>/dev/tcp/127.0.0.1/{} && echo connected", listener.port());
    let bare = std::process::Command::new("bash").args(["-c", &line]).output().expect("bash");
    assert_eq!(bare.stdout, b"connected\n", "it works without Stockade");
    assert_eq!(listener.accepted(), 1);
    let ran = workspace_write(&work(&scratch)).bash(&line);
    assert_eq!(ran.out(), "", "{}", ran.err());
    assert_eq!(listener.accepted(), 1);
    let own = "import socket; s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); c.send(b'hi'); print(s.accept()[0].recv(2).decode())";
    let ran = workspace_write(&work(&scratch)).run(&["python3", "-c", own]);
    assert_eq!(ran.out(), "hi\n", "{}", ran.err());
    let host =
        Confined::new("workspace-write", &work(&scratch)).options(&["--net", "host"]).bash(&line);
    assert_eq!(host.out(), "connected\n", "--net host: {}", host.err());
}

// spec 5.3
#[test]
fn it_works_for_an_ordinary_user_without_any_privilege() {
    use std::os::unix::process::CommandExt;
    let scratch = Scratch::new();
    let binary = scratch.path().join("stockade");
    stockade_tests::copy_executable(stockade_tests::stockade_bin(), &binary);
    let work = work(&scratch);
    let home = scratch.folder("home");
    let me = nix::unistd::geteuid();
    let uid = if me.is_root() { 65534 } else { me.as_raw() };
    if me.is_root() {
        for folder in [&work, &home] {
            std::os::unix::fs::chown(folder, Some(uid), Some(uid)).expect("root can chown");
        }
    }
    let run = |policy: &str, line: &str| {
        let mut confined = Confined::with(&binary, policy, &work);
        let process = confined.process().env("HOME", &home).current_dir(&work);
        if me.is_root() {
            process.uid(uid).gid(uid);
        }
        confined.bash(line)
    };
    let ran = run(
        "workspace-write",
        "echo mine > file && cat file; touch /etc/x ../x; grep CapEff /proc/self/status",
    );
    assert_eq!(ran.out(), "mine\nCapEff:\t0000000000000000\n", "{}", ran.err());
    use std::os::unix::fs::MetadataExt;
    assert_eq!(fs::metadata(work.join("file")).expect("it was written").uid(), uid);
    let ran = run("read-only", "echo no > file2; cat file");
    assert_eq!(ran.out(), "mine\n", "{}", ran.err());
    assert!(!work.join("file2").exists());
    let ran = run("workspace-write", "sleep 0.1; exit 5");
    assert_eq!(ran.code(), 5, "{}", ran.err());
}

#[test]
fn ten_runs_at_once_in_one_workspace_do_not_disturb_each_other() {
    let scratch = Scratch::new();
    let work = scratch.repository("work");
    let before = tree::snapshot(&work);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for n in 0..10 {
            let work = &work;
            scope.spawn(move || {
                let line =
                    format!("echo {n} > /tmp/n; sleep 0.2; cat /tmp/n; git status --short | wc -l");
                let ran = workspace_write(work).bash(&line);
                assert_eq!(ran.out(), format!("{n}\n0\n"), "{}", ran.err());
            });
        }
    });
    assert!(started.elapsed() < Duration::from_secs(120));
    let changes = tree::differences(&before, &tree::snapshot(&work));
    let changes: Vec<_> = changes.iter().filter(|line| !line.contains(".git/index")).collect();
    assert!(changes.is_empty(), "no stub of a protected path remains: {changes:?}");
}
