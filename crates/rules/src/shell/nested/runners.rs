//! Programs of package managers and their like that run a command in an environment of their own. Allowing `uv run` means whatever it
//! runs; denying `rm` means `uv run rm` as well.

use super::invocation;
use crate::shell::{Analysis, Invocation, Word};

struct Runner {
    name: &'static str,
    /// The subcommands that run something; none: the program itself does.
    subcommands: &'static [&'static str],
}

const fn runner(name: &'static str, subcommands: &'static [&'static str]) -> Runner {
    Runner { name, subcommands }
}

const RUNNERS: &[Runner] = &[
    runner("npx", &[]),
    runner("bunx", &[]),
    runner("uvx", &[]),
    runner("pnpx", &[]),
    runner("npm", &["exec", "exe", "x", "explore", "explor", "explo"]),
    runner("pnpm", &["exec", "dlx"]),
    runner("yarn", &["exec", "dlx", "run", "workspace", "workspaces"]),
    runner("bun", &["x", "run"]),
    runner("uv", &["run", "tool"]),
    runner("poetry", &["run"]),
    runner("pipenv", &["run"]),
    runner("pdm", &["run"]),
    runner("hatch", &["run"]),
    runner("rye", &["run"]),
    runner("pipx", &["run"]),
    runner("conda", &["run"]),
    runner("mamba", &["run"]),
    runner("bundle", &["exec"]),
    runner("rbenv", &["exec"]),
    runner("pyenv", &["exec"]),
    runner("nodenv", &["exec"]),
    runner("asdf", &["exec"]),
    runner("mise", &["exec", "x"]),
    runner("direnv", &["exec"]),
    runner("devbox", &["run"]),
    runner("dotenv", &[]),
    runner("dotenvx", &["run"]),
    runner("doppler", &["run"]),
    runner("op", &["run"]),
    runner("aws-vault", &["exec"]),
    runner("chamber", &["exec"]),
    runner("rustup", &["run"]),
    runner("stack", &["exec"]),
    runner("cabal", &["exec"]),
    runner("opam", &["exec"]),
    runner("composer", &["exec"]),
    runner("nix", &["run", "shell", "develop"]),
    runner("perf", &["stat", "record", "trace"]),
    runner("rr", &["record"]),
    runner("ip", &["netns", "vrf"]),
    runner("cross-env", &[]),
    runner("meson", &["devenv"]),
    runner("libtool", &[]),
];

/// Programs that give a word of theirs to a shell.
const TO_A_SHELL: &[&str] = &[
    "hyperfine",
    "watchexec",
    "nodemon",
    "concurrently",
    "nix-shell",
    "sg",
    "newgrp",
    "npm-run-all",
    "foreman",
    "honcho",
    "lxc",
    "distrobox",
    "flatpak",
    "vagrant",
];

/// Whether a program gives its words to a shell that is not looked into.
pub(super) fn gives_to_a_shell(name: &str) -> bool {
    TO_A_SHELL.contains(&name)
}

/// Whether a program runs its words in an environment of its own.
pub(super) fn runs(name: &str) -> bool {
    RUNNERS.iter().any(|runner| runner.name == name)
}

fn runs_by(runner: &Runner, word: &Word) -> bool {
    !word.exact || runner.subcommands.contains(&word.text.as_str())
}

/// Adds what a runner would run. It needs no permission of its own: who allows the runner allows that.
pub(super) fn commands(name: &str, rest: &[Word], depth: usize, analysis: &mut Analysis) {
    let Some(runner) = RUNNERS.iter().find(|runner| runner.name == name) else { return };
    let mut operands =
        rest.iter().enumerate().filter(|(_, word)| !word.text.starts_with('-') || !word.exact);
    if !runner.subcommands.is_empty() {
        // Before the subcommand an operand behind an option may be that one's value.
        let is_value = |at: usize| {
            let before = at.checked_sub(1).and_then(|before| rest.get(before));
            before.is_some_and(|word| word.text.starts_with('-') && !word.text.contains('='))
        };
        let runs = loop {
            match operands.next() {
                Some((_, word)) if runs_by(runner, word) => break true,
                Some((at, _)) if is_value(at) => {}
                _ => break false,
            }
        };
        if !runs {
            return;
        }
    }
    // Which options take a value is not known for all of them: the command begins at one of the first words that are none.
    for (at, _) in operands.take(3) {
        let words = rest.get(at..).unwrap_or_default().to_vec();
        let before = analysis.commands.len();
        invocation(Invocation { words, transparent: false }, depth + 1, analysis);
        for command in analysis.commands.iter_mut().skip(before) {
            command.transparent = true;
        }
    }
}
