//! A small network for tests of Raft: clocks of their own, links that can be cut, and a watch on what must never happen.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::{BTreeMap, BTreeSet};

use baton_election::{Moment, Span};
use baton_peer::memory_recovery::Memory;
use baton_peer::raft::{Message, Raft, Saved};
use baton_peer::{
    Config, Group, Input, Machine, Member, NodeId, Notice, Random, Role, Start, Term, Timing, View,
};

pub(crate) fn id(number: u16) -> NodeId {
    NodeId::new(number).expect("a number of a test")
}

pub(crate) fn group(members: Vec<Member>) -> Group {
    Group::founded(members).expect("a group of a test")
}

/// Members 1 to `size`, all alike.
pub(crate) fn plain(size: u16) -> Vec<Member> {
    (1..=size).map(|n| Member::plain(id(n))).collect()
}

pub(crate) fn witness(number: u16) -> Member {
    Member { witness: true, ..Member::plain(id(number)) }
}

/// One process and its disk.
pub(crate) struct Node {
    pub(crate) machine: Option<Raft>,
    pub(crate) saved: Option<Saved>,
    has_lost_disk: bool,
    pub(crate) config: Config,
    lives: u64,
    /// Its clock: `begin + true time · rate / 1000`.
    begin: u64,
    rate: u64,
    /// It does nothing until it is woken.
    pub(crate) is_paused: bool,
    /// When its work will have stopped.
    stops_at: Option<u64>,
    notices: Vec<Notice>,
}

impl Node {
    fn clock(&self, now: u64) -> Moment {
        let passed = u128::from(now) * u128::from(self.rate) / 1_000;
        Moment::from_nanos(self.begin + u64::try_from(passed).expect("a short test"))
    }

    fn true_time(&self, at: Moment) -> u64 {
        let passed = u128::from(at.as_nanos().saturating_sub(self.begin)) * 1_000;
        u64::try_from(passed.div_ceil(u128::from(self.rate))).unwrap_or(u64::MAX)
    }
}

struct Packet {
    at: u64,
    order: u64,
    from: NodeId,
    to: NodeId,
    message: Message,
}

/// How the network treats messages.
#[derive(Clone, Copy)]
pub(crate) struct NetworkConditions {
    pub(crate) delay: (u64, u64),
    pub(crate) loss_percent: u64,
    pub(crate) double_percent: u64,
}

impl NetworkConditions {
    pub(crate) const FINE: NetworkConditions =
        NetworkConditions { delay: (1_000_000, 1_000_000), loss_percent: 0, double_percent: 0 };
}

/// All of it.
pub(crate) struct Net {
    pub(crate) now: u64,
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    pub(crate) weather: NetworkConditions,
    pub(crate) random: Random,
    pub(crate) timing: Timing,
    cut: BTreeSet<(NodeId, NodeId)>,
    packets: Vec<Packet>,
    order: u64,
    /// The leader of each term.
    pub(crate) leaders: BTreeMap<Term, NodeId>,
    /// Messages by kind.
    pub(crate) sent: BTreeMap<&'static str, u64>,
    pub(crate) log: Vec<String>,
    /// Messages are logged too.
    pub(crate) is_chatty: bool,
}

impl Net {
    /// A group that is being founded.
    pub(crate) fn founded(members: Vec<Member>, seed: u64) -> Net {
        let mut net = Net::empty(seed);
        let group = group(members);
        for member in group.members() {
            net.add(member.id, group.clone(), Start::Founded);
        }
        net
    }

    pub(crate) fn empty(seed: u64) -> Net {
        Net {
            now: 0,
            nodes: BTreeMap::new(),
            weather: NetworkConditions::FINE,
            random: Random::seeded(seed),
            timing: Timing::LAN,
            cut: BTreeSet::new(),
            packets: Vec::new(),
            order: 0,
            leaders: BTreeMap::new(),
            sent: BTreeMap::new(),
            log: Vec::new(),
            is_chatty: false,
        }
    }

