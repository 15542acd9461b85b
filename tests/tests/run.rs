//! `stockade run` from outside: what it passes through, what it keeps out, and how it ends (spec
//! 10.1, 10.2, 5.4 to 5.7, 6.1).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stockade_tests::{Confined, FakeHome, Listener, Scratch, procs, tree, unique};

fn workspace_write(workspace: &Path) -> Confined {
    Confined::new("workspace-write", workspace)
}

fn work(scratch: &Scratch) -> PathBuf {
    scratch.folder("work")
}

// spec 10.2
#[test]
fn the_exit_code_is_the_commands_own() {
    let scratch = Scratch::new();
    for code in [0, 1, 2, 42, 123, 255] {
        let ran = workspace_write(&work(&scratch)).bash(&format!("exit {code}"));
        assert_eq!(ran.code(), code, "{}", ran.err());
    }
}

// spec 10.2
#[test]
fn a_signal_is_128_and_its_number() {
    let scratch = Scratch::new();
    for signal in [15, 9, 6, 11] {
        let line = format!("kill -{signal} $$");
        assert_eq!(workspace_write(&work(&scratch)).bash(&line).code(), 128 + signal);
        let report = workspace_write(&work(&scratch)).report(&["bash", "-c", &line]);
        assert_eq!((report.outcome.as_str(), report.signal), ("signaled", Some(signal)));
    }
}

// spec 10.2
#[test]
fn not_found_is_127_and_not_executable_is_126() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    fs::write(work.join("plain"), "no program").expect("a file");
    fs::write(work.join("nonsense"), [0, 1, 2, 3]).expect("a file");
    fs::set_permissions(work.join("nonsense"), fs::Permissions::from_mode(0o755)).expect("chmod");
    for (argv, code) in [
        ("no-such-program-anywhere", 127),
        ("./no-such-file", 127),
        ("./plain", 126),
        ("./nonsense", 126),
        ("/usr/bin", 126),
        // A folder of that name in each of the PATH is passed over, as shells do.
        (".", 127),
    ] {
        let ran = workspace_write(&work).run(&[argv]);
        assert_eq!(ran.code(), code, "{argv}: {}", ran.err());
        assert!(ran.err().contains(argv), "{argv} is named: {}", ran.err());
    }
}

// spec 10.2: nothing was run
#[test]
fn a_confinement_that_cannot_be_set_up_is_125_and_says_why() {
    let scratch = Scratch::new();
    let absent = scratch.path().join("absent-workspace");
    let ran = workspace_write(&absent).bash("echo ran");
    assert_eq!((ran.code(), ran.out().as_str()), (125, ""));
    assert!(ran.err().contains("absent-workspace"), "{}", ran.err());

    let ran = Confined::new("no-such-policy", &work(&scratch)).bash("echo ran");
    assert_eq!((ran.code(), ran.out().as_str()), (125, ""));
    assert!(ran.err().contains("no-such-policy"), "{}", ran.err());

    let broken = scratch.path().join("broken.toml");
    fs::write(&broken, "name = \"broken\"\n[filesystem]\nraed = [\"/usr\"]\n").expect("a file");
    let ran = Confined::new(broken.to_str().expect("UTF-8"), &work(&scratch)).bash("echo ran");
    assert_eq!((ran.code(), ran.out().as_str()), (125, ""));
    assert!(ran.err().contains("raed") && ran.err().contains('3'), "the place: {}", ran.err());
}

