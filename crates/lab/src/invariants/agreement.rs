//! At the end, long after the healing, somebody leads and everybody knows who.

use super::{Fact, Invariant};

/// Whether anybody acted at the last instant.
#[derive(Debug, Default)]
pub(crate) struct Agreement {
    acting: usize,
}

impl Invariant for Agreement {
    const NAME: &'static str = "agreement after healing";

    fn see(&mut self, _now: u64, fact: &Fact<'_>) -> Result<(), String> {
        match *fact {
            Fact::Instant(acting) => {
                self.acting = acting.len();
                Ok(())
            }
            Fact::Over { .. } if self.acting != 1 => {
                Err(format!("long after the healing {} lead", self.acting))
            }
            Fact::Over { astray, all } if astray > 0 => {
                Err(format!("long after the healing {astray} of {all} do not know who leads"))
            }
            Fact::Over { .. }
            | Fact::Leads { .. }
            | Fact::Extended { .. }
            | Fact::Accepted { .. }
            | Fact::Swapped { .. }
            | Fact::Healed { .. } => Ok(()),
        }
    }
}
