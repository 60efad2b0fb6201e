//! Properties: random plays of agents, operators and fences keep what the design promises.
//!
//! A failure prints the shrunk play and one line to paste. `BATON_CAMPAIGN=1` runs a hundred times as many plays.

use baton_election::{Margins, Moment, Span, Tenure};

use crate::play::{Mode, Tally, run};

/// Every property has something that it could have failed on.
fn assert_happened(tally: &Tally, things: &[&str]) {
    let never: Vec<&&str> = things.iter().filter(|thing| !tally.contains_key(**thing)).collect();
    assert!(never.is_empty(), "in no play happened: {never:?}\nwhat happened: {tally:#?}");
}

const ALWAYS: [&str; 44] = [
    "granted",
    "offered",
    "granted again",
    "granted after first",
    "granted after release",
    "granted after pass",
    "granted after failover",
    "granted after depose",
    "granted after appoint",
    "granted after pause",
    "granted after validation",
    "granted after budget",
    "granted after stall",
    "granted after approval",
    "an approval began an epoch",
    "ended by depose",
    "an election was forgotten",
    "what was forgotten was led again",
    "ended by pause",
    "ended by appoint",
    "ended by approval",
    "renewal ended by budget",
    "renewal ended by stall",
    "renewed",
    "a renewal was plain",
    "a renewal was left to the decision",
    "released",
    "checkpointed",
    "acknowledged",
    "refused held",
    "refused stale",
    "refused not-eligible",
    "refused paused",
    "refused awaiting-approval",
    "refused wrong-key",
    "refused invalid",
    "a stale token was refused",
    "a fence admitted",
    "a fence refused",
    "a fence's mark rose",
    "a hold was kept",
    "a change was Volatile",
    "a change was Synced",
    "a change was Durable",
];

#[test]
fn a_stamped_store_has_one_valid_lease_at_a_time() {
    let tally = run("a_stamped_store_has_one_valid_lease_at_a_time", Mode::Stamped, 20);
    if std::env::var_os("BATON_SEED").is_none() {
        assert_happened(&tally, &ALWAYS);
        assert_happened(
            &tally,
            &["somebody was sure to lead", "heard of a renewal in time", "heard of a renewal too late"],
        );
    }
}

#[test]
fn observers_with_fast_clocks_never_overtake_a_holder_with_a_slow_one() {
    let tally = run("observers_with_fast_clocks_never_overtake_a_holder_with_a_slow_one", Mode::Observed, 10);
    if std::env::var_os("BATON_SEED").is_none() {
        assert_happened(
            &tally,
            &["granted after failover", "somebody was sure to lead", "heard of a renewal in time"],
        );
    }
}

#[test]
fn force_may_overlap_leases_but_never_tokens() {
    let tally = run("force_may_overlap_leases_but_never_tokens", Mode::Forced, 10);
    if std::env::var_os("BATON_SEED").is_none() {
        assert_happened(
            &tally,
            &["ended by depose", "ended by appoint", "a stale token was refused", "a fence's mark rose"],
        );
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// The deadline of a holder, whose clock is up to 1 % slow, comes before the end of the lease as an observer waits
    /// for it, whose clock is up to 1 % fast.
    #[test]
    fn a_holder_stops_before_its_lease_ends(
        ttl_ms in 1_000..604_800_000_u64,
        asked_ms in 0..10_000_000_000_u64,
        delay_ms in 0..100_000_u64,
        holder in 990..=1_010_u64,
        observer in 990..=1_010_u64,
    ) {
        let ttl = Span::millis(ttl_ms);
        let by_holder = |true_ns: u64| Moment::from_nanos(Span::nanos(true_ns).scaled(holder, 1_000).as_nanos());
        let asked_ns = asked_ms * 1_000_000;
        // The store beats some time after it was asked; an observer sees that beat at once.
        let beat_ns = asked_ns + delay_ms * 1_000_000;
        let free_ns = beat_ns + ttl.scaled(1_000, observer).as_nanos();
        let tenure = Tenure::granted(by_holder(asked_ns), ttl, Margins::STANDARD);
        proptest::prop_assert!(!tenure.ensures(by_holder(free_ns), Span::ZERO));
        let deadline_ns = Span::nanos(tenure.deadline().as_nanos()).scaled(1_000, holder).as_nanos();
        proptest::prop_assert!(deadline_ns < free_ns, "stops at {deadline_ns}, free at {free_ns}");
        proptest::prop_assert!(tenure.ensures(by_holder(asked_ns), ttl.scaled(8, 10)), "most of the lease is usable");
    }
}
