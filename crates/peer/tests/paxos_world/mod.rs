//! A small world for Paxos: some members, a network that is told what to do, and a ledger of what must never happen.
#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod ledger;

use std::collections::{BTreeMap, BTreeSet};

use baton_election::Moment;
use baton_peer::paxos::{Message, Paxos, Saved};
use baton_peer::{
    Config, Effects, Group, Input, Machine, Member, NodeId, Notice, Random, Start, Term, Timing, View,
};
use ledger::Ledger;

pub(crate) const MS: u64 = 1_000_000;

pub(crate) fn id(number: u16) -> NodeId {
    NodeId::new(number).expect("a number of a test")
}

/// Members by their numbers.
pub(crate) fn plain(numbers: &[u16]) -> Vec<Member> {
    numbers.iter().map(|&number| Member::plain(id(number))).collect()
}

pub(crate) fn witness(number: u16) -> Member {
    Member { witness: true, ..Member::plain(id(number)) }
}

/// A message under way.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) arrives: u64,
    pub(crate) from: u16,
    pub(crate) to: u16,
    pub(crate) message: Message,
}

/// One member and its disk.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) machine: Option<Paxos>,
    pub(crate) saved: Option<Saved>,
    /// How fast its clock runs, in thousandths of true time.
    pub(crate) rate: u64,
    pub(crate) lease: Option<(Term, Moment)>,
    pub(crate) stopping: bool,
    pub(crate) starts: u64,
    /// Its disk was lost once.
    pub(crate) forgot: bool,
}

impl Node {
    fn new() -> Node {
        Node {
            machine: None,
            saved: None,
            rate: 1_000,
            lease: None,
            stopping: false,
            starts: 0,
            forgot: false,
        }
    }
}

/// How messages travel.
#[derive(Debug, Clone)]
pub(crate) struct Net {
    pub(crate) random: Random,
    pub(crate) delay: (u64, u64),
    pub(crate) loss_percent: u64,
    pub(crate) twice_percent: u64,
    pub(crate) cut: BTreeSet<(u16, u16)>,
}

#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) timing: Timing,
    pub(crate) group: Group,
    pub(crate) nodes: BTreeMap<u16, Node>,
    pub(crate) wire: Vec<Sent>,
    pub(crate) net: Net,
    pub(crate) ledger: Ledger,
    /// What the members told, with the true time.
    pub(crate) told: Vec<(u64, u16, Notice)>,
    /// What they sent: the kind, from whom, to whom.
    pub(crate) sent: Vec<(&'static str, u16, u16)>,
    seed: u64,
}

impl World {
    /// The group, founded: all have started, and messages take a millisecond.
    pub(crate) fn founded(members: Vec<Member>) -> World {
        let mut world = World::of(members, 1);
        for number in world.numbers() {
            world.start(number, Start::Founded);
        }
        world
    }

    /// The group before anybody has started.
    pub(crate) fn of(members: Vec<Member>, seed: u64) -> World {
        let group = Group::founded(members).expect("a group of a test");
        let nodes = group.members().iter().map(|member| (member.id.number(), Node::new())).collect();
        let net = Net {
            random: Random::seeded(seed),
            delay: (MS, MS),
            loss_percent: 0,
            twice_percent: 0,
            cut: BTreeSet::new(),
        };
        World {
            now: 0,
            timing: Timing::LAN,
            ledger: Ledger::new(group.majority()),
            group,
            nodes,
            wire: Vec::new(),
            net,
            told: Vec::new(),
            sent: Vec::new(),
            seed,
        }
    }

    /// One that is no member, at least not yet.
    pub(crate) fn add(&mut self, number: u16) {
        self.nodes.insert(number, Node::new());
    }

    pub(crate) fn numbers(&self) -> Vec<u16> {
        self.nodes.keys().copied().collect()
    }

