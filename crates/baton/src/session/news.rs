//! What the session follows: told by the server, and acknowledged once it is known here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use baton_api::sessions::{ElectionNews, NewsRequest};
use baton_election::ElectionName;
use baton_election::time::{Moment, Span};
use baton_store::boot;
use tokio::sync::watch;

use super::{Inner, State, Topic};
use crate::coordinator::View;
use crate::error::Error;
use crate::follow::{Follower, LeaderView, SeenAt, answered, lease_end, refreshed};
use baton_api::{Backoff, Patience};

/// How long one request waits for news.
const WAIT: Span = Span::secs(20);
/// How long nobody looks at an election whose lease has run out: what comes next is told.
const LOOK_AGAIN: Span = Span::secs(30);
/// How often somebody looks at an election that the server does not follow for this session.
const LOOK_AT_UNFOLLOWED: Span = Span::secs(5);

/// What is followed no longer once nobody wants to know.
struct Unfollow {
    inner: Arc<Inner>,
    election: ElectionName,
}

impl Drop for Unfollow {
    fn drop(&mut self) {
        let mut state = self.inner.state();
        let Some(topic) = state.follows.get_mut(&self.election) else { return };
        topic.followers -= 1;
        if topic.followers == 0 {
            state.follows.remove(&self.election);
            state.follows_known = false;
            self.inner.nudge.notify_one();
        }
    }
}

/// Follows an election. The first look is made before this returns.
pub(super) async fn follow(inner: &Arc<Inner>, election: &ElectionName) -> Result<Follower, Error> {
    let (view, seen) = {
        let mut state = inner.state();
        match state.follows.get_mut(election) {
            Some(topic) => {
                topic.followers += 1;
                (topic.known.subscribe(), Arc::clone(&topic.seen))
            }
            None => {
                state.check_follows()?;
                let unknown = LeaderView { stale: true, ..LeaderView::default() };
                let known = watch::Sender::new(Arc::new(unknown));
                let (view, seen) = (known.subscribe(), Arc::<SeenAt>::default());
                let topic = Topic { known, followers: 1, look_at: boot::now(), seen: Arc::clone(&seen) };
                state.follows.insert(election.clone(), topic);
                state.follows_known = false;
                (view, seen)
            }
        }
    };
    let unfollow = Unfollow { inner: Arc::clone(inner), election: election.clone() };
    inner.nudge.notify_one();
    let first = answered(inner.coordinator.view(election)).await;
    inner.know(election, first);
    Ok(Follower::kept_by(view, seen, unfollow))
}

/// Asks for news for ever, and by asking says what is known.
pub(super) async fn listen(inner: Arc<Inner>) {
    let patience = Patience { longest: Span::secs(2), ..Patience::default() }.endless();
    let (mut backoff, mut acknowledged) = (Backoff::new(patience), None);
    loop {
        let credential = {
            let state = inner.state();
            let asks = state.announced && state.reached && state.follows_known && !state.follows.is_empty();
            asks.then(|| inner.credential(&state))
        };
        let Some(credential) = credential else {
            // The heartbeat says when there is somebody to ask, and something to ask for.
            acknowledged = None;
            inner.ask.notified().await;
            continue;
        };
        let Ok(sessions) = inner.coordinator.server_sessions() else { return };
        let ask = NewsRequest { credential, acknowledged: acknowledged.clone(), wait_ms: WAIT.as_millis() };
        let asked_at = boot::now();
        let answer = tokio::select! {
            answer = sessions.news(&ask) => answer,
            () = inner.ask.notified() => {
                acknowledged = None;
                continue;
            }
        };
        match answer {
            Ok(Some(told)) => {
                inner.seen.now();
                inner.state().confirm();
                backoff = Backoff::new(patience);
                told.news.into_iter().for_each(|standing| inner.told(standing, asked_at));
                acknowledged = Some(told.event);
            }
            Ok(None) => {
                acknowledged = None;
                inner.state().announced = false;
                inner.nudge.notify_one();
                pause(&mut backoff).await;
            }
            Err(_) => {
                acknowledged = None;
                inner.state().all_stale();
                pause(&mut backoff).await;
            }
        }
    }
}

