//! The worlds that are explored: those in which every promise must be kept, and those that must break one.

use baton_election::{Margins, Span};

use crate::clock::{Clocks, Rate};
use crate::config::{Bounds, BrokenRule, Config, Reads, StoreKind};
use crate::properties::Promise;

const SLOW: Rate = Rate(800);
const TRUE: Rate = Rate(1_000);
const FAST: Rate = Rate(1_200);
/// ρ as the rates above have it, and nothing in reserve: the formula alone must do.
const TIGHT: Margins = Margins { drift_permille: 200, guard_cap: Span::ZERO };

/// Which clocks the agents and the store may have.
#[derive(Clone, Copy)]
enum Drift {
    /// Slow, true or fast, in every combination.
    Every,
    /// Slow or fast, in every combination.
    Extreme,
    /// The combinations that strain the formula most: a slow holder beside a fast judge, and the reverse.
    Worst,
}

impl Drift {
    fn clocks(self, store: StoreKind) -> Vec<Clocks> {
        let among = match store {
            StoreKind::Stamped => Clocks::all,
            StoreKind::Observed => Clocks::of_agents,
        };
        match (self, store) {
            (Drift::Every, _) => among(&[SLOW, TRUE, FAST]),
            (Drift::Extreme, _) => among(&[SLOW, FAST]),
            (Drift::Worst, StoreKind::Stamped) => vec![
                Clocks { agents: [SLOW, FAST], store: FAST },
                Clocks { agents: [FAST, SLOW], store: SLOW },
            ],
            (Drift::Worst, StoreKind::Observed) => vec![Clocks { agents: [SLOW, FAST], store: SLOW }],
        }
    }
}

fn world(name: &'static str, store: StoreKind, drift: Drift, bounds: Bounds) -> Config {
    Config {
        name,
        store,
        reads: Reads::Instant,
        guards: Reads::Instant,
        margins: TIGHT,
        ttl: Span::secs(6),
        policy_ttl: Span::secs(3),
        clocks: drift.clocks(store),
        bounds,
        offers: false,
        fault: None,
    }
}

impl Config {
    /// Worlds in which nothing is broken. A campaign goes further in each.
    pub fn promises(campaign: bool) -> Vec<Config> {
        let more = u8::from(campaign);
        let (some, wide) =
            if campaign { (Drift::Extreme, Drift::Every) } else { (Drift::Worst, Drift::Extreme) };
        let none = Bounds::default();
        let long = Bounds { horizon: 12 + 2 * more, renewals: more, ..none };
        let lossy = Bounds { horizon: 8 + more, renewals: 1, timeouts: 1 + more, ..none };
        let paused = Bounds { horizon: 8, writes: 2, pauses: 1, renewals: more, ..none };
        let ended = Bounds { horizon: 7, deposes: 1, leaves: 1, writes: 1, renewals: more, ..none };
        let renewing = Bounds { horizon: 8, deposes: 1, renewals: 1, timeouts: more, ..none };
        let restarted = Bounds { horizon: 8, restarts: 1, timeouts: 1, writes: 1 + more, ..none };
        let offered = Bounds { horizon: 8, renewals: 2, writes: more, ..none };
        let given_up =
            Bounds { horizon: 7 + more, renewals: 1, give_ups: 1, halts: 1, timeouts: more, ..none };
        let read = Bounds { horizon: 7, renewals: 1, timeouts: more, ..none };
        let (stamped, observed) = (StoreKind::Stamped, StoreKind::Observed);
        let slowly = |config| Config { reads: Reads::Delayed, ..config };
        let guarded = |config| Config { guards: Reads::Delayed, ..config };
        vec![
            world("stamped: two successions", stamped, Drift::Every, long),
            world("stamped: lost replies, late swaps", stamped, wide, lossy),
            world("stamped: given up, refused, asked again", stamped, some, given_up),
            guarded(world("stamped: pauses and late writes", stamped, some, paused)),
            world("stamped: depose, pass, release", stamped, some, ended),
            world("stamped: depose and renewals", stamped, some, renewing),
            world("stamped: restarts", stamped, some, restarted),
            Config { offers: true, ..world("stamped: offers", stamped, wide, offered) },
            slowly(world("stamped: slow reads", stamped, some, read)),
            world("observed: two successions", observed, Drift::Every, long),
            world("observed: lost replies, late swaps", observed, wide, lossy),
            world("observed: given up, refused, asked again", observed, some, given_up),
            guarded(world("observed: pauses and late writes", observed, some, paused)),
            world("observed: depose, pass, release", observed, some, Bounds { horizon: 6, ..ended }),
            world("observed: depose and renewals", observed, some, renewing),
            slowly(world("observed: slow reads", observed, some, read)),
        ]
    }

