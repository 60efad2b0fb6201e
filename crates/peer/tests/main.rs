//! The tests of this crate, in one program: it is linked once.
#![allow(clippy::unwrap_used, reason = "tests")]

mod bully_claims;
mod net;
mod paxos_acceptor;
mod paxos_chaos;
mod paxos_graphs;
mod paxos_leader;
mod paxos_members;
mod paxos_scenarios;
mod paxos_world;
mod raft_chaos;
mod raft_claims;
mod raft_graphs;
mod raft_net;
mod raft_rules;
mod raft_scenarios;
mod raft_solo;
mod raft_world;
mod ring_claims;
mod roll_lists;
mod slow_answers;
mod textbook_nonsense;
mod textbook_scenarios;
