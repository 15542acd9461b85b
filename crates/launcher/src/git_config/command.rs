//! What in a command that settings hold may name a file of the workspace: git hands most of them to a shell. Nothing is run to find
//! out, so that what a variable or a substitution stands for stays unknown.

use super::Named;

/// So many names are taken from one command.
const NAMES_MAX: usize = 256;

/// So many folders are followed that a command goes to or searches.
const FOLDERS_MAX: usize = 8;

/// Ways to write the worktree, in which git runs commands.
const HERE: [&[u8]; 5] =
    [b"${PWD}/", b"$PWD/", b"$(pwd)/", b"`pwd`/", b"$(git rev-parse --show-toplevel)/"];

const SHELLS: [&[u8]; 8] = [b"sh", b"bash", b"dash", b"zsh", b"ksh", b"ash", b"fish", b"busybox"];

const INTERPRETERS: [&[u8]; 15] = [
    b"python", b"node", b"nodejs", b"deno", b"bun", b"ruby", b"perl", b"awk", b"gawk", b"mawk",
    b"sed", b"lua", b"php", b"tclsh", b"Rscript",
];

/// What may stand between the words of a command, or parts of them.
const BETWEEN: &[u8] = b";|&<>(){}=,:!`$";

/// All that a command names.
pub fn of_command(value: &[u8], all: &mut Vec<Named>) {
    let start = all.len();
    let plain: Vec<u8> = value.iter().copied().filter(|byte| !b"'\"\\".contains(byte)).collect();
    let mut reader = Reader { all, start, folders: Vec::new() };
    reader.first(&first_word(value));
    reader.words(&here(plain));
}

/// The first word with what is quoted in it.
fn first_word(value: &[u8]) -> Vec<u8> {
    let (mut word, mut quote, mut is_escaped) = (Vec::new(), None, false);
    for &byte in value {
        match byte {
            _ if is_escaped => {
                is_escaped = false;
                word.push(byte);
            }
            b'\\' if quote != Some(b'\'') => is_escaped = true,
            _ if quote == Some(byte) => quote = None,
            b'\'' | b'"' if quote.is_none() => quote = Some(byte),
            _ if quote.is_none() && (byte.is_ascii_whitespace() || b";|&<>".contains(&byte)) => {
                // What is in the way of a substitution belongs to it.
                if word.contains(&b'(') && !word.contains(&b')') {
                    word.push(byte);
                } else {
                    break;
                }
            }
            byte => word.push(byte),
        }
    }
    here(word)
}

/// With the worktree's folder written as `./`.
fn here(mut text: Vec<u8>) -> Vec<u8> {
    for way in HERE {
        while let Some(at) = text.windows(way.len()).position(|part| part == way) {
            text.splice(at..at + way.len(), *b"./");
        }
    }
    text
}

/// What a word before makes of those that follow.
#[derive(Clone, Copy)]
enum Expects {
    Nothing,
    /// So many of the next words may be an interpreter's code.
    Code {
        words: u8,
        shell: bool,
    },
    /// A folder to go to.
    Folder,
    /// Folders to search.
    Search,
}

struct Reader<'a> {
    all: &'a mut Vec<Named>,
    start: usize,
    folders: Vec<Vec<u8>>,
}

impl Reader<'_> {
    fn first(&mut self, word: &[u8]) {
        let word = word.strip_prefix(b"!").unwrap_or(word);
        if word.contains(&b'/') && !word.iter().any(|byte| b"$`".contains(byte)) {
            self.all.push(Named::Path(word.to_vec()));
        }
    }

    fn words(&mut self, text: &[u8]) {
        let has_interpreter = split(text).any(|(_, word, _)| interpreter(word).is_some());
        let mut expects = Expects::Nothing;
        for (before, word, behind) in split(text) {
            let is_new = before.iter().any(|byte| b";|&(\n".contains(byte));
            let is_apart = before.iter().any(u8::is_ascii_whitespace);
            if is_new || (is_apart && matches!(expects, Expects::Search)) {
                expects = Expects::Nothing;
            }
            // `$NAME/x`, `${NAME}/x` and `$(…)/x` end in a name of the workspace, if they lead there at all.
            let word = match before.last() {
                Some(b'$') => after_slash(word),
                Some(b')' | b'}' | b'`') if word.starts_with(b"/") => after_slash(word),
                _ => word,
            };
            if word.is_empty() {
                continue;
            }
            if before.ends_with(b"<") && has_interpreter {
                self.name(word, true);
                continue;
            }
            match expects {
                Expects::Folder if word != b"--" => {
                    self.folder(word);
                    expects = Expects::Nothing;
                }
                Expects::Search => self.folder(word),
                Expects::Code { shell, .. } if word.starts_with(b"-") => {
                    let text = if shell { b"c".as_slice() } else { b"eEcm" };
                    let is_text = !word.starts_with(b"--") && word.iter().any(|b| text.contains(b));
                    expects =
                        if is_text { Expects::Nothing } else { Expects::Code { words: 2, shell } };
                }
                Expects::Code { words, shell } if interpreter(word).is_none() => {
                    self.name(word, true);
                    expects = match words.checked_sub(1).filter(|left| *left > 0) {
                        Some(words) if !word.contains(&b'/') => Expects::Code { words, shell },
                        _ => Expects::Nothing,
                    };
                }
                _ => {
                    expects = match word {
                        b"cd" | b"pushd" => Expects::Folder,
                        b"." | b"source" => Expects::Code { words: 1, shell: true },
                        b"PATH" if behind == Some(b'=') => Expects::Search,
                        word => match interpreter(word) {
                            Some(shell) => Expects::Code { words: 1, shell },
                            None => Expects::Nothing,
                        },
                    };
                    self.name(word, false);
                }
            }
        }
    }

    fn folder(&mut self, folder: &[u8]) {
        let below = self.folders.last().map(|last| [last, b"/".as_slice(), folder].concat());
        for folder in below.into_iter().chain([folder.to_vec()]) {
            if self.folders.len() < FOLDERS_MAX {
                self.folders.push(folder);
            }
        }
    }

    fn name(&mut self, word: &[u8], is_code: bool) {
        let here = self.folders.iter().map(|folder| [folder, b"/".as_slice(), word].concat());
        for word in here.chain([word.to_vec()]) {
            if self.all.len() < self.start + NAMES_MAX {
                self.all.push(if is_code { Named::Code(word) } else { Named::Word(word) });
            }
        }
    }
}

