//! Members that want to join: how a leader takes in a member that has forgotten everything, so that it may
//! vote at once.
//!
//! A member that has forgotten may have voted under its id before, and waits until [`needed`](crate::memory_recovery::needed) others have told it their terms
//! ([`memory_recovery`](crate::memory_recovery)). Of a group of three, one of whom is dead, a fourth is then told too little: two remember, and three are needed. But whoever is not in the
//! list cannot have voted by it, and a leader knows who is not.
//!
//! So a leader notes who asks and is no member, in which [`MemberIncarnation`], and since when. When it takes that one into its list, it keeps that it did, in that life, and says so
//! whenever the member asks: the member may vote above the leader's term.
//!
//! **Assumes** what memory recovery assumes: that a member asks only after its quarantine, that no candidate counts votes for longer than that, and that a life's number is
//! not drawn twice. **Guarantees** then that a member which is admitted votes in no term in which it may have voted before. Let the leader of term t have the list G, which the asker x is not in, and
//! take it in after a majority of G has answered, in term t, a round that was sent after x was first heard in its life λ ([`PendingMembers::ready`]).
//!
//! - *In the life λ* x has not voted: who asks has forgotten. What it does later in λ it does with memory. A later life is not the one that was admitted, and asks like any other.
//! - *Before λ* x may have voted, for somebody who was elected in a term above t. Nobody has counted such a vote since x was first heard. So that election was over when the round was
//!   sent. But then each majority of each list that was still of use had a member in that later term, and x, silent ever since, can be left out of it: a majority of G
//!   without x could not have answered in term t. (*Logless Dynamic Reconfiguration*, see [`members`](crate::members); a member that has forgotten is to all others one that has stopped.)
//! - *At or below t* x votes for nobody.
//!
//! **Does not** guarantee anything to a member that was in the list before it was first heard, or that has lost its memory again since: it waits for enough others, as before.

use alloc::vec::Vec;

use baton_election::{Moment, Span};
use serde::{Deserialize, Serialize};

use crate::memory_recovery::{Ask, MemberIncarnation};
use crate::{Group, NodeId};

/// Those who are noted at once; of more, whoever was silent longest is forgotten.
const APPLICANTS_MAX: usize = 16;
/// Those of whom it is kept that they were admitted; of more, the first are forgotten, and wait like any other.
const ADMITTED_MAX: usize = 16;

/// Those who ask a leader and are no members.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PendingMembers(Vec<Applicant>);

/// One who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Applicant {
    id: NodeId,
    /// What it asked last.
    pub ask: Ask,
    /// When it was first heard in this life.
    since: Moment,
    heard: Moment,
}

/// Whether somebody can be taken into the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// It does not ask: it may remember, or not be there at all.
    Unheard,
    /// It asks, and no majority has answered since: in a moment.
    Early,
    /// It can be admitted.
    Yes(Applicant),
}

impl PendingMembers {
    /// Somebody asks. Members are not noted: they may have voted by the list that they are in.
    pub fn note(&mut self, now: Moment, group: &Group, from: NodeId, ask: &Ask) {
        if group.member(from).is_some() {
            return;
        }
        let before = self.0.iter().position(|applicant| applicant.id == from).map(|at| self.0.remove(at));
        let since = before
            .filter(|applicant| applicant.ask.life == ask.life)
            .map_or(now, |applicant| applicant.since);
        if self.0.len() >= APPLICANTS_MAX
            && let Some((at, _)) = self.0.iter().enumerate().min_by_key(|(_, applicant)| applicant.heard)
        {
            self.0.remove(at);
        }
        self.0.push(Applicant { id: from, ask: *ask, since, heard: now });
    }

    /// Whether that one can be admitted by a leader to whom a majority has answered a round that was sent at `confirmed`.
    pub fn ready(&self, now: Moment, id: NodeId, lately: Span, confirmed: Option<Moment>) -> Readiness {
        match self.0.iter().find(|applicant| applicant.id == id && now.since(applicant.heard) <= lately) {
            None => Readiness::Unheard,
            Some(applicant) if confirmed.is_some_and(|sent| sent > applicant.since) => {
                Readiness::Yes(*applicant)
            }
            Some(_) => Readiness::Early,
        }
    }
}

