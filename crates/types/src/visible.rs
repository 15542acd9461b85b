use std::fmt::Write as _;

/// Foreign text (a path, a name, a command) as it may stand in a line of ours: on that one line, and with nothing in it that paints over
/// what stands there. Escaped are control characters, line ends, line and paragraph separators, and what turns the direction of the text or
/// has no width.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else if is_invisible(c) {
            // Writing to a String cannot fail.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// By the Unicode properties Bidi_Control and Default_Ignorable_Code_Point, and the two separators.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_on_its_line_and_hides_nothing() {
        let text = "a\nb\r\u{1b}[2K\u{9b}\u{2028}\u{2029}\u{85}\u{202e}\u{2066}\u{200b}\u{feff}é宽";
        assert_eq!(
            visible(text),
            "a\\nb\\r\\u{1b}[2K\\u{9b}\\u{2028}\\u{2029}\\u{85}\\u{202e}\\u{2066}\\u{200b}\\u{feff}é宽"
        );
        assert_eq!(visible("src/naïve file.rs"), "src/naïve file.rs");
    }
}
