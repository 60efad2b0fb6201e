//! A server as [`Elections`]: commands are sent, and sent again until there is an answer.

use std::sync::Arc;
use std::time::Duration;

use baton_api::batch::BatchEntryRef;
use baton_api::command::{CheckResponse, CommandResponse, Decided, WithdrawRequest, WithdrawResponse};
use baton_api::elections::{
    AskInfo, AskLease, BoxResult, Candidacies, CommandError, Decides, Elections, Executed, Fences, Orders,
    Page, Sessions, Sighting, StartFrom, Tools, Uses, Warns, merged_history,
};
use baton_api::endpoints::{Endpoint, Target};
use baton_api::fences::{AdmitRequest, HoldTerms, KeepHoldRequest, LeaveHoldRequest};
use baton_api::server::EmptyResponse;
use baton_api::{Pace, Patience, SharedMemory, retried};
use baton_election::audit::TokensAudit;
use baton_election::bindings::SignedFenceOrder;
use baton_election::document::Transition;
use baton_election::fence::{Entry, Fence, HoldRequest};
use baton_election::store_order::StoreRequest;
use baton_election::store_quorum::OrderOutcome;
use baton_election::time::{Moment, WallTime};
use baton_election::tokens::SignedTokenOrder;
use baton_election::{
    AgentName, Answer, Candidate, Command, Credential, ElectionName, Epoch, Refusal, ResourceName, StoreInfo,
};
use baton_store::waiting::Waiters;
use baton_store::{
    BoxFuture, BoxStream, Change, Cost, Deletion, Durability, HistoryKept, Key, Prefix, Reading, Record,
    StoreError, StoreProperties, Watching, boot,
};
use serde::Serialize;

use crate::client::Reply;
use crate::records::{AT_ONCE, HttpElections};
use crate::watch;

/// What is said of a command that was left out.
const NO_ANSWER: &str = "it gave no answer to this one";
/// What is said of a request for the lease that was answered otherwise than Baton servers do.
const NO_GRANT: &str = "its answer was not understood: it shows no lease";

impl HttpElections {
    pub(crate) async fn send<T: Reply>(
        &self,
        target: &Target,
        body: &(impl Serialize + Sync),
        longer: Duration,
    ) -> Result<T, CommandError> {
        self.client.post(target, body, longer).await.map_err(|fault| fault.of_command(&self.client.base))
    }

    async fn command(
        &self,
        election: &ElectionName,
        endpoint: Endpoint,
        body: &(impl Serialize + Sync),
    ) -> Result<Decided, CommandError> {
        Ok(self.send::<CommandResponse>(&endpoint.target(&[election]), body, AT_ONCE).await?.into())
    }

    async fn on_fence<T: Reply>(
        &self,
        resource: &ResourceName,
        endpoint: Endpoint,
        body: &(impl Serialize + Sync),
    ) -> Result<T, CommandError> {
        self.send(&endpoint.target(&[resource]), body, AT_ONCE).await
    }
}

impl HttpElections {
    /// Sends a command once.
    async fn once(&self, election: &ElectionName, command: &Command) -> Result<Decided, CommandError> {
        self.command(election, Endpoint::of_command(command), command).await
    }

    /// What was decided, with the moment before it was first asked for.
    fn heard(&self, decided: Decided, asked_at: Moment) -> Result<Executed, CommandError> {
        let Decided { answer, document, ttl } = decided;
        if let Some(document) = &document {
            self.memory.heard_of(&|| self.client.base.clone(), document, asked_at)?;
        }
        Ok(Executed { answer, document: document.map(|document| *document), asked_at, ttl })
    }

    /// A lease that was granted. An answer that shows no grant, or no document with it, is not believed: the caller reads again.
    fn granted(&self, decided: Decided, asked_at: Moment) -> Result<Executed, CommandError> {
        if matches!(&decided, Decided { answer: Answer::Granted { .. }, document: Some(_), .. }) {
            return self.heard(decided, asked_at);
        }
        let (location, why) = (self.client.base.clone(), NO_GRANT.to_string());
        Err(StoreError::Unknown { location, why }.into())
    }

