//! Hunts for a seed that breaks a promise: `hunt ALGORITHM SEEDS [SCENARIO] [lan]`. Prints how many seeds it took.
#![allow(clippy::print_stdout, reason = "a tool")]

use std::num::NonZeroUsize;

use baton_lab::{Elector, Scenario, SeedOptions, campaign};

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [algorithm, seeds, rest @ ..] = &arguments[..] else {
        return Err("usage: hunt ALGORITHM SEEDS [SCENARIO] [lan]".to_string());
    };
    let algorithm: Elector = algorithm.parse()?;
    if let Some(seed) = seeds.strip_prefix('@') {
        let scenario = rest.first().map_or(Ok(Scenario::Mixed), |name| name.parse())?;
        let wishes = SeedOptions {
            scenario,
            lan: rest.get(1).is_some_and(|word| word == "lan"),
            ..SeedOptions::new(algorithm)
        };
        let setup = wishes.setup(seed.parse().map_err(|error| format!("{seed}: {error}"))?);
        let (outcome, timeline) = baton_lab::watch(&setup);
        println!(
            "{} members, {} witnesses, {} spares, founded {}, drift {:?}, {:?}",
            setup.members, setup.witnesses, setup.spares, setup.founded, setup.drift_ppm, setup.network
        );
        for entry in &timeline.entries {
            println!("{entry}");
        }
        println!("{:?}", outcome.broken);
        return Ok(());
    }
    let seeds: u64 = seeds.parse().map_err(|error| format!("{seeds}: {error}"))?;
    let scenario = match rest.first() {
        Some(name) => name.parse()?,
        None => Scenario::Mixed,
    };
    let wishes = SeedOptions {
        scenario,
        lan: rest.get(1).is_some_and(|word| word == "lan"),
        ..SeedOptions::new(algorithm)
    };
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let begun = std::time::Instant::now();
    let outcome = campaign(&wishes, 0, seeds, threads, &|_| {});
    let statistics = &outcome.statistics;
    let took = begun.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let simulated = statistics.simulated.as_millis() as f64 / 1_000.0;
    match &outcome.broken {
        Some((seed, broken)) => {
            println!("BROKEN seed {seed}: {} at {}: {}", broken.invariant, broken.at, broken.what)
        }
        None => println!("clean: {} seeds", statistics.runs),
    }
    println!(
        "{simulated:.0} s simulated in {took:.2} s: {:.0} per second; {} messages, {} leaderships, one {} two {} none {}, writes {}/{}/{} mixed, shared terms {}, without a demand {}",
        simulated / took,
        statistics.messages,
        statistics.leaderships,
        statistics.one_leader,
        statistics.two_leaders,
        statistics.no_leader,
        statistics.writes_accepted,
        statistics.writes_refused,
        statistics.writes_mixed,
        statistics.terms_shared,
        statistics.undemanded
    );
    Ok(())
}
