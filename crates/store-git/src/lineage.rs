//! Whether what the arbiter shows goes on from what this clone saw last.
//!
//! A ref can be moved by hand, and then two histories claim the same election. Since every change that is not one of
//! leader takes the tip's place, the tip that was seen need not be among the ancestors of a later one; its *kin* is: a
//! commit of the same term, with the same parents. So a tip goes on from the one that was seen if
//!
//! - it is its kin, and nothing that only rises went back, or
//! - a kin of the one that was seen is among its ancestors, through whichever parent (an operator's settling of a
//!   divergence has both claims as parents), and its epoch is above the seen one's, as every new term's is.
//!
//! A record of another store id is not compared: the owner wiped the store and made a new one, which fences refuse.

use std::collections::{BTreeSet, VecDeque};

use baton_election::{Document, StoreId};
use baton_store::Record;

use crate::refs::Oid;
use crate::tip::{Commit, Tip};

/// The most ancestors that are looked at.
const MAX_ANCESTORS: usize = 20_000;

/// What a tip is to the one that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It goes on from it.
    GoesOn,
    /// It is an earlier state, or one without what was seen.
    WentBack(String),
    /// It goes on from it if a kin of that is among its ancestors.
    Far,
    /// It is of another history.
    Unrelated,
}

/// Compares a tip with the one that was seen, by themselves.
pub(crate) fn compare(seen: &Tip, tip: &Tip) -> Judgement {
    if store_of(&seen.record) != store_of(&tip.record) {
        return Judgement::GoesOn;
    }
    match (&seen.record, &tip.record) {
        (Record::Election(before), Record::Election(after)) => {
            compare_elections((&seen.commit, before), (&tip.commit, after))
        }
        (Record::Fence(before), Record::Fence(after)) if after.position() < before.position() => {
            Judgement::WentBack(format!(
                "the fence's mark went back from {} to {}",
                before.highest, after.highest
            ))
        }
        (Record::Tokens(before), Record::Tokens(after)) if after.orders < before.orders => {
            Judgement::WentBack(format!(
                "the count of orders on tokens went back from {} to {}",
                before.orders, after.orders
            ))
        }
        (Record::Item(before), Record::Item(after)) if after.fence() < before.fence() => {
            Judgement::WentBack(format!("its fence went back from {} to {}", before.fence(), after.fence()))
        }
        // Nothing hangs on the order of the others' states.
        (
            Record::Store(_)
            | Record::Tokens(_)
            | Record::Election(_)
            | Record::Candidate(_)
            | Record::History(_)
            | Record::Fence(_)
            | Record::FenceLog(_)
            | Record::Audit(_)
            | Record::Item(_),
            _,
        ) => Judgement::GoesOn,
    }
}

fn compare_elections(seen: (&Commit, &Document), tip: (&Commit, &Document)) -> Judgement {
    let backward = backward(seen.1, tip.1);
    match backward {
        None if tip.0.is_kin(seen.0) || tip.0.parents.contains(&seen.0.oid) => Judgement::GoesOn,
        Some(what) if tip.0.is_kin(seen.0) || tip.1.epoch < seen.1.epoch => Judgement::WentBack(what),
        None | Some(_) if tip.1.epoch > seen.1.epoch => Judgement::Far,
        None | Some(_) => Judgement::Unrelated,
    }
}

/// What went back between two documents, if anything did that only rises.
fn backward(before: &Document, after: &Document) -> Option<String> {
    let seq = |document: &Document| document.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.seq);
    let counts = [
        ("epoch", before.epoch.0, after.epoch.0),
        ("beat", before.beat, after.beat),
        ("count of operators' acts", before.acts, after.acts),
        ("checkpoint", seq(before), seq(after)),
    ];
    let (what, from, to) = counts.into_iter().find(|(_, from, to)| to < from)?;
    Some(format!("its {what} went back from {from} to {to}"))
}

/// The store that a record says it belongs to.
fn store_of(record: &Record) -> Option<StoreId> {
    match record {
        Record::Store(info) => Some(info.id),
        Record::Election(document) => Some(document.store),
        Record::Fence(fence) => Some(fence.store),
        Record::Tokens(_)
        | Record::Candidate(_)
        | Record::History(_)
        | Record::FenceLog(_)
        | Record::Audit(_)
        | Record::Item(_) => None,
    }
}

