//! Guarded writes never go back: once a resource took a token it takes no lower one, and each token is one writer's.

use super::{Fact, Invariant};

/// The last write that was taken.
#[derive(Debug, Default)]
pub(crate) struct GuardedWrites {
    last: Option<(u64, u64)>,
}

impl Invariant for GuardedWrites {
    const NAME: &'static str = "guarded writes never go back";

    fn see(&mut self, _now: u64, fact: &Fact<'_>) -> Result<(), String> {
        let Fact::Accepted { token, writer } = *fact else { return Ok(()) };
        match self.last.replace((token, writer)) {
            Some((highest, _)) if token < highest => {
                Err(format!("a write with token {token} was taken after one with {highest}"))
            }
            Some((same, other)) if token == same && writer != other => {
                Err(format!("two works, {other} and {writer}, wrote with token {token}"))
            }
            Some(_) | None => Ok(()),
        }
    }
}
