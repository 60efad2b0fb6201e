//! Once all faults have ended, there is one leader within a bound.

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
            Fact::Instant([_]) => {
                self.by = None;
                Ok(())
            }
            Fact::Instant(acting) => match self.by {
                Some(by) if now >= by => {
                    let since = Span::nanos(now - by);
                    Err(format!("{} lead, and it is {since} since one was due", acting.len()))
                }
                Some(_) | None => Ok(()),
            },
            Fact::Leads { .. }
            | Fact::Extended { .. }
            | Fact::Accepted { .. }
            | Fact::Swapped { .. }
            | Fact::Over { .. } => Ok(()),
        }
    }
}
