//! The members of a group, and what a majority of them is.

use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::{NodeId, Term};

/// The most members a group can have; [`Tally`] has a bit for each.
pub const MAX_MEMBERS: usize = 127;

/// One member of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Member {
    /// By which number it is known.
    pub id: NodeId,
    /// It votes and never leads.
    pub witness: bool,
    /// Of several that could lead, the one with the highest priority shall; then the one with the highest id.
    pub priority: u8,
}

impl Member {
    /// A member like most: it may lead, and is preferred to nobody.
    pub const fn plain(id: NodeId) -> Member {
        Member { id, witness: false, priority: 0 }
    }

    /// What decides between two that could both lead; the greater one shall.
    pub const fn rank(&self) -> (u8, NodeId) {
        (self.priority, self.id)
    }
}

/// Which of two lists of members is the newer one: that of the later term, then that of the higher version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupStamp {
    /// The term of the leader that wrote it.
    pub term: Term,
    /// Its number among all lists.
    pub version: u64,
}

/// The members, in the order of their ids, at least one of which may lead.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "UncheckedGroup", into = "UncheckedGroup")]
pub struct Group {
    stamp: GroupStamp,
    members: Vec<Member>,
}

/// A group as it is written, before it is checked.
#[derive(Serialize, Deserialize)]
struct UncheckedGroup {
    stamp: GroupStamp,
    members: Vec<Member>,
}

impl Group {
    /// The group of these members, in any order, as it is founded.
    pub fn founded(members: Vec<Member>) -> Result<Group, InvalidGroup> {
        Group::stamped(GroupStamp::default(), members)
    }

    /// The group of these members, in any order.
    pub fn stamped(stamp: GroupStamp, mut members: Vec<Member>) -> Result<Group, InvalidGroup> {
        members.sort_unstable_by_key(|member| member.id);
        if members.len() > MAX_MEMBERS {
            return Err(InvalidGroup::TooMany);
        }
        if let Some(twice) = members.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(InvalidGroup::Twice(twice[0].id));
        }
        if members.iter().all(|member| member.witness) {
            return Err(InvalidGroup::NobodyMayLead);
        }
        Ok(Group { stamp, members })
    }

    /// How new the list is.
    pub const fn stamp(&self) -> GroupStamp {
        self.stamp
    }

    /// The same members under another stamp.
    pub fn restamped(&self, stamp: GroupStamp) -> Group {
        Group { stamp, members: self.members.clone() }
    }

    /// All members, in the order of their ids.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// How many there are.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// More than half of them.
    pub fn majority(&self) -> usize {
        self.members.len() / 2 + 1
    }

    /// The member with that number.
    pub fn member(&self, id: NodeId) -> Option<&Member> {
        self.index(id).and_then(|index| self.members.get(index))
    }

    /// Whether it may lead.
    pub fn may_lead(&self, id: NodeId) -> bool {
        self.member(id).is_some_and(|member| !member.witness)
    }

    /// Whether the one may lead and shall rather than the other: the other may not, or has the lower rank.
    pub fn outranks(&self, one: NodeId, other: NodeId) -> bool {
        let rank = |id| self.member(id).filter(|member| !member.witness).map(Member::rank);
        rank(one) > rank(other)
    }

    /// The numbers of all but one.
    pub fn others(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter().map(|member| member.id).filter(move |&other| other != id)
    }

    /// Where a member stands in [`Group::members`].
    pub fn index(&self, id: NodeId) -> Option<usize> {
        self.members.binary_search_by_key(&id, |member| member.id).ok()
    }

    /// Whether at most one member was added, removed or changed: then every majority of the one shares a member with
    /// every majority of the other.
    pub fn is_one_step_from(&self, other: &Group) -> bool {
        let gone = other.members.iter().filter(|member| self.member(member.id).is_none()).count();
        let come = self.members.iter().filter(|member| other.member(member.id).is_none()).count();
        let changed = self
            .members
            .iter()
            .filter(|member| other.member(member.id).is_some_and(|before| before != *member))
            .count();
        gone + come + changed <= 1
    }
}

impl From<Group> for UncheckedGroup {
    fn from(group: Group) -> UncheckedGroup {
        UncheckedGroup { stamp: group.stamp, members: group.members }
    }
}

impl TryFrom<UncheckedGroup> for Group {
    type Error = InvalidGroup;

    fn try_from(written: UncheckedGroup) -> Result<Group, InvalidGroup> {
        Group::stamped(written.stamp, written.members)
    }
}