/// Each word, or part of one, with what stands before it and the byte behind it.
fn split(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8], Option<u8>)> {
    let is_between = |byte: &u8| byte.is_ascii_whitespace() || BETWEEN.contains(byte);
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.iter().position(|byte| !is_between(byte))?;
        let (before, from) = rest.split_at(start);
        let end = from.iter().position(is_between).unwrap_or(from.len());
        let (word, behind) = from.split_at(end);
        rest = behind;
        Some((before, word, behind.first().copied()))
    })
}

fn after_slash(word: &[u8]) -> &[u8] {
    let at = word.iter().position(|byte| *byte == b'/').map_or(word.len(), |at| at + 1);
    word.get(at..).unwrap_or_default()
}

/// Whether it is a shell, if it is an interpreter: by its name, without a version behind it.
fn interpreter(word: &[u8]) -> Option<bool> {
    let name = word.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let end = name.iter().rposition(|b| !b.is_ascii_digit() && *b != b'.').map_or(0, |at| at + 1);
    let name = name.get(..end).unwrap_or_default();
    let is_shell = SHELLS.contains(&name);
    (is_shell || INTERPRETERS.contains(&name)).then_some(is_shell)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(command: &str, wanted: &Named) -> bool {
        let mut all = Vec::new();
        of_command(command.as_bytes(), &mut all);
        all.contains(wanted)
    }

    #[test] // spec 5.4
    fn programs_are_found_however_a_shell_lets_one_write_them() {
        for command in [
            "\"$PWD/tools/f\"",
            "\"$(git rev-parse --show-toplevel)/tools/f\" %f",
            "\"$PWD\"/tools/f",
            "to\\ols/f",
            "to'ol's/f",
        ] {
            let found = |path: &str| has(command, &Named::Path(path.into()));
            assert!(found("tools/f") || found("./tools/f"), "{command}");
        }
        assert!(has("'my tools/f' x", &Named::Path("my tools/f".into())));
        for command in [
            "\"$TOP/tools/f\"",
            "\"${TOP:-x}/tools/f\"",
            "$(dirname x)/tools/f",
            "cat>/dev/null;tools/f",
            "!f() { tools/f; }; f",
            "PATH=tools:$PATH f",
            "X=tools/f; $X",
        ] {
            assert!(has(command, &Named::Word("tools/f".into())), "{command}");
        }
        assert!(has("cd tools && ./f", &Named::Word("tools/./f".into())));
        assert!(has("cd a && cd b; f", &Named::Word("a/b/f".into())));
    }

    #[test] // spec 5.4
    fn an_interpreters_code_is_told_from_its_data() {
        for command in [
            "sh tools/f",
            "sh -e tools/f x",
            "bash -o pipefail tools/f",
            "/usr/bin/env python3.11 -u tools/f",
            "cd tools && sh f",
            ". tools/f",
            "true; source tools/f",
            "sh <tools/f",
            "awk -f tools/f data",
            "sh -c '. tools/f'",
        ] {
            assert!(has(command, &Named::Code("tools/f".into())), "{command}");
        }
        for command in ["sh tools/f data", "sh -c 'cat data'", "perl -pe s/x/y/ data", "wc <data"] {
            assert!(!has(command, &Named::Code("data".into())), "{command}");
        }
    }
}
