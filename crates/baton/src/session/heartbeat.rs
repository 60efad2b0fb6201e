//! The heartbeat: one sign of life, by which every lease that rides on the session is renewed.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_api::describe::Description;
use baton_api::sessions::{
    Announce, Heartbeat, HeartbeatReply, LeaseFailure, LeaseRef, MAX_AT_ONCE, SessionLease,
};
use baton_election::time::{Moment, Span};
use baton_election::{ElectionName, Epoch, Refusal};
use baton_store::boot;
use serde_json::Value;

use super::{Inner, State};
use crate::coordinator::mint_credential;
use crate::renewer::within;
use baton_api::{Backoff, CommandError, Patience, jitter};

/// The longest that an answer is waited for.
const PATIENCE: Span = Span::secs(5);
/// The shortest time between two heartbeats, whatever a server says.
const SHORTEST: Span = Span::millis(100);

/// When to beat next.
pub(super) enum Next {
    /// As the server wants it.
    AsTold(HeartbeatReply),
    /// There is more to tell it.
    AtOnce,
    /// After a while: it did not work.
    Again,
}

/// What was sent, to be compared with what is answered.
pub(super) struct Sent {
    /// When: before anything of it left.
    at: Moment,
    pub(super) announces: bool,
    pub(super) add: Vec<SessionLease>,
    pub(super) drop: Vec<LeaseRef>,
    pub(super) follows: Option<Vec<ElectionName>>,
    health: Option<Value>,
    progress: Option<Value>,
    description: Option<Description>,
    /// Every lease that the server renews if all is well.
    pub(super) rides: BTreeMap<ElectionName, Epoch>,
}

/// How long it takes until the next heartbeat, at most.
pub(super) fn every(beat: &HeartbeatReply) -> Span {
    Span::millis(beat.heartbeat_ms).plus(Span::millis(beat.jitter_ms)).max(SHORTEST)
}

/// Beats for ever.
pub(super) async fn keep_alive(inner: Arc<Inner>, first: HeartbeatReply) {
    let patience = Patience { longest: Span::secs(1), ..Patience::default() }.endless();
    let mut backoff = Backoff::new(patience);
    let mut next_at = after(&first);
    loop {
        let until = inner.first_deadline().map_or(next_at, |deadline| next_at.min(deadline));
        let slept = tokio::select! {
            slept = boot::sleep_until(until) => slept,
            () = inner.nudge.notified() => Ok(()),
        };
        if slept.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        next_at = match inner.beat().await {
            Next::AsTold(beat) => {
                backoff = Backoff::new(patience);
                after(&beat)
            }
            Next::AtOnce => boot::now(),
            Next::Again => boot::now() + backoff.next().unwrap_or(Span::secs(1)),
        };
    }
}

/// When the next one is due that follows this answer.
fn after(beat: &HeartbeatReply) -> Moment {
    let wanted = Span::millis(beat.heartbeat_ms).plus(jitter(Span::millis(beat.jitter_ms)));
    boot::now() + wanted.max(SHORTEST)
}

impl Inner {
    /// When the first lease ends, if none is renewed.
    fn first_deadline(&self) -> Option<Moment> {
        self.state().leases.values().map(|lease| lease.tenure.deadline()).min()
    }

    async fn beat(&self) -> Next {
        let (sent, announce, heartbeat, limit) = {
            let mut state = self.state();
            let sent = state.send();
            let credential = self.credential(&state);
            let announce = Announce {
                agent: self.agent.clone(),
                credential,
                number: state.number,
                follows: sent.follows.clone().unwrap_or_default(),
                leases: sent.add.clone(),
            };
            let heartbeat = Heartbeat {
                leads: state.leads.clone(),
                credential,
                number: state.number,
                add: sent.add.clone(),
                drop: sent.drop.clone(),
                follows: sent.follows.clone(),
                health: sent.health.clone(),
                progress: sent.progress.clone(),
                description: sent.description.clone(),
            };
            let limit = sent.at + state.every.min(PATIENCE);
            (sent, announce, heartbeat, limit)
        };
        let Ok(sessions) = self.coordinator.server_sessions() else { return Next::Again };
        let limit = self.first_deadline().map_or(limit, |deadline| limit.min(deadline));
        let asked = async {
            match sent.announces {
                true => sessions.announce(&announce).await.map(Some),
                false => sessions.heartbeat(&heartbeat).await,
            }
        };
        match within(limit, asked).await {
            Some(Ok(Some(beat))) => self.answered(sent, beat),
            Some(Ok(None)) => {
                self.state().announced = false;
                Next::Again
            }
            Some(Err(CommandError::Refused(Refusal::WrongKey { .. }))) => {
                // Another has taken this number while the server did not know it. The key is what counts.
                if let Ok(fresh) = mint_credential() {
                    self.state().id = fresh.incarnation;
                }
                self.state().announced = false;
                Next::Again
            }
            Some(Err(error)) => self.failed(&error.to_string()),
            None => self.failed("the server does not answer"),
        }
    }