async fn pause(backoff: &mut Backoff) {
    let _ = boot::sleep(backoff.next().unwrap_or(Span::secs(2))).await;
}

/// Looks for ever at elections whose lease may have ended without a word.
pub(super) async fn look_after(inner: Arc<Inner>) {
    loop {
        let due = {
            let state = inner.state();
            let first = state.follows.iter().min_by_key(|(_, topic)| topic.look_at);
            first.map(|(election, topic)| (election.clone(), topic.look_at))
        };
        let Some((election, at)) = due else {
            inner.look.notified().await;
            continue;
        };
        // Not on the boot-time clock, since such a timer is a descriptor: who was suspended is told of everything anew.
        let left = Duration::from_nanos(at.since(boot::now()).as_nanos());
        tokio::select! {
            () = tokio::time::sleep(left) => {}
            () = inner.look.notified() => continue,
        }
        let seen = answered(inner.coordinator.view(&election)).await;
        inner.know(&election, seen);
    }
}

impl Inner {
    /// An election stands so, says the server.
    fn told(&self, standing: ElectionNews, asked_at: Moment) {
        let ElectionNews { election, document, age_ms } = standing;
        let (document, age) = (document.map(|document| *document), Span::millis(age_ms));
        let accepted = self.coordinator.accept(document.as_ref(), age, asked_at);
        // A client that has seen a higher epoch does not believe a lower one.
        let view = accepted.ok().map(|()| View { document, age, exact: true, native: false });
        self.know(&election, view);
    }

    /// What a look has shown, or that it has shown nothing.
    fn know(&self, election: &ElectionName, view: Option<View>) {
        if view.is_some() {
            self.seen.now();
        }
        let mut state = self.state();
        let unfollowed = state.unfollowed.contains(election);
        let Some(topic) = state.follows.get_mut(election) else { return };
        if view.is_some() {
            topic.seen.now();
        }
        let longest = if unfollowed { LOOK_AT_UNFOLLOWED } else { Span::MAX };
        let lasts = view.as_ref().map_or(LOOK_AGAIN, |view| match view.leader() {
            Some(_) => lease_end(view),
            None => LOOK_AGAIN,
        });
        topic.look_at = boot::now() + lasts.min(longest).max(Span::millis(50));
        let known = topic.known.borrow().clone();
        let next = refreshed(&known, view);
        if next != *known {
            topic.known.send_replace(Arc::new(next));
        }
        drop(state);
        self.look.notify_one();
    }
}

impl State {
    /// The server does not follow these for this session.
    pub(super) fn not_followed(&mut self, unfollowed: BTreeSet<ElectionName>) {
        for election in &unfollowed {
            if let Some(topic) = self.follows.get_mut(election) {
                topic.look_at = topic.look_at.min(boot::now() + LOOK_AT_UNFOLLOWED);
            }
        }
        self.unfollowed = unfollowed;
    }

    /// The server answered, and had nothing to tell of what is known. What is stale it has yet to tell of.
    pub(super) fn confirm(&self) {
        let told = self.follows.iter().filter(|(election, _)| !self.unfollowed.contains(*election));
        let fresh = told.filter(|(_, topic)| !topic.known.borrow().stale);
        fresh.for_each(|(_, topic)| topic.seen.now());
    }

    /// The server did not answer: what is known was known before.
    pub(super) fn all_stale(&mut self) {
        for topic in self.follows.values() {
            topic.known.send_if_modified(|known| {
                let fresh = !known.stale;
                if fresh {
                    *known = Arc::new(LeaderView { stale: true, ..(**known).clone() });
                }
                fresh
            });
        }
    }
}
