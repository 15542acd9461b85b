use crate::LimitsPolicy;
use crate::error::did_you_mean;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// One limit and its new value, as `memory=2G` or as a line of `[limits]` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSetting {
    key: Key,
    value: Value,
}

/// Why a limit was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// There is no `=`.
    #[error("the limit {0:?} has no value; write it as in memory=2G")]
    NoValue(String),
    /// No limit has this name.
    #[error("there is no limit {name:?}{hint} (known: {known})")]
    UnknownName {
        /// The name.
        name: String,
        /// A suggestion, or nothing.
        hint: String,
        /// All names.
        known: String,
    },
    /// The value is not one that this limit can have.
    #[error("limit {name}: {value:?} is not {expected}")]
    Value {
        /// The limit's name.
        name: &'static str,
        /// The value.
        value: String,
        /// What it would have to be.
        expected: &'static str,
    },
}

impl LimitError {
    /// Whether the limit's name is wrong, rather than its value.
    pub(crate) fn is_about_name(&self) -> bool {
        matches!(self, Self::UnknownName { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Wall,
    Grace,
    Memory,
    Pids,
    Cpu,
    Files,
    FileSize,
    Output,
    TaskOutput,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Unlimited,
    Time(Duration),
    Number(u64),
}

/// PID_MAX_LIMIT of a 64-bit kernel: more cannot be asked of any pid namespace.
const PIDS_MOST: u64 = 4_194_304;
/// Far beyond any use, and far below where adding it to a clock overflows.
const TIME_MOST: Duration = Duration::from_secs(366 * 24 * 3600);

const TIME: &str = "a duration of at most 366 days, such as \"90s\" or \"5m\"";
const SOME_TIME: &str =
    "a duration longer than 0 and of at most 366 days, such as \"90s\" or \"5m\"";
const SIZE: &str = "a number of bytes, such as 1048576, \"64K\", \"512M\" or \"2G\"";
const COUNT: &str = "a whole number greater than 0";

const KEYS: [(&str, Key); 9] = [
    ("wall", Key::Wall),
    ("grace", Key::Grace),
    ("memory", Key::Memory),
    ("pids", Key::Pids),
    ("cpu", Key::Cpu),
    ("files", Key::Files),
    ("file_size", Key::FileSize),
    ("output", Key::Output),
    ("task_output", Key::TaskOutput),
];

impl LimitSetting {
    /// The setting `name = text`. `none` as text lifts the limit.
    pub fn new(name: &str, text: &str) -> Result<Self, LimitError> {
        let Some((name, key)) = KEYS.into_iter().find(|(known, _)| *known == name) else {
            let known = KEYS.map(|(known, _)| known);
            return Err(LimitError::UnknownName {
                name: name.to_owned(),
                hint: did_you_mean(name, known),
                known: known.join(", "),
            });
        };
        let refuse = |expected| LimitError::Value { name, value: text.to_owned(), expected };
        // A tree that ignores SIGTERM must end some time, so the grace cannot be lifted.
        let value = match key {
            Key::Grace => Value::Time(time(text).ok_or_else(|| refuse(TIME))?),
            _ if text == "none" => Value::Unlimited,
            Key::Wall => match time(text) {
                Some(wall) if !wall.is_zero() => Value::Time(wall),
                _ => return Err(refuse(SOME_TIME)),
            },
            Key::Memory => match size(text) {
                Some(bytes) if bytes > 0 => Value::Number(bytes),
                _ => return Err(refuse(SIZE)),
            },
            Key::FileSize | Key::Output | Key::TaskOutput => {
                Value::Number(size(text).ok_or_else(|| refuse(SIZE))?)
            }
            Key::Pids => match count(text) {
                Some(pids) if (1..=PIDS_MOST).contains(&pids) => Value::Number(pids),
                _ => return Err(refuse("a whole number from 1 to 4194304")),
            },
            Key::Cpu | Key::Files => match count(text) {
                Some(number) if number > 0 => Value::Number(number),
                _ => return Err(refuse(COUNT)),
            },
        };
        Ok(Self { key, value })
    }
}

impl LimitSetting {
    /// The names of all limits.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KEYS.into_iter().map(|(name, _)| name)
    }

    /// The limit's name.
    pub fn name(&self) -> &'static str {
        KEYS.into_iter().find(|(_, key)| *key == self.key).map_or("", |(name, _)| name)
    }

    /// Its value, as a policy file may say it.
    pub(crate) fn value_text(&self) -> String {
        match self.value {
            Value::Unlimited => "none".to_owned(),
            Value::Time(time) => humantime::format_duration(time).to_string(),
            Value::Number(number) => number.to_string(),
        }
    }
}

impl fmt::Display for LimitSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name(), self.value_text())
    }
}

