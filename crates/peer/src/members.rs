//! When a leader may change the list of members, and whose list is too old to be elected with.
//!
//! After *Design and Analysis of a Logless Dynamic Reconfiguration Protocol* (Schultz, Dardik, Tripakis 2021): there is no log,
//! the list is a register with a stamp of (term, version), and the newer one replaces the older one wherever they meet.
//!
//! **Assumes** that a leader writes its term into the list as soon as it is elected ([`taken_over`]), that it changes the list only by
//! [`changed`], and that voters refuse whoever [`is_outdated`] says. **Guarantees** then that a majority of each list in which somebody can still be elected
//! shares a member with a majority of every other such list: the paper's *config quorum check* and *term quorum check* are [`Spread::is_settled`], its
//! *quorum overlap* is [`Group::is_one_step_from`]. **Does not** guarantee that a new member is able to do anything: that is for whoever adds it.

use alloc::vec::Vec;

use crate::{Group, GroupStamp, Member, NodeId, Tally, Term};

/// Which members are known to have the leader's list, in the leader's term.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Spread(Tally);

impl Spread {
    /// A list that its leader has just written. A leader that is not in it does not count.
    pub fn begun(group: &Group, leader: NodeId) -> Spread {
        let mut spread = Spread::default();
        spread.0.add(group, leader);
        spread
    }

    /// A member says, in the leader's term, that its list has that stamp.
    pub fn note(&mut self, group: &Group, member: NodeId, stamp: GroupStamp) {
        if stamp == group.stamp() {
            self.0.add(group, member);
        }
    }

    /// Whether that member is known to have it.
    pub fn has(&self, group: &Group, member: NodeId) -> bool {
        self.0.has(group, member)
    }

    /// Whether a majority has it: no older list can elect anybody from here on, and the next step may be taken.
    pub fn is_settled(&self, group: &Group) -> bool {
        self.0.is_majority(group)
    }
}

/// The list as a leader takes it over when it is elected.
pub fn taken_over(group: &Group, term: Term) -> Group {
    group.restamped(GroupStamp { term, version: group.stamp().version })
}

/// The list as the leader of that term may change it, or why not.
pub fn changed(
    group: &Group,
    spread: &Spread,
    term: Term,
    members: Vec<Member>,
) -> Result<Group, &'static str> {
    if group.stamp().term != term || !spread.is_settled(group) {
        return Err("a majority does not have the last change yet; try again in a moment");
    }
    let Some(version) = group.stamp().version.checked_add(1) else {
        return Err("the list was changed too often");
    };
    let Ok(next) = Group::stamped(GroupStamp { term, version }, members) else {
        return Err("that is no list of members: too many, one named twice, or nobody who may lead");
    };
    if next.members() == group.members() {
        return Err("these are the members already");
    }
    if !next.is_one_step_from(group) {
        return Err("members change one at a time: add, remove or alter one");
    }
    Ok(next)
}

/// Whether the leader still has a majority with a list of which it heard these members lately. If not, the change would end its leadership, and perhaps
/// leave the group without anybody who can be elected: the dead are taken out first. A leader that is alone
/// knows nobody to hear, and may add the second member.
pub fn keeps_majority(group: &Group, next: &Group, is_heard: impl Fn(NodeId) -> bool) -> bool {
    let heard = next.members().iter().filter(|member| is_heard(member.id)).count();
    heard >= next.majority() || (group.size() == 1 && heard == 1)
}