    /// Sends those again that had no answer, until there is one or the server has failed too often.
    async fn insist_on_many(
        &self,
        patience: Patience,
        commands: &[(ElectionName, Command)],
    ) -> Vec<Result<Decided, CommandError>> {
        let mut pace = Pace::new(patience);
        let mut outcomes: Vec<Option<Result<Decided, CommandError>>> =
            commands.iter().map(|_| None).collect();
        let mut open: Vec<usize> = (0..commands.len()).collect();
        while !open.is_empty() {
            let asked = open.iter().filter_map(|at| commands.get(*at));
            let entries: Vec<_> =
                asked.map(|(election, command)| BatchEntryRef::Command(election, command)).collect();
            let answered = self.many::<CommandResponse>(&entries).await;
            let (mut again, mut failure) = (Vec::new(), None);
            for (at, outcome) in open.into_iter().zip(answered) {
                match outcome {
                    Err(CommandError::Store(error)) if error.is_passing() => {
                        failure.get_or_insert_with(|| error.clone());
                        again.push((at, error));
                    }
                    outcome => outcomes[at] = Some(outcome.map(Decided::from)),
                }
            }
            let given_up = match failure {
                Some(failure) => pace.wait_after(failure).await.is_err(),
                None => false,
            };
            open = again.iter().map(|(at, _)| *at).collect();
            if given_up {
                open.clear();
                again.into_iter().for_each(|(at, error)| outcomes[at] = Some(Err(error.into())));
            }
        }
        let untold = || {
            let (location, why) = (self.client.base.clone(), NO_ANSWER.to_string());
            Err(StoreError::Unknown { location, why }.into())
        };
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(untold)).collect()
    }

    /// What the store behind the server knows of itself.
    async fn info_now(&self) -> Result<Arc<StoreInfo>, CommandError> {
        match self.read_now(&Key::Store).await?.found {
            Some((Record::Store(info), _)) => {
                let info = Arc::new(info);
                *self.cached_info() = Some(Arc::clone(&info));
                Ok(info)
            }
            Some(_) | None => Err(Refusal::invalid(
                format!("{} is not a store yet", self.client.base),
                "`baton init`, `baton run` or `baton acquire` makes one",
            )
            .into()),
        }
    }
}

impl Elections for HttpElections {
    fn location(&self) -> String {
        self.client.base.clone()
    }

    fn properties(&self) -> StoreProperties {
        StoreProperties {
            age: "the server's boot-time clock",
            stamped: true,
            watch: Watching::Pushed,
            durability: Durability::Synced,
            deletion: Deletion::Impossible,
            history: HistoryKept::Native,
            partition: "a client that cannot reach the server can neither take nor renew a lease",
            cost: Cost { per_renewal: 1, looks_per_hour: 0 },
        }
    }

    fn decides(&self) -> Decides {
        Decides::Server
    }

    fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(self.read_now(key))
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        Box::pin(self.list_now(prefix))
    }

    fn watch<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        Box::pin(async move {
            match key.as_election() {
                Some(election) => watch::watch(&self.client, election).await,
                None => Ok(watch::polled()),
            }
        })
    }

    fn wall(&self) -> BoxFuture<'_, Result<Option<WallTime>, StoreError>> {
        Box::pin(self.wall_now())
    }

    fn waiters(&self) -> Option<&dyn Waiters> {
        Some(self)
    }

    fn info(&self, patience: Patience, ask: AskInfo) -> BoxResult<'_, Arc<StoreInfo>> {
        Box::pin(async move {
            let known = self.cached_info().clone();
            match known.filter(|_| !ask.fresh) {
                Some(info) => Ok(info),
                None => retried(patience, || self.info_now()).await,
            }
        })
    }

    fn view<'a>(&'a self, election: &'a ElectionName) -> BoxResult<'a, Sighting> {
        Box::pin(async move {
            let key = Key::Election(election.clone());
            Ok(self.memory.view(&key, &|| self.client.base.clone(), || self.read_now(&key)).await?)
        })
    }

    fn history<'a>(&'a self, election: &'a ElectionName, limit: usize) -> BoxResult<'a, Vec<Transition>> {
        Box::pin(async move {
            // The document first: what it does not show stands in the history by then.
            let document = self.view(election).await?.document;
            let target = Endpoint::History.target(&[election]).with("limit", &limit);
            let told = self.client.get(&target).await.map_err(|fault| fault.of_reading(&self.client.base))?;
            Ok(merged_history(document, told, limit))
        })
    }

    fn execute<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        command: &'a Command,
        _start: StartFrom,
    ) -> BoxResult<'a, Executed> {
        let asked_at = boot::now();
        Box::pin(async move {
            let decided = retried(patience, || self.once(election, command)).await?;
            self.heard(decided, asked_at)
        })
    }

    /// With a wait it is sent once, to wait in the server's line: the caller knows for how long it goes on waiting. Where a policy
    /// compares candidates there is no line.
    fn acquire<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        ask: AskLease<'a>,
    ) -> BoxResult<'a, Executed> {
        let asked_at = boot::now();
        Box::pin(async move {
            let decided = match ask.wait {
                None => retried(patience, || self.command(election, Endpoint::Acquire, ask.acquire)).await?,
                Some(wait) => {
                    let wait_ms = wait.as_millis();
                    let target = Endpoint::Acquire.target(&[election]).with("wait_ms", &wait_ms);
                    self.send::<CommandResponse>(&target, ask.acquire, Duration::from_millis(wait_ms))
                        .await?
                        .into()
                }
            };
            self.granted(decided, asked_at)
        })
    }

    fn execute_many<'a>(
        &'a self,
        patience: Patience,
        commands: &'a [(ElectionName, Command)],
    ) -> BoxFuture<'a, Vec<Result<Executed, CommandError>>> {
        let asked_at = boot::now();
        Box::pin(async move {
            let outcomes = self.insist_on_many(patience, commands).await;
            outcomes.into_iter().map(|outcome| self.heard(outcome?, asked_at)).collect()
        })
    }

    fn check_many<'a>(
        &'a self,
        tokens: &'a [(ElectionName, Epoch)],
    ) -> BoxFuture<'a, Vec<Result<(), CommandError>>> {
        Box::pin(async move {
            let entries: Vec<_> =
                tokens.iter().map(|(election, token)| BatchEntryRef::Check(election, *token)).collect();
            let told = self.many::<CheckResponse>(&entries).await;
            told.into_iter().map(|told| told.map(|_| ())).collect()
        })
    }

    fn candidacies(&self) -> Result<&dyn Candidacies, CommandError> {
        Ok(self)
    }

    fn fences(&self) -> Result<&dyn Fences, CommandError> {
        Ok(self)
    }

    fn orders(&self) -> Result<&dyn Orders, CommandError> {
        Ok(self)
    }

    fn tools(&self) -> Result<&dyn Tools, CommandError> {
        Ok(self)
    }

    fn sessions(&self) -> Option<&dyn Sessions> {
        Some(self)
    }

    fn page(&self) -> Option<&dyn Page> {
        Some(self)
    }

    fn warns(&self) -> Option<&dyn Warns> {
        Some(self)
    }

    fn uses(&self) -> Option<&dyn Uses> {
        Some(self)
    }
}

impl Candidacies for HttpElections {
    fn enlist<'a>(&'a self, patience: Patience, candidate: &'a Candidate) -> BoxResult<'a, Candidate> {
        Box::pin(retried(patience, move || async move {
            self.send(&Endpoint::Enlist.target(&[&candidate.election]), candidate, AT_ONCE).await
        }))
    }

    fn withdraw<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        agent: &'a AgentName,
        credential: &'a Credential,
    ) -> BoxResult<'a, bool> {
        Box::pin(retried(patience, move || async move {
            let target = Endpoint::Withdraw.target(&[election]);
            let body = WithdrawRequest { agent: agent.clone(), credential: *credential };
            Ok(self.send::<WithdrawResponse>(&target, &body, AT_ONCE).await?.withdrawn)
        }))
    }
}

