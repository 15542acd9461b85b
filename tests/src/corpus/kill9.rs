//! SIGKILL to a part of Stockade while a call runs: no confined process survives, and the next call
//! works or is told plainly that the session is over (spec 6.3).

use crate::procs::{self, Process};
use crate::{Scratch, copy_executable, stockade_bin, turn, unique};
use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Whom to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// `stockade exec` itself.
    Runtime,
    /// Its child, which makes the cells.
    Launcher,
    /// The holder of the namespaces and mounts.
    Cell,
    /// pid 1 of the call's pid namespace.
    Init,
}

impl Victim {
    /// All of them.
    pub const ALL: [Victim; 4] = [Victim::Runtime, Victim::Launcher, Victim::Cell, Victim::Init];
}

/// What the next call was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It ran.
    Worked,
    /// That the session is over.
    SessionOver,
    /// Nothing: the session could not be set up without the victim, and Stockade ended with 125 saying so.
    NeverBegan,
    /// There was nobody left to ask.
    NoRuntime,
}

/// How long the kernel may take to end what hung on the victim.
const SOON: Duration = Duration::from_secs(5);

/// Kills the victim in mid-call, when the call's children run.
pub fn in_mid_call(victim: Victim) -> Result<Next> {
    let mut session = Session::start()?;
    session.warm_up()?;
    session.send("killed", &session.stubborn())?;
    let sleeping = || procs::with_argument(&session.number);
    let up = procs::until(SOON, || Some(sleeping()).filter(|all| all.len() >= 4));
    let sleepers = up.context("the call's children did not start")?;
    let roles = Roles::find(&session, &sleepers)?;
    let doomed = session.everything();
    kill_process(roles.of(victim))?;
    let next = session.aftermath(victim, &doomed)?;
    ensure!(next != Next::NeverBegan, "a session that stood is said never to have begun");
    Ok(next)
}

/// Kills the runtime or the launcher while everything starts, this long after the runtime did.
pub fn at_start(victim: Victim, after: Duration) -> Result<Next> {
    let mut session = Session::start()?;
    let stubborn = session.stubborn();
    session.send("killed", &stubborn)?;
    thread::sleep(after);
    let runtime = session.runtime();
    let launcher = || procs::descendants(runtime).into_iter().find(|p| p.parent == runtime);
    let target = match victim {
        Victim::Runtime => procs::read(runtime),
        _ => procs::until(SOON, launcher),
    };
    let doomed = session.everything();
    kill_process(target.context("the victim never started")?)?;
    session.aftermath(victim, &doomed)
}

fn kill_process(process: Process) -> Result<()> {
    kill(Pid::from_raw(process.pid), Signal::SIGKILL).context("kill -9")
}

