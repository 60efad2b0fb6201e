//! What each request does.

use std::sync::Arc;

use baton_api::command::{CommandResponse, WithdrawRequest, WithdrawResponse};
use baton_api::endpoints::{Endpoint, Right, decoded};
use baton_api::records::{RecordResponse, TokensResponse};
use baton_api::server::ReadinessResponse;
use baton_api::summary::LeaderResponse;
use baton_api::waiting::MOST_SHOWN;
use baton_election::audit::Book;
use baton_election::command::Acquire;
use baton_election::region::Proof;
use baton_election::store_order::StoreRequest;
use baton_election::store_quorum::OrderOutcome;
use baton_election::time::Span;
use baton_election::{AgentName, Candidate, Command, ElectionName, Refusal, ResourceName, TokenId};
use baton_store::toolbox::Kind;
use baton_store::{Key, Prefix, Reading, Record, Store, StoreError};
use bytes::Bytes;
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::identity::Caller;
use super::limits::ThrottleKey;
use super::pace::Pace;
use super::parsing::{self, Parsers};
use super::reply::{Problem, Reply, json as answer, ok, reply};
use super::{Service, events, identity, limits, openapi};
use crate::candidates;
use crate::engine::Leads;

/// The most names of one list.
const MAX_LIST: usize = 10_000;
/// How many transitions are shown if nobody says.
const HISTORY: usize = 20;
/// The longest that one request waits in line.
const MAX_WAIT: Span = Span::secs(60);

/// A request, taken apart.
pub(super) struct Call<'a> {
    pub(super) who: &'a Caller,
    pub(super) names: Vec<String>,
    pub(super) query: Option<&'a str>,
    /// What the client was told last of a stream.
    pub(super) last_event: Option<&'a str>,
    /// By what name, and at which port, it asks.
    pub(super) host: &'a str,
    pub(super) body: Bytes,
    pub(super) parsers: &'a Parsers,
}

impl Call<'_> {
    pub(super) fn name(&self, place: usize) -> &str {
        self.names.get(place).map_or("", String::as_str)
    }

    pub(super) fn election(&self) -> Result<ElectionName, Problem> {
        ElectionName::new(self.name(0)).map_err(|error| baton::Error::from(error).into())
    }

    pub(super) fn resource(&self) -> Result<ResourceName, Problem> {
        ResourceName::new(self.name(0)).map_err(|error| baton::Error::from(error).into())
    }

    fn agent(&self) -> Result<AgentName, Problem> {
        AgentName::new(self.name(1)).map_err(|error| baton::Error::from(error).into())
    }

    pub(super) fn parameter(&self, wanted: &str) -> Option<String> {
        let pairs = self.query?.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(name, _)| *name == wanted).find_map(|(_, value)| decoded(value))
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Problem> {
        let parse = |text: String| {
            text.parse()
                .map_err(|_| Problem::invalid(format!("`{name}={text}` is not a number"), "write digits"))
        };
        self.parameter(name).map(parse).transpose()
    }

    /// How many of a list are asked for: as many as there may be, if nothing is said.
    pub(super) fn limit(&self, most: usize) -> Result<usize, Problem> {
        match self.number("limit")?.map(usize::try_from) {
            None => Ok(most),
            Some(Ok(limit)) if (1..=most).contains(&limit) => Ok(limit),
            // Fewer than were asked for would be taken for the last.
            Some(_) => Err(Problem::invalid(
                format!("a list has 1 to {most} entries at a time"),
                "go on after the last name of each: ?after=NAME&limit=N",
            )),
        }
    }

    /// The object that the body is.
    pub(super) async fn json<T: DeserializeOwned + Send + 'static>(&self) -> Result<T, Problem> {
        self.parsers.parse(&self.body, parsing::object).await
    }
}

/// Refuses a region of which who asks may not speak: a refusal would tell how it stands.
fn allow_region(who: &Caller, region: Option<&Proof>) -> Result<(), Problem> {
    region.map_or(Ok(()), |proof| who.identity.check_election(&proof.election))
}

