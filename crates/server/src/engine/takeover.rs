//! The active one of several servers takes an election over before it decides on it. A look takes nothing over.
//!
//! Assumes that the epoch of this server's term is above those of all servers before it, and that their leases had ended
//! before this engine started. Guarantees that no write of an earlier server, and none of a client of the store, changes an election after a
//! command was decided on it here: the take-over is a swap that puts this server's epoch into the document, so that whatever others had
//! decided on another version fails in the store. Guarantees that a look writes nothing (`others.rs`). Does not stop an earlier server from
//! writing to an election that nobody has sent a command for since: what it wrote is then found, and nobody was told of it in time to use it.

use std::sync::{Arc, OnceLock, PoisonError};

use baton_api::CommandError;
use baton_election::audit::Book;
use baton_election::document::Transition;
use baton_election::operator::LastAct;
use baton_election::time::{Moment, Span};
use baton_election::{Document, ElectionName, Epoch};
use baton_store::{AgeStamp, Expect, Key, Persistence, Reading, Record, StoreError, Trace, Version, boot};
use tokio::sync::watch;

use super::{Shared, offers, store_error, stored_info, unavailable};

/// How often it is tried to take an election over that others change meanwhile.
const TRIES: u32 = 8;
/// Between two of them.
const BETWEEN: std::time::Duration = std::time::Duration::from_millis(20);

/// By what authority an engine decides.
pub(super) enum Authority {
    /// Nobody else writes the store.
    Alone,
    /// This is the active one of several servers.
    Active(ServerTerm),
    /// None: others decide, and this engine shows what they decided.
    Observer,
}

impl Authority {
    /// Its time as the active one of several servers; none if it is alone with its store, or only observes.
    pub(super) fn term(&self) -> Option<&ServerTerm> {
        match self {
            Authority::Active(term) => Some(term),
            Authority::Alone | Authority::Observer => None,
        }
    }

    /// Whether all elections of the store are decided by this engine, and nobody else.
    pub(super) fn is_alone(&self) -> bool {
        matches!(self, Authority::Alone)
    }
}

/// The time for which this server is the active one.
pub(super) struct ServerTerm {
    pub(super) epoch: Epoch,
    /// Becomes true when a document shows that a later server has taken over.
    pub(super) over: watch::Sender<bool>,
    /// Whether this server's own lease holds.
    pub(super) holds: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
}

/// What a document no longer shows after a change, if nobody else remembers that.
#[derive(Default)]
pub(super) struct DisplacedEntries {
    transition: Option<Arc<Transition>>,
    act: Option<Arc<LastAct>>,
}

impl DisplacedEntries {
    /// What `next` no longer shows of `old`; a transition only where the store does not keep it by itself.
    pub(super) fn of(old: &Document, next: &Document, transitions: bool) -> Option<DisplacedEntries> {
        let transition = old.pushes_out(next).filter(|_| transitions).cloned();
        let act = old.last_act.as_ref().filter(|_| old.pushes_out_act(next).is_some()).cloned();
        (transition.is_some() || act.is_some()).then_some(DisplacedEntries { transition, act })
    }
}

/// How long ago a lease was renewed at the least, as this engine itself has watched the document with this epoch and beat.
#[derive(Clone, Copy)]
pub(super) struct ObservedLease {
    pub(super) epoch: Epoch,
    pub(super) beat: u64,
    pub(super) renewed: Moment,
}

/// An election as it stands in the store, taken over.
pub(super) struct StoredElection {
    pub(super) found: Option<(Document, Version)>,
    pub(super) trace: Option<Trace>,
    /// When its lease was renewed last, at the latest, if nobody but an engine's own memory knows better; none for this moment.
    pub(super) renewed: Option<Moment>,
}

impl ServerTerm {
    pub(super) fn new(epoch: Epoch) -> ServerTerm {
        ServerTerm { epoch, over: watch::Sender::new(false), holds: OnceLock::new() }
    }

    /// A later server has taken over.
    pub(super) fn end(&self, location: String) -> StoreError {
        self.over.send_replace(true);
        StoreError::Unavailable {
            location,
            why: "another server has taken over".to_string(),
            hint: "ask again: the servers tell which one is active".to_string(),
        }
    }
}

impl Shared {
    /// Reads an election, and takes it over if this is one of several servers. What is not there is told with what is known of it.
    pub(super) async fn fetch(
        &self,
        election: &ElectionName,
        watched: Option<ObservedLease>,
    ) -> Result<StoredElection, StoreError> {
        let fetched = self.fetch_as_it_is(election, watched).await?;
        if self.term().is_none() {
            return Ok(fetched);
        }
        match &fetched.found {
            Some((document, _)) => {
                self.vanished.found(document, fetched.trace, &self.store.location())?;
                Ok(fetched)
            }
            None => {
                let trace = self.vanished.gone(election, fetched.trace, self.clock.now());
                Ok(StoredElection { trace, ..fetched })
            }
        }
    }

