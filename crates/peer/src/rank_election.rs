//! What Bully and Ring have in common: what a member keeps, what it is, whom it follows, and its list of members. Nobody decides on a list there, so
//! each member takes the one it is told.
//!
//! **Not guaranteed**: that two members have the same list. Until every member was told the new one, those with the old one
//! neither ask nor hear who was added.

use alloc::vec::Vec;

use baton_election::{Moment, Span};
use serde::{Deserialize, Serialize};

use crate::{
    Config, Effects, Group, GroupStamp, LossCause, Member, NodeId, Notice, Random, Role, Start, Term, Timing,
    View,
};

/// What survives a crash of a member that elects by rank.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RankSaved {
    /// The highest term it has seen.
    pub term: Term,
    /// The members, as it was told last.
    pub group: Group,
}

/// What a member does. How it stands (`S`), and how it hands over (`H`), is each algorithm's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RankRole<S, H> {
    /// It has just started.
    Arriving,
    /// It knows of no leader and does not stand.
    Idle,
    /// It heard of this leader of its term not long ago.
    Following(NodeId),
    /// It stands.
    Standing(S),
    /// It leads.
    Leading {
        /// Its work was asked to stop, so that somebody else can lead.
        hand_over: Option<H>,
    },
}

/// A member and what it does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RankMember<S, H> {
    pub(crate) id: NodeId,
    pub(crate) group: Group,
    pub(crate) timing: Timing,
    pub(crate) random: Random,
    /// The highest seen.
    pub(crate) term: Term,
    pub(crate) role: RankRole<S, H>,
    /// When it acts if nothing happens before.
    pub(crate) due: Moment,
}

impl<S: PartialEq, H: PartialEq> RankMember<S, H> {
    /// At its start.
    pub(crate) fn new(config: Config, start: Start<RankSaved>, now: Moment) -> RankMember<S, H> {
        let RankSaved { term, group } = at_start(&config, start);
        let Config { id, timing, seed, .. } = config;
        let random = Random::seeded(seed);
        RankMember { id, group, timing, random, term, role: RankRole::Arriving, due: now }
    }

    pub(crate) fn view(&self) -> View {
        let (role, leader) = match &self.role {
            RankRole::Arriving => (Role::Waiting, None),
            RankRole::Idle => (Role::Follower, None),
            RankRole::Following(leader) => (Role::Follower, Some(*leader)),
            RankRole::Standing(_) => (Role::Candidate, None),
            RankRole::Leading { .. } => (Role::Leader, Some(self.id)),
        };
        View { role, term: self.term, leader, until: None, read_only: false }
    }

    pub(crate) fn follow<M>(&mut self, now: Moment, leader: NodeId, out: &mut Effects<RankSaved, M>) {
        if self.role != RankRole::Following(leader) {
            self.lose(LossCause::Outranked(leader), out);
            self.role = RankRole::Following(leader);
            // That the one before is forgotten is no news beside who comes after it.
            out.notify.pop_if(|notice| matches!(notice, Notice::Leaderless { .. }));
            out.notify.push(Notice::Follows { leader, term: self.term });
        }
        self.be_patient(now);
    }

    /// Takes over a higher term: whatever was the case in the one before is over.
    pub(crate) fn adopt<M>(&mut self, now: Moment, term: Term, out: &mut Effects<RankSaved, M>) {
        self.raise(term, out);
        self.forget_leader(out);
        self.idle(now);
    }

    /// Goes to a higher term, in which it does not lead yet.
    pub(crate) fn raise<M>(&mut self, term: Term, out: &mut Effects<RankSaved, M>) {
        self.lose(LossCause::HigherTerm(term), out);
        self.term = term;
        self.keep(out);
    }

    pub(crate) fn idle(&mut self, now: Moment) {
        self.role = RankRole::Idle;
        self.be_patient(now);
    }

    /// Waits for a leader, or for the member that shall be one.
    pub(crate) fn be_patient(&mut self, now: Moment) {
        self.due = now + self.timing.patience(&mut self.random);
    }

