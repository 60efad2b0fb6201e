//! What is wrong with elections, found by the server itself: no leader, flapping, two leaders, contention, and warnings; and with those who ask.
//!
//! Assumes that somebody looks at `/v1/alerts` or has a webhook. Guarantees that each alert is told once when it begins and once when it ends, while
//! the server lives, and that an election waits for none of it: the server looks once a second at what it has in memory. Does not guarantee to see what
//! nobody tells it: of elections without a server it knows what members report (`baton peer --report`). After a restart it looks anew.

mod board;
mod judge;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use baton_api::alerts::{AlertKind, Alerts as Shown};
use baton_election::ElectionName;
use baton_election::time::{Moment, Span};
use baton_store::boot;
use tokio::task::AbortHandle;

use crate::engine_store::EngineStore;
use crate::http::Uses;
use crate::metrics::QUIET;
use crate::sessions::Sessions;
pub(crate) use board::AlertChange;
use board::{Board, Subject};
pub(crate) use judge::{ClaimedLeader, SuspectAgent};
use judge::{Observation, judge, judge_quotas, judge_refusals};
pub use judge::{Rate, Thresholds};

/// How often the server looks.
const LOOK: Duration = Duration::from_secs(1);
/// How long those who follow have to acknowledge a change before somebody wonders.
const PATIENCE: Span = Span::secs(15);
/// The most elections that are judged at once.
const JUDGED: usize = 20_000;

/// Is told of each alert that begins or ends, at once and in order. It must not wait for anything.
pub(crate) type Crier = Box<dyn Fn(&Arc<AlertChange>) + Send + Sync>;

/// What is warned of, and where it stands what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warnings {
    /// From where on something is wrong.
    pub limits: Thresholds,
    /// Below which address or folder there is a page for each alert.
    pub runbooks: String,
}

impl Default for Warnings {
    fn default() -> Warnings {
        Warnings { limits: Thresholds::default(), runbooks: "docs/operations".to_string() }
    }
}

/// Looks after all elections of one server.
pub(crate) struct Alerts {
    warnings: Warnings,
    state: Mutex<State>,
    criers: RwLock<Vec<Crier>>,
    task: Mutex<Option<AbortHandle>>,
}

struct State {
    board: Board,
    /// What nobody leads while somebody waits, and for how long.
    leaderless: Vec<(ElectionName, Span)>,
    /// Whose leaders were suspected at the last look.
    suspected: HashMap<ElectionName, SuspectAgent>,
    looked: Moment,
}

impl Drop for Alerts {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        task.iter().for_each(AbortHandle::abort);
    }
}

