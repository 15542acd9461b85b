use vte::{Parser, Perform};

/// Text without terminal sequences: colours, cursor movements, titles, links. Line ends, tabs and all printable characters stay;
/// a carriage return that only goes back to a line's start becomes a line end, and other control characters go.
pub fn stripped(text: &str) -> String {
    let mut printer = Printer { text: String::with_capacity(text.len()), returned: false };
    Parser::new().advance(&mut printer, text.as_bytes());
    printer.end_line_if_returned();
    printer.text
}

struct Printer {
    text: String,
    returned: bool,
}

impl Printer {
    fn end_line_if_returned(&mut self) {
        if std::mem::take(&mut self.returned) && !self.text.is_empty() && !self.text.ends_with('\n')
        {
            self.text.push('\n');
        }
    }
}

impl Perform for Printer {
    fn print(&mut self, character: char) {
        // A terminal shows nothing for it.
        if character == '\u{7f}' {
            return;
        }
        self.end_line_if_returned();
        self.text.push(character);
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\r' => self.returned = true,
            b'\n' => {
                self.returned = false;
                self.text.push('\n');
            }
            b'\t' => {
                self.end_line_if_returned();
                self.text.push('\t');
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // spec 6.4
    fn sequences_go_and_what_can_be_read_stays() {
        for (raw, plain) in [
            ("\x1b[1;31mred\x1b[0m é€😀\n", "red é€😀\n"),
            ("\x1b]0;title\x07after", "after"),
            ("\x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("a\tb\r\nc\r\n", "a\tb\nc\n"),
            ("10%\r20%\r100%\n", "10%\n20%\n100%\n"),
            ("\x1bP1$r0m\x1b\\dcs", "dcs"),
            ("\x1b[?25l\x1b[2J\x1b[10;5Hhere\x1b[K", "here"),
            ("bell\x07 back\x08", "bell back"),
            ("cut in the middle \x1b[3", "cut in the middle "),
        ] {
            assert_eq!(stripped(raw), plain, "{raw:?}");
        }
    }

    #[test]
    fn text_without_sequences_is_unchanged() {
        let text = "line one\n\tline two\n\nend";
        assert_eq!(stripped(text), text);
    }
}
