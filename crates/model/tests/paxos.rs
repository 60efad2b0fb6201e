//! The shipped Paxos in every world of the catalogue, and what breaks it.
#![expect(clippy::print_stdout, reason = "the report is what one runs this for")]

use baton_model::paxos::{Scope, find_violation, run};

#[test]
fn paxos_keeps_its_promises() {
    for scene in Scope::promises(std::env::var_os("BATON_CAMPAIGN").is_some()) {
        let exploration = run(scene);
        println!("{exploration}");
        assert!(exploration.broken.is_empty(), "{exploration}");
        assert_eq!(exploration.missing(), Vec::<&str>::new(), "{exploration}");
    }
}

#[test]
fn every_fault_around_paxos_is_found() {
    for (scene, promise) in Scope::faults() {
        let exploration = find_violation(scene, promise);
        let run = exploration.broken.get(promise);
        let run = run.unwrap_or_else(|| panic!("`{promise}` was not broken: {exploration}"));
        println!("{} breaks `{promise}` ({} states):", exploration.name, exploration.states);
        for step in run {
            println!("    {step}");
        }
    }
}
