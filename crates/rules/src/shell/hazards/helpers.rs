//! Tools that are given the interpreter which they run, and tools that keep a command under a name, or as a setting, to run it later.

use super::{Hazard, operands, runs};
use crate::shell::Word;

/// Subcommands that define something which is run later: the tool, its words, and after a `:` those of which the next must be one.
const DEFINES: &str = "\
gh alias: set import
gh config: set
gh extension: exec
gh codespace: ssh
gh cs: ssh
glab alias: set
glab config: set
hub alias
npm config: set edit
npm c: set edit
npm set
npm pkg: set
npm set-script
pnpm config: set
pnpm set
yarn config: set
pip config: set edit
go env: -w
aws configure: set
poetry env: use
poetry config
git hook: run
git remote-ext
git remote-fd
bundle config: set
composer config
jj config: set edit
jj util: exec
heroku alias
cargo miri: setup
";

/// Tools of Python that make or use an environment of the interpreter that they are given.
const OF_PYTHON: &str =
    "pip uv virtualenv pipenv poetry pipx hatch pdm rye node-gyp tox nox pre-commit";

pub(super) fn hazard(name: &str, rest: &[Word]) -> Option<Hazard> {
    defines(name, rest).or_else(|| given_to_git(name, rest)).or_else(|| {
        OF_PYTHON.split(' ').any(|known| known == name).then(|| interpreter(name, rest)).flatten()
    })
}

/// `gh repo clone a/b -- -u ./x`: what follows is an option of `git clone`.
fn given_to_git(name: &str, rest: &[Word]) -> Option<Hazard> {
    let at = rest.iter().position(|word| word.text == "--").filter(|_| name == "gh")?;
    let mut words = vec![Word::known("clone")];
    words.extend(rest.get(at + 1..)?.iter().cloned());
    let found = super::git::hazards(&words).into_iter().next()?;
    Some(Hazard { at: at + found.at, ..found })
}

fn defines(name: &str, rest: &[Word]) -> Option<Hazard> {
    DEFINES.lines().find_map(|line| {
        let (words, next) = match line.split_once(": ") {
            Some((words, next)) => (words, Some(next)),
            None => (line, None),
        };
        let mut words = words.split(' ');
        if words.next() != Some(name) {
            return None;
        }
        // An option of the tool's own, and its value, may stand before them.
        let mut at = 0;
        for wanted in words {
            let found = rest.iter().skip(at).position(|word| word.exact && word.text == wanted)?;
            if operands(rest.get(at..at + found).unwrap_or_default()).count() > 1 {
                return None;
            }
            at += found + 1;
        }
        let place = match next {
            None => at.checked_sub(1)?,
            Some(next) => {
                let is_next = |word: &Word| {
                    !word.exact
                        || next.split(' ').any(|next| word.text.split('=').next() == Some(next))
                };
                at + rest.get(at..)?.iter().position(is_next)?
            }
        };
        let what = rest.get(place).map_or("", |word| word.text.as_str());
        Some(runs(place, format!("{name} … {what} may keep a command, which is run later")))
    })
}

/// `--python rm`: a version is none, and nor is Python by its name.
fn interpreter(name: &str, rest: &[Word]) -> Option<Hazard> {
    rest.iter().enumerate().find_map(|(at, word)| {
        let text = word.text.as_str();
        let value = match text.split_once('=') {
            Some(("--python", value)) => Some((value, word.exact)),
            Some(_) => None,
            None if matches!(text, "--python" | "-p") => {
                rest.get(at + 1).map(|next| (next.text.as_str(), next.exact))
            }
            None => None,
        };
        let (value, exact) = value?;
        let version = value.trim_start_matches("python").trim_start_matches("pypy");
        let is_version = exact
            && version
                .chars()
                .all(|c| c.is_ascii_digit() || matches!(c, '.' | 't' | '>' | '=' | '<' | ','));
        (!is_version).then(|| runs(at, format!("{name} runs {value:?} as its interpreter")))
    })
}
