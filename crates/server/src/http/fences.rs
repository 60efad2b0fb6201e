//! Requests about fences. A fence belongs to the election that it is bound to, and a hold to the agent that was admitted.

use baton_election::fence::Entry;
use baton_election::time::Span;
use baton_election::{AgentName, ElectionName, Epoch, Fence, Incarnation, Refusal, ResourceName};
use baton_store::{Key, Record, Store};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Service;
use super::calls::{Call, Nothing};
use super::limits::Says;
use super::reply::{Problem, Reply, json as answer};
use crate::metrics::At;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Admission {
    token: Epoch,
    election: Option<ElectionName>,
    agent: Option<AgentName>,
    #[serde(default)]
    note: String,
    hold: Option<HoldFor>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HoldFor {
    incarnation: Incarnation,
    ttl_ms: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    election: ElectionName,
    incarnation: Incarnation,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Left {
    incarnation: Incarnation,
}

impl Service {
    pub(super) async fn sees_fence(&self, call: &Call<'_>, resource: &ResourceName) -> Result<bool, Problem> {
        let identity = &call.who.identity;
        if identity.sees_all() {
            return Ok(true);
        }
        let fence = self.known_fence(resource).await?;
        Ok(fence.is_some_and(|fence| identity.sees(fence.election.as_str())))
    }

    pub(super) async fn fence(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let resource = call.resource()?;
        self.visible_fence(call, &resource).await?;
        self.record(&Key::Fence(resource)).await
    }

    pub(super) async fn fence_log(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let part = call.name(1).parse();
        let part = part.map_err(|_| Problem::invalid("a part has a number", "begin with 0"))?;
        let resource = call.resource()?;
        self.visible_fence(call, &resource).await?;
        self.record(&Key::FenceLog(resource, part)).await
    }

    pub(super) async fn admit(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let Admission { token, election, agent, note, hold } = call.json()?;
        let (resource, identity) = (call.resource()?, &call.who.identity);
        if let Some(election) = &election {
            identity.check_election(election)?;
        }
        if agent.is_some() || hold.is_some() {
            identity.check_some_agent(agent.as_ref())?;
        }
        self.visible_fence(call, &resource).await?;
        let says = match (&agent, &hold) {
            (Some(agent), _) => Says::Agent(agent),
            (None, Some(hold)) => Says::Hold(hold.incarnation),
            (None, None) => Says::Nothing,
        };
        self.throttle.take(call.who, says)?;
        if let Some(hold) = &hold {
            self.check_hold(call, &resource, hold.incarnation).await?;
        }
        let hold = hold.map(|hold| (hold.incarnation, Span::millis(hold.ttl_ms)));
        let entry = Entry { resource: &resource, token, agent: agent.as_ref(), note: &note, hold };
        let admitted = self.coordinator.admit(&entry, election.as_ref()).await;
        if let Err(baton::Error::Refused(Refusal::Stale { .. })) = &admitted {
            self.engine.meters().stale(At::Fence);
        }
        answer(&admitted?)
    }

    pub(super) async fn keep_hold(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let Kept { election, incarnation } = call.json()?;
        let resource = call.resource()?;
        call.who.identity.check_election(&election)?;
        self.own_hold(call, &resource, incarnation).await?;
        self.coordinator.keep_hold(&resource, &election, incarnation).await?;
        answer(&Nothing {})
    }

    pub(super) async fn leave_hold(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let Left { incarnation } = call.json()?;
        let resource = call.resource()?;
        self.own_hold(call, &resource, incarnation).await?;
        self.coordinator.leave_hold(&resource, incarnation).await?;
        answer(&Nothing {})
    }

    async fn known_fence(&self, resource: &ResourceName) -> Result<Option<Fence>, Problem> {
        match self.behind.read(&Key::Fence(resource.clone())).await?.found {
            Some((Record::Fence(fence), _)) => Ok(Some(*fence)),
            Some(_) | None => Ok(None),
        }
    }

    /// A fence, refused to who does not speak of its election. Who speaks of all is asked nothing.
    async fn visible_fence(
        &self,
        call: &Call<'_>,
        resource: &ResourceName,
    ) -> Result<Option<Fence>, Problem> {
        if call.who.identity.sees_all() {
            return Ok(None);
        }
        let fence = self.known_fence(resource).await?;
        if let Some(fence) = &fence {
            call.who.identity.check_election(&fence.election)?;
        }
        Ok(fence)
    }

    /// Refuses a hold of another agent, or too much of one's own.
    async fn own_hold(
        &self,
        call: &Call<'_>,
        resource: &ResourceName,
        mine: Incarnation,
    ) -> Result<(), Problem> {
        self.throttle.take_for_hold(resource, mine)?;
        self.visible_fence(call, resource).await?;
        self.check_hold(call, resource, mine).await
    }

    /// Refuses a hold of another agent: everybody who may look can see by what it is known.
    async fn check_hold(
        &self,
        call: &Call<'_>,
        resource: &ResourceName,
        mine: Incarnation,
    ) -> Result<(), Problem> {
        if call.who.identity.check_some_agent(None).is_ok() {
            return Ok(());
        }
        let Some(fence) = self.known_fence(resource).await? else { return Ok(()) };
        match fence.hold.as_ref().filter(|hold| hold.incarnation == mine) {
            // The admission of a running hold is the last one.
            Some(_) => {
                let agent = fence.tail.last().and_then(|last| last.agent.as_ref());
                call.who.identity.check_some_agent(agent)
            }
            None => Ok(()),
        }
    }
}
