//! What processes that were killed could not tidy up.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::store::OpenStore;
use super::{CheckReport, count};
use crate::commands::demo;
use crate::output::Failure;
use crate::warden_process;

/// Something that nobody needs any more.
struct Leftover {
    path: PathBuf,
    is_folder: bool,
}

pub(super) fn check(chart: &mut CheckReport, opened: Option<&OpenStore>, fix: bool) -> Result<(), Failure> {
    let temporaries = opened.and_then(|opened| opened.files.as_ref()).map(|files| files.leftovers());
    let temporaries: Vec<Leftover> =
        temporaries.unwrap_or_default().into_iter().map(|path| Leftover { path, is_folder: false }).collect();
    settle(
        chart,
        "temporaries",
        &temporaries,
        fix,
        ("temporary file", "temporary files"),
        "crashed writers",
    )?;
    let words = commands_of_the_living();
    let runs = folders(&warden_process::run_root(), "run-", &words);
    settle(chart, "runs", &runs, fix, ("folder", "folders"), "runs that were killed")?;
    let demos = folders(&demo::parent(), demo::PREFIX, &words);
    settle(chart, "demos", &demos, fix, ("folder", "folders"), "demos that were killed")
}

fn settle(
    chart: &mut CheckReport,
    check: &str,
    found: &[Leftover],
    fix: bool,
    (one, many): (&str, &str),
    whose: &str,
) -> Result<(), Failure> {
    let Some(first) = found.first() else {
        return chart.ok(check, format!("nothing is left of {whose}"));
    };
    let detail = format!("{} of {whose}, such as {}", count(found.len(), one, many), first.path.display());
    if !fix {
        return chart.warn(check, detail, "`baton doctor --fix` removes what is left");
    }
    let failed: Vec<String> = found.iter().filter_map(|leftover| leftover.remove().err()).collect();
    match failed.first() {
        None => chart.ok(check, format!("removed {detail}")),
        Some(why) => chart.fail(check, format!("{detail}: {why}"), "see who owns it"),
    }
}

impl Leftover {
    fn remove(&self) -> Result<(), String> {
        let removed =
            if self.is_folder { fs::remove_dir_all(&self.path) } else { fs::remove_file(&self.path) };
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("{} cannot be removed: {error}", self.path.display()))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// The folders `PREFIX-PID-…` of this user whose process is gone and that no other process was started for.
fn folders(root: &Path, prefix: &str, commands: &[Vec<u8>]) -> Vec<Leftover> {
    let mine = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let left = entries.filter_map(|entry| {
        let name = entry.file_name();
        let number: u32 = name.to_str()?.strip_prefix(prefix)?.split('-').next()?.parse().ok()?;
        let data = entry.metadata().ok().filter(|data| data.is_dir() && data.uid() == mine)?;
        let dead = !Path::new(&format!("/proc/{number}")).exists();
        // A warden outlives its run for as long as it takes to end CMD; its socket was in that folder.
        let path = entry.path();
        let in_use = commands.iter().any(|words| contains(words, path.as_os_str().as_encoded_bytes()));
        (dead && !in_use && data.is_dir()).then_some(Leftover { path, is_folder: true })
    });
    let mut left: Vec<Leftover> = left.collect();
    left.sort_by(|a, b| a.path.cmp(&b.path));
    left
}

/// The command lines of all processes.
fn commands_of_the_living() -> Vec<Vec<u8>> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok()).collect()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
