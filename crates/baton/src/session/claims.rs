//! What an agent leads by its own word.

use baton_api::sessions::{LeadershipClaim, MAX_CLAIMS};
use baton_election::Refusal;

use super::Session;
use crate::error::Error;

impl Session {
    /// Tells the server what this agent leads elsewhere: a group without a store, an election at another server. It is told at once and with
    /// every heartbeat; it changes nothing, but if another session says the same at the same time, the server warns of two leaders.
    pub fn avow(&self, leads: Vec<LeadershipClaim>) -> Result<(), Error> {
        if leads.len() > MAX_CLAIMS {
            return Err(Error::Refused(Refusal::invalid(
                format!("a session says of at most {MAX_CLAIMS} elections that it leads them"),
                "announce another session for the others",
            )));
        }
        self.inner.state().leads = Some(leads);
        self.inner.nudge.notify_one();
        Ok(())
    }
}
