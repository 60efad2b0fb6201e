//! How many sessions know of a change of leader. The followers of the election are expected to acknowledge
//! it, and how many do is counted, not assumed.
//!
//! Assumes that a session which follows asks for news. Guarantees that each change of leader of an election
//! that is followed is counted once: when all have acknowledged it, after a minute, or at the next change,
//! whichever comes first. A session that ends in order, or says that it no longer follows, is excused; one
//! that falls silent is not.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use baton_election::time::{Moment, Span};
use baton_election::{ElectionName, Epoch, Incarnation};
use baton_store::boot;
use tokio::sync::mpsc;

use super::{Sessions, State};
use crate::engine::{Engine, Event};
use crate::metrics::Part;

/// How long those who follow have to acknowledge a change.
const TIME: Span = Span::secs(60);
/// How many elections that nobody follows any more are remembered for those who did not answer, and for how long.
pub(super) const UNANSWERED: usize = 10_000;
const REMEMBERED: Span = Span::secs(3_600);
/// How many changes may wait until somebody looks who should know of them. More are not counted.
const WAITING: usize = 4_096;

/// One change of leader, and who should know of it.
pub(super) struct NotificationRound {
    number: u64,
    epoch: Epoch,
    opened: Moment,
    expected: u64,
    told: u64,
    /// The sessions that have not acknowledged it yet.
    waiting: HashSet<Incarnation>,
    counted: bool,
}

/// How many know of the last change of leader of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoundView {
    pub(crate) election: ElectionName,
    pub(crate) told: u64,
    pub(crate) expected: u64,
    /// How long ago it was.
    pub(crate) age: Span,
}

/// How many sessions are alive, and what they follow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attendance {
    /// Sessions that are alive.
    pub(crate) alive: u64,
    /// What is followed, and by how many.
    pub(crate) followed: Vec<(ElectionName, u64)>,
    pub(crate) rounds: Vec<RoundView>,
}

/// The changes of leader of all elections.
pub(super) fn changes_of_leader(engine: &Engine) -> mpsc::Receiver<Arc<Event>> {
    let (sender, receiver) = mpsc::channel(WAITING);
    // Whoever tells of them waits for nobody.
    engine.tell_of_leaders(Box::new(move |event| drop(sender.try_send(Arc::clone(event)))));
    receiver
}

/// Opens a round for each change of leader.
pub(super) async fn open_all(sessions: Weak<Sessions>, mut changes: mpsc::Receiver<Arc<Event>>) {
    while let Some(event) = changes.recv().await {
        let Some(sessions) = sessions.upgrade() else { return };
        sessions.open_round(&event);
    }
}

impl Sessions {
    fn open_round(&self, event: &Event) {
        let mut state = self.state();
        let State { sessions, followed, .. } = &mut *state;
        let Some(followed) = followed.get_mut(&event.election) else { return };
        let Some(transition) = event.document().last_transition else { return };
        if let Some(before) = &mut followed.round {
            before.count(self);
        }
        let now = boot::now();
        let mut round = NotificationRound {
            number: event.number,
            epoch: transition.epoch,
            opened: now,
            expected: 0,
            told: 0,
            waiting: HashSet::new(),
            counted: false,
        };
        for incarnation in &followed.by {
            let Some(session) = sessions.get(incarnation).filter(|session| self.is_alive(session)) else {
                continue;
            };
            round.expected += 1;
            match session.acknowledged >= Some(event.number) {
                true => round.told += 1,
                false => drop(round.waiting.insert(*incarnation)),
            }
        }
        round.complete(&event.election, self, now);
        followed.round = Some(round);
    }

    /// A session has acknowledged everything up to an event.
    pub(super) fn acknowledged(&self, state: &mut State, incarnation: Incarnation, up_to: Option<u64>) {
        let State { sessions, followed, .. } = state;
        let Some(session) = sessions.get(&incarnation) else { return };
        let now = boot::now();
        for election in &session.follows {
            let Some(round) = followed.get_mut(election).and_then(|followed| followed.round.as_mut()) else {
                continue;
            };
            if up_to >= Some(round.number) && round.waiting.remove(&incarnation) {
                round.told += 1;
                round.complete(election, self, now);
            }
        }
    }

