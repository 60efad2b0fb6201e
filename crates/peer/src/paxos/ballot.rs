//! Ballots: `round · 1024 + id`, so that no two members ever use the same one and any two can be compared.
//!
//! A ballot travels as a [`Term`], since it is the fencing token of whoever leads under it. A number that names no member is
//! no ballot, and a ballot that lies further ahead than [`LONGEST_JUMP`] rounds is not believed: a single wrong number
//! could otherwise use up all rounds that there are.

use crate::{NodeId, Term};

/// Ids fill the lower bits of a ballot.
const IDS: u64 = NodeId::MAX as u64 + 1;

/// How many rounds ahead of all that is known a ballot may be. At one round in a millisecond these are seven weeks.
pub const LONGEST_JUMP: u64 = 1 << 32;

/// The ballot of a member in a round, if there is such a round.
pub fn of(round: u64, owner: NodeId) -> Option<Term> {
    let first = round.checked_mul(IDS)?;
    first.checked_add(u64::from(owner.number())).map(Term)
}

/// The round of a ballot.
pub const fn round(ballot: Term) -> u64 {
    ballot.0 / IDS
}

/// Whose ballot it is; nobody's, if the number is no ballot.
pub fn owner(ballot: Term) -> Option<NodeId> {
    u16::try_from(ballot.0 % IDS).ok().and_then(|number| NodeId::new(number).ok())
}

/// A member's lowest ballot above all of this one's round; none if the rounds are used up.
pub fn above(ballot: Term, owner: NodeId) -> Option<Term> {
    round(ballot).checked_add(1).and_then(|next| of(next, owner))
}

/// Whether a member that knows of `known` can believe the ballot: it names a member, and is not too far
/// ahead.
pub fn is_believable(ballot: Term, known: Term) -> bool {
    owner(ballot).is_some() && round(ballot) <= round(known).saturating_add(LONGEST_JUMP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u16) -> NodeId {
        NodeId::new(number).expect("a number of a test")
    }

    #[test]
    fn no_two_members_share_a_ballot_and_later_rounds_are_higher() {
        assert_eq!(of(1, id(1)), Some(Term(1_025)));
        assert_eq!(of(1, id(1_023)), Some(Term(2_047)));
        assert_eq!(of(2, id(1)), Some(Term(2_049)));
        assert_eq!(owner(Term(2_047)), Some(id(1_023)));
        assert_eq!(round(Term(2_047)), 1);
        assert_eq!(owner(Term(2_048)), None, "a multiple of 1024 is nobody's");
    }

    #[test]
    fn the_next_ballot_is_above_everything_in_the_round() {
        for known in [Term::ZERO, Term(1_025), Term(2_047)] {
            let next = above(known, id(1)).expect("there are rounds left");
            assert!(next > known);
            assert_eq!(owner(next), Some(id(1)));
        }
        assert_eq!(above(Term(u64::MAX), id(1)), None);
        assert_eq!(of(u64::MAX / IDS, id(1_023)), Some(Term(u64::MAX)));
    }

    #[test]
    fn wild_numbers_are_not_believed() {
        assert!(is_believable(Term(1_025), Term::ZERO));
        assert!(!is_believable(Term(1_024), Term::ZERO));
        assert!(!is_believable(Term(u64::MAX), Term::ZERO));
        assert!(is_believable(Term(u64::MAX), Term(u64::MAX - 5_000)));
    }
}
