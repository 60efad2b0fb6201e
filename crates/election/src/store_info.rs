//! What a store knows of itself.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::id::StoreId;
use crate::operator::PublicKey;
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
    /// How often they were changed by a signed order; each is signed for its number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub orders: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
