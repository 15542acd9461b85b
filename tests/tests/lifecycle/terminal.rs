//! Commands at a terminal of their own (spec 6.5). The host's is a pair that stands for a person's.

use crate::case::Case;
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use stockade_tests::procs;

crate::cases!(
    the_terminal_is_the_controlling_one_and_no_other_is_there,
    its_size_is_the_hosts_and_follows_it,
    what_is_typed_reaches_the_command,
    ctrl_c_interrupts_the_foreground_alone,
    ctrl_z_stops_a_job_and_fg_brings_it_back,
    ctrl_d_ends_the_input,
    the_exit_status_comes_through,
    the_hosts_terminal_is_raw_meanwhile_and_restored_after_it,
    the_hosts_terminal_is_restored_when_stockade_is_terminated,
    a_timeout_ends_a_command_at_a_terminal,
    what_a_killed_program_left_switched_on_is_switched_off,
    what_a_program_switched_off_itself_is_left_alone,
    a_terminal_that_hangs_up_ends_the_command,
    the_transcript_holds_what_was_shown,
    a_shell_starts_in_the_workspace,
    without_a_terminal_of_the_host_the_command_has_one_all_the_same,
    each_read_at_the_terminal_of_a_bash_call_finds_an_end;
    namespaced
    the_hosts_terminal_is_restored_while_stockade_is_stopped,
    what_a_stopped_program_has_switched_on_is_off_meanwhile,
    the_terminal_has_a_name_and_can_be_opened_by_it,
    nothing_of_the_terminal_is_seen_on_the_host,
    a_program_that_is_not_there_is_not_found_at_a_terminal_either,
);

struct Session {
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    screen: Arc<Mutex<Vec<u8>>>,
    child: Box<dyn Child + Send + Sync>,
}

impl Session {
    fn start(case: &Case, arguments: &[&str]) -> Self {
        let size = PtySize { rows: 30, cols: 100, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).expect("a pair");
        let mut command =
            CommandBuilder::from_argv(case.argv(arguments).into_iter().map(Into::into).collect());
        command.cwd(case.work());
        command.env("SHELL", "/bin/bash");
        command.env("PS1", "$ ");
        let child = pair.slave.spawn_command(command).expect("stockade starts");
        drop(pair.slave);
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, shown) =
            (pair.master.try_clone_reader().expect("a reader"), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                shown.lock().expect("no panic").extend_from_slice(&buffer[..length]);
            }
        });
        let keys = pair.master.take_writer().expect("a writer");
        Self { master: pair.master, keys, screen, child }
    }

    /// `stockade run --tty` of this line of bash.
    fn run(case: &Case, options: &[&str], line: &str) -> Self {
        let mark = format!("STOCKADE_TEST_MARK={}", case.mark());
        let mut arguments = vec!["run", "--tty", "--env", &mark];
        arguments.extend(options);
        arguments.extend(["--", "bash", "-c", line]);
        Self::start(case, &arguments)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().expect("no panic")).into_owned()
    }

    fn shows(&self, expected: &str) {
        let until = Instant::now() + Duration::from_secs(30);
        while !self.text().contains(expected) {
            assert!(Instant::now() < until, "{expected:?} is not in {:?}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).and_then(|()| self.keys.flush()).expect("keys");
    }

    fn pid(&self) -> i32 {
        self.child.process_id().expect("a pid") as i32
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).expect("a signal");
    }

    /// Whether the host's terminal takes lines, echoes, and makes signals of keys.
    fn is_cooked(&self) -> bool {
        let modes = self.master.get_termios().expect("modes").local_flags.bits();
        let cooked = nix::libc::ICANON | nix::libc::ECHO | nix::libc::ISIG;
        modes & cooked == cooked
    }

    fn is_raw(&self) -> bool {
        let modes = self.master.get_termios().expect("modes").local_flags.bits();
        modes & (nix::libc::ICANON | nix::libc::ECHO | nix::libc::ISIG) == 0
    }

    fn ends(&mut self, case: &Case) -> u32 {
        let limit = Duration::from_secs(60);
        let status = procs::until(limit, || self.child.try_wait().expect("a child"));
        let status = status.unwrap_or_else(|| panic!("it hangs; shown: {:?}", self.text()));
        case.nothing_is_left();
        // What was shown last may still be on its way to our reader.
        std::thread::sleep(Duration::from_millis(50));
        status.exit_code()
    }
}

