//! The shell of a machine: a step, then what it asks for, in the order of the fields.

use baton_election::Span;
use baton_peer::{Effects, Group, Input, Machine, Notice, Start};

use super::member::{HeardPlaces, Letter, MAX_WAITING, Pending};
use super::{Event, MAX_STEPS_AT_ONCE, World, config, founding_group, listed, node, place_of, small};
use crate::invariants::{Broken, Fact};
use crate::timeline::EventKind;

/// The rounds of all algorithms that go on while somebody leads, and the answers to them.
const HEARTBEATS: [&str; 5] = ["HEARTBEAT", "AppendEntries", "AppendAnswer", "accept", "accepted"];

impl<M: Machine> World<'_, M> {
    /// A process starts.
    pub(super) fn start(&mut self, place: usize, life: u32) {
        let group = self.written_list(place);
        let member = &mut self.members[place];
        if member.host.life != life || member.machine.is_some() {
            return;
        }
        member.host.life += 1;
        let (start, how) = match &member.saved {
            Some(saved) => (Start::Restarted(saved.clone()), "with what it kept"),
            None if member.founds => (Start::Founded, "founded"),
            None => (Start::Forgotten, "forgotten"),
        };
        let now = member.host.clock.at(self.now);
        member.machine = Some(M::start(config(self.setup, place, group, life), start, now));
        member.host.paused = false;
        member.heard = HeardPlaces { since: self.now, ..HeardPlaces::default() };
        member.announced = None;
        self.ledger.note(Some(small(place)), || EventKind::Started(how));
        self.set_alarm(place);
    }

    /// The list of members on a process's command line. A founder gets the list of the founding. A member
    /// that joins later gets the members of that moment and itself. A member that lost its disk gets the list
    /// that it had then: with an outdated list it could think that it is alone.
    fn written_list(&self, place: usize) -> Group {
        let member = &self.members[place];
        let founder = place < usize::from(self.setup.members);
        let list = match &member.lost {
            None if founder => return founding_group(self.setup),
            None => self.group(),
            Some(_) if self.setup.outsiders_may_forget && self.group().member(node(place)).is_none() => {
                self.group()
            }
            Some(list) => list,
        };
        let mut members = list.members().to_vec();
        if list.member(node(place)).is_none() {
            members.push(listed(self.setup, place));
        }
        Group::founded(members).unwrap_or_else(|error| panic!("a list that is none: {error}"))
    }

    /// A message arrives at a place.
    pub(super) fn arrive(&mut self, place: usize, letter: Letter<M::Message>) {
        let member = &mut self.members[place];
        if member.machine.is_none() {
            return;
        }
        if member.is_free() {
            self.receive(place, letter);
            self.set_alarm(place);
        } else if member.waiting.len() < MAX_WAITING {
            member.waiting.push_back(letter);
        }
    }

    fn receive(&mut self, place: usize, letter: Letter<M::Message>) {
        let Letter { from, sent, elective, message } = letter;
        let heard = &mut self.members[place].heard;
        if sent >= heard.since {
            heard.places |= 1 << from;
        }
        let kind = M::kind(&message);
        self.ledger.note(Some(small(place)), || EventKind::Received { from, kind });
        self.step_after(place, Input::Received { from: node(usize::from(from)), message }, elective);
    }

    /// A machine is woken.
    pub(super) fn tick(&mut self, place: usize) {
        let at_once = match self.steps_at_once {
            (at, count) if at == self.now => count + 1,
            _ => 0,
        };
        self.steps_at_once = (self.now, at_once);
        if at_once > MAX_STEPS_AT_ONCE {
            let what = format!("member {} asks to be woken again and again at one instant", place + 1);
            self.ledger.broken = Some(Broken { invariant: "time goes on", at: Span::nanos(self.now), what });
            return;
        }
        self.step(place, Input::Tick);
        self.set_alarm(place);
    }

    /// One step of a machine that is free.
    pub(super) fn step(&mut self, place: usize, input: Input<M::Message>) {
        self.step_after(place, input, true);
    }

    /// The same. The input may be a leader's heartbeat; the answer to that is not elective.
    fn step_after(&mut self, place: usize, input: Input<M::Message>, elective: bool) {
        let member = &mut self.members[place];
        let now = member.host.clock.at(self.now);
        let Some(machine) = &mut member.machine else { return };
        let effects = machine.step(now, input);
        self.ledger.statistics.steps += 1;
        let term = machine.view(now).term;
        // A leader may show the term that it was elected in although it has seen a higher one since.
        if term > member.heard.term {
            member.heard = HeardPlaces { term, since: self.now, places: 0 };
        }
        self.look_at_announcements(place, &effects);
        let takes = self.takes(place, effects.persist.is_some());
        if takes == Span::ZERO {
            self.carry_out(place, effects, elective);
        } else {
            let member = &mut self.members[place];
            member.busy = Some(Pending { effects, elective, done: false });
            let kept = Event::Kept { place: small(place), life: member.host.life };
            self.queue.put(self.now + takes.as_nanos(), kept);
        }
    }

    /// A machine must not say that a leadership goes on whose end it has let pass on its own clock.
    fn look_at_announcements(&mut self, place: usize, effects: &Effects<M::Saved, M::Message>) {
        let member = &mut self.members[place];
        let now = member.host.clock.at(self.now);
        for notice in &effects.notify {
            match notice {
                Notice::Leads { term, until } => member.announced = until.map(|until| (*term, until)),
                Notice::Extended { term, until } => {
                    let ended = member.announced.is_none_or(|(of, end)| of != *term || end <= now);
                    member.announced = Some((*term, *until));
                    self.ledger.see(&Fact::Extended { place: small(place), term: term.0, ended });
                }
                Notice::Lost { .. } => member.announced = None,
                Notice::Stop { .. }
                | Notice::Follows { .. }
                | Notice::Leaderless { .. }
                | Notice::Members(_)
                | Notice::Refused(_) => {}
            }
        }
    }

    /// How long it is until the effects of a step are carried out.
    fn takes(&mut self, place: usize, persists: bool) -> Span {
        let mut takes = Span::ZERO;
        if persists {
            let (until, each) = self.members[place].slow_disk;
            let longest = if self.now < until { each } else { self.setup.disk };
            takes = Span::nanos(self.random.below(longest.as_nanos()));
        }
        let (longest, permille) = self.setup.stumble;
        if !self.healed && permille > 0 && self.random.below(1_000) < u64::from(permille) {
            takes = takes.plus(Span::nanos(self.random.below(longest.as_nanos())));
        }
        takes
    }

    /// The disk is done.
    pub(super) fn kept(&mut self, place: usize, life: u32) {
        let member = &mut self.members[place];
        if member.host.life != life {
            return;
        }
        if member.host.paused {
            if let Some(pending) = &mut member.busy {
                pending.done = true;
            }
            return;
        }
        if let Some(pending) = member.busy.take() {
            self.carry_out(place, pending.effects, pending.elective);
        }
        self.catch_up(place);
    }

    /// A process that was held up takes in what waits for it, and looks at the clock.
    pub(super) fn catch_up(&mut self, place: usize) {
        let clock_first = self.random.below(4) == 0;
        if clock_first && self.members[place].is_free() {
            self.step(place, Input::Tick);
        }
        while self.members[place].is_free() {
            let Some(letter) = self.members[place].waiting.pop_front() else { break };
            self.receive(place, letter);
        }
        self.set_alarm(place);
    }

    /// Carries out what a step asked for.
    fn carry_out(&mut self, place: usize, effects: Effects<M::Saved, M::Message>, elective: bool) {
        let Effects { persist, send, notify } = effects;
        if let Some(saved) = persist {
            self.ledger.statistics.kept += 1;
            self.ledger.note(Some(small(place)), || EventKind::Kept(format!("{saved:?}")));
            self.members[place].saved = Some(saved);
        }
        for envelope in send {
            self.send(place, place_of(envelope.to), envelope.message, elective);
        }
        for notice in notify {
            self.tell(place, notice);
        }
    }

    fn send(&mut self, from: usize, to: usize, message: M::Message, elective: bool) {
        let kind = M::kind(&message);
        // The rounds before a leader may act decide the election.
        let leads = self.members[from].work.is_some();
        let elective = !HEARTBEATS.contains(&kind) || (elective && !leads);
        self.ledger.sent(kind, elective);
        let reaches = to < self.members.len() && from != to && self.links.open(from, to);
        let travel = if reaches { self.network.travel(&mut self.random) } else { None };
        if self.ledger.is_watched() {
            let arrives = travel.map(|span| Span::nanos(self.now).plus(span));
            let text = format!("{message:?}");
            self.ledger.note(Some(small(from)), || EventKind::Sent { to: small(to), kind, text, arrives });
        }
        let Some(span) = travel else { return };
        let (from, to, sent) = (small(from), small(to), self.now);
        if self.network.doubles(&mut self.random) {
            let again = self.network.delay(&mut self.random);
            let letter = Letter { from, sent, elective, message: message.clone() };
            self.queue.put(self.now + again.as_nanos(), Event::Arrives { to, letter });
        }
        let letter = Letter { from, sent, elective, message };
        self.queue.put(self.now + span.as_nanos(), Event::Arrives { to, letter });
    }

    /// Finds out when a machine wants to be woken.
    pub(super) fn set_alarm(&mut self, place: usize) {
        let member = &mut self.members[place];
        member.host.alarm_at = match &member.machine {
            Some(machine) if member.is_free() => member.host.clock.when(machine.deadline()).max(self.now),
            Some(_) | None => u64::MAX,
        };
    }
}
