//! What is seen from outside: who accepted what, who led, and whether anything happened that never must.

use baton_peer::paxos::{Saved, Vote, ballot};
use baton_peer::{Group, NodeId, Term};

/// What was seen so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ledger {
    /// Votes as disks say, with the members that cast them as bits, in a fixed order.
    votes: Vec<(u64, Term, Term, u8)>,
    /// Tokens in the order in which they led.
    pub(crate) led: Vec<Term>,
    pub(crate) wrong: Violations,
}

/// What never must happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Violations {
    /// Two led under one token, or one led twice, or under another's.
    pub(crate) token: bool,
    /// A promise went back, or a vote lies above it.
    pub(crate) promise: bool,
    /// An instance was chosen twice with different values, or a chosen token went back.
    pub(crate) chosen: bool,
    /// A lease that had ended was made longer.
    pub(crate) revived: bool,
}

impl Ledger {
    pub(crate) fn leads(&mut self, member: NodeId, token: Term) {
        self.wrong.token |= ballot::owner(token) != Some(member) || self.led.contains(&token);
        self.led.push(token);
    }

    /// A member has kept that.
    pub(crate) fn keep(&mut self, group: &Group, member: usize, before: Option<&Saved>, saved: &Saved) {
        let vote_above = saved.vote.is_some_and(|vote| vote.ballot > saved.promised);
        self.wrong.promise |= vote_above || before.is_some_and(|before| before.promised > saved.promised);
        let Some(Vote { instance, ballot, value }) = saved.vote else { return };
        let bit = 1 << member;
        let key = |vote: &(u64, Term, Term, u8)| (vote.0, vote.1, vote.2);
        match self.votes.binary_search_by_key(&(instance, ballot, value), key) {
            Ok(at) => self.votes[at].3 |= bit,
            Err(at) => self.votes.insert(at, (instance, ballot, value, bit)),
        }
        self.wrong.chosen |= !self.chosen(group).is_sorted_by(|a, b| match a.0 == b.0 {
            true => a.1 == b.1,
            false => a.1 <= b.1,
        });
    }

    /// What a majority has accepted under one ballot: instance and value.
    pub(crate) fn chosen(&self, group: &Group) -> impl Iterator<Item = (u64, Term)> {
        let majority = u32::try_from(group.majority()).unwrap_or(u32::MAX);
        let is_chosen = move |vote: &&(u64, Term, Term, u8)| vote.3.count_ones() >= majority;
        self.votes.iter().filter(is_chosen).map(|vote| (vote.0, vote.2))
    }

    /// Whether somebody completed an instance of another leader.
    pub(crate) fn has_completed(&self) -> bool {
        self.votes.iter().any(|vote| ballot::owner(vote.1) != ballot::owner(vote.2))
    }

    /// Whether a leader went on under a higher ballot with the same token.
    pub(crate) fn has_raised(&self) -> bool {
        self.votes.iter().any(|vote| vote.1 != vote.2 && ballot::owner(vote.1) == ballot::owner(vote.2))
    }
}