impl Service {
    /// What is asked for seldom, or may take much, lies apart: a connection has room for any of them all the time.
    #[expect(clippy::too_many_lines, reason = "a line for each route, all in one place")]
    pub(super) async fn call(self: &Arc<Self>, endpoint: Endpoint, call: Call<'_>) -> Result<Reply, Problem> {
        match endpoint {
            Endpoint::Renew => Box::pin(self.command(&call, Command::Renew)).await,
            Endpoint::Acquire => Box::pin(self.acquire(&call)).await,
            Endpoint::Release => Box::pin(self.leave(&call, Command::Release)).await,
            Endpoint::Pass => Box::pin(self.leave(&call, Command::Pass)).await,
            Endpoint::Checkpoint => Box::pin(self.command(&call, Command::Checkpoint)).await,
            Endpoint::Acknowledge => Box::pin(self.command(&call, Command::Acknowledge)).await,
            Endpoint::Report => Box::pin(self.command(&call, Command::Report)).await,
            Endpoint::Operate => Box::pin(self.command(&call, Command::Operate)).await,
            Endpoint::Batch => Box::pin(self.batch(&call)).await,
            Endpoint::Election => Box::pin(self.record(&Key::Election(call.election()?))).await,
            Endpoint::Leader => Box::pin(self.leader(&call.election()?)).await,
            Endpoint::Watch => Box::pin(events::stream(self, &call.election()?, call.last_event)).await,
            Endpoint::History => Box::pin(self.history(&call)).await,
            Endpoint::Waiting => answer(&self.in_line(&call.election()?, call.limit(MOST_SHOWN)?).await),
            Endpoint::Audit => Box::pin(self.audit(&call, Book::Election(call.election()?))).await,
            Endpoint::StoreAudit => Box::pin(self.audit(&call, Book::Store)).await,
            Endpoint::AuditPart => {
                let book = Book::Election(call.election()?);
                Box::pin(self.audit_part(&call, book, 1)).await
            }
            Endpoint::StoreAuditPart => Box::pin(self.audit_part(&call, Book::Store, 0)).await,
            Endpoint::TokensAudit => Box::pin(self.tokens_audit(&call)).await,
            Endpoint::Candidates => Box::pin(self.list(&call, &Prefix::Candidates(call.election()?))).await,
            Endpoint::Candidate => {
                Box::pin(self.record(&Key::Candidate(call.election()?, call.agent()?))).await
            }
            Endpoint::Enlist => Box::pin(self.enlist(&call)).await,
            Endpoint::Withdraw => Box::pin(self.withdraw(&call)).await,
            Endpoint::Elections => Box::pin(self.list(&call, &Prefix::Elections)).await,
            Endpoint::Audits => Box::pin(self.list(&call, &Prefix::Audits)).await,
            Endpoint::Fences => Box::pin(self.list(&call, &Prefix::Fences)).await,
            Endpoint::Fence => Box::pin(self.fence(&call)).await,
            Endpoint::FenceLog => Box::pin(self.fence_log(&call)).await,
            Endpoint::Admit => Box::pin(self.admit(&call)).await,
            Endpoint::KeepHold => Box::pin(self.keep_hold(&call)).await,
            Endpoint::LeaveHold => Box::pin(self.leave_hold(&call)).await,
            Endpoint::OrderFence => Box::pin(self.order_fence(&call)).await,
            Endpoint::Store => self.info(&call),
            Endpoint::OrderStore => Box::pin(self.order_store(&call)).await,
            Endpoint::Tokens => Box::pin(self.tokens()).await,
            Endpoint::OrderTokens => Box::pin(self.order_tokens(&call)).await,
            Endpoint::Announce => Box::pin(self.announce(&call)).await,
            Endpoint::Heartbeat => Box::pin(self.heartbeat(&call)).await,
            Endpoint::News => Box::pin(self.news(&call)).await,
            Endpoint::EndSession => Box::pin(self.end_session(&call)).await,
            Endpoint::Sessions => Box::pin(self.list_sessions(&call)).await,
            Endpoint::Overview
            | Endpoint::Events
            | Endpoint::Me
            | Endpoint::BeginSignIn
            | Endpoint::OpenSignIn
            | Endpoint::CloseSignIn
            | Endpoint::Draft
            | Endpoint::DraftStore
            | Endpoint::Page
            | Endpoint::PageFile => Box::pin(self.for_the_page(endpoint, call)).await,
            Endpoint::Board => Box::pin(self.board(&call)).await,
            Endpoint::Tasks => Box::pin(self.page(&call, Kind::Task)).await,
            Endpoint::Proposals => Box::pin(self.page(&call, Kind::Proposal)).await,
            Endpoint::Quotas => Box::pin(self.page(&call, Kind::Quota)).await,
            Endpoint::Values => Box::pin(self.page(&call, Kind::Value)).await,
            Endpoint::Breakers => Box::pin(self.page(&call, Kind::Breaker)).await,
            Endpoint::Breaker => Box::pin(self.item(&call, Kind::Breaker)).await,
            Endpoint::Task => Box::pin(self.item(&call, Kind::Task)).await,
            Endpoint::Proposal => Box::pin(self.item(&call, Kind::Proposal)).await,
            Endpoint::Quota => Box::pin(self.item(&call, Kind::Quota)).await,
            Endpoint::Value => Box::pin(self.item(&call, Kind::Value)).await,
            Endpoint::AddTasks
            | Endpoint::OrderTask
            | Endpoint::Propose
            | Endpoint::RuleOn
            | Endpoint::SetQuota
            | Endpoint::Draw
            | Endpoint::PutValue => Box::pin(self.use_tool(endpoint, &call)).await,
            Endpoint::Alerts => self.list_alerts(&call),
            Endpoint::Metrics => Box::pin(self.metrics()).await,
            Endpoint::Health => Ok(ok()),
            Endpoint::Ready => Box::pin(self.ready()).await,
            Endpoint::OpenApi => Ok(reply(StatusCode::OK, "application/json", openapi::written())),
        }
    }
    /// A renewal, if it takes nothing but memory. The caller was checked before: it may act on the election.
    pub(super) fn renew_at_once(&self, call: &Call<'_>) -> Option<Result<Reply, Problem>> {
        let renew = parsing::object(&call.body).ok()?;
        let (renewed, ttl) = self.engine.renew_at_once(call.name(0), &renew, self.engine.now())?;
        Some(answer(&CommandResponse::renewed(renewed, ttl)))
    }

