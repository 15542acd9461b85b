use super::item::{self, Kind};
use super::{Dialect, INPUT_MAX, Item, TurnError, depth, shape};
use serde_json::Value;

/// Takes an input line by line, finds out whether it is a stream or one whole turn, and gives out a stream's calls at
/// once and a whole turn's at the end.
///
/// The first line that is not blank decides, once. If it is no JSON value by itself, the input is one document, of which
/// nothing is run before its end: a call that stands whole on a later line is a part of it. If it is one, it is a whole
/// turn or the first item of a stream by what it is.
pub struct Reader {
    wanted: Option<Dialect>,
    lines: usize,
    state: State,
}

enum State {
    /// Blank lines so far, which count in the places of errors.
    Undecided(Vec<u8>),
    /// The first line, with the blank ones around it: an object that is no call. Alone, it is a whole turn, if a wrong one;
    /// with a line behind it, a stream's first line, if a bad one.
    Alone { first: usize, text: Vec<u8> },
    /// One document.
    Whole(Vec<u8>),
    /// A line, a call.
    Stream,
}

/// What a line of a stream gives.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A call.
    Item(Item),
    /// A line that is none; the others still run.
    BadLine(TurnError),
}

/// What the input was, known at its end.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    /// A stream; its calls were given out by [`Reader::line`].
    Stream,
    /// One item of a stream, spread over lines: answered as it would be on one line. `None` needs no answer.
    Item(Option<Item>),
    /// A whole turn.
    Whole {
        /// The dialect in which it is answered.
        dialect: Dialect,
        /// Its calls, in the model's order.
        items: Vec<Item>,
    },
}

impl Reader {
    /// A reader of this dialect alone, or of any (`None`).
    pub fn new(wanted: Option<Dialect>) -> Self {
        Self { wanted, lines: 0, state: State::Undecided(Vec::new()) }
    }

    /// Takes the next line; its end-of-line characters may be left on. An error ends the reading.
    pub fn line(&mut self, line: &[u8]) -> Result<Vec<Event>, TurnError> {
        self.lines += 1;
        let line = if self.lines == 1 { without_bom(line) } else { line };
        match &mut self.state {
            State::Stream => Ok(self.stream_line(self.lines, line).into_iter().collect()),
            State::Whole(text) => append(text, line).map(|()| Vec::new()),
            State::Undecided(text) | State::Alone { text, .. } if is_blank(line) => {
                append(text, line).map(|()| Vec::new())
            }
            State::Undecided(blank) => {
                let blank = std::mem::take(blank);
                self.decide(blank, line)
            }
            State::Alone { first, text } => {
                let (first, text) = (*first, std::mem::take(text));
                self.state = State::Stream;
                let lines = [(first, text.trim_ascii()), (self.lines, line)];
                Ok(lines
                    .iter()
                    .filter_map(|(number, line)| self.stream_line(*number, line))
                    .collect())
            }
        }
    }

    /// Takes a line that was too long to be kept.
    pub fn long_line(&mut self) -> Result<Vec<Event>, TurnError> {
        self.lines += 1;
        match self.state {
            State::Stream => Ok(vec![Event::BadLine(TurnError::TooLong {
                place: format!("line {}", self.lines),
            })]),
            _ => Err(TurnError::TooLong { place: "the turn".to_owned() }),
        }
    }

    /// The end of the input.
    pub fn finish(mut self) -> Result<Turn, TurnError> {
        let text = match std::mem::replace(&mut self.state, State::Stream) {
            State::Stream => return Ok(Turn::Stream),
            State::Whole(text) | State::Undecided(text) | State::Alone { text, .. } => text,
        };
        if is_blank(&text) {
            return Err(TurnError::Empty);
        }
        let value: Value =
            depth::parse(text.trim_ascii_end()).map_err(|error| TurnError::syntax(&error, 0))?;
        if is_item(&value) {
            return self.element(&value, self.wanted, "the turn").map(Turn::Item);
        }
        self.whole(&value)
    }

    /// The first line that is not blank.
    fn decide(&mut self, mut text: Vec<u8>, line: &[u8]) -> Result<Vec<Event>, TurnError> {
        append(&mut text, line)?;
        self.state = match depth::parse(line) {
            Ok(value) if is_item(&value) => State::Stream,
            Ok(value) if !shape::is_whole(&value) => State::Alone { first: self.lines, text },
            _ => State::Whole(text),
        };
        Ok(match self.state {
            State::Stream => self.stream_line(self.lines, line).into_iter().collect(),
            _ => Vec::new(),
        })
    }

    fn stream_line(&self, number: usize, line: &[u8]) -> Option<Event> {
        if is_blank(line) {
            return None;
        }
        let place = format!("line {number}");
        let value: Value = match depth::parse(line.trim_ascii_end()) {
            Ok(value) => value,
            Err(error) => return Some(Event::BadLine(TurnError::syntax(&error, number - 1))),
        };
        self.element(&value, self.wanted, &place)
            .map_or_else(|error| Some(Event::BadLine(error)), |item| item.map(Event::Item))
    }

    fn whole(&self, value: &Value) -> Result<Turn, TurnError> {
        let shape = shape::recognise(value, self.wanted)?;
        let mut items = Vec::new();
        for (index, element) in shape.elements.iter().enumerate() {
            let place = format!("{}[{index}]", shape.path);
            items.extend(self.element(element, Some(shape.dialect), &place)?);
        }
        Ok(Turn::Whole { dialect: shape.dialect, items })
    }

    /// One element of a list or one line of a stream: a call, or something that needs no answer.
    fn element(
        &self,
        value: &Value,
        dialect: Option<Dialect>,
        place: &str,
    ) -> Result<Option<Item>, TurnError> {
        match item::kind(value) {
            Kind::NoCall if shape::holds_calls(value) => Err(TurnError::shape(
                place,
                "it is a whole message; give its calls themselves, or the message alone",
            )),
            Kind::NoCall => Ok(None),
            Kind::Call(found) if dialect.is_none_or(|dialect| dialect == found) => {
                item::read(value, found).map(Some).map_err(|why| TurnError::shape(place, why))
            }
            Kind::Call(found) => Err(TurnError::shape(
                place,
                format!(
                    "it is a call in the dialect {} where {} was expected",
                    found.name(),
                    dialect.map_or("another", Dialect::name)
                ),
            )),
            Kind::Unsupported => Err(TurnError::shape(
                place,
                format!(
                    "elements of the type {} are not known here, so they cannot be answered; offer the model function \
                     tools alone",
                    value.get("type").unwrap_or(&Value::Null)
                ),
            )),
            Kind::Unknown => Err(TurnError::shape(
                place,
                format!("it is {} that is no call of any known dialect", item::word(value)),
            )),
        }
    }
}

fn append(text: &mut Vec<u8>, line: &[u8]) -> Result<(), TurnError> {
    if text.len() + line.len() > INPUT_MAX {
        return Err(TurnError::TooLong { place: "the turn".to_owned() });
    }
    text.extend_from_slice(line);
    Ok(())
}

/// Whether this is a stream's first item, not a whole turn.
fn is_item(value: &Value) -> bool {
    !shape::is_whole(value) && matches!(item::kind(value), Kind::Call(_) | Kind::NoCall)
}

fn without_bom(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

fn first_character(line: &[u8]) -> Option<u8> {
    line.iter().copied().find(|byte| !byte.is_ascii_whitespace())
}

fn is_blank(text: &[u8]) -> bool {
    first_character(text).is_none()
}
