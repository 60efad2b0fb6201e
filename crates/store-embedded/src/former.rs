//! The store that a restore replaces, and what of it stays: whatever operators ordered. See `docs/decisions/0068-what-operators-ordered-stays.md`.
//!
//! Guarantees that nothing which operators ordered before a restore is undone by it, as far as the former store can be read: its operators, the quorum, pauses,
//! access tokens, policies, bindings of resources, and the logs of all that. Agents' work is the snapshot's. Of two states of a record the one on which more orders
//! were carried out counts, since a damaged store may show an earlier state than the snapshot.

use std::sync::Arc;

use baton_election::document::Approval;
use baton_election::{Document, Epoch, Fence, Span, State, StoreInfo, Tokens};
use baton_store::{Record, StoreError};
use redb::{Database, ReadableDatabase};

use crate::fault::StorePath;
use crate::open::{self, Opened};
use crate::restore::{DatabaseFacts, Plan};

/// How much of the former store could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormerStore {
    /// There was none.
    Absent,
    /// It is damaged.
    Unreadable,
    /// Part of it is damaged, or it is older than the snapshot: what operators ordered last may be missing.
    Incomplete,
    /// All of it.
    Whole,
}

/// What was there before.
pub(crate) struct Former {
    pub(crate) state: FormerStore,
    /// The highest epoch that can be found in it.
    pub(crate) highest: Epoch,
    /// The longest lease that may be running by it.
    pub(crate) leases: Span,
    pub(crate) info: Option<StoreInfo>,
    pub(crate) tokens: Option<Tokens>,
    /// It stays locked as long as this.
    pub(crate) database: Option<Database>,
}

impl Former {
    fn none(state: FormerStore) -> Former {
        let (highest, leases) = (Epoch(0), Span::ZERO);
        Former { state, highest, leases, info: None, tokens: None, database: None }
    }

    /// Looks at what is about to be replaced by a snapshot. What cannot be read is no obstacle; what is in use, or is another store, is.
    pub(crate) fn of(place: &StorePath, snapshot: &DatabaseFacts) -> Result<Former, StoreError> {
        if !place.path.exists() {
            return Ok(Former::none(FormerStore::Absent));
        }
        let (opened, whole) = match open::peek(place) {
            Err(StoreError::Corrupt { .. }) => (open::peek_at_remains(place), false),
            opened => (opened, true),
        };
        let read = opened.and_then(|Opened { database, meta, .. }| {
            let transaction = database.begin_read().map_err(|error| place.reading(error.into()))?;
            let known = DatabaseFacts::of(place, &transaction)?;
            drop(transaction);
            Ok((database, known, meta))
        });
        let (database, known, meta) = match read {
            Ok(read) => read,
            Err(StoreError::Corrupt { .. }) => return Ok(Former::none(FormerStore::Unreadable)),
            Err(error) => return Err(error),
        };
        if known.store().is_some() && known.store() != snapshot.store() {
            let hint = "name the store that the snapshot is of; if this one was begun by mistake, move the file away and restore again";
            return Err(place.refused("it is another store than the snapshot's", hint));
        }
        // A copy that was put in its place is no word of the operators.
        let whole = whole && known.info.is_some() && known.newest >= snapshot.newest && !meta.snapshot;
        Ok(Former {
            state: if whole { FormerStore::Whole } else { FormerStore::Incomplete },
            highest: known.highest.max(meta.floor),
            leases: known.leases.max(meta.lease),
            info: known.info,
            tokens: known.tokens,
            database: Some(database),
        })
    }
}

/// The one on which more orders were carried out; the former store's if it is the same number.
pub(crate) fn newer<T>(snapshot: Option<&T>, former: Option<&T>, orders: impl Fn(&T) -> u64) -> Option<T>
where
    T: Clone,
{
    match (snapshot, former) {
        (Some(snapshot), Some(former)) if orders(snapshot) > orders(former) => Some(snapshot.clone()),
        (snapshot, former) => former.or(snapshot).cloned(),
    }
}

impl Plan {
    /// What is written in the place of `mine`, the restored record, since the former store had this one; none if nothing is.
    pub(crate) fn kept(&self, former: Record, mine: Option<Record>) -> Option<Record> {
        match (former, mine) {
            (Record::Audit(former), mine) => {
                let longer =
                    !matches!(&mine, Some(Record::Audit(mine)) if mine.entries.len() >= former.entries.len());
                longer.then_some(Record::Audit(former))
            }
            (Record::FenceLog(former), mine) => {
                let last = former.entries.last().map(|entry| entry.seq);
                let later = !matches!(&mine, Some(Record::FenceLog(mine)) if mine.entries.last().map(|entry| entry.seq) >= last);
                later.then_some(Record::FenceLog(former))
            }
            (Record::Fence(former), mine) => {
                let at = |fence: &Fence| (fence.binding, fence.orders);
                let earlier = matches!(&mine, Some(Record::Fence(mine)) if at(mine) > at(&former));
                (!earlier).then(|| Record::Fence(Box::new(Fence { highest: self.floor, ..*former })))
            }
            (Record::Election(former), Some(Record::Election(mine))) => {
                (mine.acts <= former.acts).then(|| Record::Election(Box::new(self.ordered(*mine, &former))))
            }
            // An election that the snapshot does not know, and on which operators acted: it may be paused.
            (Record::Election(former), _) if former.acts > 0 => {
                let keys = former.operator_keys.as_slice();
                let mut begun = Document::new(former.election.clone(), former.store, former.epoch, keys);
                self.end(&mut begun);
                Some(Record::Election(Box::new(self.ordered(begun, &former))))
            }
            (
                Record::Election(_)
                | Record::Store(_)
                | Record::Tokens(_)
                | Record::Candidate(_)
                | Record::History(_)
                | Record::Item(_),
                _,
            ) => None,
        }
    }

    /// The restored election with what its operators ordered in the former store. One that they retired comes back vacant, for the store's operators.
    fn ordered(&self, mine: Document, former: &Document) -> Document {
        let mut next = Document { acts: former.acts, last_act: former.last_act.clone(), ..mine };
        if former.is_retired() {
            if let Some(info) = &self.info {
                next.operator_keys = Arc::new(info.operator_keys.clone());
            }
            return next;
        }
        next.policy = Arc::clone(&former.policy);
        next.operator_keys = Arc::clone(&former.operator_keys);
        match (&former.paused, next.state) {
            (Some(_), _) => {
                (next.state, next.approval) = (State::Paused, Approval::default());
            }
            (None, State::Paused) => next.state = State::Vacant,
            (None, State::Vacant | State::Held | State::AwaitingApproval) => {}
        }
        next.paused.clone_from(&former.paused);
        next.reserved_for.clone_from(&former.reserved_for);
        next
    }
}
