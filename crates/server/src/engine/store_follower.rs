//! Follows elections that others decide, by the store's own watch, while somebody here looks at them.
//!
//! Guarantees that a change of such an election is told as a change that was made here is, within a moment where the store tells of changes,
//! and within [`AT_THE_LATEST`] where it does not. Does not follow more than [`MOST`] elections: the others are shown as they
//! stand whenever somebody looks. Renewals are no changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use baton_election::document::Leader;
use baton_election::time::{Moment, Span};
use baton_election::{Document, ElectionName};
use baton_store::{Key, Prefix, boot};
use futures_util::StreamExt;

use super::compact_document::CompactDocument;
use super::{Engine, Shared, is_reserved};

/// The most elections that are followed at once.
const MOST: usize = 1_024;
/// How long an election is followed after the last look at it.
const INTEREST: Span = Span::secs(90);
/// How often a followed election is read even if the store tells of no change.
const AT_THE_LATEST: Duration = Duration::from_secs(5);
/// How long to wait after the store could not be watched.
const AFTER_A_FAILURE: Duration = Duration::from_secs(1);
/// How often the store is asked for new elections.
const LIST: Span = Span::secs(1);

/// What is followed.
#[derive(Default)]
pub(super) struct StoreFollower {
    /// When somebody last looked at each.
    followed: Mutex<HashMap<ElectionName, Moment>>,
    /// When the elections were last listed.
    listed: Mutex<Moment>,
}

impl StoreFollower {
    fn followed(&self) -> MutexGuard<'_, HashMap<ElectionName, Moment>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a look. Says whether nobody follows the election yet, and there is room to.
    fn note(&self, election: &ElectionName, now: Moment) -> bool {
        let mut followed = self.followed();
        if let Some(looked) = followed.get_mut(election) {
            *looked = now;
            return false;
        }
        let room = followed.len() < MOST;
        if room {
            followed.insert(election.clone(), now);
        }
        room
    }

    /// Whether a list is due; if so, it is this caller's to make.
    fn is_due(&self, now: Moment) -> bool {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let due = now.since(*listed) >= LIST;
        if due {
            *listed = now;
        }
        due
    }
}

impl Engine {
    /// Whether it only shows what others decide.
    pub fn observes(&self) -> bool {
        self.shared.observes()
    }

    /// Tells of changes of an election for a while, also if others make them.
    pub fn keep_following(&self, election: &ElectionName) {
        self.shared.follow_there(election);
    }

    /// Looks for elections that others have made, and tells of them, for as long as somebody asks. Many may ask: the store is asked once.
    pub async fn look_for_new(&self) {
        let shared = &self.shared;
        if shared.authority.is_alone() || !shared.follower.is_due(boot::now()) {
            return;
        }
        // What cannot be read is shown as it was; the next look says why.
        let _ = shared.refresh_info().await;
        let Ok(found) = shared.store.list_part(&Prefix::Elections, None, MOST).await else { return };
        for key in found {
            if let Key::Election(election) = key {
                shared.follow_there(&election);
            }
        }
    }
}

impl Shared {
    /// Follows an election in the store, unless it is decided here.
    pub(super) fn follow_there(self: &Arc<Self>, election: &ElectionName) {
        let here = |election: &ElectionName| self.shard(election).known.contains(election.as_str());
        if self.authority.is_alone() || is_reserved(election) || here(election) {
            return;
        }
        if self.follower.note(election, boot::now()) {
            tokio::spawn(follow(Arc::downgrade(self), election.clone()));
        }
    }

    /// Whether an election is still to be followed. If not, it is forgotten in the same step.
    fn is_of_interest(&self, election: &ElectionName) -> bool {
        let decided_here = self.shard(election).known.contains(election.as_str());
        let listened_to = self.changes.has_listener(election);
        let mut followed = self.follower.followed();
        let recent = followed.get(election).is_some_and(|looked| boot::now().since(*looked) < INTEREST);
        let stays = !decided_here && (recent || listened_to);
        if !stays {
            followed.remove(election);
        }
        stays
    }

    /// Tells of an election that others have changed since it was told of.
    async fn tell_of_others(self: &Arc<Self>, election: &ElectionName, told: &mut Option<Document>) {
        let Ok(Some(view)) = self.look_at_others(election).await else { return };
        let Some(document) = view.document else { return };
        if told.as_ref().is_none_or(|told| !only_renews(told, &document)) {
            let stamp = boot::now() - view.age;
            let compact = CompactDocument::of(document.clone(), &self.interner);
            let shard = self.shard(election);
            // Whoever decides here tells of it in order.
            if !shard.known.contains(election.as_str()) {
                self.changes.publish(election, &compact, stamp, false);
            }
        }
        *told = Some(document);
    }
}

/// Follows one election until nobody is interested in it, it is decided here, or the engine is gone.
async fn follow(shared: Weak<Shared>, election: ElectionName) {
    let key = Key::Election(election.clone());
    let (mut told, mut changes) = (None, None);
    loop {
        {
            let Some(shared) = shared.upgrade() else { return };
            if !shared.is_of_interest(&election) {
                return;
            }
            if changes.is_none() {
                changes = shared.store.watch(&key).await.ok();
            }
            // After the watch began, so that nothing is missed between them.
            shared.tell_of_others(&election, &mut told).await;
        }
        match &mut changes {
            Some(stream) => {
                if let Ok(None) = tokio::time::timeout(AT_THE_LATEST, stream.next()).await {
                    changes = None;
                    tokio::time::sleep(AFTER_A_FAILURE).await;
                }
            }
            None => tokio::time::sleep(AFTER_A_FAILURE).await,
        }
    }
}

/// Whether `next` is `old` after renewals, and nothing else.
fn only_renews(old: &Document, next: &Document) -> bool {
    let (Some(before), Some(after)) = (&old.leader, &next.leader) else { return old == next };
    let renewed = Leader {
        renewals: after.renewals,
        expires: after.expires,
        held: after.held,
        idle: after.idle,
        offered: false,
        ..before.clone()
    };
    let expected =
        Document { beat: next.beat, approval: next.approval.clone(), leader: Some(renewed), ..old.clone() };
    expected.approval.question == old.approval.question && expected == *next
}
