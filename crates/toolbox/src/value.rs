//! Versioned state: small named values that the leader writes and its successor inherits.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;

use baton_election::time::WallTime;
use baton_election::{AgentName, ElectionName, Epoch, ItemName, Refusal};
use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::item::{Kind, called};
use crate::mandate::{Mandate, Sight};

/// The longest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 64 * 1024;
/// How many versions are kept at most.
pub const KEPT_VERSIONS: usize = 16;
/// How many bytes all versions together have at most: as many of the last as fit are kept, and always the last.
pub const KEPT_BYTES: usize = 256 * 1024;

/// A named value, with its last versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Value {
    /// Whose leader writes it.
    pub election: ElectionName,
    /// By what it is known.
    pub name: ItemName,
    /// The highest epoch in which a leader wrote it.
    pub fence: Epoch,
    /// The last versions, the newest last.
    pub versions: VecDeque<Version>,
}

/// A value as it was once put.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Version {
    /// Its number, from 1 on.
    pub version: u64,
    /// The value: any text.
    pub value: String,
    /// Who put it.
    pub by: AgentName,
    /// In which epoch.
    pub epoch: Epoch,
    /// When, for people.
    pub at: WallTime,
}

/// Puts a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Put {
    /// The leader's.
    pub mandate: Mandate,
    /// The version that it takes the place of, 0 if there is none; without it, of any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// The value: any text.
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_VALUE_BYTES)))]
    pub value: String,
}

impl Value {
    /// The newest version.
    pub fn latest(&self) -> Option<&Version> {
        self.versions.back()
    }

    /// The number of the newest version.
    pub fn version(&self) -> u64 {
        self.latest().map_or(0, |latest| latest.version)
    }

    fn bytes(&self) -> usize {
        self.versions.iter().map(|version| version.value.len()).sum()
    }
}

/// Puts a value. None if this was put just before: a request whose answer was lost may be sent again.
pub fn put(
    found: Option<&Value>,
    name: &ItemName,
    asked: &Put,
    sight: &Sight<'_>,
) -> Result<Option<Value>, Refusal> {
    bounds::check("value", &asked.value, MAX_VALUE_BYTES)?;
    let leader = asked.mandate.check_for(found.map_or(Epoch(0), |value| value.fence), sight)?;
    let current = found.map_or(0, Value::version);
    let latest = found.and_then(Value::latest);
    let same =
        latest.is_some_and(|latest| latest.value == asked.value && latest.epoch == asked.mandate.token);
    if same && asked.expected.is_none_or(|expected| expected.checked_add(1) == Some(current)) {
        return Ok(None);
    }
    if asked.expected.is_some_and(|expected| expected != current) {
        return Err(Refusal::out_of_turn(
            format!("{} is at version {current}", called(Kind::Value, name)),
            "look at it again, and put it on top of that",
        ));
    }
    let mut next = match found {
        Some(value) => value.clone(),
        None => Value {
            election: sight.election.clone(),
            name: name.clone(),
            fence: Epoch(0),
            versions: VecDeque::new(),
        },
    };
    next.fence = asked.mandate.token;
    next.versions.push_back(Version {
        version: current + 1,
        value: asked.value.clone(),
        by: leader.agent.clone(),
        epoch: asked.mandate.token,
        at: sight.wall,
    });
    while next.versions.len() > KEPT_VERSIONS || (next.versions.len() > 1 && next.bytes() > KEPT_BYTES) {
        next.versions.pop_front();
    }
    Ok(Some(next))
}
