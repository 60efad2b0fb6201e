//! Raft by the model: every promise is kept in every world of the catalogue, what must happen does, and each broken rule is seen.
#![expect(clippy::print_stdout, reason = "the report is what one runs this for")]

use baton_model::quorum::{Scope, exhaust, find};
use baton_peer::raft::Raft;

#[test]
fn raft_keeps_every_promise() {
    let worlds = Scope::raft(std::env::var_os("BATON_CAMPAIGN").is_some());
    let mut states = 0;
    for small in worlds {
        let found = exhaust::<Raft>(small);
        println!("{found}");
        states += found.states;
        assert!(found.broken.is_empty(), "{found}");
        assert_eq!(found.missing(), Vec::<&str>::new(), "{found}");
    }
    println!("{states} states");
    assert!(states > 1_000_000);
}

#[test]
fn a_broken_rule_breaks_a_promise_of_raft() {
    for (small, promise) in Scope::raft_faults() {
        let found = find::<Raft>(small, promise);
        println!("{found}");
        assert!(found.broken.contains_key(promise), "`{promise}` was not broken: {found}");
    }
}
