//! The store: whether it can be reached, whether it is one, whether every record in it is intact.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use baton::election::document::State;
use baton::election::fence::{LOG_PART, LOG_PARTS};
use baton::file::FileStore;
use baton::store::{Access, ItemKind, Key, Prefix, Record, StoreUrl, UrlError};
use baton::{Coordinator, Decides, Error, Memory};

use super::{CheckReport, count, locks, native, watching, write};
use crate::context::Global;
use crate::output::Failure;
use crate::state_folder::StateFolder;

/// A store that could be opened.
pub(super) struct OpenStore {
    pub(super) coordinator: Coordinator,
    pub(super) state: StateFolder,
    /// Of a file store.
    pub(super) files: Option<FileStore>,
}

pub(super) async fn check(
    chart: &mut CheckReport,
    global: &Global,
    try_write: bool,
) -> Result<Option<OpenStore>, Failure> {
    let url = global.store()?.url;
    let parsed = match url.parse::<StoreUrl>() {
        Ok(parsed) => parsed,
        Err(error) => {
            chart.fail_with("store", &error.into())?;
            return Ok(None);
        }
    };
    if parsed.scheme == "git" {
        git(chart)?;
        locks::check(chart, &parsed)?;
    }
    if parsed.scheme == "mem" {
        let why = "mem: lives in one process and cannot serve a command";
        chart.fail_with("store", &UrlError::new(why, "use a folder: --store file:.baton").into())?;
        return Ok(None);
    }
    let coordinator = match Coordinator::connect_for(&url, Access::Read, Memory::new()).await {
        Ok(coordinator) => coordinator,
        Err(error) => {
            chart.fail_with("store", &error)?;
            return Ok(None);
        }
    };
    let location = coordinator.backend().location();
    let state = StateFolder::of(&location)?;
    let coordinator = coordinator.remembering(state.memory());
    if coordinator.decides() == Decides::Store {
        let reached = native::check(chart, &coordinator, try_write).await?;
        return Ok(reached.then_some(OpenStore { coordinator, state, files: None }));
    }
    let files = match location.strip_prefix("file:").filter(|_| parsed.scheme == "file") {
        None => None,
        Some(folder) => match folder_is_fit(chart, Path::new(folder), try_write)? {
            false => return Ok(None),
            true => FileStore::open(Path::new(folder), Access::Read).ok(),
        },
    };
    if !identity(chart, &coordinator).await? {
        return Ok(None);
    }
    if try_write && files.is_none() {
        write::swap(chart, &coordinator).await?;
    }
    let reached = records(chart, &coordinator).await?;
    if reached && files.is_none() && !chart.store_failed {
        watching::check(chart, &coordinator).await?;
    }
    Ok(reached.then_some(OpenStore { coordinator, state, files }))
}

fn git(chart: &mut CheckReport) -> Result<(), Failure> {
    match Command::new("git").arg("--version").output() {
        Ok(done) if done.status.success() => chart.ok("git", String::from_utf8_lossy(&done.stdout).trim()),
        Ok(done) => chart.fail_store("git", format!("git --version failed ({})", done.status), "install git"),
        Err(error) => chart.fail_store("git", format!("git cannot be run: {error}"), "install git"),
    }
}

/// Looks at the folder of a file store; false if there is nothing more to look at.
fn folder_is_fit(chart: &mut CheckReport, folder: &Path, try_write: bool) -> Result<bool, Failure> {
    use rustix::fs::{Access as May, access, statfs};
    if !folder.is_dir() {
        let hint = "`baton init`, `baton run` or `baton acquire` makes one; --store names another";
        chart.warn("store", format!("there is no store at {} yet", folder.display()), hint)?;
        return Ok(false);
    }
    if let Err(error) = access(folder, May::READ_OK | May::WRITE_OK | May::EXEC_OK) {
        let hint = "let all agents run as one user, or give their group the folder: chmod -R g+rwX";
        let detail = format!("this user may not use {}: {error}", folder.display());
        chart.fail_store("folder", detail, hint)?;
        return Ok(false);
    }
    let mode = fs::metadata(folder)?.permissions().mode() & 0o7777;
    let detail = format!("{} can be used by this user (mode {mode:04o})", folder.display());
    if mode & 0o002 != 0 {
        let hint = format!("whoever can write it can forge a leader: chmod o-w {}", folder.display());
        chart.warn("folder", format!("{detail}, and changed by everybody"), hint)?;
    } else {
        chart.ok("folder", detail)?;
    }
    let kind = statfs(folder).map_err(std::io::Error::from)?.f_type;
    chart.ok("filesystem", format!("{}, local to this machine", filesystem(kind)))?;
    if try_write {
        write::scratch(chart, folder)?;
    }
    Ok(true)
}

fn filesystem(kind: impl Into<i128>) -> String {
    let kind = kind.into() & 0xFFFF_FFFF;
    let known = [
        ("ext4", 0xEF53),
        ("xfs", 0x5846_5342),
        ("btrfs", 0x9123_683E),
        ("tmpfs (gone after a reboot)", 0x0102_1994),
        ("zfs", 0x2FC1_2FC1),
        ("overlay (a container's own layer)", 0x794C_7630),
        ("f2fs", 0xF2F5_2010),
        ("bcachefs", 0xCA45_1A4E),
        ("ecryptfs", 0xF15F),
    ];
    let name = known.iter().find(|(_, magic)| *magic == kind).map(|(name, _)| (*name).to_string());
    name.unwrap_or_else(|| format!("a file system of type {kind:#x}"))
}

