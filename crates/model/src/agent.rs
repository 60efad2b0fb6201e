//! What an agent does: asks, decides, hears, believes. It follows the client's rules and the shipped code's answers.

use baton_election::{Epoch, Refusal, Span, Tenure, TenureState};

use crate::config::{BrokenRule, Reads, StoreKind};
use crate::model::Election;
use crate::shipped::Verdict;
use crate::state::{
    Agent, AgentAnswer, Event, Lead, Phase, Reading, Request, RequestKind, Sender, Swap, World,
};

impl World {
    /// Whether an agent is sure to lead.
    pub(crate) fn believes(&self, agent: usize) -> bool {
        let now = self.clocks.agents[agent].at(self.now);
        self.agents[agent].lead.as_ref().is_some_and(|lead| lead.tenure.ensures(now, Span::ZERO))
    }

    /// How an agent's leadership stands, if it has one.
    pub(crate) fn standing(&self, agent: usize) -> Option<TenureState> {
        let now = self.clocks.agents[agent].at(self.now);
        self.agents[agent].lead.as_ref().map(|lead| lead.tenure.clone().standing(now))
    }
}

impl Agent {
    /// Whatever it held is over; whatever it asks for next, it asks under a new name.
    fn begin_anew(&mut self) {
        self.lead = None;
        self.life += 1;
        self.refused_since = false;
    }
}

impl Election {
    /// What an idle agent would ask for.
    pub(crate) fn requests(&self, world: &World, agent: usize) -> Vec<RequestKind> {
        let (bounds, spent) = (&self.config.bounds, &world.spent);
        let mut requests = Vec::new();
        match world.standing(agent) {
            None => requests.push(RequestKind::Acquire),
            Some(standing) => {
                if standing == TenureState::Lost {
                    requests.push(RequestKind::Acquire);
                } else if spent.renewals < bounds.renewals {
                    requests.push(RequestKind::Renew);
                }
                if spent.leaves < bounds.leaves {
                    requests.extend([RequestKind::Release, RequestKind::Pass]);
                }
            }
        }
        requests
    }

    /// Begins a request.
    pub(crate) fn ask(&self, world: &mut World, agent: usize, kind: RequestKind) {
        let now = world.now;
        let mine = &mut world.agents[agent];
        match kind {
            RequestKind::Acquire => {
                if mine.lead.is_some() {
                    mine.begin_anew();
                }
            }
            RequestKind::Renew => world.spent.renewals += 1,
            RequestKind::Release | RequestKind::Pass => {
                world.spent.leaves += 1;
                if let Some(lead) = &mut mine.lead
                    && self.config.fault != Some(BrokenRule::ReleaseBeforeStopping)
                {
                    lead.tenure.end();
                }
            }
        }
        let asked_at = match kind {
            RequestKind::Acquire | RequestKind::Renew => now,
            RequestKind::Release | RequestKind::Pass => 0, // nothing is counted from it
        };
        mine.request = Some(Request { kind, asked_at, tried_at: self.tried(now), phase: Phase::Asked });
        self.try_now(world, agent);
    }

    /// Where reads take no time, an attempt goes on at once.
    fn try_now(&self, world: &mut World, agent: usize) {
        if self.config.reads == Reads::Instant {
            let reading = self.reading(world);
            self.conclude(world, agent, &reading);
        }
    }

    /// When an attempt began, where that matters.
    fn tried(&self, now: u8) -> u8 {
        let matters = self.config.store == StoreKind::Observed
            || self.config.fault == Some(BrokenRule::DeadlineFromRetry);
        if matters { now } else { 0 }
    }

    /// The reply to a read arrives: the agent decides, and swaps if there is anything to swap.
    pub(crate) fn conclude(&self, world: &mut World, agent: usize, reading: &Reading) {
        let age = self.age(world, agent, reading);
        let mine = &mut world.agents[agent];
        let Some(request) = &mut mine.request else { return };
        let token = mine.lead.as_ref().map_or(Epoch(0), |lead| lead.token);
        let asked = (request.kind, token);
        let seen = (&*reading.document, world.halted);
        match self.shipped.decide((agent, mine.life), asked, seen, age, &self.config) {
            Verdict::Swap(next, heard) => {
                let swap = Swap { expect: reading.version, next, by: Sender::Agent(agent, request.kind) };
                request.phase = Phase::Sent(swap, heard);
            }
            Verdict::Stands(heard) => self.hear(world, agent, heard),
            Verdict::Refused(refusal) => refused(world, agent, &refusal),
        }
    }

    fn age(&self, world: &mut World, agent: usize, reading: &Reading) -> Span {
        let clock = world.clocks.agents[agent];
        let mine = &mut world.agents[agent];
        match (reading.age, &mine.request) {
            (Some(age), _) => age,
            (None, None) => Span::ZERO,
            (None, Some(request)) => {
                let asked_at = clock.at(request.tried_at);
                let received_at = match self.config.fault {
                    Some(BrokenRule::ObserveFromAsking) => asked_at,
                    _ => clock.at(world.now),
                };
                mine.observer.observe(reading.document.pulse(), asked_at, received_at)
            }
        }
    }

