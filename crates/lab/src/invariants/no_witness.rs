//! A witness never leads, nor does who is no member: whoever begins to lead is a member that may, by its own list.

use super::{Backing, Fact, Invariant};

/// Needs no memory: the world reads the list.
#[derive(Debug, Default)]
pub(crate) struct NoWitness;

impl Invariant for NoWitness {
    const NAME: &'static str = "a witness never leads";

    fn see(&mut self, _now: u64, fact: &Fact<'_>) -> Result<(), String> {
        if let Fact::Leads { place, term, backing: Backing { may_lead: false, .. } } = *fact {
            return Err(format!("member {} leads in term {term}, and may not by its own list", place + 1));
        }
        Ok(())
    }
}
