//! Browsers that sign in at the server's page, and the orders that they sign.

use std::collections::BTreeMap;

use baton_election::StoreId;
use baton_election::document::Pause;
use baton_election::operator::{Act, PublicKey};
use baton_election::store_order::StoreChange;
use baton_election::store_quorum::OrderKind;
use serde::{Deserialize, Serialize};

/// What the page knows of the server and of its own sign-in.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PageStatus {
    /// The store, for which orders are signed.
    pub store: StoreId,
    /// The run of the server, for which delegations are signed.
    pub server: String,
    /// The version of the server.
    pub version: String,
    /// By whom, when and why everything was paused, if it is.
    pub paused: Option<Pause>,
    /// The orders on the store that wait for more operators. Empty for a token that is limited to some elections.
    pub waiting: Vec<WaitingOrder>,
    /// The names of the operators.
    pub operators: BTreeMap<PublicKey, String>,
    /// The server only observes: it takes no commands and no acts.
    pub observes: bool,
    /// The browser's own sign-in, if it has one.
    pub signed_in: Option<SignInView>,
}

/// An order on the store that waits for more operators.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitingOrder {
    /// The kind of order.
    pub what: OrderKind,
    /// How many operators have signed it.
    pub have: usize,
    /// How many must.
    pub need: usize,
}

/// A sign-in that is not over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SignInView {
    /// The browser's key.
    pub key: PublicKey,
    /// The operator for whom the browser acts.
    pub operator: PublicKey,
    /// How much longer it lasts.
    pub lasts_ms: u64,
}

/// Signs in with the code of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OpenSignInRequest {
    /// The code.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^[0-9a-f]{64}$")))]
    pub code: String,
}

/// Signs out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CloseSignInRequest {
    /// The browser's key.
    pub key: PublicKey,
}

/// Whether there was a sign-in to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CloseSignInResponse {
    /// False if the browser was not signed in.
    pub closed: bool,
}

/// Asks for the order that a browser signs for an act.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DraftActRequest {
    /// The browser's key.
    pub key: PublicKey,
    /// The act.
    pub act: Act,
}

/// Asks for the order that a browser signs for a change of the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DraftStoreOrderRequest {
    /// The browser's key.
    pub key: PublicKey,
    /// The change.
    pub change: StoreChange,
}

/// The exact text to sign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DraftResponse {
    /// An order, as JSON. An act is signed with `baton operator order 1` and a line break before it, an order on the
    /// store with `baton operator store 1`.
    pub text: String,
    /// The delegation that goes with the signature, as JSON.
    pub via: String,
}
