//! `--write`: whether a commit can be made, tried in a way that leaves everything as it was.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use baton::Coordinator;
use baton::store::{AgeStamp, Expect, Key, Persistence, StoreError};

use super::CheckReport;
use crate::output::Failure;

/// Puts the store's own record in its own place, and then where it must be refused, since there is one.
pub(super) async fn swap(chart: &mut CheckReport, coordinator: &Coordinator) -> Result<(), Failure> {
    // A server decides by itself, and takes no records.
    let Some(store) = coordinator.backend().store() else { return Ok(()) };
    let reading = match store.read(&Key::Store).await {
        Ok(reading) => reading,
        Err(error) => return chart.fail_with("write", &error.into()),
    };
    let expect = reading.expect();
    let Some((record, _)) = reading.found else { return Ok(()) };
    let start = Instant::now();
    match store.swap(&Key::Store, expect, &record, AgeStamp::Preserve, Persistence::Durable).await {
        Ok(_) => {}
        Err(StoreError::Conflict) => {
            return chart.warn("write", "somebody else wrote at the same moment", "try again");
        }
        Err(error) => return chart.fail_with("write", &error.into()),
    }
    let took = start.elapsed();
    match store.swap(&Key::Store, Expect::Absent, &record, AgeStamp::Preserve, Persistence::Durable).await {
        Err(StoreError::Conflict) => {
            let detail = format!("the store's own record was written as it was in {}", shown(took));
            chart.ok("write", format!("{detail}, and not where it would have hidden another"))
        }
        Err(error) => chart.fail_with("write", &error.into()),
        Ok(_) => {
            let hint = "whoever keeps this store must compare before it writes: do not use it";
            chart.fail_store("write", "a write that expected nothing to be there was not refused", hint)
        }
    }
}

/// Does what a commit does, with a file of its own: write, sync, link, and be refused the second link.
pub(super) fn scratch(chart: &mut CheckReport, folder: &Path) -> Result<(), Failure> {
    let name = |kind: &str| folder.join(format!(".tmp-doctor-{}-{kind}", std::process::id()));
    let (file, link) = (name("file"), name("link"));
    let start = Instant::now();
    let tried = fs::File::create_new(&file)
        .and_then(|mut scratch| scratch.write_all(b"scratch\n").and_then(|()| scratch.sync_data()))
        .and_then(|()| fs::hard_link(&file, &link));
    let took = start.elapsed();
    let second = fs::hard_link(&file, &link);
    let removed: Vec<PathBuf> =
        [link, file].into_iter().filter(|path| fs::remove_file(path).is_ok()).collect();
    match tried {
        Err(error) => {
            let hint = "the store commits by write, fdatasync and link(2); the folder must allow all three";
            chart.fail_store("write", format!("a file cannot be written, synced and linked: {error}"), hint)
        }
        Ok(()) if second.is_ok() || removed.len() != 2 => {
            let hint = "this file system cannot hold a store: use a local one";
            chart.fail_store("write", "a second link to the same name was not refused", hint)
        }
        Ok(()) => chart.ok("write", format!("written, synced and linked in {}", shown(took))),
    }
}

pub(super) fn shown(took: Duration) -> String {
    format!("{:.1} ms", took.as_secs_f64() * 1_000.0)
}
