//! Why a command was refused. Refusals are data, each with its facts; nothing was changed.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::document::{Cause, Document, Question};
use crate::id::Epoch;
use crate::name::AgentName;
use crate::time::{Span, WallTime, as_millis, as_optional_millis};

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "code")]
pub enum Refusal {
    /// Another holds the lease, or held it and its lease may still be running.
    Held {
        /// Who.
        by: Option<AgentName>,
        /// The current epoch.
        epoch: Epoch,
        /// The longest that the lease can still last, as this caller knows.
        #[serde(rename = "remaining_ms", with = "as_millis")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        remaining: Span,
        /// The leadership has ended; only its lease is waited for.
        ending: Option<Cause>,
    },
    /// The token, or the leadership, is a thing of the past.
    Stale {
        /// What was shown.
        shown: Epoch,
        /// What is current.
        current: Epoch,
        /// The current leader, if there is one.
        leader: Option<AgentName>,
        /// What happened to it.
        why: String,
    },
    /// This agent may not lead this election, or not yet.
    NotEligible {
        /// Why.
        why: String,
        /// After what time it may, if time is all it takes.
        #[serde(rename = "retry_in_ms", with = "as_optional_millis")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
        retry_in: Option<Span>,
    },
    /// An operator paused the election.
    Paused {
        /// What the operator said.
        reason: String,
        /// Since when, for people.
        since: WallTime,
    },
    /// An operator must approve first.
    AwaitingApproval {
        /// What is asked.
        question: Option<Question>,
    },
    /// The key does not fit: of the lease, or of an operator.
    WrongKey {
        /// Which key, and why it does not fit.
        why: String,
    },
    /// There is no such election.
    UnknownElection {
        /// Its name.
        election: String,
    },
    /// There is no such item in the leader's toolbox.
    NoSuchItem {
        /// Which, in words.
        item: String,
    },
    /// The command is a good one, but not for what this item has become.
    OutOfTurn {
        /// How the item stands.
        why: String,
        /// What to do.
        hint: String,
    },
    /// A share of something, or the room for something, is used up.
    Exhausted {
        /// What.
        why: String,
        /// After what time there is more, if time is all it takes.
        #[serde(rename = "retry_in_ms", with = "as_optional_millis")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
        retry_in: Option<Span>,
    },
    /// The command makes no sense.
    Invalid {
        /// What is wrong with it.
        why: String,
        /// What to do.
        hint: String,
    },
}

/// How the `why` of a token begins whose leadership goes on under a later one, as after an approval: its agent need not campaign.
pub(crate) const GOES_ON: &str = "that leadership goes on with token";

/// How the `why` begins of a worker that was told something in an older epoch than it has heard of: it leads nothing, and cannot mend that itself.
pub const OLDER_INSTRUCTION: &str = "the instruction has an older token than this worker has heard of";

/// How the `why` begins of one who may not lead since something fails that it depends on.
pub(crate) const DEPENDENCY: &str = "its dependency";

/// How the `why` begins of one who may not lead since it leads no region: an operator's appointment would not help it.
pub(crate) const ONLY_REGIONS: &str = "only who leads a region of";

/// How the `why` begins of one who may not lead since it has an open circuit breaker.
pub(crate) const OPEN_BREAKER: &str = "its circuit breaker for";

/// The `why` of one who may perhaps lead, once somebody has looked at its circuit breakers.
pub(crate) const NOT_LOOKED_AT: &str = "its circuit breakers were not looked at";

/// Why no token of a retired election is current.
pub(crate) const FORGOTTEN: &str = "an operator retired the election";

impl Refusal {
    /// A refusal of nonsense.
    pub fn invalid(why: impl ToString, hint: impl ToString) -> Refusal {
        Refusal::Invalid { why: why.to_string(), hint: hint.to_string() }
    }

    /// The refusal while a lease may be running, with the age of the document's last beat; none if nobody holds one.
    pub fn held(document: &Document, age: Span) -> Option<Refusal> {
        let holder = document.lease_holder()?;
        Some(Refusal::Held {
            by: Some(holder.agent.clone()),
            epoch: document.epoch,
            remaining: document.lease_remaining(age),
            ending: document.departure.as_ref().map(|departure| departure.cause),
        })
    }

    /// A refusal of what does not fit how an item stands.
    pub fn out_of_turn(why: impl ToString, hint: impl ToString) -> Refusal {
        Refusal::OutOfTurn { why: why.to_string(), hint: hint.to_string() }
    }

    /// Whether the committer of the decision must first look at the candidate's circuit breakers.
    pub fn asks_for_breakers(&self) -> bool {
        matches!(self, Refusal::NotEligible { why, .. } if why == NOT_LOOKED_AT)
    }

