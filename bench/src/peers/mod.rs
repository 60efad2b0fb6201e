//! Baton's server beside etcd and Redis, all in one run: `how.md` says how, and stands in the page that this writes.
//!
//! Nothing fails because a bar is missed: the table says so. What fails is an operation that does not do what it should.

mod crash;
mod crowd;
mod etcd;
mod quiet;
mod redis;
mod report;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio::runtime::Runtime;

use self::etcd::{Etcd, Session};
use self::quiet::Quiet;
use self::redis::Redis;
use self::report::Row;
use crate::calibrate;
use crate::crashes::{Crashes, told};
use crate::figures::{self, percentile};
use crate::peer_etcd::{self, library_block, recipe_block};
use crate::rounds::Rate;
use crate::server::{CLIENTS, LEASES, Server, UNDER_WAY};

/// Rounds of each measurement.
const ROUNDS: usize = 5;
/// Rounds that may be carried out again in all.
const PATIENCE: usize = 25;
/// Leases that are loaded while others fail over.
const LOADED: usize = 100_000;
/// The most leases.
const MOST: usize = 1_000_000;
/// The lease of those who hand over.
const TTL: Duration = Duration::from_secs(2);

/// What can be measured by itself: `peers:NAME`. The page is written only if all of it was.
pub(crate) const PARTS: [&str; 6] = ["pairs", "renewals", "reads", "loaded", "crowd", "memory"];

/// What the measurements share.
struct Stage {
    runtime: Runtime,
    baton: PathBuf,
    quiet: Quiet,
    rows: Vec<Row>,
}

/// Measures these parts, or all, and shows the table.
pub(crate) fn measure(baton: &Path, parts: &[&str]) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // A part is for a quick look.
    let patience = if parts.is_empty() { PATIENCE } else { 0 };
    let mut stage =
        Stage { runtime, baton: baton.to_path_buf(), quiet: Quiet::new(patience), rows: Vec::new() };
    let wanted = |part: &str| parts.is_empty() || parts.contains(&part);
    if wanted("pairs") {
        stage.pairs()?;
    }
    if wanted("renewals") || wanted("reads") {
        stage.leases(wanted("renewals"), wanted("reads"))?;
    }
    if wanted("loaded") {
        stage.loaded()?;
    }
    if wanted("crowd") {
        stage.crowd()?;
    }
    if wanted("memory") {
        stage.most()?;
    }
    let (table, account) = (report::table(&stage.rows), report::account(baton, &stage.quiet)?);
    figures::print(&format!("{account}\n{table}"))?;
    if parts.is_empty() { report::write(&table, &account) } else { Ok(()) }
}

impl Stage {
    /// Acquire and release, by many and by one.
    fn pairs(&mut self) -> std::io::Result<()> {
        let folder = calibrate::scratch()?;
        let server = Server::start(&self.baton, folder.path())?;
        let redis = Redis::start(folder.path())?;
        let runtime = &self.runtime;
        let etcd = runtime.block_on(Etcd::start(folder.path()))?;
        for (clients, work) in [(CLIENTS, "64 clients"), (1, "1 client")] {
            let rounds = self.quiet.rounds(ROUNDS, |_| {
                runtime.block_on(async {
                    Ok([
                        server.pairs(clients).await?,
                        etcd.pairs(clients, Session::Kept).await?,
                        etcd.pairs(clients, Session::Each).await?,
                        redis.pairs(clients).await?,
                    ])
                })
            })?;
            let [ours, kept, each, redis] = medians(&rounds);
            let (many, work) = (clients > 1, format!("durable acquire + release, {work}"));
            let bars = if many { (4.0, Some(1.0)) } else { (1.5, None) };
            self.rows.push(Row::times(&work, ours, ("etcd", kept), Some(bars.0)));
            self.rows.push(Row::times(&work, ours, ("Redis", redis), bars.1));
            let work = format!("{work}, etcd with a lease each time");
            self.rows.push(Row::times(&work, ours, ("etcd", each), None));
        }
        Ok(())
    }

    /// Renewals and reads of 10,000 leases.
    fn leases(&mut self, renewals: bool, reads: bool) -> std::io::Result<()> {
        let folder = calibrate::scratch()?;
        let server = Server::start(&self.baton, folder.path())?;
        let runtime = &self.runtime;
        let etcd = runtime.block_on(Etcd::start(folder.path()))?;
        runtime.block_on(server.fill(0..LEASES))?;
        let leases = runtime.block_on(etcd.fill(LEASES))?;
        if renewals {
            let rounds = self.quiet.rounds(ROUNDS, |_| {
                runtime.block_on(async {
                    Ok([
                        server.renewals(UNDER_WAY).await?,
                        etcd.keep_alives(&leases, UNDER_WAY).await?,
                        server.renewals(1).await?,
                        etcd.keep_alives(&leases, 1).await?,
                        server.batches().await?,
                    ])
                })
            })?;
            let [many, their_many, ours, theirs, batched] = medians(&rounds);
            let work = "renewals, one per message, 10,000 leases";
            let cpu = Duration::from_micros(18);
            self.rows.push(Row::times(work, ours, ("etcd", theirs), Some(2.0)));
            self.rows.push(Row::at_most(&format!("{work}, server CPU"), ours.cpu, theirs.cpu, cpu));
            let work = "renewals, one per message, 16 under way for each client";
            self.rows.push(Row::times(work, many, ("etcd", their_many), None));
            self.rows.push(Row::at_least("renewals, batched", batched, 500_000.0));
        }
        if reads {
            let rounds = self.quiet.rounds(ROUNDS, |_| {
                runtime.block_on(async { Ok([server.reads().await?, etcd.reads().await?]) })
            })?;
            let [ours, theirs] = medians(&rounds);
            self.rows.push(Row::times("who leads, asked of the server", ours, ("etcd", theirs), Some(4.0)));
        }
        Ok(())
    }