// spec 10.1, 6.1
#[test]
fn a_timeout_is_124_and_ends_children_that_ignore_sigterm_and_called_setsid() {
    let scratch = Scratch::new();
    let number = unique();
    let stubborn = format!(
        "for i in 1 2 3; do (setsid bash -c 'trap \"\" TERM; sleep {number}' &); done; trap '' TERM; sleep {number}"
    );
    let options = ["--timeout", "500ms", "--grace", "300ms"];
    let ran = workspace_write(&work(&scratch)).options(&options).bash(&stubborn);
    let left = procs::none_left(Duration::from_secs(10), || procs::with_argument(&number));
    assert!(left.is_empty(), "alive: {left:?}");
    assert_eq!(ran.code(), 124, "{}", ran.err());
    assert!(ran.took < Duration::from_secs(30), "timeout and grace are 0.8 s: {:?}", ran.took);

    let line = ["bash", "-c", &stubborn];
    let report = workspace_write(&work(&scratch)).options(&options).report(&line);
    assert_eq!((report.outcome.as_str(), report.exit_code), ("timed_out", None));
    assert!(report.killed["processes"].as_u64() >= Some(4), "{:?}", report.killed);
    let left = procs::none_left(Duration::from_secs(10), || procs::with_argument(&number));
    assert!(left.is_empty(), "alive: {left:?}");
}

// spec 10.1: the option narrows the limit, and does not lift it
#[test]
fn the_tighter_of_timeout_and_wall_limit_counts() {
    let scratch = Scratch::new();
    for (timeout, wall) in [("60s", "wall=300ms"), ("300ms", "wall=60s")] {
        let ran = workspace_write(&work(&scratch))
            .options(&["--timeout", timeout, "--limit", wall])
            .bash("sleep 60");
        assert_eq!(ran.code(), 124, "{timeout}, {wall}: {}", ran.err());
        assert!(ran.err().contains("300 ms"), "{timeout}, {wall}: {}", ran.err());
    }
}

// spec 10.1, 5.9: what was put aside is told without --json too
#[test]
fn what_the_sandbox_put_aside_is_named_on_stderr() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    let ran =
        workspace_write(&work).bash("mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit");
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let told = ran.err().lines().any(|line| {
        line.starts_with("stockade: ") && line.contains(".git/hooks") && line.contains("writing")
    });
    assert!(told, "{}", ran.err());
}

// spec 10.1, 10.7: a slip of the finger is no grant, and no protection
#[test]
fn a_path_option_that_names_nothing_is_an_error() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    let absent = work.join("secrte");
    let absent = absent.to_str().expect("UTF-8");
    for option in ["--read", "--write", "--hide"] {
        let ran = workspace_write(&work).options(&[option, absent]).bash("echo ran");
        assert_eq!((ran.code(), ran.out().as_str()), (125, ""), "{option}: {}", ran.err());
        assert!(ran.err().contains("secrte"), "{option}: {}", ran.err());
    }
}

// spec 10.1
#[test]
fn a_variable_without_a_name_is_refused_and_one_that_is_not_set_is_told() {
    let scratch = Scratch::new();
    let ran = workspace_write(&work(&scratch)).options(&["--env", "=x"]).bash("echo ran");
    assert_eq!((ran.code(), ran.out().as_str()), (125, ""), "{}", ran.err());
    let ran = workspace_write(&work(&scratch))
        .options(&["--env", "NO_SUCH_VARIABLE_HERE"])
        .bash("echo ran");
    assert_eq!((ran.code(), ran.out().as_str()), (0, "ran\n"), "{}", ran.err());
    assert!(ran.err().contains("NO_SUCH_VARIABLE_HERE"), "{}", ran.err());
}

// spec 10.2, 10.7
#[test]
fn a_script_that_cannot_be_executed_says_what_it_lacks() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    let executable = |name: &str, content: &str| {
        fs::write(work.join(name), content).expect("a file");
        fs::set_permissions(work.join(name), fs::Permissions::from_mode(0o755)).expect("chmod");
    };
    executable("orphan", "#!/no/such/interpreter -x\n");
    executable("plain", "echo no line says who runs it\n");
    for (argv, code, says, errno) in [
        ("./orphan", 127, "/no/such/interpreter", nix::libc::ENOENT),
        ("./plain", 126, "#!", nix::libc::ENOEXEC),
        ("./absent", 127, "not found", nix::libc::ENOENT),
    ] {
        let ran = workspace_write(&work).run(&[argv]);
        assert_eq!(ran.code(), code, "{argv}: {}", ran.err());
        assert!(ran.err().contains(says), "{argv}: {}", ran.err());
        let ran = workspace_write(&work).options(&["--json"]).run(&[argv]);
        let report: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("one object");
        assert_eq!(report["errno"], errno, "{argv}: {report}");
    }
}

