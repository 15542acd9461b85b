//! Random turns.

use stockade_runtime::{Cascade, EarlyStart, Settings};

/// A turn: calls with the moments of their submission, and what happens meanwhile.
#[derive(Clone, Debug)]
pub struct Turn {
    pub settings: Settings,
    pub calls: Vec<Call>,
    /// When the turn is closed, in milliseconds.
    pub closes: u64,
    /// What happens, and when.
    pub signals: Vec<(u64, Signal)>,
}

#[derive(Clone, Debug)]
pub struct Call {
    pub tool: Tool,
    /// When it is submitted.
    pub submitted: u64,
    /// How long its body takes.
    pub ms: u64,
    pub fails: bool,
    pub stops: bool,
    /// A shell's call that says it only reads, and so runs beside others.
    pub read_only: bool,
    /// Calls by their place; one more than there are names a call that does not exist.
    pub depends_on: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Reads; parallel.
    Read,
    /// Parallel, and not read-only.
    Fetch,
    /// Exclusive.
    Edit,
    /// Its failures cascade; parallel if the call says that it only reads.
    Shell,
    /// Reads; an interrupt cancels it.
    Watch,
    /// Parallel or exclusive, as the last `Swap` left it; parallel at first.
    Flip,
    /// Exclusive; replaces `Flip`.
    Swap,
    /// No such tool.
    Nobody,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Interrupt,
    Abort,
    Discard,
}

impl Tool {
    pub fn name(self) -> &'static str {
        match self {
            Tool::Read => "Read",
            Tool::Fetch => "Fetch",
            Tool::Edit => "Edit",
            Tool::Shell => "Shell",
            Tool::Watch => "Watch",
            Tool::Flip => "Flip",
            Tool::Swap => "Swap",
            Tool::Nobody => "Nobody",
        }
    }
}

/// splitmix64: as random as needed, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

impl Turn {
    pub fn random(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let settings = Settings {
            max_parallel_calls: random.of(&[1, 2, 3, 10]),
            cascade: random.of(&[Cascade::Shell, Cascade::Writes, Cascade::Off]),
            early_start: random.of(&[EarlyStart::All, EarlyStart::Safe, EarlyStart::None]),
            grouped: random.one_in(3),
        };
        let count = 1 + random.below(14) as usize;
        let streams = random.one_in(2);
        let depends = random.one_in(3);
        let failures = random.of(&[3, 10, 1000]);
        let mut time = 0;
        let mut calls = Vec::new();
        for number in 0..count {
            if streams {
                time += random.below(5_000);
            }
            let mut depends_on = Vec::new();
            while depends && random.one_in(3) && depends_on.len() < 3 {
                // Mostly earlier ones; now and then a later one, itself, or one that does not exist.
                let on = if number > 0 && !random.one_in(4) {
                    random.below(number as u64)
                } else {
                    random.below(count as u64 + 1)
                };
                depends_on.push(on as usize);
            }
            use Tool::{Edit, Fetch, Flip, Nobody, Read, Shell, Swap, Watch};
            let tools = [
                Read, Read, Read, Fetch, Fetch, Edit, Shell, Shell, Watch, Flip, Flip, Swap, Nobody,
            ];
            calls.push(Call {
                tool: random.of(&tools),
                submitted: time,
                ms: 1 + random.below(20_000),
                fails: random.one_in(failures),
                stops: random.one_in(25),
                read_only: random.one_in(2),
                depends_on,
            });
        }
        let closes = time + if streams { random.below(3_000) } else { 0 };
        let mut signals = Vec::new();
        while random.one_in(5) {
            let signal =
                random.of(&[Signal::Interrupt, Signal::Interrupt, Signal::Abort, Signal::Discard]);
            signals.push((1 + random.below(60_000), signal));
        }
        signals.sort_by_key(|(at, _)| *at);
        Self { settings, calls, closes, signals }
    }
}