    async fn order_tokens(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        self.throttle.take(call.who, ThrottleKey::Nothing)?;
        answer(&self.coordinator.tokens().submit(&call.json().await?).await?)
    }

    async fn command<T>(&self, call: &Call<'_>, of: fn(T) -> Command) -> Result<Reply, Problem>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let (election, command) = (call.election()?, of(call.json().await?));
        self.allow(call.who, &command)?;
        self.has_room(&election, &command).await?;
        answer(&CommandResponse::from(self.engine.execute(&election, &command).await?))
    }

    /// Refuses a command that its sender may not give, or not so many of.
    pub(super) fn allow(&self, who: &Caller, command: &Command) -> Result<(), Problem> {
        let right = Right::of_command(command);
        who.identity.check(right)?;
        if who.sign_in.is_some() && right == Right::Act {
            return Err(identity::only_looks());
        }
        let says = match command {
            Command::Acquire(acquire) => return self.allow_acquire(who, acquire),
            Command::Report(report) => {
                who.acts_as(&report.by)?;
                ThrottleKey::Agent(&report.by)
            }
            // It is not written, and who is kept from it loses its lease.
            Command::Renew(renew) => return allow_region(who, renew.region.as_ref()),
            Command::Release(release) => ThrottleKey::Lease(&release.credential),
            Command::Pass(pass) => ThrottleKey::Lease(&pass.credential),
            Command::Checkpoint(write) => ThrottleKey::Lease(&write.credential),
            Command::Acknowledge(acknowledge) => ThrottleKey::Lease(&acknowledge.credential),
            Command::Operate(signed) => {
                self.check_sign_in(signed)?;
                ThrottleKey::Nothing
            }
        };
        self.throttle.take(who, says)
    }

