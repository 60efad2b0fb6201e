//! Records to write, files to look at, and processes that are this test binary again.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use baton_election::command::Acquire;
use baton_election::{
    AgentName, Candidate, ContentHash, Document, ElectionName, Epoch, Evidence, Incarnation, KeyHash,
    LeaseKey, Span, StoreId, WallTime, decide,
};
use baton_store::{Access, AgeStamp, Expect, Key, Persistence, Reading, Record, Store, StoreError, Version};
use baton_store_file::FileStore;
use serde::{Deserialize, Serialize};

/// What says to a process that it is a child of the test of this name, and what it shall do.
const CHILD: &str = "BATON_FILE_FAULTS_CHILD";

/// A bound on a hang, far above what anything takes.
pub(crate) const HANG: Duration = Duration::from_secs(120);

pub(crate) fn election() -> ElectionName {
    ElectionName::new("e").unwrap()
}

pub(crate) fn key() -> Key {
    Key::Election(election())
}

pub(crate) fn writer(folder: &Path) -> FileStore {
    FileStore::open(folder, Access::Write).unwrap()
}

/// An election that an agent of this number leads.
pub(crate) fn led(number: u8) -> Record {
    let election = election();
    let acquire = Acquire {
        task: Some("refactor authentication".to_string()),
        capabilities: [].into(),
        ..Acquire::new(
            AgentName::new(&format!("agent-{number}")).unwrap(),
            Incarnation([number; 8]),
            LeaseKey([number; 16]).hash(),
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
    let granted: Document =
        decide(None, &baton_election::Command::Acquire(acquire), &evidence).unwrap().next.unwrap();
    Record::Election(Box::new(granted))
}

pub(crate) fn candidate_key() -> Key {
    Key::Candidate(election(), AgentName::new("c").unwrap())
}

/// A small record that carries a number, and is quick to write.
pub(crate) fn candidate(number: u64) -> Record {
    Record::Candidate(Box::new(Candidate {
        election: election(),
        agent: AgentName::new("c").unwrap(),
        incarnation: Incarnation([1; 8]),
        key_hash: KeyHash([1; 32]),
        priority: 0,
        capabilities: [].into(),
        score: 0,
        load: number,
        ttl: Span::secs(30),
        beat: number,
        withdrawn: false,
        enlisted: WallTime::default(),
        through: None,
    }))
}

pub(crate) fn number_of(record: &Record) -> u64 {
    match record {
        Record::Candidate(candidate) => candidate.beat,
        other => panic!("not a candidate: {other:?}"),
    }
}

pub(crate) async fn read(store: &FileStore, key: &Key) -> Reading {
    let reading = store.read(key).await.unwrap();
    settle(store);
    reading
}

/// Waits for what follows an answer, the view and the pruning, as a store does when it is dropped.
pub(crate) fn settle(store: &FileStore) {
    drop(store.clone());
}

pub(crate) async fn found(store: &FileStore, key: &Key) -> (Record, Version) {
    read(store, key).await.found.unwrap()
}

pub(crate) async fn put(store: &FileStore, key: &Key, next: &Record) -> Version {
    let expect = read(store, key).await.expect();
    let version = store.swap(key, expect, next, AgeStamp::Reset, Persistence::Durable).await.unwrap().version;
    settle(store);
    version
}

/// One more on what is there. Says what was written.
pub(crate) async fn increment(store: &FileStore) -> Result<u64, StoreError> {
    let reading = store.read(&candidate_key()).await?;
    let next = reading.record().map_or(1, |record| number_of(record) + 1);
    store
        .swap(&candidate_key(), reading.expect(), &candidate(next), AgeStamp::Reset, Persistence::Synced)
        .await?;
    Ok(next)
}

/// Writes this many versions of the candidate, as fast as it goes.
pub(crate) async fn write_many(store: &FileStore, count: u64) -> (u64, Version) {
    let reading = read(store, &candidate_key()).await;
    let mut number = reading.record().map_or(0, number_of);
    let mut expect = reading.expect();
    for _ in 0..count {
        number += 1;
        let swapped = store
            .swap(&candidate_key(), expect, &candidate(number), AgeStamp::Reset, Persistence::Synced)
            .await
            .unwrap();
        expect = Expect::Version(swapped.version);
    }
    match expect {
        Expect::Version(version) => {
            settle(store);
            (number, version)
        }
        Expect::Absent => panic!("nothing was written"),
    }
}

pub(crate) fn versions(folder: &Path, key: &Key) -> PathBuf {
    key.to_string().split('/').fold(folder.to_path_buf(), |path, part| path.join(part)).join("versions")
}

/// The numbers of the versions that are there, in order.
pub(crate) fn numbers(folder: &Path, key: &Key) -> Vec<u64> {
    let entries = fs::read_dir(versions(folder, key)).unwrap();
    let mut numbers: Vec<u64> =
        entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

pub(crate) fn newest(folder: &Path, key: &Key) -> PathBuf {
    versions(folder, key).join(numbers(folder, key).last().unwrap().to_string())
}

/// The first line of a version, in the order that the store writes it and signs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) version: u64,
    pub(crate) machine: String,
    pub(crate) time_namespace: String,
    pub(crate) boot: String,
    pub(crate) beat_boot: String,
    pub(crate) beat_ns: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) epoch_boot: String,
}

#[derive(Serialize, Deserialize)]
struct FirstLine {
    #[serde(flatten)]
    header: Header,
    sha256: ContentHash,
}

/// The header and the body of a version whose checksum fits.
pub(crate) fn parse(text: &str) -> Option<(Header, String)> {
    // Newlines at the end only fill the block.
    let text = format!("{}\n", text.trim_end_matches('\n'));
    let (first, body) = text.split_once('\n')?;
    let line: FirstLine = serde_json::from_str(first).ok()?;
    let signed = format!("{}\n{body}", serde_json::to_string(&line.header).ok()?);
    (ContentHash::of(signed.as_bytes()) == line.sha256).then(|| (line.header, body.to_string()))
}

/// Changes a version file and signs it again, as whoever knows the format can.
pub(crate) fn forge(path: &Path, change: impl FnOnce(&mut Header, &mut String)) {
    let (mut header, mut body) = parse(&fs::read_to_string(path).unwrap()).unwrap();
    change(&mut header, &mut body);
    let signed = format!("{}\n{body}", serde_json::to_string(&header).unwrap());
    let line = FirstLine { header, sha256: ContentHash::of(signed.as_bytes()) };
    fs::write(path, format!("{}\n{body}", serde_json::to_string(&line).unwrap())).unwrap();
}

/// Makes a version one that an earlier run of this machine wrote.
pub(crate) fn of_an_earlier_run(path: &Path, change: impl FnOnce(&mut Header, &mut String)) {
    forge(path, |header, body| {
        header.boot = "11111111-2222-3333-4444-555555555555".to_string();
        change(header, body);
    });
    let before = std::time::UNIX_EPOCH + Duration::from_secs(baton_store::boot::began().unwrap() - 3_600);
    fs::File::options().write(true).open(path).unwrap().set_modified(before).unwrap();
}

/// Everything below a folder: what kind, when changed, what content.
pub(crate) fn tree(folder: &Path) -> BTreeMap<PathBuf, (bool, std::time::SystemTime, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let data = fs::metadata(&path).unwrap();
            let content = if data.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
            found.insert(path.clone(), (data.is_dir(), data.modified().unwrap(), content));
            folders.extend(data.is_dir().then_some(path));
        }
    }
    found
}

