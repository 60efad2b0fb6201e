//! Random schedules: loss, delay, doubling, cuts, crashes, lost disks, pauses, drifting clocks, transfers and changes of members. At every event the
//! network checks that a term has one leader and that no two leases run; after everything is healed somebody must lead.
//!
//! A failure names its seed: `BATON_SEED=17 cargo test -p baton-peer --test it raft_chaos`. `BATON_CAMPAIGN=1` plays a hundred times as many.
#![allow(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::print_stderr, reason = "a failure names its seed")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use baton_election::Span;
use baton_peer::{Group, Input, Member, NodeId, Notice, Role, memory_recovery};

use crate::raft_world::{Net, NetworkConditions, id, plain};

type Happened = BTreeMap<&'static str, u64>;

/// A group of three to five, perhaps with witnesses and priorities, and clocks that drift as far as they may.
fn world(seed: u64) -> (Net, u16) {
    let mut dice = baton_peer::Random::seeded(seed);
    let size = u16::try_from(dice.between(3, 5)).unwrap();
    let mut members = plain(size);
    if dice.below(3) == 0 {
        members[usize::from(size) - 1].witness = true;
    }
    if dice.below(3) == 0 {
        members[0].priority = 3;
    }
    let mut net = Net::founded(members, dice.number());
    for number in 1..=size {
        net.set_rate(number, dice.between(990, 1_010));
    }
    (net, size)
}

fn weather(net: &mut Net) {
    let slow = [2_000_000, 30_000_000, 200_000_000][usize::try_from(net.random.below(3)).unwrap()];
    net.weather = NetworkConditions {
        delay: (200_000, slow),
        loss_percent: net.random.below(30),
        double_percent: net.random.below(20),
    };
}

fn chaos(net: &mut Net, size: u16, happened: &mut Happened) {
    let mut note = |what: &'static str| *happened.entry(what).or_default() += 1;
    let number = u16::try_from(net.random.between(1, u64::from(size))).unwrap();
    let other = u16::try_from(net.random.between(1, u64::from(size))).unwrap();
    match net.random.below(12) {
        0 => weather(net),
        1 => net.cut(number, other),
        2 => net.part(number, &(1..=size).filter(|n| *n != number).collect::<Vec<_>>()),
        3 | 4 => net.heal(),
        5 => net.crash(number),
        6 => {
            if net.node(number).machine.is_none() {
                net.restart(number);
                note("restarted");
            }
        }
        7 => {
            if forgets(net, size, number) {
                net.restart_forgotten(number);
                note("forgotten");
            }
        }
        8 => {
            net.node(number).is_paused = true;
            note("paused");
        }
        9 => net.node(number).is_paused = false,
        10 => {
            if let Some(leader) = net.leader() {
                let to = (number != leader).then(|| id(number));
                net.step(leader, Input::Transfer { to });
            }
        }
        _ => change_members(net, size, number, &mut note),
    }
}

/// A disk may be lost if enough others remember in every list that somebody has: what memory recovery needs.
fn forgets(net: &mut Net, size: u16, number: u16) -> bool {
    let lists: Vec<Group> =
        (1..=size).filter_map(|n| net.node(n).saved.as_ref().map(|saved| saved.group.clone())).collect();
    let mut remembers = |id: &NodeId| net.node(id.number()).saved.is_some();
    !lists.is_empty()
        && lists.iter().all(|list| {
            list.others(id(number)).filter(&mut remembers).count() >= memory_recovery::needed(list)
        })
}

/// Takes a member out of the list or puts it back, or alters its priority.
fn change_members(net: &mut Net, size: u16, number: u16, note: &mut impl FnMut(&'static str)) {
    let Some(leader) = net.leader() else { return };
    let Some(saved) = net.node(leader).saved.clone() else { return };
    let mut members: Vec<Member> = saved.group.members().to_vec();
    let place = members.iter().position(|member| member.id == id(number));
    match place {
        Some(at) if net.random.below(2) == 0 => members[at].priority ^= 3,
        Some(at) if members.len() > usize::from(size) - 1 && size > 3 => drop(members.remove(at)),
        Some(_) => {}
        None => members.extend(net.node(number).config.group.member(id(number))),
    }
    let told = net.step(leader, Input::Reconfigure { members });
    if told.iter().any(|notice| matches!(notice, Notice::Members(_))) {
        note("members changed");
    }
}

fn play(seed: u64, happened: &mut Happened) {
    let (mut net, size) = world(seed);
    let begin = Span::millis(net.random.below(1_500));
    net.run_for(begin);
    for _ in 0..net.random.between(5, 40) {
        chaos(&mut net, size, happened);
        let pause = Span::millis(net.random.below(400));
        net.run_for(pause);
    }
    net.heal();
    net.weather = NetworkConditions::FINE;
    for number in 1..=size {
        net.node(number).is_paused = false;
        if net.node(number).machine.is_none() {
            net.restart(number);
        }
    }
    // Late messages of the chaos die out; then somebody leads and goes on leading.
    net.run_for(Span::secs(3));
    assert!(net.run_until_led(Span::secs(5)).is_some(), "nobody leads\n{}", net.story());
    // A hand-over to a preferred member may be due.
    net.run_for(Span::secs(10));
    let terms = net.leaders.len();
    net.run_for(Span::secs(5));
    assert!(net.leader().is_some() && net.leaders.len() == terms, "restless\n{}", net.story());
    *happened.entry("terms").or_default() += terms as u64;
    for line in &net.log {
        for what in ["HandedOver", "HigherTerm", "NoMajority", "Removed", "Refused"] {
            if line.contains(what) {
                *happened.entry(what).or_default() += 1;
            }
        }
    }
    let waits = (1..=size).filter(|&number| net.role(number) == Some(Role::Waiting)).count();
    *happened.entry("still waiting").or_default() += waits as u64;
}

#[test]
fn one_leader_a_term_and_leases_never_overlap() {
    let mut happened = Happened::new();
    let seeds = match std::env::var("BATON_SEED") {
        Ok(seed) => {
            let seed: u64 = seed.parse().unwrap();
            seed..seed + 1
        }
        Err(_) if std::env::var_os("BATON_CAMPAIGN").is_some() => 0..40_000,
        Err(_) => 0..400,
    };
    let is_one = seeds.end - seeds.start == 1;
    for seed in seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| play(seed, &mut happened))) {
            eprintln!("BATON_SEED={seed} cargo test -p baton-peer --test it raft_chaos");
            resume_unwind(panic);
        }
    }
    let wanted = [
        "restarted",
        "forgotten",
        "paused",
        "members changed",
        "HandedOver",
        "HigherTerm",
        "NoMajority",
        "Removed",
    ];
    let never: Vec<&&str> = wanted.iter().filter(|what| !happened.contains_key(**what)).collect();
    assert!(is_one || never.is_empty(), "never happened: {never:?}; what did: {happened:?}");
}