    pub(crate) fn start(&mut self, number: u16, start: Start<Saved>) {
        let now = self.clock(number);
        let node = self.nodes.get_mut(&number).expect("a member");
        node.starts += 1;
        let seed = self.seed.wrapping_mul(1_000_003) + u64::from(number) * 1_000 + node.starts;
        let config = Config { id: id(number), group: self.group.clone(), timing: self.timing, seed };
        node.machine = Some(Paxos::start(config, start, now));
    }

    /// The process is gone, and its work with it.
    pub(crate) fn crash(&mut self, number: u16) {
        let node = self.nodes.get_mut(&number).expect("a member");
        node.machine = None;
        node.lease = None;
        node.stopping = false;
    }

    /// Begins again with what it kept.
    pub(crate) fn restart(&mut self, number: u16) {
        self.crash(number);
        let start = match self.nodes[&number].saved.clone() {
            Some(saved) => Start::Restarted(saved),
            None if self.nodes[&number].forgot => Start::Forgotten,
            None => Start::Founded,
        };
        self.start(number, start);
    }

    /// Begins again with what it kept; who never kept anything was never founded.
    pub(crate) fn restart_or_forget(&mut self, number: u16) {
        self.crash(number);
        let saved = self.nodes[&number].saved.clone();
        self.start(number, saved.map_or(Start::Forgotten, Start::Restarted));
    }

    /// Begins again with an empty disk.
    pub(crate) fn forget(&mut self, number: u16) {
        self.crash(number);
        let node = self.nodes.get_mut(&number).expect("a member");
        node.saved = None;
        node.forgot = true;
        self.ledger.forget(number);
        self.start(number, Start::Forgotten);
    }

    pub(crate) fn clock(&self, number: u16) -> Moment {
        Moment::from_nanos(self.now / 1_000 * self.nodes[&number].rate)
    }

    pub(crate) fn view(&self, number: u16) -> Option<View> {
        self.nodes[&number].machine.as_ref().map(|machine| machine.view(self.clock(number)))
    }

    /// Whoever may work at this instant, with its token.
    pub(crate) fn leader(&self) -> Option<(u16, Term)> {
        let leads = |(number, node): (&u16, &Node)| {
            let (term, until) = node.lease?;
            (self.clock(*number) < until).then_some((*number, term))
        };
        self.nodes.iter().find_map(leads)
    }

    /// One step of a member, carried out.
    pub(crate) fn step(&mut self, number: u16, input: Input<Message>) {
        let _ = self.watch_step(number, input);
    }

    /// The same, and what came out of it.
    pub(crate) fn watch_step(&mut self, number: u16, input: Input<Message>) -> Effects<Saved, Message> {
        let now = self.clock(number);
        let node = self.nodes.get_mut(&number).expect("a member");
        let Some(machine) = &mut node.machine else { return Effects::none() };
        let effects = machine.step(now, input);
        if let Some(saved) = &effects.persist {
            self.ledger.keep(number, saved);
            node.saved = Some(saved.clone());
        }
        for envelope in &effects.send {
            self.post(number, envelope.to.number(), envelope.message.clone());
        }
        for notice in &effects.notify {
            self.tell(number, notice.clone());
        }
        effects
    }

    fn post(&mut self, from: u16, to: u16, message: Message) {
        self.sent.push((Paxos::kind(&message), from, to));
        let net = &mut self.net;
        let copies = 1 + u64::from(net.random.below(100) < net.twice_percent);
        for _ in 0..copies {
            let arrives = self.now + net.random.between(net.delay.0, net.delay.1);
            if net.random.below(100) >= net.loss_percent {
                self.wire.push(Sent { arrives, from, to, message: message.clone() });
            }
        }
    }

