//! At most one member ever leads in a term: that makes the term a fencing token.

use std::collections::BTreeMap;

use super::{Fact, Invariant};

/// The leader of each term. A run has no more terms than it has time for elections.
#[derive(Debug, Default)]
pub(crate) struct OneLeaderPerTerm {
    leaders: BTreeMap<u64, u8>,
}

impl Invariant for OneLeaderPerTerm {
    const NAME: &'static str = "one leader per term";

    fn see(&mut self, _now: u64, fact: &Fact<'_>) -> Result<(), String> {
        let Fact::Leads { place, term, .. } = *fact else { return Ok(()) };
        match self.leaders.insert(term, place) {
            None => Ok(()),
            Some(former) => {
                Err(format!("member {} leads in term {term}, in which member {} led", place + 1, former + 1))
            }
        }
    }
}
