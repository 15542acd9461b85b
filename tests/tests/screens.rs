//! `stockade shell` as a person meets it: the same keys to a shell in it and to one outside, each in a tmux window, and the same screens
//! are seen (spec 6.5).
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use stockade_tests::{Scratch, procs, stockade_bin, unique};

const PATIENCE: Duration = Duration::from_secs(120);

/// A tmux window, whose server ends with it.
struct Window {
    socket: String,
}

impl Window {
    fn open(work: &Path, shell: &str) -> Self {
        let window = Self { socket: format!("stockade-test-{}", unique()) };
        // What the terminal's settings are before and after says whether they were given back.
        let line =
            format!("stty -a >../before; {shell}; echo status $?; stty -a >../after; sleep 600");
        let work = work.to_str().expect("a path of ours");
        let session = ["new-session", "-d", "-x", "80", "-y", "24", "-c", work, "sh", "-c", &line];
        window.tmux(&session);
        window
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux")
            .args(["-L", &self.socket, "-f", "/dev/null"])
            .args(arguments)
            .env("LC_ALL", "C.UTF-8")
            .output()
            .expect("tmux is installed by scripts/setup --tests");
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// What is seen, without the empty lines at its end.
    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).trim_end().to_owned()
    }

    fn shows(&self, expected: &str) -> String {
        let shown = procs::until(PATIENCE, || {
            let screen = self.screen();
            screen.contains(expected).then_some(screen)
        });
        shown.unwrap_or_else(|| panic!("{expected:?} is not on the screen:\n{}", self.screen()))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.socket, "kill-server"]).output();
    }
}

/// The same, outside and inside.
struct Both {
    scratch: Scratch,
    outside: Window,
    inside: Window,
}

impl Both {
    fn open() -> Self {
        let scratch = Scratch::new();
        for folder in ["outside/work", "inside/work", "home", "state"] {
            scratch.folder(folder);
        }
        let at = |name: &str| scratch.path().join(name);
        let bash = "/bin/bash --norc --noprofile";
        let home = at("home").display().to_string();
        let outside = format!("PS1='$ ' HOME={home} HISTFILE= {bash}");
        let inside = format!(
            "HOME={home} {} shell --env 'PS1=$ ' --env HISTFILE= -- {bash}",
            stockade_bin().display()
        );
        Self {
            outside: Window::open(&at("outside/work"), &outside),
            inside: Window::open(&at("inside/work"), &inside),
            scratch,
        }
    }

    fn keys(&self, keys: &[&str]) {
        for window in [&self.outside, &self.inside] {
            window.tmux(&[&["send-keys"], keys].concat());
        }
    }

    /// Both come to show this, and nothing else but the same.
    fn show(&self, expected: &str) {
        let same = procs::until(PATIENCE, || {
            let screen = self.outside.screen();
            (screen.contains(expected) && screen == self.inside.screen()).then_some(())
        });
        assert!(
            same.is_some(),
            "{expected:?}, outside:\n{}\n\ninside:\n{}",
            self.outside.screen(),
            self.inside.screen()
        );
    }

    /// Both wait for the next line: what is typed before that may be thrown away.
    fn prompt(&self) {
        for window in [&self.outside, &self.inside] {
            let waits = procs::until(PATIENCE, || {
                window.screen().lines().last().is_some_and(|line| line == "$").then_some(())
            });
            assert!(waits.is_some(), "no prompt:\n{}", window.screen());
        }
    }

    /// Types a line at the prompt.
    fn line(&self, line: &str) {
        self.prompt();
        self.keys(&[line, "Enter"]);
    }

    fn resize(&self, columns: &str, rows: &str) {
        for window in [&self.outside, &self.inside] {
            window.tmux(&["resize-window", "-x", columns, "-y", rows]);
        }
    }
}

