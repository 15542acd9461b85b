use std::fmt::Write;
use vte::{Params, Parser, Perform};

/// What a program has changed of the host's terminal by what it wrote there, so that it can be undone when the program was killed
/// before it could: the alternate screen, a hidden cursor, the mouse, pasted text in brackets, colours. What the program has
/// undone itself, and what it never touched, is left alone.
#[derive(Default)]
pub(super) struct Screen {
    parser: Parser,
    changed: Changed,
}

impl Screen {
    /// Takes note of what is shown.
    pub(super) fn show(&mut self, bytes: &[u8]) {
        self.parser.advance(&mut self.changed, bytes);
    }

    /// What undoes the changes for good. Empty where there are none.
    pub(super) fn leave(&mut self) -> String {
        let mut undo = String::new();
        // A letter in the middle of a sequence is not shown, but taken for a part of it.
        self.changed.printed = false;
        self.show(b"x");
        if !self.changed.printed {
            // The rest of a sequence that was cut off would be whatever comes next. CAN ends every one.
            undo.push('\u{18}');
            self.parser = Parser::new();
        }
        undo.push_str(&self.changed.undo());
        self.changed = Changed::default();
        undo
    }

    /// What undoes the changes until [`Screen::again`].
    pub(super) fn undo(&self) -> String {
        self.changed.undo()
    }

    /// What makes the changes once more.
    pub(super) fn again(&self) -> String {
        self.changed.again()
    }
}

/// The private modes of DEC and xterm that a person notices when they stay, each with whether it is on by default. In the order in
/// which they are undone: first the other screen is left.
const MODES: [(u16, bool); 21] = [
    (1049, false),
    (1047, false),
    (47, false),
    // Keys, colours, the origin, the line's end.
    (1, false),
    (5, false),
    (6, false),
    (7, true),
    // The mouse, and how it tells.
    (9, false),
    (1000, false),
    (1001, false),
    (1002, false),
    (1003, false),
    (1004, false),
    (1005, false),
    (1006, false),
    (1015, false),
    (1016, false),
    // Pasted text in brackets; output held back; the keypad; the cursor.
    (2004, false),
    (2026, false),
    (66, false),
    (25, true),
];

/// How many of [`MODES`] stand for the other screen.
const OTHER_SCREEN: usize = 3;

#[derive(Default)]
struct Changed {
    modes: [bool; MODES.len()],
    /// Colours and the like.
    rendition: bool,
    /// Another character set than ASCII.
    characters: bool,
    /// The part of the screen that scrolls.
    margins: bool,
    insert: bool,
    cursor_shape: bool,
    /// How keys with modifiers are told, as xterm has it.
    modified_keys: bool,
    /// How many times the keyboard was asked to tell more, as kitty has it: on the main screen, and on the other.
    keyboard: [u16; 2],
    printed: bool,
}

impl Changed {
    fn on_other_screen(&self) -> bool {
        self.modes.iter().take(OTHER_SCREEN).any(|changed| *changed)
    }

    fn undo(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let mut add = |sequence: std::fmt::Arguments<'_>| {
            let _ = text.write_fmt(sequence);
        };
        if self.margins {
            // To set them moves the cursor.
            add(format_args!("\x1b7\x1b[r\x1b8"));
        }
        if self.insert {
            add(format_args!("\x1b[4l"));
        }
        if self.characters {
            add(format_args!("\x1b(B\x0f"));
        }
        let [main, other] = self.keyboard;
        if other > 0 && self.on_other_screen() {
            add(format_args!("\x1b[<{other}u"));
        }
        for (changed, (mode, default)) in self.modes.iter().zip(MODES) {
            if *changed {
                add(format_args!("\x1b[?{mode}{}", letter(default)));
            }
        }
        if main > 0 {
            add(format_args!("\x1b[<{main}u"));
        }
        if self.modified_keys {
            add(format_args!("\x1b[>4m"));
        }
        if self.cursor_shape {
            add(format_args!("\x1b[0 q"));
        }
        // Last: to leave the other screen brings back the colours from before it.
        if self.rendition {
            add(format_args!("\x1b[m"));
        }
        text
    }

    fn again(&self) -> String {
        let changed = self.modes.iter().zip(MODES).filter(|(changed, _)| **changed);
        changed.map(|(_, (mode, default))| format!("\x1b[?{mode}{}", letter(!default))).collect()
    }

    fn set_mode(&mut self, mode: u16, on: bool) {
        for (changed, (known, default)) in self.modes.iter_mut().zip(MODES) {
            if known == mode {
                *changed = on != default;
            }
        }
    }

    fn keyboard(&mut self) -> &mut u16 {
        let [main, other] = &mut self.keyboard;
        let on_other_screen = self.modes.iter().take(OTHER_SCREEN).any(|changed| *changed);
        if on_other_screen { other } else { main }
    }
}

fn letter(on: bool) -> char {
    if on { 'h' } else { 'l' }
}

