//! A minority never elects: who leads has heard a majority of its group since its term began.

use super::{Backing, Fact, Invariant};

/// Needs no memory: the world counts who was heard.
#[derive(Debug, Default)]
pub(crate) struct Majority;

impl Invariant for Majority {
    const NAME: &'static str = "a minority never elects";

    fn see(&mut self, _now: u64, fact: &Fact<'_>) -> Result<(), String> {
        if let Fact::Leads { place, term, backing: Backing { heard, majority, .. } } = *fact
            && heard < majority
        {
            return Err(format!(
                "member {} leads in term {term} and has heard {heard} since it began, itself included; a majority is {majority}",
                place + 1
            ));
        }
        Ok(())
    }
}
