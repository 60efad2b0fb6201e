//! The user's repository, and where Baton is run.

use std::path::Path;
use std::process::Command;

use baton_store::conformance::documents::{document, key, put, renewed, take};
use baton_store::{Expect, Prefix, Store};

use crate::support::{TestRepository, git, open};

/// All of a repository that its user knows.
fn fingerprint(dir: &Path) -> Vec<String> {
    let refs = git(dir, &["for-each-ref", "--format=%(refname) %(objectname)"]);
    let refs = refs.lines().filter(|line| !line.starts_with("refs/baton"));
    let mut print: Vec<String> = refs.map(str::to_string).collect();
    print.push(std::fs::read_to_string(dir.join(".git/HEAD")).unwrap());
    print.push(std::fs::read_to_string(dir.join(".git/config")).unwrap());
    let index = std::fs::metadata(dir.join(".git/index")).unwrap();
    print.push(format!(
        "{:?} {:?}",
        index.modified().unwrap(),
        std::fs::read(dir.join(".git/index")).unwrap()
    ));
    let mut files: Vec<String> = std::fs::read_dir(dir.join(".git"))
        .unwrap()
        .chain(std::fs::read_dir(dir).unwrap())
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    files.sort();
    print.extend(files);
    print
}

#[tokio::test]
async fn what_the_user_has_is_never_touched() {
    let place = TestRepository::new();
    let clone = place.clone("one");
    // A user with hooks, signatures, pruning, a log of everything, and work in progress.
    for setting in [
        ["commit.gpgsign", "true"],
        ["push.gpgSign", "true"],
        ["fetch.prune", "true"],
        ["push.followTags", "true"],
        ["core.logAllRefUpdates", "always"],
        ["remote.origin.mirror", "true"],
        ["core.hooksPath", "evil-hooks"],
        ["gc.auto", "1"],
    ] {
        git(&clone, &["config", setting[0], setting[1]]);
    }
    std::fs::write(clone.join("file"), "changed\n").unwrap();
    std::fs::write(clone.join("new"), "new\n").unwrap();
    git(&clone, &["add", "new"]);
    let (status, before) =
        (git(&clone, &["--no-optional-locks", "status", "--porcelain"]), fingerprint(&clone));
    for store in [place.store("one"), place.lone_store("one")] {
        let (first, version) = take(&store, &key("e"), "a").await;
        let _ = put(&store, &key("e"), Expect::Version(version), &renewed(&first)).await.unwrap();
        assert_eq!(store.list(&Prefix::Elections).await.unwrap(), [key("e")]);
    }
    let other = place.store("two");
    let _ = take(&other, &key("e"), "b").await;
    let _ = document(&place.store("one"), &key("e")).await;
    assert_eq!(fingerprint(&clone), before);
    assert_eq!(git(&clone, &["--no-optional-locks", "status", "--porcelain"]), status);
    let remote = git(&place.remote(), &["for-each-ref", "--format=%(refname)"]);
    assert_eq!(remote, "refs/baton/e", "the remote has nothing else of this clone's");
}

#[tokio::test]
async fn names_with_slashes_and_odd_endings_keep_apart() {
    let place = TestRepository::new();
    let described = git(&place.clone("one"), &["rev-parse", "--short=8", "HEAD"]);
    let odd = format!("v1.2-14-g{described}");
    for store in [place.store("one"), place.lone_store("one")] {
        for name in ["a", "a/b", "a/b/c", "a.b", "a-b", odd.as_str()] {
            assert!(store.read(&key(name)).await.unwrap().found.is_none(), "{name} is free");
            let (first, version) = take(&store, &key(name), "x").await;
            assert_eq!(document(&store, &key(name)).await, (first, version), "{name}");
        }
        assert_eq!(store.list(&Prefix::Elections).await.unwrap().len(), 6);
    }
}

#[tokio::test]
async fn worktrees_and_bare_repositories_are_repositories() {
    let place = TestRepository::new();
    let clone = place.clone("one");
    git(&clone, &["worktree", "add", "-q", "../tree"]);
    let tree = open(&format!("git:{}", place.path().join("tree").display())).unwrap();
    let (first, _) = take(&tree, &key("e"), "a").await;
    assert_eq!(document(&place.lone_store("one"), &key("e")).await.0, first, "they share the store");
    let bare = open(&format!("git:{}", place.remote().display())).unwrap();
    let (first, _) = take(&bare, &key("f"), "a").await;
    assert_eq!(document(&place.store("one"), &key("f")).await.0, first, "a remote's own view is the same");
    let by_path = open(&format!("git:{}?remote=../remote.git", clone.display())).unwrap();
    assert_eq!(document(&by_path, &key("f")).await.0, first);
}

#[tokio::test]
async fn other_hashes_and_shallow_clones_are_as_good() {
    let place = TestRepository::new();
    git(place.path(), &["init", "-q", "--object-format=sha256", "long"]);
    let long = open(&format!("git:{}", place.path().join("long").display())).unwrap();
    let (first, version) = take(&long, &key("e"), "a").await;
    let version = put(&long, &key("e"), Expect::Version(version), &renewed(&first)).await.unwrap();
    assert_eq!(version.as_str().len(), 64);
    git(&place.clone("one"), &["push", "-q", "origin", "HEAD:refs/heads/main"]);
    let url = format!("file://{}", place.remote().display());
    git(place.path(), &["clone", "-q", "--depth=1", "-b", "main", &url, "shallow"]);
    let shallow = open(&format!("git:{}?remote=origin", place.path().join("shallow").display())).unwrap();
    let _ = take(&place.store("one"), &key("e"), "a").await;
    let (led, _) = take(&shallow, &key("e"), "b").await;
    assert_eq!(document(&place.store("one"), &key("e")).await.0, led);
}

/// Run again by the next test, with the surroundings of a hook.
#[tokio::test]
async fn inside_a_hook() {
    let Some(clone) = std::env::var_os("BATON_TEST_CLONE") else { return };
    let clone = clone.into_string().unwrap();
    for url in [format!("git:{clone}?remote=origin"), format!("git:{clone}")] {
        let store = open(&url).unwrap();
        let (first, version) = take(&store, &key("e"), "a").await;
        assert_eq!(document(&store, &key("e")).await, (first, version));
    }
}

#[test]
fn a_hook_s_variables_do_not_lead_elsewhere() {
    let place = TestRepository::new();
    let (clone, other) = (place.clone("one"), place.clone("other"));
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "git::surroundings::inside_a_hook"])
        .env("BATON_TEST_CLONE", &clone)
        .env("GIT_DIR", other.join(".git"))
        .env("GIT_INDEX_FILE", other.join(".git/index.lock"))
        .env("GIT_WORK_TREE", &other)
        .env("GIT_QUARANTINE_PATH", other.join(".git/objects/quarantine"))
        .env("GIT_OBJECT_DIRECTORY", other.join(".git/objects"))
        .env("GIT_CONFIG_PARAMETERS", "'core.bare=true'")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
    assert!(git(&clone, &["for-each-ref", "refs/baton/"]).contains("refs/baton/e"));
    assert_eq!(git(&other, &["for-each-ref", "refs/baton/", "refs/baton-seen/"]), "");
    assert!(git(&place.remote(), &["for-each-ref"]).contains("refs/baton/e"));
}