/// Whether a voter with its own list must refuse a candidate because of the candidate's list.
pub fn is_outdated(candidate: GroupStamp, own: GroupStamp) -> bool {
    candidate < own
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn id(number: u16) -> NodeId {
        NodeId::new(number).expect("a number of a test")
    }

    fn plain(numbers: &[u16]) -> Vec<Member> {
        numbers.iter().map(|&n| Member::plain(id(n))).collect()
    }

    fn led(term: u64) -> Group {
        taken_over(&Group::founded(plain(&[1, 2, 3])).expect("a group of a test"), Term(term))
    }

    #[test]
    fn a_list_is_changed_only_when_a_majority_has_it_in_the_leaders_term() {
        let group = led(4);
        let mut spread = Spread::begun(&group, id(1));
        assert!(changed(&group, &spread, Term(4), plain(&[1, 2, 3, 4])).is_err(), "only the leader has it");
        spread.note(&group, id(2), GroupStamp { term: Term(3), version: 0 });
        assert!(!spread.is_settled(&group), "an older list is not this one");
        spread.note(&group, id(9), group.stamp());
        assert!(!spread.is_settled(&group), "a stranger does not count");
        spread.note(&group, id(2), group.stamp());
        let next = changed(&group, &spread, Term(4), plain(&[1, 2, 3, 4])).expect("a majority has it");
        assert_eq!(next.stamp(), GroupStamp { term: Term(4), version: 1 });
        assert!(!Spread::begun(&next, id(1)).is_settled(&next), "the next change waits for this one");
    }

    #[test]
    fn a_list_of_another_term_is_not_changed() {
        let group = led(4);
        let mut spread = Spread::begun(&group, id(1));
        spread.note(&group, id(2), group.stamp());
        assert!(changed(&group, &spread, Term(5), plain(&[1, 2])).is_err());
    }

    #[test]
    fn only_one_sound_step_at_a_time() {
        let group = led(4);
        let mut spread = Spread::begun(&group, id(1));
        spread.note(&group, id(3), group.stamp());
        let step = |members| changed(&group, &spread, Term(4), members);
        assert!(step(plain(&[1, 2])).is_ok());
        assert!(step(plain(&[1, 2, 3])).is_err(), "nothing would change");
        assert!(step(plain(&[1, 2, 4])).is_err(), "two steps");
        assert!(step(vec![]).is_err(), "nobody would be left");
        let mut witness = plain(&[1, 2, 3]);
        witness[2].witness = true;
        assert!(step(witness).is_ok(), "one member becomes a witness");
    }

    #[test]
    fn a_change_that_would_lose_the_majority_is_told_apart() {
        let three = led(4);
        let next = |numbers: &[u16]| Group::founded(plain(numbers)).expect("a group of a test");
        let heard = |id: NodeId| id.number() <= 2;
        assert!(keeps_majority(&three, &next(&[1, 2]), heard), "the dead one goes");
        assert!(!keeps_majority(&three, &next(&[1, 3]), heard), "a living one goes");
        assert!(
            !keeps_majority(&three, &next(&[1, 2, 3, 4]), heard),
            "one comes before the dead one has gone"
        );
        let first = |id: NodeId| id.number() == 1;
        assert!(keeps_majority(&next(&[1]), &next(&[1, 2]), first), "the second one comes");
    }

    #[test]
    fn a_leader_that_removes_itself_does_not_count() {
        let group = led(4);
        let mut spread = Spread::begun(&group, id(1));
        spread.note(&group, id(2), group.stamp());
        let next = changed(&group, &spread, Term(4), plain(&[2, 3])).expect("one step");
        let mut spread = Spread::begun(&next, id(1));
        spread.note(&next, id(2), next.stamp());
        assert!(!spread.is_settled(&next));
        spread.note(&next, id(3), next.stamp());
        assert!(spread.is_settled(&next));
    }

    #[test]
    fn the_later_term_makes_the_newer_list_whatever_the_versions_are() {
        let stamp = |term, version| GroupStamp { term: Term(term), version };
        assert!(is_outdated(stamp(3, 9), stamp(4, 0)));
        assert!(is_outdated(stamp(4, 0), stamp(4, 1)));
        assert!(!is_outdated(stamp(4, 1), stamp(4, 1)));
        assert!(!is_outdated(stamp(5, 0), stamp(4, 7)));
    }
}