// spec 6.1: SIGTERM first
#[test]
fn a_command_has_its_grace_to_end_by_itself() {
    let scratch = Scratch::new();
    let ran = workspace_write(&work(&scratch))
        .options(&["--timeout", "300ms", "--grace", "60s"])
        .bash("trap 'echo cleaned up; exit 0' TERM; sleep 600 & wait");
    assert_eq!((ran.out().trim(), ran.code()), ("cleaned up", 124), "{}", ran.err());
    assert!(ran.took < Duration::from_secs(30), "it did not wait out the grace: {:?}", ran.took);
}

// spec 6.2
#[test]
fn a_child_that_keeps_the_pipe_does_not_keep_the_run() {
    let scratch = Scratch::new();
    let number = unique();
    let line = format!("echo done; setsid sleep {number} & exit 0");
    let ran = workspace_write(&work(&scratch)).bash(&line);
    assert_eq!((ran.out().as_str(), ran.code()), ("done\n", 0), "{}", ran.err());
    assert!(ran.took < Duration::from_secs(60), "{:?}", ran.took);
    let left = procs::none_left(Duration::from_secs(10), || procs::with_argument(&number));
    assert!(left.is_empty(), "alive: {left:?}");
}

// spec 6.3
#[test]
fn sigterm_to_the_runtime_ends_the_tree() {
    let scratch = Scratch::new();
    let number = unique();
    let mut command = std::process::Command::new(stockade_tests::stockade_bin());
    command.args(["run", "--workspace"]).arg(work(&scratch));
    let line = format!("setsid sleep {number} & sleep {number}");
    let mut child = command.args(["--", "bash", "-c", &line]).spawn().expect("it starts");
    let sleeping = || {
        let all = procs::with_argument(&number);
        all.into_iter().filter(|p| p.pid != child.id().cast_signed()).collect::<Vec<_>>()
    };
    let up = procs::until(Duration::from_secs(20), || Some(()).filter(|()| sleeping().len() >= 3));
    assert!(up.is_some(), "the sleepers started: {:?}", sleeping());
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("a signal can be sent");
    let left = procs::none_left(Duration::from_secs(10), sleeping);
    assert!(left.is_empty(), "alive: {left:?}");
    child.wait().expect("it ends");
}

// spec 10.1
#[test]
fn argv_arrives_byte_for_byte() {
    let scratch = Scratch::new();
    let awkward: Vec<OsString> = [
        &b""[..],
        b" ",
        b"two words",
        b"line\nbreak",
        b"\xff\xfe\x80",
        b"$HOME `id` \"quoted\" 'q' \\ *",
        b"--json",
        b"-",
        b"--",
        b"\t",
        b"",
    ]
    .iter()
    .map(|bytes| OsString::from_vec(bytes.to_vec()))
    .collect();
    let mut argv: Vec<OsString> = vec!["printf".into(), "%s\\0".into()];
    argv.extend(awkward.iter().cloned());
    let ran = workspace_write(&work(&scratch)).run(&argv);
    let mut expected = Vec::new();
    for arg in &awkward {
        expected.extend_from_slice(arg.as_bytes());
        expected.push(0);
    }
    assert_eq!(ran.stdout, expected, "{}", ran.err());
}

// spec 10.1
#[test]
fn the_first_argument_that_is_no_option_begins_the_command() {
    let scratch = Scratch::new();
    let mut command = std::process::Command::new(stockade_tests::stockade_bin());
    command.args(["run", "--workspace"]).arg(work(&scratch)).args(["echo", "--json", "-n", "x"]);
    let ran = stockade_tests::finish(&mut command, &[], Duration::from_secs(120));
    assert_eq!(ran.out(), "--json -n x\n", "{}", ran.err());
}

