//! At no instant of the store are there two valid leases: while one runs, no other holder is written in its place.

use super::{Fact, Invariant};

/// Needs no memory: the store tells what stood there.
#[derive(Debug, Default)]
pub(crate) struct OneLease;

impl Invariant for OneLease {
    const NAME: &'static str = "one valid lease per store instant";

    fn see(&mut self, _now: u64, fact: &Fact<'_>) -> Result<(), String> {
        if let Fact::Swapped { running: Some((old, left)), holder: Some(new), .. } = *fact
            && old != new
        {
            return Err(format!(
                "the lease of {new:016x} begins while that of {old:016x} runs for {left} more"
            ));
        }
        Ok(())
    }
}
