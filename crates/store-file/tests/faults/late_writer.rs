//! A writer that sleeps while more versions go by than are kept.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout};

use baton_store::{AgeStamp, Expect, Persistence, Store, StoreError};
use baton_store_file::FileStore;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    candidate, candidate_key, child, found, number_of, numbers, read, role, versions, write_many, writer,
};

/// How many versions a record keeps.
const KEPT: usize = 1_000;

#[tokio::test]
async fn a_swap_against_a_version_that_was_pruned_is_a_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let (late, busy) = (writer(folder.path()), writer(folder.path()));
    let _ = write_many(&busy, 5).await;
    let (_, seen) = found(&late, &candidate_key()).await;
    let (last, version) = write_many(&busy, 1_104).await;
    let kept = numbers(folder.path(), &candidate_key());
    assert!(kept.len() <= KEPT, "{} versions are kept", kept.len());
    assert!(kept.windows(2).all(|pair| pair[0] + 1 == pair[1]), "without a gap");
    assert_eq!(kept.last(), Some(&last));

    // The names next to what it saw are free, since they were pruned; they are not the next version for that.
    for expect in [Expect::Version(seen), Expect::Absent] {
        let swapped =
            late.swap(&candidate_key(), expect, &candidate(6), AgeStamp::Reset, Persistence::Synced).await;
        assert!(matches!(swapped, Err(StoreError::Conflict)), "{swapped:?}");
    }
    assert_eq!(numbers(folder.path(), &candidate_key()), kept, "nothing was put into the gap");
    let latest = found(&late, &candidate_key()).await;
    assert_eq!((number_of(&latest.0), latest.1), (last, version));
}

/// A process that increments once for every line that it gets, and says how it went.
struct Incrementer {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Drop for Incrementer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Incrementer {
    fn start(test: &str, folder: &Path) -> Incrementer {
        let mut process = child(test, folder.to_str().unwrap()).spawn().unwrap();
        let (orders, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Incrementer { process, orders, answers: BufReader::new(answers) }
    }

    fn order(&mut self) {
        self.orders.write_all(b"go\n").unwrap();
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "the child ended");
            // The first one stands in a line that the test harness began.
            if let Some((_, answer)) = line.trim_end().split_once("answer ") {
                return answer.to_string();
            }
        }
    }

    /// Stops it, and returns once it stands.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.process.id());
        while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
            std::hint::spin_loop();
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

async fn increments_for_every_line(folder: &Path) {
    let store = writer(folder);
    for line in std::io::stdin().lines() {
        assert_eq!(line.unwrap(), "go");
        let reading = read(&store, &candidate_key()).await;
        let next = candidate(number_of(reading.record().unwrap()) + 1);
        let answer = match store
            .swap(&candidate_key(), reading.expect(), &next, AgeStamp::Reset, Persistence::Synced)
            .await
        {
            Ok(_) => "applied",
            Err(error) => error.code(),
        };
        std::io::stdout().write_all(format!("answer {answer}\n").as_bytes()).unwrap();
    }
}

/// Whether the child has a file that it has not linked yet.
fn is_about_to_link(folder: &Path, process: &Child) -> bool {
    let mine = format!(".tmp-{}-", process.id());
    let entries = std::fs::read_dir(versions(folder, &candidate_key()).parent().unwrap()).unwrap();
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(&mine))
}

/// A writer that was stopped between its look at version 3 and its link.
async fn stopped_before_its_link(test: &str, folder: &Path, busy: &FileStore) -> Incrementer {
    let _ = write_many(busy, 3).await;
    let mut late = Incrementer::start(test, folder);
    loop {
        late.order();
        while !is_about_to_link(folder, &late.process) {
            std::hint::spin_loop();
            if late.process.try_wait().unwrap().is_some() {
                panic!("the child ended");
            }
            // Too late for this time: its version stands.
            if number_of(&found(busy, &candidate_key()).await.0) > 3 {
                break;
            }
        }
        late.stop();
        let now = number_of(&found(busy, &candidate_key()).await.0);
        if now == 3 && is_about_to_link(folder, &late.process) {
            return late;
        }
        late.signal(Signal::CONT);
        assert_eq!(late.answer(), "applied");
        // Begin anew with a store of three versions.
        std::fs::remove_dir_all(versions(folder, &candidate_key())).unwrap();
        let _ = write_many(busy, 3).await;
    }
}

/// Stopped between its look and its link, the writer finds the name of its version free again: it was taken, and pruned.
#[tokio::test]
async fn a_writer_stopped_in_the_middle_is_not_told_of_success() {
    const NAME: &str = "faults::late_writer::a_writer_stopped_in_the_middle_is_not_told_of_success";
    if let Some(folder) = role() {
        return increments_for_every_line(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let busy = writer(folder.path());
    let mut late = stopped_before_its_link(NAME, folder.path(), &busy).await;
    let (last, version) = write_many(&busy, 1_050).await;
    assert_eq!(last, 3 + 1_050);
    late.signal(Signal::CONT);
    let answer = late.answer();
    assert!(["conflict", "unknown"].contains(&answer.as_str()), "{answer}");
    for store in [&busy, &writer(folder.path())] {
        let latest = found(store, &candidate_key()).await;
        assert_eq!((number_of(&latest.0), &latest.1), (last, &version), "the late write is not the truth");
    }
    late.order();
    assert_eq!(late.answer(), "applied", "and it goes on from the truth");
    assert_eq!(number_of(&found(&busy, &candidate_key()).await.0), last + 1);
}

/// Its version would be the highest in the folder that was made anew meanwhile, and so the truth.
#[tokio::test]
async fn a_writer_stopped_in_the_middle_puts_nothing_into_a_folder_that_was_made_anew() {
    const NAME: &str =
        "faults::late_writer::a_writer_stopped_in_the_middle_puts_nothing_into_a_folder_that_was_made_anew";
    if let Some(folder) = role() {
        return increments_for_every_line(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let busy = writer(folder.path());
    let mut late = stopped_before_its_link(NAME, folder.path(), &busy).await;
    std::fs::remove_dir_all(versions(folder.path(), &candidate_key())).unwrap();
    let (last, version) = write_many(&busy, 1).await;
    assert_eq!(last, 1);
    late.signal(Signal::CONT);
    assert_eq!(late.answer(), "conflict");
    assert_eq!(numbers(folder.path(), &candidate_key()), [1]);
    let latest = found(&writer(folder.path()), &candidate_key()).await;
    assert_eq!((number_of(&latest.0), latest.1), (1, version));
}
