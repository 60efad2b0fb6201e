//! What `baton lab tune` predicts, against simulations that follow each packet. They share nothing with the model but
//! the assumptions that its doc states.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_election::time::Span;
use baton_election::{Margins, lease};
use baton_lab::tune::{
    InvalidGoal, Network, Transport, TuningGoal, advise, expect_of_lease, false_alarms_of_group,
};
use baton_lab::{Elector, Setup, run};
use baton_peer::{Random, Timing};

fn network(loss: &str, pauses: Option<&str>, transport: Transport) -> Network {
    Network {
        rtt: Span::millis(40),
        jitter: Span::millis(10),
        loss: loss.parse().unwrap(),
        pauses: pauses.map(|pauses| pauses.parse().unwrap()),
        transport,
    }
}

fn seconds(span: Span) -> f64 {
    std::time::Duration::from_nanos(span.as_nanos()).as_secs_f64()
}

/// Chance as the doc of the model says it is.
struct Dice {
    random: Random,
    network: Network,
}

impl Dice {
    fn new(seed: u64, network: Network) -> Dice {
        Dice { random: Random::seeded(seed), network }
    }

    /// From 0 to 1, neither included.
    fn unit(&mut self) -> f64 {
        (f64::from(u32::try_from(self.random.number() >> 32).unwrap()) + 0.5) / 4_294_967_296.0
    }

    fn lost(&mut self) -> bool {
        self.unit() < self.network.loss.of_one()
    }

    /// Lomax, exponent 2.5.
    fn jitter(&mut self) -> f64 {
        let scale = seconds(self.network.jitter) * 1.5;
        scale * (self.unit().powf(-1.0 / 2.5) - 1.0)
    }

    /// How long TCP holds a segment up: it is sent again after doubling waits.
    fn held_up(&mut self) -> f64 {
        let mut wait = seconds(self.network.rtt) + (4.0 * seconds(self.network.jitter)).max(0.2);
        let mut total = 0.0;
        while self.lost() {
            total += wait;
            wait = (wait * 2.0).min(120.0);
        }
        total
    }

    /// Pareto, exponent 1.5.
    fn pause(&mut self, mean: f64) -> f64 {
        mean / 3.0 * self.unit().powf(-1.0 / 1.5)
    }

    fn until_next(&mut self, every: f64) -> f64 {
        -every * self.unit().ln()
    }
}

fn close(predicted: f64, seen: f64, within: f64, what: &str) {
    let ratio = predicted / seen;
    assert!(
        (1.0 / within..within).contains(&ratio),
        "{what}: predicted {predicted}, seen {seen}, ratio {ratio}"
    );
}

/// How often a lease of this length is lost, in times per second.
fn lose_leases(dice: &mut Dice, ttl: Span, renewals: u32) -> (f64, u32) {
    let every = seconds(lease::renewal_interval(ttl));
    let stops = seconds(Margins::STANDARD.usable(ttl).minus(lease::default_grace(ttl)));
    let (mut now, mut losses) = (0.0, 0);
    let mut pause_at =
        dice.network.pauses.map_or(f64::INFINITY, |pauses| dice.until_next(seconds(pauses.every)));
    for _ in 0..renewals {
        let asked = now;
        let mut awake = 0.0;
        // A pause delays whatever would have been done meanwhile.
        if pause_at < asked + every {
            let pauses = dice.network.pauses.unwrap();
            awake = pause_at - asked + dice.pause(seconds(pauses.length));
            pause_at = asked + awake + dice.until_next(seconds(pauses.every));
        }
        let first = every.max(awake);
        let answer =
            |dice: &mut Dice| seconds(dice.network.rtt) + dice.jitter() + dice.held_up() + dice.held_up();
        let took = answer(dice);
        now = asked + first;
        if took <= every && first + took < stops {
            continue;
        }
        let second = first + every + dice.unit() * 0.02;
        now = asked + second;
        if second + answer(dice) >= stops {
            losses += 1;
        }
    }
    (f64::from(losses) / now, losses)
}

#[test]
fn leases_are_lost_as_often_as_predicted() {
    for (loss, ttl) in [("20%", Span::secs(4)), ("30%", Span::secs(10)), ("5%", Span::millis(1_500))] {
        let network = network(loss, None, Transport::Tcp);
        let (seen, losses) = lose_leases(&mut Dice::new(1, network), ttl, 1_000_000);
        assert!(losses > 300, "{loss} {ttl}: only {losses}");
        close(expect_of_lease(&network, ttl).false_alarms.per_second(), seen, 1.2, loss);
    }
}

#[test]
fn leases_are_lost_to_pauses_as_often_as_predicted() {
    let network = network("0%", Some("1s/1m"), Transport::Tcp);
    let (seen, losses) = lose_leases(&mut Dice::new(2, network), Span::secs(10), 1_000_000);
    assert!(losses > 300, "only {losses}");
    let predicted = expect_of_lease(&network, Span::secs(10)).false_alarms;
    assert!(predicted.by_network < predicted.by_pauses / 1_000.0);
    close(predicted.per_second(), seen, 1.2, "pauses");
}