    /// The same, for a command that may be about to create the election: with what the store knows of itself
    /// at this moment.
    pub(super) async fn fetch_for_command(
        &self,
        election: &ElectionName,
        watched: Option<ObservedLease>,
    ) -> Result<StoredElection, StoreError> {
        let fetched = self.fetch(election, watched).await?;
        if fetched.found.as_ref().is_none_or(|(document, _)| document.is_retired()) {
            self.refresh_info().await?;
        }
        Ok(fetched)
    }

    pub(super) fn term(&self) -> Option<&ServerTerm> {
        self.authority.term()
    }

    async fn fetch_as_it_is(
        &self,
        election: &ElectionName,
        watched: Option<ObservedLease>,
    ) -> Result<StoredElection, StoreError> {
        let key = Key::Election(election.clone());
        for tried in 0..TRIES {
            if tried > 0 {
                tokio::time::sleep(BETWEEN * tried).await;
            }
            let Reading { found, age, trace, asked_at, .. } = self.store.read(&key).await?;
            let Some((Record::Election(mut document), version)) = found else {
                return Ok(StoredElection { found: None, trace, renewed: None });
            };
            // Only the engine that made an offer takes it back; here, whoever wrote it, it is the lease that it may have become.
            offers::keep_as_lease(&mut document);
            let found = |document: Document, version| Some((document, version));
            let Some(term) = self.term() else {
                let renewed = Some(Moment::default());
                return Ok(StoredElection { found: found(*document, version), trace, renewed });
            };
            match document.server {
                Some(server) if server > term.epoch => return Err(term.end(self.store.location())),
                // Whoever did so knows how old the lease is, and is telling it at this moment.
                Some(server) if server == term.epoch => {
                    return Ok(StoredElection { found: found(*document, version), trace, renewed: None });
                }
                Some(_) => {}
                // Servers may have given it back meanwhile, and nothing in it would tell this one.
                None if term.holds.get().is_some_and(|holds| !holds()) => {
                    return Err(term.end(self.store.location()));
                }
                None => {}
            }
            let same =
                |watched: &ObservedLease| (watched.epoch, watched.beat) == (document.epoch, document.beat);
            let renewed = last_renewal(document.server.is_some(), age, asked_at)
                .or(watched.filter(same).map(|watched| watched.renewed));
            document.server = Some(term.epoch);
            let record = Record::Election(document);
            match self
                .store
                .swap(&key, Expect::Version(version), &record, AgeStamp::Reset, Persistence::Synced)
                .await
            {
                Ok(swapped) => {
                    let Record::Election(document) = record else { unreachable!("it is an election") };
                    return Ok(StoredElection { found: found(*document, swapped.version), trace, renewed });
                }
                // The next look shows whose word stands.
                Err(StoreError::Conflict | StoreError::Unknown { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::Unavailable {
            location: self.store.location(),
            why: format!("others keep changing the election `{election}`"),
            hint: "nobody but the servers may write their elections".to_string(),
        })
    }
}

impl Shared {
    /// What falls out of a document stands in the log beside it first.
    pub(super) async fn keep(
        &self,
        election: &ElectionName,
        out: &DisplacedEntries,
    ) -> Result<(), StoreError> {
        let keep = async {
            if let Some(transition) = &out.transition {
                self.executor.record_transition(election, transition).await?;
            }
            match out.act.as_ref().and_then(|last| last.entry.as_ref()) {
                Some(act) => self.executor.record_act(Book::Election(election.clone()), act).await,
                None => Ok(()),
            }
        };
        match keep.await {
            Ok(()) => Ok(()),
            // The document was not touched, whatever became of the log.
            Err(CommandError::Store(error)) if error.is_passing() => Err(unavailable(&*self.store, &error)),
            Err(error) => Err(store_error(&*self.store, error)),
        }
    }

    /// Where others can change what the store knows of itself, a new election begins with what it knows at this moment.
    pub(super) async fn refresh_info(&self) -> Result<(), StoreError> {
        if !self.authority.is_alone()
            && let Some(info) = stored_info(&*self.store).await?
        {
            let mut known = self.info.write().unwrap_or_else(PoisonError::into_inner);
            // Somebody may have changed it since this was read.
            if info.orders >= known.orders {
                *known = Arc::new(info);
            }
        }
        Ok(())
    }
}

/// When the lease of a document was last renewed, at the latest, as it was read before it was taken over.
///
/// Earlier servers renewed until this engine started, and the engine counts from there by itself. Anybody else who renewed did so in the
/// store, before the swap: if the store does not tell when, it may have been just before.
pub(super) fn last_renewal(served: bool, age: Option<Span>, asked_at: Moment) -> Option<Moment> {
    match age {
        Some(age) => Some(asked_at - age),
        None if served => Some(Moment::default()),
        None => None,
    }
}

/// The moment until which others wait for a lease.
pub(super) fn lease_until(document: &Document, age: Span) -> Moment {
    boot::now() + document.lease_remaining(age)
}