impl FromStr for LimitSetting {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        match text.split_once('=') {
            Some((name, value)) => Self::new(name.trim(), value.trim()),
            None => Err(LimitError::NoValue(text.to_owned())),
        }
    }
}

impl LimitsPolicy {
    /// Sets one limit from `name=value`, such as `memory=2G`, `wall=90s` or `pids=none`.
    pub fn set(&mut self, setting: &str) -> Result<(), LimitError> {
        self.apply(&setting.parse()?);
        Ok(())
    }

    /// Sets one limit.
    pub fn apply(&mut self, setting: &LimitSetting) {
        let time = match setting.value {
            Value::Time(time) => Some(time),
            _ => None,
        };
        let number = match setting.value {
            Value::Number(number) => Some(number),
            _ => None,
        };
        match setting.key {
            Key::Wall => self.wall = time,
            Key::Grace => self.grace = time,
            Key::Memory => self.memory = number,
            Key::Pids => self.pids = number,
            Key::Cpu => self.cpu = number,
            Key::Files => self.files = number,
            Key::FileSize => self.file_size = number,
            Key::Output => self.output = number,
            Key::TaskOutput => self.task_output = number,
        }
    }
}

fn time(text: &str) -> Option<Duration> {
    humantime::parse_duration(text).ok().filter(|time| *time <= TIME_MOST)
}

fn count(text: &str) -> Option<u64> {
    // `parse` alone would also take "+5".
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text.get(digits.len()..)? {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    count(digits)?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_set_from_text_in_binary_units() {
        // spec 5.1, 10.1 (--limit memory=2G)
        let mut limits = LimitsPolicy::default();
        for setting in [
            "wall=90s",
            "grace=1m 30s",
            "memory=2G",
            "pids=256",
            "cpu=60",
            "files=1024",
            "file_size=512M",
            "output=64K",
            "task_output=8M",
        ] {
            limits.set(setting).unwrap();
        }
        assert_eq!(
            limits,
            LimitsPolicy {
                wall: Some(Duration::from_secs(90)),
                grace: Some(Duration::from_secs(90)),
                memory: Some(2 << 30),
                pids: Some(256),
                cpu: Some(60),
                files: Some(1024),
                file_size: Some(512 << 20),
                output: Some(64 << 10),
                task_output: Some(8 << 20),
            }
        );
        limits.set("memory=none").unwrap();
        assert_eq!(limits.memory, None);
        limits.set("memory=1048576").unwrap();
        assert_eq!(limits.memory, Some(1 << 20));
    }

    #[test]
    fn a_wrong_limit_says_what_would_be_right() {
        for (setting, message) in [
            ("memory", "the limit \"memory\" has no value; write it as in memory=2G"),
            (
                "memroy=1G",
                "there is no limit \"memroy\"; did you mean \"memory\"? (known: wall, grace, memory, pids, cpu, files, file_size, output, task_output)",
            ),
            (
                "memory=2GB",
                "limit memory: \"2GB\" is not a number of bytes, such as 1048576, \"64K\", \"512M\" or \"2G\"",
            ),
            ("pids=0", "limit pids: \"0\" is not a whole number from 1 to 4194304"),
            ("cpu=-1", "limit cpu: \"-1\" is not a whole number greater than 0"),
            (
                "wall=5",
                "limit wall: \"5\" is not a duration longer than 0 and of at most 366 days, such as \"90s\" or \"5m\"",
            ),
        ] {
            assert_eq!(LimitsPolicy::default().set(setting).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn what_would_overflow_or_stop_everything_is_refused() {
        for setting in [
            "memory=99999999999999999999",
            "memory=18446744073709551615K",
            "memory=0",
            "memory=",
            "memory=G",
            "memory=2 G",
            "memory=+5",
            "wall=0s",
            "wall=99999years",
            "grace=none",
            "pids=4194305",
            "files=1e3",
            "output=é",
        ] {
            assert!(LimitsPolicy::default().set(setting).is_err(), "{setting}");
        }
        // No grace at all is a choice: SIGKILL at once.
        assert!(LimitsPolicy::default().set("grace=0s").is_ok());
    }
}