    /// Refuses a command that would make the store larger than it may be.
    pub(super) async fn has_room(&self, election: &ElectionName, command: &Command) -> Result<(), Problem> {
        match command {
            Command::Acquire(acquire) => self.has_room_for(election, acquire.through).await,
            Command::Checkpoint(_) => Ok(self.engine.census().check_growth(election)?),
            // These make it no larger, or end something; and operators make room.
            Command::Renew(_)
            | Command::Release(_)
            | Command::Pass(_)
            | Command::Acknowledge(_)
            | Command::Report(_)
            | Command::Operate(_) => Ok(()),
        }
    }

    /// Refuses an election that would be one too many. What there is may always be led.
    async fn has_room_for(&self, election: &ElectionName, token: Option<TokenId>) -> Result<(), Problem> {
        let census = self.engine.census();
        if census.knows(election) {
            return Ok(());
        }
        let Err(refusal) = census.check_new(token) else { return Ok(()) };
        // Perhaps it was not counted yet.
        let known = self.engine.view(election).await?.document;
        if known.is_some_and(|document| !document.is_retired()) { Ok(()) } else { Err(refusal.into()) }
    }

    fn allow_acquire(&self, who: &Caller, acquire: &Acquire) -> Result<(), Problem> {
        who.acts_as(&acquire.agent)?;
        allow_region(who, acquire.region.as_ref())?;
        self.throttle.take(who, ThrottleKey::Agent(&acquire.agent))
    }

    async fn acquire(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let wait = call.number("wait_ms")?.map_or(Span::ZERO, Span::millis).min(MAX_WAIT);
        let election = call.election()?;
        let acquire = Acquire { through: call.who.token(), ..call.json().await? };
        self.allow_acquire(call.who, &acquire)?;
        self.has_room_for(&election, acquire.through).await?;
        let acquired = self.engine.acquire(&election, acquire, wait);
        let decided = tokio::select! {
            acquired = acquired => acquired?,
            () = self.stops(), if wait > Span::ZERO => {
                let (location, why) = (self.place.clone(), "the server is stopping".to_string());
                return Err(StoreError::Unknown { location, why }.into());
            }
        };
        answer(&CommandResponse::from(decided))
    }

    pub(super) async fn record(&self, key: &Key) -> Result<Reply, Problem> {
        let Reading { found, age, .. } = self.behind.read(key).await?;
        let (record, version) = match found {
            Some((record, version)) => (Some(raw(&record)?), Some(version.as_str().to_string())),
            None => (None, None),
        };
        answer(&RecordResponse { record, version, age_ms: age.map(Span::as_millis) })
    }

    /// Carries out an order on the store as a whole. Nobody becomes the first operator on its own word.
    async fn order_store(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        self.throttle.take(call.who, ThrottleKey::Nothing)?;
        let StoreRequest { order, code } = call.json().await?;
        self.check_sign_in(&order)?;
        let found = self.behind.read(&Key::Store).await?.found;
        let is_first = !matches!(found, Some((Record::Store(info), _)) if !info.operator_keys.is_empty());
        if is_first && let Err(why) = self.founders.admit(&order.by, code.as_deref()) {
            let why = format!("nobody is the operator of this store yet, and {why}");
            return Err(Refusal::WrongKey { why }.into());
        }
        let outcome = self.coordinator.orders().submit(&order, None).await?;
        if outcome == OrderOutcome::Done {
            self.founders.founded();
        }
        answer(&outcome)
    }

    /// From memory: a client that begins while the disk fails can still renew leases.
    fn info(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let mut info = (*self.engine.info()).clone();
        if !call.who.identity.sees_all() {
            info.last_order = None;
            info.waiting.clear();
        }
        let record = raw(&Record::Store(info))?;
        answer(&RecordResponse { record: Some(record), version: Some("memory".to_string()), age_ms: Some(0) })
    }

