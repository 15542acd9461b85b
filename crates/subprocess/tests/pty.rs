//! A terminal for a command, with a real shell at its end. The shell is unconfined; it is made the terminal's owner by
//! util-linux's setsid, as the launcher does it in a cell.
#![allow(missing_docs)]

use portable_pty::{PtyPair, native_pty_system};
use rustix::termios::{LocalModes, tcgetattr};
use std::fs::File;
use std::io::{PipeWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use stockade_subprocess::pty::{RawMode, Relay, Size, Terminal};

#[derive(Clone, Default)]
struct Screen(Arc<Mutex<Vec<u8>>>);

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Screen {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }

    async fn shows(&self, expected: &str) {
        let until = Instant::now() + Duration::from_secs(60);
        while !self.text().contains(expected) {
            assert!(Instant::now() < until, "{expected:?} is not in {:?}", self.text());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

struct Session {
    screen: Screen,
    keys: PipeWriter,
    relay: Relay,
    shell: std::process::Child,
}

/// A pair of portable-pty's own, in the view of these tests.
fn pair(size: Size) -> (Terminal, File) {
    let PtyPair { master, slave } = native_pty_system().openpty(size.into()).unwrap();
    let path = master.tty_name().unwrap();
    let end = File::options().read(true).write(true).custom_flags(libc::O_NOCTTY).open(path);
    drop(slave);
    (Terminal::new(master), end.unwrap())
}

fn spawn_at(end: File, script: &str) -> std::process::Child {
    let copy = || end.try_clone().unwrap();
    Command::new("setsid")
        .args(["--ctty", "--wait", "sh", "-c", script])
        .stdin(copy())
        .stdout(copy())
        .stderr(copy())
        .spawn()
        .unwrap()
}

fn session(script: &str) -> Session {
    let (terminal, end) = pair(Size { rows: 31, columns: 97, ..Size::default() });
    let shell = spawn_at(end, script);
    let (input, keys) = std::io::pipe().unwrap();
    let screen = Screen::default();
    let relay = terminal.relay(input.into(), screen.clone()).unwrap();
    Session { screen, keys, relay, shell }
}

async fn ended(mut shell: std::process::Child) -> ExitStatus {
    tokio::task::spawn_blocking(move || shell.wait().unwrap()).await.unwrap()
}

#[tokio::test]
async fn the_command_sees_a_terminal_of_the_given_size_and_each_resize() {
    // spec 6.5
    let Session { screen, mut keys, relay, shell } = session(
        "test -t 0 && test -t 1 && test -t 2 && echo tty; stty size; read x; stty size; : </dev/tty && echo own",
    );
    screen.shows("tty\r\n31 97\r\n").await;
    relay.resize(Size { rows: 10, columns: 20, ..Size::default() }).unwrap();
    keys.write_all(b"\r").unwrap();
    screen.shows("10 20\r\nown\r\n").await;
    assert!(ended(shell).await.success());
    relay.finish().await.unwrap();
}

#[tokio::test]
async fn ctrl_c_reaches_the_foreground_process() {
    // spec 6.5
    // Without a fork in the loop: dash loses a signal that comes in the middle of a vfork.
    let Session { screen, mut keys, relay, shell } =
        session("trap 'echo interrupted; exit 7' INT; echo ready; while :; do read x; done");
    screen.shows("ready").await;
    keys.write_all(b"\x03").unwrap();
    screen.shows("interrupted").await;
    assert_eq!(ended(shell).await.code(), Some(7));
    relay.finish().await.unwrap();
}

#[tokio::test]
async fn every_byte_passes_both_ways_when_the_command_asks_for_it() {
    // spec 6.5
    let Session { screen, mut keys, relay, shell } =
        session("stty raw -echo; echo ready; dd bs=1 count=512 2>/dev/null");
    screen.shows("ready\n").await;
    let all: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
    keys.write_all(&all).unwrap();
    assert!(ended(shell).await.success());
    relay.finish().await.unwrap();
    let shown = screen.0.lock().unwrap().clone();
    assert_eq!(shown.strip_prefix(b"ready\n"), Some(all.as_slice()));
}

#[tokio::test]
async fn the_end_of_the_input_is_the_end_of_the_commands_input_and_adds_nothing_to_it() {
    // spec 6.5
    for (input, expected) in
        [("", ""), ("line\n", "6c 69 6e 65 0a"), ("line\npart", "6c 69 6e 65 0a 70 61 72 74")]
    {
        let Session { screen, mut keys, relay, shell } =
            session("stty -echo; echo ready; od -An -v -tx1; echo end");
        screen.shows("ready").await;
        keys.write_all(input.as_bytes()).unwrap();
        drop(keys);
        screen.shows("end").await;
        assert!(ended(shell).await.success());
        relay.finish().await.unwrap();
        let text = screen.text();
        let dump = text.strip_prefix("ready\r\n").and_then(|rest| rest.strip_suffix("end\r\n"));
        assert_eq!(dump.map(str::trim), Some(expected), "{text:?}");
    }
}

#[tokio::test]
async fn all_output_is_passed_on_before_the_relay_ends_also_after_the_terminal_was_closed_for_a_while()
 {
    // spec 6.4, 6.5
    let Session { screen, keys: _keys, relay, shell } = session(
        "name=$(tty); exec </dev/null >/dev/null 2>&1; sleep 0.2; exec >$name; seq 20000; echo last",
    );
    assert!(ended(shell).await.success());
    relay.finish().await.unwrap();
    let text = screen.text();
    assert!(text.starts_with("1\r\n2\r\n"), "{:?}", text.get(..20));
    let end = text.get(text.len() - 40..);
    assert!(text.ends_with("20000\r\nlast\r\n"), "{} bytes, at the end {end:?}", text.len());
    assert_eq!(text.lines().count(), 20001);
}

#[tokio::test]
async fn what_is_typed_after_the_command_ended_stays_with_the_host() {
    // spec 6.5
    let (terminal, end) = pair(Size::default());
    let shell = spawn_at(end, "true");
    let (input, mut keys) = std::io::pipe().unwrap();
    let mut host = input.try_clone().unwrap();
    let relay = terminal.relay(input.into(), Screen::default()).unwrap();
    assert!(ended(shell).await.success());
    relay.finish().await.unwrap();
    // The input's thread was told to stop before `finish` returned; give it no excuse.
    tokio::time::sleep(Duration::from_millis(50)).await;
    keys.write_all(b"ls\n").unwrap();
    drop(keys);
    let mut typed = String::new();
    std::io::Read::read_to_string(&mut host, &mut typed).unwrap();
    assert_eq!(typed, "ls\n");
}

#[test]
fn raw_mode_is_undone_on_return_and_on_panic() {
    // spec 6.5: the command's end of a pair stands for the host's terminal.
    let (_ours, host) = pair(Size::default());
    let cooked = || {
        let modes = tcgetattr(&host).unwrap();
        modes.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    };
    assert!(cooked());
    {
        let _raw = RawMode::enter(&host).unwrap();
        assert!(!cooked());
    }
    assert!(cooked());
    let panicked = std::panic::catch_unwind(|| {
        let _raw = RawMode::enter(&host).unwrap();
        assert!(!cooked());
        panic!("on purpose");
    });
    assert!(panicked.is_err());
    assert!(cooked());
}

#[test]
fn what_is_no_terminal_has_neither_a_size_nor_raw_mode() {
    let null = std::fs::File::open("/dev/null").unwrap();
    assert!(Size::of(&null).is_err());
    let error = RawMode::enter(&null).unwrap_err().to_string();
    assert!(error.contains("raw mode"), "{error}");
}