fn the_terminal_has_a_name_and_can_be_opened_by_it(case: Case) {
    let line =
        "tty; echo again >$(tty); test -t 0 && test -t 1 && test -t 2 && echo three; ls /dev/pts";
    let mut session = Session::run(&case, &[], line);
    assert_eq!(session.ends(&case), 0);
    assert_eq!(session.text(), "/dev/pts/0\r\nagain\r\nthree\r\n0  ptmx\r\n");
}

fn the_terminal_is_the_controlling_one_and_no_other_is_there(case: Case) {
    let line = "echo own >/dev/tty; ps -o tty= -o tpgid= -o sid= $$";
    let mut session = Session::run(&case, &[], line);
    assert_eq!(session.ends(&case), 0);
    let text = session.text();
    let mut words = text.split_whitespace();
    assert_eq!(words.next(), Some("own"), "{text:?}");
    assert!(words.next().is_some_and(|name| name.starts_with("pts/")), "{text:?}");
    assert_eq!(words.next(), words.next(), "it is in the foreground: {text:?}");
}

fn its_size_is_the_hosts_and_follows_it(case: Case) {
    let line = "stty size; trap 'stty size' WINCH; echo ready; while ! read -t 0.05 x; do :; done";
    let mut session = Session::run(&case, &[], line);
    session.shows("30 100\r\nready");
    let size = PtySize { rows: 10, cols: 40, pixel_width: 0, pixel_height: 0 };
    session.master.resize(size).expect("a new size");
    session.shows("10 40");
    session.types("\r");
    assert_eq!(session.ends(&case), 0);
}

fn what_is_typed_reaches_the_command(case: Case) {
    let mut session = Session::run(&case, &[], "read -r line; echo \"got <$line>\"");
    session.types("hé llo\r");
    assert_eq!(session.ends(&case), 0);
    assert!(session.text().ends_with("got <hé llo>\r\n"), "{:?}", session.text());
}

fn ctrl_c_interrupts_the_foreground_alone(case: Case) {
    let line = "trap 'echo shell' INT; bash -c 'trap \"echo child; exit 3\" INT; echo ready; while :; do sleep 0.02; done'; echo after $?";
    let mut session = Session::run(&case, &[], line);
    session.shows("ready");
    session.types("\x03");
    session.shows("after 3");
    assert_eq!(session.ends(&case), 0);
    assert!(session.text().contains("child"), "{:?}", session.text());
}

fn ctrl_z_stops_a_job_and_fg_brings_it_back(case: Case) {
    let mark = format!("STOCKADE_TEST_MARK={}", case.mark());
    let mut session =
        Session::start(&case, &["shell", "--env", &mark, "--", "bash", "--norc", "--noediting"]);
    session.shows("bash-");
    session.types("echo re''ady\r");
    session.shows("\nready");
    session.types("(echo wai''ting; read line; echo \"line $line\")\r");
    session.shows("\nwaiting");
    session.types("\x1a");
    session.shows("Stopped");
    session.types("jobs; echo li''sted\r");
    session.shows("\nlisted");
    session.types("fg\r");
    session.types("back\r");
    session.shows("line back");
    session.types("exit 5\r");
    assert_eq!(session.ends(&case), 5);
}

fn ctrl_d_ends_the_input(case: Case) {
    let mut session = Session::run(&case, &[], "cat; echo end");
    session.types("a line\r");
    session.shows("a line\r\na line\r\n");
    session.types("\x04");
    session.shows("end");
    assert_eq!(session.ends(&case), 0);
}

fn the_exit_status_comes_through(case: Case) {
    assert_eq!(Session::run(&case, &[], "exit 42").ends(&case), 42);
    assert_eq!(Session::run(&case, &[], "kill -9 $$").ends(&case), 137);
}

fn a_program_that_is_not_there_is_not_found_at_a_terminal_either(case: Case) {
    assert_eq!(Session::start(&case, &["run", "--tty", "--", "no-such-program"]).ends(&case), 127);
}