/// Why a list of members is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidGroup {
    /// More than [`MAX_MEMBERS`].
    TooMany,
    /// A number stands there more than once.
    Twice(NodeId),
    /// There is no member, or all are witnesses.
    NobodyMayLead,
}

impl fmt::Display for InvalidGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidGroup::TooMany => write!(f, "a group has at most {MAX_MEMBERS} members"),
            InvalidGroup::Twice(id) => write!(f, "member {id} is named twice"),
            InvalidGroup::NobodyMayLead => {
                f.write_str("at least one member must be no witness, so that it can lead")
            }
        }
    }
}

impl core::error::Error for InvalidGroup {}

/// Which members of a group have said yes; each counts once, however often it says so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Tally(u128);

impl Tally {
    /// Nobody yet.
    pub const NONE: Tally = Tally(0);

    /// Counts a member; who is none is not counted.
    pub fn add(&mut self, group: &Group, id: NodeId) {
        if let Some(index) = group.index(id) {
            self.0 |= 1 << index;
        }
    }

    /// Whether it was counted.
    pub fn has(&self, group: &Group, id: NodeId) -> bool {
        group.index(id).is_some_and(|index| self.0 & (1 << index) != 0)
    }

    /// How many were counted.
    pub const fn count(&self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether they are more than half of the group for which they were counted.
    pub fn is_majority(&self, group: &Group) -> bool {
        self.count() >= group.majority()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn id(number: u16) -> NodeId {
        NodeId::new(number).expect("a number of a test")
    }

    fn group(numbers: &[u16]) -> Group {
        Group::founded(numbers.iter().map(|&n| Member::plain(id(n))).collect()).expect("a group of a test")
    }

    #[test]
    fn a_majority_is_more_than_half() {
        for (size, majority) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (127, 64)] {
            assert_eq!(group(&(1..=size).collect::<Vec<_>>()).majority(), majority, "{size}");
        }
    }

    #[test]
    fn wrong_lists_are_refused() {
        let witness = Member { witness: true, ..Member::plain(id(1)) };
        assert_eq!(Group::founded(vec![]), Err(InvalidGroup::NobodyMayLead));
        assert_eq!(Group::founded(vec![witness]), Err(InvalidGroup::NobodyMayLead));
        let twice = vec![Member::plain(id(2)), witness, Member::plain(id(2))];
        assert_eq!(Group::founded(twice), Err(InvalidGroup::Twice(id(2))));
        let many = (1..=128).map(|n| Member::plain(id(n))).collect();
        assert_eq!(Group::founded(many), Err(InvalidGroup::TooMany));
    }

    #[test]
    fn a_voice_counts_once_and_a_strangers_not_at_all() {
        let group = group(&[3, 5, 9]);
        let mut tally = Tally::NONE;
        tally.add(&group, id(5));
        tally.add(&group, id(5));
        tally.add(&group, id(4));
        assert_eq!((tally.count(), tally.is_majority(&group)), (1, false));
        tally.add(&group, id(9));
        assert!(tally.is_majority(&group) && tally.has(&group, id(9)) && !tally.has(&group, id(3)));
    }

    #[test]
    fn priority_outranks_the_id_and_a_witness_outranks_nobody() {
        let preferred = Member { priority: 1, ..Member::plain(id(1)) };
        let witness = Member { witness: true, priority: 9, ..Member::plain(id(4)) };
        let group = vec![preferred, Member::plain(id(2)), Member::plain(id(3)), witness];
        let group = Group::founded(group).expect("a group of a test");
        assert!(group.outranks(id(1), id(3)) && group.outranks(id(3), id(2)) && group.outranks(id(2), id(4)));
        assert!(!group.outranks(id(4), id(2)) && !group.outranks(id(2), id(2)), "witness, and oneself");
        assert!(!group.outranks(id(9), id(4)) && !group.outranks(id(4), id(9)), "no member");
    }

    #[test]
    fn one_step_is_one_member() {
        let three = group(&[1, 2, 3]);
        assert!(group(&[1, 2, 3, 4]).is_one_step_from(&three));
        assert!(group(&[1, 3]).is_one_step_from(&three));
        assert!(three.is_one_step_from(&three));
        assert!(!group(&[1, 2, 4]).is_one_step_from(&three), "one came and one went");
        assert!(!group(&[1]).is_one_step_from(&three));
    }
}
