use stockade_types::{Refusal, SetupFailure};

/// Why a provider or a cell did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SandboxError {
    /// The confinement could not be set up; nothing ran.
    #[error(transparent)]
    Setup(#[from] SetupFailure),
    /// The policy asks for what cannot be enforced here, or contradicts itself; nothing ran.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The launcher of this session has ended; no call of the session can run any more.
    #[error("the session is over: {0}")]
    SessionOver(String),
    /// The cell ended while it was being asked; the next call gets a new one.
    #[error("the cell was lost: {0}")]
    CellLost(String),
}
