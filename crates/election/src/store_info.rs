//! What a store knows of itself.

use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::audit::{Entry, Ordered};
use crate::command::Command;
use crate::document::Pause;
use crate::id::StoreId;
use crate::operator::{Act, PublicKey};
use crate::refusal::Refusal;
use crate::time::WallTime;

/// The record that is written once, before any election.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoreInfo {
    /// Which store this is.
    pub id: StoreId,
    /// When it was made, for people.
    pub created: WallTime,
    /// The operators' keys that every new election begins with.
    pub operator_keys: Vec<PublicKey>,
    /// How many signed orders on the store as a whole were carried out; each is signed for its number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub orders: u64,
    /// That everything is paused: nobody is granted anything, also no election that begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// The last order, as the audit log will have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_order: Option<Arc<Entry>>,
}

impl StoreInfo {
    /// A store that nobody has given an order.
    pub fn new(id: StoreId, created: WallTime) -> StoreInfo {
        StoreInfo { id, created, operator_keys: Vec::new(), orders: 0, paused: None, last_order: None }
    }

    /// Refuses a command that grants something while everything is paused, and the part of a pause of everything that is over: a signature that was
    /// missing must not stop one election after all the others went on, and one that was given then is none under the next pause.
    pub fn allow(&self, command: &Command) -> Result<(), Refusal> {
        match (&self.paused, command) {
            (Some(pause), Command::Acquire(_)) => {
                Err(Refusal::Paused { reason: pause.reason.clone(), since: pause.at })
            }
            (_, Command::Operate(signed)) if self.is_over(&signed.order.act) => Err(Refusal::invalid(
                "this halt is part of a pause of everything, which is over",
                "to pause this election alone: baton pause ELECTION",
            )),
            (
                Some(_) | None,
                Command::Acquire(_)
                | Command::Renew(_)
                | Command::Release(_)
                | Command::Pass(_)
                | Command::Checkpoint(_)
                | Command::Acknowledge(_)
                | Command::Report(_)
                | Command::Operate(_),
            ) => Ok(()),
        }
    }

    /// Whether this act is part of a pause of everything that is over.
    pub fn is_over(&self, act: &Act) -> bool {
        let lasts = self.paused.as_ref().map(|pause| pause.at);
        matches!(act, Act::Halt { since, .. } if lasts.is_none() || *since != lasts)
    }

    /// The same after this order, which made it so.
    pub(crate) fn after(self, number: u64, ordered: Ordered, at: WallTime) -> StoreInfo {
        let previous = self.last_order.as_ref().map(|last| last.hash);
        let entry = Entry::new(number, at, ordered, (None, None), Vec::new(), previous);
        StoreInfo { orders: number, last_order: Some(Arc::new(entry)), ..self }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::document::Document;
    use crate::id::Epoch;
    use crate::operator::OperatorKey;

    #[test]
    fn a_halt_is_void_once_everything_goes_on() {
        let (key, at) = (OperatorKey::from_seed([1; 32]), WallTime::default());
        let info = StoreInfo::new(StoreId([1; 8]), at);
        let document = Document::new("e".parse().unwrap(), info.id, Epoch(1), &[key.public()]);
        let command = |act| Command::Operate(key.sign(&document, act));
        let reason = "fire".to_string();
        let halt = command(Act::Halt { reason: reason.clone(), since: Some(at) });
        let paused = |at| {
            let paused = Some(Pause { by: key.public(), reason: reason.clone(), at, halted: true });
            StoreInfo { paused, ..info.clone() }
        };
        assert_eq!(paused(at).allow(&halt), Ok(()));
        assert!(matches!(info.allow(&halt), Err(Refusal::Invalid { .. })));
        let next = paused(WallTime::from_unix_millis(1));
        assert!(matches!(next.allow(&halt), Err(Refusal::Invalid { .. })), "nor is it of the next one");
        let unsaid = command(Act::Halt { reason: reason.clone(), since: None });
        assert!(matches!(paused(at).allow(&unsaid), Err(Refusal::Invalid { .. })));
        assert_eq!(
            info.allow(&command(Act::Pause { reason })),
            Ok(()),
            "a pause of its own is meant whatever else is"
        );
    }
}
