/// How turns are scheduled. The presets make it behave as one of the three reference systems; every mixture works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bodies that run at once, at most (spec 1.5). At least 1.
    pub max_parallel_calls: usize,
    /// Which failing calls cancel their siblings (spec 1.11).
    pub cascade: Cascade,
    /// Which calls may start while the turn is still being fed (spec 1.19).
    pub early_start: EarlyStart,
    /// Whether the turn runs in groups, one after another, with batch events (spec 1.6). Groups are planned when the turn is
    /// closed.
    pub grouped: bool,
}

/// Which failing calls cancel their siblings: all other calls of the turn that have not ended (spec 1.11). Only calls of a tool
/// that says so ([`stockade_tools::Tool::cascades_on_error`]; Bash alone, of the built-in ones) ever do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cascade {
    /// All of them.
    Shell,
    /// Those that were not classified read-only.
    #[default]
    Writes,
    /// None.
    Off,
}

/// Which calls may start while the turn is still being fed (spec 1.19).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlyStart {
    /// Every one.
    #[default]
    All,
    /// Those that only read, may run beside others, are not destructive, have no side effects and need nobody's approval.
    Safe,
    /// None: the turn is whole before anything of it runs.
    None,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_parallel_calls: 10,
            cascade: Cascade::default(),
            early_start: EarlyStart::default(),
            grouped: false,
        }
    }
}

impl Settings {
    /// As the streaming executor of Claude Code (S): calls start while the model streams, and a failing shell command cancels
    /// its siblings.
    pub fn streaming() -> Self {
        Self { cascade: Cascade::Shell, ..Self::default() }
    }

    /// As the batch executor of ZCode (B): planned groups, safe calls early, no cascade.
    pub fn batched() -> Self {
        Self {
            cascade: Cascade::Off,
            early_start: EarlyStart::Safe,
            grouped: true,
            ..Self::default()
        }
    }

    /// As the rolling tool runtime of DSH (R): a whole turn through a rolling pool, no cascade.
    pub fn rolling() -> Self {
        Self { cascade: Cascade::Off, early_start: EarlyStart::None, ..Self::default() }
    }
}

impl Cascade {
    pub(crate) fn starts_from(self, read_only: bool) -> bool {
        match self {
            Cascade::Shell => true,
            Cascade::Writes => !read_only,
            Cascade::Off => false,
        }
    }
}