impl Fences for HttpElections {
    fn admit<'a>(
        &'a self,
        patience: Patience,
        entry: &'a Entry<'a>,
        election: Option<&'a ElectionName>,
    ) -> BoxResult<'a, Fence> {
        Box::pin(retried(patience, move || async move {
            let hold = entry.hold.map(|HoldRequest { credential, ttl, lease }| HoldTerms {
                credential,
                ttl_ms: ttl.as_millis(),
                lease,
            });
            let (election, agent) = (election.cloned(), entry.agent.cloned());
            let body =
                AdmitRequest { token: entry.token, election, agent, note: entry.note.to_string(), hold };
            self.on_fence(entry.resource, Endpoint::Admit, &body).await
        }))
    }

    fn keep_hold<'a>(
        &'a self,
        patience: Patience,
        resource: &'a ResourceName,
        election: &'a ElectionName,
        mine: &'a Credential,
    ) -> BoxResult<'a, ()> {
        Box::pin(retried(patience, move || async move {
            let body = KeepHoldRequest { election: election.clone(), credential: *mine };
            self.on_fence::<EmptyResponse>(resource, Endpoint::KeepHold, &body).await.map(|_| ())
        }))
    }

    fn leave_hold<'a>(
        &'a self,
        patience: Patience,
        resource: &'a ResourceName,
        mine: &'a Credential,
    ) -> BoxResult<'a, ()> {
        Box::pin(retried(patience, move || async move {
            let body = LeaveHoldRequest { credential: *mine };
            self.on_fence::<EmptyResponse>(resource, Endpoint::LeaveHold, &body).await.map(|_| ())
        }))
    }

    fn order_fence<'a>(&'a self, patience: Patience, order: &'a SignedFenceOrder) -> BoxResult<'a, Fence> {
        Box::pin(retried(patience, move || async move {
            self.on_fence(&order.order.resource, Endpoint::OrderFence, order).await
        }))
    }
}

impl Orders for HttpElections {
    fn order_store<'a>(
        &'a self,
        patience: Patience,
        request: &'a StoreRequest,
    ) -> BoxResult<'a, OrderOutcome> {
        Box::pin(retried(patience, move || async move {
            self.send(&Endpoint::OrderStore.target(&[]), request, AT_ONCE).await
        }))
    }

    fn order_tokens<'a>(
        &'a self,
        patience: Patience,
        order: &'a SignedTokenOrder,
    ) -> BoxResult<'a, OrderOutcome> {
        Box::pin(retried(patience, move || async move {
            self.send(&Endpoint::OrderTokens.target(&[]), order, AT_ONCE).await
        }))
    }

    fn audit_tokens(&self, patience: Patience, limit: usize) -> BoxResult<'_, Option<TokensAudit>> {
        Box::pin(retried(patience, move || async move {
            let target = Endpoint::TokensAudit.target(&[]).with("limit", &limit);
            let told = self.client.get(&target).await;
            told.map(Some).map_err(|fault| fault.of_reading(&self.client.base).into())
        }))
    }
}

#[cfg(test)]
mod tests {
    use baton_election::Span;
    use baton_election::document::Cause;

    use super::*;

    #[tokio::test]
    async fn a_grant_without_a_document_is_an_unknown_outcome() {
        let elections = HttpElections::open(&"http://127.0.0.1:1".parse().unwrap()).unwrap();
        let (epoch, ttl, cause) = (Epoch(7), Span::secs(30), Cause::First);
        let granted = Answer::Granted { epoch, ttl, cause, offer: false, repeated: false };
        for answer in [granted, Answer::Released { reserved_for: None }] {
            let decided = Decided { answer, document: None, ttl: Some(ttl) };
            let heard = elections.granted(decided, boot::now());
            assert!(matches!(heard, Err(CommandError::Store(StoreError::Unknown { .. }))), "{heard:?}");
        }
    }
}