/// One `stockade exec`, fed with a stream.
struct Session {
    _scratch: Scratch,
    binary: PathBuf,
    number: String,
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Session {
    fn start() -> Result<Self> {
        let scratch = Scratch::new();
        // A copy of its own, by which its processes can be told from all others.
        let binary = scratch.path().join("stockade");
        if fs::hard_link(stockade_bin(), &binary).is_err() {
            copy_executable(stockade_bin(), &binary);
        }
        let mut command =
            turn::exec_command_of(&binary, &scratch.folder("work"), &scratch.folder("state"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("stockade exec")?;
        let stdin = child.stdin.take().context("a pipe")?;
        let stdout = child.stdout.take().context("a pipe")?;
        let stderr = child.stderr.take().context("a pipe")?;
        let (sender, lines) = channel();
        let errors = sender.clone();
        thread::spawn(move || forward(BufReader::new(stdout), &sender));
        thread::spawn(move || forward(BufReader::new(stderr), &errors));
        Ok(Self { _scratch: scratch, binary, number: unique(), child, stdin, lines })
    }

    /// Children in the background, in sessions of their own, deaf to SIGTERM.
    fn stubborn(&self) -> String {
        let n = &self.number;
        format!("trap '' TERM; for i in 1 2; do setsid sleep {n} & done; sleep {n} & sleep {n}")
    }

    fn runtime(&self) -> i32 {
        self.child.id().cast_signed()
    }

    fn send(&mut self, id: &str, command: &str) -> std::io::Result<()> {
        let input = json!({"command": command});
        let call = json!({"type": "tool_use", "id": id, "name": "Bash", "input": input});
        writeln!(self.stdin, "{call}")
    }

    fn warm_up(&mut self) -> Result<()> {
        self.send("warm", "echo ready")?;
        let line = self.lines.recv_timeout(Duration::from_secs(20)).context("no first answer")?;
        ensure!(line.contains("ready"), "the first call failed: {line}");
        Ok(())
    }

    /// Every process of the session but the runtime: what runs this copy, what grew from it, what sleeps.
    fn everything(&self) -> Vec<Process> {
        let mut all = procs::running(&self.binary);
        all.extend(procs::descendants(self.runtime()));
        all.extend(procs::with_argument(&self.number));
        all.sort_unstable();
        all.dedup();
        all.retain(|process| process.pid != self.runtime());
        all
    }

    fn aftermath(mut self, victim: Victim, doomed: &[Process]) -> Result<Next> {
        let next = match victim {
            Victim::Runtime => {
                self.child.wait().context("the runtime")?;
                Next::NoRuntime
            }
            _ => self.next_call()?,
        };
        let number = self.number.clone();
        let sleeping = || procs::with_argument(&number);
        let left = procs::none_left(SOON, sleeping);
        ensure!(left.is_empty(), "{victim:?}: confined processes survive: {left:?}");
        drop(self.stdin);
        let Some(end) = procs::until(SOON * 2, || self.child.try_wait().ok().flatten()) else {
            self.child.kill().ok();
            bail!("{victim:?}: the runtime does not end when its input does");
        };
        let never_began = next == Next::NeverBegan;
        ensure!(!never_began || end.code() == Some(125), "{victim:?}: it ended with {end}");
        let remains = || {
            let alive = doomed.iter().copied().filter(procs::is_alive);
            alive.chain(procs::running(&self.binary)).chain(sleeping()).collect()
        };
        let left = procs::none_left(SOON, remains);
        ensure!(left.is_empty(), "{victim:?}: processes of the session survive: {left:?}");
        Ok(next)
    }

    /// Asks for one more call, and reads on until its answer or the end of the session is there.
    fn next_call(&mut self) -> Result<Next> {
        // The runtime may have ended the session already, and said so.
        let sent = self.send("next", "echo alive-$((40 + 2))");
        let end = Instant::now() + Duration::from_secs(20);
        let mut said = Vec::new();
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains("alive-42") => return Ok(Next::Worked),
                Ok(line) => {
                    let over = says_that_it_is_over(&line);
                    let of_next = line.contains("\"next\"") || sent.is_err();
                    said.push(line);
                    if over && of_next {
                        return Ok(Next::SessionOver);
                    }
                }
                Err(RecvTimeoutError::Disconnected) if any(&said, says_that_it_is_over) => {
                    return Ok(Next::SessionOver);
                }
                Err(RecvTimeoutError::Disconnected) if any(&said, says_that_it_never_began) => {
                    return Ok(Next::NeverBegan);
                }
                Err(_) => bail!("no answer to the next call; said: {said:#?}"),
            }
        }
    }
}

fn any(lines: &[String], says: fn(&str) -> bool) -> bool {
    lines.iter().any(|line| says(line))
}

fn says_that_it_never_began(line: &str) -> bool {
    line.contains("sandbox set-up failed at launcher")
}

fn says_that_it_is_over(line: &str) -> bool {
    let line = line.to_lowercase();
    let who = ["session", "launcher", "sandbox", "cell"];
    let what = ["over", "ended", "gone", "lost", "killed", "died"];
    who.iter().any(|word| line.contains(word)) && what.iter().any(|word| line.contains(word))
}

fn forward(lines: impl BufRead, to: &std::sync::mpsc::Sender<String>) {
    for line in lines.lines().map_while(Result::ok) {
        if to.send(line).is_err() {
            return;
        }
    }
}

/// Who is who, read from the chain of parents above a confined process and from its pid namespaces.
struct Roles {
    runtime: Process,
    launcher: Process,
    cell: Process,
    init: Process,
}

impl Roles {
    fn find(session: &Session, sleepers: &[Process]) -> Result<Self> {
        let runtime = procs::read(session.runtime()).context("the runtime ended")?;
        let sleeper = sleepers.first().context("nothing sleeps")?;
        let (depth, _) = procs::inner_pid(sleeper.pid).context("a sleeper ended")?;
        let chain: Vec<Process> = procs::ancestors(sleeper.pid)
            .into_iter()
            .take_while(|process| process.pid != runtime.pid)
            .collect();
        let first_of = |depth: usize| {
            let is_it = |p: &&Process| procs::inner_pid(p.pid) == Some((depth, 1));
            let found = chain.iter().find(is_it).copied();
            found.with_context(|| format!("no pid 1 at depth {depth} in {chain:?}"))
        };
        let launcher = *chain.last().context("the runtime is no ancestor of the call")?;
        ensure!(launcher.parent == runtime.pid, "{launcher:?} is no child of the runtime");
        Ok(Self { runtime, launcher, cell: first_of(depth - 1)?, init: first_of(depth)? })
    }

    fn of(&self, victim: Victim) -> Process {
        match victim {
            Victim::Runtime => self.runtime,
            Victim::Launcher => self.launcher,
            Victim::Cell => self.cell,
            Victim::Init => self.init,
        }
    }
}

/// Kills each victim `rounds` times in mid-call, and runtime and launcher as often at start; returns
/// what failed, and tells each round's fate.
pub fn rounds(rounds: u32, mut tell: impl FnMut(&str)) -> Vec<String> {
    let mut failures = Vec::new();
    let mut judge = |what: String, result: Result<Next>| match result {
        Ok(next) => tell(&format!("{what}: nothing survives, next call: {next:?}")),
        Err(error) => {
            tell(&format!("{what}: FAILED: {error:#}"));
            failures.push(format!("{what}: {error:#}"));
        }
    };
    for round in 1..=rounds {
        for victim in Victim::ALL {
            judge(format!("{victim:?} in mid-call, round {round}"), in_mid_call(victim));
        }
        for victim in [Victim::Runtime, Victim::Launcher] {
            // From before the launcher exists to well into the call.
            let after = Duration::from_micros(u64::from(round) * 997 % 40_000);
            let what = format!("{victim:?} {after:?} after the start, round {round}");
            judge(what, at_start(victim, after));
        }
    }
    failures
}

/// How many rounds `STOCKADE_KILL_ROUNDS` asks for; 5 if it does not say.
pub fn rounds_asked_for() -> u32 {
    let asked = std::env::var("STOCKADE_KILL_ROUNDS").ok();
    asked.map_or(5, |text| text.parse().expect("STOCKADE_KILL_ROUNDS is a number"))
}
