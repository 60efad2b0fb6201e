//! One member alone with a test that plays all others.
#![allow(dead_code, reason = "each test uses a part of it")]

use baton_election::{Moment, Span};
use baton_peer::raft::{Message, Raft, Saved};
use baton_peer::{
    Config, Effects, Group, GroupStamp, Input, Machine, Member, NodeId, Notice, Role, Start, Term, Timing,
    View,
};

pub(crate) type Done = Effects<Saved, Message>;

pub(crate) fn id(number: u16) -> NodeId {
    NodeId::new(number).expect("a number of a test")
}

pub(crate) fn plain(size: u16) -> Vec<Member> {
    (1..=size).map(|n| Member::plain(id(n))).collect()
}

pub(crate) const NEW: GroupStamp = GroupStamp { term: Term::ZERO, version: 0 };

/// Member 1 of a group, and its clock.
pub(crate) struct Solo {
    pub(crate) raft: Raft,
    pub(crate) now: Moment,
    /// What was kept last.
    pub(crate) saved: Option<Saved>,
    config: Config,
}

impl Solo {
    pub(crate) fn of(members: Vec<Member>, start: Start<Saved>) -> Solo {
        let group = Group::founded(members).expect("a group of a test");
        let config = Config { id: id(1), group, timing: Timing::LAN, seed: 7 };
        let now = Moment::from_nanos(1_000_000_000);
        Solo { raft: Raft::start(config.clone(), start, now), now, saved: None, config }
    }

    /// A follower of nobody, one of `size` alike, whose quarantine has just ended.
    pub(crate) fn follower(size: u16) -> Solo {
        let mut solo = Solo::of(plain(size), Start::Founded);
        solo.now = solo.now + Timing::LAN.quarantine();
        assert_eq!(solo.tick(), Effects::none());
        assert_eq!(solo.view().role, Role::Follower);
        solo
    }

    /// It asks whether it would be elected.
    pub(crate) fn pre_candidate(size: u16) -> (Solo, Done) {
        let mut solo = Solo::follower(size);
        solo.now = solo.raft.deadline();
        let done = solo.tick();
        assert_eq!(solo.view().role, Role::Candidate);
        (solo, done)
    }

    /// It stands in term 1; the others are in term 0.
    pub(crate) fn candidate(size: u16) -> (Solo, Done) {
        let (mut solo, _) = Solo::pre_candidate(size);
        let others = size / 2;
        let done = (2..2 + others).map(|voter| solo.hear(voter, granted_pre(1))).last();
        (solo, done.expect("others"))
    }

    /// It was elected in term 1 and has sent its first heartbeats.
    pub(crate) fn elected(size: u16) -> (Solo, Done) {
        let (mut solo, _) = Solo::candidate(size);
        let others = size / 2;
        let done = (2..2 + others).map(|voter| solo.hear(voter, granted(1))).last();
        (solo, done.expect("others"))
    }

    /// It leads in term 1.
    pub(crate) fn leader(size: u16) -> Solo {
        let (mut solo, _) = Solo::elected(size);
        let others = size / 2;
        let told: Vec<Notice> = (2..2 + others).flat_map(|voter| solo.answer(voter, 1).notify).collect();
        assert!(matches!(told.as_slice(), [Notice::Leads { term: Term(1), .. }]), "{told:?}");
        solo
    }

    pub(crate) fn step(&mut self, input: Input<Message>) -> Done {
        let done = self.raft.step(self.now, input);
        if let Some(saved) = &done.persist {
            self.saved = Some(saved.clone());
        }
        assert!(self.raft.deadline() > self.now, "it wants to be woken in the past");
        done
    }

    pub(crate) fn tick(&mut self) -> Done {
        self.step(Input::Tick)
    }

    pub(crate) fn pass(&mut self, span: Span) -> Done {
        self.now = self.now + span;
        self.tick()
    }

    pub(crate) fn hear(&mut self, from: u16, message: Message) -> Done {
        self.step(Input::Received { from: id(from), message })
    }

    /// A heartbeat of the leader of that term, with the list as this member has it.
    pub(crate) fn beat(&mut self, from: u16, term: u64, round: u64) -> Done {
        self.hear(from, Message::AppendEntries { term: Term(term), round, stamp: NEW, group: None })
    }

    /// A member follows this one, in its term and with its list.
    pub(crate) fn answer(&mut self, from: u16, round: u64) -> Done {
        let term = self.view().term;
        let stamp = GroupStamp { term, version: 0 };
        self.hear(from, Message::AppendAnswer { term, round, stamp, followed: true })
    }

    /// Whether it gives its vote.
    pub(crate) fn votes_for(&mut self, from: u16, term: u64) -> bool {
        let stamp = self.saved.as_ref().map_or(NEW, |saved| saved.group.stamp());
        let done = self.hear(from, Message::RequestVote { term: Term(term), stamp, released: None });
        has_vote(&done)
    }

    pub(crate) fn view(&self) -> View {
        self.raft.view(self.now)
    }

    /// The process ends and begins again with what was kept, and its quarantine passes.
    pub(crate) fn restart(&mut self) {
        let saved = self.saved.clone().expect("something was kept");
        self.raft = Raft::start(self.config.clone(), Start::Restarted(saved), self.now);
    }
}

pub(crate) fn granted_pre(poll: u64) -> Message {
    Message::PreVoteAnswer { term: Term::ZERO, poll, granted: true, group: None }
}

pub(crate) fn granted(term: u64) -> Message {
    Message::VoteAnswer { term: Term(term), granted: true, group: None }
}

pub(crate) fn has_vote(done: &Done) -> bool {
    done.send.iter().any(|sent| matches!(sent.message, Message::VoteAnswer { granted: true, .. }))
}

pub(crate) fn has_pre_vote(done: &Done) -> bool {
    done.send.iter().any(|sent| matches!(sent.message, Message::PreVoteAnswer { granted: true, .. }))
}

pub(crate) fn kinds(done: &Done) -> Vec<(u16, &'static str)> {
    done.send.iter().map(|sent| (sent.to.number(), sent.message.kind())).collect()
}
