//! What a new leader does with workers that are still at it.

use baton_election::Refusal;
use serde::{Deserialize, Serialize};

use super::Task;
use crate::mandate::{Mandate, Sight};

/// Makes a predecessor's instruction this leader's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Adopt {
    /// The leader's.
    pub mandate: Mandate,
    /// How many attempts there were when this was decided: a request that comes late changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
}

impl Task {
    /// The worker keeps its key, and goes on to report with it; what it was told is from here on of this epoch.
    pub(super) fn adopt(&mut self, adopt: &Adopt, sight: &Sight<'_>) -> Result<bool, Refusal> {
        adopt.mandate.check_for(self.fence, sight)?;
        let standing = self.out_of_turn("only what is assigned or being done is adopted: baton task list");
        self.check_attempts(adopt.attempts)?;
        let token = adopt.mandate.token;
        let Some(attempt) = self.attempts.last_mut().filter(|attempt| attempt.outcome.is_none()) else {
            return Err(standing);
        };
        if attempt.epoch == token {
            return Ok(false);
        }
        attempt.epoch = token;
        self.fence = token;
        Ok(true)
    }
}
