//! Records of the store, as a server shows them.

use std::collections::BTreeMap;

use baton_election::TokenId;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::uses::TokenUse;

/// A record as the store keeps it. All fields are null if there is none.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordResponse {
    /// The record, in the format of the store.
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Map<String, serde_json::Value>>"))]
    pub record: Option<Box<RawValue>>,
    /// Changes whenever the record does.
    pub version: Option<String>,
    /// A lower bound on the time since the last renewal.
    pub age_ms: Option<u64>,
}

impl RecordResponse {
    /// There is no such record.
    pub fn none() -> RecordResponse {
        RecordResponse { record: None, version: None, age_ms: None }
    }
}

/// The access tokens as a record, and when and from where each was used since this server began.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokensResponse {
    /// The record, in the format of the store, without the hashes of the tokens.
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Map<String, serde_json::Value>"))]
    pub record: Box<RawValue>,
    /// Changes whenever the record does.
    pub version: String,
    /// Always null: a list of tokens has no lease.
    pub age_ms: Option<u64>,
    /// The last use of each token that was used.
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, TokenUse>"))]
    pub uses: BTreeMap<TokenId, TokenUse>,
}