    fn failed(&self, why: &str) -> Next {
        let mut state = self.state();
        state.reached = false;
        let lost = state.leases.iter_mut().filter_map(|(election, lease)| {
            let lost = !lease.overdue(why);
            lost.then(|| election.clone())
        });
        for election in lost.collect::<Vec<_>>() {
            state.end(&election, &format!("no heartbeat was accepted in time: {why}"));
        }
        state.all_stale();
        Next::Again
    }

    pub(super) fn answered(&self, sent: Sent, beat: HeartbeatReply) -> Next {
        self.seen.now();
        let mut state = self.state();
        let found = !std::mem::replace(&mut state.reached, true);
        if !sent.announces {
            // A server to which it is new tells of everything anew, and confirms nothing before.
            state.confirm();
        }
        state.announced = true;
        state.every = every(&beat);
        // Only what was there when it was sent: the rest is told the next time.
        state.dropping.drain(..sent.drop.len());
        if !sent.announces {
            state.health.take_if(|word| Some(&*word) == sent.health.as_ref());
            state.progress.take_if(|word| Some(&*word) == sent.progress.as_ref());
            if sent.description == state.description {
                state.undescribed = false;
            }
        } else {
            // An announcement does not take a description along.
            state.undescribed = state.description.is_some();
        }
        let mut asks = found;
        if sent.follows.is_some() && sent.follows == Some(state.followed()) {
            let unfollowed = beat.unfollowed.iter().cloned().collect();
            asks |= !state.follows_known || state.unfollowed != unfollowed;
            state.follows_known = true;
            if state.unfollowed != unfollowed {
                state.not_followed(unfollowed);
                self.look.notify_one();
            }
        }
        if asks {
            self.ask.notify_one();
        }
        state.take_in(&sent, &beat)
    }
}

impl State {
    /// What rides, what follows, what is to be forgotten: as much as one request takes.
    pub(super) fn send(&mut self) -> Sent {
        let announces = !self.announced;
        if announces {
            // Whatever it knew, it knows nothing.
            self.dropping.clear();
            self.follows_known = false;
            self.leases.values_mut().for_each(|lease| lease.confirmed = false);
        }
        let new = self.leases.values().filter(|lease| !lease.confirmed).take(MAX_AT_ONCE);
        let add: Vec<SessionLease> = new.map(|lease| lease.ride.clone()).collect();
        let known = self.leases.values().filter(|lease| lease.confirmed).map(|lease| &lease.ride);
        let rides = known.chain(&add).map(|ride| (ride.election.clone(), ride.token)).collect();
        let drop = self.dropping.iter().take(MAX_AT_ONCE).cloned().collect();
        let asks_again = announces || !self.follows_known || !self.unfollowed.is_empty();
        let follows = asks_again.then(|| self.followed());
        self.number += 1;
        let (health, progress) = (self.health.clone(), self.progress.clone());
        let description = self.description.clone().filter(|_| self.undescribed);
        Sent { at: boot::now(), announces, add, drop, follows, health, progress, description, rides }
    }

    pub(super) fn followed(&self) -> Vec<ElectionName> {
        self.follows.keys().cloned().collect()
    }

    /// Takes in an answer. What it names is not renewed, and if it does not count as many as it should, nothing is.
    fn take_in(&mut self, sent: &Sent, beat: &HeartbeatReply) -> Next {
        let named = |named: &LeaseFailure| sent.rides.get(&named.election) == Some(&named.token);
        let expected =
            sent.rides.len() - beat.lost.iter().chain(&beat.failed).filter(|lost| named(lost)).count();
        for lost in &beat.lost {
            if self.leases.get(&lost.election).is_some_and(|lease| lease.ride.token == lost.token) {
                self.end(&lost.election, &lost.why);
            } else {
                // It was given up meanwhile: the server need not name it again.
                self.dropping.push(LeaseRef { election: lost.election.clone(), token: lost.token });
            }
        }
        if usize::try_from(beat.riding) != Ok(expected) {
            self.announced = false;
            return Next::Again;
        }
        let failed: BTreeMap<_, _> =
            beat.failed.iter().map(|failed| (&failed.election, &failed.why)).collect();
        let mut lost = Vec::new();
        for (election, token) in &sent.rides {
            let Some(lease) = self.leases.get_mut(election).filter(|lease| lease.ride.token == *token) else {
                continue;
            };
            lease.confirmed = true;
            let changed = beat.changed.iter().find(|changed| changed.election == *election);
            let held = match failed.get(election) {
                Some(why) => lease.overdue(why),
                None => {
                    match changed {
                        Some(changed) => lease.changed(changed.epoch, changed.awaiting_approval),
                        None => lease.unchanged(),
                    }
                    lease.renewed(sent.at)
                }
            };
            if !held {
                lost.push(election.clone());
            }
        }
        for election in lost {
            self.end(&election, "a heartbeat was answered after the deadline");
        }
        let more = self.leases.values().any(|lease| !lease.confirmed) || !self.follows_known;
        match (more, failed.is_empty()) {
            (_, false) => Next::Again,
            (true, true) => Next::AtOnce,
            (false, true) => Next::AsTold(beat.clone()),
        }
    }
}
