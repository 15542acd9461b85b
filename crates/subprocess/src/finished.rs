use crate::limits;
use crate::output::{Captured, Interleaved};
use std::path::Path;
use stockade_sandbox::{Cell, SandboxError};
use stockade_types::{Denial, Killed, LimitMet, Outcome, Usage};

/// All there is to say about a command that is over; no process of it is left.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// How it ended.
    pub outcome: Outcome,
    /// What it wrote to stdout, if that was a pipe.
    pub stdout: Captured,
    /// What it wrote to stderr, if that was a pipe.
    pub stderr: Captured,
    /// Both, in the order in which they arrived.
    pub output: Interleaved,
    /// Why the sink does not have all of the output, if it does not.
    pub sink_error: Option<String>,
    /// What it used. Wall time is from the start to the last process gone.
    pub usage: Usage,
    /// What had to be ended, and how.
    pub killed: Killed,
    /// What the sandbox refused to it.
    pub denials: Vec<Denial>,
    /// The limits that it ran up against without being ended by them.
    pub limits_met: Vec<LimitMet>,
}

impl Finished {
    /// A command of which nothing ran.
    pub fn never_ran(outcome: Outcome) -> Self {
        Self {
            outcome,
            stdout: Captured::default(),
            stderr: Captured::default(),
            output: Interleaved::default(),
            sink_error: None,
            usage: Usage::default(),
            killed: Killed::default(),
            denials: Vec::new(),
            limits_met: Vec::new(),
        }
    }

    /// Adds what its captured error texts let one suppose (spec 5.9): those on stderr, and of a command that failed those on
    /// stdout too. What better evidence has told already is not told again.
    pub fn infer(&mut self, cell: &dyn Cell, cwd: &Path) {
        let failed = self.outcome != Outcome::Exited { code: 0 };
        let mut inferred = Vec::new();
        let stdout = if failed { self.stdout.bytes.as_slice() } else { &[] };
        for output in [self.stderr.bytes.as_slice(), stdout] {
            for denial in cell.infer(output, cwd) {
                let told =
                    |known: &Denial| known.kind == denial.kind && known.target == denial.target;
                if !self.denials.iter().chain(&inferred).any(told) {
                    inferred.push(denial);
                }
            }
        }
        self.denials.extend(Denial::bounded(inferred));
        let texts = [self.stderr.bytes.as_slice(), stdout];
        let told = limits::inferred(limits::set_in(cell), &self.outcome, texts);
        let spent = limits::of_time_spent(cell.limits().cpu, &self.outcome, &self.usage);
        for met in told.into_iter().chain(spent) {
            if !self.limits_met.iter().any(|known| known.limit == met.limit) {
                self.limits_met.push(met);
            }
        }
    }
}

impl From<SandboxError> for Finished {
    fn from(error: SandboxError) -> Self {
        Self::never_ran(match error {
            SandboxError::Setup(failure) => Outcome::SetupFailed(failure),
            SandboxError::Refused(refusal) => Outcome::Refused(refusal),
            SandboxError::SessionOver(_) | SandboxError::CellLost(_) => {
                Outcome::Lost { detail: error.to_string() }
            }
        })
    }
}
