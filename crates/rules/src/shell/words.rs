//! A word, before the shell expands it.

use super::variables::assigned;
use super::{Analysis, Word, analyze_into, options};
use brush_parser::word::{
    self, Parameter, ParameterExpr, ParameterTransformOp, TildeExpr, WordPiece, WordPieceWithSource,
};

/// Resolves a word, and analyses the commands that it runs on the way.
pub(super) fn resolve(raw: &str, depth: usize, analysis: &mut Analysis) -> Word {
    // A bracket that nothing closes is no pattern, but the command `test`.
    if raw == "[" {
        return Word::known(raw);
    }
    let pieces = match word::parse(raw, &options()) {
        Ok(pieces) => pieces,
        Err(_) => {
            analysis.doubts.push(format!("the word {raw:?} cannot be read"));
            return Word { splits: true, ..Word::unknown(raw) };
        }
    };
    let mut found =
        Resolving { text: String::new(), exact: true, maybe_option: false, splits: false };
    found.pieces(&pieces, false, depth, analysis);
    if has_braces(raw, &pieces) {
        found.exact = false;
        found.maybe_option = true;
    }
    let Resolving { text, exact, maybe_option, splits } = found;
    Word { text, exact, maybe_option, splits }
}

/// A text in which only expansions count: a here-document, or the inside of double quotes.
pub(super) fn scan_document(text: &str, depth: usize, analysis: &mut Analysis) {
    match word::parse_heredoc(text, &options()) {
        Ok(pieces) => {
            let mut found =
                Resolving { text: String::new(), exact: true, maybe_option: false, splits: false };
            found.pieces(&pieces, true, depth, analysis);
        }
        Err(_) => analysis.doubts.push("a here-document cannot be read".into()),
    }
}

/// An arithmetic expression. Array subscripts in it may run commands, and so may the values of its variables.
pub(super) fn scan_arithmetic(text: &str, depth: usize, analysis: &mut Analysis) {
    for name in text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
        // `((PATH=1))` assigns.
        assigned(name, analysis);
        analysis.variables.evaluated(name);
    }
    if !is_closed(text) || text.contains(';') {
        analysis.doubts.push(format!("bash may take the arithmetic {text:?} for commands"));
    }
    let positional =
        |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit() || "@*".contains(c));
    if text.split('$').skip(1).any(positional) {
        analysis.doubts.push(format!("the arithmetic {text:?} evaluates an argument"));
    }
    if text.contains(['$', '`', '[', '\\', '\'', '"']) {
        let plain_parameter = text.split('$').skip(1).all(|rest| {
            rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '#')
        });
        if text.contains(['`', '[', '\\', '\'', '"']) || !plain_parameter {
            scan_document(text, depth, analysis);
            analysis.doubts.push(format!("the arithmetic {text:?} may run a command"));
        }
    }
}

/// Whether every bracket is closed, and none that was not opened.
pub(super) fn is_closed(text: &str) -> bool {
    let mut open = 0_usize;
    text.chars().all(|c| match c {
        '(' => {
            open += 1;
            true
        }
        ')' if open == 0 => false,
        ')' => {
            open -= 1;
            true
        }
        _ => true,
    }) && open == 0
}

struct Resolving {
    text: String,
    exact: bool,
    maybe_option: bool,
    /// An unquoted expansion came before: it may have become several words.
    splits: bool,
}

impl Resolving {
    fn pieces(
        &mut self,
        pieces: &[WordPieceWithSource],
        quoted: bool,
        depth: usize,
        analysis: &mut Analysis,
    ) {
        for piece in pieces {
            self.piece(&piece.piece, quoted, depth, analysis);
        }
    }