// spec 10.1
#[test]
fn stdin_stdout_and_stderr_pass_through_byte_for_byte() {
    let scratch = Scratch::new();
    let bytes: Vec<u8> =
        (0..3_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let ran = workspace_write(&work(&scratch)).stdin(&bytes).bash("tee /dev/stderr");
    assert_eq!(ran.code(), 0);
    assert!(ran.stdout == bytes, "stdout: {} of {} bytes", ran.stdout.len(), bytes.len());
    assert!(ran.stderr == bytes, "stderr: {} of {} bytes", ran.stderr.len(), bytes.len());
}

#[test]
fn a_writer_whose_reader_is_gone_ends_by_sigpipe() {
    let scratch = Scratch::new();
    let ran = workspace_write(&work(&scratch)).bash("yes | head -n 1; echo ${PIPESTATUS[0]}");
    assert_eq!(ran.out(), "y\n141\n", "signal dispositions are reset: {}", ran.err());
}

// spec 10.1
#[test]
fn json_is_one_object_with_every_key_of_the_contract() {
    let scratch = Scratch::new();
    let ran = workspace_write(&work(&scratch))
        .options(&["--json"])
        .bash("printf 'out\\377'; printf err >&2; exit 7");
    let report: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("one object");
    for key in [
        "outcome",
        "exit_code",
        "signal",
        "stdout",
        "stderr",
        "truncated",
        "usage",
        "denials",
        "killed",
        "layers",
    ] {
        assert!(report.get(key).is_some(), "{key} is missing in {report}");
    }
    assert_eq!(report["outcome"], "exited");
    assert_eq!(report["exit_code"], 7);
    assert!(report["signal"].is_null());
    assert!(report["stdout"].as_str().is_some_and(|out| out.starts_with("out")));
    assert_eq!(report["stderr"], "err");
    let layers = report["layers"].to_string();
    for layer in ["user_namespace", "pid_namespace", "landlock", "seccomp", "mount_tree"] {
        assert!(layers.contains(layer), "{layer} is missing in {layers}");
    }
}

// spec 10.1: the outcomes that are no exit
#[test]
fn json_tells_what_the_exit_code_cannot() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    assert_eq!(workspace_write(&work).report(&["bash", "-c", "exit 124"]).outcome, "exited");
    assert_eq!(workspace_write(&work).report(&["bash", "-c", "exit 125"]).outcome, "exited");
    let report = workspace_write(&work.join("absent")).report(&["true"]);
    assert_eq!(report.outcome, "setup_failed");
    assert_eq!(report.exit_code, None);
}

// spec 6.4: memory is bounded however much is written
#[test]
fn a_flood_of_output_is_bounded_and_said_to_be_cut() {
    let scratch = Scratch::new();
    let report = workspace_write(&work(&scratch)).report(&[
        "bash",
        "-c",
        "head -c 200000000 /dev/zero | tr '\\0' x",
    ]);
    assert_eq!(report.status(), 0);
    assert!(report.stdout.len() < 64 << 20, "{} bytes were kept", report.stdout.len());
    assert!(report.truncated["stdout"] == true, "{:?}", report.truncated);
}

#[test]
fn workspaces_of_any_name_are_the_folder_that_was_meant() {
    let scratch = Scratch::new();
    let names: [&[u8]; 8] = [
        b"[id]",
        b"a space",
        b"a\nnewline",
        b"caf\xc3\xa9",
        b"not \xff utf-8 \xfe",
        b"$HOME",
        b"-x",
        b"*",
    ];
    for name in names {
        let work = scratch.folder(OsStr::from_bytes(name));
        fs::write(work.join("before"), "content").expect("a file");
        let ran = workspace_write(&work).bash("cat before && echo written > after && pwd");
        assert_eq!(ran.code(), 0, "{work:?}: {}", ran.err());
        let expected = [b"content", work.as_os_str().as_bytes(), b"\n"].concat();
        assert_eq!(ran.stdout, expected, "{work:?}");
        assert_eq!(fs::read_to_string(work.join("after")).expect("it was written"), "written\n");
    }
    let written: Vec<_> = tree::snapshot(&scratch.path())
        .into_keys()
        .filter(|path| path.file_name() == Some(OsStr::new("after")))
        .collect();
    assert_eq!(written.len(), names.len(), "and nowhere else: {written:?}");
}

