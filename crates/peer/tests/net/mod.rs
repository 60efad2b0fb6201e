//! A group of machines on a network that does what a test says: one delay, cuts in one direction, crashes, pauses.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use baton_election::{Moment, Span};
use baton_peer::{Config, Effects, Group, Input, Machine, Member, NodeId, Notice, Start, Term, Timing, View};

pub(crate) fn id(number: u16) -> NodeId {
    NodeId::new(number).unwrap()
}

pub(crate) fn plain(size: u16) -> Vec<Member> {
    (1..=size).map(|number| Member::plain(id(number))).collect()
}

/// A rhythm in which a member notices silence last; [`IMPATIENT`] has the same heartbeat and notices first.
pub(crate) const PATIENT: Timing =
    Timing { timeout_min: Span::secs(20), timeout_max: Span::secs(25), ..Timing::LAN };
pub(crate) const IMPATIENT: Timing = Timing::LAN;

struct Node<M: Machine> {
    machine: Option<M>,
    timing: Timing,
    saved: Option<M::Saved>,
    /// The term that it had seen when it last kept something.
    kept: Term,
    /// What it was told, most recent last.
    notices: Vec<Notice>,
    paused: bool,
}

struct Letter<M> {
    at: Moment,
    from: NodeId,
    to: NodeId,
    message: M,
}

pub(crate) struct Net<M: Machine> {
    pub(crate) now: Moment,
    members: Vec<Member>,
    nodes: BTreeMap<NodeId, Node<M>>,
    wire: VecDeque<Letter<M::Message>>,
    cut: BTreeSet<(NodeId, NodeId)>,
    /// How many messages of a kind were sent.
    pub(crate) sent: BTreeMap<&'static str, usize>,
    /// What happened, for a scenario.
    pub(crate) trace: String,
    /// The most members that led at the same moment.
    pub(crate) most_leaders: usize,
    /// From the sending of a message to its arrival.
    pub(crate) delay: Span,
    term_of: fn(&M::Message) -> Term,
}

/// What [`Net::delay`] is if a test does not say otherwise.
pub(crate) const DELAY: Span = Span::millis(2);

impl<M: Machine> Net<M> {
    /// Nobody has started yet. `term_of` is the highest term that a message's sender must have kept.
    pub(crate) fn of(members: Vec<Member>, term_of: fn(&M::Message) -> Term) -> Net<M> {
        let node = |_| Node {
            machine: None,
            timing: IMPATIENT,
            saved: None,
            kept: Term::ZERO,
            notices: Vec::new(),
            paused: false,
        };
        Net {
            now: Moment::from_nanos(1_000_000),
            nodes: members.iter().map(|member| (member.id, node(member))).collect(),
            members,
            wire: VecDeque::new(),
            cut: BTreeSet::new(),
            sent: BTreeMap::new(),
            trace: String::new(),
            most_leaders: 0,
            delay: DELAY,
            term_of,
        }
    }

    /// All of them start at the same moment.
    pub(crate) fn started(members: Vec<Member>, term_of: fn(&M::Message) -> Term) -> Net<M> {
        let mut net = Net::of(members, term_of);
        for member in net.members.clone() {
            net.start(member.id.number());
        }
        net
    }

    pub(crate) fn timing(&mut self, number: u16, timing: Timing) {
        self.nodes.get_mut(&id(number)).unwrap().timing = timing;
    }

    /// Starts a member with what it kept, if anything.
    pub(crate) fn start(&mut self, number: u16) {
        let group = Group::founded(self.members.clone()).unwrap();
        let node = self.nodes.get_mut(&id(number)).unwrap();
        let config = Config { id: id(number), group, timing: node.timing, seed: u64::from(number) };
        let start = node.saved.clone().map_or(Start::Founded, Start::Restarted);
        node.machine = Some(M::start(config, start, self.now));
        self.note(&format!("{number} starts"));
    }

    pub(crate) fn crash(&mut self, number: u16) {
        self.nodes.get_mut(&id(number)).unwrap().machine = None;
        self.note(&format!("{number} crashes"));
    }

    /// Crashes, and loses what it kept.
    pub(crate) fn wipe(&mut self, number: u16) {
        self.crash(number);
        let node = self.nodes.get_mut(&id(number)).unwrap();
        (node.saved, node.kept) = (None, Term::ZERO);
    }

    /// It does not run until it wakes; what is sent to it waits.
    pub(crate) fn pause(&mut self, number: u16) {
        self.nodes.get_mut(&id(number)).unwrap().paused = true;
        self.note(&format!("{number} is paused"));
    }

    pub(crate) fn wake(&mut self, number: u16) {
        self.nodes.get_mut(&id(number)).unwrap().paused = false;
        self.note(&format!("{number} wakes"));
    }

    /// Nothing goes from the one to the other.
    pub(crate) fn cut(&mut self, from: u16, to: u16) {
        self.cut.insert((id(from), id(to)));
        self.note(&format!("nothing goes from {from} to {to}"));
    }

    /// Nothing goes between the two sides.
    pub(crate) fn split(&mut self, one: &[u16], other: &[u16]) {
        for (&a, &b) in one.iter().flat_map(|a| other.iter().map(move |b| (a, b))) {
            self.cut.insert((id(a), id(b)));
            self.cut.insert((id(b), id(a)));
        }
        self.note(&format!("split: {one:?} and {other:?}"));
    }

