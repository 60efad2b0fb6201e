//! Who is told of changes, with numbers by which one who was cut off can go on where it was.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_election::time::Moment;
use baton_election::{Document, ElectionName};
use tokio::sync::broadcast;

/// How many events are kept for those who were cut off.
const KEPT: usize = 2_048;
/// How many events one who is told of them may be behind.
const BEHIND: usize = 64;

/// A change of an election. Renewals are none.
#[derive(Debug)]
pub struct Event {
    /// Rises with every event of this server.
    pub number: u64,
    /// Which election.
    pub election: ElectionName,
    /// The document after it.
    pub document: Document,
    /// When its clock was last restarted.
    pub stamp: Moment,
}

#[derive(Default)]
pub(super) struct Changes {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    number: u64,
    kept: VecDeque<Arc<Event>>,
    listeners: HashMap<ElectionName, broadcast::Sender<Arc<Event>>>,
}

/// What one is told.
pub enum News {
    /// A change.
    Event(Arc<Event>),
    /// Changes may have been missed; a look shows how it stands.
    Gap,
}

/// Tells one of the changes of one election.
pub struct Subscription {
    /// The number of the last event before it.
    pub after: u64,
    missed: VecDeque<News>,
    events: broadcast::Receiver<Arc<Event>>,
}

impl Changes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of a change. Whoever makes several of one election tells of them in their order.
    pub(super) fn publish(&self, election: &ElectionName, document: &Document, stamp: Moment) {
        let mut state = self.state();
        state.number += 1;
        let (number, election, document) = (state.number, election.clone(), document.clone());
        let event = Arc::new(Event { number, election, document, stamp });
        if state.kept.len() == KEPT {
            state.kept.pop_front();
        }
        state.kept.push_back(Arc::clone(&event));
        let heard =
            state.listeners.get(&event.election).map(|sender| sender.send(Arc::clone(&event)).is_ok());
        if heard == Some(false) {
            state.listeners.remove(&event.election);
        }
    }

    pub(super) fn subscribe(&self, election: &ElectionName, after: Option<u64>) -> Subscription {
        let mut state = self.state();
        let mut missed = VecDeque::new();
        if let Some(after) = after {
            let oldest = state.kept.front().map_or(state.number + 1, |event| event.number);
            if after > state.number || after + 1 < oldest {
                missed.push_back(News::Gap);
            } else {
                let since =
                    state.kept.iter().filter(|event| event.number > after && event.election == *election);
                missed.extend(since.map(|event| News::Event(Arc::clone(event))));
            }
        }
        let after = state.number;
        let sender =
            state.listeners.entry(election.clone()).or_insert_with(|| broadcast::Sender::new(BEHIND));
        Subscription { after, missed, events: sender.subscribe() }
    }
}

impl Subscription {
    /// The next news; none if the server stops.
    pub async fn next(&mut self) -> Option<News> {
        if let Some(missed) = self.missed.pop_front() {
            return Some(missed);
        }
        match self.events.recv().await {
            Ok(event) => Some(News::Event(event)),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(News::Gap),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
