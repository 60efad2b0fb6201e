//! Real processes that race, and are killed at any moment.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant, SystemTime};

use baton_store::{Store, StoreError};

use crate::support::{
    HANG, candidate, candidate_key, child, found, increment, number_of, numbers, parse, role, versions,
    write_many, writer,
};

const NAME: &str = "faults::racing::processes_that_are_killed_lose_no_update_and_tear_no_version";
const RACERS: usize = 4;

/// Increments for ever, and notes every success.
async fn race(folder: &Path) {
    let store = writer(folder);
    let mut notes = fs::File::create(folder.join(format!("notes-{}", std::process::id()))).unwrap();
    loop {
        match increment(&store).await {
            Ok(written) => notes.write_all(format!("{written}\n").as_bytes()).unwrap(),
            Err(StoreError::Conflict) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// What the racers were told is written, with how often.
fn acknowledged(folder: &Path) -> BTreeMap<u64, usize> {
    let mut counts = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("notes-") {
            for line in fs::read_to_string(entry.path()).unwrap().lines() {
                *counts.entry(line.parse().unwrap()).or_default() += 1;
            }
        }
    }
    counts
}

struct Racers(Vec<Child>);

impl Drop for Racers {
    fn drop(&mut self) {
        for racer in &mut self.0 {
            let _ = racer.kill();
            let _ = racer.wait();
        }
    }
}

fn random(below: usize) -> usize {
    getrandom::u32().unwrap() as usize % below
}

fn start(folder: &Path) -> Child {
    let mut racer = child(NAME, folder.to_str().unwrap());
    racer.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap()
}

#[tokio::test]
async fn processes_that_are_killed_lose_no_update_and_tear_no_version() {
    if let Some(folder) = role() {
        return race(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = writer(folder.path());
    let seconds = if std::env::var_os("BATON_CAMPAIGN").is_some() { 30 } else { 4 };
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut racers = Racers((0..RACERS).map(|_| start(folder.path())).collect());
    let mut killed: u64 = 0;
    while Instant::now() < until {
        // The pace of the killing, not a wait for something.
        tokio::time::sleep(Duration::from_millis(u64::try_from(random(60)).unwrap())).await;
        let victim = random(RACERS);
        racers.0[victim].kill().unwrap();
        racers.0[victim].wait().unwrap();
        killed += 1;
        racers.0[victim] = start(folder.path());
        // Whatever is there at any moment is whole.
        if let Some((record, _)) = store.read(&candidate_key()).await.unwrap().found {
            assert!(number_of(&record) > 0);
        }
    }
    // On a busy machine all of them may have been killed before they came to write: the last ones are let.
    while acknowledged(folder.path()).is_empty() {
        assert!(Instant::now() < until + HANG, "nobody comes to write");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(racers);
    let told = acknowledged(folder.path());
    let last = number_of(&found(&writer(folder.path()), &candidate_key()).await.0);
    let told_count = u64::try_from(told.len()).unwrap();
    assert!(told_count > 0, "nobody came to write");
    assert!(told.values().all(|count| *count == 1), "two were told that they wrote the same version");
    assert!(told.keys().last() <= Some(&last), "an update is lost");
    assert!(
        last - told_count <= killed + RACERS as u64,
        "{last} versions, {told_count} told, {killed} killed"
    );
    whole_and_without_gaps(folder.path(), last);
    leftovers_do_no_harm(folder.path()).await;
}

/// Each version is whole, and what one racer wrote the next built on.
fn whole_and_without_gaps(folder: &Path, last: u64) {
    let kept = numbers(folder, &candidate_key());
    assert!(kept.len() <= 1_000 + RACERS, "{} versions are kept", kept.len());
    assert_eq!(kept, (last + 1 - u64::try_from(kept.len()).unwrap()..=last).collect::<Vec<_>>());
    for number in kept {
        let path = versions(folder, &candidate_key()).join(number.to_string());
        let (header, body) = parse(&fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(header.version, number);
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["beat"], number, "version {number} was not built on the one before it");
    }
}

/// What killed writers left is found once it is old, and swept in passing.
async fn leftovers_do_no_harm(folder: &Path) {
    let place = versions(folder, &candidate_key()).parent().unwrap().to_path_buf();
    fs::write(place.join(".tmp-1-2-3"), "half a vers").unwrap();
    let store = writer(folder);
    let left: Vec<PathBuf> = fs::read_dir(&place)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(".tmp-"))
        .collect();
    assert_eq!(store.leftovers(), Vec::<PathBuf>::new(), "a fresh one may be somebody's who is at it");
    for path in &left {
        let long_ago = SystemTime::now() - Duration::from_secs(7_200);
        fs::File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
    }
    let mut expected = left.clone();
    expected.sort();
    let mut reported = store.leftovers();
    reported.sort();
    assert_eq!(reported, expected);
    let before = number_of(&found(&store, &candidate_key()).await.0);
    let (last, _) = write_many(&store, 101).await;
    assert_eq!(last, before + 101);
    assert_eq!(found(&store, &candidate_key()).await.0, candidate(last));
    assert_eq!(store.leftovers(), Vec::<PathBuf>::new(), "writers sweep in passing");
}