#[test]
fn a_symlinked_workspace_is_the_folder_behind_it() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    symlink(&work, scratch.path().join("way")).expect("a link");
    let ran = workspace_write(&scratch.path().join("way")).bash("echo through > file; pwd -P");
    assert_eq!(ran.out().trim_end().as_bytes(), work.as_os_str().as_bytes(), "{}", ran.err());
    assert_eq!(fs::read_to_string(work.join("file")).expect("it was written"), "through\n");
}

#[test]
fn the_workspace_is_the_current_folder_unless_another_is_named() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    let mut command = std::process::Command::new(stockade_tests::stockade_bin());
    command.args(["run", "bash", "-c", "pwd -P; echo x > here"]).current_dir(&work);
    let ran = stockade_tests::finish(&mut command, &[], Duration::from_secs(120));
    assert_eq!(ran.out().trim_end().as_bytes(), work.as_os_str().as_bytes(), "{}", ran.err());
    assert!(work.join("here").exists());
}

/// Tries to write in many places and ways; prints the number of each that worked.
const WRITES: &str = r#"
n=0; try() { n=$((n+1)); ("$@") 2>/dev/null && echo "worked: $n: $*"; }
try sh -c 'echo x > new'
try sh -c 'echo x >> file'
try sh -c ': > file'
try truncate -s 0 file
try rm -f file
try mv file moved
try mkdir folder
try ln -s file link
try ln file hard
try chmod 600 file
try touch file
try rmdir empty
try mkfifo pipe
try python3 -c 'import os; os.utime("file", (1, 1))'
true
"#;

// spec 5.1, 5.4
#[test]
fn read_only_really_denies_every_kind_of_write() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    fs::create_dir(work.join("empty")).expect("a folder");
    fs::write(work.join("file"), "content").expect("a file");
    let before = tree::snapshot(&work);
    let ran = Confined::new("read-only", &work).bash(WRITES);
    assert_eq!(ran.out(), "", "{}", ran.err());
    assert_eq!(tree::touched(&before, &tree::snapshot(&work)), [""; 0]);
    let read = Confined::new("read-only", &work).bash("cat file; ls");
    assert_eq!(read.out(), "contentempty\nfile\n", "reading works: {}", read.err());
    let writable = workspace_write(&work).bash(WRITES);
    assert!(writable.out().lines().count() >= 10, "the probe can succeed: {}", writable.out());
}

// spec 5.1, 5.4
#[test]
fn workspace_write_denies_writing_anywhere_else() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    let outside = scratch.folder("outside");
    fs::create_dir(outside.join("empty")).expect("a folder");
    fs::write(outside.join("file"), "content").expect("a file");
    symlink(&outside, work.join("way")).expect("a link");
    fs::write(work.join("mine"), "").expect("a file");
    let before = tree::snapshot(&scratch.path());
    let there = outside.to_str().expect("UTF-8");
    for line in [
        format!("cd {there:?} && {{ {WRITES} }}"),
        format!("cd way && {{ {WRITES} }}"),
        format!("echo x > {there}/new"),
        format!("echo x > {there}/file"),
        format!("rm -rf {there}/* ; rm -rf way/*"),
        format!("ln {there}/file hard && echo x > hard"),
        format!("mv mine {there}/"),
        "echo x > ../escaped".into(),
        "echo x > /etc/stockade-test-was-here".into(),
        "echo x > /usr/stockade-test-was-here".into(),
        "echo x > /stockade-test-was-here".into(),
        "echo '|/bin/false' > /proc/sys/kernel/core_pattern".into(),
    ] {
        let ran = workspace_write(&work).bash(&line);
        assert!(!ran.out().contains("worked"), "{line}: {}", ran.out());
    }
    let after = tree::snapshot(&scratch.path());
    assert_eq!(tree::touched(&before, &after), [""; 0]);
    for planted in
        ["/etc/stockade-test-was-here", "/usr/stockade-test-was-here", "/stockade-test-was-here"]
    {
        assert!(!Path::new(planted).exists(), "{planted}");
    }
}

