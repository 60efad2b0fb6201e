//! How fast the store is on this disk: `cargo run --release -p baton-store-embedded --example speed [FOLDER [ELECTIONS]]`.
#![allow(clippy::unwrap_used, reason = "a measurement that fails has nothing to say")]
#![allow(clippy::print_stdout, reason = "this is what it is for")]

use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use baton_election::command::Acquire;
use baton_election::id::{Incarnation, LeaseKey, StoreId};
use baton_election::{Command, Document, ElectionName, Epoch, Evidence, Span, WallTime, decide};
use baton_store::{Access, AgeStamp, Expect, Key, Persistence, Prefix, Record, Store};
use baton_store_embedded::{EmbeddedStore, Write};
use rustix::time::{ClockId, clock_gettime};

const LASTS: Duration = Duration::from_secs(3);

fn cpu() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec.try_into().unwrap(), used.tv_nsec.try_into().unwrap())
}

/// A document as a grant leaves it.
fn led(name: &str) -> Document {
    let election = ElectionName::new(name).unwrap();
    let acquire = Acquire {
        task: Some("measure".to_string()),
        capabilities: Default::default(),
        limits: Default::default(),
        ..Acquire::new(
            baton_election::AgentName::new("agent-1").unwrap(),
            Incarnation([1; 8]),
            LeaseKey([1; 16]).hash(),
        )
    };
    let evidence = Evidence {
        election: &election,
        store: StoreId([7; 8]),
        age: Span::ZERO,
        wall: WallTime::from_unix_millis(1_700_000_000_000),
        floor: Epoch(0),
        vanished_lease: Span::ZERO,
        operator_keys: &[],
    };
    decide(None, &Command::Acquire(acquire), &evidence).unwrap().next.unwrap()
}

fn shown(what: &str, mut took: Vec<Duration>) {
    took.sort();
    println!("{what}: p50 {:?}, p99 {:?}", took[took.len() / 2], took[took.len() * 99 / 100]);
}

/// What a sync of so many pages costs at the least.
fn sync(folder: &Path, pages: u64) {
    let path = folder.join("sync");
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(&vec![1; 1 << 20]).unwrap();
    file.sync_all().unwrap();
    let took = (0..2_000_u64).map(|turn| {
        let begun = Instant::now();
        for page in 0..pages {
            file.write_all_at(&[7; 4096], ((turn * 7 + page * 29) % 256) * 4096).unwrap();
        }
        file.sync_data().unwrap();
        begun.elapsed()
    });
    shown(&format!("{pages} pages and fdatasync"), took.collect());
    std::fs::remove_file(path).unwrap();
}

/// What the database by itself needs for one change.
fn database(folder: &Path) {
    const TABLE: redb::TableDefinition<'static, u64, &[u8]> = redb::TableDefinition::new("t");
    let path = folder.join("plain");
    let database = redb::Database::create(&path).unwrap();
    let (begun, used) = (Instant::now(), cpu());
    let took = (0..2_000_u64).map(|turn| {
        let begun = Instant::now();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(TABLE).unwrap().insert(turn % 4, [7; 900].as_slice()).unwrap();
        transaction.commit().unwrap();
        begun.elapsed()
    });
    shown("a commit of the plain database", took.collect());
    println!("  {:?} of {:?} each are CPU", (cpu() - used) / 2_000, begun.elapsed() / 2_000);
}

/// Swaps by so many tasks, each of its own election. `grants`: every swap brings a new epoch and a transition.
async fn swaps(store: &EmbeddedStore, tasks: usize, grants: bool) {
    let (begun, used) = (Instant::now(), cpu());
    let mut running = tokio::task::JoinSet::new();
    for task in 0..tasks {
        let store = store.clone();
        running.spawn(async move {
            let mut document = led(&format!("t{task}"));
            let key = Key::Election(document.election.clone());
            let mut expect = store.read(&key).await.unwrap().expect();
            let mut took = Vec::new();
            while begun.elapsed() < LASTS {
                document.beat += 1;
                if grants {
                    document.epoch = document.epoch.next();
                    let mut transition = (**document.last_transition.as_ref().unwrap()).clone();
                    transition.epoch = document.epoch;
                    document.last_transition = Some(transition.into());
                    let leader = document.leader.as_mut().unwrap();
                    (leader.epoch, leader.granted) = (document.epoch, document.epoch);
                }
                let sent = Instant::now();
                let record = Record::Election(Box::new(document.clone()));
                let swapped =
                    store.swap(&key, expect, &record, AgeStamp::Reset, Persistence::Durable).await.unwrap();
                took.push(sent.elapsed());
                expect = Expect::Version(swapped.version);
            }
            took
        });
    }
    let mut took: Vec<Duration> = running.join_all().await.into_iter().flatten().collect();
    let (lasted, used) = (begun.elapsed(), cpu() - used);
    took.sort();
    let count = u32::try_from(took.len()).unwrap();
    println!(
        "{tasks:3} tasks, {}: {:6.0} swaps/s, p50 {:?}, p99 {:?}, {:?} of CPU each",
        if grants { "grants  " } else { "renewals" },
        f64::from(count) / lasted.as_secs_f64(),
        took[took.len() / 2],
        took[took.len() * 99 / 100],
        used / count
    );
}

async fn fill(store: &EmbeddedStore, elections: usize) {
    let begun = Instant::now();
    for first in (0..elections).step_by(1_000) {
        let changes = (first..elections.min(first + 1_000)).map(|number| {
            let document = led(&format!("many/e{number:07}"));
            let key = Key::Election(document.election.clone());
            let next = Record::Election(Box::new(document));
            Write { key, expect: Expect::Absent, next, clock: AgeStamp::Reset }
        });
        store.commit(changes.collect()).await.unwrap();
    }
    println!("{elections} elections written in {:?}", begun.elapsed());
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".to_string());
    let elections = std::env::args().nth(2).map_or(100_000, |number| number.parse().unwrap());
    let folder = tempfile::tempdir_in(folder).unwrap();
    let path = folder.path().join("baton.redb");
    for pages in [1, 4, 8, 16] {
        sync(folder.path(), pages);
    }
    database(folder.path());
    let store = EmbeddedStore::open(&path, Access::Write).unwrap();
    for (tasks, grants) in [(1, false), (1, true), (64, false), (64, true), (256, false)] {
        swaps(&store, tasks, grants).await;
    }
    fill(&store, elections).await;
    for (tasks, grants) in [(1, false), (64, false), (64, true)] {
        swaps(&store, tasks, grants).await;
    }
    let begun = Instant::now();
    store.snapshot(&folder.path().join("snapshot")).unwrap();
    println!("a snapshot of {} MB took {:?}", path.metadata().unwrap().len() >> 20, begun.elapsed());
    let unclosed = folder.path().join("unclosed");
    std::fs::copy(&path, &unclosed).unwrap();
    drop(store);
    for (path, state) in [(path, "closed"), (unclosed, "killed")] {
        let begun = Instant::now();
        let store = EmbeddedStore::open(&path, Access::Write).unwrap();
        let opened = begun.elapsed();
        let count = store.load(&Prefix::Elections, |_, _, _| {}).unwrap();
        println!("{state}: opened in {opened:?}, {count} elections loaded after {:?}", begun.elapsed());
    }
}