/// How often a leader of a group loses its majority, in times per second.
fn lose_majorities(dice: &mut Dice, nodes: usize, timing: &Timing, rounds: u32) -> (f64, u32) {
    let (beat, rtt) = (seconds(timing.heartbeat), seconds(dice.network.rtt));
    let usable = seconds(timing.lease_until(baton_election::Moment::default()).since(Default::default()));
    let mut streams = vec![(0.0_f64, 0.0_f64); nodes - 1];
    // When the last heartbeat was sent that each follower has answered; and answers on their way: when they come, whose, to what.
    let mut answered = vec![0.0_f64; nodes - 1];
    let mut coming: Vec<(f64, usize, f64)> = Vec::new();
    let (mut until, mut losses) = (usable, 0);
    for round in 1..=rounds {
        let sent = f64::from(round) * beat;
        coming.sort_by(|one, other| one.0.total_cmp(&other.0));
        let due = coming.partition_point(|&(at, ..)| at < sent);
        for (at, follower, sent_at) in coming.drain(..due) {
            if at < until {
                answered[follower] = answered[follower].max(sent_at);
                // With the leader itself, as many as a majority have answered what was sent then, or later.
                let mut newest = answered.clone();
                newest.sort_by(|one, other| other.total_cmp(one));
                until = newest[nodes / 2 - 1] + usable;
            }
        }
        if sent >= until {
            losses += 1;
            streams.fill((sent, sent));
            answered.fill(sent);
            coming.clear();
            until = sent + usable;
            continue;
        }
        for (follower, (there, back)) in streams.iter_mut().enumerate() {
            let slow = dice.jitter();
            match dice.network.transport {
                Transport::Tcp => {
                    *there = there.max(sent + rtt / 2.0 + slow + dice.held_up());
                    *back = back.max(*there + rtt / 2.0 + dice.held_up());
                    coming.push((*back, follower, sent));
                }
                Transport::Datagrams => {
                    if !(dice.lost() | dice.lost()) {
                        coming.push((sent + rtt + slow, follower, sent));
                    }
                }
            }
        }
    }
    (f64::from(losses) / (f64::from(rounds) * beat), losses)
}

fn timing(heartbeat: u64, timeout: u64) -> Timing {
    let timeout_min = Span::millis(timeout);
    let timing = Timing {
        heartbeat: Span::millis(heartbeat),
        timeout_min,
        timeout_max: timeout_min.scaled(3, 2),
        margins: Margins::STANDARD,
    };
    assert_eq!(timing.check(), Ok(()));
    timing
}

#[test]
fn groups_lose_their_leader_to_lost_datagrams_as_often_as_predicted() {
    for (nodes, loss, heartbeat, timeout) in
        [(3, "20%", 200, 800), (5, "20%", 200, 800), (3, "40%", 500, 3_000)]
    {
        let network = network(loss, None, Transport::Datagrams);
        let timing = timing(heartbeat, timeout);
        let (seen, losses) = lose_majorities(&mut Dice::new(3, network), nodes, &timing, 1_000_000);
        assert!(losses > 300, "{nodes} {loss}: only {losses}");
        close(false_alarms_of_group(&network, nodes, &timing, Span::ZERO).per_second(), seen, 1.2, loss);
    }
}

#[test]
fn groups_lose_their_leader_to_stalls_about_as_often_as_predicted() {
    for (nodes, loss, heartbeat, timeout) in
        [(3, "20%", 500, 2_000), (5, "20%", 500, 2_000), (3, "10%", 200, 800)]
    {
        let network = network(loss, None, Transport::Tcp);
        let timing = timing(heartbeat, timeout);
        let (seen, losses) = lose_majorities(&mut Dice::new(4, network), nodes, &timing, 1_000_000);
        assert!(losses > 100, "{nodes} {loss}: only {losses}");
        close(false_alarms_of_group(&network, nodes, &timing, Span::ZERO).per_second(), seen, 2.0, loss);
    }
}

/// The shipped machines themselves, on the laboratory's network, while nothing but packets gets lost.
#[test]
fn shipped_machines_lose_their_leader_to_lost_datagrams_as_often_as_predicted() {
    for algorithm in [Elector::RAFT, Elector::PAXOS] {
        for (members, heartbeat, timeout) in [(3, 200, 800), (5, 200, 800)] {
            let (network, timing) = (network("20%", None, Transport::Datagrams), timing(heartbeat, timeout));
            let lossy = baton_lab::Network {
                loss_permille: 200,
                ..baton_lab::Network::calm(network.rtt.scaled(1, 2), network.rtt.scaled(1, 2))
            };
            let quiet = Setup::quiet(algorithm, members, timing);
            let setup = Setup {
                network: lossy,
                chaos: Span::secs(if members == 3 { 40_000 } else { 120_000 }),
                seed: 5,
                ..quiet
            };
            let outcome = run(&setup);
            assert_eq!(outcome.broken, None, "{algorithm}");
            let losses = outcome.statistics.leaderships - 1;
            assert!(losses > 150, "{algorithm}, {members}: only {losses}");
            let seen = f64::from(u32::try_from(losses).unwrap()) / seconds(outcome.statistics.one_leader);
            let steady = Network { jitter: Span::ZERO, ..network };
            let predicted =
                false_alarms_of_group(&steady, usize::from(members), &timing, Span::ZERO).per_second();
            close(predicted, seen, 1.5, &format!("{algorithm} of {members}"));
        }
    }
}

