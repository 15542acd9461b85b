use rustix::termios::{LocalModes, SpecialCodeIndex, tcgetattr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long a mode has to last before a key is typed in it.
const SETTLED: Duration = Duration::from_millis(80);

/// How long after an end of input the next is typed.
const AGAIN: Duration = Duration::from_secs(1);

/// How a command has its terminal set: whether it takes its input by lines, and the character that ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndKey {
    pub(super) by_line: bool,
    pub(super) character: u8,
}

impl EndKey {
    /// Of this terminal; `None` where no character ends its input. To a command that takes each key the character is one of them,
    /// which line editors know.
    pub(crate) fn of(terminal: impl AsFd) -> Option<Self> {
        let modes = tcgetattr(terminal).ok()?;
        let by_line = modes.local_modes.contains(LocalModes::ICANON);
        let character = modes.special_codes[SpecialCodeIndex::VEOF];
        (character != 0).then_some(Self { by_line, character })
    }
}

/// The input has ended, and stays at its end: whoever reads it now, or later, is to find that out. A terminal has no end of its own, so the
/// character for it is typed: at once to a command that reads by lines, for which the line discipline keeps it; to one that takes each key,
/// such as a shell's line editor, once it has settled. Again when the command has changed the terminal's mode, since what was typed in
/// the one is no end in the other, and from time to time, since each is an end to one read alone.
#[derive(Debug)]
pub(crate) struct EndOfInput {
    line_begun: bool,
    typed: Option<(bool, Instant)>,
    seen: Option<(bool, Instant)>,
}

impl EndOfInput {
    /// How often to look what is to be typed.
    pub(crate) const LOOK: Duration = Duration::from_millis(20);

    /// `last`: what was typed last before it ended.
    pub(crate) fn after(last: Option<&u8>) -> Self {
        let line_begun = !matches!(last, None | Some(b'\n' | b'\r'));
        Self { line_begun, typed: None, seen: None }
    }

    /// What is to be typed now.
    pub(crate) fn due(&mut self, key: EndKey, now: Instant) -> Option<Vec<u8>> {
        let EndKey { by_line, character } = key;
        let since = match self.seen {
            Some((before, since)) if before == by_line => since,
            _ => now,
        };
        self.seen = Some((by_line, since));
        let due = match self.typed {
            Some((before, at)) if before == by_line => now.duration_since(at) >= AGAIN,
            None if by_line => true,
            _ => now.duration_since(since) >= SETTLED,
        };
        if !due {
            return None;
        }
        let first = self.typed.replace((by_line, now)).is_none();
        Some(match (self.line_begun, by_line) {
            // In the middle of a line the first one only hands over what there is of it.
            (true, true) if first => vec![character, character],
            // To a line editor it would be a key to edit the line with.
            (true, false) => {
                self.line_begun = false;
                vec![b'\r', character]
            }
            _ => vec![character],
        })
    }
}
