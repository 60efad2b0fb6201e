//! What is seen from outside: who led under which token, and what a majority of disks has accepted.

use std::collections::{BTreeMap, BTreeSet};

use baton_peer::paxos::{Saved, Vote, ballot};
use baton_peer::{NodeId, Term};

/// Panics as soon as something happens that never must.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    majority: usize,
    leaders: BTreeMap<Term, u16>,
    promised: BTreeMap<u16, Term>,
    /// Who accepted what, as their disks say.
    votes: BTreeMap<(u64, Term), (Term, BTreeSet<u16>)>,
    pub(crate) chosen: BTreeMap<u64, Term>,
}

impl Ledger {
    pub(crate) fn new(majority: usize) -> Ledger {
        let (leaders, promised) = Default::default();
        Ledger { majority, leaders, promised, votes: BTreeMap::new(), chosen: BTreeMap::new() }
    }

    /// Where members change there is no one majority: looks at leaders and promises only.
    pub(crate) fn only_leaders(&mut self) {
        self.majority = usize::MAX;
    }

    /// How many leaderships there were.
    pub(crate) fn leaderships(&self) -> usize {
        self.leaders.len()
    }

    pub(crate) fn leads(&mut self, number: u16, token: Term) {
        assert_eq!(ballot::owner(token).map(NodeId::number), Some(number), "it leads with another's ballot");
        assert!(!self.leaders.contains_key(&token), "{number} leads twice under {token}");
        let highest = self.leaders.last_key_value().map(|(token, _)| *token);
        assert!(highest < Some(token), "token {token} is not above {highest:?}");
        self.leaders.insert(token, number);
    }

    /// What was only on the lost disk is in nobody's memory.
    pub(crate) fn forget(&mut self, number: u16) {
        self.promised.remove(&number);
        for (_, voters) in self.votes.values_mut() {
            voters.remove(&number);
        }
    }

    pub(crate) fn keep(&mut self, number: u16, saved: &Saved) {
        let before = self.promised.insert(number, saved.promised);
        assert!(before <= Some(saved.promised), "{number} went back from {before:?} to {}", saved.promised);
        let Some(Vote { instance, ballot, value }) = saved.vote else { return };
        assert!(ballot <= saved.promised, "P1a: {number} accepted below its promise");
        let (first, voters) = self.votes.entry((instance, ballot)).or_insert((value, BTreeSet::new()));
        assert_eq!(*first, value, "two values were proposed in instance {instance} under {ballot}");
        voters.insert(number);
        if voters.len() >= self.majority {
            let chosen = *self.chosen.entry(instance).or_insert(value);
            assert_eq!(chosen, value, "instance {instance} was chosen twice");
            let earlier = self.chosen.range(..instance).next_back();
            assert!(earlier.is_none_or(|(_, earlier)| *earlier <= value), "a chosen token went back");
        }
    }
}
