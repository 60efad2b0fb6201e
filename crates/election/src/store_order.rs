//! Orders on the store as a whole: who its operators are, how many of them an order takes, and whether everything is paused.
//!
//! Assumes that whoever grants something looks at what the store knows of itself. Guarantees that such an order is neither forged, moved to another
//! store, nor played again, and that it counts only with as many signatures as the store asks for. A pause does not by itself end what runs: that is an act
//! on each election (`halt`), signed beside it.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::audit::Ordered;
use crate::command::MAX_TEXT_BYTES;
use crate::document::Pause;
use crate::id::StoreId;
use crate::operator::{MAX_OPERATORS, OperatorKey, PublicKey};
use crate::order::{Order, Signed};
use crate::refusal::Refusal;
use crate::store_info::StoreInfo;
use crate::store_quorum::{Gathers, OrderKind, OrderOutcome, StoreQuorum, Weighed, weigh};
use crate::time::WallTime;

/// The longest name of an operator.
pub const MAX_NAME_CHARS: usize = 40;

/// What an operator can change about the store as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "change", deny_unknown_fields)]
pub enum StoreChange {
    /// These are the operators of the store and of its new elections.
    Operators {
        /// All of them.
        after: Vec<PublicKey>,
        /// What people call them; those who are not here have no name.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        names: BTreeMap<PublicKey, String>,
    },
    /// Nobody is granted anything.
    Pause {
        /// Why.
        reason: String,
    },
    /// That is over.
    Resume,
    /// So many operators must sign an order on the store.
    Quorum {
        /// How many, and for what.
        #[serde(deserialize_with = "crate::wire::object")]
        rules: StoreQuorum,
    },
}

impl StoreChange {
    /// Its kind.
    pub fn kind(&self) -> OrderKind {
        match self {
            StoreChange::Operators { .. } => OrderKind::Operators,
            StoreChange::Pause { .. } => OrderKind::Pause,
            StoreChange::Resume => OrderKind::Resume,
            StoreChange::Quorum { .. } => OrderKind::Quorum,
        }
    }

    /// The store after it, but for the order itself. `by` gave the order.
    fn applied(&self, info: &StoreInfo, by: PublicKey, at: WallTime) -> Result<StoreInfo, Refusal> {
        let mut next = info.clone();
        match self {
            StoreChange::Operators { after, names } => {
                check_operators(after)?;
                check_names(after, names)?;
                info.quorum.check(after.len())?;
                next.operator_keys.clone_from(after);
                next.rename(names);
                next.rules = info.number_after(info.orders);
            }
            StoreChange::Pause { reason } => {
                if reason.len() > MAX_TEXT_BYTES {
                    return Err(Refusal::invalid("the reason is too long", "say it shorter"));
                }
                let pause = Pause { by, reason: reason.to_string(), at, halted: true };
                next.paused = Some(Box::new(pause));
            }
            StoreChange::Resume => next.paused = None,
            StoreChange::Quorum { rules } => {
                rules.check(info.operator_keys.len())?;
                *next.quorum = rules.clone();
                next.rules = info.number_after(info.orders);
            }
        }
        Ok(next)
    }
}

fn check_operators(after: &[PublicKey]) -> Result<(), Refusal> {
    let different: BTreeSet<&PublicKey> = after.iter().collect();
    if after.is_empty()
        || after.len() > MAX_OPERATORS
        || different.len() < after.len()
        || !after.iter().all(PublicKey::is_usable)
    {
        return Err(Refusal::invalid(
            format!(
                "a store has between one and {MAX_OPERATORS} operators, each with a usable key of their own"
            ),
            "copy what `baton operator key` prints",
        ));
    }
    Ok(())
}

/// Whoever reads a name must be able to tell it from all others: names are short, visible and different.
fn check_names(after: &[PublicKey], names: &BTreeMap<PublicKey, String>) -> Result<(), Refusal> {
    let wrong = |name: &str| {
        name.is_empty()
            || name.trim() != name
            || name.chars().count() > MAX_NAME_CHARS
            || name.chars().any(|c| c.is_control() || (c.is_whitespace() && c != ' ') || is_hidden(c))
    };
    if names.keys().any(|key| !after.contains(key)) || names.values().any(|name| wrong(name)) {
        return Err(Refusal::invalid(
            format!("an operator's name has between 1 and {MAX_NAME_CHARS} visible characters"),
            "choose a plain one: --name Ada",
        ));
    }
    let different: BTreeSet<String> = names.values().map(|name| name.to_lowercase()).collect();
    if different.len() < names.len() {
        return Err(Refusal::invalid(
            "another operator of this store has that name",
            "choose another: --name 'Ada L.'",
        ));
    }
    Ok(())
}