    pub(crate) fn add(&mut self, id: NodeId, group: Group, start: Start<Saved>) {
        let seed = self.random.number();
        let config = Config { id, group, timing: self.timing, seed };
        let mut node = Node {
            machine: None,
            saved: None,
            has_lost_disk: false,
            config,
            lives: 0,
            begin: self.random.below(1_000_000_000_000),
            rate: 1_000,
            is_paused: false,
            stops_at: None,
            notices: Vec::new(),
        };
        node.machine = Some(Raft::start(node.config.clone(), start, node.clock(self.now)));
        self.nodes.insert(id, node);
    }

    /// Sets how fast the clock of a node runs, in thousandths, before anything else happens.
    pub(crate) fn set_rate(&mut self, number: u16, rate: u64) {
        assert_eq!(self.now, 0);
        self.node(number).rate = rate;
    }

    pub(crate) fn node(&mut self, number: u16) -> &mut Node {
        self.nodes.get_mut(&id(number)).expect("a node of the test")
    }

    pub(crate) fn view(&self, number: u16) -> Option<View> {
        let node = &self.nodes[&id(number)];
        node.machine.as_ref().map(|machine| machine.view(node.clock(self.now)))
    }

    /// Those whose work may run at this instant.
    pub(crate) fn leading(&self) -> Vec<u16> {
        let leads = |number: &u16| {
            let node = &self.nodes[&id(*number)];
            self.view(*number).is_some_and(|view| view.leads(node.clock(self.now)))
        };
        self.nodes.keys().map(|id| id.number()).filter(leads).collect()
    }

    pub(crate) fn leader(&self) -> Option<u16> {
        self.leading().first().copied()
    }

    pub(crate) fn term_of(&self, number: u16) -> u64 {
        self.view(number).map_or(0, |view| view.term.0)
    }

    pub(crate) fn cut(&mut self, from: u16, to: u16) {
        self.cut.insert((id(from), id(to)));
    }

    /// Cuts a node off from these, both ways.
    pub(crate) fn part(&mut self, one: u16, others: &[u16]) {
        for &other in others {
            self.cut(one, other);
            self.cut(other, one);
        }
    }

    pub(crate) fn heal(&mut self) {
        self.cut.clear();
    }

    pub(crate) fn crash(&mut self, number: u16) {
        let node = self.node(number);
        node.machine = None;
        node.stops_at = None;
        node.notices.clear();
    }

    pub(crate) fn restart(&mut self, number: u16) {
        let start = match self.node(number).saved.clone() {
            Some(saved) => Start::Restarted(saved),
            None if self.node(number).has_lost_disk => Start::Forgotten,
            None => Start::Founded,
        };
        self.start(number, start);
    }

    /// Its disk is lost.
    pub(crate) fn restart_forgotten(&mut self, number: u16) {
        self.node(number).saved = None;
        self.node(number).has_lost_disk = true;
        self.start(number, Start::Forgotten);
    }

    fn start(&mut self, number: u16, start: Start<Saved>) {
        self.crash(number);
        let now = self.now;
        let node = self.node(number);
        node.lives += 1;
        node.is_paused = false;
        node.config.seed ^= node.lives << 32;
        node.machine = Some(Raft::start(node.config.clone(), start, node.clock(now)));
    }

    /// Gives a machine an input, and carries out the effects.
    pub(crate) fn step(&mut self, number: u16, input: Input<Message>) -> Vec<Notice> {
        let now = self.now;
        let node = self.node(number);
        let clock = node.clock(now);
        let Some(machine) = &mut node.machine else { return Vec::new() };
        let effects = machine.step(clock, input);
        assert!(machine.deadline() > clock, "{number} wants to be woken in the past: {machine:?}");
        if let Some(saved) = effects.persist {
            node.saved = Some(saved);
        }
        for notice in &effects.notify {
            self.take(number, notice);
        }
        for envelope in effects.send {
            if self.is_chatty {
                let line = chat(number, envelope.to, &envelope.message);
                self.log.push(format!("{:>7.1} {line}", self.now as f64 / 1e6));
            }
            *self.sent.entry(Raft::kind(&envelope.message)).or_default() += 1;
            self.post(id(number), envelope.to, envelope.message);
        }
        self.check();
        effects.notify
    }