impl Alerts {
    /// Looks from here on. The task that this starts ends with it.
    pub(crate) fn start(
        warnings: Warnings,
        sessions: &Arc<Sessions>,
        store: &Arc<EngineStore>,
        uses: &Arc<Uses>,
    ) -> Arc<Alerts> {
        if let Some(rate) = warnings.limits.refusals {
            uses.count_over(rate.window);
        }
        sessions.engine().meters().judge_by(&warnings.limits);
        let state = State {
            board: Board::default(),
            leaderless: Vec::new(),
            suspected: HashMap::new(),
            looked: boot::now(),
        };
        let alerts = Arc::new(Alerts {
            warnings,
            state: Mutex::new(state),
            criers: RwLock::default(),
            task: Mutex::default(),
        });
        let looking = keep_looking(
            Arc::downgrade(&alerts),
            Arc::downgrade(sessions),
            Arc::downgrade(store),
            Arc::clone(uses),
        );
        let task = tokio::spawn(looking).abort_handle();
        *alerts.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        alerts
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has somebody told of what begins and ends.
    pub(crate) fn tell(&self, crier: Crier) {
        self.criers.write().unwrap_or_else(PoisonError::into_inner).push(crier);
    }

    /// What is wrong, of the elections that somebody may see.
    pub(crate) fn shown(&self, sees: impl Fn(&ElectionName) -> bool, sees_all: bool) -> Shown {
        let state = self.state();
        let mut alerts = state.board.shown(boot::now(), &self.warnings.runbooks);
        // Alerts without an election, such as those on tokens, are for callers that see everything.
        alerts.retain(|alert| alert.election.as_ref().map_or(sees_all, &sees));
        Shown { alerts, more: if sees_all { state.board.more() } else { 0 }, no_operator: false }
    }

    /// How many alerts of each kind there are.
    pub(crate) fn counts(&self) -> Vec<(AlertKind, u64)> {
        let shown = self.state().board.shown(boot::now(), "");
        let count = |kind| shown.iter().filter(|alert| alert.alert == kind).count() as u64;
        AlertKind::ALL.into_iter().map(|kind| (kind, count(kind))).collect()
    }

    /// What nobody leads while somebody waits.
    pub(crate) fn leaderless(&self) -> Vec<(ElectionName, Span)> {
        self.state().leaderless.clone()
    }

    /// The elections whose leaders are silent. Such a leader is remembered until it is heard of or its lease
    /// ends, also if its session is forgotten first.
    fn suspect(&self, all: &mut HashMap<ElectionName, Observation>, sessions: &Sessions) {
        let Some(least) = self.warnings.limits.suspicion else { return };
        let before = std::mem::take(&mut self.state().suspected);
        let suspected = sessions.suspected_leaders(least, before);
        for (election, leader) in &suspected {
            if let Some(observed) = of(all, election.clone()) {
                observed.suspected = Some(leader.clone());
            }
        }
        self.state().suspected = suspected;
    }

    fn look(&self, sessions: &Sessions, store: &EngineStore, uses: &Uses) {
        let now = boot::now();
        let meters = sessions.engine().meters();
        let mut all = gather(sessions, store);
        self.suspect(&mut all, sessions);
        recall(&mut all, &mut meters.notes(), now);
        let mut leaderless = Vec::new();
        for (election, observed) in &mut all {
            if observed.is_wanted() {
                observed.leaderless = sessions.engine().leaderless(election);
                leaderless.extend(observed.leaderless.map(|since| (election.clone(), since)));
            }
        }
        let mut found = judge_refusals(&uses.refused_lately(now), &self.warnings.limits);
        found.extend(judge_quotas(&sessions.engine().census().nearly_used()));
        for (election, observed) in all {
            for finding in judge(&election, &observed, &self.warnings.limits) {
                found.push((Subject::Election(election.clone()), finding));
            }
        }
        let turned = {
            let mut state = self.state();
            let passed = now.since(state.looked);
            state.looked = now;
            for (election, since) in &leaderless {
                meters.leaderless(std::iter::once(election), now, passed.min(*since));
            }
            state.leaderless = leaderless;
            state.board.turn(found, now, boot::wall(), &self.warnings.runbooks)
        };
        let criers = self.criers.read().unwrap_or_else(PoisonError::into_inner);
        for turned in turned.into_iter().map(Arc::new) {
            criers.iter().for_each(|cry| cry(&turned));
        }
    }
}

/// Gathers, by election: how many agents wait in line, stand as candidates, follow, and know of the last
/// change of leader, and which of them say that they lead.
fn gather(sessions: &Sessions, store: &EngineStore) -> HashMap<ElectionName, Observation> {
    let mut all: HashMap<ElectionName, Observation> = HashMap::new();
    let attendance = sessions.attendance();
    for (election, waiting) in sessions.engine().in_line() {
        if let Some(observed) = of(&mut all, election) {
            observed.waiting = waiting;
        }
    }
    for (election, candidates) in store.standing() {
        if let Some(observed) = of(&mut all, election) {
            observed.candidates = candidates;
        }
    }
    for (election, followers) in attendance.followed {
        if let Some(observed) = of(&mut all, election) {
            observed.followers = followers;
        }
    }
    for round in attendance.rounds.into_iter().filter(|round| round.age >= PATIENCE && round.age < QUIET) {
        if let Some(observed) = of(&mut all, round.election) {
            observed.told = Some((round.told, round.expected));
        }
    }
    for (election, avowals) in sessions.avowals() {
        if let Some(observed) = of(&mut all, election) {
            observed.avowals = avowals;
        }
    }
    all
}

fn of(all: &mut HashMap<ElectionName, Observation>, election: ElectionName) -> Option<&mut Observation> {
    if all.len() >= JUDGED && !all.contains_key(&election) {
        return None;
    }
    Some(all.entry(election).or_default())
}

/// What is remembered of each.
fn recall(all: &mut HashMap<ElectionName, Observation>, notes: &mut crate::metrics::Notes, now: Moment) {
    for (election, note) in notes.all() {
        let (changes, elections, refused) =
            (note.changes.sum(now), note.elections.sum(now), note.refused.sum(now));
        let barred = note.barred.sum(now);
        let took = note.took.filter(|(at, _)| now.since(*at) < QUIET).map(|(_, took)| took);
        if changes + elections + refused + barred == 0 && took.is_none() {
            continue;
        }
        if let Some(observed) = of(all, election.clone()) {
            (observed.changes, observed.elections, observed.refused) = (changes, elections, refused);
            (observed.barred, observed.took) = (barred, took);
        }
    }
}

async fn keep_looking(
    alerts: Weak<Alerts>,
    sessions: Weak<Sessions>,
    store: Weak<EngineStore>,
    uses: Arc<Uses>,
) {
    loop {
        tokio::time::sleep(LOOK).await;
        let (Some(alerts), Some(sessions), Some(store)) =
            (alerts.upgrade(), sessions.upgrade(), store.upgrade())
        else {
            return;
        };
        alerts.look(&sessions, &store, &uses);
    }
}
