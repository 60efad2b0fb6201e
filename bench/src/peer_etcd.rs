//! Beside etcd's own election recipe (`client/v3/concurrency`), on the same etcd, leases of 2 s.
//!
//! *Crash*: see [`crate::crashes`]. etcd grants at least what its election timeout asks for, in whole seconds: the end
//! of the recipe's lease counts by the length that was granted.
//!
//! *Graceful hand-over*: from the call of release or resign in one process until another, which is in line, leads. A library
//! against a library: two processes that take turns with `Leadership::release` beside two that do it with
//! `Election.Resign`, each leading for 250 ms at a time. Shown without a bar: the same with `?election=etcd`, where Baton takes
//! part in etcd's own elections; and `baton run`, which the recipe has nothing like, from the last thing that CMD does
//! until the first thing that the next CMD does.
//!
//! Rounds of ours and of the recipe's take turns.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use baton_store::boot;

use crate::crashes::{
    Beat, Crashes, Ours, Overhead, Renewals, carry_out, nanos, spread, terms, told, unique,
};
use crate::figures::{Figure, percentile};
use crate::handover::{self, HOLD, REST, Turn};
use crate::load::{Busy, random};
use crate::runs::{ELECTION, Runs};
use crate::voices::{Said, Voices};

const TTL: Duration = Duration::from_secs(2);
/// Between two keep-alives of the recipe's: after a third of the lease, in steps of 500 ms.
const RECIPE_RENEWS: Duration = Duration::from_secs(1);
/// Crashes of ours and of the recipe's, in turn: a new candidate gets in line while the other side crashes.
const CRASHES: usize = 40;
/// Hand-overs are measured in blocks that take turns, so that both sides see the same machine.
const BLOCKS: usize = 8;
/// Leaderships in a block. The first hand-over of a block does not count: the other may not have been in line.
const TURNS: usize = 11;
/// How long anything is waited for: a bound on a hang.
const HANG: Duration = Duration::from_secs(60);
/// How long a CMD lasts that ends by itself: the next candidate, which starts when CMD has begun, is in line by then.
const LASTS: Duration = Duration::from_millis(700);

/// Where etcd is, and what of it is ours. The keys are deleted when this is dropped.
struct Etcd {
    endpoints: String,
    etcdctl: String,
    elector: String,
    prefix: String,
}

impl Etcd {
    fn find() -> std::io::Result<Etcd> {
        Ok(Etcd {
            endpoints: told("BATON_TEST_ETCD")?,
            etcdctl: told("BATON_TEST_ETCDCTL")?,
            elector: told("BATON_TEST_ETCD_ELECTOR")?,
            prefix: unique(),
        })
    }

    fn etcdctl(&self) -> Command {
        let mut command = Command::new(&self.etcdctl);
        command.args(["--endpoints", &self.endpoints]);
        command
    }

    /// A place for an election of its own.
    fn store(&self, place: &str) -> String {
        format!("etcd://{}/{}/{place}", self.endpoints, self.prefix)
    }

    /// The recipe as a process.
    fn elector(&self, place: &str, identity: &str) -> Command {
        elector(&self.elector, &self.endpoints, &format!("{}/{place}", self.prefix), identity, TTL)
    }

    fn renewals(&self, place: &str) -> std::io::Result<Renewals> {
        let key = format!("{}/{place}/{ELECTION}", self.prefix);
        Renewals::watch(self.etcdctl().args(["watch", "--write-out", "fields", &key]), beat)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = carry_out(self.etcdctl().args(["del", "--prefix", &format!("{}/", self.prefix)]));
    }
}

/// The holder and its renewals, of the line in which `etcdctl watch` prints the value: a string, as JSON writes one.
fn beat(line: &str) -> Option<Beat> {
    let value: String = serde_json::from_str(line.strip_prefix("\"Value\" : ")?).ok()?;
    let document: serde_json::Value = serde_json::from_str(&value).ok()?;
    let leader = document.get("leader")?;
    Some((leader.get("epoch")?.to_string(), leader.get("renewals")?.to_string()))
}

/// The recipe as a process.
pub(crate) fn elector(
    program: &str,
    endpoints: &str,
    prefix: &str,
    identity: &str,
    ttl: Duration,
) -> Command {
    let mut command = Command::new(program);
    command.args(["--endpoints", endpoints, "--prefix", prefix]);
    command.args(["--identity", identity, "--ttl", &ttl.as_secs().to_string()]);
    command
}