    /// For load balancers: the status says it all.
    async fn leader(&self, election: &ElectionName) -> Result<Reply, Problem> {
        match self.engine.leader(election).await? {
            Some(Leads { agent, epoch, contact, region, remaining }) => answer(&LeaderResponse {
                agent,
                token: epoch,
                contact,
                region,
                remaining_ms: remaining.as_millis(),
            }),
            None => Err(Problem::new(
                StatusCode::NOT_FOUND,
                "no-leader",
                format!("nobody leads `{election}`"),
                "wait, or see who could: baton status",
            )),
        }
    }

    async fn history(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let limit = call.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(HISTORY);
        answer(&self.coordinator.history(&call.election()?, limit).await?)
    }

    /// Names, in order: the first that this one may see, or those after `after`. Fewer than were asked for are the last.
    async fn list(&self, call: &Call<'_>, prefix: &Prefix) -> Result<Reply, Problem> {
        let limit = call.limit(MAX_LIST)?;
        let after = call.parameter("after").map(|after| prefix.key(&after)).transpose();
        let mut after = after.map_err(baton::Error::from)?;
        // A caller that sees some elections only may see few of many, and each part may cost the store a look
        // at all.
        let of_one_part = if call.who.identity.sees_all() { limit } else { MAX_LIST };
        let (mut names, pace) = (Vec::new(), Pace::default());
        loop {
            let part = self.behind.list_part(prefix, after.as_ref(), of_one_part).await?;
            let is_last = part.len() < of_one_part;
            self.reads.looked_at(call.who, part.len());
            for key in &part {
                pace.breathe().await;
                if names.len() < limit && self.sees(call, key).await? {
                    names.push(key.name().to_string());
                }
            }
            if is_last || names.len() == limit {
                return answer(&names);
            }
            after = part.last().cloned();
        }
    }

    /// Whether the caller may know of it.
    async fn sees(&self, call: &Call<'_>, key: &Key) -> Result<bool, Problem> {
        match key {
            Key::Election(election) | Key::Audit(Book::Election(election), _) => {
                Ok(call.who.identity.sees(election.as_str()))
            }
            Key::Fence(resource) => self.sees_fence(call, resource).await,
            // A caller that may not know of its election has been refused.
            Key::Candidate(..) => Ok(true),
            Key::Store
            | Key::Tokens
            | Key::History(_)
            | Key::FenceLog(..)
            | Key::Audit(..)
            | Key::Item(..) => Ok(false),
        }
    }

    async fn tokens(&self) -> Result<Reply, Problem> {
        let tokens = self.coordinator.tokens().list().await?;
        let (record, version) = (raw(&Record::Tokens(tokens.shown()))?, tokens.orders.to_string());
        answer(&TokensResponse { record, version, age_ms: None, uses: self.uses.shown() })
    }

    async fn withdraw(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let WithdrawRequest { agent, credential } = call.json().await?;
        call.who.acts_as(&agent)?;
        self.throttle.take(call.who, ThrottleKey::Agent(&agent))?;
        let stood = self.coordinator.candidates().withdraw(&call.election()?, &agent, credential).await?;
        answer(&WithdrawResponse { withdrawn: stood })
    }

    async fn enlist(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let mut candidate: Candidate = call.json().await?;
        call.who.acts_as(&candidate.agent)?;
        self.throttle.take(call.who, ThrottleKey::Agent(&candidate.agent))?;
        if candidate.election != call.election()? {
            return Err(Refusal::invalid(
                format!("the candidate stands for `{}`", candidate.election),
                "send it to that election",
            )
            .into());
        }
        // A candidate that wants to stand for longer enlists again. The reply says how long it stands.
        candidate.ttl = candidate.ttl.min(candidates::LONGEST);
        candidate.through = call.who.token();
        self.behind.has_room_for(&candidate).map_err(limits::too_many_candidates)?;
        answer(&self.coordinator.candidates().enlist_record(&candidate).await?)
    }

    async fn ready(&self) -> Result<Reply, Problem> {
        self.engine.ready().await?;
        answer(&ReadinessResponse { ready: true, active: None })
    }
}

fn raw(record: &Record) -> Result<Box<RawValue>, Problem> {
    RawValue::from_string(record.to_json())
        .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "system", error.to_string(), ""))
}
