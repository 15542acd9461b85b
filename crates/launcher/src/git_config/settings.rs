//! What a git settings file says (git-config(1)), read as git reads it: for files of the host, whose every setting counts.

/// One setting.
#[derive(Debug, PartialEq, Eq)]
pub struct Setting {
    /// In lower case, without a subsection.
    pub section: String,
    /// In lower case.
    pub key: String,
    /// Without quotes, escapes and comments.
    pub value: Vec<u8>,
}

/// All settings of a file. What git would not understand is passed over.
pub fn settings(text: &[u8]) -> Vec<Setting> {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let mut reader = Reader { rest: text };
    let mut section = String::new();
    let mut all = Vec::new();
    while let Some(byte) = reader.next() {
        match byte {
            b'#' | b';' => reader.skip_line(),
            b'[' => section = reader.section(),
            byte if byte.is_ascii_alphabetic() => {
                let key = reader.key(byte);
                let value = reader.value();
                all.push(Setting { section: section.clone(), key, value });
            }
            _ => {}
        }
    }
    all
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|byte| byte != b'\n') {}
    }

    fn section(&mut self) -> String {
        let mut name = String::new();
        while let Some(byte) = self.next() {
            match byte {
                b']' | b'\n' => break,
                b'"' => {
                    while let Some(byte) = self.next() {
                        match byte {
                            b'\\' => drop(self.next()),
                            b'"' | b'\n' => break,
                            _ => {}
                        }
                    }
                }
                byte => name.push(char::from(byte.to_ascii_lowercase())),
            }
        }
        // `[a.b]` is an old way to write `[a "b"]`.
        name.split(['.', ' ', '\t']).next().unwrap_or_default().to_owned()
    }

    fn key(&mut self, first: u8) -> String {
        let mut key = String::from(char::from(first.to_ascii_lowercase()));
        while let Some(byte) = self.peek().filter(|b| b.is_ascii_alphanumeric() || *b == b'-') {
            key.push(char::from(byte.to_ascii_lowercase()));
            self.next();
        }
        key
    }

    fn value(&mut self) -> Vec<u8> {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.next();
        }
        if self.peek() != Some(b'=') {
            self.skip_line();
            return b"true".to_vec();
        }
        self.next();
        let (mut value, mut is_quoted) = (Vec::new(), false);
        while let Some(byte) = self.next() {
            match byte {
                b'\n' => break,
                b'"' => is_quoted = !is_quoted,
                b'#' | b';' if !is_quoted => {
                    self.skip_line();
                    break;
                }
                b'\\' => match self.next() {
                    Some(b'\r') if self.peek() == Some(b'\n') => drop(self.next()),
                    None | Some(b'\n') => {}
                    Some(b'n') => value.push(b'\n'),
                    Some(b't') => value.push(b'\t'),
                    Some(other) => value.push(other),
                },
                byte => value.push(byte),
            }
        }
        value.trim_ascii().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // spec 5.4
    fn every_way_to_write_a_setting_is_understood() {
        let text = "[core] hooksPath=\".hus\"ky/_ # why\n\tfsmonitor = ./a \\\n b\n[FILTER \"x]\\\"y\"]\n clean = \"./t ; x\" ;no\n\
            [include.z]\npath=../c\n[alias]\nst\n";
        let found: Vec<_> = settings(text.as_bytes())
            .into_iter()
            .map(|s| format!("{}.{}={}", s.section, s.key, String::from_utf8(s.value).unwrap()))
            .collect();
        assert_eq!(
            found,
            [
                "core.hookspath=.husky/_",
                "core.fsmonitor=./a  b",
                "filter.clean=./t ; x",
                "include.path=../c",
                "alias.st=true",
            ]
        );
    }
}
