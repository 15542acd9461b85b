//! Text of others, as a person is shown it. What a model or a command wrote must not paint over what Stockade says, pass for it, or look
//! like something else than it is.

use std::fmt::Write as _;

/// How a character is shown that would show nothing, or change how others are shown. No other text looks like it: the bracket is shown
/// so too.
fn push_hidden(shown: &mut String, c: char) {
    // Writing to a String cannot fail.
    let _ = write!(shown, "⟨U+{:04X}⟩", u32::from(c));
}

/// Controls, characters without width, those that turn the direction, white space that is none of the usual, and marks that are drawn
/// over the character before them.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || c == '⟨'
        || (c.is_whitespace() && c != ' ')
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}' | '\u{f0000}'..='\u{10ffff}' | '\u{e000}'..='\u{f8ff}'
            | '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
            | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

/// The text on one line, every line end a `⏎`.
pub fn on_one_line(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        match c {
            '\n' => shown.push('⏎'),
            '⏎' => push_hidden(&mut shown, c),
            c if is_hidden(c) => push_hidden(&mut shown, c),
            c => shown.push(c),
        }
    }
    shown
}

/// The text behind `head`, in lines of at most so many columns. A line of the text's own begins with `│`, the rest of one that was too
/// long with `╎`: a text cannot make a line that looks like one of Stockade's own, nor one that seems to end where it does not.
pub fn in_lines(head: &str, text: &str, columns: usize) -> String {
    let mut shown = String::from(head);
    let mut used = head.chars().count();
    let begin = |shown: &mut String, mark: char| {
        shown.push_str("\n    ");
        shown.push(mark);
        shown.push(' ');
        6
    };
    for c in text.chars() {
        if c == '\n' {
            used = begin(&mut shown, '│');
            continue;
        }
        let mut piece = String::new();
        if is_hidden(c) {
            push_hidden(&mut piece, c);
        } else {
            piece.push(c);
        }
        // What is not ASCII may take two columns.
        let width = piece.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum::<usize>();
        if used + width > columns.max(20) {
            used = begin(&mut shown, '╎');
        }
        used += width;
        shown.push_str(&piece);
    }
    shown.push('\n');
    shown
}

/// The letters of a text that are none of ASCII's, each once with its number: some look just like those.
pub fn foreign_letters(text: &str) -> Option<String> {
    let mut letters: Vec<char> = text.chars().filter(|c| !c.is_ascii() && !is_hidden(*c)).collect();
    letters.sort_unstable();
    letters.dedup();
    let shown: Vec<String> =
        letters.iter().take(12).map(|c| format!("{c} U+{:04X}", u32::from(*c))).collect();
    let more = if letters.len() > 12 { " …" } else { "" };
    (!shown.is_empty()).then(|| format!("{}{more}", shown.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    // issue 6: the exact bytes are shown
    #[test]
    fn no_two_texts_are_shown_alike_and_none_paints_over_another() {
        let texts = [
            "ls",
            "ls\u{1b}[2K",
            "ls\\u{1b}[2K",
            "ls\u{9b}2K",
            "ls\u{202e}x",
            "ls\u{200b}",
            "ls\r",
            "ls\t",
            "ls ",
            "ls\u{a0}",
            "ls\u{301}",
            "ls⟨U+001B⟩",
            "ls⟨",
            "ls\u{fe0f}",
            "ls\u{3164}",
            "ls\u{2028}",
            "ls\u{0}",
            "l\u{ad}s",
            "ls\u{8}",
        ];
        let shown: std::collections::BTreeSet<String> =
            texts.iter().map(|text| in_lines("", text, 80)).collect();
        assert_eq!(shown.len(), texts.len());
        for shown in &shown {
            assert!(!shown.trim_end_matches('\n').chars().any(char::is_control), "{shown:?}");
        }
        let shown: std::collections::BTreeSet<String> =
            ["a\nb", "a⏎b", "a b"].iter().map(|text| on_one_line(text)).collect();
        assert_eq!(shown.len(), 3);
    }

    #[test]
    fn no_text_makes_a_line_that_could_be_stockades_own() {
        for text in [
            "ls\n  It wants more",
            &format!("ls{}  It wants more", " ".repeat(200)),
            &"宽".repeat(90),
        ] {
            let shown = in_lines("  command: ", text, 40);
            let mut lines = shown.lines();
            assert!(lines.next().is_some_and(
                |line| line.starts_with("  command: ls") || line.starts_with("  command: 宽")
            ));
            for line in lines {
                assert!(line.starts_with("    │ ") || line.starts_with("    ╎ "), "{line:?}");
                assert!(line.chars().count() <= 40, "{line:?}");
            }
        }
    }

    #[test]
    fn letters_that_look_like_others_are_named() {
        assert_eq!(foreign_letters("git status"), None);
        assert_eq!(foreign_letters("gіt ѕ").as_deref(), Some("ѕ U+0455, і U+0456"));
    }
}
