//! Requests about fences. A fence belongs to the election that it is bound to, and a hold to whoever has its key.

use baton_api::fences::{AdmitRequest, HoldTerms, KeepHoldRequest, LeaveHoldRequest};
use baton_api::server::EmptyResponse;
use baton_election::bindings::{FenceChange, SignedFenceOrder};
use baton_election::fence::{Entry, HoldRequest};
use baton_election::time::Span;
use baton_election::{Credential, ElectionName, Fence, Refusal, ResourceName};
use baton_store::{Key, Record, Store};

use super::Service;
use super::calls::Call;
use super::limits::ThrottleKey;
use super::reply::{Problem, Reply, json as answer};
use crate::metrics::At;

/// As how many rows a fence counts that had to be read from the store.
const ROWS_OF_A_READ: usize = 10;

impl Service {
    pub(super) async fn sees_fence(&self, call: &Call<'_>, resource: &ResourceName) -> Result<bool, Problem> {
        let identity = &call.who.identity;
        if !identity.sees_resource(resource.as_str()) {
            return Ok(false);
        }
        if identity.sees_all() {
            return Ok(true);
        }
        let (election, was_read) = self.behind.election_of(resource).await?;
        if was_read {
            self.reads.looked_at(call.who, ROWS_OF_A_READ);
        }
        Ok(election.is_some_and(|election| identity.sees(election.as_str())))
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
        let AdmitRequest { token, election, agent, note, hold } = call.json().await?;
        let (resource, identity) = (call.resource()?, &call.who.identity);
        if let Some(election) = &election {
            identity.check_election(election)?;
        }
        if agent.is_some() || hold.is_some() {
            identity.check_some_agent(agent.as_ref())?;
        }
        self.visible_fence(call, &resource).await?;
        let says = match (&agent, &hold) {
            (Some(agent), _) => ThrottleKey::Agent(agent),
            (None, Some(hold)) => ThrottleKey::Hold(&hold.credential),
            (None, None) => ThrottleKey::Nothing,
        };
        self.throttle.take(call.who, says)?;
        self.has_room_for_fence(&resource, election.as_ref()).await?;
        let hold = hold.map(|HoldTerms { credential, ttl_ms, lease }| HoldRequest {
            credential,
            ttl: Span::millis(ttl_ms),
            lease,
        });
        let entry = Entry { resource: &resource, token, agent: agent.as_ref(), note: &note, hold };
        let admitted = self.coordinator.fences().admit(&entry, election.as_ref()).await;
        if let Err(baton::Error::Refused(Refusal::Stale { .. })) = &admitted {
            self.engine.meters().stale(At::Fence);
        }
        answer(&admitted?)
    }

    pub(super) async fn keep_hold(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let KeepHoldRequest { election, credential } = call.json().await?;
        let resource = call.resource()?;
        call.who.identity.check_election(&election)?;
        self.on_hold(call, &resource, &credential).await?;
        self.coordinator.fences().keep(&resource, &election, &credential).await?;
        answer(&EmptyResponse {})
    }

    pub(super) async fn leave_hold(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let LeaveHoldRequest { credential } = call.json().await?;
        let resource = call.resource()?;
        self.on_hold(call, &resource, &credential).await?;
        self.coordinator.fences().leave(&resource, &credential).await?;
        answer(&EmptyResponse {})
    }

    pub(super) async fn order_fence(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let order: SignedFenceOrder = call.json().await?;
        let identity = &call.who.identity;
        if order.order.resource != call.resource()? {
            let hint = "send it to that one's address";
            return Err(Refusal::invalid("the order is for another resource", hint).into());
        }
        self.throttle.take(call.who, ThrottleKey::Nothing)?;
        if let FenceChange::Bind { election } = &order.order.change {
            identity.check_election(election)?;
        }
        answer(&self.coordinator.fences().order(&order).await?)
    }

    /// Refuses a fence that is new where there is no room. What is fenced already stays so.
    async fn has_room_for_fence(
        &self,
        resource: &ResourceName,
        election: Option<&ElectionName>,
    ) -> Result<(), Problem> {
        let Some(election) = election else { return Ok(()) };
        let Err(refusal) = self.engine.census().check_growth(election) else { return Ok(()) };
        if self.known_fence(resource).await?.is_some() { Ok(()) } else { Err(refusal.into()) }
    }

    async fn known_fence(&self, resource: &ResourceName) -> Result<Option<Fence>, Problem> {
        match self.behind.read(&Key::Fence(resource.clone())).await?.found {
            Some((Record::Fence(fence), _)) => Ok(Some(*fence)),
            Some(_) | None => Ok(None),
        }
    }

    /// Reads a fence, and refuses it to a caller whose token is not for the fence's election. For a caller
    /// that sees all elections, it reads nothing.
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

    /// Refuses too much of a hold, and what this one may not see. The key of the hold is the proof that it is one's own.
    async fn on_hold(
        &self,
        call: &Call<'_>,
        resource: &ResourceName,
        mine: &Credential,
    ) -> Result<(), Problem> {
        self.throttle.take_for_hold(resource, mine)?;
        self.visible_fence(call, resource).await?;
        Ok(())
    }
}