// spec 5.1
#[test]
fn danger_full_access_is_really_unconfined_in_files() {
    let scratch = Scratch::new();
    let outside = scratch.folder("outside");
    let line = format!("echo x > {outside:?}/written");
    let ran = Confined::new("danger-full-access", &work(&scratch)).bash(&line);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(outside.join("written").exists());
}

#[test]
fn tmp_is_private_and_the_home_is_empty_but_both_can_be_written() {
    let scratch = Scratch::new();
    let name = format!("/tmp/stockade-test-{}", unique());
    let line = format!("echo x > {name} && cat {name} && echo y > ~/mine && cat ~/mine");
    let ran = workspace_write(&work(&scratch)).bash(&line);
    assert_eq!(ran.out(), "x\ny\n", "{}", ran.err());
    assert!(!Path::new(&name).exists(), "{name} appeared on the host");
    fs::write(&name, "of the host").expect("a file");
    let ran = workspace_write(&work(&scratch)).bash(&format!("cat {name}"));
    fs::remove_file(&name).ok();
    assert_ne!(ran.code(), 0, "the host's /tmp is visible");
}

// spec 5.6
#[test]
fn no_secret_of_the_environment_and_no_loader_variable_gets_in() {
    let scratch = Scratch::new();
    let home = FakeHome::new(&scratch.folder("home"));
    let mut confined = workspace_write(&work(&scratch));
    home.dress(confined.process());
    let code = work(&scratch).join("evil.sh");
    fs::write(&code, "echo loaded\n").expect("a file");
    confined
        .process()
        .env("BASH_ENV", &code)
        .env("LD_LIBRARY_PATH", "/evil")
        .env("LD_AUDIT", "/evil.so")
        .env("PYTHONSTARTUP", &code)
        .env("PYTHONPATH", "/evil")
        .env("NODE_OPTIONS", "--require=/evil.js")
        .env("PERL5OPT", "-Mevil")
        .env("GIT_SSH_COMMAND", "/evil")
        .env("PROMPT_COMMAND", "/evil")
        .env("SOMETHING_ELSE", "unlisted");
    let ran = confined.bash("env; cat /proc/1/environ | tr '\\0' '\\n'");
    let out = ran.out();
    assert!(out.contains("PATH=") && out.contains("HOME="), "{out} {}", ran.err());
    assert!(!out.contains(home.marker()), "{out}");
    for never in ["loaded", "/evil", "-Mevil", "SOMETHING_ELSE"] {
        assert!(!out.contains(never), "{never} got in: {out}");
    }
}

// spec 10.1
#[test]
fn env_passes_what_is_named_and_nothing_more() {
    let scratch = Scratch::new();
    let mut confined =
        workspace_write(&work(&scratch)).options(&["--env", "SET=a b", "--env", "TAKEN"]);
    confined.process().env("TAKEN", "from outside").env("OTHER", "no");
    let ran = confined.bash("echo \"$SET/$TAKEN/$OTHER\"");
    assert_eq!(ran.out(), "a b/from outside/\n", "{}", ran.err());
}

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

// spec 10.2: a panic's own code would be taken for the command's.
#[test]
fn too_few_open_files_are_a_failure_of_the_set_up() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    let mut ended_well = false;
    for files in [8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 40, 44, 48, 56, 64] {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -n $2; exec \"$0\" run --workspace \"$1\" -- true"]);
        command.arg(stockade_tests::stockade_bin()).arg(&work).arg(files.to_string());
        let ran = stockade_tests::finish(&mut command, &[], Duration::from_secs(120));
        ended_well = ran.code() == 0;
        if !ended_well {
            assert_eq!(ran.code(), 125, "{files}: {}", ran.err());
            assert!(ran.err().contains("ulimit -n"), "{files}: {}", ran.err());
        }
    }
    assert!(ended_well, "with 64 files");
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

