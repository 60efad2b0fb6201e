//! Regions: only who leads one leads the fleet, and nobody leads the fleet for longer than its region.
#![allow(clippy::unwrap_used, reason = "a test")]

mod world;

use std::cell::RefCell;
use std::collections::BTreeMap;

use baton_election::command::{Acknowledge, Acquire, Renew, WriteCheckpoint};
use baton_election::document::Cause;
use baton_election::region::{MAX_DEPTH, Proof};
use baton_election::time::Span;
use baton_election::{Answer, Command, ElectionName, Epoch, Policy, Refusal};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use world::{Step, World, steps};

use crate::cast::{agent, credential};

fn name(text: &str) -> ElectionName {
    ElectionName::new(text).unwrap()
}

fn refusal(outcome: Result<Answer, Refusal>) -> String {
    let refusal = outcome.unwrap_err();
    format!("{}: {refusal}", refusal.code())
}

/// A world in which `a` leads `fleet/eu` and `b` leads `fleet/us`.
fn led() -> World {
    let mut world = World::new();
    world.grant("a", "fleet/eu").unwrap();
    world.grant("b", "fleet/us").unwrap();
    world
}

#[test]
fn only_who_leads_a_region_leads_the_fleet() {
    let mut world = led();
    let plain = Command::Acquire(Acquire::new(
        agent("c"),
        credential("c", 1).incarnation,
        credential("c", 1).key.hash(),
    ));
    let refused = refusal(world.ask("fleet", &plain));
    assert!(
        refused.starts_with("not-eligible: not eligible: only who leads a region of `fleet`"),
        "{refused}"
    );
    let of_another = world.proof("fleet/eu", "b");
    let refused = refusal(world.ask("fleet", &world.bid("b", Some(of_another))));
    assert_eq!(refused, "not-eligible: not eligible: a leads `fleet/eu` (token 1)");
    // The key of one, the name of another.
    let of_a = world.proof("fleet/eu", "a");
    let refused = refusal(world.ask("fleet", &world.bid("c", Some(of_a.clone()))));
    assert_eq!(refused, "not-eligible: not eligible: a leads `fleet/eu`, not c");
    let mut forged = of_a.clone();
    forged.credential.key = credential("a", 9).key;
    assert!(refusal(world.ask("fleet", &world.bid("a", Some(forged)))).starts_with("wrong-key"));
    // What nobody looked at proves nothing, whatever it says.
    let unseen = Proof { seen: None, ..of_a.clone() };
    assert!(refusal(world.ask("fleet", &world.bid("a", Some(unseen)))).starts_with("invalid"));
    let future = Proof { epoch: Epoch(2), ..of_a.clone() };
    assert!(
        refusal(world.ask("fleet", &world.bid("a", Some(future))))
            .contains("token 2 is not of the leadership")
    );
    let granted = world.ask("fleet", &world.bid("a", Some(of_a))).unwrap();
    assert!(matches!(granted, Answer::Granted { epoch: Epoch(1), .. }));
    let from = world.document("fleet").leader.as_ref().unwrap().region.clone().unwrap();
    assert_eq!((from.election.as_str(), from.epoch), ("fleet/eu", Epoch(1)));
}

#[test]
fn no_election_is_above_itself() {
    let mut world = led();
    for odd in ["fleet", "fleets/eu", "fleet/eu/paris", "other"] {
        let proof = Proof { election: name(odd), ..world.proof("fleet/eu", "a") };
        let refused = refusal(world.ask("fleet", &world.bid("a", Some(proof))));
        assert_eq!(refused, format!("invalid: `{odd}` is not a region of `fleet`"));
    }
    // Both want to be led from the other.
    world.rule("fleet/eu", &Policy { regions: true, ..Policy::default() }).unwrap();
    world.grant_fleet("a").unwrap();
    world.release("a", "fleet/eu");
    let above = Proof { election: name("fleet"), ..world.proof("fleet", "a") };
    let bid = world.bid_for("a", "fleet/eu", Some(above));
    assert_eq!(refusal(world.ask("fleet/eu", &bid)), "invalid: `fleet` is not a region of `fleet/eu`");
}