/// All of it.
pub(crate) fn measure(baton: &Path) -> std::io::Result<Vec<Figure>> {
    let etcd = Etcd::find()?;
    let mut figures = crashes(baton, &etcd)?;
    figures.extend(hand_overs(baton, &etcd)?);
    Ok(figures)
}

fn crashes(baton: &Path, etcd: &Etcd) -> std::io::Result<Vec<Figure>> {
    let place = "crash";
    let mut recipe = Recipe::start(etcd)?;
    let mut ours = Ours::start(terms(baton, &etcd.store(place), None), TTL, || etcd.renewals(place))?;
    let (mut mine, mut theirs, mut busy) = (Crashes::default(), Crashes::default(), Busy::default());
    for _ in 0..CRASHES {
        mine.add(&busy.during(|| ours.crash())?);
        theirs.add(&busy.during(|| recipe.crash())?);
    }
    let [worst, recipes] = [&mut mine, &mut theirs].map(|side| percentile(&mut side.values, 0.99));
    Ok(vec![
        Figure::ratio("etcd: crash, past the lease, p99, beside the recipe's", worst, recipes, 0.1),
        Figure::note("  least · p50 · most, baton run", ours.spread(&mut mine)),
        Figure::note("  least · p50 · most, the recipe", theirs.spread()),
        Figure::note("  rounds with the cores over 30 % busy", busy.count()),
    ])
}

/// Processes that campaign with the recipe, and what they say.
struct Recipe<'a> {
    etcd: &'a Etcd,
    voices: Voices,
    leader: Option<(usize, u64)>,
    /// When each had the last answer to a keep-alive, and when its lease ends by that.
    kept: BTreeMap<usize, (u64, u64)>,
}

