//! Results are cut to what a model can use (spec 8.2, the strategy `truncate`).

/// Keeps the head and the tail of a text, half of `max_chars` each, with a line between them that says what was
/// left out. A text within the budget is unchanged.
pub(crate) fn head_and_tail(text: String, max_chars: usize) -> String {
    let total = text.chars().count();
    if total <= max_chars {
        return text;
    }
    let at = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(byte, _)| byte);
    let (head, tail) = text.split_at(at(max_chars / 2));
    let tail_chars = max_chars - max_chars / 2;
    let skipped = total - max_chars;
    let tail_start = tail.char_indices().nth(skipped).map_or(tail.len(), |(byte, _)| byte);
    let tail = tail.split_at(tail_start).1;
    let line_end = if head.ends_with('\n') { "" } else { "\n" };
    format!(
        "{head}{line_end}[Tool output truncated by resultBudget: {skipped} of {total} characters left out; \
         the first {} and the last {tail_chars} are shown]\n{tail}",
        max_chars / 2
    )
}

/// The first `max_chars` characters of a line, with a note if there are more.
pub(crate) fn cut_line(line: &str, max_chars: usize) -> String {
    match line.char_indices().nth(max_chars) {
        None => line.to_owned(),
        Some((byte, _)) => {
            let (head, rest) = line.split_at(byte);
            format!("{head}… [{} more characters in this line]", rest.chars().count())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 8.1
    #[test]
    fn a_text_within_the_budget_is_unchanged() {
        assert_eq!(head_and_tail("äöü".into(), 3), "äöü");
    }

    // spec 8.2
    #[test]
    fn a_text_over_the_budget_keeps_head_and_tail_and_says_what_is_missing() {
        let cut = head_and_tail("ä".repeat(10) + &"z".repeat(10), 6);
        assert_eq!(
            cut,
            "äää\n[Tool output truncated by resultBudget: 14 of 20 characters left out; \
             the first 3 and the last 3 are shown]\nzzz"
        );
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        assert_eq!(cut_line("äöü", 3), "äöü");
        assert_eq!(cut_line("äöüx", 3), "äöü… [1 more characters in this line]");
    }
}
