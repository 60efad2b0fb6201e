//! What the machine itself can do, at this moment.

use std::fs;
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use baton_election::ContentHash;

use crate::figures::{median_of_five, percentile};

/// A folder on the disk of the checkout, and where nobody commits it by mistake.
pub(crate) fn scratch() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in(if Path::new("target").is_dir() { "target" } else { "." })
}

/// Writing a small file, syncing its data and linking it to a name: what a commit on the file store cannot do without.
pub(crate) fn commit(folder: &Path, number: usize) -> std::io::Result<Duration> {
    let text = [b'x'; 1_500];
    let temporary = folder.join(format!("t{number}"));
    let begun = Instant::now();
    let mut file = fs::File::create_new(&temporary)?;
    file.write_all(&text)?;
    file.sync_data()?;
    fs::hard_link(&temporary, folder.join(format!("v{number}")))?;
    let took = begun.elapsed();
    fs::remove_file(&temporary)?;
    Ok(took)
}

/// The median of many of them.
pub(crate) fn commit_unit() -> std::io::Result<Duration> {
    let folder = scratch()?;
    let mut values = (0..400).map(|number| commit(folder.path(), number)).collect::<Result<Vec<_>, _>>()?;
    Ok(percentile(&mut values, 0.5))
}

/// Starting a process that does nothing.
pub(crate) fn process_start() -> std::io::Result<Duration> {
    let mut values = Vec::new();
    for _ in 0..100 {
        let begun = Instant::now();
        Command::new("/bin/true").status()?;
        values.push(begun.elapsed());
    }
    Ok(percentile(&mut values, 0.5))
}

/// Hashing a lease key: what a renewal cannot do without.
pub(crate) fn hash() -> Duration {
    const TIMES: u32 = 100_000;
    median_of_five(|| {
        let begun = Instant::now();
        for _ in 0..TIMES {
            black_box(ContentHash::of(black_box(&[7; 16])));
        }
        begun.elapsed() / TIMES
    })
}
