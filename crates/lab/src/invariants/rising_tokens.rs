//! Tokens only rise: who begins to lead has a higher one than whoever led before, whatever was lost or forgotten.

use super::{Fact, Invariant};

/// The highest token under which anybody began to lead.
#[derive(Debug, Default)]
pub(crate) struct RisingTokens {
    highest: Option<(u64, u8)>,
}

impl Invariant for RisingTokens {
    const NAME: &'static str = "tokens only rise";

    fn see(&mut self, _now: u64, fact: &Fact<'_>) -> Result<(), String> {
        match *fact {
            Fact::Leads { place, term, .. } => match self.highest {
                Some((highest, former)) if term <= highest => Err(format!(
                    "member {} leads under token {term}, and member {} led under {highest} before",
                    place + 1,
                    former + 1
                )),
                Some(_) | None => {
                    self.highest = Some((term, place));
                    Ok(())
                }
            },
            Fact::Swapped { epochs: (before, after), .. } if after < before => {
                Err(format!("the epoch in the store fell from {before} to {after}"))
            }
            Fact::Swapped { .. }
            | Fact::Extended { .. }
            | Fact::Instant(_)
            | Fact::Accepted { .. }
            | Fact::Healed { .. }
            | Fact::Over { .. } => Ok(()),
        }
    }
}