    /// The stable word for the kind of refusal.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::Held { .. } => "held",
            Refusal::Stale { .. } => "stale",
            Refusal::NotEligible { .. } => "not-eligible",
            Refusal::Paused { .. } => "paused",
            Refusal::AwaitingApproval { .. } => "awaiting-approval",
            Refusal::WrongKey { .. } => "wrong-key",
            Refusal::UnknownElection { .. } => "unknown-election",
            Refusal::NoSuchItem { .. } => "no-such-item",
            Refusal::OutOfTurn { .. } => "out-of-turn",
            Refusal::Exhausted { .. } => "exhausted",
            Refusal::Invalid { .. } => "invalid",
        }
    }

    /// What the caller can do about it.
    pub fn hint(&self) -> String {
        match self {
            Refusal::Held { remaining, .. } if *remaining > Span::ZERO => {
                format!("wait for a release, or at most {remaining} for the lease to end if it is not renewed")
            }
            Refusal::Held { .. } => "wait for a release".to_string(),
            Refusal::Stale { shown, current, .. } if shown > current => {
                "check the token, and the election and store that it is shown to".to_string()
            }
            Refusal::Stale { why, .. } if why.starts_with(GOES_ON) => {
                "its agent learns its token by `baton renew`, or under `baton run` from $BATON_TOKEN_FILE".to_string()
            }
            Refusal::Stale { why, .. } if why.starts_with(OLDER_INSTRUCTION) => {
                "wait until the leader has given it again: baton task assign ELECTION --inherited, by the leader".to_string()
            }
            Refusal::Stale { .. } => {
                "look again with `baton status`; work under this token must stop, and its agent campaign again"
                    .to_string()
            }
            Refusal::NotEligible { why, retry_in: Some(span) } if why.starts_with(OPEN_BREAKER) => {
                format!("try again in {span}; `baton breaker list` shows it, and an operator can reset it: baton breaker reset ELECTION")
            }
            Refusal::NotEligible { retry_in: Some(span), .. } => format!("try again in {span}"),
            Refusal::NotEligible { why, .. } if why.starts_with(ONLY_REGIONS) => {
                "lead a region first: run this under the `baton run` of that region, or acquire with --region".to_string()
            }
            Refusal::NotEligible { why, .. } if why.starts_with(DEPENDENCY) => {
                "it may lead once it no longer says so: by --failing, or in what --describe names".to_string()
            }
            Refusal::NotEligible { retry_in: None, .. } => {
                "an operator can change the policy or appoint this agent".to_string()
            }
            Refusal::Paused { .. } => "an operator resumes it with `baton resume ELECTION`, or everything with `baton resume --all`".to_string(),
            Refusal::AwaitingApproval { .. } => {
                "an operator decides with `baton approve ELECTION` or `baton reject ELECTION`".to_string()
            }
            Refusal::WrongKey { .. } => {
                "the lease key is in the state folder of the user that acquired, or in BATON_KEY; an operator's in its configuration folder".to_string()
            }
            Refusal::UnknownElection { .. } => {
                "check the name and the store (`baton status` lists all elections); `baton acquire` or `baton run` makes one".to_string()
            }
            Refusal::NoSuchItem { .. } => {
                "check its name and the election: `baton task list`, `baton proposal list`, `baton quota show` and `baton state list` show what there is".to_string()
            }
            Refusal::Exhausted { retry_in: Some(span), .. } => format!("try again in {span}"),
            Refusal::Exhausted { retry_in: None, .. } => "the leader can make room".to_string(),
            Refusal::OutOfTurn { hint, .. } | Refusal::Invalid { hint, .. } => hint.clone(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Held { by: Some(by), epoch, ending: None, .. } => {
                write!(f, "held by {by} (token {epoch})")
            }
            Refusal::Held { by: Some(by), ending: Some(cause), .. } => {
                write!(f, "the leadership of {by} was ended ({cause}), but its lease may still be running")
            }
            Refusal::Held { by: None, epoch, .. } => {
                write!(f, "held under token {epoch}, and that lease may still be running")
            }
            Refusal::Stale { shown, current, why, .. } if shown > current => {
                write!(f, "token {shown} is not valid (current token {current}): {why}")
            }
            // Nobody holds the newest token.
            Refusal::Stale { shown, current, leader: None, why } if shown == current => {
                write!(f, "token {shown} is stale: {why}")
            }
            Refusal::Stale { shown, current, why, .. } => {
                write!(f, "token {shown} is stale (current token {current}): {why}")
            }
            Refusal::NotEligible { why, .. } => write!(f, "not eligible: {why}"),
            Refusal::Paused { reason, since } if reason.is_empty() => {
                write!(f, "paused by an operator since {since}")
            }
            Refusal::Paused { reason, since } => write!(f, "paused by an operator since {since}: {reason}"),
            Refusal::AwaitingApproval { question } => match question {
                Some(Question::Checkpoint { .. }) => {
                    f.write_str("an operator must approve the checkpoint first")
                }
                Some(Question::MoreTime) | None => f.write_str("an operator must approve more time first"),
            },
            Refusal::WrongKey { why } => f.write_str(why),
            Refusal::UnknownElection { election } => write!(f, "there is no election `{election}`"),
            Refusal::NoSuchItem { item } => write!(f, "there is no {item}"),
            Refusal::OutOfTurn { why, .. }
            | Refusal::Exhausted { why, .. }
            | Refusal::Invalid { why, .. } => f.write_str(why),
        }
    }
}

impl core::error::Error for Refusal {}
