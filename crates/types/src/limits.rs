use crate::{Evidence, LimitName};
use serde::{Deserialize, Serialize};

/// A limit that a command ran up against and that did not end it: something was refused to it, and how it went on is its own affair
/// (spec 6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitMet {
    /// Which one.
    pub limit: LimitName,
    /// How sure that is.
    pub evidence: Evidence,
}
