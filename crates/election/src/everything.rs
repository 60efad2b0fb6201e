//! An order on everything at once: pause, or go on.
//!
//! Assumes that whoever grants something looks at what the store knows of itself. Guarantees that such an order is neither forged,
//! moved to another store, nor played again. Does not by itself end what runs: that is an act on each election (`halt`), signed beside it.

use alloc::string::{String, ToString};

use serde::{Deserialize, Serialize};

use crate::audit::Ordered;
use crate::command::MAX_TEXT_BYTES;
use crate::document::Pause;
use crate::id::StoreId;
use crate::operator::OperatorKey;
use crate::order::{Order, Signed};
use crate::refusal::Refusal;
use crate::store_info::StoreInfo;
use crate::time::WallTime;

/// That everything pauses, or goes on. It is signed for its number, so that it is not played again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StopOrder {
    /// The store.
    pub store: StoreId,
    /// The number of the order.
    pub number: u64,
    /// Why everything pauses; none if it goes on.
    pub pause: Option<String>,
}

impl Order for StopOrder {
    const KIND: &'static str = "everything";
}

/// The same, signed.
pub type SignedStop = Signed<StopOrder>;

impl OperatorKey {
    /// Signs that everything pauses, or goes on, in a store as it stands.
    pub fn sign_stop(&self, info: &StoreInfo, pause: Option<String>) -> SignedStop {
        self.sign_order(StopOrder { store: info.id, number: info.orders + 1, pause })
    }
}

impl SignedStop {
    /// What the store knows of itself after it; the same if it was the last that was carried out.
    pub fn carry_out(&self, info: &StoreInfo, at: WallTime) -> Result<StoreInfo, Refusal> {
        let StopOrder { store, number, pause } = &self.order;
        self.check_store(*store, info)?;
        self.check_operator(info)?;
        let last = info.last_order.as_ref().map(|last| &last.ordered);
        if *number == info.orders && matches!(last, Some(Ordered::Everything(last)) if last == self) {
            return Ok(info.clone());
        }
        if *number != info.orders + 1 {
            return Err(Refusal::invalid(
                "another order on the store was carried out since this one was signed",
                "try again",
            ));
        }
        if pause.as_ref().is_some_and(|reason| reason.len() > MAX_TEXT_BYTES) {
            return Err(Refusal::invalid("the reason is too long", "say it shorter"));
        }
        self.check_signature()?;
        let paused =
            pause.as_ref().map(|reason| Pause { by: self.by, reason: reason.to_string(), at, halted: true });
        let next = StoreInfo { paused, ..info.clone() };
        Ok(next.after(*number, Ordered::Everything(self.clone()), at))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn only_an_operator_pauses_everything_and_each_order_counts_once() {
        let [one, stranger] = [1, 2].map(|seed| OperatorKey::from_seed([seed; 32]));
        let at = WallTime::default();
        let info = StoreInfo { operator_keys: vec![one.public()], ..StoreInfo::new(StoreId([1; 8]), at) };
        let order = one.sign_stop(&info, Some("fire".to_string()));
        let paused = order.carry_out(&info, at).unwrap();
        assert_eq!(paused.paused.as_ref().map(|pause| pause.reason.as_str()), Some("fire"));
        assert_eq!(order.carry_out(&paused, at), Ok(paused.clone()), "it may be repeated");
        let foreign = stranger.sign_stop(&info, None);
        assert!(matches!(foreign.carry_out(&info, at), Err(Refusal::WrongKey { .. })));
        let mut forged = order.clone();
        forged.order.pause = None;
        assert!(matches!(forged.carry_out(&info, at), Err(Refusal::WrongKey { .. })));
        let elsewhere = StoreInfo { id: StoreId([2; 8]), ..info.clone() };
        assert!(matches!(order.carry_out(&elsewhere, at), Err(Refusal::WrongKey { .. })));
        let resumed = one.sign_stop(&paused, None).carry_out(&paused, at).unwrap();
        assert_eq!((resumed.paused.clone(), resumed.orders), (None, 2));
        assert!(
            matches!(order.carry_out(&resumed, at), Err(Refusal::Invalid { .. })),
            "it does not come again"
        );
    }
}