    fn take(&mut self, number: u16, notice: &Notice) {
        if !matches!(notice, Notice::Extended { .. }) {
            self.log.push(format!("{:>7.1} {number} {}", self.now as f64 / 1e6, words(notice)));
        }
        match notice {
            Notice::Leads { term, .. } => {
                let before = self.leaders.insert(*term, id(number));
                assert!(before.is_none(), "term {term} has a second leader, {number}\n{}", self.story());
            }
            Notice::Stop { .. } => {
                let stops_at = self.now + 5_000_000;
                self.node(number).stops_at = Some(stops_at);
            }
            Notice::Extended { .. }
            | Notice::Lost { .. }
            | Notice::Follows { .. }
            | Notice::Leaderless { .. }
            | Notice::Members(_)
            | Notice::Refused(_) => {}
        }
        self.node(number).notices.push(notice.clone());
    }

    pub(crate) fn story(&self) -> String {
        let from = self.log.len().saturating_sub(60);
        self.log[from..].join("\n")
    }

    /// At no instant two leases run, and no witness leads.
    fn check(&self) {
        let leading = self.leading();
        assert!(leading.len() <= 1, "{leading:?} lead at once\n{}", self.story());
        for number in leading {
            let group = &self.nodes[&id(number)].config.group;
            let is_witness = group.member(id(number)).is_some_and(|member| member.witness);
            assert!(!is_witness, "a witness leads");
        }
    }

    fn post(&mut self, from: NodeId, to: NodeId, message: Message) {
        if self.cut.contains(&(from, to)) {
            return;
        }
        let copies = if self.random.below(100) < self.weather.loss_percent { 0 } else { 1 };
        let doubled = u64::from(copies > 0 && self.random.below(100) < self.weather.double_percent);
        for _ in 0..copies + doubled {
            self.order += 1;
            let at = self.now + self.random.between(self.weather.delay.0, self.weather.delay.1);
            self.packets.push(Packet { at, order: self.order, from, to, message: message.clone() });
        }
    }

    /// Lets time pass, event by event.
    pub(crate) fn run_for(&mut self, span: Span) {
        let end = self.now + span.as_nanos();
        while self.advance(end) {}
        self.now = end;
        self.check();
    }

    /// Lets time pass until somebody leads.
    pub(crate) fn run_until_led(&mut self, within: Span) -> Option<u16> {
        let end = self.now + within.as_nanos();
        while self.leader().is_none() {
            if !self.advance(end) {
                return None;
            }
        }
        self.leader()
    }

    /// The next event before the end; false if there is none.
    fn advance(&mut self, end: u64) -> bool {
        let packet = self.packets.iter().enumerate().min_by_key(|(_, p)| (p.at, p.order));
        let packet = packet.map(|(index, p)| (p.at, index));
        let awake = self.nodes.iter().filter(|(_, node)| !node.is_paused && node.machine.is_some());
        let timer = awake
            .filter_map(|(id, node)| {
                let due = node.machine.as_ref().map(|machine| node.true_time(machine.deadline()))?;
                let (due, is_stop) = match node.stops_at {
                    Some(stop) if stop <= due => (stop, true),
                    Some(_) | None => (due, false),
                };
                Some((due.max(self.now), id.number(), is_stop))
            })
            .min();
        let next = packet.map(|(at, _)| at).into_iter().chain(timer.map(|(at, _, _)| at)).min();
        if next.is_none_or(|next| next > end) {
            return false;
        }
        match (packet, timer) {
            (Some((at, index)), timer) if timer.is_none_or(|(due, _, _)| at <= due) => {
                self.now = self.now.max(at);
                let packet = self.packets.swap_remove(index);
                let to = packet.to.number();
                if self.nodes.get(&packet.to).is_none_or(|node| node.is_paused) {
                    // A paused process finds its messages when it wakes.
                    if self.nodes.contains_key(&packet.to) {
                        self.packets.push(Packet { at: self.now + 10_000_000, ..packet });
                    }
                    return true;
                }
                self.step(to, Input::Received { from: packet.from, message: packet.message });
            }
            (_, Some((due, number, is_stop))) => {
                self.now = due;
                if is_stop {
                    self.node(number).stops_at = None;
                    self.step(number, Input::Stopped);
                } else {
                    self.step(number, Input::Tick);
                }
            }
            (_, None) => return false,
        }
        true
    }

