//! A place with a bare repository and clones of it.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

use baton_store::{Key, Reading, Store, StoreError};
use baton_store_git::GitStore;

pub(crate) struct TestRepository {
    folder: tempfile::TempDir,
}

impl TestRepository {
    /// A bare repository `remote.git`, empty.
    pub(crate) fn new() -> TestRepository {
        let place = TestRepository { folder: tempfile::tempdir().unwrap() };
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

pub(crate) async fn read(store: &GitStore, key: &Key) -> Reading {
    store.read(key).await.unwrap()
}
