//! Proposals: agents propose, the leader decides, the record stays.

use alloc::format;
use alloc::string::String;

use baton_election::time::WallTime;
use baton_election::{AgentName, ElectionName, Epoch, ItemName, Refusal};
use serde::{Deserialize, Serialize};

use crate::bounds::{self, MAX_BODY_BYTES, MAX_NOTE_BYTES};
use crate::item::{Kind, called};
use crate::mandate::{Mandate, Sight};

/// A proposal, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Proposal {
    /// To the leader of what.
    pub election: ElectionName,
    /// By what it is known.
    pub id: ItemName,
    /// Who proposes.
    pub by: AgentName,
    /// One line for people.
    pub title: String,
    /// What is proposed, in as many words as it takes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// What it concerns: a task, a file, a value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// When, for people.
    pub made: WallTime,
    /// What the leader decided; none while it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ruling: Option<Ruled>,
}

/// What a leader decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ruled {
    /// It shall be so.
    pub accepted: bool,
    /// Why.
    pub reason: String,
    /// Who decided.
    pub by: AgentName,
    /// In which epoch.
    pub epoch: Epoch,
    /// When, for people.
    pub at: WallTime,
}

/// Proposes something. To propose the same again under the same id changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Propose {
    /// By what it shall be known.
    pub id: ItemName,
    /// Who proposes.
    pub by: AgentName,
    /// One line for people.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = crate::MAX_TITLE_BYTES)))]
    pub title: String,
    /// What is proposed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_BODY_BYTES)))]
    pub body: String,
    /// What it concerns.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_NOTE_BYTES)))]
    pub about: String,
}

/// Decides on a proposal. The first decision stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Ruling {
    /// The leader's.
    pub mandate: Mandate,
    /// It shall be so.
    pub accept: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_NOTE_BYTES)))]
    pub reason: String,
}

/// Makes a proposal. None if it was made before.
pub fn propose(
    found: Option<&Proposal>,
    asked: &Propose,
    sight: &Sight<'_>,
) -> Result<Option<Proposal>, Refusal> {
    bounds::check_title(&asked.title)?;
    bounds::check("body", &asked.body, MAX_BODY_BYTES)?;
    bounds::check("word on what it concerns", &asked.about, MAX_NOTE_BYTES)?;
    sight.document()?;
    let Propose { id, by, title, body, about } = asked.clone();
    match found {
        Some(there)
            if there.by == by && there.title == title && there.body == body && there.about == about =>
        {
            Ok(None)
        }
        Some(_) => Err(Refusal::out_of_turn(
            format!("{} is another one", called(Kind::Proposal, &id)),
            "use another id for another proposal",
        )),
        None => Ok(Some(Proposal {
            election: sight.election.clone(),
            id,
            by,
            title,
            body,
            about,
            made: sight.wall,
            ruling: None,
        })),
    }
}

/// Decides on a proposal. None if it was decided so before.
pub fn rule(proposal: &Proposal, ruling: &Ruling, sight: &Sight<'_>) -> Result<Option<Proposal>, Refusal> {
    bounds::check("reason", &ruling.reason, MAX_NOTE_BYTES)?;
    let leader = ruling.mandate.check(sight)?;
    match &proposal.ruling {
        None => Ok(Some(Proposal {
            ruling: Some(Ruled {
                accepted: ruling.accept,
                reason: ruling.reason.clone(),
                by: leader.agent.clone(),
                epoch: ruling.mandate.token,
                at: sight.wall,
            }),
            ..proposal.clone()
        })),
        Some(ruled) if ruled.accepted == ruling.accept && ruled.epoch == ruling.mandate.token => Ok(None),
        Some(ruled) => Err(Refusal::out_of_turn(
            format!(
                "{} was {} by {} (token {})",
                called(Kind::Proposal, &proposal.id),
                if ruled.accepted { "accepted" } else { "rejected" },
                ruled.by,
                ruled.epoch
            ),
            "the first decision stands; propose it anew",
        )),
    }
}