impl Recipe<'_> {
    fn start(etcd: &Etcd) -> std::io::Result<Recipe<'_>> {
        let mut recipe = Recipe { etcd, voices: Voices::new()?, leader: None, kept: BTreeMap::new() };
        recipe.spawn()?;
        recipe.spawn()?;
        recipe.await_leader()?;
        Ok(recipe)
    }

    fn spawn(&mut self) -> std::io::Result<()> {
        let identity = format!("peer-{}", self.voices.next_number());
        self.voices.start(self.etcd.elector("crash-peer", &identity).arg("--kept")).map(|_| ())
    }

    fn take(&mut self, said: &Said) {
        match journal(&said.line) {
            Some(("start", at, _)) => self.leader = Some((said.who, at)),
            Some(("kept", at, Some(seconds))) => {
                self.kept.insert(said.who, (at, at + nanos(Duration::from_secs(seconds))));
            }
            Some(_) | None => {}
        }
    }

    fn await_leader(&mut self) -> std::io::Result<(usize, u64)> {
        let begun = Instant::now();
        loop {
            if let Some(leader) = self.leader {
                return Ok(leader);
            }
            if begun.elapsed() > HANG {
                return Err(std::io::Error::other("no candidate of the recipe led in time"));
            }
            let said = self.voices.next(HANG, "no candidate of the recipe led")?;
            self.take(&said);
        }
    }

    /// One crash, anywhere between two renewals.
    fn crash(&mut self) -> std::io::Result<Overhead> {
        std::thread::sleep(random(RECIPE_RENEWS));
        let (who, _) = self.await_leader()?;
        self.await_known_lease(who)?;
        self.voices.kill(who)?;
        self.leader = None;
        let (_, leads) = self.await_leader()?;
        let lease_end = self.kept.remove(&who).map_or(leads, |(_, end)| end);
        self.spawn()?;
        Ok(Overhead { leads, lease_end })
    }

    /// Waits until no keep-alive can be under way, some milliseconds at most: one that is answered to the dead would leave the
    /// end of its lease unknown.
    fn await_known_lease(&mut self, who: usize) -> std::io::Result<()> {
        let begun = Instant::now();
        loop {
            let said: Vec<Said> = self.voices.so_far().collect();
            said.iter().for_each(|said| self.take(said));
            let age = self.kept.get(&who).map(|(at, _)| boot::now().as_nanos().saturating_sub(*at));
            if age.is_some_and(|age| (30_000_000..900_000_000).contains(&age)) {
                return Ok(());
            }
            if begun.elapsed() > HANG {
                return Err(std::io::Error::other("the recipe's leader is not heard to keep its lease"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A line of a peer's journal: what, when, and for `kept` the seconds that were granted.
pub(crate) fn journal(line: &str) -> Option<(&str, u64, Option<u64>)> {
    let mut words = line.split(' ');
    let (what, _identity, at) = (words.next()?, words.next()?, words.next()?);
    Some((what, at.parse().ok()?, words.next().and_then(|seconds| seconds.parse().ok())))
}

fn hand_overs(baton: &Path, etcd: &Etcd) -> std::io::Result<Vec<Figure>> {
    let [mut library, mut native, mut recipe, mut command] = [const { Vec::new() }; 4];
    let mut busy = Busy::default();
    for block in 0..BLOCKS {
        library.extend(busy.during(|| library_block(&etcd.store(&format!("library-{block}"))))?);
        let joined = format!("{}?election=etcd", etcd.store(&format!("native-{block}")));
        native.extend(busy.during(|| library_block(&joined))?);
        let place = format!("peer-{block}");
        recipe.extend(busy.during(|| recipe_block(&|identity| Ok(etcd.elector(&place, identity))))?);
        command.extend(busy.during(|| command_block(baton, &etcd.store(&format!("command-{block}"))))?);
    }
    let theirs = percentile(&mut recipe, 0.5);
    let [mine, joined, run] = [&mut library, &mut native, &mut command].map(|side| percentile(side, 0.5));
    Ok(vec![
        Figure::ratio("etcd: hand-over, library, p50, beside the recipe's", mine, theirs, 1.0),
        Figure::note("  least · p50 · most, Baton's library", spread(&mut library)),
        Figure::note("  least · p50 · most, the recipe", spread(&mut recipe)),
        Figure::beside("etcd: the same in etcd's own elections (?election=etcd)", joined, theirs),
        Figure::note("  least · p50 · most", spread(&mut native)),
        Figure::beside("etcd: the same by baton run, CMD's end to CMD's start, p50", run, theirs),
        Figure::note("  least · p50 · most", spread(&mut command)),
        Figure::note("  blocks with the cores over 30 % busy", busy.count()),
    ])
}

/// Two processes of Baton's take turns.
pub(crate) fn library_block(store: &str) -> std::io::Result<Vec<Duration>> {
    let mut voices = Voices::new()?;
    for agent in ["agent-a", "agent-b"] {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--take-turns", store, agent, &TTL.as_millis().to_string()]);
        voices.start(&mut command)?;
    }
    let mut turns = Vec::new();
    while turns.len() < TURNS {
        let said = voices.next(HANG, "no hand-over between two of Baton's")?;
        turns.extend(handover::turn(&said));
    }
    Ok(counted(handover::gaps(turns)))
}

/// Two processes of the recipe's take turns.
pub(crate) fn recipe_block(
    elector: &dyn Fn(&str) -> std::io::Result<Command>,
) -> std::io::Result<Vec<Duration>> {
    let mut voices = Voices::new()?;
    for identity in ["peer-a", "peer-b"] {
        let mut command = elector(identity)?;
        let [hold, rest] = [HOLD, REST].map(|pause| format!("{}ms", pause.as_millis()));
        command.args(["--loop", "--hold", &hold, "--rest", &rest]);
        voices.start(&mut command)?;
    }
    let mut turns = Vec::new();
    let mut started: BTreeMap<usize, u64> = BTreeMap::new();
    while turns.len() < TURNS {
        let said = voices.next(HANG, "no hand-over between two of the recipe's")?;
        match journal(&said.line) {
            Some(("start", at, _)) => {
                started.insert(said.who, at);
            }
            Some(("stop", releases, _)) => {
                let leads = started.remove(&said.who);
                turns.extend(leads.map(|leads| Turn { leads, releases, who: said.who, unit: 0 }));
            }
            Some(_) | None => {}
        }
    }
    Ok(counted(handover::gaps(turns)))
}

fn command_block(baton: &Path, store: &str) -> std::io::Result<Vec<Duration>> {
    let mut runs = Runs::start(terms(baton, store, Some(LASTS)), tempfile::tempdir()?)?;
    let mut turns: Vec<Turn> = Vec::new();
    let mut leads = 0;
    while turns.len() < TURNS {
        let stamp = runs.next()?;
        if stamp.ended {
            turns.push(Turn { leads, releases: stamp.at, who: stamp.run, unit: 0 });
        } else {
            leads = stamp.at;
            // One leads, one is in line.
            if !turns.is_empty() {
                runs.spawn()?;
            }
        }
    }
    Ok(counted(handover::gaps(turns)))
}

fn counted(gaps: Vec<Duration>) -> Vec<Duration> {
    gaps.into_iter().skip(1).collect()
}
