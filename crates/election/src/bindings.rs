//! Which election a resource belongs to, by the word of an operator.
//!
//! The first token that is shown for a resource binds it to its election. An operator binds it before that, binds it to another election, or frees
//! it for the next election that is named. Guarantees that the mark of each election never goes back: a resource that is bound to an election
//! again goes on from that election's own mark. Does not guarantee anything to a writer that compares numbers without naming the election:
//! tokens of two elections are not comparable.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::fence::Fence;
use crate::id::StoreId;
use crate::name::{ElectionName, ResourceName};
use crate::operator::OperatorKey;
use crate::order::{Order, Signed};
use crate::refusal::Refusal;
use crate::store_info::StoreInfo;
use crate::time::WallTime;

/// What an operator can do about the binding of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "change")]
pub enum FenceChange {
    /// The leader of this election may touch the resource, and no other.
    Bind {
        /// Which.
        election: ElectionName,
    },
    /// The next election that is named takes the resource.
    Free,
}

/// A change of a resource's binding. It is signed for its number, so that it is not played again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FenceOrder {
    /// The store.
    pub store: StoreId,
    /// The resource.
    pub resource: ResourceName,
    /// The number of the order among those on this resource.
    pub number: u64,
    /// What is ordered.
    pub change: FenceChange,
}

impl Order for FenceOrder {
    const KIND: &'static str = "fence";

    fn store(&self) -> StoreId {
        self.store
    }
}

/// The same, signed.
pub type SignedFenceOrder = Signed<FenceOrder>;

impl OperatorKey {
    /// Signs a change of a resource's binding as it stands.
    pub fn sign_fence(
        &self,
        info: &StoreInfo,
        resource: ResourceName,
        fence: Option<&Fence>,
        change: FenceChange,
    ) -> SignedFenceOrder {
        let number = info.number_after(fence.map_or(0, |fence| fence.orders));
        self.sign_order(FenceOrder { store: info.id, resource, number, change })
    }
}

impl SignedFenceOrder {
    /// The fence after it; the same if it was the last that was carried out.
    pub fn carry_out(&self, fence: Option<&Fence>, info: &StoreInfo, at: WallTime) -> Result<Fence, Refusal> {
        let FenceOrder { store: _, resource, number, change } = &self.order;
        self.check_store(info)?;
        self.check_operator(info)?;
        self.check_signature()?;
        if let Some(fence) = fence.filter(|fence| fence.last_order.as_deref() == Some(self)) {
            return Ok(fence.clone());
        }
        if *number != info.number_after(fence.map_or(0, |fence| fence.orders)) {
            return Err(Refusal::invalid(
                "the binding of the resource changed since the order was signed",
                "try again",
            ));
        }
        let (mut next, note) = match (change, fence) {
            (FenceChange::Bind { election }, None) => {
                (Fence::new(resource.clone(), info.id, election.clone()), self.said("bound it to", election))
            }
            (FenceChange::Bind { election }, Some(fence)) => {
                (fence.bound_to(election, info.id)?, self.said("bound it to", election))
            }
            (FenceChange::Free, Some(fence)) => {
                (Fence { free: true, ..fence.clone() }, self.said("freed it from", &fence.election))
            }
            (FenceChange::Free, None) => {
                return Err(Refusal::invalid(
                    format!("nobody has touched the resource `{resource}`, and it is bound to no election"),
                    "`baton fence --log` shows the resources that there are",
                ));
            }
        };
        next.note(None, &note, at);
        next.orders = *number;
        next.last_order = Some(Box::new(self.clone()));
        Ok(next)
    }

