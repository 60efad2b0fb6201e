//! A place with a bare repository and clones of it, and documents to write.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

use baton_election::command::{Acquire, Release, Renew};
use baton_election::id::{Credential, Incarnation, LeaseKey, StoreId};
use baton_election::{
    AgentName, Command as Ask, Document, ElectionName, Epoch, Evidence, Span, WallTime, decide,
};
use baton_store::{Clock, Expect, Key, Reading, Record, Store, StoreError, Version};
use baton_store_git::GitStore;

pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// A bare repository `remote.git`, empty.
    pub(crate) fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        git(place.path(), &["init", "-q", "--bare", "remote.git"]);
        place
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn remote(&self) -> PathBuf {
        self.path().join("remote.git")
    }

    /// A clone of that name, with the bare repository as `origin` and one commit on a branch.
    pub(crate) fn clone(&self, name: &str) -> PathBuf {
        let dir = self.path().join(name);
        if !dir.exists() {
            git(self.path(), &["init", "-q", name]);
            git(&dir, &["remote", "add", "origin", "../remote.git"]);
            std::fs::write(dir.join("file"), "text\n").unwrap();
            git(&dir, &["add", "file"]);
            git(&dir, &["-c", "user.name=u", "-c", "user.email=u@u", "commit", "-q", "-m", "begin"]);
        }
        dir
    }

    /// The store of that clone, with the remote as its arbiter.
    pub(crate) fn store(&self, name: &str) -> GitStore {
        open(&format!("git:{}?remote=origin", self.clone(name).display())).unwrap()
    }

    /// The store of that clone, with itself as its arbiter.
    pub(crate) fn lone_store(&self, name: &str) -> GitStore {
        open(&format!("git:{}", self.clone(name).display())).unwrap()
    }
}

pub(crate) fn open(url: &str) -> Result<GitStore, StoreError> {
    GitStore::open(&url.parse().unwrap())
}

/// Runs git by hand, and gives its answer.
pub(crate) fn git(dir: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").current_dir(dir).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?} failed: {stderr}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_string()
}

/// Commits a file by hand as the whole of a ref, in a repository; gives the commit.
pub(crate) fn commit_by_hand(
    dir: &Path,
    refname: &str,
    file: &str,
    text: &str,
    parent: Option<&str>,
) -> String {
    let path = dir.join("by-hand.tmp");
    std::fs::write(&path, text).unwrap();
    let blob = git(dir, &["hash-object", "-w", path.to_str().unwrap()]);
    std::fs::remove_file(&path).unwrap();
    let script = format!("printf '100644 blob {blob}\\t{file}\\n' | git mktree");
    let output = Command::new("sh").current_dir(dir).args(["-c", &script]).output().unwrap();
    let tree = String::from_utf8(output.stdout).unwrap().trim_end().to_string();
    let mut arguments =
        vec!["-c", "user.name=u", "-c", "user.email=u@u", "commit-tree", &tree, "-m", "by hand"];
    arguments.extend(parent.into_iter().flat_map(|parent| ["-p", parent]));
    let commit = git(dir, &arguments);
    git(dir, &["update-ref", refname, &commit]);
    commit
}

pub(crate) fn key(name: &str) -> Key {
    Key::Election(ElectionName::new(name).unwrap())
}

fn number(agent: &str) -> u8 {
    agent.bytes().fold(7, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte))
}

fn with_evidence<T>(name: &str, age: Span, act: impl FnOnce(&Evidence<'_>) -> T) -> T {
    let election = ElectionName::new(name).unwrap();
    act(&Evidence {
        election: &election,
        store: StoreId([7; 8]),
        age,
        wall: WallTime::from_unix_millis(1_700_000_000_000),
        floor: Epoch(0),
        vanished_lease: Span::ZERO,
        operator_keys: &[],
    })
}

/// What is there after `agent` took the election, whose lease has long run out.
pub(crate) fn led(name: &str, before: Option<&Document>, agent: &str) -> Document {
    // Never the same twice for one agent: an incarnation leads once.
    let life = before.map_or(0, |document| document.epoch.0.to_le_bytes()[0]);
    let incarnation = Incarnation([number(agent), life, 0, 0, 0, 0, 0, 1]);
    let acquire = Acquire {
        task: Some("refactor authentication".to_string()),
        noticed: Some(Span::millis(20)),
        ..Acquire::new(AgentName::new(agent).unwrap(), incarnation, LeaseKey([number(agent); 16]).hash())
    };
    with_evidence(name, Span::secs(3_600), |evidence| {
        decide(before, &Ask::Acquire(acquire), evidence).unwrap().next.unwrap()
    })
}

fn credential(document: &Document) -> Credential {
    let leader = document.leader.as_ref().unwrap();
    Credential { incarnation: leader.incarnation, key: LeaseKey([number(leader.agent.as_str()); 16]) }
}

/// What is there after the leader renewed.
pub(crate) fn renewed(document: &Document) -> Document {
    let renew = Renew {
        epoch: document.epoch,
        credential: credential(document),
        progress: true,
        spent_tokens: None,
        phase: None,
        promotion: None,
        region: None,
    };
    with_evidence(document.election.as_str(), Span::ZERO, |evidence| {
        decide(Some(document), &Ask::Renew(renew), evidence).unwrap().next.unwrap()
    })
}

/// What is there after the leader released.
pub(crate) fn released(document: &Document) -> Document {
    let reason = Some("done\n\nBaton-Term: forged".to_string());
    let release =
        Release { epoch: document.epoch, credential: credential(document), reason, orphaned: false };
    with_evidence(document.election.as_str(), Span::ZERO, |evidence| {
        decide(Some(document), &Ask::Release(release), evidence).unwrap().next.unwrap()
    })
}

pub(crate) async fn read(store: &GitStore, key: &Key) -> Reading {
    store.read(key).await.unwrap()
}

pub(crate) async fn document(store: &GitStore, key: &Key) -> (Document, Version) {
    match read(store, key).await.found.unwrap() {
        (Record::Election(document), version) => (*document, version),
        (other, _) => panic!("{other:?}"),
    }
}

pub(crate) async fn put(
    store: &GitStore,
    key: &Key,
    expect: Expect,
    next: &Document,
) -> Result<Version, StoreError> {
    let record = Record::Election(Box::new(next.clone()));
    store.swap(key, expect, &record, Clock::Restart).await.map(|swapped| swapped.version)
}

/// Lets `agent` take the election in the store, whoever leads.
pub(crate) async fn take(store: &GitStore, key: &Key, agent: &str) -> (Document, Version) {
    let reading = read(store, key).await;
    let before = match reading.record() {
        Some(Record::Election(document)) => Some(&**document),
        _ => None,
    };
    let next = led(&key.to_string(), before, agent);
    let version = put(store, key, reading.expect(), &next).await.unwrap();
    (next, version)
}
