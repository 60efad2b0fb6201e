//! What an operator orders, signed: for one store and with a number, so that it is neither moved to another nor played again.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::delegation::{Via, operator};
use crate::id::StoreId;
use crate::operator::{OperatorKey, PublicKey};
use crate::refusal::Refusal;
use crate::store_info::StoreInfo;

/// Something that an operator orders.
pub trait Order: Serialize {
    /// What stands before its text where it is signed: an order of one kind is none of another.
    const KIND: &'static str;

    /// The store that it is for.
    fn store(&self) -> StoreId;

    /// Whether a browser may sign it in an operator's stead.
    fn is_delegable(&self) -> bool {
        false
    }
}

/// An order, and by whom it was signed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Signed{O}"))]
#[serde(deny_unknown_fields)]
pub struct Signed<O> {
    /// What is ordered.
    pub order: O,
    /// By whom.
    pub by: PublicKey,
    /// The signature over the order.
    #[serde(with = "crate::hex::as_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Signature"))]
    pub signature: [u8; 64],
    /// By what a browser signs in an operator's stead, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Via,
}

impl OperatorKey {
    /// Signs an order.
    pub(crate) fn sign_order<O: Order>(&self, order: O) -> Signed<O> {
        let signature = self.sign_bytes(&signed_bytes(&order));
        Signed { order, by: self.public(), signature, via: None }
    }
}

impl<O> Signed<O> {
    /// The operator whose order it is: the signer, or the operator who let a browser sign.
    pub fn operator(&self) -> PublicKey {
        operator(self.by, &self.via)
    }
}

impl<O: Order> Signed<O> {
    /// Refuses an order that its signer did not sign, or that a browser signed without being allowed to.
    pub(crate) fn check_signature(&self) -> Result<(), Refusal> {
        let wrong = |why: &str| Err(Refusal::WrongKey { why: why.to_string() });
        if let Some(via) = &self.via {
            if !self.order.is_delegable() {
                return wrong("this takes the operator's own key");
            }
            if via.order.store != self.order.store() || via.order.key != self.by {
                return wrong("the delegation is for another store or another browser");
            }
            via.check_signature()?;
        }
        if self.by.signed(&signed_bytes(&self.order), &self.signature) {
            return Ok(());
        }
        wrong("the operator's signature does not fit")
    }

    /// Refuses what was signed for another store than this one.
    pub(crate) fn check_store(&self, info: &StoreInfo) -> Result<(), Refusal> {
        let signed_for = self.order.store();
        if signed_for == info.id {
            return Ok(());
        }
        Err(Refusal::WrongKey { why: format!("the order was signed for the store {signed_for}") })
    }

    /// Refuses what none of the store's operators signed.
    pub(crate) fn check_operator(&self, info: &StoreInfo) -> Result<(), Refusal> {
        let operator = self.operator();
        if info.operator_keys.contains(&operator) {
            return Ok(());
        }
        Err(Refusal::WrongKey { why: format!("the key {operator} is not an operator's in this store") })
    }
}

fn signed_bytes<O: Order>(order: &O) -> Vec<u8> {
    let text = serde_json::to_string(order).unwrap_or_default();
    assert!(!text.is_empty(), "an order is always expressible");
    format!("baton operator {} 1\n{text}", O::KIND).into_bytes()
}
