//! The state of a server itself.

use serde::{Deserialize, Serialize};

/// The request was carried out. There is nothing else to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EmptyResponse {}

/// The server can decide and write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadinessResponse {
    /// Always true: a server that is not ready answers with an error.
    pub ready: bool,
    /// The active server, if that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<String>,
}