    /// Worlds in which one rule is broken, each with the promise that must be seen to break.
    pub fn faults() -> Vec<(Config, Promise)> {
        let none = Bounds { horizon: 8, ..Bounds::default() };
        let stamped = |name, bounds| world(name, StoreKind::Stamped, Drift::Worst, bounds);
        let observed = |name, bounds| world(name, StoreKind::Observed, Drift::Worst, bounds);
        let broken = |fault, config| Config { fault: Some(fault), ..config };
        let beyond = Clocks::all(&[Rate(750), Rate(1_250)]);
        let deaf = Margins { drift_permille: 0, guard_cap: Span::ZERO };
        let mut all = vec![
            (
                Config { clocks: beyond, ..stamped("clocks beyond the bound, no guard", none) },
                Promise::OneBeliever,
            ),
            (Config { margins: deaf, ..stamped("no allowance for drift", none) }, Promise::OneBeliever),
            (
                broken(
                    BrokenRule::DeadlineFromRetry,
                    stamped("deadline from a retry", Bounds { timeouts: 1, ..none }),
                ),
                Promise::OneBeliever,
            ),
            (
                broken(
                    BrokenRule::DeadlineFromRetry,
                    observed("deadline from a retry, observed", Bounds { timeouts: 1, ..none }),
                ),
                Promise::OneBeliever,
            ),
            (
                broken(BrokenRule::JudgeByPolicy, stamped("judged by the policy's lease", none)),
                Promise::OneBeliever,
            ),
            (
                Config {
                    reads: Reads::Delayed,
                    ..broken(
                        BrokenRule::ObserveFromAsking,
                        observed("observed from the asking", Bounds { renewals: 1, ..none }),
                    )
                },
                Promise::OneBeliever,
            ),
            (
                broken(
                    BrokenRule::ReleaseBeforeStopping,
                    stamped("release before the work stops", Bounds { leaves: 1, ..none }),
                ),
                Promise::OneBeliever,
            ),
            (broken(BrokenRule::BlindSwap, stamped("swap without compare", none)), Promise::EpochsRise),
            (broken(BrokenRule::BlindSwap, stamped("swap without compare", none)), Promise::OneBeliever),
            (
                broken(BrokenRule::NoFence, stamped("no fence", Bounds { writes: 2, ..none })),
                Promise::TokensNeverGoBack,
            ),
            (
                broken(
                    BrokenRule::NoFence,
                    stamped("no fence, deposed", Bounds { writes: 1, deposes: 1, ..none }),
                ),
                Promise::EndedIsRefused,
            ),
            (Config::force(), Promise::OneBeliever),
        ];
        all.extend(Config::counted_from_the_finding());
        all
    }

    /// Worlds in which a grant that is found again counts from the request that found it.
    fn counted_from_the_finding() -> Vec<(Config, Promise)> {
        let none = Bounds { horizon: 8, ..Bounds::default() };
        let stamped = |name, bounds| world(name, StoreKind::Stamped, Drift::Worst, bounds);
        let observed = |name, bounds| world(name, StoreKind::Observed, Drift::Worst, bounds);
        let broken = |config| Config { fault: Some(BrokenRule::RepeatedFromAsking), ..config };
        let given_up = Bounds { give_ups: 1, ..none };
        let refused = Bounds { timeouts: 1, halts: 1, ..none };
        vec![
            (broken(stamped("a found grant counted from its finding", given_up)), Promise::OneBeliever),
            (broken(stamped("the same, refused in between", refused)), Promise::OneBeliever),
            (broken(observed("the same, observed", given_up)), Promise::OneBeliever),
        ]
    }

    /// An operator who deposes by force: two agents believe at once, and only the fence keeps their writes in order.
    pub fn force() -> Config {
        let bounds = Bounds { horizon: 5, deposes: 1, writes: 2, ..Bounds::default() };
        let config = world("depose by force", StoreKind::Stamped, Drift::Worst, bounds);
        Config { fault: Some(BrokenRule::Force), ..config }
    }
}
