//! The model's own test: each broken rule breaks a promise, and the model sees it.
#![expect(clippy::print_stdout, reason = "the report is what one runs this for")]

use baton_model::{Config, Promise, find_violation, run};

#[test]
fn every_fault_is_found() {
    for (config, promise) in Config::faults() {
        let exploration = find_violation(config, promise);
        let run = exploration.broken.get(promise.name());
        let run = run.unwrap_or_else(|| panic!("{promise} was not broken: {exploration}"));
        println!("{} breaks `{promise}` ({} states):", exploration.name, exploration.states);
        for step in run {
            println!("    {step}");
        }
    }
}

#[test]
fn force_breaks_exclusion_and_the_fence_holds() {
    let exploration = run(Config::force());
    println!("{exploration}");
    for promise in [Promise::OneValidLease, Promise::OneBeliever, Promise::HolderEndsFirst] {
        assert!(exploration.broken.contains_key(promise.name()), "{promise} was not broken");
    }
    for promise in [Promise::TokensNeverGoBack, Promise::EpochsRise, Promise::EndedIsRefused] {
        assert!(!exploration.broken.contains_key(promise.name()), "{exploration}");
    }
}
