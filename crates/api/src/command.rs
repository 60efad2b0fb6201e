//! Commands on an election, and their results.

use baton_election::time::Span;
use baton_election::{AgentName, Answer, Credential, Document, Epoch};
use serde::{Deserialize, Serialize};

use crate::sessions::NotifyReport;

/// A command that was carried out.
#[derive(Clone, Debug)]
pub struct Decided {
    /// What is answered.
    pub answer: Answer,
    /// The document after it; none after a plain renewal, which changes nothing that anybody wants to see.
    pub document: Option<Box<Document>>,
    /// How long the leader's lease lasts after it, if there is one.
    pub ttl: Option<Span>,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommandResponse {
    /// What came of it.
    pub answer: Answer,
    /// How long the leader's lease lasts after it, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// The election after it. A plain renewal has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Box<Document>>,
    /// Which followers know of a release, if the request asked for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notified: Option<NotifyReport>,
}

impl CommandResponse {
    /// The answer to a renewal that changed nothing else.
    pub fn renewed(answer: Answer, ttl: Span) -> CommandResponse {
        CommandResponse { answer, ttl_ms: Some(ttl.as_millis()), document: None, notified: None }
    }
}

impl From<Decided> for CommandResponse {
    fn from(decided: Decided) -> CommandResponse {
        let Decided { answer, document, ttl } = decided;
        CommandResponse { answer, ttl_ms: ttl.map(Span::as_millis), document, notified: None }
    }
}

impl From<CommandResponse> for Decided {
    fn from(response: CommandResponse) -> Decided {
        let CommandResponse { answer, ttl_ms, document, notified: _ } = response;
        Decided { answer, document, ttl: ttl_ms.map(Span::millis) }
    }
}

/// Asks whether a token may act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CheckRequest {
    /// The token.
    pub token: Epoch,
}

/// The token of a check may act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckResponse {
    /// What came of it.
    pub answer: CheckAnswer,
}

/// The answer to a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum CheckAnswer {
    /// The token may act.
    Current {
        /// The token.
        token: Epoch,
    },
}

/// Ends a candidacy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WithdrawRequest {
    /// The candidate.
    pub agent: AgentName,
    /// The proof that the candidacy is its own.
    pub credential: Credential,
}

/// Whether there was a candidacy to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WithdrawResponse {
    /// False if the agent was no candidate.
    pub withdrawn: bool,
}