    /// With 100,000 leases: memory, fail-over, hand-over.
    fn loaded(&mut self) -> std::io::Result<()> {
        let folder = calibrate::scratch()?;
        let server = Server::start(&self.baton, folder.path())?;
        let runtime = &self.runtime;
        let etcd = runtime.block_on(Etcd::start(folder.path()))?;
        runtime.block_on(server.fill(0..LOADED))?;
        runtime.block_on(etcd.fill(LOADED))?;
        let (ours, theirs) = (server.process.memory()?, etcd.process.memory()?);
        self.rows.push(Row::memory("memory at 100,000 leases", ours, Some(theirs), 60_000_000));

        let mut sides = crash::Sides::start(runtime, &server, &etcd)?;
        let rounds = self.quiet.rounds(ROUNDS + 1, |_| sides.round())?;
        drop(sides);
        let (mut mine, mut theirs) = (Crashes::default(), Crashes::default());
        for (ours, recipes) in rounds {
            mine.extend(ours);
            theirs.extend(recipes);
        }
        for (name, p, bar) in [("p50", 0.5, 5), ("p99", 0.99, 15)] {
            let work = format!("overhead past expiry after SIGKILL, 100,000 leases loaded, {name}");
            let [ours, recipes] = [&mut mine, &mut theirs].map(|side| percentile(&mut side.values, p));
            self.rows.push(Row::at_most(&work, ours, recipes, Duration::from_millis(bar)));
        }
        self.rows.push(Row::never("successors that led before the lease had ended", mine.early()));

        let rounds = self.quiet.rounds(ROUNDS, |round| {
            let place = format!("hand-over-{round}");
            let ours = library_block(&url(&server))?;
            Ok((ours, recipe_block(&|identity| elector(&etcd.address, &place, identity, TTL))?))
        })?;
        let (mut mine, mut theirs) = (Vec::new(), Vec::new());
        for (ours, recipes) in rounds {
            mine.extend(ours);
            theirs.extend(recipes);
        }
        let [ours, recipes] = [&mut mine, &mut theirs].map(|side| percentile(side, 0.5));
        self.rows.push(Row::part_of("graceful hand-over, p50", ours, recipes, 0.5));
        Ok(())
    }

    /// A thousand who wait for one.
    fn crowd(&mut self) -> std::io::Result<()> {
        let folder = calibrate::scratch()?;
        let server = Server::start(&self.baton, folder.path())?;
        let runtime = &self.runtime;
        let etcd = runtime.block_on(Etcd::start(folder.path()))?;
        let rounds = self.quiet.rounds(ROUNDS, |round| {
            Ok((runtime.block_on(crowd::ours(&server, round))?, crowd::recipe(&etcd, round)?))
        })?;
        let (mut mine, mut theirs): (Vec<_>, Vec<_>) =
            rounds.iter().map(|(ours, recipe)| (ours.took, *recipe)).unzip();
        let [ours, recipes] = [&mut mine, &mut theirs].map(|side| percentile(side, 0.5));
        self.rows.push(Row::part_of(
            "1,000 waiting candidates, leader resigns, all know",
            ours,
            recipes,
            1.0,
        ));
        let failed = rounds.iter().map(|(ours, _)| ours.failed).sum();
        self.rows.push(Row::never("the same, attempts that failed", failed));
        Ok(())
    }

    /// A million leases.
    fn most(&mut self) -> std::io::Result<()> {
        let folder = calibrate::scratch()?;
        let server = Server::start(&self.baton, folder.path())?;
        self.runtime.block_on(server.fill(0..MOST))?;
        let memory = server.process.memory()?;
        self.rows.push(Row::memory("memory at 1,000,000 leases", memory, None, 500_000_000));
        Ok(())
    }
}

/// The medians of each of several rates.
fn medians<const N: usize>(rounds: &[[Rate; N]]) -> [Rate; N] {
    std::array::from_fn(|place| median(rounds.iter().map(|round| round[place])))
}

/// etcd's own recipe as a process.
fn elector(address: &str, place: &str, identity: &str, ttl: Duration) -> std::io::Result<Command> {
    let program = told("BATON_TEST_ETCD_ELECTOR")?;
    Ok(peer_etcd::elector(&program, address, place, identity, ttl))
}

/// A server of ours as a store.
fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

/// A port that nobody listens at.
fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// The medians of several rates.
fn median(rates: impl IntoIterator<Item = Rate>) -> Rate {
    let (mut per_second, mut cpu): (Vec<f64>, Vec<Duration>) =
        rates.into_iter().map(|rate| (rate.per_second, rate.cpu)).unzip();
    per_second.sort_unstable_by(f64::total_cmp);
    cpu.sort_unstable();
    let middle = per_second.len() / 2;
    Rate {
        per_second: per_second.get(middle).copied().unwrap_or_default(),
        cpu: cpu.get(middle).copied().unwrap_or_default(),
    }
}
