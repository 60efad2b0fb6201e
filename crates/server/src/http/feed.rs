//! All changes as one stream of server-sent events, for a page that shows everything.
//!
//! Assumes that who reads it looks at all elections (`/v1/overview`) after `hello` says that the stream is fresh, and after each `gap`. Guarantees
//! that whatever changes after that is told, as it stands by then, within a moment; or that a `gap` is. Several changes of one election may be told
//! as one. Of the elections that the caller names it is also told, at most twice a second, that their leases were renewed, that their boards changed, and
//! who knows of their leaders. Does not tell of what the caller may not see.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use baton_api::summary::AttendanceEvent;
use baton_election::time::{Moment, Span};
use baton_election::{AgentName, ElectionName, Epoch, TokenId};
use baton_store::boot;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::StatusCode;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::Instant;

use super::calls::Call;
use super::identity::Identity;
use super::overview;
use super::reply::{Problem, Reply, typed};
use super::{Service, limits};
use baton_http_listener::CounterPermit;

/// How long changes are gathered before they are told together.
const GATHER: Duration = Duration::from_millis(20);
/// How long after that the next may be told.
const PAUSE: Duration = Duration::from_millis(80);
/// How often leases and agents are looked at.
const TICK: Duration = Duration::from_millis(500);
/// After how many of those a silent stream says that it lives.
const TICKS_ALIVE: u32 = 20;
/// After how many of those it is told that agents were heard of.
const TICKS_AGENTS: u32 = 4;
/// The most elections that one stream looks at.
const WATCHED: usize = 100;
/// The most elections of one event.
const ROWS: usize = 200;
/// Of more than so many that changed at once only that is told.
const GATHERED: usize = 2_000;
/// A lease whose end moved by less was not renewed: it is counted in milliseconds.
const MOVED: Span = Span::millis(50);

/// Everything that changes from here on, or after the last event that the caller was told of.
pub(super) fn stream(service: &Arc<Service>, call: &Call<'_>) -> Result<Reply, Problem> {
    let changes = service.engine.changes();
    let number = service.engine.follow();
    let shown = call.parameter("after").filter(|after| !after.is_empty());
    let after = call.last_event.map(ToString::to_string).or(shown);
    let watched = watched(call)?;
    let places = match &call.who.identity {
        Identity::Bearer(entry) => {
            let places = service.watched.enter_with(entry.id, watched.len());
            Some(places.ok_or_else(limits::too_many_watched)?)
        }
        Identity::Anybody | Identity::User(_) | Identity::Onlooker => None,
    };
    let mut feed = Feed {
        identity: call.who.identity.clone(),
        watched,
        _places: places,
        changes,
        number,
        waiting: BTreeSet::new(),
        told: VecDeque::new(),
        ticks: 0,
        next_tick: Instant::now() + TICK,
        pulse: service.sessions.pulse(),
        service: Arc::clone(service),
    };
    feed.begin(after.as_deref());
    let rest = stream::unfold(feed, |mut feed| async move { Some((feed.next().await?, feed)) });
    let body = rest.map(|text| Ok::<_, Infallible>(Frame::data(Bytes::from(text))));
    Ok(typed(StatusCode::OK, "text/event-stream", StreamBody::new(body).boxed_unsync()))
}

/// An election that the caller looks at, and what it was last told of it beside its changes.
struct WatchedElection {
    election: ElectionName,
    /// By which token the lease was held, and when it ended.
    lease: Option<(Epoch, Moment)>,
    /// How often its board had changed.
    board: Option<u64>,
    attended: Option<AttendanceEvent>,
}

/// What the caller looks at.
fn watched(call: &Call<'_>) -> Result<Vec<WatchedElection>, Problem> {
    let text = call.parameter("leases").unwrap_or_default();
    let names = text.split(',').filter(|name| !name.is_empty());
    let mut found = Vec::new();
    for name in names {
        if found.len() == WATCHED {
            return Err(Problem::invalid(
                format!("a stream tells of {WATCHED} leases at most"),
                "name those that are looked at",
            ));
        }
        let election = ElectionName::new(name).map_err(baton::Error::from)?;
        if call.who.identity.sees(election.as_str()) {
            found.push(WatchedElection { election, lease: None, board: None, attended: None });
        }
    }
    Ok(found)
}

/// One who is told of everything.
struct Feed {
    service: Arc<Service>,
    identity: Identity,
    changes: Receiver<(u64, ElectionName)>,
    /// Of the last change that was taken in.
    number: u64,
    /// What changed and was not told yet.
    waiting: BTreeSet<ElectionName>,
    /// What is told next.
    told: VecDeque<String>,
    watched: Vec<WatchedElection>,
    /// Its share of what one token may watch.
    _places: Option<CounterPermit<TokenId>>,
    ticks: u32,
    next_tick: Instant,
    /// Counts what agents said, as it was last told.
    pulse: u64,
}

impl Feed {
    /// Goes on after an event, if that can be.
    fn begin(&mut self, after: Option<&str>) {
        let Some(after) = after else { return self.say("hello", true, &json!({ "fresh": true })) };
        self.say("hello", false, &json!({ "fresh": false }));
        let known = self.service.number_of(after);
        match known.and_then(|number| self.service.engine.changed_since(number)) {
            Some(missed) => {
                let missed = missed.into_iter().filter(|election| self.identity.sees(election.as_str()));
                self.waiting.extend(missed);
            }
            None => self.say("gap", true, &json!({})),
        }
    }