fn the_hosts_terminal_is_raw_meanwhile_and_restored_after_it(case: Case) {
    let mut session = Session::run(&case, &[], "echo ready; read x");
    session.shows("ready");
    assert!(session.is_raw());
    session.types("\r");
    assert_eq!(session.ends(&case), 0);
    assert!(session.is_cooked());
}

fn the_hosts_terminal_is_restored_when_stockade_is_terminated(case: Case) {
    use nix::sys::signal::Signal;
    for by in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGINT] {
        let mut session = Session::run(&case, &["--grace", "0"], "echo ready; sleep 600");
        session.shows("ready");
        assert!(session.is_raw());
        session.signal(by);
        assert_eq!(session.ends(&case), 128 + by as u32, "{by}");
        assert!(session.is_cooked(), "{by}");
    }
}

fn the_hosts_terminal_is_restored_while_stockade_is_stopped(case: Case) {
    use nix::sys::signal::Signal;
    let mut session = Session::run(&case, &[], "echo ready; read x; echo \"got $x\"");
    session.shows("ready");
    session.signal(Signal::SIGTSTP);
    let cooked = procs::until(Duration::from_secs(20), || session.is_cooked().then_some(()));
    assert!(cooked.is_some(), "the shell that stopped it has its terminal back");
    session.signal(Signal::SIGCONT);
    let raw = procs::until(Duration::from_secs(20), || session.is_raw().then_some(()));
    assert!(raw.is_some(), "and it takes it again");
    session.types("on\r");
    session.shows("got on");
    assert_eq!(session.ends(&case), 0);
}

fn a_timeout_ends_a_command_at_a_terminal(case: Case) {
    let options = ["--timeout", "500ms", "--grace", "200ms"];
    let mut session = Session::run(&case, &options, "trap '' TERM HUP; echo ready; sleep 600");
    assert_eq!(session.ends(&case), 124);
    assert!(session.is_cooked());
}

/// The other screen, a hidden cursor, the mouse, pasted text in brackets.
const FULL_SCREEN: &str = "\x1b[?1049h\x1b[?25l\x1b[?1000;1006h\x1b[?2004h";
const UNDONE: &str = "\x1b[?1049l\x1b[?1000l\x1b[?1006l\x1b[?2004l\x1b[?25h";

/// A program that takes the whole screen and does not let go of it.
fn full_screen() -> String {
    format!("trap '' TERM HUP INT QUIT; printf '{FULL_SCREEN}ready'; sleep 600; sleep 600")
}

fn what_a_killed_program_left_switched_on_is_switched_off(case: Case) {
    use nix::sys::signal::Signal;
    let options = ["--timeout", "700ms", "--grace", "100ms"];
    let mut session = Session::run(&case, &options, &full_screen());
    assert_eq!(session.ends(&case), 124);
    // What Stockade has to say comes on the screen from before.
    let undone = format!("{FULL_SCREEN}ready{UNDONE}stockade: the command was ended");
    assert!(session.text().starts_with(&undone), "{:?}", session.text());
    assert!(session.is_cooked());
    for by in [Signal::SIGTERM, Signal::SIGHUP] {
        let mut session = Session::run(&case, &["--grace", "0"], &full_screen());
        session.shows("ready");
        session.signal(by);
        assert_eq!(session.ends(&case), 128 + by as u32, "{by}");
        let undone = format!("{FULL_SCREEN}ready{UNDONE}stockade: ");
        assert!(session.text().starts_with(&undone), "{by}: {:?}", session.text());
    }
    let mut session = Session::run(&case, &[], &format!("printf '{FULL_SCREEN}'; kill -9 $$"));
    assert_eq!(session.ends(&case), 137);
    assert_eq!(session.text(), format!("{FULL_SCREEN}{UNDONE}"));
}

fn what_a_program_switched_off_itself_is_left_alone(case: Case) {
    let line = format!("printf '{FULL_SCREEN}'; printf '{UNDONE}'; printf '\\033[31mred\\033[m.'");
    let mut session = Session::run(&case, &[], &line);
    assert_eq!(session.ends(&case), 0);
    assert_eq!(session.text(), format!("{FULL_SCREEN}{UNDONE}\x1b[31mred\x1b[m."));
}