    /// Ends its own leadership, if there is one.
    pub(crate) fn lose<M>(&mut self, why: LossCause, out: &mut Effects<RankSaved, M>) {
        if self.is_leading() {
            self.role = RankRole::Idle;
            out.notify.push(Notice::Lost { term: self.term, why });
        }
    }

    pub(crate) fn forget_leader<M>(&mut self, out: &mut Effects<RankSaved, M>) {
        if matches!(self.role, RankRole::Following(_)) {
            self.role = RankRole::Idle;
            out.notify.push(Notice::Leaderless { term: self.term });
        }
    }

    pub(crate) fn keep<M>(&self, out: &mut Effects<RankSaved, M>) {
        out.persist = Some(RankSaved { term: self.term, group: self.group.clone() });
    }

    /// How long an answer may take until whoever was asked counts as dead.
    pub(crate) fn answer_within(&self) -> Span {
        self.timing.heartbeat
    }

    pub(crate) fn is_leading(&self) -> bool {
        matches!(self.role, RankRole::Leading { .. })
    }

    /// True if a message from `from` counts: both ends must be members, and a member ignores its own messages.
    pub(crate) fn hears(&self, from: NodeId) -> bool {
        from != self.id && self.group.member(from).is_some() && self.group.member(self.id).is_some()
    }

    /// Takes another list. Says whether it could.
    pub(crate) fn reconfigure<M>(
        &mut self,
        now: Moment,
        members: Vec<Member>,
        out: &mut Effects<RankSaved, M>,
    ) -> bool {
        match next_list(&self.group, self.term, members) {
            Ok(group) => self.group = group,
            Err(refusal) => {
                out.notify.push(Notice::Refused(refusal));
                return false;
            }
        }
        self.keep(out);
        out.notify.push(Notice::Members(self.group.clone()));
        let may_lead = self.group.may_lead(self.id);
        match &self.role {
            RankRole::Leading { .. } if !may_lead => {
                self.lose(LossCause::Removed, out);
                self.idle(now);
            }
            RankRole::Standing(_) if !may_lead => self.idle(now),
            RankRole::Following(leader) if !self.group.may_lead(*leader) => {
                self.forget_leader(out);
                self.idle(now);
            }
            RankRole::Arriving
            | RankRole::Idle
            | RankRole::Following(_)
            | RankRole::Standing(_)
            | RankRole::Leading { .. } => {}
        }
        true
    }
}

/// With what a member starts: where it was told a list while it ran, that one and not the one of its configuration.
fn at_start(config: &Config, start: Start<RankSaved>) -> RankSaved {
    match start {
        Start::Founded | Start::Forgotten => RankSaved { term: Term::ZERO, group: config.group.clone() },
        Start::Restarted(kept) if config.group.stamp() > kept.group.stamp() => {
            RankSaved { term: kept.term, group: config.group.clone() }
        }
        Start::Restarted(kept) => kept,
    }
}

/// The list after the one that counts, or why it cannot be that.
fn next_list(group: &Group, term: Term, members: Vec<Member>) -> Result<Group, &'static str> {
    let stamp = GroupStamp { term, version: group.stamp().version.saturating_add(1) };
    let next = Group::stamped(stamp, members).map_err(
        |_| "that is no list of members: each is named once, at most 127 of them, and one is no witness",
    )?;
    if next.is_one_step_from(group) { Ok(next) } else { Err("members come, go or change one at a time") }
}

/// The term after this one. At the end of all numbers it stays the same: old messages cannot be told from new ones then,
/// which these elections survive, since rank decides between two leaders of one term.
pub(crate) fn after(term: Term) -> Term {
    Term(term.0.saturating_add(1))
}

/// Of those that may lead, the one with the highest rank.
pub(crate) fn best<'a>(members: impl Iterator<Item = &'a Member>) -> Option<&'a Member> {
    members.filter(|member| !member.witness).max_by_key(|member| member.rank())
}