#[test] // spec 6.5
fn the_screens_are_the_same_as_outside() {
    let both = Both::open();
    both.show("$");
    both.line("tty >/dev/null && echo at a terminal");
    both.show("\nat a terminal\n$");

    // An editor, its screen, its status line, and what it has written.
    both.line("clear; vi -u NONE -N -i NONE text");
    both.show("\n~\n");
    both.keys(&["i", "first line", "Enter", "second: täglich €", "Escape"]);
    both.show("first line\nsecond: täglich €");
    both.resize("100", "30");
    both.keys(&["C-l"]);
    both.show(&"\n~".repeat(27));
    both.keys(&[":wq", "Enter"]);
    both.line("clear; cat text; stty size");
    both.show("first line\nsecond: täglich €\n30 100\n$");
    for place in ["outside", "inside"] {
        let text = fs::read_to_string(both.scratch.path().join(place).join("work/text"));
        assert_eq!(text.expect("it was written"), "first line\nsecond: täglich €\n");
    }

    // Ctrl-C, and job control.
    both.line("clear");
    both.line("sleep 600");
    both.show("$ sleep 600");
    std::thread::sleep(Duration::from_millis(300));
    both.keys(&["C-c"]);
    both.line("echo ended by $?");
    both.show("ended by 130\n$");
    both.line("sleep 600");
    std::thread::sleep(Duration::from_millis(300));
    both.keys(&["C-z"]);
    both.show("Stopped");
    both.line("fg");
    std::thread::sleep(Duration::from_millis(300));
    both.keys(&["C-c"]);
    both.line("clear; jobs; echo no job is left");
    both.show("no job is left\n$");

    both.line("exit 7");
    both.show("status 7");
    for place in ["outside", "inside"] {
        let at = |name: &str| both.scratch.path().join(place).join(name);
        let after = procs::until(PATIENCE, || {
            fs::read_to_string(at("after")).ok().filter(|settings| !settings.is_empty())
        });
        let before = fs::read_to_string(at("before")).expect("the settings");
        // The first line has the size, and the window has been resized.
        let without_size =
            |settings: &str| settings.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(without_size(&after.expect("the end")), without_size(&before), "{place}");
    }
}

#[test] // spec 5.1 and 6.5
fn top_draws_its_screen_and_shows_the_sessions_processes_alone() {
    let both = Both::open();
    both.show("$");
    both.line("clear; TERM=screen top -d 1");
    let heading = |window: &Window| {
        let screen = window.shows(" COMMAND");
        screen.lines().position(|line| line.contains(" COMMAND"))
    };
    assert_eq!(heading(&both.outside), heading(&both.inside), "the same layout");
    let screen = both.inside.shows(" top");
    let processes: Vec<&str> =
        screen.lines().skip_while(|line| !line.contains(" COMMAND")).skip(1).collect();
    assert!((2..=4).contains(&processes.len()), "{screen}");
    both.resize("60", "20");
    both.keys(&["q"]);
    both.line("clear; echo over");
    both.show("over\n$");
}

/// Whether the other screen is on, the cursor is seen, and the program is told of the mouse.
const MODES: [&str; 3] =
    ["display-message", "-p", "#{alternate_on}#{cursor_flag}#{mouse_any_flag}"];

#[test] // spec 6.5
fn a_full_screen_program_that_is_killed_leaves_the_window_as_it_was() {
    let scratch = Scratch::new();
    let program = "printf '\\033[?1049h\\033[?25l\\033[?1002h'; sleep 600";
    let killed = |how: &str| {
        let window = Window::open(&scratch.folder("work"), &format!("{how} sh -c \"{program}\""));
        window.shows("status 124");
        window.tmux(&MODES)
    };
    assert_eq!(killed("timeout 1").trim(), "101", "unconfined, it all stays");
    let stockade = stockade_bin().display().to_string();
    let confined = format!("'{stockade}' run --tty --timeout 1s --grace 0 --");
    assert_eq!(killed(&confined).trim(), "010");
}