    fn say(&mut self, kind: &str, numbered: bool, data: &Value) {
        let id = if numbered { format!("id: {}\n", self.service.id_of(self.number)) } else { String::new() };
        self.told.push_back(format!("{id}event: {kind}\ndata: {data}\n\n"));
    }

    /// The next event; none if the server stops.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(text) = self.told.pop_front() {
                return Some(text);
            }
            if !self.waiting.is_empty() {
                self.tell().await;
                continue;
            }
            tokio::select! {
                change = self.changes.recv() => match change {
                    Ok(change) => {
                        self.take(change);
                        tokio::time::sleep(GATHER).await;
                        self.gather();
                        self.tell().await;
                    }
                    Err(RecvError::Lagged(_)) => self.gap(),
                    Err(RecvError::Closed) => return None,
                },
                () = tokio::time::sleep_until(self.next_tick) => self.tick().await,
                () = self.service.stops() => return None,
            }
        }
    }

    fn take(&mut self, (number, election): (u64, ElectionName)) {
        self.number = self.number.max(number);
        if self.identity.sees(election.as_str()) {
            self.waiting.insert(election);
        }
    }

    /// Takes in whatever has happened.
    fn gather(&mut self) {
        while self.waiting.len() <= GATHERED {
            match self.changes.try_recv() {
                Ok(change) => self.take(change),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
                Err(TryRecvError::Lagged(_)) => break,
            }
        }
        self.gap();
    }

    /// Too much has happened to tell it one by one.
    fn gap(&mut self) {
        self.waiting.clear();
        self.changes = self.service.engine.changes();
        self.number = self.service.engine.follow();
        self.say("gap", true, &json!({}));
    }

    /// Tells what changed, as it stands. The last event of several has the number up to which all is told.
    async fn tell(&mut self) {
        let mut rows = Vec::new();
        for election in std::mem::take(&mut self.waiting) {
            match self.service.engine.view(&election).await {
                Ok(view) => rows.extend(view.document.map(|document| overview::row(&document, view.age))),
                // Who looks at it will see why.
                Err(_) => return self.gap(),
            }
        }
        let parts = rows.chunks(ROWS).count();
        for (place, part) in rows.chunks(ROWS).enumerate() {
            self.say("changes", place + 1 == parts, &json!({ "rows": part }));
        }
        if parts > 0 {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Looks at what is no change of an election.
    async fn tick(&mut self) {
        self.next_tick = Instant::now() + TICK;
        self.ticks += 1;
        self.service.engine.look_for_new().await;
        let renewed = self.renewed().await;
        if !renewed.is_empty() {
            self.say("leases", false, &json!({ "leases": renewed }));
        }
        let boards = self.boards();
        if !boards.is_empty() {
            self.say("boards", false, &json!({ "elections": boards }));
        }
        if self.ticks.is_multiple_of(TICKS_AGENTS) {
            let attended = self.attended().await;
            if !attended.is_empty() {
                self.say("attended", false, &json!({ "rows": attended }));
            }
        }
        let pulse = self.service.sessions.pulse();
        let agents = self.ticks.is_multiple_of(TICKS_AGENTS) && self.identity.sees_all();
        if agents && pulse != self.pulse {
            self.pulse = pulse;
            self.say("agents", false, &json!({}));
        }
        if self.ticks.is_multiple_of(TICKS_ALIVE) {
            self.say("alive", false, &json!({}));
        }
    }

    /// The leases that are another's or end later than was told: the election, the holder's token, how long it lasts.
    async fn renewed(&mut self) -> Vec<(ElectionName, u64, u64)> {
        let mut renewed = Vec::new();
        for WatchedElection { election, lease, .. } in &mut self.watched {
            let Ok(view) = self.service.engine.view(election).await else { continue };
            let Some(document) = view.document else { continue };
            let Some(holder) = document.lease_holder() else { continue };
            let left = document.lease_remaining(view.age);
            let end = boot::now() + left;
            if lease.is_none_or(|(token, told)| token != holder.epoch || end.since(told) > MOVED) {
                *lease = Some((holder.epoch, end));
                renewed.push((election.clone(), holder.epoch.0, left.as_millis()));
            }
        }
        renewed
    }

    /// Whose boards have changed.
    fn boards(&mut self) -> Vec<ElectionName> {
        let mut changed = Vec::new();
        for WatchedElection { election, board, .. } in &mut self.watched {
            let now = self.service.boards.changes(election);
            if now.is_some() && now != *board {
                *board = now;
                changed.push(election.clone());
            }
        }
        changed
    }

    /// The elections of which something changed since the last report: how many agents know of the leader,
    /// how many wait in line, or whether the leader is suspected to be gone.
    async fn attended(&mut self) -> Vec<AttendanceEvent> {
        let mut documents = Vec::new();
        for watched in &mut self.watched {
            let Ok(view) = self.service.engine.view(&watched.election).await else { continue };
            documents.extend(view.document.map(|document| (watched, document)));
        }
        let leaders: HashSet<AgentName> = documents
            .iter()
            .filter_map(|(_, document)| Some(document.leader.as_ref()?.agent.clone()))
            .collect();
        let suspicions = self.service.sessions.suspicions(|agent| leaders.contains(agent));
        let mut told = Vec::new();
        for (watched, document) in documents {
            let attended = self.service.attended(&document, &suspicions).await;
            if watched.attended.as_ref() != Some(&attended) {
                watched.attended = Some(attended.clone());
                told.push(attended);
            }
        }
        told
    }
}