fn what_a_stopped_program_has_switched_on_is_off_meanwhile(case: Case) {
    use nix::sys::signal::Signal;
    let mut session = Session::run(&case, &["--grace", "0"], &full_screen());
    session.shows("ready");
    session.signal(Signal::SIGTSTP);
    session.shows(&format!("ready{UNDONE}"));
    let cooked = procs::until(Duration::from_secs(20), || session.is_cooked().then_some(()));
    assert!(cooked.is_some());
    session.signal(Signal::SIGCONT);
    session.shows(&format!("{UNDONE}\x1b[?1049h\x1b[?1000h\x1b[?1006h\x1b[?2004h\x1b[?25l"));
    session.signal(Signal::SIGTERM);
    assert_eq!(session.ends(&case), 143);
    assert!(
        session.text().contains(&format!("\x1b[?25l{UNDONE}stockade: ")),
        "{:?}",
        session.text()
    );
}

fn a_terminal_that_hangs_up_ends_the_command(case: Case) {
    let session = Session::run(&case, &["--grace", "200ms"], "trap '' HUP; echo ready; sleep 600");
    session.shows("ready");
    let Session { master, keys, mut child, .. } = session;
    drop((master, keys));
    // Our reader still holds the pair; the person's window would be gone. The hang-up is what tells.
    let pid = nix::unistd::Pid::from_raw(child.process_id().expect("a pid") as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).expect("a signal");
    let ended = procs::until(Duration::from_secs(30), || child.try_wait().expect("a child"));
    assert!(ended.is_some(), "it lives on without its terminal");
    case.nothing_is_left();
}

fn the_transcript_holds_what_was_shown(case: Case) {
    let path = case.state().join("transcript");
    let path = path.to_str().expect("UTF-8");
    let line = "printf '\\033[1mbold\\033[0m é\\n'; read x; seq 3000";
    let mut session = Session::run(&case, &["--transcript", path], line);
    session.shows("bold");
    session.types("typed\r");
    assert_eq!(session.ends(&case), 0);
    let written = std::fs::read(path).expect("the transcript");
    assert!(written == *session.screen.lock().expect("no panic"), "byte for byte");
    assert!(session.text().contains("\x1b[1mbold\x1b[0m é\r\n"));
}

fn a_shell_starts_in_the_workspace(case: Case) {
    std::fs::write(case.work().join("here"), "").expect("a file");
    let mut session = Session::start(&case, &["shell"]);
    session.types("ls; tty; exit 4\r");
    assert_eq!(session.ends(&case), 4);
    let text = session.text();
    assert!(text.contains("here") && text.contains("/dev/pts/"), "{text:?}");
}

fn without_a_terminal_of_the_host_the_command_has_one_all_the_same(case: Case) {
    let mut command = case.run(&["--tty"], "tty; stty size; cat; echo end");
    command.stdin(std::process::Stdio::null());
    let output = command.output().expect("stockade runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("/dev/pts/") && text.contains("\r\n24 80\r\n"), "{text:?}");
    assert!(text.ends_with("end\r\n"), "the input's end is the command's: {text:?}");
    case.nothing_is_left();
}

fn each_read_at_the_terminal_of_a_bash_call_finds_an_end(case: Case) {
    let state = case.state().display().to_string();
    let mut command = case.stockade(&["exec", "--state-dir", &state]);
    let line = "cat; cat; read -r x; echo $?; echo end";
    let input = serde_json::json!({"command": line, "tty": true});
    let call = serde_json::json!({"type": "tool_use", "id": "c", "name": "Bash", "input": input});
    let finished = stockade_tests::finish(
        &mut command,
        format!("{call}\n").as_bytes(),
        std::time::Duration::from_secs(120),
    );
    let answer: serde_json::Value = serde_json::from_slice(&finished.stdout).expect("JSON");
    assert_eq!(answer["content"][0]["text"], "1\nend", "{answer}");
    case.nothing_is_left();
}

fn nothing_of_the_terminal_is_seen_on_the_host(case: Case) {
    use std::os::linux::fs::MetadataExt;
    let mut session = Session::run(&case, &[], "stat -c %d /dev/pts; read x");
    session.shows("\r\n");
    session.types("\r");
    session.ends(&case);
    let inside = session.text().lines().next().map(str::to_owned);
    let outside = std::fs::metadata("/dev/pts").expect("/dev/pts").st_dev().to_string();
    assert_ne!(inside, Some(outside), "it is another instance of the file system");
}
