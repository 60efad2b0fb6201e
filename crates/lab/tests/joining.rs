//! A member joins while another has forgotten: the group must get over it.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_election::Span;
use baton_lab::{DiskFate, Elector, EventKind, Fault, FaultTarget, Links, PlannedFault, Setup, run, watch};
use baton_peer::{Random, Timing};

fn setup(algorithm: Elector, seed: u64) -> Setup {
    let crash = Fault::Crash {
        target: FaultTarget::Follower(1),
        disk: DiskFate::Lost,
        reboot: true,
        down: Span::secs(1),
    };
    let at = |second, fault| PlannedFault { at: Span::secs(second), fault };
    Setup {
        seed,
        spares: 1,
        plan: vec![at(60, crash), at(78, Fault::Members { place: 3 })],
        ..Setup::quiet(algorithm, 3, Timing::AGENTS)
    }
}

#[test]
fn a_member_that_joins_while_another_has_forgotten_does_not_leave_the_group_without_a_leader() {
    for algorithm in [Elector::RAFT, Elector::PAXOS] {
        for seed in 0..20 {
            let outcome = run(&setup(algorithm, seed));
            assert_eq!(outcome.broken, None, "{algorithm}, seed {seed}");
        }
    }
}

#[test]
fn the_leader_says_why_it_refuses() {
    for algorithm in [Elector::RAFT, Elector::PAXOS] {
        let (_, timeline) = watch(&setup(algorithm, 0));
        let refused = |what: &EventKind| matches!(what, EventKind::Told(text) if text.contains("too few of these members"));
        assert!(timeline.entries.iter().any(|entry| refused(&entry.event)), "{algorithm}");
    }
}

fn at(second: u64, fault: Fault) -> PlannedFault {
    PlannedFault { at: Span::secs(second), fault }
}

/// Of three one dies, and a fourth is taken in before that is noticed: with four in the list, three must vote, and one of them has no memory.
fn dies_while_another_joins(algorithm: Elector, seed: u64) -> Setup {
    let crash = Fault::Crash {
        target: FaultTarget::Follower(1),
        disk: DiskFate::Kept,
        reboot: true,
        down: Span::secs(350),
    };
    Setup {
        seed,
        spares: 1,
        plan: vec![at(40, Fault::Waits { place: 3 }), at(90, crash), at(91, Fault::Members { place: 3 })],
        chaos: Span::secs(400),
        ..Setup::quiet(algorithm, 3, Timing::AGENTS)
    }
}

#[test]
fn a_member_that_waits_is_taken_in_while_another_is_dead_and_counts_at_once() {
    for algorithm in [Elector::RAFT, Elector::PAXOS] {
        for seed in 0..20 {
            let outcome = run(&dies_while_another_joins(algorithm, seed));
            assert_eq!(outcome.broken, None, "{algorithm}, seed {seed}");
            let none = outcome.statistics.no_leader;
            assert!(none < Span::secs(100), "{algorithm}, seed {seed}: {none} without a leader");
        }
    }
}

/// Members come and go, with and without their disks, in a network that is cut again and again.
fn coming_and_going(algorithm: Elector, seed: u64) -> Setup {
    let mut random = Random::seeded(seed);
    let mut plan = vec![at(30, Fault::Waits { place: 3 }), at(31, Fault::Waits { place: 4 })];
    let mut second = 60;
    while second < 1_200 {
        let place = u8::try_from(random.below(5)).unwrap();
        let target = FaultTarget::Place(place);
        plan.push(at(
            second,
            match random.below(8) {
                0..=3 => Fault::Members { place },
                4 => Fault::Crash {
                    target,
                    disk: if random.below(3) == 0 { DiskFate::Kept } else { DiskFate::Lost },
                    reboot: random.below(2) == 0,
                    down: Span::secs(1 + random.below(30)),
                },
                5 => Fault::Isolate { target, outbound: random.below(2) == 0, inbound: true },
                6 => Fault::Pause { target, span: Span::secs(1 + random.below(40)) },
                _ => Fault::Mend,
            },
        ));
        second += 1 + random.below(25);
    }
    Setup {
        seed,
        spares: 2,
        plan,
        chaos: Span::secs(1_200),
        outsiders_may_forget: true,
        ..Setup::quiet(algorithm, 3, Timing::AGENTS)
    }
}

/// So many runs of each kind.
fn seeds() -> u64 {
    if std::env::var_os("BATON_CAMPAIGN").is_some() { 50_000 } else { 300 }
}

/// No promise is broken, and there were leaders that could have.
fn check(setup: fn(Elector, u64) -> Setup) {
    for algorithm in [Elector::RAFT, Elector::PAXOS] {
        let mut leaderships = 0;
        for seed in 0..seeds() {
            let outcome = run(&setup(algorithm, seed));
            assert_eq!(outcome.broken, None, "{algorithm}, seed {seed}");
            leaderships += outcome.statistics.leaderships;
        }
        assert!(leaderships > 3 * seeds(), "{algorithm}: {leaderships} leaderships");
    }
}

#[test]
fn members_come_and_go_with_and_without_memory_and_no_promise_is_broken() {
    check(coming_and_going);
}

/// A fifth joins four that are split again and again, and loses its disk in between: each half may have its vote.
fn a_fifth_that_forgets(algorithm: Elector, seed: u64) -> Setup {
    let mut random = Random::seeded(seed);
    let mut plan = vec![at(30, Fault::Waits { place: 4 })];
    let mut second = 75;
    while second < 600 {
        plan.push(at(second, Fault::Members { place: 4 }));
        let sides: Vec<u8> = (0..5).map(|_| u8::try_from(random.below(2)).unwrap()).collect();
        plan.push(at(second + 1 + random.below(8), Fault::Cut(Links::split(&sides))));
        let lost = Fault::Crash {
            target: FaultTarget::Place(4),
            disk: DiskFate::Lost,
            reboot: true,
            down: Span::secs(1),
        };
        plan.push(at(second + 25 + random.below(15), lost));
        let sides: Vec<u8> = (0..5).map(|_| u8::try_from(random.below(2)).unwrap()).collect();
        plan.push(at(second + 45 + random.below(5), Fault::Cut(Links::split(&sides))));
        plan.push(at(second + 80, Fault::Mend));
        second += 100 + random.below(30);
    }
    Setup {
        seed,
        spares: 1,
        plan,
        chaos: Span::secs(600),
        any_disk_may_go: true,
        outsiders_may_forget: true,
        ..Setup::quiet(algorithm, 4, Timing::AGENTS)
    }
}

/// With a leader that says also to later lives of a member that it took it in, seed 5 of these shows two leaders of Raft in one term.
#[test]
fn a_member_that_forgets_after_it_was_taken_in_votes_in_no_term_twice() {
    check(a_fifth_that_forgets);
}
