//! In whose name an item is changed.

use alloc::string::ToString;

use baton_election::document::Leader;
use baton_election::time::{Span, WallTime};
use baton_election::{Credential, Document, ElectionName, Epoch, Refusal, fence};
use serde::{Deserialize, Serialize};

/// What a leader shows: its token, and what proves that it is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Mandate {
    /// The token.
    pub token: Epoch,
    /// What proves to be its holder.
    pub credential: Credential,
}

/// What is known when a change is decided.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// The election.
    pub election: &'a ElectionName,
    /// As it stands, if it was looked at; none also if there is none.
    pub document: Option<&'a Document>,
    /// A lower bound on the time since its last beat.
    pub document_age: Span,
    /// A lower bound on the time since the item's clock was restarted.
    pub item_age: Span,
    /// The wall clock, for people.
    pub wall: WallTime,
}

impl<'a> Sight<'a> {
    /// The document; a refusal if there is no such election.
    pub(crate) fn document(&self) -> Result<&'a Document, Refusal> {
        let document = self.document.filter(|document| !document.is_retired());
        document.ok_or_else(|| Refusal::UnknownElection { election: self.election.to_string() })
    }

    /// The leader, if there is one.
    pub(crate) fn leader(&self) -> Option<&'a Leader> {
        self.document.and_then(|document| document.current_leader(self.document_age))
    }
}

impl Mandate {
    /// The leader whose mandate this is; a refusal if it leads no longer, or never did.
    pub(crate) fn check<'a>(&self, sight: &Sight<'a>) -> Result<&'a Leader, Refusal> {
        let document = sight.document()?;
        fence::check(self.token, document, sight.document_age)?;
        let stale = || Refusal::Stale {
            shown: self.token,
            current: document.epoch,
            leader: sight.leader().map(|leader| leader.agent.clone()),
            why: "it is not of this leadership".to_string(),
        };
        let leader = sight.leader().filter(|leader| leader.epoch == self.token).ok_or_else(stale)?;
        let fits =
            leader.incarnation == self.credential.incarnation && self.credential.key.opens(&leader.key_hash);
        if fits {
            Ok(leader)
        } else {
            Err(Refusal::WrongKey { why: "the lease key does not fit".to_string() })
        }
    }

    /// The same for an item that was last written by a leader in this epoch: no lower one ever writes it again.
    pub(crate) fn check_for<'a>(&self, fence: Epoch, sight: &Sight<'a>) -> Result<&'a Leader, Refusal> {
        if self.token < fence {
            return Err(Refusal::Stale {
                shown: self.token,
                current: fence,
                leader: sight.leader().map(|leader| leader.agent.clone()),
                why: "a leader with a later token has written this".to_string(),
            });
        }
        self.check(sight)
    }
}
