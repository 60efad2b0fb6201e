//! Fail-over after SIGKILL of the holder, beside etcd's own recipe, with 100,000 other leases in both servers.
//!
//! One process leads many elections, whose leases are renewed at different moments, and another waits for all of them; the
//! first is killed at a moment drawn at random. What is measured is the *overhead* of each election: from the end of the
//! dead one's lease until the successor leads. Both sides are libraries.
//!
//! The end of a lease: of ours, what the server itself says is left of it right after the kill, in whole milliseconds rounded
//! down and counted from before it was asked, so that the overhead is, if anything, too large; of etcd's, when the dead one was
//! last told that its lease was kept, and the length that it was told.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use baton_store::boot;
use tokio::runtime::Runtime;

use super::etcd::Etcd;
use super::{elector, url};
use crate::candidates;
use crate::crashes::{Crashes, Overhead, nanos};
use crate::line::{Line, get};
use crate::load::random;
use crate::peer_etcd::journal;
use crate::server::Server;
use crate::voices::{Said, Voices};

const TTL: Duration = Duration::from_secs(2);
/// Elections that one process leads.
const ELECTIONS: usize = 30;
/// How long anything is waited for: a bound on a hang.
const HANG: Duration = Duration::from_secs(60);
/// By when an answer that was under way has arrived.
const UNDER_WAY: Duration = Duration::from_millis(20);

/// One side: who leads all, and who waits for all.
pub(crate) struct Side {
    voices: Voices,
    leads: BTreeMap<usize, (usize, u64)>,
    /// When the lease of each election ends, by the last word of whoever holds it: only etcd's say so.
    kept: BTreeMap<(usize, usize), u64>,
    holder: usize,
}

impl Side {
    fn new() -> std::io::Result<Side> {
        Ok(Side { voices: Voices::new()?, leads: BTreeMap::new(), kept: BTreeMap::new(), holder: 0 })
    }

    fn take(&mut self, said: &Said) {
        if let Some((what, at, seconds)) = journal(&said.line) {
            let identity = said.line.split(' ').nth(1).unwrap_or_default();
            let number = identity.rsplit('-').next().and_then(|number| number.parse().ok());
            match (what, number, seconds) {
                ("start" | "leads", Some(number), _) => {
                    self.leads.insert(number, (said.who, at));
                }
                ("kept", Some(number), Some(seconds)) => {
                    self.kept.insert((said.who, number), at + nanos(Duration::from_secs(seconds)));
                }
                (_, _, _) => {}
            }
        }
    }

    /// Waits until one process leads all elections. An election that it leads early counts too.
    fn await_all(&mut self, who: usize) -> std::io::Result<()> {
        let begun = Instant::now();
        while self.leads.values().filter(|(leader, _)| *leader == who).count() < ELECTIONS {
            if begun.elapsed() > HANG {
                return Err(std::io::Error::other("not all elections were taken over"));
            }
            let said = self.voices.next(HANG, "nobody took over")?;
            self.take(&said);
        }
        Ok(())
    }

    fn catch_up(&mut self) {
        let said: Vec<Said> = self.voices.so_far().collect();
        said.iter().for_each(|said| self.take(said));
    }

    /// One crash of all that the holder leads. `ends` says when their leases end.
    fn crash(
        &mut self,
        next: &mut Command,
        ends: impl FnOnce(&mut Side) -> std::io::Result<Vec<u64>>,
        crashes: &mut Crashes,
    ) -> std::io::Result<()> {
        std::thread::sleep(random(TTL / 3));
        let (dead, successor) = (self.holder, self.holder + 1);
        self.voices.kill(dead)?;
        std::thread::sleep(UNDER_WAY);
        self.catch_up();
        let ends = ends(self)?;
        self.await_all(successor)?;
        for (number, lease_end) in ends.into_iter().enumerate() {
            if let Some((_, leads)) = self.leads.get(&number) {
                crashes.add(&Overhead { leads: *leads, lease_end });
            }
        }
        self.holder = successor;
        self.voices.start(next)?;
        Ok(())
    }
}

/// Both sides.
pub(crate) struct Sides<'a> {
    runtime: &'a Runtime,
    server: &'a Server,
    etcd: &'a Etcd,
    ours: Side,
    recipe: Side,
}

impl<'a> Sides<'a> {
    /// Everybody leads or is in line when it returns.
    pub(crate) fn start(
        runtime: &'a Runtime,
        server: &'a Server,
        etcd: &'a Etcd,
    ) -> std::io::Result<Sides<'a>> {
        let (mut ours, mut recipe) = (Side::new()?, Side::new()?);
        ours.voices.start(&mut candidate(server)?)?;
        recipe.voices.start(&mut peer(etcd, &recipe)?)?;
        ours.await_all(0)?;
        recipe.await_all(0)?;
        ours.voices.start(&mut candidate(server)?)?;
        let next = &mut peer(etcd, &recipe)?;
        recipe.voices.start(next)?;
        std::thread::sleep(TTL);
        Ok(Sides { runtime, server, etcd, ours, recipe })
    }

    /// One crash on each side.
    pub(crate) fn round(&mut self) -> std::io::Result<(Crashes, Crashes)> {
        let (mut mine, mut theirs) = (Crashes::default(), Crashes::default());
        let (runtime, address) = (self.runtime, &self.server.address);
        self.ours.crash(
            &mut candidate(self.server)?,
            |_| runtime.block_on(lease_ends(address)),
            &mut mine,
        )?;
        let next = &mut peer(self.etcd, &self.recipe)?;
        let kept = |side: &mut Side| {
            let ends = (0..ELECTIONS).map(|number| side.kept.get(&(side.holder, number)).copied());
            ends.collect::<Option<_>>().ok_or_else(|| std::io::Error::other("a lease that was never kept"))
        };
        self.recipe.crash(next, kept, &mut theirs)?;
        Ok((mine, theirs))
    }
}

fn candidate(server: &Server) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    let (ttl, count) = (TTL.as_millis().to_string(), ELECTIONS.to_string());
    command.args(["--candidates", &url(server), "agent", &ttl, &count]);
    Ok(command)
}

fn peer(etcd: &Etcd, side: &Side) -> std::io::Result<Command> {
    let identity = format!("peer{}", side.voices.next_number());
    let mut command = elector(&etcd.address, "crash", &identity, TTL)?;
    command.args(["--kept", "--elections", &ELECTIONS.to_string()]);
    Ok(command)
}

/// When the leases end, by what the server says is left of them.
async fn lease_ends(address: &str) -> std::io::Result<Vec<u64>> {
    let mut line = Line::open(address).await?;
    let mut ends = Vec::new();
    for number in 0..ELECTIONS {
        let request = get(&format!("/v1/elections/{}/leader", candidates::election(number)));
        let asked = boot::now().as_nanos();
        let told: serde_json::Value = serde_json::from_slice(line.done(&request).await?)?;
        let remaining = told["remaining_ms"].as_u64();
        let remaining =
            remaining.ok_or_else(|| std::io::Error::other("the server does not say what is left"))?;
        ends.push(asked + nanos(Duration::from_millis(remaining)));
    }
    Ok(ends)
}