/// A folder that every user can reach and use, and from which programs run.
pub(crate) fn public_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

/// What a child process is told to do; none in the test itself.
pub(crate) fn role() -> Option<String> {
    std::env::var(CHILD).ok()
}

/// This test again, in a process of its own.
pub(crate) fn child(test: &str, role: &str) -> Command {
    of_program(Command::new(std::env::current_exe().unwrap()), test, role)
}

/// This test again, as a user without rights. `folder` is a [`public_folder`], which must outlive it.
pub(crate) fn child_without_rights(folder: &Path, test: &str, role: &str) -> Command {
    if !rustix::process::geteuid().is_root() {
        return child(test, role);
    }
    child_as(folder, test, role, "65533")
}

/// This test again, as this user, in the group 65533: for root.
pub(crate) fn child_as(folder: &Path, test: &str, role: &str, user: &str) -> Command {
    let program = folder.join("test-binary");
    if !program.exists() {
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", "65533", "--clear-groups", "--"]).arg(program);
    command.current_dir("/");
    of_program(command, test, role)
}

fn of_program(mut command: Command, test: &str, role: &str) -> Command {
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, role);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a child to its end; its own assertions decide.
pub(crate) fn succeeds(mut child: Command) {
    let output = child.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("1 passed"), "the child ran its test: {}", text(&output.stdout));
}
