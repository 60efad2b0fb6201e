//! Servers that take over from each other, on one store: every short play, and many long ones.
//!
//! Whoever was told that it leads is waited for, whatever is late, lost or repeated, and whichever server is asked. The promises: no two agents
//! are sure at once, no token is given to two, and nobody loses a lease before its end. Each planted bug breaks one of them.

#![allow(clippy::unwrap_used, reason = "a test")]

mod world;

use world::{Act, Broken, Fault, Sights, World};

/// How many steps every play has at the most, of which there are all.
const STEPS: usize = 4;
/// How many steps a long play has.
const LONG: usize = 24;

/// Plays this, and tells what could have come next.
async fn play(fault: Option<Fault>, acts: &[Act]) -> Result<(Vec<Act>, Sights), Broken> {
    let mut world = World::new(fault).await;
    for act in acts {
        world.act(*act).await?;
    }
    let next = world.possible();
    Ok((next, world.end().await?))
}

/// Every play of at most so many steps, until one breaks a promise.
async fn all(fault: Option<Fault>, steps: usize) -> Result<(usize, Sights), (Vec<Act>, Broken)> {
    let (mut plays, mut sights) = (0, Sights::default());
    let mut ahead = vec![Vec::new()];
    // The shortest first: what is found has no step too many.
    for length in 0..=steps {
        let mut longer = Vec::new();
        for acts in ahead {
            plays += 1;
            let (next, seen) = match play(fault, &acts).await {
                Ok(played) => played,
                Err(broken) => return Err((acts, broken)),
            };
            sights.add(seen);
            if length < steps {
                longer.extend(next.into_iter().map(|act| [acts.as_slice(), &[act]].concat()));
            }
        }
        ahead = longer;
    }
    Ok((plays, sights))
}

/// A long play from a seed.
async fn long(seed: u64) -> Result<Sights, (Vec<Act>, Broken)> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut world = World::new(None).await;
    let mut acts = Vec::new();
    for _ in 0..LONG {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let possible = world.possible();
        let act = possible[usize::try_from(state % possible.len() as u64).unwrap()];
        acts.push(act);
        if let Err(broken) = world.act(act).await {
            return Err((acts, broken));
        }
    }
    world.end().await.map_err(|broken| (acts, broken))
}

fn campaign() -> bool {
    std::env::var_os("BATON_CAMPAIGN").is_some()
}

#[tokio::test(start_paused = true)]
async fn every_short_play_keeps_every_promise() {
    let steps = if campaign() { STEPS + 1 } else { STEPS };
    match all(None, steps).await {
        Ok((plays, sights)) => {
            assert!(plays > 1_000, "only {plays} plays");
            assert!(sights.claimed > 0 && sights.confirmed > 0 && sights.deposed > 0, "{sights:?}");
            assert!(sights.taken_over > 0 && sights.outlived > 0, "{sights:?}");
        }
        Err((acts, broken)) => panic!("{broken}, after {acts:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn long_plays_keep_every_promise() {
    let mut sights = Sights::default();
    for seed in 0..if campaign() { 20_000 } else { 200 } {
        match long(seed).await {
            Ok(seen) => sights.add(seen),
            Err((acts, broken)) => panic!("seed {seed}: {broken}, after {acts:?}"),
        }
    }
    assert!(sights.outlived > 0 && sights.claimed > 0, "{sights:?}");
}

/// The shortest play in which a planted bug shows.
async fn found(fault: Fault) -> (Vec<Act>, String) {
    match all(Some(fault), STEPS).await {
        Ok((plays, sights)) => panic!("{fault:?} shows in none of {plays} plays: {sights:?}"),
        Err((acts, broken)) => (acts, broken.to_string()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_compare_is_found() {
    let (acts, broken) = found(Fault::NoCompare).await;
    assert!(acts.contains(&Act::TakeOver), "{broken}, after {acts:?}");
}

#[tokio::test(start_paused = true)]
async fn answers_that_leave_after_a_take_over_are_found() {
    let (acts, broken) = found(Fault::LateAnswers).await;
    assert!(broken.contains("after its lease"), "{broken}, after {acts:?}");
    assert!(acts.contains(&Act::RenewAtFormer(0)), "{broken}, after {acts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_counted_from_the_request_that_found_it_is_found() {
    let (acts, broken) = found(Fault::CountsWhatItFound).await;
    assert!(broken.contains("after its lease"), "{broken}, after {acts:?}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_releases_before_it_stops_is_found() {
    let (acts, broken) = found(Fault::ReleasesFirst).await;
    assert!(acts.contains(&Act::Release(0)), "{broken}, after {acts:?}");
}