/// Whether a character has no width or turns the direction of writing: two names could look the same.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// A change of the store as a whole. It is signed for its number, so that it is not played again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StoreOrder {
    /// The store.
    pub store: StoreId,
    /// The number of the order.
    pub number: u64,
    /// What is ordered.
    #[serde(deserialize_with = "crate::wire::object")]
    pub change: StoreChange,
    /// Why it does not wait for the other operators that the store asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub break_glass: Option<String>,
}

impl StoreOrder {
    /// The order of a change of a store as it stands; if others have signed one to the same effect that waits for more, that one.
    pub fn new(
        info: &StoreInfo,
        change: StoreChange,
        break_glass: Option<String>,
        at: WallTime,
    ) -> StoreOrder {
        let next = info.number_after(info.orders);
        let mut waiting = info.waiting.iter().filter(|one| one.check(info, next, at).is_ok());
        match waiting.find(|one| one.order.change == change && break_glass.is_none()) {
            Some(waiting) => waiting.order.clone(),
            None => StoreOrder { store: info.id, number: next, change, break_glass },
        }
    }
}

impl Order for StoreOrder {
    const KIND: &'static str = "store";

    fn store(&self) -> StoreId {
        self.store
    }

    /// As with acts: the operators and the quorum outlast a sign-in, and take the key itself.
    fn is_delegable(&self) -> bool {
        match &self.change {
            StoreChange::Pause { .. } | StoreChange::Resume => self.break_glass.is_none(),
            StoreChange::Operators { .. } | StoreChange::Quorum { .. } => false,
        }
    }
}

impl Gathers for StoreOrder {
    fn kind(&self) -> OrderKind {
        self.change.kind()
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn break_glass(&self) -> Option<&str> {
        self.break_glass.as_deref()
    }
}

/// The same, signed.
pub type SignedStoreOrder = Signed<StoreOrder>;

/// An order on the store, as it is sent to a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StoreRequest {
    /// The order.
    pub order: SignedStoreOrder,
    /// The code that the first operator shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl OperatorKey {
    /// Signs a change of a store as it stands.
    pub fn sign_store(&self, info: &StoreInfo, change: StoreChange, at: WallTime) -> SignedStoreOrder {
        self.sign_store_urgently(info, change, None, at)
    }

    /// The same; with a reason, without waiting for the other operators that the store asks for.
    pub fn sign_store_urgently(
        &self,
        info: &StoreInfo,
        change: StoreChange,
        break_glass: Option<String>,
        at: WallTime,
    ) -> SignedStoreOrder {
        self.sign_order(StoreOrder::new(info, change, break_glass, at))
    }
}

impl SignedStoreOrder {
    /// What the store knows of itself after it, and whether it was carried out; the same if it was the last. Where there is no operator yet,
    /// the first one is believed on its own word: a server asks for more before it comes to this.
    pub fn carry_out(&self, info: &StoreInfo, at: WallTime) -> Result<(StoreInfo, OrderOutcome), Refusal> {
        self.check_store(info)?;
        if !self.founds(info) {
            self.check_operator(info)?;
        }
        self.check_signature()?;
        if info.last_order.as_ref().is_some_and(|last| last.is_repeated_by(self)) {
            return Ok((info.clone(), OrderOutcome::Done));
        }
        match weigh(self, &info.waiting, info, info.number_after(info.orders), at)? {
            Weighed::Waits(waiting, outcome) => {
                // An order that could not be carried out gathers nothing.
                self.order.change.applied(info, self.operator(), at)?;
                let orders = info.orders.max(self.order.number);
                Ok((StoreInfo { waiting, orders, ..info.clone() }, outcome))
            }
            Weighed::Enough(with, mut waiting) => {
                let by = with.first().map_or(self.operator(), |first| first.operator());
                let next = self.order.change.applied(info, by, at)?;
                // An order to resume was of the pause that was there, and of no other.
                let of_pauses = |kind| matches!(kind, OrderKind::Pause | OrderKind::Resume);
                let changed = of_pauses(self.order.kind());
                waiting.retain(|one| one.is_live(&next, at) && !(changed && of_pauses(one.order.kind())));
                let next = StoreInfo { waiting, ..next };
                Ok((next.after(Ordered::Store(Box::new(self.clone())), with, at), OrderOutcome::Done))
            }
        }
    }

    /// Whether it makes its own signer the first operator.
    fn founds(&self, info: &StoreInfo) -> bool {
        let first = matches!(&self.order.change, StoreChange::Operators { after, .. } if *after == [self.by]);
        first && info.operator_keys.is_empty() && self.via.is_none()
    }
}

#[cfg(test)]
#[path = "store_order_tests.rs"]
mod tests;