    fn tell(&mut self, number: u16, notice: Notice) {
        let now = self.clock(number);
        let node = self.nodes.get_mut(&number).expect("a member");
        match &notice {
            Notice::Leads { term, until } => {
                let until = until.expect("Paxos has leases");
                node.lease = Some((*term, until));
                self.ledger.leads(number, *term);
            }
            Notice::Extended { term, until } => {
                let (before, ended) = node.lease.expect("only a leader's lease is extended");
                assert!(before == *term && ended <= *until && now < ended, "a lease was revived: {notice:?}");
                node.lease = Some((*term, *until));
            }
            Notice::Stop { .. } => node.stopping = true,
            Notice::Lost { .. } => {
                assert!(node.lease.take().is_some(), "nothing was lost: {notice:?}");
                node.stopping = false;
            }
            Notice::Follows { .. } | Notice::Leaderless { .. } | Notice::Members(_) | Notice::Refused(_) => {}
        }
        self.told.push((self.now, number, notice));
        let leaders: Vec<u16> = self.nodes.keys().copied().filter(|n| self.holds_lease(*n)).collect();
        assert!(leaders.len() < 2, "at {} ms {leaders:?} lead together", self.now / MS);
    }

    fn holds_lease(&self, number: u16) -> bool {
        self.nodes[&number].lease.is_some_and(|(_, until)| self.clock(number) < until)
    }

    /// Delivers what matches, in order, and returns how many there were.
    pub(crate) fn deliver(&mut self, wanted: impl Fn(&Sent) -> bool) -> usize {
        let mut count = 0;
        while let Some(at) = self.wire.iter().position(&wanted) {
            let sent = self.wire.remove(at);
            self.arrive(sent);
            count += 1;
        }
        count
    }

    /// Loses what matches.
    pub(crate) fn lose(&mut self, wanted: impl Fn(&Sent) -> bool) {
        self.wire.retain(|sent| !wanted(sent));
    }

    fn arrive(&mut self, sent: Sent) {
        if !self.net.cut.contains(&(sent.from, sent.to)) && self.nodes.contains_key(&sent.to) {
            self.step(sent.to, Input::Received { from: id(sent.from), message: sent.message });
        }
    }

    /// Cuts both ways between the two.
    pub(crate) fn cut(&mut self, a: u16, b: u16) {
        self.net.cut.extend([(a, b), (b, a)]);
    }

    /// Cuts one off from all others.
    pub(crate) fn isolate(&mut self, number: u16) {
        for other in self.numbers() {
            self.cut(number, other);
        }
    }

    /// The true time at which a member wants to be woken.
    fn wakes(&self, number: u16) -> Option<u64> {
        let node = &self.nodes[&number];
        let deadline = node.machine.as_ref()?.deadline().as_nanos();
        Some((deadline.div_ceil(node.rate) * 1_000).max(self.now))
    }

    /// Lets time go on: messages arrive and members are woken, in the order of time.
    pub(crate) fn run(&mut self, span: u64) {
        let end = self.now + span;
        while self.run_one(end) {}
        self.now = end;
    }

    /// The next event, if it is not after the end.
    pub(crate) fn run_one(&mut self, end: u64) -> bool {
        let arrival = self.wire.iter().enumerate().min_by_key(|(at, sent)| (sent.arrives, *at));
        let arrival = arrival.map(|(at, sent)| (sent.arrives.max(self.now), at));
        let wake = self.nodes.keys().filter_map(|number| Some((self.wakes(*number)?, *number))).min();
        match (arrival, wake) {
            (Some((when, at)), _) if when <= end && wake.is_none_or(|(wakes, _)| when <= wakes) => {
                self.now = when;
                let sent = self.wire.remove(at);
                self.arrive(sent);
            }
            (_, Some((when, number))) if when <= end => {
                self.now = when;
                self.step(number, Input::Tick);
                assert!(self.wakes(number) > Some(when), "{number} is busy for nothing");
            }
            (_, _) => return false,
        }
        true
    }

    /// Runs until somebody leads.
    pub(crate) fn elect(&mut self, within: u64) -> (u16, Term) {
        let end = self.now + within;
        loop {
            if let Some(leader) = self.leader() {
                return leader;
            }
            assert!(self.run_one(end), "nobody was elected within {} ms", within / MS);
        }
    }

    /// What was told by a member since the mark.
    pub(crate) fn told_by(&self, number: u16, mark: usize) -> Vec<Notice> {
        self.told[mark..].iter().filter(|(_, by, _)| *by == number).map(|(_, _, what)| what.clone()).collect()
    }
}
