//! Elections that this engine has not taken over: clients of the store decide them, or an earlier server did.
//!
//! Guarantees that a look writes nothing, and that a command which changes nothing takes nothing over: it is answered from what the store
//! shows. Such an election is read from the store at each look, since others may change it at any time.

use std::sync::Arc;

use baton_api::CommandError;
use baton_election::time::Span;
use baton_election::{Command, Decision, Document, ElectionName};
use baton_store::{Key, Reading, Record, StoreError, boot};

use super::takeover::{ObservedLease, last_renewal};
use super::{Shared, View, decided, is_renewal, offers, store_error};

/// How often an election of others is looked at while somebody waits in line for it here.
const LOOK_AGAIN: Span = Span::millis(500);

/// What becomes of an election for which there is a command.
pub(super) enum Verdict {
    /// It is taken over, with what was watched of its lease.
    Take(Option<ObservedLease>),
    /// No command changes it: it is left to others as it stands, with the age of its lease.
    Leave(Box<Document>, Span),
}

impl Shared {
    /// Refuses commands where others decide.
    pub(super) fn may_decide(&self) -> Result<(), CommandError> {
        if !self.observes() {
            return Ok(());
        }
        Err(StoreError::Refused {
            place: self.store.location(),
            why: "this server only observes".to_string(),
            hint: "use the store itself: `baton --store`; or serve it: `baton serve --take-over`".to_string(),
        }
        .into())
    }

    /// Whether it only observes.
    pub(super) fn observes(&self) -> bool {
        !self.authority.is_alone() && self.term().is_none()
    }

    /// An election that others decide, as the store shows it. None if it is this engine's to read: it has taken it over, or there may be none.
    pub(super) async fn view_of_others(
        self: &Arc<Self>,
        election: &ElectionName,
    ) -> Result<Option<View>, StoreError> {
        if self.authority.is_alone() {
            return Ok(None);
        }
        let view = self.look_at_others(election).await?;
        if view.as_ref().is_some_and(|view| view.document.is_some()) {
            self.follow_there(election);
        }
        Ok(view)
    }

    /// The same, and nobody is told of later changes.
    pub(super) async fn look_at_others(&self, election: &ElectionName) -> Result<Option<View>, StoreError> {
        let Reading { found, age, trace, asked_at, .. } =
            self.store.read(&Key::Election(election.clone())).await?;
        let Some((Record::Election(mut document), _)) = found else {
            let nothing = View { document: None, age: Span::ZERO };
            return Ok(self.observes().then_some(nothing));
        };
        let age = match (self.term(), document.server) {
            (Some(term), Some(server)) if server > term.epoch => {
                return Err(term.end(self.store.location()));
            }
            (Some(term), Some(server)) if server == term.epoch => return Ok(None),
            // An earlier server's: leases count from this engine's start, or from a later write.
            (Some(_), served @ Some(_)) => {
                self.vanished.found(&document, trace, &self.store.location())?;
                let renewed = last_renewal(served.is_some(), age, asked_at).unwrap_or_default();
                self.clock.age(renewed, self.clock.now())
            }
            // What only lengthens a lease is in the memory of the server that decides.
            (None, Some(_)) => Span::ZERO,
            (_, None) => match age {
                Some(age) => age,
                None => {
                    let (watched, age) = self.watched_there(election).await?;
                    *document = watched.unwrap_or(*document);
                    age
                }
            },
        };
        // Only the server that made an offer takes it back.
        offers::keep_as_lease(&mut document);
        Ok(Some(View { document: Some(*document), age }))
    }

    /// An election as this engine has watched it, where the store does not tell ages.
    async fn watched_there(&self, election: &ElectionName) -> Result<(Option<Document>, Span), StoreError> {
        match self.executor.see(election).await {
            Ok(seen) => Ok((seen.document.filter(|document| !document.is_retired()), seen.age)),
            Err(error) => Err(store_error(&*self.store, error)),
        }
    }