/// Why who has only just been heard is not taken in.
pub const EARLY: &str = "the new member has only just been heard; try again in a moment";

/// Those whom this member has taken in as the leader, in these lives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AdmittedMembers(Vec<(NodeId, MemberIncarnation)>);

impl AdmittedMembers {
    /// This one was taken in.
    pub fn add(&mut self, applicant: &Applicant) {
        self.0.retain(|(id, _)| *id != applicant.id);
        if self.0.len() >= ADMITTED_MAX {
            self.0.remove(0);
        }
        self.0.push((applicant.id, applicant.ask.life));
    }

    /// Whether that member was taken in, in that life.
    pub fn names(&self, id: NodeId, life: MemberIncarnation) -> bool {
        self.0.contains(&(id, life))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GroupStamp, Member};

    const LATELY: Span = Span::millis(150);

    fn id(number: u16) -> NodeId {
        NodeId::new(number).expect("a number of a test")
    }

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    fn ask(life: u64) -> Ask {
        Ask { life: MemberIncarnation(life), round: 0, stamp: GroupStamp::default() }
    }

    fn pair() -> Group {
        Group::founded([1, 2].map(|n| Member::plain(id(n))).to_vec()).expect("a group of a test")
    }

    #[test]
    fn who_asks_can_be_admitted_once_a_majority_has_answered_a_later_round() {
        let mut pending_members = PendingMembers::default();
        pending_members.note(at(100), &pair(), id(4), &ask(7));
        let ready = |pending_members: &PendingMembers, now, sent| {
            pending_members.ready(at(now), id(4), LATELY, Some(at(sent)))
        };
        assert_eq!(pending_members.ready(at(110), id(4), LATELY, None), Readiness::Early);
        assert_eq!(ready(&pending_members, 110, 99), Readiness::Early);
        assert_eq!(ready(&pending_members, 110, 100), Readiness::Early, "at the same moment is not later");
        assert!(
            matches!(ready(&pending_members, 110, 101), Readiness::Yes(applicant) if applicant.ask == ask(7))
        );
        assert_eq!(ready(&pending_members, 251, 101), Readiness::Unheard, "it has gone");
        pending_members.note(at(260), &pair(), id(4), &ask(7));
        assert!(
            matches!(ready(&pending_members, 261, 101), Readiness::Yes(_)),
            "in the same life it counts from the first time"
        );
    }

    #[test]
    fn a_new_life_begins_anew() {
        let mut pending_members = PendingMembers::default();
        pending_members.note(at(100), &pair(), id(4), &ask(7));
        pending_members.note(at(120), &pair(), id(4), &ask(8));
        assert_eq!(pending_members.ready(at(125), id(4), LATELY, Some(at(110))), Readiness::Early);
        let Readiness::Yes(applicant) = pending_members.ready(at(125), id(4), LATELY, Some(at(121))) else {
            panic!("a majority has answered since")
        };
        let mut admitted = AdmittedMembers::default();
        admitted.add(&applicant);
        assert!(admitted.names(id(4), MemberIncarnation(8)));
        assert!(!admitted.names(id(4), MemberIncarnation(7)) && !admitted.names(id(3), MemberIncarnation(8)));
    }

    #[test]
    fn members_are_no_guests_and_a_crowd_is_bounded() {
        let mut pending_members = PendingMembers::default();
        pending_members.note(at(0), &pair(), id(2), &ask(7));
        assert_eq!(pending_members.ready(at(1), id(2), LATELY, Some(at(1))), Readiness::Unheard);
        let mut admitted = AdmittedMembers::default();
        for number in 3..=1_000 {
            pending_members.note(at(u64::from(number)), &pair(), id(number), &ask(1));
            if let Readiness::Yes(applicant) =
                pending_members.ready(at(1_001), id(number), Span::secs(9), Some(at(1_001)))
            {
                admitted.add(&applicant);
            }
        }
        assert_eq!((pending_members.0.len(), admitted.0.len()), (APPLICANTS_MAX, ADMITTED_MAX));
        assert!(admitted.names(id(1_000), MemberIncarnation(1)));
    }
}
