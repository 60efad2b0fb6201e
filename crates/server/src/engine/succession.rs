//! The succession: the first in line gets the election as soon as it is free.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use baton_api::command::Decided;
use baton_election::command::Acquire;
use baton_election::time::{Moment, Span};
use baton_election::{Command, Decision, Document, ElectionName, Persistence, Refusal};
use baton_store::Trace;

use super::command_queue::Requester;
use super::line::{self, WaitHandle, Waiter};
use super::offers::to_be_claimed;
use super::{AFTER_A_FAILURE, Shard, Shared, decided};

/// When an election is looked after again whose look failed by a fault of ours.
const AFTER_A_FAULT: Span = Span::secs(5);
/// How long the first in line has for a look at its circuit breakers before the next one has its turn.
const AFTER_A_LOOK: Span = Span::millis(200);

impl Shared {
    /// Joins the line.
    pub(super) fn stand_in_line(self: &Arc<Self>, election: &ElectionName, acquire: Acquire) -> WaitHandle {
        let (place, waiter) = line::place(Arc::clone(self), election.clone(), acquire);
        self.shard(election).lines.entry(election.clone()).or_default().join(waiter);
        place
    }

    /// Looks after an election at this moment at the latest, if somebody waits for it.
    pub(super) fn arm(&self, shard: &mut Shard, election: &ElectionName, at: Moment) {
        if shard.lines.contains_key(election) {
            self.timers.set(at, election);
        }
    }

    /// Everything was paused and is no longer: whoever waits in a line, or for a change, has its turn. An election that was not paused itself does not change by that.
    pub(super) fn everything_goes_on(&self) {
        let now = self.clock.now();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.lines.keys().for_each(|election| self.timers.set(now, election));
        }
        self.changes.have_all_look();
    }

    /// A moment has come. A fault in what is then done does not end the timers.
    pub(super) fn fire_safely(self: &Arc<Self>, election: &ElectionName) {
        if catch_unwind(AssertUnwindSafe(|| self.look_after(election))).is_err() {
            let mut shard = self.shard(election);
            self.arm(&mut shard, election, self.clock.now() + AFTER_A_FAULT);
        }
    }

    /// Sees to it that whoever is first in line gets the election as soon as it is free.
    pub(super) fn look_after(self: &Arc<Self>, election: &ElectionName) {
        let mut shard = self.shard(election);
        // What is being read or written is looked after when that is done.
        if !shard.lines.contains_key(election) || shard.in_flight.contains_key(election) {
            return;
        }
        let Some(known) = shard.known.get(election.as_str()) else { return self.look(shard, election, None) };
        let now = self.clock.now();
        let (document, age) = (known.document(election), self.clock.age(known.stamp, now));
        let remaining = document.lease_remaining(age);
        if document.lease_holder().is_some() && remaining > Span::ZERO {
            self.recognise(&mut shard, election, &document, age);
            self.arm(&mut shard, election, now + remaining);
            return;
        }
        if let Some((next, persistence, waiter, outcome)) = self.succeed(&mut shard, election, &document, age)
        {
            self.write(
                shard,
                election,
                Box::new(next),
                persistence,
                vec![(Requester::InLine(Box::new(waiter)), outcome)],
            );
        }
    }

    /// A write whose answer was lost may have granted the lease to an agent in line. This tells the agent.
    fn recognise(&self, shard: &mut Shard, election: &ElectionName, document: &Document, age: Span) {
        let Some(leader) = &document.leader else { return };
        let line = shard.lines.get_mut(election);
        let Some(waiter) = line.and_then(|line| line.take(leader.incarnation)) else { return };
        let acquire = Command::Acquire(waiter.acquire.clone());
        let asked = self.decide(election, Some(document), &acquire, age, None);
        let told = asked.map(|asked| decided(to_be_claimed(asked.answer), Some(document), true));
        waiter.tell(told.map_err(Into::into));
        if shard.lines.get(election).is_some_and(line::WaitingLine::is_empty) {
            shard.lines.remove(election);
        }
    }

    /// Nobody leads an election that is not there: the first in line begins one.
    pub(super) async fn begin(self: &Arc<Self>, election: &ElectionName, trace: Option<Trace>) {
        let again = match trace {
            Some(trace) if trace.lease > Span::ZERO => trace.lease,
            Some(_) | None => {
                let first = {
                    let mut shard = self.shard(election);
                    // Whoever is at it looks after the line.
                    if shard.in_flight.contains_key(election) {
                        return;
                    }
                    shard.lines.get_mut(election).and_then(line::WaitingLine::first)
                };
                if let Some(waiter) = first {
                    let acquire = Acquire { offer: true, ..waiter.acquire.clone() };
                    waiter.tell(self.execute(election, &Command::Acquire(acquire)).await);
                }
                AFTER_A_FAILURE
            }
        };
        let mut shard = self.shard(election);
        if shard.lines.get(election).is_some_and(line::WaitingLine::is_empty) {
            shard.lines.remove(election);
        }
        self.arm(&mut shard, election, self.clock.now() + again);
    }

    /// Grants a free election to the first in line who is not refused it.
    pub(super) fn succeed(
        &self,
        shard: &mut Shard,
        election: &ElectionName,
        document: &Document,
        age: Span,
    ) -> Option<(Document, Persistence, Waiter, Decided)> {
        let free = document.lease_holder().is_none() || document.lease_remaining(age) == Span::ZERO;
        if !free || document.policy.select.compares() {
            return None;
        }
        let line = shard.lines.get_mut(election)?;
        let (mut passed_over, mut granted, mut retry_in) = (Vec::new(), None, None);
        while let Some(waiter) = line.first() {
            let acquire = Acquire { offer: true, noticed: Some(Span::ZERO), ..waiter.acquire.clone() };
            match self.decide(election, Some(document), &Command::Acquire(acquire), age, None) {
                Ok(Decision { next: Some(next), answer, persistence }) => {
                    let outcome = decided(answer, Some(&next), true);
                    granted = Some((next, persistence, waiter, outcome));
                    break;
                }
                Ok(Decision { next: None, answer, .. }) => {
                    waiter.tell(Ok(decided(answer, Some(document), true)));
                }
                // It is looked whether it may lead; meanwhile, for a moment, it is nobody's turn.
                Err(refusal) if refusal.asks_for_breakers() => {
                    retry_in = Some(retry_in.map_or(AFTER_A_LOOK, |first: Span| first.min(AFTER_A_LOOK)));
                    waiter.tell(Err(refusal.into()));
                    break;
                }
                // It is not this one's turn: perhaps another's.
                Err(Refusal::NotEligible { retry_in: Some(span), .. }) => {
                    retry_in = Some(retry_in.map_or(span, |first: Span| first.min(span)));
                    passed_over.push(waiter);
                }
                // It is nobody's turn yet.
                Err(Refusal::Held { remaining, .. }) => {
                    retry_in = Some(retry_in.map_or(remaining, |first: Span| first.min(remaining)));
                    passed_over.push(waiter);
                    break;
                }
                // It is nobody's turn.
                Err(Refusal::Paused { .. } | Refusal::AwaitingApproval { .. }) => {
                    passed_over.push(waiter);
                    break;
                }
                Err(refusal) => waiter.tell(Err(refusal.into())),
            }
        }
        passed_over.into_iter().rev().for_each(|waiter| line.put_back(waiter));
        if line.is_empty() {
            shard.lines.remove(election);
        } else if let Some(retry_in) = retry_in {
            self.arm(shard, election, self.clock.now() + retry_in);
        }
        granted
    }
}