fn goal(network: Network, failover: Span) -> TuningGoal {
    TuningGoal { network, failover, nodes: 3 }
}

#[test]
fn what_is_recommended_keeps_to_the_wish() {
    for transport in [Transport::Tcp, Transport::Datagrams] {
        for loss in ["0", "0.1%", "1%", "10%"] {
            for failover in [3, 10, 30, 300, 86_400].map(Span::secs) {
                let network = network(loss, Some("1s/1d"), transport);
                let Ok(advice) = advise(goal(network, failover)) else { continue };
                if let Some(lease) = &advice.lease {
                    assert!(
                        lease.failover.worst <= failover && lease.failover.typical <= lease.failover.worst
                    );
                }
                if let Some(group) = &advice.group {
                    assert!(
                        group.failover.worst <= failover && group.failover.typical <= group.failover.worst
                    );
                    assert_eq!(group.timing.check(), Ok(()));
                }
            }
        }
    }
}

#[test]
fn two_members_never_fail_over() {
    for transport in [Transport::Tcp, Transport::Datagrams] {
        let two = TuningGoal { nodes: 2, ..goal(network("1%", None, transport), Span::secs(10)) };
        let advice = advise(two).unwrap();
        assert!(advice.group.is_none() && advice.lease.is_some(), "{transport:?}");
        assert!(advice.curve.iter().all(|point| point.group.is_none()));
        assert!(advice.missing()[0].contains("witness"), "{:?}", advice.missing());
    }
}

#[test]
fn slower_detection_never_costs_more_false_alarms() {
    let network = network("1%", Some("1s/1d"), Transport::Tcp);
    let advice = advise(goal(network, Span::secs(10))).unwrap();
    let lease: Vec<f64> =
        advice.curve.iter().filter_map(|point| point.lease).map(|alarms| alarms.per_day()).collect();
    assert!(lease.len() > 15, "{}", lease.len());
    // Times are cut to two digits, which lets neighbours differ a little in the wrong direction.
    assert!(lease.windows(2).all(|pair| pair[1] <= pair[0] * 1.05), "{lease:?}");
    assert!(lease[0] > lease[lease.len() - 1] * 100.0, "{lease:?}");
}

#[test]
fn the_shortest_fail_over_that_is_named_can_be_had() {
    for transport in [Transport::Tcp, Transport::Datagrams] {
        for (rtt, loss) in [(1, "0"), (1, "1%"), (40, "1%"), (40, "40%"), (2_000, "5%")] {
            let network = Network { rtt: Span::millis(rtt), ..network(loss, Some("1s/1d"), transport) };
            let Err(InvalidGoal::TooShort { shortest, .. }) = advise(goal(network, Span::millis(1))) else {
                panic!("a millisecond is too short");
            };
            let advice = advise(goal(network, shortest));
            assert!(advice.is_ok(), "{rtt} {loss} {transport:?} {shortest}: {advice:?}");
        }
    }
}

#[test]
fn wishes_that_cannot_be_are_refused_with_a_hint() {
    let good = goal(network("1%", None, Transport::Tcp), Span::secs(10));
    let refused = |goal: TuningGoal| advise(goal).expect_err("it cannot be");
    let with = |change: &dyn Fn(&mut TuningGoal)| {
        let mut goal = good;
        change(&mut goal);
        refused(goal)
    };
    let all = [
        with(&|goal| goal.network.rtt = Span::ZERO),
        with(&|goal| goal.network.rtt = Span::secs(61)),
        with(&|goal| goal.network.jitter = Span::secs(61)),
        with(&|goal| goal.network.loss = "100%".parse().unwrap()),
        with(&|goal| goal.network.loss = "50%".parse().unwrap()),
        with(&|goal| goal.failover = Span::ZERO),
        with(&|goal| goal.failover = Span::secs(86_401)),
        with(&|goal| goal.failover = Span::millis(100)),
        with(&|goal| goal.nodes = 1),
        with(&|goal| goal.nodes = 128),
    ];
    for error in &all {
        assert!(!error.to_string().is_empty() && error.hint().contains("--"), "{error}: {}", error.hint());
    }
    assert!(advise(good).is_ok());
}
