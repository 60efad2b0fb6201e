//! One agent: its process, its clock, what it is doing, what waits for it.

use std::collections::VecDeque;
use std::sync::Arc;

use baton_election::{Credential, Document, Epoch, Moment, Observer, Span, Tenure};
use baton_peer::Random;

use super::names::credential;
use super::store::Swap;
use crate::host::Host;
use crate::setup::Setup;

/// The most answers that wait for a process that stands still.
pub(super) const MAX_WAITING: usize = 64;

/// What the store answers.
#[derive(Debug)]
pub(super) enum Reply {
    /// To a question.
    Read { document: Option<Arc<Document>>, version: u64, age: Option<Span> },
    /// To a swap: whether it was done, and the version after it.
    Swapped { done: bool, version: u64 },
}

/// What a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// Only to see who leads.
    Look,
    Acquire,
    /// To renew a lease of its own that it found, before it leads.
    Confirm,
    Renew,
    /// To leave, in favour of a place or of anybody.
    Leave(Option<u8>),
}

/// A request under way: perhaps several attempts.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) kind: RequestKind,
    /// Whether it belongs to an election: the lease was over when it was sent, or has changed hands.
    pub(super) elective: bool,
    /// Before its first attempt.
    pub(super) asked_at: Moment,
    /// Before its present attempt's question.
    pub(super) tried_at: Moment,
    /// The number of what the store was asked last.
    pub(super) number: u64,
    /// When the present attempt is given up.
    pub(super) patience: Moment,
    /// Attempts that were given up.
    pub(super) failed: u32,
    /// What was sent, with the answer that holds once it is in.
    pub(super) sent: Option<(Swap, baton_election::Answer)>,
    /// What an earlier attempt sent without hearing whether it was done.
    pub(super) unknown: Option<(Swap, baton_election::Answer)>,
}

/// A leadership.
#[derive(Debug)]
pub(super) struct Lead {
    pub(super) tenure: Tenure,
    pub(super) epoch: Epoch,
    /// Its work.
    pub(super) number: u64,
    /// Its work was asked to stop, so that it can release.
    pub(super) leaving: bool,
}

/// What this agent wrote last, as long as it was its own beat.
#[derive(Debug)]
pub(super) struct LastWrite {
    pub(super) document: Arc<Document>,
    pub(super) version: u64,
    pub(super) heard_at: Moment,
}

/// One agent.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) up: bool,
    pub(super) host: Host,
    /// Counts its incarnations.
    pub(super) incarnation: u32,
    pub(super) credential: Credential,
    pub(super) observer: Observer,
    pub(super) lead: Option<Lead>,
    /// It gives back what it held, and does nothing else meanwhile.
    pub(super) leaving: Option<Epoch>,
    pub(super) request: Option<Request>,
    /// The lease has changed hands since it looked last.
    pub(super) is_told: bool,
    /// When to begin the next request.
    pub(super) next_at: Moment,
    /// A lease of its own that it found, with its length. It does not know how old that is, and leads only after a renewal.
    pub(super) found: Option<(Epoch, Span)>,
    /// Requests that failed in a row.
    pub(super) failures: u32,
    pub(super) own: Option<LastWrite>,
    pub(super) waiting: VecDeque<(u64, Reply)>,
    /// The leader, as far as the agent has seen.
    pub(super) believed: Option<u8>,
}

impl Agent {
    pub(super) fn new(setup: &Setup, place: usize, random: &mut Random) -> Agent {
        Agent {
            up: false,
            host: Host::new(setup, place, random),
            incarnation: 0,
            credential: credential(place, 0),
            observer: Observer::default(),
            lead: None,
            leaving: None,
            request: None,
            is_told: false,
            next_at: Moment::default(),
            found: None,
            failures: 0,
            own: None,
            waiting: VecDeque::new(),
            believed: None,
        }
    }

    /// Whatever it held is over; what it asks for next, it asks under a new name.
    pub(super) fn begin_anew(&mut self, place: usize, at: Moment) {
        self.incarnation += 1;
        self.credential = credential(place, self.incarnation);
        (self.lead, self.found, self.leaving, self.request, self.own) = (None, None, None, None, None);
        (self.next_at, self.failures) = (at, 0);
    }

    /// When it wants to be woken, on its own clock.
    pub(super) fn wakes_at(&self) -> Moment {
        let deadline = self.lead.as_ref().map(|lead| lead.tenure.deadline());
        let due = match &self.request {
            Some(request) => request.patience,
            None => self.next_at,
        };
        deadline.map_or(due, |deadline| deadline.min(due))
    }
}