// spec 10.1
#[test]
fn read_write_and_hide_change_the_view_as_named() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    let extra = scratch.folder("extra");
    fs::write(extra.join("file"), "extra").expect("a file");
    fs::write(work.join("hidden"), "hidden").expect("a file");
    let extra_text = extra.to_str().expect("UTF-8");
    let probe = format!("cat {extra_text}/file; echo x > {extra_text}/new; cat hidden");
    let ran = workspace_write(&work).bash(&probe);
    assert_eq!(ran.out(), "hidden", "{}", ran.err());
    let ran = workspace_write(&work).options(&["--read", extra_text]).bash(&probe);
    assert_eq!(ran.out(), "extrahidden", "{}", ran.err());
    assert!(!extra.join("new").exists());
    let hidden = work.join("hidden");
    let hide = ["--write", extra_text, "--hide", hidden.to_str().expect("UTF-8")];
    let ran = workspace_write(&work).options(&hide).bash(&probe);
    assert_eq!(ran.out(), "extra", "{}", ran.err());
    assert!(extra.join("new").exists());
}

// spec 5.3
#[test]
fn it_works_for_an_ordinary_user_without_any_privilege() {
    use std::os::unix::process::CommandExt;
    let scratch = Scratch::new();
    let binary = scratch.path().join("stockade");
    fs::copy(stockade_tests::stockade_bin(), &binary).expect("a copy of the binary");
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
fn nothing_is_left_in_the_folder_for_temporary_files() {
    let scratch = Scratch::new();
    let temporary = scratch.folder("temporary");
    for line in ["echo x > /tmp/x; echo y > ~/y", "kill -9 $$", "sleep 5"] {
        let mut confined =
            workspace_write(&work(&scratch)).options(&["--timeout", "300ms", "--grace", "100ms"]);
        confined.process().env("TMPDIR", &temporary).env("XDG_RUNTIME_DIR", &temporary);
        confined.bash(line);
    }
    let left: Vec<_> =
        tree::snapshot(&temporary).into_keys().filter(|p| p != Path::new("")).collect();
    assert!(left.is_empty(), "{left:?}");
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

// spec 6.5, 5.7
#[test]
fn the_callers_streams_are_given_back_as_they_stood() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    let stockade = stockade_tests::stockade_bin().display();
    let by = |change: &str| format!("{stockade} run --workspace {} -- {change}", work.display());
    let output = |command: &mut std::process::Command| {
        let output = command.stdin(std::process::Stdio::null()).output().expect("it starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let change = "python3 -c 'import fcntl, os; fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)'";
    let look =
        "python3 -c 'import fcntl, os; print(fcntl.fcntl(1, fcntl.F_GETFL) & os.O_NONBLOCK)'";
    let bash = |line: String| output(std::process::Command::new("bash").args(["-c", &line]));
    assert_ne!(bash(format!("{change}; {look}")), "0\n", "the change is real");
    assert_eq!(bash(format!("{}; {look}", by(change))), "0\n");

    let at_terminal = |line: String| {
        output(std::process::Command::new("script").args(["-qec", &line, "/dev/null"]))
    };
    let is_raw = |text: &str| text.contains("-icanon") && text.contains("-echo ");
    assert!(is_raw(&at_terminal("stty raw -echo; stty -a".into())), "the change is real");
    let after = at_terminal(format!("{}; stty -a", by("stty raw -echo")));
    assert!(after.contains(" icanon") && !is_raw(&after), "{after}");
    let killed = by("bash -c 'stty raw -echo; kill -9 $$'");
    let after = at_terminal(format!("{killed}; stty -a"));
    assert!(after.contains(" icanon") && !is_raw(&after), "{after}");
}