#[test]
fn the_tree_has_a_bounded_depth() {
    let mut world = World::new();
    let deep = ["d"; MAX_DEPTH].join("/");
    let regions = Policy { regions: true, ..Policy::default() };
    let refused = world.rule(&deep, &regions).unwrap_err();
    assert!(refused.to_string().contains("9 levels deep"), "{refused}");
    world.rule(&["d"; MAX_DEPTH - 1].join("/"), &regions).unwrap();
    let long = "n".repeat(63);
    assert!(world.rule(&long, &regions).unwrap_err().to_string().contains("so long"));
}

#[test]
fn a_renewal_shows_the_region_and_ends_with_it() {
    let mut world = led();
    world.grant_fleet("a").unwrap();
    let bare = Renew::new(Epoch(1), world.credential("a", "fleet"));
    assert!(refusal(world.ask("fleet", &Command::Renew(bare.clone()))).contains("from `fleet/eu`"));
    let shown = |world: &World| Renew { region: Some(world.proof("fleet/eu", "a")), ..bare.clone() };
    let renew = Command::Renew(shown(&world));
    assert!(matches!(world.ask("fleet", &renew), Ok(Answer::Renewed { .. })));
    // Another region is not the one that it leads from, even if it leads it.
    let other = Renew { region: Some(world.proof("fleet/us", "b")), ..bare.clone() };
    assert!(refusal(world.ask("fleet", &Command::Renew(other))).contains("from `fleet/eu`"));
    world.wait(Span::secs(4));
    world.renew("b", "fleet/us");
    world.depose("fleet/eu");
    let stale = Command::Renew(shown(&world));
    let ended = world.ask("fleet", &stale).unwrap();
    let Answer::Ended { cause, reason } = ended else { panic!("{ended:?}") };
    assert_eq!(
        (cause, reason.as_str()),
        (Cause::Region, "it lost its region: nobody leads `fleet/eu` (token 2)")
    );
    let fleet = world.document("fleet");
    assert_eq!((fleet.epoch, fleet.leader.is_none(), fleet.passed_over.clone()), (Epoch(2), true, None));
    // The token is refused at once; another region's leader waits for the rest of the lease, and no longer.
    let waits = refusal(world.lead_from("b", "fleet/us"));
    assert!(waits.starts_with("held: the leadership of a was ended (region)"), "{waits}");
    world.wait(Span::secs(5));
    let waits = refusal(world.lead_from("b", "fleet/us"));
    assert!(waits.starts_with("held"), "{waits}");
    world.wait(Span::secs(1));
    assert!(matches!(
        world.lead_from("b", "fleet/us"),
        Ok(Answer::Granted { epoch: Epoch(3), cause: Cause::Region, .. })
    ));
}

/// Whatever a leader writes, only what shows its region lengthens its lease.
#[test]
fn a_checkpoint_lengthens_no_lease_under_a_region() {
    let mut world = led();
    world.grant_fleet("a").unwrap();
    let credential = world.credential("a", "fleet");
    let write = |seq| {
        let (summary, state) = (format!("part {seq}"), "null".to_string());
        let (reference, covers) = (None, None);
        WriteCheckpoint { epoch: Epoch(1), credential, seq, summary, state, reference, covers }
    };
    world.depose("fleet/eu");
    world.wait(Span::secs(6));
    world.ask("fleet", &Command::Checkpoint(write(1))).unwrap();
    let hash = world.document("fleet").checkpoint.unwrap().hash;
    let acknowledge = Acknowledge { epoch: Epoch(1), credential, hash };
    world.ask("fleet", &Command::Acknowledge(acknowledge)).unwrap();
    world.renew("b", "fleet/us");
    world.wait(Span::secs(4));
    assert!(refusal(world.ask("fleet", &Command::Checkpoint(write(2)))).contains("the lease ran out"));
    let next = world.lead_from("b", "fleet/us");
    assert!(matches!(next, Ok(Answer::Granted { epoch: Epoch(2), cause: Cause::Failover, .. })), "{next:?}");
}