    fn said(&self, what: &str, election: &ElectionName) -> String {
        format!("operator {:.12} {what} {election}", self.by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::MAX_FORMER;
    use crate::id::Epoch;

    fn setting() -> (OperatorKey, StoreInfo, ResourceName) {
        let operator = OperatorKey::from_seed([1; 32]);
        let info = StoreInfo {
            operator_keys: [operator.public()].into(),
            ..StoreInfo::new(StoreId([1; 8]), WallTime::default())
        };
        (operator, info, ResourceName::new("db").unwrap())
    }

    fn bind(election: &str) -> FenceChange {
        FenceChange::Bind { election: election.parse().unwrap() }
    }

    #[test]
    fn only_an_operator_binds_and_each_order_once() {
        let (operator, info, db) = setting();
        let at = WallTime::default();
        let order = operator.sign_fence(&info, db.clone(), None, bind("a"));
        let bound = order.carry_out(None, &info, at).unwrap();
        assert_eq!((bound.election.as_str(), bound.highest, bound.orders), ("a", Epoch(0), 1));
        assert_eq!(order.carry_out(Some(&bound), &info, at), Ok(bound.clone()), "it may be repeated");
        let stranger = OperatorKey::from_seed([2; 32]);
        let foreign = stranger.sign_fence(&info, db.clone(), Some(&bound), bind("b"));
        assert!(matches!(foreign.carry_out(Some(&bound), &info, at), Err(Refusal::WrongKey { .. })));
        let mut forged = operator.sign_fence(&info, db.clone(), Some(&bound), bind("b"));
        forged.order.change = bind("c");
        assert!(matches!(forged.carry_out(Some(&bound), &info, at), Err(Refusal::WrongKey { .. })));
        let other = StoreInfo { id: StoreId([2; 8]), ..info.clone() };
        let elsewhere = operator.sign_fence(&other, db.clone(), Some(&bound), bind("b"));
        assert!(matches!(elsewhere.carry_out(Some(&bound), &info, at), Err(Refusal::WrongKey { .. })));
        let again = operator.sign_fence(&info, db.clone(), Some(&bound), bind("b"));
        let second = again.carry_out(Some(&bound), &info, at).unwrap();
        assert!(second.position() > bound.position());
        assert!(
            matches!(order.carry_out(Some(&second), &info, at), Err(Refusal::Invalid { .. })),
            "it does not come again"
        );
        let restored = StoreInfo { floor: 1 << 32, ..info.clone() };
        for (recorded, fence) in [(&order, None), (&again, Some(&bound))] {
            let replayed = recorded.carry_out(fence, &restored, at);
            assert!(matches!(replayed, Err(Refusal::Invalid { .. })), "{replayed:?}");
            let anew = operator.sign_fence(&restored, db.clone(), fence, bind("b"));
            assert!(anew.carry_out(fence, &restored, at).is_ok());
        }
        let nothing = operator.sign_fence(&info, db, None, FenceChange::Free);
        assert!(matches!(nothing.carry_out(None, &info, at), Err(Refusal::Invalid { .. })));
    }

    #[test]
    fn the_mark_of_each_election_is_kept_and_their_number_is_bounded() {
        let (_, info, db) = setting();
        let named = |number: usize| format!("e-{number}").parse::<ElectionName>().unwrap();
        let mut fence = Fence::new(db, info.id, named(0));
        for number in 1..=MAX_FORMER {
            fence.highest = Epoch(number as u64);
            let before = fence.position();
            fence = fence.bound_to(&named(number), info.id).unwrap();
            assert!(fence.highest == Epoch(0) && fence.position() > before);
        }
        fence.highest = Epoch(99);
        assert!(matches!(fence.bound_to(&named(1_000), info.id), Err(Refusal::Invalid { .. })));
        assert!(
            matches!(fence.bound_to(&named(4), StoreId([2; 8])), Err(Refusal::Invalid { .. })),
            "the same name in another store is another election"
        );
        let back = fence.bound_to(&named(4), info.id).unwrap();
        assert_eq!(back.highest, Epoch(5));
        assert_eq!(back.bound_to(&fence.election, info.id).unwrap().highest, Epoch(99));
    }
}
