//! Copies of a server's file, for the day on which it is lost: `FILE.snapshots/TIME.redb`.
//!
//! Assumes a wall clock for two things only: how old the newest copy is when the server starts, and which hour a copy is of. Guarantees
//! that a server which is restarted often gets its copies too, that a tenth of the time at most is spent on them, and that copies which
//! are made often do not push out those of earlier hours. Does not guarantee that there is one: a copy that fails is told of, and the next
//! is tried at its time.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use baton::election::time::Span;
use baton::embedded::EmbeddedStore;
use baton::store::boot;

use crate::output::{Failure, Output};

/// How often they are taken if nobody says.
const EVERY: Span = Span::secs(3_600);
/// As often as they may be taken at most.
const SHORTEST: Span = Span::millis(50);
/// How many of the newest are kept.
const NEWEST: usize = 12;
/// Of how many hours before those the last one is kept.
const HOURS: usize = 12;
/// After one that took long, this many times as long is waited.
const REST: u32 = 9;

/// How often to take them, by what the user said; none for never.
pub(super) fn interval(given: Option<Span>) -> Result<Option<Span>, Failure> {
    match given.unwrap_or(EVERY) {
        Span::ZERO => Ok(None),
        every if every < SHORTEST => Err(Failure::usage(
            format!("a snapshot every {every} is too often; the shortest time between two is {SHORTEST}"),
            "write 1m for a minute, 0s for none at all",
        )),
        every => Ok(Some(every)),
    }
}

/// Takes them for ever: the first when the newest that is there is as old as that, at once if there is none.
pub(super) async fn take(store: EmbeddedStore, every: Span, output: Output) {
    let every = Duration::from_millis(every.as_millis());
    let mut wait = every.saturating_sub(age_of_newest(&folder(store.path())).unwrap_or(every));
    loop {
        tokio::time::sleep(wait).await;
        let store = store.clone();
        let begun = Instant::now();
        let taken = tokio::task::spawn_blocking(move || take_one(&store)).await;
        if let Ok(Err(error)) = taken {
            output.talk(&format!("baton: no snapshot was written: {error}"));
        }
        wait = every.max(begun.elapsed() * REST);
    }
}

/// The newest that lies beside a file, whether or not the file is there.
pub(super) fn newest(file: &Path) -> Option<PathBuf> {
    all(&folder(file)).ok()?.pop()
}

fn folder(file: &Path) -> PathBuf {
    let mut folder = file.as_os_str().to_owned();
    folder.push(".snapshots");
    PathBuf::from(folder)
}

fn take_one(store: &EmbeddedStore) -> Result<(), baton::Error> {
    let folder = folder(store.path());
    std::fs::create_dir_all(&folder)?;
    let name = boot::wall().to_string().replace(':', "-").replace(['.', 'Z'], "-");
    store.snapshot(&folder.join(format!("{}.redb", name.trim_end_matches('-'))))?;
    for spare in spare(all(&folder)?) {
        std::fs::remove_file(spare)?;
    }
    Ok(())
}

/// Their names are their times.
fn all(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut snapshots: Vec<PathBuf> = std::fs::read_dir(folder)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "redb"))
        .collect();
    snapshots.sort_unstable();
    Ok(snapshots)
}

/// How long ago the newest was written; none if there is none, or if the clock was set back since.
fn age_of_newest(folder: &Path) -> Option<Duration> {
    let newest = all(folder).ok()?.pop()?;
    SystemTime::now().duration_since(std::fs::metadata(newest).ok()?.modified().ok()?).ok()
}

/// Those that are not kept.
fn spare(mut snapshots: Vec<PathBuf>) -> Vec<PathBuf> {
    let older = snapshots.len().saturating_sub(NEWEST);
    snapshots.truncate(older);
    let mut hours: Vec<String> = Vec::new();
    let mut spare = Vec::new();
    for snapshot in snapshots.into_iter().rev() {
        let hour = hour_of(&snapshot);
        if hours.last() == Some(&hour) || hours.len() == HOURS {
            spare.push(snapshot);
        } else {
            hours.push(hour);
        }
    }
    spare
}

/// The part of a name that says the hour: `2026-11-16T03`.
fn hour_of(snapshot: &Path) -> String {
    let name = snapshot.file_name().unwrap_or_default().to_string_lossy();
    name.chars().take("2026-11-16T03".len()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn snapshot(hour: usize, minute: usize) -> PathBuf {
        PathBuf::from(format!("/s/2026-11-{:02}T{:02}-{minute:02}-00-000.redb", 1 + hour / 24, hour % 24))
    }

    #[test]
    fn of_hourly_ones_the_last_day_is_kept() {
        let hourly: Vec<PathBuf> = (0..30).map(|hour| snapshot(hour, 0)).collect();
        let mut gone = spare(hourly.clone());
        gone.sort_unstable();
        assert_eq!(gone, hourly[..6]);
        assert_eq!(spare(hourly[..24].to_vec()), Vec::<PathBuf>::new());
    }

    #[test]
    fn frequent_ones_do_not_push_out_those_of_earlier_hours() {
        let mut all: Vec<PathBuf> = (0..12).map(|hour| snapshot(hour, 0)).collect();
        let mut kept = all.clone();
        for minute in 0..60 {
            all.push(snapshot(12, minute));
            let gone = spare(all.clone());
            all.retain(|snapshot| !gone.contains(snapshot));
            assert!(all.len() <= NEWEST + HOURS);
        }
        // The oldest hour makes room for the last of this one that is not among the newest.
        kept.remove(0);
        kept.extend((47..60).map(|minute| snapshot(12, minute)));
        assert_eq!(all, kept);
    }

    #[test]
    fn a_time_that_is_too_short_is_refused() {
        assert_eq!(interval(None).unwrap(), Some(EVERY));
        assert_eq!(interval(Some(Span::ZERO)).unwrap(), None);
        assert_eq!(interval(Some(SHORTEST)).unwrap(), Some(SHORTEST));
        assert!(interval(Some(Span::millis(1))).is_err());
    }

    #[test]
    fn how_old_the_newest_is() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(age_of_newest(&folder.path().join("none")), None);
        assert_eq!(age_of_newest(folder.path()), None);
        let old = std::fs::File::create(folder.path().join("2026-11-16T03-00-00-000.redb")).unwrap();
        old.set_modified(SystemTime::now() - Duration::from_secs(7_200)).unwrap();
        assert!(age_of_newest(folder.path()).unwrap() >= Duration::from_secs(7_200));
        // By a clock that was set back since, it is of the future.
        old.set_modified(SystemTime::now() + Duration::from_secs(7_200)).unwrap();
        assert_eq!(age_of_newest(folder.path()), None);
    }
}