    pub(crate) fn heal(&mut self) {
        self.cut.clear();
        self.note("healed");
    }

    pub(crate) fn view(&self, number: u16) -> View {
        self.nodes[&id(number)].machine.as_ref().unwrap().view(self.now)
    }

    pub(crate) fn notices(&self, number: u16) -> &[Notice] {
        &self.nodes[&id(number)].notices
    }

    pub(crate) fn saved(&self, number: u16) -> Option<&M::Saved> {
        self.nodes[&id(number)].saved.as_ref()
    }

    /// The members that lead, paused or not.
    pub(crate) fn leaders(&self) -> Vec<u16> {
        let leads = |(id, node): (&NodeId, &Node<M>)| {
            node.machine
                .as_ref()
                .is_some_and(|machine| machine.view(self.now).leads(self.now))
                .then(|| id.number())
        };
        self.nodes.iter().filter_map(leads).collect()
    }

    /// Whom each living member holds for the leader.
    pub(crate) fn believed(&self) -> BTreeSet<Option<u16>> {
        let alive = self.nodes.values().filter_map(|node| node.machine.as_ref());
        alive.map(|machine| machine.view(self.now).leader.map(NodeId::number)).collect()
    }

    pub(crate) fn count(&self, kinds: &[&str]) -> usize {
        kinds.iter().map(|kind| self.sent.get(kind).copied().unwrap_or(0)).sum()
    }

    /// Lets that much time pass.
    pub(crate) fn run(&mut self, span: Span) {
        let end = self.now + span;
        while self.event(end) {}
        self.now = end;
    }

    /// Lets time pass until exactly these lead, and no message is on its way; no longer than a minute.
    pub(crate) fn until_leaders(&mut self, wanted: &[u16]) {
        let end = self.now + Span::secs(60);
        let quiet = |net: &Net<M>| net.wire.iter().all(|letter| net.nodes[&letter.to].paused);
        while self.leaders() != wanted || !quiet(self) {
            assert!(self.event(end), "{wanted:?} do not lead, but {:?}\n{}", self.leaders(), self.trace);
        }
    }

    /// Gives a member something, and carries out what it makes of it.
    pub(crate) fn input(&mut self, number: u16, input: Input<M::Message>) {
        let machine = self.nodes.get_mut(&id(number)).unwrap().machine.as_mut().unwrap();
        let effects = machine.step(self.now, input);
        self.carry_out(id(number), effects);
    }

    /// The next thing that happens before `end`.
    fn event(&mut self, end: Moment) -> bool {
        let awake = |node: &&Node<M>| node.machine.is_some() && !node.paused;
        let letter = self.wire.iter().position(|letter| !self.nodes[&letter.to].paused);
        let arrival = letter.map(|index| self.wire[index].at);
        let due = self
            .nodes
            .iter()
            .filter(|(_, node)| awake(node))
            .map(|(id, node)| (node.machine.as_ref().unwrap().deadline(), *id));
        let due = due.min();
        match (arrival, due) {
            (Some(at), due) if at <= end && due.is_none_or(|(due, _)| at <= due) => {
                self.now = self.now.max(at);
                let letter = self.wire.remove(letter.unwrap()).unwrap();
                if self.nodes[&letter.to].machine.is_some() && !self.cut.contains(&(letter.from, letter.to)) {
                    self.input(
                        letter.to.number(),
                        Input::Received { from: letter.from, message: letter.message },
                    );
                }
                true
            }
            (_, Some((due, id))) if due <= end => {
                self.now = self.now.max(due);
                self.input(id.number(), Input::Tick);
                let next = self.nodes[&id].machine.as_ref().unwrap().deadline();
                assert!(next > self.now, "{id} would be woken for ever");
                true
            }
            (_, _) => false,
        }
    }

    fn carry_out(&mut self, from: NodeId, effects: Effects<M::Saved, M::Message>) {
        let node = self.nodes.get_mut(&from).unwrap();
        if let Some(saved) = effects.persist {
            node.saved = Some(saved);
            node.kept = node.machine.as_ref().unwrap().view(self.now).term;
        }
        let kept = node.kept;
        node.notices.extend(effects.notify.iter().cloned());
        for notice in &effects.notify {
            let text = format!("{from}: {notice:?}");
            self.note(&text);
        }
        for envelope in effects.send {
            let kind = M::kind(&envelope.message);
            let spoken = (self.term_of)(&envelope.message);
            assert!(spoken <= kept, "{from} speaks of term {spoken} and has kept {kept}");
            *self.sent.entry(kind).or_default() += 1;
            if kind != "HEARTBEAT" {
                self.note(&format!("{from} → {}: {kind}", envelope.to));
            }
            let at = self.now + self.delay;
            self.wire.push_back(Letter { at, from, to: envelope.to, message: envelope.message });
        }
        self.most_leaders = self.most_leaders.max(self.leaders().len());
    }

    pub(crate) fn note(&mut self, text: &str) {
        let ms = self.now.as_nanos() / 1_000_000;
        self.trace.push_str(&format!("{ms:>6} ms  {text}\n"));
    }
}
