//! Commands, as they are sent.

use std::time::Duration;

use baton_api::batch::BatchEntryRef;
use baton_api::command::{CheckResponse, CommandResponse, Decided, WithdrawRequest, WithdrawResponse};
use baton_api::fences::{AdmitRequest, HoldTerms, KeepHoldRequest, LeaveHoldRequest};
use baton_api::server::EmptyResponse;
use baton_election::audit::TokensAudit;
use baton_election::bindings::SignedFenceOrder;
use baton_election::command::Acquire;
use baton_election::fence::{Entry, Fence, HoldRequest};
use baton_election::store_order::StoreRequest;
use baton_election::store_quorum::OrderOutcome;
use baton_election::time::Span;
use baton_election::tokens::SignedTokenOrder;
use baton_election::{AgentName, Candidate, Command, Credential, ElectionName, Epoch, ResourceName};
use baton_store::Sessions;
use baton_store::Tools;
use baton_store::Uses;
use baton_store::Warns;
use baton_store::{BoxFuture, Decider, Decision, Page, Undecided};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::segment;
use crate::store::{AT_ONCE, HttpStore};

impl HttpStore {
    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &(impl Serialize + Sync),
        longer: Duration,
    ) -> Result<T, Undecided> {
        self.client.post(path, body, longer).await.map_err(|fault| fault.of_command(&self.client.base))
    }

    async fn command(
        &self,
        election: &ElectionName,
        name: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<Decided, Undecided> {
        let path = format!("/v1/elections/{}/{name}", segment(election));
        Ok(self.send::<CommandResponse>(&path, body, AT_ONCE).await?.into())
    }

    async fn on_fence<T: DeserializeOwned>(
        &self,
        resource: &ResourceName,
        name: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<T, Undecided> {
        self.send(&format!("/v1/fences/{}/{name}", segment(resource)), body, AT_ONCE).await
    }
}

impl Decider for HttpStore {
    fn execute<'a>(&'a self, election: &'a ElectionName, command: &'a Command) -> Decision<'a, Decided> {
        Box::pin(async move {
            match command {
                Command::Acquire(acquire) => self.command(election, "acquire", acquire).await,
                Command::Renew(renew) => self.command(election, "renew", renew).await,
                Command::Release(release) => self.command(election, "release", release).await,
                Command::Pass(pass) => self.command(election, "pass", pass).await,
                Command::Checkpoint(write) => self.command(election, "checkpoint", write).await,
                Command::Acknowledge(acknowledge) => self.command(election, "acknowledge", acknowledge).await,
                Command::Report(report) => self.command(election, "report", report).await,
                Command::Operate(signed) => self.command(election, "operate", signed).await,
            }
        })
    }

    fn execute_many<'a>(
        &'a self,
        commands: &'a [(ElectionName, Command)],
    ) -> BoxFuture<'a, Vec<Result<Decided, Undecided>>> {
        Box::pin(async move {
            let entries: Vec<_> = commands
                .iter()
                .map(|(election, command)| BatchEntryRef::Command(election, command))
                .collect();
            let told = self.many::<CommandResponse>(&entries).await;
            told.into_iter().map(|told| told.map(Decided::from)).collect()
        })
    }

    fn check_many<'a>(
        &'a self,
        tokens: &'a [(ElectionName, Epoch)],
    ) -> BoxFuture<'a, Vec<Result<(), Undecided>>> {
        Box::pin(async move {
            let entries: Vec<_> =
                tokens.iter().map(|(election, token)| BatchEntryRef::Check(election, *token)).collect();
            let told = self.many::<CheckResponse>(&entries).await;
            told.into_iter().map(|told| told.map(|_| ())).collect()
        })
    }

    fn acquire<'a>(
        &'a self,
        election: &'a ElectionName,
        acquire: &'a Acquire,
        wait: Span,
    ) -> Decision<'a, Decided> {
        Box::pin(async move {
            let wait_ms = wait.as_millis();
            let path = format!("/v1/elections/{}/acquire?wait_ms={wait_ms}", segment(election));
            Ok(self.send::<CommandResponse>(&path, acquire, Duration::from_millis(wait_ms)).await?.into())
        })
    }

    fn enlist<'a>(&'a self, candidate: &'a Candidate) -> Decision<'a, Candidate> {
        Box::pin(async move {
            let path = format!("/v1/elections/{}/candidates", segment(&candidate.election));
            self.send(&path, candidate, AT_ONCE).await
        })
    }

    fn withdraw<'a>(
        &'a self,
        election: &'a ElectionName,
        agent: &'a AgentName,
        credential: &'a Credential,
    ) -> Decision<'a, bool> {
        Box::pin(async move {
            let path = format!("/v1/elections/{}/withdraw", segment(election));
            let body = WithdrawRequest { agent: agent.clone(), credential: *credential };
            Ok(self.send::<WithdrawResponse>(&path, &body, AT_ONCE).await?.withdrawn)
        })
    }

    fn admit<'a>(&'a self, entry: &'a Entry<'a>, election: Option<&'a ElectionName>) -> Decision<'a, Fence> {
        Box::pin(async move {
            let hold = entry.hold.map(|HoldRequest { credential, ttl, lease }| HoldTerms {
                credential,
                ttl_ms: ttl.as_millis(),
                lease,
            });
            let (election, agent) = (election.cloned(), entry.agent.cloned());
            let body =
                AdmitRequest { token: entry.token, election, agent, note: entry.note.to_string(), hold };
            self.on_fence(entry.resource, "admit", &body).await
        })
    }

    fn keep_hold<'a>(
        &'a self,
        resource: &'a ResourceName,
        election: &'a ElectionName,
        mine: &'a Credential,
    ) -> Decision<'a, ()> {
        Box::pin(async move {
            let body = KeepHoldRequest { election: election.clone(), credential: *mine };
            self.on_fence::<EmptyResponse>(resource, "keep", &body).await.map(|_| ())
        })
    }

    fn leave_hold<'a>(&'a self, resource: &'a ResourceName, mine: &'a Credential) -> Decision<'a, ()> {
        Box::pin(async move {
            let body = LeaveHoldRequest { credential: *mine };
            self.on_fence::<EmptyResponse>(resource, "leave", &body).await.map(|_| ())
        })
    }

    fn order_fence<'a>(&'a self, order: &'a SignedFenceOrder) -> Decision<'a, Fence> {
        Box::pin(async move { self.on_fence(&order.order.resource, "order", order).await })
    }

    fn order_store<'a>(&'a self, request: &'a StoreRequest) -> Decision<'a, OrderOutcome> {
        Box::pin(async move { self.send("/v1/store/orders", request, AT_ONCE).await })
    }

    fn audit_tokens(&self, limit: usize) -> Decision<'_, TokensAudit> {
        Box::pin(async move {
            let path = format!("/v1/tokens/audit?limit={limit}");
            self.client.get(&path).await.map_err(|fault| fault.of_reading(&self.client.base).into())
        })
    }

    fn order_tokens<'a>(&'a self, order: &'a SignedTokenOrder) -> Decision<'a, OrderOutcome> {
        Box::pin(async move { self.send("/v1/tokens", order, AT_ONCE).await })
    }

    fn tools(&self) -> Option<&dyn Tools> {
        Some(self)
    }

    fn page(&self) -> Option<&dyn Page> {
        Some(self)
    }

    fn sessions(&self) -> Option<&dyn Sessions> {
        Some(self)
    }

    fn warns(&self) -> Option<&dyn Warns> {
        Some(self)
    }

    fn uses(&self) -> Option<&dyn Uses> {
        Some(self)
    }
}