    fn piece(&mut self, piece: &WordPiece, quoted: bool, depth: usize, analysis: &mut Analysis) {
        match piece {
            WordPiece::Text(text) => {
                // Bash would have found an expansion there.
                if ["$(", "${", "$[", "`"].iter().any(|opening| text.contains(opening)) {
                    analysis.doubts.push(format!("the expansion in {text:?} cannot be read"));
                }
                if !quoted && has_glob(text) {
                    // A file's name takes the pattern's place; with nothing before the pattern it may look like an option.
                    self.unknown(
                        text,
                        self.text.is_empty() && text.starts_with(['*', '?', '[', '@', '+', '!']),
                    );
                } else {
                    self.known(text);
                }
            }
            WordPiece::SingleQuotedText(text) => self.known(text),
            WordPiece::AnsiCQuotedText(text) => match ansi_c(text) {
                Some(text) => self.known(&text),
                None => self.unknown("…", true),
            },
            WordPiece::EscapeSequence(text) => {
                let escaped = text.strip_prefix('\\').unwrap_or(text);
                if escaped == "\n" {
                    return;
                }
                if quoted && !escaped.starts_with(['$', '`', '"', '\\']) {
                    self.known("\\");
                }
                self.known(escaped);
            }
            WordPiece::DoubleQuotedSequence(pieces)
            | WordPiece::GettextDoubleQuotedSequence(pieces) => {
                self.pieces(pieces, true, depth, analysis);
            }
            WordPiece::TildeExpansion(TildeExpr::Home) => {
                self.unknown("~", false);
            }
            // A folder that was changed into, or somebody else's home.
            WordPiece::TildeExpansion(_) => {
                self.unknown("…", false);
            }
            WordPiece::ParameterExpansion(expression) => {
                let text = match expression {
                    ParameterExpr::Parameter {
                        parameter: Parameter::Named(name),
                        indirect: false,
                    } => {
                        format!("${name}…")
                    }
                    _ => "$…".to_owned(),
                };
                self.unknown(&text, true);
                // `"$@"` is several words for all its quotes.
                self.splits |= !quoted || is_list(expression);
                parameter(expression, depth, analysis);
            }
            WordPiece::CommandSubstitution(command) => {
                self.unknown("$(…)", true);
                self.splits |= !quoted && !says_one_word(command);
                analyze_into(command, depth + 1, analysis);
            }
            WordPiece::BackquotedCommandSubstitution(command) => {
                self.unknown("$(…)", true);
                self.splits |= !quoted;
                // The parser keeps the backslashes that backquotes take away.
                if command.contains('\\') {
                    analysis.doubts.push("a backslash in backquotes".into());
                }
                analyze_into(command, depth + 1, analysis);
            }
            WordPiece::ArithmeticExpression(expression) => {
                // A number, which may be negative.
                self.unknown("$((…))", true);
                scan_arithmetic(&expression.value, depth, analysis);
            }
        }
    }

    fn known(&mut self, text: &str) {
        if self.text.is_empty() && !text.is_empty() {
            self.maybe_option |= text.starts_with('-');
        }
        self.text.push_str(text);
    }

    fn unknown(&mut self, text: &str, may_begin_option: bool) {
        let at_start = self.text.is_empty();
        self.maybe_option |= (at_start || self.splits) && may_begin_option;
        // An unquoted expansion in the middle may still end one word and begin another.
        self.maybe_option |= !at_start && may_begin_option && text.starts_with('$');
        self.exact = false;
        self.text.push_str(text);
    }
}