    /// What a node was told since the last call.
    pub(crate) fn notices(&mut self, number: u16) -> Vec<Notice> {
        std::mem::take(&mut self.node(number).notices)
    }

    pub(crate) fn role(&self, number: u16) -> Option<Role> {
        self.view(number).map(|view| view.role)
    }
}

/// A message in a line.
fn chat(from: u16, to: NodeId, message: &Message) -> String {
    let what = match message {
        Message::AppendEntries { term, round, stamp: _, group } => {
            let list = if group.is_some() { ", with the list" } else { "" };
            format!("of term {term}, round {round}{list}")
        }
        Message::AppendAnswer { term, round, stamp: _, followed } => {
            format!("of term {term}, round {round}{}", if *followed { "" } else { ", refused" })
        }
        Message::PreVote { offered, .. } => match offered {
            Some(term) => format!("offered in term {term}"),
            None => String::new(),
        },
        Message::PreVoteAnswer { term, granted, .. } | Message::VoteAnswer { term, granted, .. } => {
            format!("of term {term}, {}", if *granted { "yes" } else { "no" })
        }
        Message::RequestVote { term, released, stamp: _ } => match released {
            Some(released) => format!("in term {term}, as {released} was given up"),
            None => format!("in term {term}"),
        },
        Message::Offer { term } | Message::Ready { term } | Message::TimeoutNow { term } => {
            format!("of term {term}")
        }
        Message::Ask(ask) => format!("round {}", ask.round),
        Message::Answer(answer) => match &answer.memory {
            Memory::Forgotten { .. } => "I have forgotten too".to_string(),
            Memory::Kept { term, founding, admitted, .. } => {
                let also = match (founding, admitted) {
                    (Some(_), _) => ", and you were there when we were founded",
                    (None, true) => ", and I have taken you in",
                    (None, false) => "",
                };
                format!("I am in term {term}{also}")
            }
        },
    };
    format!("{from} -> {to} {} {what}", message.kind()).trim_end().to_string()
}

/// A notice in words.
fn words(notice: &Notice) -> String {
    match notice {
        Notice::Leads { term, .. } => format!("leads in term {term}"),
        Notice::Extended { term, .. } => format!("leads on in term {term}"),
        Notice::Stop { term } => format!("shall stop its work of term {term}"),
        Notice::Lost { term, why } => format!("lost its leadership of term {term}: {why:?}"),
        Notice::Follows { leader, term } => format!("follows {leader} in term {term}"),
        Notice::Leaderless { term } => format!("knows no leader, term {term}"),
        Notice::Members(group) => {
            let names: Vec<String> = group.members().iter().map(name).collect();
            let stamp = group.stamp();
            format!("has the list ({}, {}): {}", stamp.term, stamp.version, names.join(" "))
        }
        Notice::Refused(why) => format!("refuses: {why}"),
    }
}

/// A member as scenarios write it: `3w` is a witness, `2p9` has priority 9.
fn name(member: &Member) -> String {
    let witness = if member.witness { "w" } else { "" };
    let priority = if member.priority > 0 { format!("p{}", member.priority) } else { String::new() };
    format!("{}{witness}{priority}", member.id)
}
