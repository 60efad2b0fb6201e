//! Hand-over between two waiting processes on the file store.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use baton::{Bid, Campaign, Coordinator};
use baton_election::{AgentName, ElectionName, Span};
use baton_store::boot;

use crate::calibrate;
use crate::figures::{Figure, percentile};

const ROUNDS: usize = 60;

/// One of the two processes: leads, waits a moment so that the other is surely in line, releases, and again.
pub(crate) fn take_turns(arguments: &[String]) -> std::io::Result<()> {
    let [store, agent, scratch] = arguments else { return Err(std::io::ErrorKind::InvalidInput.into()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let failed = |error: baton::Error| std::io::Error::other(error.to_string());
        let coordinator = Coordinator::connect(store).await.map_err(failed)?;
        let (Ok(election), Ok(agent)) = (ElectionName::new("bench"), AgentName::new(agent)) else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        let scratch = Path::new(scratch).join(agent.as_str());
        std::fs::create_dir(&scratch)?;
        for number in 0.. {
            let lead = coordinator
                .campaign(&election, Campaign::new(Bid::new(agent.clone())))
                .await
                .map_err(failed)?;
            let leads = boot::now().as_nanos();
            // The disk is measured in the same breath: its speed changes from second to second.
            let unit = calibrate::commit(&scratch, number)?.as_nanos();
            boot::sleep(Span::millis(250)).await?;
            let mut stdout = std::io::stdout().lock();
            let releases = boot::now().as_nanos();
            lead.release("").await.map_err(failed)?;
            if writeln!(stdout, "{leads} {releases} {unit}").and_then(|()| stdout.flush()).is_err() {
                return Ok(());
            }
            drop(stdout);
            // Who hands over does not race with its successor.
            boot::sleep(Span::millis(30)).await?;
        }
        Ok(())
    })
}

/// From the call of release in one process to leading in the other.
pub(crate) fn measure() -> std::io::Result<Figure> {
    let folder = tempfile::tempdir_in(".")?;
    let store = format!("file:{}", folder.path().join("s").display());
    let scratch = folder.path().join("scratch");
    std::fs::create_dir(&scratch)?;
    let exe = std::env::current_exe()?;
    let mut children = Vec::new();
    for agent in ["agent-a", "agent-b"] {
        let mut command = Command::new(&exe);
        command.args(["--take-turns", &store, agent]).arg(&scratch).stdout(Stdio::piped());
        children.push(command.spawn()?);
    }
    let mut turns: Vec<[u64; 3]> = Vec::new();
    let mut readers: Vec<_> = children
        .iter_mut()
        .filter_map(|child| child.stdout.take())
        .map(|out| BufReader::new(out).lines())
        .collect();
    for reader in &mut readers {
        for line in reader.by_ref().take(ROUNDS) {
            let numbers: Vec<u64> = line?.split(' ').filter_map(|number| number.parse().ok()).collect();
            turns.extend(<[u64; 3]>::try_from(numbers).ok());
        }
    }
    for child in &mut children {
        child.kill()?;
        child.wait()?;
    }
    turns.sort_unstable();
    let mut units: Vec<Duration> = turns.iter().map(|turn| Duration::from_nanos(turn[2])).collect();
    let mut gaps: Vec<Duration> = turns
        .windows(2)
        .filter(|pair| pair[1][0] > pair[0][1])
        .map(|pair| Duration::from_nanos(pair[1][0] - pair[0][1]))
        .filter(|gap| *gap < Duration::from_secs(1))
        .collect();
    assert!(gaps.len() > ROUNDS, "too few hand-overs: {}", gaps.len());
    let unit = percentile(&mut units, 0.5);
    Ok(Figure::ratio(
        "hand-over between two waiting processes, file store, p50",
        percentile(&mut gaps, 0.5),
        unit,
        3.0,
    ))
}
