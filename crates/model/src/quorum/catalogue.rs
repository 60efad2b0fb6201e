//! The worlds that are explored for Raft: those in which every promise must be kept, and those that must break one.

use baton_peer::raft::{Message, Raft};
use baton_peer::{Member, NodeId, Role, Term, View};

use super::properties::promise;
use super::world::{BrokenRule, Clocks, Explored, Scope};

impl Explored for Raft {
    fn matters(message: &Message, receiver: &View) -> bool {
        match message {
            Message::VoteAnswer { term, granted, group } => {
                let counts = *granted && *term == receiver.term && receiver.role == Role::Candidate;
                counts || group.is_some()
            }
            Message::AppendAnswer { term, .. } => *term >= receiver.term,
            Message::PreVoteAnswer { granted, group, .. } => *granted || group.is_some(),
            Message::AppendEntries { .. }
            | Message::PreVote { .. }
            | Message::RequestVote { .. }
            | Message::Offer { .. }
            | Message::Ready { .. }
            | Message::TimeoutNow { .. }
            | Message::Ask(_)
            | Message::Answer(_) => true,
        }
    }

    fn agreed(message: &Message, voter: Term) -> Option<Message> {
        match message {
            Message::PreVote { poll, .. } => {
                Some(Message::PreVoteAnswer { term: voter, poll: *poll, granted: true, group: None })
            }
            Message::AppendEntries { .. }
            | Message::AppendAnswer { .. }
            | Message::PreVoteAnswer { .. }
            | Message::RequestVote { .. }
            | Message::VoteAnswer { .. }
            | Message::Offer { .. }
            | Message::Ready { .. }
            | Message::TimeoutNow { .. }
            | Message::Ask(_)
            | Message::Answer(_) => None,
        }
    }
}

fn members(witness: Option<u16>) -> Vec<Member> {
    let id = |number| match NodeId::new(number) {
        Ok(id) => id,
        Err(_) => unreachable!("small numbers are ids"),
    };
    (1..=3).map(|n| Member { witness: witness == Some(n), ..Member::plain(id(n)) }).collect()
}

impl Scope {
    fn of(name: &'static str, clocks: Clocks) -> Scope {
        let members = members(None);
        Scope { name, members, clocks, terms: 2, acts: 2, passes: 0, doubles: 0, restarts: 0, fault: None }
    }

    /// Worlds in which nothing is broken. A campaign goes further.
    pub fn raft(campaign: bool) -> Vec<Scope> {
        let (free, shared) = (Clocks::Free, Clocks::Shared);
        let three = Scope::of;
        let witnessed = |name, clocks| Scope { members: members(Some(3)), ..Scope::of(name, clocks) };
        let mut worlds = vec![
            Scope { passes: 1, ..three("three, free clocks", free) },
            Scope { restarts: 1, ..three("three, free clocks, restarts", free) },
            Scope { doubles: 1, terms: 1, ..three("three, free clocks, doubled messages", free) },
            Scope { passes: 1, ..witnessed("two and a witness, free clocks", free) },
            Scope { restarts: 1, ..witnessed("two and a witness, free clocks, restarts", free) },
            Scope { doubles: 1, ..witnessed("two and a witness, free clocks, doubled messages", free) },
            Scope { passes: 2, ..witnessed("two and a witness, one clock", shared) },
        ];
        if campaign {
            worlds.extend([
                Scope { doubles: 1, ..three("three, free clocks, doubled messages, two terms", free) },
                Scope { passes: 2, ..three("three, one clock", shared) },
                Scope {
                    passes: 2,
                    restarts: 1,
                    ..witnessed("two and a witness, one clock, restarts", shared)
                },
                Scope { passes: 1, restarts: 1, ..three("three, free clocks, pauses and restarts", free) },
                Scope { acts: 3, ..witnessed("two and a witness, three candidacies", free) },
            ]);
        }
        worlds
    }

    /// Worlds in which one rule is broken, each with the promise that must be seen to break.
    pub fn raft_faults() -> Vec<(Scope, &'static str)> {
        let broken =
            |name, clocks, fault| Scope { restarts: 1, fault: Some(fault), ..Scope::of(name, clocks) };
        vec![
            (broken("nothing is kept", Clocks::Free, BrokenRule::KeepsNothing), promise::ONE_LEADER_A_TERM),
            (
                broken("a lost disk is denied", Clocks::Free, BrokenRule::PretendsToBeNew),
                promise::ONE_LEADER_A_TERM,
            ),
            (broken("no quarantine", Clocks::Shared, BrokenRule::SkipsQuarantine), promise::ONE_LEASE),
        ]
    }
}
