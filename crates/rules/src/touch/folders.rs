//! Where a line may stand when a path in it is used: what it changes into, and what its commands are told to.

use crate::path::absolute;
use crate::set::RuleScope;
use crate::shell::Analysis;
use std::path::PathBuf;

/// Folders from which a line's paths may start.
pub(super) struct Folders {
    /// The workspace first, then what is changed into.
    pub known: Vec<PathBuf>,
    /// It may be any.
    pub unknown: bool,
}

impl Folders {
    pub fn of(analysis: &Analysis, scope: &RuleScope) -> Self {
        let mut found = Self { known: vec![scope.workspace.clone()], unknown: false };
        for command in &analysis.commands {
            let rest = command.words.get(1..).unwrap_or_default();
            match command.name() {
                "cd" | "pushd" => {
                    let target =
                        rest.iter().find(|word| !matches!(word.text.as_str(), "--" | "-P" | "-L"));
                    match target {
                        Some(word)
                            if word.text != "-" && (word.exact || word.text.starts_with('~')) =>
                        {
                            found.enter(&word.text, scope);
                        }
                        None if command.name() == "cd" => found.enter("~", scope),
                        _ => found.unknown = true,
                    }
                }
                "popd" => found.unknown = true,
                _ => {
                    for (at, word) in rest.iter().enumerate() {
                        let value = match word.text.as_str() {
                            "-C" | "--directory" | "--chdir" | "-D" | "--cwd" => {
                                rest.get(at + 1).map(|word| word.text.as_str())
                            }
                            text => {
                                text.strip_prefix("--directory=").or(text.strip_prefix("--chdir="))
                            }
                        };
                        if let Some(value) = value {
                            found.enter(value, scope);
                        }
                    }
                }
            }
        }
        found
    }

    fn enter(&mut self, target: &str, scope: &RuleScope) {
        let from: Vec<PathBuf> = self.known.iter().rev().take(4).cloned().collect();
        for base in from {
            let scope = RuleScope { workspace: base, home: scope.home.clone() };
            let folder = absolute(target, &scope);
            if !self.known.contains(&folder) && self.known.len() < 16 {
                self.known.push(folder);
            }
        }
    }

    pub fn never_changed(&self) -> bool {
        self.known.len() == 1 && !self.unknown
    }
}
