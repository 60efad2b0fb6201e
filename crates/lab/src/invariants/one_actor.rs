//! The holder's view ends first: at no true instant do two act, each sure by its own clock that it may.

use super::{Fact, Invariant};

/// Needs no memory: the instant tells.
#[derive(Debug, Default)]
pub(crate) struct OneActor;

impl Invariant for OneActor {
    const NAME: &'static str = "the holder's view ends first";

    fn see(&mut self, _now: u64, fact: &Fact<'_>) -> Result<(), String> {
        let Fact::Instant([one, another, ..]) = fact else { return Ok(()) };
        Err(format!(
            "member {} acts under token {} while member {} acts under token {}",
            another.place + 1,
            another.term,
            one.place + 1,
            one.term
        ))
    }
}
