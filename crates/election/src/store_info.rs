//! What a store knows of itself.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::audit::{Entry, Ordered};
use crate::command::Command;
use crate::document::Pause;
use crate::id::StoreId;
use crate::operator::{Act, PublicKey};
use crate::quorum::Cosignature;
use crate::refusal::Refusal;
use crate::store_order::StoreOrder;
use crate::store_quorum::{PendingOrder, StoreQuorum};
use crate::time::WallTime;

/// The most names of former operators that are kept.
const MAX_FORMER_NAMES: usize = 64;

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
    /// What people call operators; of those who were removed, too, since they stand in logs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub operator_names: BTreeMap<PublicKey, String>,
    /// The highest number that an order on the store as a whole has used up, by being carried out or by beginning to wait for signatures. Each order is
    /// signed for its number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub orders: u64,
    /// After a restore: orders on the store, on its tokens and on fences, up to this number, may have been signed before it. None of them counts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub floor: u64,
    /// That everything is paused: nobody is granted anything, also no election that begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Box<Pause>>,
    /// How many operators an order on the store takes.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub quorum: Box<StoreQuorum>,
    /// The number of the last order that changed the operators or the quorum: signatures that were gathered before it are void.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rules: u64,
    /// The orders that wait for more signatures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<PendingOrder<StoreOrder>>,
    /// The last order, as the audit log will have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_order: Option<Arc<Entry>>,
}

impl StoreInfo {
    /// A store that nobody has given an order.
    pub fn new(id: StoreId, created: WallTime) -> StoreInfo {
        StoreInfo {
            id,
            created,
            operator_keys: Vec::new(),
            operator_names: BTreeMap::new(),
            orders: 0,
            floor: 0,
            paused: None,
            quorum: Box::default(),
            rules: 0,
            waiting: Vec::new(),
            last_order: None,
        }
    }

    /// Refuses a command that grants something while everything is paused, and the part of a pause of everything that is over: a signature that was
    /// missing must not stop one election after all the others went on, and one that was given then is none under the next pause.
    pub fn allow(&self, command: &Command) -> Result<(), Refusal> {
        if command.grants() {
            self.allow_grant()?;
        }
        if let Command::Operate(signed) = command
            && self.is_over(&signed.order.act)
        {
            return Err(Refusal::invalid(
                "this halt is part of a pause of everything, which is over",
                "to pause this election alone: baton pause ELECTION",
            ));
        }
        Ok(())
    }

    /// Refuses to grant anything while everything is paused.
    pub fn allow_grant(&self) -> Result<(), Refusal> {
        match &self.paused {
            Some(pause) => Err(Refusal::Paused { reason: pause.reason.clone(), since: pause.at }),
            None => Ok(()),
        }
    }

    /// Whether this act is part of a pause of everything that is over.
    pub fn is_over(&self, act: &Act) -> bool {
        let lasts = self.paused.as_ref().map(|pause| pause.at);
        matches!(act, Act::Halt { since, .. } if lasts.is_none() || *since != lasts)
    }

    /// The number of the next order on a record whose orders have used up the numbers to this one.
    pub fn number_after(&self, used: u64) -> u64 {
        used.max(self.floor) + 1
    }

    /// Gives the operators these names. Names of keys that are no operator's are kept, up to a bound.
    pub(crate) fn rename(&mut self, names: &BTreeMap<PublicKey, String>) {
        let operators = &self.operator_keys;
        self.operator_names.retain(|key, _| !operators.contains(key));
        while self.operator_names.len() > MAX_FORMER_NAMES {
            let _ = self.operator_names.pop_first();
        }
        self.operator_names.extend(names.iter().map(|(key, name)| (*key, name.clone())));
    }

    /// The same after this order, which made it so and which these have signed too.
    pub(crate) fn after(self, ordered: Ordered, with: Vec<Cosignature>, at: WallTime) -> StoreInfo {
        let last = self.last_order.as_ref();
        // The entries of the log have no gaps, unlike the numbers of orders: some orders were never carried out, and a restore skips numbers.
        let place = last.map_or(self.orders + 1, |last| last.number + 1);
        let entry = Entry::new(place, at, ordered, (None, None), with, last.map(|last| last.hash));
        StoreInfo { orders: self.number_after(self.orders), last_order: Some(Arc::new(entry)), ..self }
    }
}

#[expect(clippy::borrowed_box, reason = "serde asks so")]
fn is_usual(quorum: &Box<StoreQuorum>) -> bool {
    quorum.is_usual()
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

    /// It is moved through many futures, which in a debug build live on one stack.
    #[test]
    fn what_is_seldom_there_does_not_make_it_larger() {
        assert!(size_of::<StoreInfo>() <= 136, "{}", size_of::<StoreInfo>());
    }

    #[test]
    fn a_halt_is_void_once_everything_goes_on() {
        let (key, at) = (OperatorKey::from_seed([1; 32]), WallTime::default());
        let info = StoreInfo::new(StoreId([1; 8]), at);
        let document = Document::new("e".parse().unwrap(), info.id, Epoch(1), &[key.public()]);
        let command = |act| Command::Operate(key.sign(&document, act));
        let reason = "fire".to_string();
        let halt = command(Act::Halt { reason: reason.clone(), since: Some(at) });
        let paused = |at| {
            let pause = Pause { by: key.public(), reason: reason.clone(), at, halted: true };
            let paused = Some(Box::new(pause));
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