impl Perform for Changed {
    fn print(&mut self, _: char) {
        self.printed = true;
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            0x0e => self.characters = true,
            0x0f => self.characters = false,
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        if ignore {
            return;
        }
        let mut numbers = params.iter().map(|param| param.first().copied().unwrap_or_default());
        match (intermediates, action) {
            (b"?", 'h' | 'l') => numbers.for_each(|mode| self.set_mode(mode, action == 'h')),
            (b"", 'h' | 'l') if numbers.any(|mode| mode == 4) => self.insert = action == 'h',
            (b"", 'm') => {
                // All is as it was after a 0 at the end, unless that is the number of a colour.
                let (mut last, mut colour) = (0, false);
                for number in numbers {
                    last = number;
                    colour |= matches!(number, 38 | 48 | 58);
                }
                self.rendition = last != 0 || colour;
            }
            (b"", 'r') => self.margins = numbers.any(|margin| margin != 0),
            (b" ", 'q') => self.cursor_shape = numbers.any(|shape| shape != 0),
            (b">", 'm') if numbers.next() == Some(4) => {
                self.modified_keys = numbers.next().is_some_and(|level| level != 0);
            }
            (b">", 'u') => {
                let depth = self.keyboard();
                *depth = depth.saturating_add(1);
            }
            (b"<", 'u') => {
                let popped = numbers.next().unwrap_or_default().max(1);
                let depth = self.keyboard();
                *depth = depth.saturating_sub(popped);
            }
            // A soft reset leaves the screen, the mouse and pasting as they are.
            (b"!", 'p') => {
                for mode in [1, 6, 7, 25, 66] {
                    self.set_mode(mode, matches!(mode, 7 | 25));
                }
                self.rendition = false;
                self.characters = false;
                self.margins = false;
                self.insert = false;
            }
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], ignore: bool, byte: u8) {
        match (intermediates, byte) {
            _ if ignore => {}
            (b"", b'c') => *self = Self { printed: self.printed, ..Self::default() },
            (b"", b'=' | b'>') => self.set_mode(66, byte == b'='),
            (b"(", _) => self.characters = byte != b'B',
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(shown: &str) -> String {
        let mut screen = Screen::default();
        // However it is cut.
        for byte in shown.bytes() {
            screen.show(&[byte]);
        }
        screen.leave()
    }

    #[test]
    fn what_a_program_undid_itself_and_what_it_never_touched_is_left_alone() {
        for shown in [
            "",
            "plain €\r\n\x1b]0;a title\x07\x1b[2J\x1b[1;1H\x1b[6n\x1b[?12h",
            "\x1b[?1049h\x1b[?25l\x1b[31m…\x1b[m\x1b[?25h\x1b[?1049l",
            "\x1b[?1000;1006h\x1b[?1006;1000l\x1b=\x1b>\x1b(0\x1b(B\x1b[>1u\x1b[<u\x1b[1;3r\x1b[r",
            "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[1m\x1bc",
        ] {
            assert_eq!(left(shown), "", "{shown:?}");
        }
    }

    #[test]
    fn what_is_still_changed_is_undone_and_nothing_else() {
        let vim =
            "\x1b[?1049h\x1b[>4;2m\x1b[?1h\x1b=\x1b[?2004h\x1b[?1004h\x1b[1;24r\x1b[?25l\x1b[34m";
        assert_eq!(
            left(vim),
            "\x1b7\x1b[r\x1b8\x1b[?1049l\x1b[?1l\x1b[?1004l\x1b[?2004l\x1b[?66l\x1b[?25h\x1b[>4m\x1b[m"
        );
        assert_eq!(left("\x1b[?7l\x1b[0;1m\x1b[4h"), "\x1b[4l\x1b[?7h\x1b[m");
        assert_eq!(left("\x1b[>1u\x1b[?1049h\x1b[>1u\x1b[>1u"), "\x1b[<2u\x1b[?1049l\x1b[<1u");
        assert_eq!(left("\x1b[?1003h\x1b[?1006h\x1b[!p"), "\x1b[?1003l\x1b[?1006l");
    }

    #[test]
    fn a_sequence_that_was_cut_off_is_ended() {
        for cut in ["\x1b", "\x1b[?10", "\x1b]0;half a tit", "\x1bPq#0"] {
            assert_eq!(left(&format!("\x1b[?25l{cut}")), "\x18\x1b[?25h", "{cut:?}");
            assert_eq!(left(cut), "\x18", "{cut:?}");
        }
    }

    #[test]
    fn for_a_while_it_is_undone_and_then_made_again() {
        let mut screen = Screen::default();
        screen.show(b"\x1b[?1049h\x1b[?25l");
        assert_eq!(
            (screen.undo().as_str(), screen.again().as_str()),
            ("\x1b[?1049l\x1b[?25h", "\x1b[?1049h\x1b[?25l")
        );
        assert_eq!(screen.leave(), "\x1b[?1049l\x1b[?25h");
        assert_eq!(screen.leave(), "");
    }
}
