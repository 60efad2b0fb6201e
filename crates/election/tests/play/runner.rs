//! Draws plays from seeds, runs them, and reports the first that breaks a rule with one line to paste.

use std::cell::RefCell;
use std::env;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use super::{Mode, Play, Tally, steps};

/// Plays that are drawn from one seed.
const PLAYS_PER_SEED: u32 = 50;

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// Runs plays of this mode. `BATON_SEED=N` runs that seed only, `BATON_CAMPAIGN=1` many more of them.
pub(crate) fn run(test: &str, mode: Mode, seeds: u64) -> Tally {
    let all = match (number("BATON_SEED"), number("BATON_CAMPAIGN")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(_)) => 0..seeds * 100,
        (None, None) => 0..seeds,
    };
    let tally = RefCell::new(Tally::new());
    for seed in all {
        run_seed(test, mode, seed, &tally);
    }
    tally.into_inner()
}

fn run_seed(test: &str, mode: Mode, seed: u64, tally: &RefCell<Tally>) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: PLAYS_PER_SEED,
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    // A clock that is 1 % fast believes 101 % of the age.
    let most = if mode == Mode::Observed { 101 } else { 100 };
    let result = runner.run(&steps(mode == Mode::Forced, most), |steps| {
        let played = Play::new(mode).play(&steps).map_err(TestCaseError::fail)?;
        let mut tally = tally.borrow_mut();
        played.into_iter().for_each(|(what, times)| *tally.entry(what).or_default() += times);
        Ok(())
    });
    if let Err(error) = result {
        let again = format!("BATON_SEED={seed} cargo test -p baton-election --test it {test}");
        match error {
            TestError::Fail(why, steps) => {
                let steps: Vec<String> =
                    steps.iter().enumerate().map(|(n, step)| format!("{:>3}. {step}", n + 1)).collect();
                panic!("{why}\n{}\nagain with: {again}", steps.join("\n"));
            }
            TestError::Abort(why) => panic!("{why}\nagain with: {again}"),
        }
    }
}