    /// An answer arrives.
    pub(crate) fn hear(&self, world: &mut World, agent: usize, heard: AgentAnswer) {
        let clock = world.clocks.agents[agent];
        let now = clock.at(world.now);
        let mine = &mut world.agents[agent];
        let Some(request) = mine.request.take() else { return };
        let asked_at = match self.config.fault {
            Some(BrokenRule::DeadlineFromRetry) => clock.at(request.tried_at),
            _ => clock.at(request.asked_at),
        };
        match heard {
            AgentAnswer::Granted { token, ttl, unconfirmed, repeated } => {
                let margins = self.config.margins;
                let trusting = matches!(
                    self.config.fault,
                    Some(BrokenRule::RepeatedFromAsking | BrokenRule::DeadlineFromRetry)
                );
                // A grant that this request only found may be older than the request: a renewal tells, as for an offer.
                let tenure = if unconfirmed && !(repeated && trusting) {
                    Tenure::offered(now, ttl, margins)
                } else {
                    Tenure::granted(asked_at, ttl, margins)
                };
                mine.lead = Some(Lead { tenure, token });
                world.event = repeated.then_some(Event::FoundOwnGrant);
            }
            AgentAnswer::Renewed => {
                if let Some(lead) = &mut mine.lead {
                    let waited = lead.tenure.clone().standing(now) == TenureState::Offered;
                    let lost = lead.tenure.clone().standing(now) == TenureState::Lost;
                    let standing = lead.tenure.renewed(asked_at, now);
                    if lost && (standing != TenureState::Lost || lead.tenure.ensures(now, Span::ZERO)) {
                        world.event = Some(Event::Revived);
                    } else if waited && standing == TenureState::Safe && !self.config.offers {
                        world.event = Some(Event::Confirmed);
                    }
                }
            }
            AgentAnswer::Released => mine.begin_anew(),
        }
    }

    /// The agent gives up on a swap: it may have been applied, may yet be, or never. It reads again.
    pub(crate) fn time_out(&self, world: &mut World, agent: usize) {
        world.spent.timeouts += 1;
        let version = world.store.version;
        let tried_at = self.tried(world.now);
        let mine = &mut world.agents[agent];
        let Some(request) = &mut mine.request else { return };
        request.tried_at = tried_at;
        if let Phase::Sent(swap, _) = std::mem::replace(&mut request.phase, Phase::Asked) {
            mine.haunt(swap, version);
        }
        self.try_now(world, agent);
    }

    /// The agent gives up on its request: it may have been applied, may yet be, or never. It keeps its name.
    pub(crate) fn give_up(&self, world: &mut World, agent: usize) {
        world.spent.give_ups += 1;
        let version = world.store.version;
        let mine = &mut world.agents[agent];
        if let Some(Request { phase: Phase::Sent(swap, _), .. }) = mine.request.take() {
            mine.haunt(swap, version);
        }
    }

    /// The swap found another version. The agent reads again.
    pub(crate) fn retry(&self, world: &mut World, agent: usize) {
        let tried_at = self.tried(world.now);
        if let Some(request) = &mut world.agents[agent].request {
            (request.tried_at, request.phase) = (tried_at, Phase::Asked);
        }
        self.try_now(world, agent);
    }

    /// The agent's process dies and begins again. What it sent is still under way.
    pub(crate) fn restart(&self, world: &mut World, agent: usize) {
        world.spent.restarts += 1;
        let version = world.store.version;
        let former = std::mem::take(&mut world.agents[agent]);
        let mine = &mut world.agents[agent];
        (mine.life, mine.ghosts) = (former.life + 1, former.ghosts);
        if let Some(Request { phase: Phase::Sent(swap, _), .. }) = former.request {
            mine.haunt(swap, version);
        }
    }

    /// A paused agent goes on where it was: it had checked that it leads, and writes.
    pub(crate) fn wake(&self, world: &mut World, agent: usize) {
        let lost = world.standing(agent) == Some(TenureState::Lost);
        let mine = &mut world.agents[agent];
        mine.paused = false;
        let Some(lead) = &mine.lead else { return };
        let token = lead.token;
        let replaced = world.store.document.leader.as_ref().is_some_and(|leader| leader.epoch > token);
        if lost && replaced {
            world.event = Some(Event::WokeTooLate);
        }
        world.send_write(token);
    }
}

impl Agent {
    /// Keeps a swap under way that nobody waits for, unless it can no longer do anything.
    fn haunt(&mut self, swap: Swap, version: u8) {
        if swap.expect == version && !self.ghosts.contains(&swap) {
            self.ghosts.push(swap);
            self.ghosts.sort_by_key(|swap| swap.next.rank());
        }
    }
}

fn refused(world: &mut World, agent: usize, refusal: &Refusal) {
    let mine = &mut world.agents[agent];
    let Some(request) = mine.request.take() else { return };
    match (request.kind, refusal) {
        (RequestKind::Acquire, Refusal::Stale { .. }) => mine.begin_anew(),
        (RequestKind::Acquire, Refusal::Held { ending: Some(_), .. }) => {
            world.event = Some(Event::WaitsForEnded)
        }
        (RequestKind::Acquire, _) => mine.refused_since |= !mine.ghosts.is_empty(),
        (RequestKind::Renew, _) => {
            if let Some(lead) = &mut mine.lead {
                lead.tenure.end();
            }
        }
        (RequestKind::Release | RequestKind::Pass, _) => mine.begin_anew(),
    }
}
