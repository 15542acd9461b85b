use crate::shell::{Invocation, Word, is_known, program_of, system_program, takes_data, unfolds};

/// The pattern of a rule for Bash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommandPattern {
    /// `git status`: these words and no others.
    Exact(Vec<String>),
    /// `git status:*`: these words first.
    Prefix(Vec<String>),
    /// `git * main`: `*` stands for anything, spaces included.
    Wild(String),
}

/// Whether a pattern means a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Match {
    No,
    /// It depends on what is not known before the command runs.
    Maybe,
    Yes,
}

impl CommandPattern {
    pub fn parse(text: &str) -> Result<Self, String> {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        if let Some(prefix) = text.strip_suffix(":*").or_else(|| text.strip_suffix(" *")) {
            if prefix.trim().is_empty() {
                return Err(format!("{text:?}: name a command before the ':*'"));
            }
            if !prefix.contains('*') {
                return Ok(Self::Prefix(words(prefix)));
            }
        }
        if text.contains(":*") && !text.ends_with(":*") {
            return Err(format!("{text:?}: ':*' stands at the end only"));
        }
        if text.contains('*') {
            return Ok(Self::Wild(text.trim_end_matches(":*").to_owned()));
        }
        Ok(Self::Exact(words(text)))
    }

    /// How many words the pattern names itself: an option among them is meant.
    pub fn named_words(&self, command: &Invocation) -> usize {
        match self {
            Self::Exact(words) | Self::Prefix(words) => words.len(),
            Self::Wild(pattern) => {
                // Up to its first star it names what stands there.
                let fixed = pattern.split('*').next().unwrap_or_default();
                fixed.split_whitespace().count().min(command.words.len())
            }
        }
    }

    /// For an allowing rule: every word that the pattern names must certainly be there, and the program must be the system's own.
    pub fn allows(&self, command: &Invocation) -> bool {
        match self {
            Self::Exact(words) => words.len() == command.words.len() && same(words, &command.words),
            Self::Prefix(words) => {
                words.len() <= command.words.len() && same(words, &command.words)
            }
            Self::Wild(pattern) => {
                let certain = command
                    .words
                    .iter()
                    .all(|word| word.exact && !word.text.contains(char::is_whitespace));
                certain && wild(pattern, &command.text())
            }
        }
    }

    /// For a rule that denies or asks: what might be meant counts too, the program under any path.
    pub fn forbids(&self, command: &Invocation) -> Match {
        let base = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
        let mut words: Vec<Word> = command.words.clone();
        if let Some(first) = words.first_mut() {
            first.text = base(&first.text);
        }
        match self {
            Self::Exact(pattern) | Self::Prefix(pattern) => {
                let exact = matches!(self, Self::Exact(_));
                let straight = prefix_match(pattern, &words);
                let whole = !exact || pattern.len() == words.len();
                if straight == Match::Yes {
                    // More words than an exact pattern has may still be the same deed.
                    return if whole { Match::Yes } else { Match::Maybe };
                }
                straight.max(in_order(pattern, &words))
            }
            Self::Wild(pattern) => {
                let text =
                    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
                if wild(pattern, &text) {
                    Match::Yes
                } else if words.iter().any(|word| !word.exact) && same_program(pattern, &words) {
                    Match::Maybe
                } else {
                    Match::No
                }
            }
        }
    }
}

impl CommandPattern {
    /// For a rule that denies or asks: whether what it means may be hidden in the words of a command that runs others in a way that is
    /// not known.
    pub fn may_hide_in(&self, command: &Invocation) -> Match {
        let pattern: Vec<&str> = match self {
            Self::Exact(words) | Self::Prefix(words) => words.iter().map(String::as_str).collect(),
            Self::Wild(pattern) => {
                pattern.split('*').next().unwrap_or_default().split_whitespace().take(1).collect()
            }
        };
        let Some(program) = pattern.first() else { return Match::No };
        let name = program_of(command.words.first().map_or("", |word| word.text.as_str()));
        if takes_data(name) || command.transparent || unfolds(name) || name == *program {
            return Match::No;
        }
        let known = is_known(name);
        let rest = command.words.get(1..).unwrap_or_default();
        let hidden = rest.iter().enumerate().any(|(at, word)| {
            let text = word.text.as_str();
            if known {
                // An option whose value is a command.
                return text.starts_with('-')
                    && text.split_once('=').is_some_and(|(_, value)| names(value, &pattern));
            }
            let straight = || {
                let words = rest.get(at..).unwrap_or_default();
                pattern.iter().enumerate().all(|(place, pattern)| {
                    words.get(place).is_some_and(|word| {
                        let text = word.text.as_str();
                        text == *pattern || (place == 0 && base(text) == *pattern)
                    })
                })
            };
            straight() || (text.contains(char::is_whitespace) && names(text, &pattern))
        });
        if hidden { Match::Maybe } else { Match::No }
    }
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Whether a text names a command, somewhere in it.
fn names(text: &str, pattern: &[&str]) -> bool {
    let between = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let words: Vec<&str> = text.split(between).filter(|word| !word.is_empty()).collect();
    words.windows(pattern.len()).any(|window| window == pattern)
}

fn same(pattern: &[String], words: &[Word]) -> bool {
    pattern.iter().zip(words).enumerate().all(|(at, (pattern, word))| {
        word.exact
            && (*pattern == word.text || (at == 0 && system_program(&word.text) == Some(pattern)))
    })
}

fn prefix_match(pattern: &[String], words: &[Word]) -> Match {
    let mut found = Match::Yes;
    for (at, pattern) in pattern.iter().enumerate() {
        match words.get(at) {
            Some(word)
                if word.exact
                    && (word.text == *pattern
                        || (at == 0
                            && word.text == pattern.rsplit('/').next().unwrap_or(pattern))) => {}
            Some(word) if !word.exact => found = Match::Maybe,
            _ => return Match::No,
        }
    }
    found
}

/// `git -C x push` is no `git push` by its words in order, but may well be one.
fn in_order(pattern: &[String], words: &[Word]) -> Match {
    let mut rest = words.iter();
    let found = pattern.iter().all(|pattern| rest.any(|word| !word.exact || word.text == *pattern));
    let program = pattern
        .first()
        .is_some_and(|program| words.first().is_some_and(|word| word.text == *program));
    if found && program && pattern.len() > 1 { Match::Maybe } else { Match::No }
}

fn same_program(pattern: &str, words: &[Word]) -> bool {
    let program = pattern.split_whitespace().next().unwrap_or_default();
    words.first().is_some_and(|word| wild(program, &word.text))
}

/// `*` stands for any characters.
pub(crate) fn wild(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}