/// A walk through the ancestors of a tip, in search of a kin of what was seen.
pub(crate) struct Search<'a> {
    seen: &'a Commit,
    waiting: VecDeque<Oid>,
    met: BTreeSet<String>,
}

impl<'a> Search<'a> {
    /// A search among the ancestors of `tip`.
    pub(crate) fn new(seen: &'a Commit, tip: &Commit) -> Search<'a> {
        let mut search = Search { seen, waiting: VecDeque::new(), met: BTreeSet::new() };
        search.enqueue(&tip.parents);
        search
    }

    /// The ancestor to look at next; none if there is no other, or if there are too many.
    pub(crate) fn next(&mut self) -> Option<Oid> {
        self.waiting.pop_front()
    }

    /// Takes in an ancestor: true if it is a kin.
    pub(crate) fn meets(&mut self, ancestor: &Commit) -> bool {
        if ancestor.is_kin(self.seen) {
            return true;
        }
        // Below the seen one's parents there can be no kin of it.
        if !self.seen.parents.contains(&ancestor.oid) {
            self.enqueue(&ancestor.parents);
        }
        false
    }

    fn enqueue(&mut self, parents: &[Oid]) {
        for parent in parents {
            if self.met.len() < MAX_ANCESTORS && self.met.insert(parent.to_string()) {
                self.waiting.push_back(parent.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_election::{ElectionName, Epoch};

    fn oid(digit: char) -> Oid {
        Oid::parse(&digit.to_string().repeat(40)).unwrap()
    }

    fn tip(name: char, parents: &str, term: &str, epoch: u64, beat: u64) -> Tip {
        let election = ElectionName::new("e").unwrap();
        let mut document = Document::new(election, StoreId([0; 8]), Epoch(epoch), &[]);
        document.beat = beat;
        let commit = Commit {
            oid: oid(name),
            parents: parents.chars().map(oid).collect(),
            term: (!term.is_empty()).then(|| term.to_string()),
        };
        Tip { commit, record: Record::Election(Box::new(document)) }
    }

    #[test]
    fn a_tip_that_took_the_place_of_the_seen_one_goes_on_from_it() {
        let seen = tip('1', "a", "t", 3, 5);
        assert_eq!(compare(&seen, &tip('2', "a", "t", 3, 6)), Judgement::GoesOn);
        assert_eq!(compare(&seen, &tip('2', "a", "t", 4, 5)), Judgement::GoesOn, "deposed");
        assert_eq!(compare(&seen, &tip('2', "1", "u", 4, 6)), Judgement::GoesOn, "the next leader");
    }

    #[test]
    fn what_only_rises_and_went_back_is_named() {
        let seen = tip('1', "a", "t", 3, 5);
        let went_back = |tip: &Tip| match compare(&seen, tip) {
            Judgement::WentBack(why) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(went_back(&tip('2', "a", "t", 3, 4)), "its beat went back from 5 to 4");
        assert_eq!(went_back(&tip('2', "", "s", 2, 9)), "its epoch went back from 3 to 2");
    }

    #[test]
    fn another_history_with_the_same_parents_is_another_history() {
        let seen = tip('1', "a", "t", 3, 5);
        assert_eq!(compare(&seen, &tip('2', "a", "u", 3, 5)), Judgement::Unrelated);
        assert_eq!(compare(&seen, &tip('2', "a", "", 3, 5)), Judgement::Unrelated, "made by hand");
        assert_eq!(compare(&seen, &tip('2', "a", "u", 4, 9)), Judgement::Far);
    }

    #[test]
    fn a_search_finds_a_kin_through_any_parent_and_stops_below_it() {
        let seen = tip('1', "a", "t", 3, 5).commit;
        let merge = tip('9', "78", "m", 9, 9).commit;
        let mut search = Search::new(&seen, &merge);
        assert_eq!(search.next(), Some(oid('7')));
        assert!(!search.meets(&tip('7', "a", "x", 3, 3).commit));
        assert_eq!(search.next(), Some(oid('8')));
        assert!(search.meets(&tip('8', "a", "t", 3, 4).commit));
        assert_eq!(search.next(), Some(oid('a')));
        assert!(!search.meets(&tip('a', "b", "r", 2, 1).commit));
        assert_eq!(search.next(), None, "what is below the seen one's parent is older");
    }
}
