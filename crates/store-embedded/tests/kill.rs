//! A process that is killed while it writes: what was answered is there.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use baton_store::{Access, AgeStamp, Persistence, Prefix, Record, Store, StoreError};
use baton_store_embedded::EmbeddedStore;

use crate::support::{TestStore, document, key, led, number, record, taken_over};

const ROUNDS: u64 = 50;
const WRITERS: u8 = 8;
/// Names the file to the process that is to be killed.
const CHILD: &str = "BATON_TEST_EMBEDDED_CHILD";

#[test]
fn a_killed_writer_loses_nothing_that_it_answered() {
    if let Some(path) = std::env::var_os(CHILD) {
        write_for_ever(Path::new(&path));
    }
    let place = TestStore::new();
    let path = place.file("baton.redb");
    let mut acknowledged: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut highest = 0;
    for round in 0..ROUNDS {
        let answers = killed_after(&path, Duration::from_millis(5 + (round * 37) % 60));
        for (name, version, beat) in answers {
            assert!(version > highest, "round {round}: version {version} of {name} came back");
            acknowledged.insert(name, (version, beat));
        }
        let store = EmbeddedStore::open(&path, Access::Write).unwrap();
        let mut seen = 0;
        store
            .load(&Prefix::Elections, |key, record, version| {
                let Record::Election(found) = record else { panic!("{key} is no election") };
                let (answered, beat) = acknowledged.get(&key.to_string()).copied().unwrap_or_default();
                assert!(number(&version) >= answered, "round {round}: {key} went back to {version:?}");
                assert!(found.beat >= beat, "round {round}: {key} lost a change");
                highest = highest.max(number(&version));
                seen += 1;
            })
            .unwrap();
        assert!(seen >= acknowledged.len(), "round {round}: an election is gone");
    }
    assert!(acknowledged.values().map(|(_, beat)| beat).sum::<u64>() > ROUNDS, "something was written");
}

/// Starts this test anew as a process that writes, kills it, and returns what it said was answered.
fn killed_after(path: &Path, after: Duration) -> Vec<(String, u64, u64)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::a_killed_writer_loses_nothing_that_it_answered", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // From the first answer on, so that opening the file does not count.
    let first = lines.by_ref().map(Result::unwrap).find(|line| line.starts_with("answered ")).unwrap();
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    let rest = lines.map_while(Result::ok);
    let parse = |line: String| {
        let mut words = line.strip_prefix("answered ")?.split(' ');
        let name = words.next()?.to_string();
        // A line that was cut off has no full stop.
        let (version, beat) = (words.next()?.parse().ok()?, words.next()?.strip_suffix('.')?.parse().ok()?);
        Some((name, version, beat))
    };
    std::iter::once(first).chain(rest).filter_map(parse).collect()
}

fn write_for_ever(path: &Path) -> ! {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let store = EmbeddedStore::open(path, Access::Write).unwrap();
    runtime.block_on(async {
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            let store = store.clone();
            writers.spawn(async move { write(&store, writer).await });
        }
        let _ = writers.join_next().await;
    });
    unreachable!("the writers never end")
}

async fn write(store: &EmbeddedStore, writer: u8) {
    let name = format!("e{writer}");
    loop {
        let reading = store.read(&key(&name)).await.unwrap();
        let mut next = match &reading.found {
            None => led(&name, writer),
            Some(_) => {
                let old = document(&reading);
                // Now and then somebody takes over, which writes a transition too.
                match old.beat % 3 {
                    0 => taken_over(&old, writer + if old.epoch.0.is_multiple_of(2) { 100 } else { 150 }),
                    _ => old,
                }
            }
        };
        next.beat += 1;
        match store
            .swap(&key(&name), reading.expect(), &record(&next), AgeStamp::Reset, Persistence::Durable)
            .await
        {
            Ok(swapped) => {
                let line = format!("answered {name} {} {}.\n", swapped.version.as_str(), next.beat);
                std::io::stdout().write_all(line.as_bytes()).unwrap();
            }
            Err(StoreError::Conflict) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
