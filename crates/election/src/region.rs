//! Regions: an election that only those may lead who lead an election below it.
//!
//! A region of `fleet` is an election whose name is that of `fleet` and one segment more: `fleet/eu`. So every election has at most one
//! parent, which its name tells, and no two can be below each other. Whoever asks to lead the fleet shows that it leads a region: the
//! region's name, its epoch and the key of its lease.
//!
//! Assumes that who commits the decision has looked at the region itself just before ([`Proof::seen`]); what is not looked at is refused.
//! Guarantees that nobody is granted the fleet, and nobody's lease of it is lengthened, whom the look did not show as the region's leader
//! under that key; a renewal of one whose region has moved on ends the leadership, with a new epoch. Does not guarantee that the fleet's token is
//! refused in the very moment in which the region is lost: two documents are not swapped at once. The region may be lost between the look and the
//! swap, and after it until the next renewal; the holder's deadline, which is the earlier of both, is what its work must have stopped by.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::document::{Document, Leader};
use crate::id::{Credential, Epoch, StoreId};
use crate::name::{AgentName, ElectionName};
use crate::refusal::{ONLY_REGIONS, Refusal};
use crate::time::Span;

/// How many elections may stand above each other, the lowest and the highest included.
pub const MAX_DEPTH: usize = 8;

/// The region from which somebody leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Region {
    /// Its name.
    pub election: ElectionName,
    /// Its epoch, as the last renewal showed it.
    pub epoch: Epoch,
    /// The store that it is in, which may be another than the fleet's.
    pub store: StoreId,
}

/// That somebody leads a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// The region.
    pub election: ElectionName,
    /// The token that it holds there.
    #[serde(rename = "token")]
    pub epoch: Epoch,
    /// The proof that it is the holder.
    pub credential: Credential,
    /// What who commits the decision has seen of the region; nobody else can say it.
    #[serde(skip)]
    pub seen: Option<Arc<RegionReading>>,
}

/// A region as it was just looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionReading {
    /// Its document; none if there is no such election.
    pub document: Option<Document>,
    /// A lower bound on the time since its last beat.
    pub age: Span,
}

/// What is wrong with a proof.
pub(crate) enum Flaw {
    /// It proves nothing.
    Refused(Refusal),
    /// It proved something once: the region has moved on.
    Over(String),
}

/// The election above, if the name has more than one segment.
pub fn parent(election: &ElectionName) -> Option<ElectionName> {
    let (above, _) = election.as_str().rsplit_once('/')?;
    ElectionName::new(above).ok()
}

/// Refuses as a region of `fleet` whatever is not right below it: itself, what stands above it, a stranger.
pub fn check_name(fleet: &ElectionName, region: &ElectionName) -> Result<(), Refusal> {
    if parent(region).as_ref() != Some(fleet) {
        return Err(Refusal::invalid(
            format!("`{region}` is not a region of `{fleet}`"),
            format!(
                "a region of `{fleet}` is an election right below it, such as {fleet}/eu; so none is above itself"
            ),
        ));
    }
    check_depth(region)
}

/// Refuses an election too far down.
fn check_depth(election: &ElectionName) -> Result<(), Refusal> {
    let depth = election.as_str().split('/').count();
    if depth > MAX_DEPTH {
        return Err(Refusal::invalid(
            format!("`{election}` is {depth} levels deep; regions go down {MAX_DEPTH} at most"),
            "put it higher up",
        ));
    }
    Ok(())
}

/// Refuses regions of an election so far down that they could not lead it.
pub(crate) fn check_fleet(fleet: &ElectionName) -> Result<(), Refusal> {
    match ElectionName::new(&format!("{fleet}/x")) {
        Ok(region) => check_depth(&region),
        Err(_) => Err(Refusal::invalid(
            format!("`{fleet}` is so long that no region below it has a name"),
            "give it a shorter name",
        )),
    }
}

/// From which region this agent may lead the fleet.
pub(crate) fn check(fleet: &ElectionName, agent: &AgentName, proof: &Proof) -> Result<Region, Flaw> {
    let name = &proof.election;
    check_name(fleet, name).map_err(Flaw::Refused)?;
    let Some(seen) = &proof.seen else {
        return Err(Flaw::Refused(Refusal::invalid(
            format!("`{name}` was not looked at"),
            "a lease under a region is renewed by itself, not with others",
        )));
    };
    let Some(document) = &seen.document else {
        return Err(Flaw::Over(format!("there is no election `{name}` here")));
    };
    let Some(leader) = document.current_leader(seen.age) else {
        return Err(Flaw::Over(format!("nobody leads `{name}` (token {})", document.epoch)));
    };
    if leader.incarnation != proof.credential.incarnation {
        return Err(Flaw::Over(format!("{} leads `{name}` (token {})", leader.agent, document.epoch)));
    }
    if !proof.credential.key.opens(&leader.key_hash) {
        return Err(Flaw::Refused(Refusal::WrongKey {
            why: format!("the lease key of `{name}` does not fit"),
        }));
    }
    if proof.epoch < leader.granted || proof.epoch > leader.epoch {
        return Err(Flaw::Over(format!("token {} is not of the leadership of `{name}`", proof.epoch)));
    }
    same_agent(agent, leader, name).map_err(Flaw::Refused)?;
    Ok(Region { election: name.clone(), epoch: leader.epoch, store: document.store })
}

fn same_agent(agent: &AgentName, leader: &Leader, region: &ElectionName) -> Result<(), Refusal> {
    if leader.agent == *agent {
        return Ok(());
    }
    let why = format!("{} leads `{region}`, not {agent}", leader.agent);
    Err(Refusal::NotEligible { why, retry_in: None })
}

/// Why an agent without a region may not lead the fleet.
pub(crate) fn none_shown(fleet: &ElectionName) -> Refusal {
    Refusal::NotEligible {
        why: format!("{ONLY_REGIONS} `{fleet}`, such as {fleet}/eu, may lead it, and none was shown"),
        retry_in: None,
    }
}

/// Why an agent whose region has moved on may not lead the fleet.
pub(crate) fn over(why: &str) -> Refusal {
    Refusal::NotEligible { why: why.to_string(), retry_in: None }
}
