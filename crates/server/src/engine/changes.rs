//! Tells listeners of changes, with numbers by which a listener that was cut off can go on where it was.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use baton_election::time::Moment;
use baton_election::{Document, ElectionName};
use tokio::sync::broadcast;

use super::compact_document::CompactDocument;

/// How many events are kept for those who were cut off.
const KEPT: usize = 2_048;
/// About how many bytes they take at most, and once more as much as JSON if all of them were told: a checkpoint can be large.
const KEPT_BYTES: usize = 4 << 20;
/// How many events one who is told of them may be behind.
const BEHIND: usize = 64;

/// A change of an election. Renewals are none.
pub struct Event {
    /// Rises with every event of this server.
    pub number: u64,
    /// Which election.
    pub election: ElectionName,
    /// When its clock was last restarted.
    pub stamp: Moment,
    compact: CompactDocument,
    /// The document as JSON, once somebody was told of it.
    json: OnceLock<Box<str>>,
}

/// Is told of each change of leader, at once and in order. It must not wait for anything.
pub(crate) type Herald = Box<dyn Fn(&Arc<Event>) + Send + Sync>;

impl Event {
    /// The document after it.
    pub fn document(&self) -> Document {
        self.compact.document(&self.election)
    }

    /// The same as JSON, which is written once for all who are told.
    pub(crate) fn json(&self) -> &str {
        self.json.get_or_init(|| match serde_json::to_string(&self.document()) {
            Ok(json) => json.into(),
            Err(error) => unreachable!("a document is always expressible as JSON: {error}"),
        })
    }

    /// One of which only the number matters.
    #[cfg(test)]
    pub(crate) fn numbered(number: u64) -> Arc<Event> {
        use baton_election::{Epoch, StoreId};
        let election = ElectionName::new("e").unwrap();
        let document = Document::new(election.clone(), StoreId([1; 8]), Epoch(0), &[]);
        let compact = CompactDocument::of(document, &super::FieldInterner::default());
        Arc::new(Event { number, election, stamp: Moment::default(), compact, json: OnceLock::new() })
    }
}

pub(super) struct Changes {
    state: Mutex<State>,
    heralds: RwLock<Vec<Herald>>,
    /// For those who want to know of every election.
    all: broadcast::Sender<(u64, ElectionName)>,
}

impl Default for Changes {
    fn default() -> Changes {
        Changes { state: Mutex::default(), heralds: RwLock::default(), all: broadcast::Sender::new(KEPT) }
    }
}

#[derive(Default)]
struct State {
    number: u64,
    kept: VecDeque<Arc<Event>>,
    kept_bytes: usize,
    /// Whether anybody wants to know of every election.
    followed: bool,
    /// The listeners of one election. They are told of a change, or that a look shows more than any change
    /// did.
    listeners: HashMap<ElectionName, broadcast::Sender<Option<Arc<Event>>>>,
}

impl State {
    fn keep(&mut self, event: Arc<Event>) {
        self.kept_bytes += event.compact.weight();
        self.kept.push_back(event);
        while self.kept.len() > KEPT || self.kept_bytes > KEPT_BYTES {
            let Some(oldest) = self.kept.pop_front() else { return };
            self.kept_bytes -= oldest.compact.weight();
        }
    }
}

/// What one is told.
pub enum ChangeNotice {
    /// A change.
    Event(Arc<Event>),
    /// Changes may have been missed; a look shows how it stands.
    Gap,
}

/// Tells one of the changes of one election.
pub struct Subscription {
    /// The number of the last event before it.
    pub after: u64,
    missed: VecDeque<ChangeNotice>,
    /// None only while it is dropped.
    events: Option<broadcast::Receiver<Option<Arc<Event>>>>,
    election: ElectionName,
    changes: Arc<Changes>,
}

