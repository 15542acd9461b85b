use std::time::Duration;

/// How long a file is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retention {
    /// As long as its store is open.
    Temporary,
    /// For the session: a week by default, counted from when it was written.
    #[default]
    Session,
    /// Beyond the session: ninety days by default.
    Project,
}

/// After how long a file is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ages {
    /// Temporary files of a store that was never closed, since its process was killed.
    pub temporary: Duration,
    /// Files of a session.
    pub session: Duration,
    /// Files of a project.
    pub project: Duration,
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Default for Ages {
    fn default() -> Self {
        Self { temporary: DAY, session: DAY * 7, project: DAY * 90 }
    }
}

impl Ages {
    pub(crate) fn of(&self, retention: Retention) -> Duration {
        match retention {
            Retention::Temporary => self.temporary,
            Retention::Session => self.session,
            Retention::Project => self.project,
        }
    }
}

impl Retention {
    pub(crate) const ALL: [Retention; 3] =
        [Retention::Temporary, Retention::Session, Retention::Project];

    /// Its folder in a session's.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Retention::Temporary => "temporary",
            Retention::Session => "session",
            Retention::Project => "project",
        }
    }
}