    /// A session that says that it no longer follows these elections is no longer expected to know.
    pub(super) fn excuse<'a>(
        &self,
        state: &mut State,
        incarnation: Incarnation,
        elections: impl IntoIterator<Item = &'a ElectionName>,
    ) {
        let now = boot::now();
        for election in elections {
            let round = state.followed.get_mut(election).and_then(|followed| followed.round.as_mut());
            if let Some(round) = round
                && round.waiting.remove(&incarnation)
            {
                round.expected -= 1;
                round.complete(election, self, now);
            }
        }
    }

    /// Counts what has had its time, and forgets what is old.
    pub(super) fn settle(&self, state: &mut State) {
        let now = boot::now();
        let rounds = state.followed.values_mut().filter_map(|followed| followed.round.as_mut());
        rounds.filter(|round| now.since(round.opened) >= TIME).for_each(|round| round.count(self));
        state.forget_unanswered(now);
    }

    /// How many of those who should know of the last change of leader do.
    pub(crate) fn participation(&self, election: &ElectionName) -> Option<(u64, u64)> {
        let state = self.state();
        let round = state.followed.get(election)?.round.as_ref()?;
        Some((round.told, round.expected))
    }

    /// How many sessions are alive, how many follow each election, and how many know of its last change of
    /// leader.
    pub(crate) fn attendance(&self) -> Attendance {
        let state = self.state();
        let now = boot::now();
        let alive = state.sessions.values().filter(|session| self.is_alive(session)).count() as u64;
        let followed = state.followed.iter().filter(|(_, followed)| !followed.by.is_empty());
        let followed = followed.map(|(election, followed)| (election.clone(), followed.by.len() as u64));
        let rounds = state.followed.iter().filter_map(|(election, followed)| {
            let round = followed.round.as_ref()?;
            Some(RoundView {
                election: election.clone(),
                told: round.told,
                expected: round.expected,
                age: now.since(round.opened),
            })
        });
        Attendance { alive, followed: followed.collect(), rounds: rounds.collect() }
    }
}

impl State {
    /// A session that did not answer is missed for so long, even if others follow; an election that nobody
    /// follows is then forgotten.
    fn forget_unanswered(&mut self, now: Moment) {
        self.followed.retain(|_, followed| {
            let old =
                |round: &mut NotificationRound| !round.is_answered() && now.since(round.opened) >= REMEMBERED;
            followed.round.take_if(old);
            !followed.by.is_empty() || followed.round.as_ref().is_some_and(|round| !round.is_answered())
        });
    }
}

impl NotificationRound {
    /// Whether nobody is missed.
    pub(super) fn is_answered(&self) -> bool {
        self.waiting.is_empty()
    }

    /// If all have acknowledged it, that is how long it took to tell them.
    fn complete(&mut self, election: &ElectionName, sessions: &Sessions, now: Moment) {
        if !self.waiting.is_empty() || self.counted {
            return;
        }
        if self.expected > 0 {
            let took = now.since(self.opened);
            sessions.engine.meters().phase(election, self.epoch, Part::Notification, took);
            sessions.engine.notified(election, self.epoch, took);
        }
        self.count(sessions);
    }

    fn count(&mut self, sessions: &Sessions) {
        if !std::mem::replace(&mut self.counted, true) {
            sessions.engine.meters().participated(self.told, self.expected);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::FollowedElection;
    use super::*;

    fn state(waiting: &[Incarnation]) -> (State, ElectionName) {
        let (mut state, election) = (State::default(), ElectionName::new("e").unwrap());
        let round = NotificationRound {
            number: 1,
            epoch: Epoch(1),
            opened: boot::now(),
            expected: 1,
            told: 0,
            waiting: waiting.iter().copied().collect(),
            counted: false,
        };
        let by = HashSet::from([Incarnation([1; 8])]);
        state
            .followed
            .insert(election.clone(), FollowedElection { latest: 1, exists: true, by, round: Some(round) });
        (state, election)
    }

    #[test]
    fn who_falls_silent_without_an_answer_is_missed_though_nobody_follows_any_more() {
        let silent = Incarnation([1; 8]);
        let (mut state, election) = state(&[silent]);
        state.unfollow(silent, &election);
        let round = state.followed.get(&election).and_then(|followed| followed.round.as_ref());
        assert_eq!(round.map(|round| (round.told, round.expected)), Some((0, 1)));
    }

    #[test]
    fn who_falls_silent_is_missed_for_an_hour_though_others_follow() {
        for others in [true, false] {
            let silent = Incarnation([1; 8]);
            let (mut state, election) = state(&[silent]);
            if others {
                state.followed.get_mut(&election).unwrap().by.insert(Incarnation([2; 8]));
            }
            state.unfollow(silent, &election);
            let is_missed =
                |state: &State| state.followed.get(&election).is_some_and(|it| it.round.is_some());
            let opened = boot::now();
            state.forget_unanswered(opened + Span::secs(3_500));
            assert!(is_missed(&state));
            state.forget_unanswered(opened + Span::secs(3_600));
            assert!(!is_missed(&state));
            assert_eq!(state.followed.contains_key(&election), others);
        }
    }

    #[test]
    fn what_all_have_answered_is_forgotten_with_the_last_who_follows() {
        let (mut state, election) = state(&[]);
        state.unfollow(Incarnation([1; 8]), &election);
        assert!(state.followed.is_empty());
    }
}
