//! Single lines are cut to what a model can use. Whole results are the runtime's business (spec 8.2).

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

    #[test]
    fn a_long_line_is_cut_between_characters() {
        assert_eq!(cut_line("äöü", 3), "äöü");
        assert_eq!(cut_line("äöüx", 3), "äöü… [1 more characters in this line]");
    }
}
