use crate::PreparedCall;
use crate::caught::{caught, name_of};
use crate::failure::given;
use std::sync::Arc;
use stockade_types::Refusal;

/// May only refuse (spec 2.4). Guards run after the hooks; none can undo another's refusal. One that panics refuses.
pub trait Guard: Send + Sync {
    /// Its name, for refusals.
    fn name(&self) -> &str;

    /// Refuses the call with a reason, or lets it pass.
    fn check(&self, call: &PreparedCall) -> Result<(), String>;
}

pub(crate) fn check(guards: &[Arc<dyn Guard>], call: &PreparedCall) -> Result<(), Refusal> {
    for guard in guards {
        caught(|| guard.check(call))
            .unwrap_or_else(|panic| Err(format!("the guard itself panicked: {}", panic.0)))
            .map_err(|reason| Refusal {
                by: format!("guard {}", name_of(|| guard.name())),
                reason: given(reason),
            })?;
    }
    Ok(())
}
