//! Hand-over between two waiting processes, on whatever store; measured here on the file store.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use baton::{Bid, Campaign, Coordinator};
use baton_election::{AgentName, ElectionName, Span};
use baton_store::boot;

use crate::calibrate;
use crate::figures::{Figure, Five, percentile};
use crate::voices::{Said, Voices};

const ROUNDS: usize = 40;
/// How long each leads before it releases, so that the other is surely in line.
pub(crate) const HOLD: Duration = Duration::from_millis(250);
/// How long who handed over waits before it campaigns again, so as not to race with its successor.
pub(crate) const REST: Duration = Duration::from_millis(30);

/// One leadership, on the boot-time clock.
pub(crate) struct Turn {
    pub(crate) leads: u64,
    /// When release was called.
    pub(crate) releases: u64,
    pub(crate) who: usize,
    /// What a commit took on this disk, just before.
    pub(crate) unit: u64,
}

/// What [`take_turns`] says of one.
pub(crate) fn turn(said: &Said) -> Option<Turn> {
    let numbers: Vec<u64> = said.line.split(' ').filter_map(|number| number.parse().ok()).collect();
    let &[leads, releases, unit] = numbers.as_slice() else { return None };
    Some(Turn { leads, releases, who: said.who, unit })
}

/// From one's release to the other's lead.
pub(crate) fn gaps(mut turns: Vec<Turn>) -> Vec<Duration> {
    turns.sort_unstable_by_key(|turn| turn.leads);
    let pairs = turns.windows(2).map(|pair| (&pair[0], &pair[1]));
    pairs
        .filter(|(one, next)| next.who != one.who && next.leads > one.releases)
        .map(|(one, next)| Duration::from_nanos(next.leads - one.releases))
        .collect()
}

/// One of the two processes: leads, waits a moment, releases, and again. `STORE AGENT TTL-MS`, and a folder if the disk
/// is measured as well.
pub(crate) fn take_turns(arguments: &[String]) -> std::io::Result<()> {
    let [store, agent, ttl, scratch @ ..] = arguments else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let failed = |error: baton::Error| std::io::Error::other(error.to_string());
        let coordinator = Coordinator::connect(store).await.map_err(failed)?;
        let (Ok(election), Ok(agent), Ok(ttl)) =
            (ElectionName::new("bench"), AgentName::new(agent), ttl.parse())
        else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        let scratch = scratch.first().map(|scratch| Path::new(scratch).join(agent.as_str()));
        if let Some(scratch) = &scratch {
            std::fs::create_dir(scratch)?;
        }
        let bid = Bid { ttl: Some(Span::millis(ttl)), ..Bid::new(agent) };
        for number in 0.. {
            let lead = coordinator.campaign(&election, Campaign::new(bid.clone())).await.map_err(failed)?;
            let leads = boot::now().as_nanos();
            // The disk is measured in the same second, since its speed changes; but not while it has still to do with
            // the hand-over.
            boot::sleep(span(HOLD / 2)).await?;
            let unit = match &scratch {
                Some(scratch) => calibrate::commit(scratch, number)?.as_nanos(),
                None => 0,
            };
            boot::sleep(span(HOLD / 2)).await?;
            let mut stdout = std::io::stdout().lock();
            let releases = boot::now().as_nanos();
            lead.release("").await.map_err(failed)?;
            if writeln!(stdout, "{leads} {releases} {unit}").and_then(|()| stdout.flush()).is_err() {
                return Ok(());
            }
            drop(stdout);
            boot::sleep(span(REST)).await?;
        }
        Ok(())
    })
}

fn span(duration: Duration) -> Span {
    Span::nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// From the call of release in one process to leading in the other, beside a commit at the same rhythm. `busy` is what a
/// commit takes right after another.
pub(crate) fn measure(busy: Duration) -> std::io::Result<[Figure; 2]> {
    let mut units = Vec::new();
    let five = Five::of(|| {
        let turns = turns()?;
        units.extend(turns.iter().map(|turn| Duration::from_nanos(turn.unit)));
        let mut gaps = gaps(turns);
        gaps.retain(|gap| *gap < Duration::from_secs(1));
        assert!(gaps.len() > ROUNDS, "too few hand-overs: {}", gaps.len());
        Ok(percentile(&mut gaps, 0.5))
    })?;
    let what = "hand-over between two waiting processes, file store, p50";
    let unit = percentile(&mut units, 0.5);
    Ok([
        Figure::ratio(what, five.median(), unit, 3.0),
        Figure::beside("  the same beside commits in a tight loop", five.median(), busy),
    ])
}

/// Two processes take turns.
fn turns() -> std::io::Result<Vec<Turn>> {
    let folder = calibrate::scratch()?;
    let store = format!("file:{}", folder.path().join("s").display());
    let scratch = folder.path().join("scratch");
    std::fs::create_dir(&scratch)?;
    let mut voices = Voices::new()?;
    for agent in ["agent-a", "agent-b"] {
        let mut command = Command::new(std::env::current_exe()?);
        voices.start(command.args(["--take-turns", &store, agent, "30000"]).arg(&scratch))?;
    }
    let mut turns: Vec<Turn> = Vec::new();
    while turns.len() < 2 * ROUNDS {
        turns.extend(turn(&voices.next(Duration::from_secs(60), "no hand-over")?));
    }
    Ok(turns)
}
