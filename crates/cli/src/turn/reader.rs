use super::item::{self, Kind};
use super::{Dialect, INPUT_MAX, Item, TurnError, shape};
use serde_json::Value;

/// Takes an input line by line, finds out whether it is a stream or one whole turn, and gives out a stream's calls at
/// once and a whole turn's at the end.
///
/// A stream is known by its first line that holds one whole call; everything before it was then a broken line. A
/// whole turn is known by a line that opens a list, or that goes on with an object opened before.
pub struct Reader {
    wanted: Option<Dialect>,
    lines: usize,
    state: State,
}

enum State {
    /// Lines so far; each may still be a broken line of a stream.
    Undecided(Vec<(usize, Vec<u8>)>),
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
            State::Undecided(_) => self.decide(line),
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
            State::Whole(text) => text,
            State::Undecided(lines) => join(lines)?,
        };
        if is_blank(&text) {
            return Err(TurnError::Empty);
        }
        let value: Value = serde_json::from_slice(text.trim_ascii_end())
            .map_err(|error| TurnError::syntax(&error, 0))?;
        self.whole(&value)
    }

    fn decide(&mut self, line: &[u8]) -> Result<Vec<Event>, TurnError> {
        let State::Undecided(held) = &mut self.state else {
            return Ok(Vec::new());
        };
        held.push((self.lines, line.to_vec()));
        if is_blank(line) {
            return Ok(Vec::new());
        }
        let first = held.iter().filter_map(|(_, l)| first_character(l)).next();
        let parsed = serde_json::from_slice::<Value>(line).ok();
        let alone = held.iter().filter(|(_, l)| !is_blank(l)).count() == 1;
        let whole = match first {
            Some(b'[') => true,
            // An object that was opened on an earlier line goes on here.
            Some(b'{') if first_character(line) != Some(b'{') => true,
            _ => alone && parsed.as_ref().is_some_and(shape::is_whole),
        };
        if whole {
            let text = join(std::mem::take(held))?;
            self.state = State::Whole(text);
            return Ok(Vec::new());
        }
        let streams = parsed
            .as_ref()
            .is_some_and(|value| matches!(item::kind(value), Kind::Call(_) | Kind::NoCall));
        if !streams {
            let size: usize = held.iter().map(|(_, line)| line.len()).sum();
            return if size > INPUT_MAX {
                Err(TurnError::TooLong { place: "the turn".to_owned() })
            } else {
                Ok(Vec::new())
            };
        }
        let held = std::mem::take(held);
        self.state = State::Stream;
        Ok(held.iter().filter_map(|(number, line)| self.stream_line(*number, line)).collect())
    }

    fn stream_line(&self, number: usize, line: &[u8]) -> Option<Event> {
        if is_blank(line) {
            return None;
        }
        let place = format!("line {number}");
        let value: Value = match serde_json::from_slice(line.trim_ascii_end()) {
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

fn join(lines: Vec<(usize, Vec<u8>)>) -> Result<Vec<u8>, TurnError> {
    let mut text = Vec::new();
    for (_, line) in lines {
        append(&mut text, &line)?;
    }
    Ok(text)
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