/// Whether there is a store, and which.
async fn identity(chart: &mut CheckReport, coordinator: &Coordinator) -> Result<bool, Failure> {
    let location = coordinator.backend().location();
    match coordinator.info().await {
        Ok(info) => {
            let operators = count(info.operator_keys.len(), "operator", "operators");
            let age = coordinator.backend().properties().age;
            let detail = format!("{location}, id {}, {operators}, leases timed by {age}", info.id);
            chart.ok("store", detail)?;
            Ok(true)
        }
        Err(Error::Refused(refusal)) => {
            chart.warn("store", refusal.to_string(), refusal.hint())?;
            Ok(false)
        }
        Err(error) => {
            chart.fail_with("store", &error)?;
            // What else is there can still be looked at, unless nobody answers.
            Ok(!is_silent(&error))
        }
    }
}

/// Whether to ask the store again would only take as long again.
pub(super) fn is_silent(error: &Error) -> bool {
    matches!(error, Error::Store(error) if error.is_passing())
}

/// Reads every record there is; says which ones are bad. False if the store stopped to answer.
async fn records(chart: &mut CheckReport, coordinator: &Coordinator) -> Result<bool, Failure> {
    let elections = match coordinator.elections().await {
        Ok(elections) => elections,
        Err(error) => {
            chart.fail_with("records", &error)?;
            return Ok(!is_silent(&error));
        }
    };
    let mut tally = Tally { coordinator, read: 0, bad: 0, silent: false };
    let mut states = [0_usize; 4];
    for election in elections {
        if tally.silent {
            break;
        }
        match coordinator.view(&election).await {
            Err(error) => tally.blame(chart, &error)?,
            Ok(view) => {
                tally.read += 1;
                if let Some(document) = &view.document {
                    states[place(document.state, view.leader().is_some())] += 1;
                }
            }
        }
        tally.look(chart, &Key::History(election.clone())).await?;
        let items = ItemKind::ALL.map(|kind| Prefix::Items(election.clone(), kind));
        for prefix in [Prefix::Candidates(election)].into_iter().chain(items) {
            for key in tally.list(chart, &prefix).await? {
                tally.look(chart, &key).await?;
            }
        }
    }
    for key in tally.list(chart, &Prefix::Fences).await? {
        tally.look_at_fence(chart, &key).await?;
    }
    if tally.silent {
        return Ok(false);
    }
    let [led, vacant, waiting, paused] = states;
    let detail = format!(
        "{} ({led} led, {vacant} vacant, {waiting} waiting for approval, {paused} paused)",
        count(states.iter().sum(), "election", "elections")
    );
    chart.ok("elections", detail)?;
    if tally.bad == 0 {
        chart.ok("records", format!("all {} can be read", count(tally.read, "record", "records")))?;
    }
    Ok(true)
}

fn place(state: State, led: bool) -> usize {
    match state {
        State::Held if led => 0,
        State::Held | State::Vacant => 1,
        State::AwaitingApproval => 2,
        State::Paused => 3,
    }
}

struct Tally<'a> {
    coordinator: &'a Coordinator,
    read: usize,
    bad: usize,
    silent: bool,
}

impl Tally<'_> {
    fn blame(&mut self, chart: &mut CheckReport, error: &Error) -> Result<(), Failure> {
        self.bad += 1;
        self.silent |= is_silent(error);
        chart.fail_with("records", error)
    }

    async fn list(&mut self, chart: &mut CheckReport, prefix: &Prefix) -> Result<Vec<Key>, Failure> {
        if self.silent {
            return Ok(Vec::new());
        }
        match self.coordinator.backend().list(prefix).await {
            Ok(keys) => Ok(keys),
            Err(error) => self.blame(chart, &error.into()).map(|()| Vec::new()),
        }
    }

    async fn look(&mut self, chart: &mut CheckReport, key: &Key) -> Result<Option<Record>, Failure> {
        if self.silent {
            return Ok(None);
        }
        match self.coordinator.backend().read(key).await {
            Ok(reading) => {
                let record = reading.found.map(|(record, _)| record);
                self.read += usize::from(record.is_some());
                Ok(record)
            }
            Err(error) => self.blame(chart, &error.into()).map(|()| None),
        }
    }

    /// A fence, and the parts of its log.
    async fn look_at_fence(&mut self, chart: &mut CheckReport, key: &Key) -> Result<(), Failure> {
        let found = self.look(chart, key).await?;
        if let (Key::Fence(resource), Some(Record::Fence(fence))) = (key, found) {
            let first_here = fence.tail.first().map_or(0, |entry| entry.seq);
            for part in 0..=(first_here / LOG_PART).min(LOG_PARTS - 1) {
                self.look(chart, &Key::FenceLog(resource.clone(), part)).await?;
            }
        }
        Ok(())
    }
}