    /// Whether the commands for an election that is not known take it over. Only what clients of the store decide is left to them: what
    /// servers decide is this server's.
    pub(super) async fn leave_or_take(&self, election: &ElectionName) -> Result<Verdict, StoreError> {
        if self.term().is_none() {
            return Ok(Verdict::Take(None));
        }
        let Reading { found, age, .. } = self.store.read(&Key::Election(election.clone())).await?;
        let Some((Record::Election(document), _)) = found else { return Ok(Verdict::Take(None)) };
        let (document, age) = match age {
            Some(age) => (Some(*document), age),
            None if document.server.is_none() => self.watched_there(election).await?,
            None => (None, Span::ZERO),
        };
        let Some(document) = document.filter(|document| document.server.is_none()) else {
            return Ok(Verdict::Take(None));
        };
        if !self.is_wanted(election, &document, age) {
            return Ok(Verdict::Leave(Box::new(document), age));
        }
        let (epoch, beat, renewed) = (document.epoch, document.beat, boot::now() - age);
        Ok(Verdict::Take(Some(ObservedLease { epoch, beat, renewed })))
    }

    /// Whether a command that is queued would change an election, or somebody in line would get it.
    fn is_wanted(&self, election: &ElectionName, document: &Document, age: Span) -> bool {
        let shard = self.shard(election);
        let changes = |command: &Command| {
            matches!(
                self.decide(election, Some(document), command, age, None),
                Ok(Decision { next: Some(_), .. })
            )
        };
        let queued = shard.in_flight.get(election).into_iter().flat_map(|in_flight| &in_flight.queue);
        let free = document.lease_holder().is_none() || document.lease_remaining(age) == Span::ZERO;
        let mut in_line = shard.lines.get(election).into_iter().flat_map(super::line::WaitingLine::wishes);
        queued.into_iter().any(|asked| changes(&asked.command))
            || free && in_line.any(|acquire| changes(&Command::Acquire(acquire.clone())))
    }

    /// Answers the commands for an election that nothing changes here, and looks again soon if somebody waits in line.
    pub(super) fn leave_to_others(self: &Arc<Self>, election: &ElectionName, document: &Document, age: Span) {
        let mut shard = self.shard(election);
        let in_flight = shard.in_flight.remove(election).unwrap_or_default();
        let mut later = std::collections::VecDeque::new();
        for asked in in_flight.queue {
            match self.decide(election, Some(document), &asked.command, age, None) {
                Ok(Decision { next: None, answer, .. }) => {
                    let show = !is_renewal(&asked.command);
                    asked.tell(Ok(decided(answer, Some(document), show)));
                }
                Err(refusal) => asked.tell(Err(refusal.into())),
                // It came after the others were looked at.
                Ok(Decision { next: Some(_), .. }) => later.push_back(asked),
            }
        }
        if document.policy.select.compares() {
            self.refuse_line(&mut shard, election, document, age);
        }
        if later.is_empty() {
            let left = document.lease_remaining(age).max(Span::millis(1));
            self.arm(&mut shard, election, self.clock.now() + left.min(LOOK_AGAIN));
        } else {
            shard.in_flight.entry(election.clone()).or_default().queue = later;
            self.look(shard, election, None);
        }
    }

    /// Where candidates are compared, nobody waits in the order in which they came.
    fn refuse_line(&self, shard: &mut super::Shard, election: &ElectionName, document: &Document, age: Span) {
        let mut line = shard.lines.remove(election).unwrap_or_default();
        while let Some(waiter) = line.first() {
            let acquire = Command::Acquire(waiter.acquire.clone());
            let outcome = self.decide(election, Some(document), &acquire, age, None);
            waiter.tell(match outcome {
                Ok(Decision { answer, .. }) => Ok(decided(answer, Some(document), true)),
                Err(refusal) => Err(refusal.into()),
            });
        }
    }
}
