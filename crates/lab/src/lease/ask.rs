//! A request of an agent: read, decide, swap; again after a conflict; from the beginning if nobody answers.

use std::sync::Arc;

use baton_election::command::{Ending, Pass, Release, Renew};
use baton_election::lease::renewal_interval;
use baton_election::{Answer, Command, Credential, Document, Moment, Refusal, Span, decide};

use super::agent::{LastWrite, MAX_WAITING, Reply, Request, RequestKind};
use super::names::place_of;
use super::store::Swap;
use super::{Event, LeaseWorld, small};

/// How often a candidate looks even if nobody tells it of a change.
pub(super) const LOOK_AGAIN: Span = Span::secs(10);
/// How long one question may take.
pub(super) const PATIENCE: Span = Span::secs(5);
/// How often an attempt of a request that is no renewal is repeated.
pub(super) const RETRIES: u32 = 8;

impl LeaseWorld<'_> {
    /// An agent is woken: its lease has ended, its patience has, or it is time for its next request.
    pub(super) fn alarm(&mut self, place: usize) {
        let now = self.agents[place].host.clock.at(self.now);
        if self.agents[place].lead.as_ref().is_some_and(|lead| now >= lead.tenure.deadline()) {
            self.lose(place, "its lease has run out");
        }
        let agent = &self.agents[place];
        match &agent.request {
            Some(request) if now >= request.patience => self.unanswered(place),
            Some(_) => {}
            None if now >= agent.next_at => self.begin(place),
            None => {}
        }
        self.set_alarm(place);
    }

    /// Begins the request that is due.
    fn begin(&mut self, place: usize) {
        let agent = &mut self.agents[place];
        let now = agent.host.clock.at(self.now);
        let kind = match (&agent.lead, agent.leaving) {
            (Some(_), _) => RequestKind::Renew,
            (None, Some(_)) => RequestKind::Leave(None),
            (None, None) => RequestKind::Look,
        };
        self.ask(place, kind, now);
    }

    /// Begins a request. A renewal begins with what the agent itself wrote last, if that is known; everything else with a look.
    pub(super) fn ask(&mut self, place: usize, kind: RequestKind, now: Moment) {
        let elective = match kind {
            RequestKind::Look => std::mem::take(&mut self.agents[place].is_told),
            RequestKind::Acquire | RequestKind::Confirm | RequestKind::Leave(_) => true,
            RequestKind::Renew => false,
        };
        self.agents[place].request = Some(Request {
            kind,
            elective,
            asked_at: now,
            tried_at: now,
            number: 0,
            patience: now,
            failed: 0,
            sent: None,
            unknown: None,
        });
        let own = if kind == RequestKind::Renew { self.agents[place].own.take() } else { None };
        match own {
            Some(own) => {
                self.be_patient(place, now);
                let age = now.since(own.heard_at);
                if !self.conclude_from(place, Some(&own.document), own.version, age, false) {
                    self.look(place);
                }
            }
            None => self.look(place),
        }
    }

    /// Sends the question of an attempt.
    fn look(&mut self, place: usize) {
        let agent = &mut self.agents[place];
        let now = agent.host.clock.at(self.now);
        self.be_patient(place, now);
        let number = self.next_number();
        let agent = &mut self.agents[place];
        let life = agent.host.life;
        let mut elective = false;
        if let Some(request) = &mut agent.request {
            (request.tried_at, request.number, request.sent) = (now, number, None);
            elective = request.elective;
        }
        self.ledger.sent("read", elective);
        self.send(place, Event::Read { from: small(place), life, number });
    }

    fn be_patient(&mut self, place: usize, now: Moment) {
        let ttl = self.setup.ttl;
        if let Some(request) = &mut self.agents[place].request {
            let patience =
                if request.kind == RequestKind::Renew { renewal_interval(ttl) } else { PATIENCE.min(ttl) };
            request.patience = now + patience;
        }
    }

    /// What is asked of the store is numbered, so that a late answer is not taken for another.
    fn next_number(&mut self) -> u64 {
        self.ledger.statistics.messages + 1
    }

    fn send(&mut self, from: usize, event: Event) {
        if !self.links.open(from, self.agents.len()) {
            return;
        }
        if let Some(delay) = self.network.travel(&mut self.random) {
            self.queue.put(self.now + delay.as_nanos(), event);
        }
    }

    /// The store's answer arrives.
    pub(super) fn answered(&mut self, place: usize, life: u32, number: u64, reply: Reply) {
        let agent = &mut self.agents[place];
        if !agent.up || agent.host.life != life {
            return;
        }
        if agent.host.paused {
            if agent.waiting.len() < MAX_WAITING {
                agent.waiting.push_back((number, reply));
            }
            return;
        }
        self.take_in(place, number, reply);
        self.set_alarm(place);
    }

    pub(super) fn take_in(&mut self, place: usize, number: u64, reply: Reply) {
        let agent = &mut self.agents[place];
        let now = agent.host.clock.at(self.now);
        let Some(request) = agent.request.as_mut().filter(|request| request.number == number) else { return };
        self.ledger.sent("answer", request.elective);
        match reply {
            Reply::Read { document, version, age } => {
                let age = match (&document, age) {
                    (_, Some(age)) => age,
                    (Some(document), None) => agent.observer.observe(document.pulse(), request.tried_at, now),
                    (None, None) => Span::ZERO,
                };
                agent.believed = leader_of(document.as_deref());
                let landed = |(swap, _): &mut (Swap, Answer)| Some(&swap.next) == document.as_ref();
                if let Some((swap, answer)) = request.unknown.take_if(landed) {
                    return self.concluded(place, Some((&swap, version)), answer);
                }
                if request.kind == RequestKind::Look {
                    return self.judge(place, document.as_ref(), version, age);
                }
                self.conclude_from(place, document.as_ref(), version, age, true);
            }
            Reply::Swapped { done: true, version } => {
                if let Some((swap, answer)) = request.sent.take() {
                    self.concluded(place, Some((&swap, version)), answer);
                }
            }
            Reply::Swapped { done: false, .. } => {
                request.sent = None;
                self.look(place);
            }
        }
    }

    /// What a candidate does after a look: it waits, or asks, with what it has just read.
    fn judge(&mut self, place: usize, document: Option<&Arc<Document>>, version: u64, age: Span) {
        let agent = &mut self.agents[place];
        let now = agent.host.clock.at(self.now);
        let Some(mut request) = agent.request.take() else { return };
        agent.failures = 0;
        let mine = agent.credential.incarnation;
        let holder = document.and_then(|document| document.lease_holder());
        let remaining = document.map_or(Span::ZERO, |document| document.lease_remaining(age));
        // A look that found the lease over, or about to be when it was answered, was the first step of an election, with its answer.
        if !request.elective && remaining <= now.since(request.tried_at) {
            request.elective = true;
            self.ledger.statistics.elective += 2;
        }
        let own = document
            .and_then(|document| document.leader.as_ref())
            .is_some_and(|leader| leader.incarnation == mine);
        if holder.is_some() && remaining > Span::ZERO && !own {
            agent.next_at = (request.tried_at + remaining.min(LOOK_AGAIN)).max(now + Span::millis(1));
            return;
        }
        agent.request = Some(Request { kind: RequestKind::Acquire, asked_at: now, ..request });
        self.be_patient(place, now);
        self.conclude_from(place, document, version, age, true);
    }

    /// Decides on a document. Says whether that led to anything: an answer without a swap on what is only remembered does not.
    fn conclude_from(
        &mut self,
        place: usize,
        document: Option<&Arc<Document>>,
        version: u64,
        age: Span,
        read: bool,
    ) -> bool {
        let wall = self.agents[place].host.clock.wall(self.now);
        let Some(request) = &self.agents[place].request else { return false };
        let command = self.command(place, request.kind);
        self.ledger.statistics.steps += 1;
        let decided = decide(document.map(|document| &**document), &command, &self.names.evidence(age, wall));
        match decided {
            Ok(decision) => match decision.next {
                Some(next) => {
                    let restarts = document.is_none_or(|document| document.beat != next.beat);
                    let swap = Swap { expect: version, next: Arc::new(next), restarts };
                    self.swap(place, swap, decision.answer);
                }
                None if read => self.concluded(place, None, decision.answer),
                None => return false,
            },
            Err(refusal) if read => self.refused(place, &refusal),
            Err(_) => return false,
        }
        true
    }

    fn command(&self, place: usize, kind: RequestKind) -> Command {
        let agent = &self.agents[place];
        let credential: Credential = agent.credential;
        let led = agent.lead.as_ref().map(|lead| lead.epoch).or(agent.found.map(|(epoch, _)| epoch));
        let held = led.or(agent.leaving).unwrap_or_default();
        match kind {
            RequestKind::Look | RequestKind::Acquire => {
                self.names.acquire(place, &credential, self.setup.ttl)
            }
            RequestKind::Confirm | RequestKind::Renew => {
                Command::Renew(Renew { progress: true, ..Renew::new(held, credential) })
            }
            RequestKind::Leave(None) => {
                Command::Release(Release { epoch: held, credential, reason: None, ending: Ending::Stopped })
            }
            RequestKind::Leave(Some(to)) => {
                let to = self.names.agent(usize::from(to)).clone();
                Command::Pass(Pass { epoch: held, credential, to, reason: None })
            }
        }
    }

    /// Sends a swap, perhaps held up between the decision and the sending.
    fn swap(&mut self, place: usize, swap: Swap, answer: Answer) {
        let number = self.next_number();
        let agent = &mut self.agents[place];
        let Some(request) = &mut agent.request else { return };
        request.number = number;
        request.sent = Some((swap.clone(), answer));
        let elective = request.elective;
        let (from, life) = (small(place), agent.host.life);
        self.ledger.sent("swap", elective);
        let (longest, permille) = self.setup.stumble;
        if !self.healed && permille > 0 && self.random.below(1_000) < 10 * u64::from(permille) {
            let held_up = self.random.below(longest.as_nanos());
            self.queue.put(self.now + held_up, Event::Sends { from, life, number, swap });
        } else {
            self.send_swap(from, life, number, swap);
        }
    }

    pub(super) fn send_swap(&mut self, from: u8, life: u32, number: u64, swap: Swap) {
        if self.network.doubles(&mut self.random) {
            let again = Event::Swap { from, life, number, swap: swap.clone() };
            self.send(usize::from(from), again);
        }
        self.send(usize::from(from), Event::Swap { from, life, number, swap });
    }

    /// Nobody answers: whether a swap was done is not known.
    fn unanswered(&mut self, place: usize) {
        let agent = &mut self.agents[place];
        let now = agent.host.clock.at(self.now);
        let Some(request) = &mut agent.request else { return };
        request.failed += 1;
        request.unknown = request.sent.take().or(request.unknown.take());
        match request.kind {
            RequestKind::Acquire | RequestKind::Confirm | RequestKind::Leave(_)
                if request.failed <= RETRIES =>
            {
                self.look(place)
            }
            RequestKind::Leave(_) => {
                // It has been tried often enough: the lease runs out by itself.
                agent.begin_anew(place, now + LOOK_AGAIN);
            }
            RequestKind::Look | RequestKind::Acquire | RequestKind::Confirm | RequestKind::Renew => {
                // What was found and not confirmed is found again by the next look.
                (agent.request, agent.found) = (None, None);
                let wait = self.back_off(place);
                self.agents[place].next_at = now + wait;
            }
        }
    }

    /// How long to wait after a failure: a renewal is tried again soon.
    fn back_off(&mut self, place: usize) -> Span {
        let agent = &mut self.agents[place];
        agent.failures = agent.failures.saturating_add(1);
        let longest = match agent.lead {
            Some(_) => self.setup.ttl.scaled(1, 20).min(Span::secs(1)),
            None => Span::secs(5),
        };
        let ceiling = Span::millis(20).scaled(1 << agent.failures.min(16), 1).min(longest);
        Span::nanos(self.random.below(ceiling.as_nanos()))
    }

    /// A request is done: what it was answered, and what it wrote if it wrote anything.
    fn concluded(&mut self, place: usize, wrote: Option<(&Swap, u64)>, answer: Answer) {
        let agent = &mut self.agents[place];
        let now = agent.host.clock.at(self.now);
        agent.failures = 0;
        agent.own = wrote.filter(|(swap, _)| swap.restarts).map(|(swap, version)| LastWrite {
            document: Arc::clone(&swap.next),
            version,
            heard_at: now,
        });
        let Some(request) = agent.request.take() else { return };
        match answer {
            Answer::Granted { epoch, ttl, .. } if answer.is_unconfirmed() => {
                agent.found = Some((epoch, ttl));
                self.ask(place, RequestKind::Confirm, now);
            }
            Answer::Granted { epoch, ttl, .. } => self.granted(place, epoch, ttl, request.asked_at),
            Answer::Renewed { epoch, .. } => match agent.found.take() {
                Some((_, ttl)) => self.granted(place, epoch, ttl, request.asked_at),
                None => self.renewed(place, epoch, request.asked_at),
            },
            Answer::Released { .. } => {
                let wait = Span::nanos(self.random.below(self.setup.ttl.as_nanos()));
                self.agents[place].begin_anew(place, now + wait);
            }
            Answer::Ended { .. }
            | Answer::Checkpointed { .. }
            | Answer::Acknowledged { .. }
            | Answer::Signed { .. }
            | Answer::Done { .. } => unreachable!("no agent asks for that: {answer:?}"),
        }
    }

    fn refused(&mut self, place: usize, refusal: &Refusal) {
        let wait_longer = Span::nanos(self.random.below(1_000_000_000));
        let agent = &mut self.agents[place];
        let now = agent.host.clock.at(self.now);
        let Some(request) = agent.request.take() else { return };
        match request.kind {
            RequestKind::Look | RequestKind::Acquire => {
                let wait = match refusal {
                    Refusal::Held { remaining, .. } => *remaining,
                    Refusal::NotEligible { retry_in: Some(span), .. } => *span,
                    Refusal::Stale { .. } => {
                        agent.begin_anew(place, now);
                        return;
                    }
                    Refusal::NotEligible { retry_in: None, .. }
                    | Refusal::Paused { .. }
                    | Refusal::AwaitingApproval { .. }
                    | Refusal::WrongKey { .. }
                    | Refusal::UnknownElection { .. }
                    | Refusal::NoSuchItem { .. }
                    | Refusal::OutOfTurn { .. }
                    | Refusal::Exhausted { .. }
                    | Refusal::Invalid { .. } => LOOK_AGAIN,
                };
                agent.next_at = now + wait.min(LOOK_AGAIN.plus(wait_longer)).max(Span::millis(1));
            }
            RequestKind::Confirm => agent.begin_anew(place, now),
            RequestKind::Renew => self.lose(place, "its renewal was refused"),
            RequestKind::Leave(_) => agent.begin_anew(place, now + LOOK_AGAIN),
        }
    }

    /// An agent hears that something changed: a candidate looks at once.
    pub(super) fn told(&mut self, place: usize, life: u32, elective: bool) {
        let agent = &mut self.agents[place];
        let idle = agent.up && agent.host.life == life && !agent.host.paused && agent.request.is_none();
        if idle && agent.lead.is_none() && agent.leaving.is_none() {
            agent.next_at = agent.host.clock.at(self.now);
            agent.is_told |= elective;
            self.set_alarm(place);
        }
    }

    pub(super) fn set_alarm(&mut self, place: usize) {
        let agent = &mut self.agents[place];
        agent.host.alarm_at = if agent.up && !agent.host.paused {
            agent.host.clock.when(agent.wakes_at()).max(self.now)
        } else {
            u64::MAX
        };
    }
}

/// The place of the leader that the document names.
fn leader_of(document: Option<&Document>) -> Option<u8> {
    document.and_then(|document| document.leader.as_ref()).and_then(|leader| place_of(leader.incarnation))
}
