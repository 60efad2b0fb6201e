//! Once all faults have ended, there is a leader within a bound.

use baton_election::Span;

use super::{Fact, Invariant};

/// By when it must be there.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    by: Option<u64>,
}

impl Invariant for Liveness {
    const NAME: &'static str = "liveness after healing";

    fn see(&mut self, now: u64, fact: &Fact<'_>) -> Result<(), String> {
        match *fact {
            Fact::Healed { by } => {
                self.by = Some(by);
                Ok(())
            }
            Fact::Instant([]) => match self.by {
                Some(by) if now >= by => {
                    Err(format!("nobody leads, and {} have passed since it was due", Span::nanos(now - by)))
                }
                Some(_) | None => Ok(()),
            },
            Fact::Instant(_) => {
                self.by = None;
                Ok(())
            }
            Fact::Leads { .. }
            | Fact::Extended { .. }
            | Fact::Accepted { .. }
            | Fact::Swapped { .. }
            | Fact::Over { .. } => Ok(()),
        }
    }
}