#[test]
fn an_approval_in_the_region_does_not_end_the_fleet() {
    let mut world = led();
    world.grant_fleet("a").unwrap();
    // The same leadership goes on in a later epoch there.
    world.raise("fleet/eu");
    let proof = Proof { epoch: Epoch(1), ..world.proof("fleet/eu", "a") };
    let renew = Renew { region: Some(proof), ..Renew::new(Epoch(1), world.credential("a", "fleet")) };
    assert!(matches!(world.ask("fleet", &Command::Renew(renew)), Ok(Answer::Renewed { .. })));
    let from = world.document("fleet").leader.as_ref().unwrap().region.clone().unwrap();
    assert_eq!(from.epoch, Epoch(2), "the current one is noted");
}

#[test]
fn three_levels_end_from_below() {
    let mut world = World::new();
    world.rule("fleet/eu", &Policy { regions: true, ttl: Span::secs(10), ..Policy::default() }).unwrap();
    world.grant("a", "fleet/eu/paris").unwrap();
    world.lead("a", "fleet/eu", "fleet/eu/paris").unwrap();
    world.lead("a", "fleet", "fleet/eu").unwrap();
    world.depose("fleet/eu/paris");
    let renewed = world.stay("a", "fleet/eu", "fleet/eu/paris");
    assert!(matches!(renewed, Ok(Answer::Ended { cause: Cause::Region, .. })), "{renewed:?}");
    let renewed = world.stay("a", "fleet", "fleet/eu");
    assert!(matches!(renewed, Ok(Answer::Ended { cause: Cause::Region, .. })), "{renewed:?}");
}

#[test]
fn what_is_written_is_read_again_and_what_is_seen_is_not_told() {
    let mut world = led();
    world.grant_fleet("a").unwrap();
    let document = world.document("fleet");
    let written = serde_json::to_string(&document).unwrap();
    assert_eq!(serde_json::from_str::<baton_election::Document>(&written).unwrap(), document);
    let proof = world.proof("fleet/eu", "a");
    assert!(proof.seen.is_some());
    let sent = serde_json::to_value(&proof).unwrap();
    assert_eq!(sent.as_object().unwrap().keys().collect::<Vec<_>>(), ["credential", "election", "token"]);
    let mut forged = sent.clone();
    assert!(serde_json::from_value::<Proof>(sent).is_ok_and(|read| read.seen.is_none()));
    forged["seen"] = serde_json::json!({ "document": null, "age": "0" });
    assert!(serde_json::from_value::<Proof>(forged).is_err(), "nobody says what another has seen");
}

/// No play has two who believe to lead the fleet, nor one who believes so after its region's lease has gone to another.
#[test]
fn a_fleet_leadership_never_outlives_its_regions() {
    let cases = if std::env::var_os("BATON_CAMPAIGN").is_some() { 200_000 } else { 2_000 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let tally: RefCell<BTreeMap<&'static str, u64>> = RefCell::default();
    let outcome = runner.run(&steps(), |play: Vec<Step>| {
        let mut world = World::new();
        for step in &play {
            let happened = world.take(step);
            *tally.borrow_mut().entry(happened).or_default() += 1;
            if let Err(why) = world.promises() {
                return Err(TestCaseError::fail(why));
            }
        }
        Ok(())
    });
    outcome.unwrap();
    let tally = tally.into_inner();
    for thing in [
        "the fleet was granted",
        "the fleet was renewed",
        "the fleet ended with its region",
        "deposed",
        "refused",
    ] {
        assert!(tally.contains_key(thing), "never happened: {thing}: {tally:#?}");
    }
}