impl Changes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of a change, and whether it is one of leader. Whoever makes several of one election tells of them in their order.
    pub(super) fn publish(
        &self,
        election: &ElectionName,
        compact: &CompactDocument,
        stamp: Moment,
        transition: bool,
    ) {
        let mut state = self.state();
        state.number += 1;
        let (number, election, compact) = (state.number, election.clone(), compact.clone());
        let event = Arc::new(Event { number, election, stamp, compact, json: OnceLock::new() });
        if state.followed {
            // Only the name: whoever wants more looks.
            let _ = self.all.send((event.number, event.election.clone()));
        }
        if let Some(listeners) = state.listeners.get(&event.election) {
            // Who left meanwhile sees to the rest.
            let _ = listeners.send(Some(Arc::clone(&event)));
        }
        if transition {
            self.heralds.read().unwrap_or_else(PoisonError::into_inner).iter().for_each(|tell| tell(&event));
        }
        state.keep(event);
    }

    /// Has everybody look again who is told of one election: what all of them wait for has changed, and none of them.
    pub(super) fn have_all_look(&self) {
        for listeners in self.state().listeners.values() {
            let _ = listeners.send(None);
        }
    }

    /// Has somebody told of the changes of leader of all elections, for as long as the engine runs. After an outcome that nobody knew
    /// one may be told of twice.
    pub(super) fn tell_of_leaders(&self, herald: Herald) {
        self.heralds.write().unwrap_or_else(PoisonError::into_inner).push(herald);
    }

    /// Tells of every election, once somebody has asked for [`Changes::follow`].
    pub(super) fn subscribe_to_all(&self) -> broadcast::Receiver<(u64, ElectionName)> {
        self.all.subscribe()
    }

    /// From here on every election is told of. The number of the last event before.
    pub(super) fn follow(&self) -> u64 {
        let mut state = self.state();
        state.followed = true;
        state.number
    }

    /// Which elections the events after this one were of; none if some are forgotten, or it is one that has not been.
    pub(super) fn since(&self, number: u64) -> Option<BTreeSet<ElectionName>> {
        let state = self.state();
        let oldest = state.kept.front().map_or(state.number + 1, |event| event.number);
        if number > state.number || number + 1 < oldest {
            return None;
        }
        let later = state.kept.iter().rev().take_while(|event| event.number > number);
        Some(later.map(|event| event.election.clone()).collect())
    }

    /// The first event that is kept of an election at this beat or a later one. If none is, since only renewals came after, the
    /// last one. If none is kept at all, the last of any election: whoever knows that one knows what was forgotten.
    pub(super) fn first_at(&self, election: &ElectionName, beat: u64) -> u64 {
        let state = self.state();
        // The newest first: what is asked for was told a moment ago.
        let mut found = None;
        for event in state.kept.iter().rev().filter(|event| event.election == *election) {
            if found.is_none() || event.compact.beat() >= beat {
                found = Some(event.number);
            }
            if event.compact.beat() < beat {
                break;
            }
        }
        found.unwrap_or(state.number)
    }

    pub(super) fn subscribe(self: &Arc<Self>, election: &ElectionName, after: Option<u64>) -> Subscription {
        let mut state = self.state();
        let mut missed = VecDeque::new();
        if let Some(after) = after {
            let oldest = state.kept.front().map_or(state.number + 1, |event| event.number);
            if after > state.number || after + 1 < oldest {
                missed.push_back(ChangeNotice::Gap);
            } else {
                let since =
                    state.kept.iter().filter(|event| event.number > after && event.election == *election);
                missed.extend(since.map(|event| ChangeNotice::Event(Arc::clone(event))));
            }
        }
        let after = state.number;
        let sender =
            state.listeners.entry(election.clone()).or_insert_with(|| broadcast::Sender::new(BEHIND));
        let events = Some(sender.subscribe());
        Subscription { after, missed, events, election: election.clone(), changes: Arc::clone(self) }
    }

    /// Whether somebody is told of the changes of this election alone.
    pub(super) fn has_listener(&self, election: &ElectionName) -> bool {
        self.state().listeners.contains_key(election)
    }

    #[cfg(test)]
    fn listened_to(&self) -> usize {
        self.state().listeners.len()
    }
}

impl Drop for Subscription {
    /// What nobody listens to any more is forgotten.
    fn drop(&mut self) {
        let mut state = self.changes.state();
        // Under the lock, so that of two that leave at once the second sees that it is the last.
        self.events = None;
        if state.listeners.get(&self.election).is_some_and(|sender| sender.receiver_count() == 0) {
            state.listeners.remove(&self.election);
        }
    }
}

impl Subscription {
    /// The next news; none if the server stops.
    pub async fn next(&mut self) -> Option<ChangeNotice> {
        if let Some(missed) = self.missed.pop_front() {
            return Some(missed);
        }
        match self.events.as_mut()?.recv().await {
            Ok(Some(event)) => Some(ChangeNotice::Event(event)),
            Ok(None) => Some(ChangeNotice::Gap),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(ChangeNotice::Gap),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_nobody_listens_to_is_forgotten() {
        let changes = Arc::new(Changes::default());
        let name = |number: u32| ElectionName::new(&format!("e-{number}")).unwrap();
        for number in 0..1_000 {
            drop(changes.subscribe(&name(number), None));
        }
        assert_eq!(changes.listened_to(), 0);
        let (first, second) = (changes.subscribe(&name(1), None), changes.subscribe(&name(1), None));
        drop(first);
        assert_eq!(changes.listened_to(), 1);
        drop(second);
        assert_eq!(changes.listened_to(), 0);
    }
}
