//! Once lost, always lost: a leadership whose end has come on its own clock is not made longer.

use super::{Fact, Invariant};

/// Needs no memory: the world knows what was announced.
#[derive(Debug, Default)]
pub(crate) struct StaysLost;

impl Invariant for StaysLost {
    const NAME: &'static str = "once lost, always lost";

    fn see(&mut self, _now: u64, fact: &Fact<'_>) -> Result<(), String> {
        if let Fact::Extended { place, term, ended: true } = *fact {
            return Err(format!(
                "member {}'s leadership of term {term} had ended and was made longer",
                place + 1
            ));
        }
        Ok(())
    }
}
