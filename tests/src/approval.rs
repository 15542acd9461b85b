//! Sessions of `stockade exec` in which something is to be approved, judged from outside (spec 2.6, 7, 9.2).

use crate::turn::{self, Answer};
use crate::{FakeHome, Finished, Scratch, finish, stockade_bin};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take.
pub const LIMIT: Duration = Duration::from_secs(180);

/// A workspace, a state folder, a home with secrets, and a folder outside with something to lose.
pub struct Scene {
    /// Holds all of it.
    pub scratch: Scratch,
    /// The home.
    pub home: FakeHome,
    /// The workspace.
    pub workspace: PathBuf,
    /// The state folder.
    pub state: PathBuf,
    /// What no call may touch unless it is granted.
    pub outside: PathBuf,
    /// Whether the home is this host's own, where its compilers look for themselves.
    pub real_home: bool,
}

impl Scene {
    /// All of it, made new.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let scratch = Scratch::new();
        let home = FakeHome::new(&scratch.folder("home"));
        let (workspace, state) = (scratch.folder("work"), scratch.folder("state"));
        let outside = scratch.folder("outside");
        fs::write(outside.join("marker"), "untouched").expect("a marker");
        Self { scratch, home, workspace, state, outside, real_home: false }
    }

    /// `stockade exec` there, with these options.
    pub fn command(&self, options: &[&str]) -> Command {
        let mut command = turn::exec_command(&self.workspace, &self.state);
        self.dress(command.args(options));
        command
    }

    /// Gives a command the scene's home.
    pub fn dress(&self, command: &mut Command) {
        if !self.real_home {
            self.home.dress(command);
            return;
        }
        // What cargo and rustup tell their children would lead the cell's cargo astray.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CARGO_") || name == "RUSTUP_TOOLCHAIN" {
                command.env_remove(name);
            }
        }
    }

    /// Executes these calls.
    pub fn exec(&self, options: &[&str], calls: &[(&str, Value)]) -> Vec<Answer> {
        let ran = finish(&mut self.command(options), turn::of_calls(calls).as_bytes(), LIMIT);
        assert!(ran.status.success(), "{}", ran.err());
        turn::answers(&ran.out())
    }

    /// A program that answers every question so, and notes that it was asked.
    pub fn program(&self, answer: &str) -> String {
        let path = self.scratch.path().join(format!("answer-{}", answer.len()));
        let noted = self.scratch.path().join("asked");
        fs::write(&path, format!("#!/bin/sh\ncat >> {noted:?}\nprintf '%s' '{answer}'\n"))
            .expect("a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
        path.to_str().expect("a path that is text").to_owned()
    }

    /// The questions that [`Scene::program`] was asked.
    pub fn asked(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.scratch.path().join("asked")).unwrap_or_default();
        text.lines().map(turn::parse).collect()
    }

    /// `stockade audit` on its ledger.
    pub fn audit(&self, args: &[&str]) -> Finished {
        let mut command = Command::new(stockade_bin());
        command.arg("audit").args(args).arg("--state-dir").arg(&self.state);
        finish(&mut command, &[], LIMIT)
    }

    /// The records that fit.
    pub fn query(&self, args: &[&str]) -> Vec<Value> {
        let found = self.audit(&[&["query", "--json"], args].concat());
        assert!(found.status.success(), "{}", found.err());
        found.out().lines().map(turn::parse).collect()
    }

    /// A call that asks to write outside.
    pub fn write_outside(&self, name: &str) -> Value {
        let file = self.outside.join(name);
        json!({"command": format!("echo granted > {file:?}"), "sandbox_permissions": {"write": [self.outside]}, "justification": "the report goes there"})
    }

    /// Runs a turn with `--approve ask` in a terminal of its own, and answers every question with these keys; `None`: the terminal goes
    /// away at the first one. What the terminal showed, and what `exec` printed.
    pub fn at_terminal(
        &self,
        turn: &str,
        keys: Option<&[u8]>,
        options: &[&str],
    ) -> (String, String) {
        let (input, output) =
            (self.scratch.path().join("turn.json"), self.scratch.path().join("answers.json"));
        fs::write(&input, turn).expect("a turn");
        let exec = self.command(&[&["--approve", "ask"], options].concat());
        let mut line = String::new();
        for word in
            std::iter::once(exec.get_program()).chain(exec.get_args()).chain([input.as_os_str()])
        {
            line.push_str(&format!("'{}' ", word.to_str().expect("text")));
        }
        line.push_str(&format!("> '{}'", output.display()));
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        self.dress(&mut script);
        let mut child = script.spawn().expect("script can be run");
        let mut keyboard = child.stdin.take();
        let mut screen = child.stdout.take().expect("a pipe");
        let (mut shown, mut answered) = (Vec::new(), 0);
        let started = Instant::now();
        let mut byte = [0];
        // To the end of the screen: the terminal is gone when everything has ended.
        while screen.read(&mut byte).is_ok_and(|read| read == 1) {
            shown.push(byte[0]);
            assert!(started.elapsed() < LIMIT, "{}", String::from_utf8_lossy(&shown));
            if byte[0] != b' '
                || String::from_utf8_lossy(&shown).matches("stop the turn ? ").count() == answered
            {
                continue;
            }
            answered += 1;
            match keys {
                Some(keys) => {
                    // A turn that was stopped, or a terminal that is gone, hears no more.
                    keyboard.as_mut().expect("a pipe").write_all(keys).ok();
                }
                None => drop(keyboard.take()),
            }
        }
        child.wait().expect("it ends");
        let printed = fs::read_to_string(&output).unwrap_or_default();
        (String::from_utf8_lossy(&shown).into_owned(), printed)
    }
}

/// A JSON-RPC client: what it does with each question, in order.
pub fn client(
    listener: UnixListener,
    mut answer: impl FnMut(usize, &Value) -> Vec<Value> + Send + 'static,
) -> thread::JoinHandle<Vec<Value>> {
    thread::spawn(move || {
        let (stream, _) = listener.accept().expect("exec connects");
        let mut writer = stream.try_clone().expect("a socket");
        let mut heard = Vec::new();
        let mut questions = 0;
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { break };
            let message = turn::parse(&line);
            if message["method"] == "permission/request" {
                for message in answer(questions, &message) {
                    writeln!(writer, "{message}").expect("exec listens");
                }
                questions += 1;
            }
            heard.push(message);
        }
        heard
    })
}