fn parameter(expression: &ParameterExpr, depth: usize, analysis: &mut Analysis) {
    use ParameterExpr as P;
    let text = match expression {
        P::UseDefaultValues { default_value: text, .. }
        | P::AssignDefaultValues { default_value: text, .. }
        | P::IndicateErrorIfNullOrUnset { error_message: text, .. }
        | P::UseAlternativeValue { alternative_value: text, .. }
        | P::RemoveSmallestSuffixPattern { pattern: text, .. }
        | P::RemoveLargestSuffixPattern { pattern: text, .. }
        | P::RemoveSmallestPrefixPattern { pattern: text, .. }
        | P::RemoveLargestPrefixPattern { pattern: text, .. }
        | P::UppercaseFirstChar { pattern: text, .. }
        | P::UppercasePattern { pattern: text, .. }
        | P::LowercaseFirstChar { pattern: text, .. }
        | P::LowercasePattern { pattern: text, .. } => text.clone().unwrap_or_default(),
        P::ReplaceSubstring { pattern, replacement, .. } => {
            format!("{pattern} {}", replacement.clone().unwrap_or_default())
        }
        P::Substring { offset, length, .. } => {
            scan_arithmetic(&offset.value, depth, analysis);
            if let Some(length) = length {
                scan_arithmetic(&length.value, depth, analysis);
            }
            String::new()
        }
        P::Transform { op: ParameterTransformOp::PromptExpand, .. } => {
            analysis
                .doubts
                .push("a parameter is expanded as a prompt, which may run commands".into());
            String::new()
        }
        _ => String::new(),
    };
    if text.contains(['$', '`']) {
        scan_document(&text, depth, analysis);
    }
    if let P::AssignDefaultValues { .. } = expression {
        analysis.doubts.push("an expansion assigns a variable".into());
    }
    // Subscripts are arithmetic, and what an indirect name names is not known.
    let shown = format!("{expression:?}");
    if let Some(index) =
        shown.split("NamedWithIndex").nth(1).and_then(|rest| rest.split("index: \"").nth(1))
    {
        scan_arithmetic(index.split('"').next().unwrap_or_default(), depth, analysis);
    }
    if shown.contains("NamedWithIndex") && (shown.contains("$(") || shown.contains('`')) {
        analysis.doubts.push("an array subscript may run a command".into());
    }
    if shown.contains("indirect: true") {
        analysis.doubts.push("a variable is named by another one".into());
    }
}

/// `$@`, `${a[@]}`.
fn is_list(expression: &ParameterExpr) -> bool {
    let shown = format!("{expression:?}");
    shown.contains("concatenate: false")
}

/// Whether a command's output is a path, a name or a number, by its name; what it is called with is looked at as every command is.
fn says_one_word(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let name = words.next().unwrap_or_default();
    let plain = !command.contains(['|', ';', '&', '<', '>', '\n', '$', '`', '(']);
    plain
        && (matches!(
            name,
            "pwd" | "whoami" | "hostname" | "nproc" | "mktemp" | "which" | "arch" | "tty"
        ) || (name == "uname" && words.count() < 2)
            || (name == "date" && command.contains(" +%") && command.matches('+').count() == 1)
            || matches!(command.trim(), "id -u" | "id -g" | "git rev-parse HEAD"))
}

fn has_glob(text: &str) -> bool {
    text.contains(['*', '?', '['])
        || ["@(", "+(", "!("].iter().any(|opening| text.contains(opening))
}

/// `{a,b}` and `{1..3}` outside quotes become several words.
fn has_braces(raw: &str, pieces: &[WordPieceWithSource]) -> bool {
    if !raw.contains('{') {
        return false;
    }
    let unquoted: String = pieces
        .iter()
        .map(|piece| match &piece.piece {
            WordPiece::Text(text) => text.clone(),
            _ => "x".to_owned(),
        })
        .collect();
    unquoted.contains('{')
        && unquoted.contains('}')
        && (unquoted.contains(',') || unquoted.contains(".."))
}

/// `$'…'`, by bash's manual (QUOTING); `None` where it holds an escape that is none, a NUL, or a byte beyond ASCII.
fn ansi_c(text: &str) -> Option<String> {
    let mut plain = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        let next = chars.next()?;
        let mut number = |radix: u32, most: usize, first: Option<char>| {
            let mut digits: String = first.into_iter().collect();
            while digits.len() < most
                && let Some(digit) = chars.next_if(|c| c.is_digit(radix))
            {
                digits.push(digit);
            }
            u32::from_str_radix(&digits, radix).ok()
        };
        let (code, is_byte) = match next {
            'n' => (10, true),
            't' => (9, true),
            'a' => (7, true),
            'b' => (8, true),
            'e' | 'E' => (27, true),
            'f' => (12, true),
            'r' => (13, true),
            'v' => (11, true),
            c @ ('\\' | '\'' | '"' | '?') => (u32::from(c), true),
            'x' => (number(16, 2, None)?, true),
            'u' => (number(16, 4, None)?, false),
            'U' => (number(16, 8, None)?, false),
            c @ '0'..='7' => (number(8, 3, Some(c))?, true),
            _ => return None,
        };
        if code == 0 || (is_byte && code > 127) {
            return None;
        }
        plain.push(char::from_u32(code)?);
    }
    Some(plain)
}
