//! Nonsense and faults: each has its own clear error, and nothing is lost or overwritten.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stderr, reason = "that something could not be tried here")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support;
use crate::support::{World, finish, tree};

/// The failure of a call: it says what and gives a hint.
fn failure(world: &World, arguments: &[&str], code: i32) -> Value {
    let told = world.call(&[&["--json"], arguments].concat()).expect(code).json();
    assert_eq!((&told["outcome"], &told["exit"]), (&"error".into(), &code.into()), "{told}");
    assert!(told["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "no hint: {told}");
    told
}

fn message(told: &Value) -> &str {
    told["message"].as_str().unwrap()
}

/// `a` leads `e` with token 1.
fn led() -> World {
    led_in(World::new())
}

fn led_in(world: World) -> World {
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    world
}

/// The newest version of a record.
fn newest(folder: &Path) -> PathBuf {
    let versions = fs::read_dir(folder.join("versions")).unwrap();
    let number = |entry: &fs::DirEntry| entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok());
    versions.map(Result::unwrap).max_by_key(number).unwrap().path()
}

#[test]
fn names_that_are_none() {
    let world = World::new();
    let long = "x".repeat(65);
    for name in
        ["", "E", "a b", "a//b", "/a", "a/", "..", "a/../b", ".hidden", "-a", "a.lock", "ü", "a\nb", &long]
    {
        failure(&world, &["acquire", name, "--as", "a"], 2);
        failure(&world, &["acquire", "e", "--as", name], 2);
        failure(&world, &["fence", name, "--election", "e", "--token", "1"], 2);
    }
    for name in ["candidates", "a/history", "fences/x"] {
        let told = failure(&world, &["acquire", name, "--as", "a"], 2);
        assert!(message(&told).contains("reserved"), "{told}");
    }
    failure(&world, &["acquire", "e", "--as", "a/b"], 2);
    assert!(!world.store().exists());
}

#[test]
fn lengths_of_time_that_are_out_of_bounds() {
    let world = World::new();
    for (ttl, why) in
        [("500ms", "too short"), ("0s", "too short"), ("999ms", "too short"), ("8d", "too long")]
    {
        for call in
            [&["acquire", "e", "--as", "a", "--ttl", ttl][..], &["run", "e", "--ttl", ttl, "--", "true"]]
        {
            let told = failure(&world, call, 2);
            assert!(message(&told).contains(why), "{call:?}: {told}");
        }
    }
    for ttl in ["", "1", "x", "-1s", "1y", "1s1", "99999999999999999999d"] {
        failure(&world, &["acquire", "e", "--as", "a", "--ttl", ttl], 2);
    }
    assert!(!world.store().join("e").exists());
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "7d"]);
    world.ok(&["release", "e", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1s"]);
}

#[test]
fn a_lease_out_of_bounds_is_refused_although_another_leads() {
    let world = led();
    let told =
        failure(&world, &["run", "e", "--as", "b", "--ttl", "500ms", "--wait", "20s", "--", "true"], 2);
    assert!(message(&told).contains("too short"), "{told}");
}

#[test]
fn a_grace_over_a_third() {
    let world = World::new();
    let told = failure(&world, &["run", "e", "--ttl", "3s", "--grace", "1001ms", "--", "true"], 2);
    assert!(message(&told).contains("over a third"), "{told}");
    world.ok(&["run", "e", "--ttl", "30s", "--grace", "10s", "--", "true"]);
}

#[test]
fn stores_that_are_none() {
    let world = World::new();
    for (store, code, why) in [
        ("foo:x", "unknown-store", "no store has the scheme `foo:`"),
        ("zookeeper://h:2181/p", "unknown-store", "no store has the scheme `zookeeper:`"),
        ("folder", "unknown-store", "has no scheme"),
        ("file:", "unknown-store", "names no folder"),
        ("file:x?remote=y", "unknown-store", "has no parameter `remote`"),
        ("git:.?branch=x", "unknown-store", "has no parameter `branch`"),
        ("mem:", "usage", "lives in one process"),
    ] {
        let told = failure(&world, &["status", "--store", store], 2);
        assert_eq!(told["code"], code, "{store}");
        assert!(message(&told).contains(why), "{store}: {told}");
    }
}

#[test]
#[cfg(feature = "all-stores")]
fn stores_of_servers_that_are_none() {
    let world = World::new();
    for (store, why) in [
        ("etcd://h:port/p", "`port` is no port"),
        ("etcd://h/p?colour=red", "no parameter `colour`"),
        ("k8s://Upper", "cannot be the name of a namespace"),
        ("k8s://n?colour=red", "no parameter `colour`"),
        ("firestore://", "no name of a project"),
        ("firestore://p?colour=red", "no parameter `colour`"),
        ("spanner://p", "does not name a Spanner database"),
        ("spanner://p/i/d?colour=red", "no parameter `colour`"),
        ("postgres:///d", "names no host"),
        ("postgres://h/d?colour=red", "no parameter `colour`"),
    ] {
        let told = failure(&world, &["acquire", "e", "--as", "a", "--store", store], 2);
        assert_eq!(told["code"], "unknown-store", "{store}");
        assert!(message(&told).contains(why), "{store}: {told}");
        world.call(&["doctor", "--store", store]).expect(2);
    }
    assert!(!world.file("state").exists(), "no key was kept");
}

#[test]
fn a_path_that_is_not_a_folder() {
    let world = World::new();
    fs::write(world.file("plain"), "mine").unwrap();
    for store in ["file:plain", "file:plain/below"] {
        for call in [&["status"][..], &["acquire", "e", "--as", "a"], &["init"]] {
            let told = failure(&world, &[call, &["--store", store]].concat(), 7);
            assert_eq!(told["code"], "refused", "{store}: {told}");
            assert!(message(&told).contains("not a folder"), "{store}: {told}");
        }
    }
    assert_eq!(fs::read_to_string(world.file("plain")).unwrap(), "mine");
}

/// A call as a user without rights, if this one can become somebody else.
fn call_as_nobody(world: &World, arguments: &[&str]) -> Option<support::Done> {
    if !rustix::process::geteuid().is_root() {
        let mut command = world.command(arguments);
        command.env("BATON_STATE_DIR", world.file("nobody/state"));
        return Some(finish(command, None));
    }
    let plain = world.command(arguments);
    let copy = world.file("baton");
    fs::copy(env!("CARGO_BIN_EXE_baton"), &copy).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).arg(&copy).args(arguments);
    command.current_dir(world.path());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("BATON_STATE_DIR", world.file("nobody/state"));
    Command::new("setpriv").arg("--version").output().ok().map(|_| finish(command, None))
}

#[test]
fn a_folder_without_permission() {
    // Where another user can come to: the folder for temporary files may be private as a whole.
    let world = World::folder_below(Path::new("/tmp"));
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    fs::create_dir(world.file("nobody")).unwrap();
    fs::set_permissions(world.file("nobody"), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(world.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let before = tree(&world.store());
    fs::set_permissions(world.store(), fs::Permissions::from_mode(0o700)).unwrap();
    if !rustix::process::geteuid().is_root() {
        fs::set_permissions(world.store(), fs::Permissions::from_mode(0o000)).unwrap();
    }
    for call in [&["status", "e", "--json"][..], &["acquire", "e", "--as", "b", "--json"]] {
        let Some(done) = call_as_nobody(&world, call) else {
            support::skip("there is no setpriv to become another user with");
            return;
        };
        let told = done.expect(7).json();
        assert_eq!(told["code"], "refused", "{told}");
        assert!(message(&told).contains("may not use it"), "{told}");
        assert!(told["hint"].as_str().unwrap().contains("chmod"), "{told}");
    }
    fs::set_permissions(world.store(), fs::Permissions::from_mode(0o755)).unwrap();
    // What may be read but not written can be looked at, and not led.
    if rustix::process::geteuid().is_root() {
        call_as_nobody(&world, &["status", "e"]).unwrap().expect(0);
        call_as_nobody(&world, &["acquire", "f", "--as", "b"]).unwrap().expect(7);
    }
    assert_eq!(before, tree(&world.store()));
}

/// A version file as somebody spoilt it.
fn spoilt(world: &World, spoil: impl Fn(&str) -> String) -> (PathBuf, String) {
    let path = newest(&world.store().join("e"));
    let text = fs::read_to_string(&path).unwrap();
    let spoilt = spoil(&text);
    assert_ne!(text, spoilt);
    fs::write(&path, &spoilt).unwrap();
    (path, spoilt)
}

#[test]
fn a_version_that_was_cut_short_or_changed_by_hand() {
    let cut = |text: &str| text[..text.len() / 2].to_string();
    let changed = |text: &str| text.replace("\"coordinator\": \"a\"", "\"coordinator\": \"b\"");
    let emptied = |_: &str| String::new();
    let garbage = |_: &str| "\u{0}\u{1}nonsense\n".to_string();
    for spoil in [&cut as &dyn Fn(&str) -> String, &changed, &emptied, &garbage] {
        let world = led_in(World::folder());
        let (path, text) = spoilt(&world, spoil);
        for call in [
            &["status", "e"][..],
            &["acquire", "e", "--as", "b"],
            &["renew", "e", "--as", "a"],
            &["release", "e", "--as", "a"],
            &["check", "e", "--token", "1"],
            &["run", "e", "--", "true"],
        ] {
            let told = failure(&world, call, 7);
            assert_eq!(told["code"], "corrupt", "{call:?}: {told}");
            assert!(message(&told).contains(path.to_str().unwrap()), "{told}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text, "{call:?} overwrote it");
            assert_eq!(newest(&world.store().join("e")), path, "{call:?} wrote over it");
        }
    }
}

#[test]
fn a_record_of_a_newer_baton() {
    let world = led_in(World::folder());
    let path = newest(&world.store().join("e"));
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"format\""), "records say their format: {text}");
    // As a newer Baton would write it: with its own checksum, which ours cannot make here, so that either is said.
    let bumped = text.replace("\"format\":1", "\"format\":99").replace("\"format\": 1", "\"format\": 99");
    fs::write(&path, &bumped).unwrap();
    let told = failure(&world, &["status", "e"], 7);
    assert_eq!(told["code"], "corrupt", "{told}");
    failure(&world, &["acquire", "e", "--as", "b"], 7);
    assert_eq!(fs::read_to_string(&path).unwrap(), bumped);
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").args(["-a", "--"]).arg(from).arg(to).status().unwrap();
    assert!(done.success());
}

#[test]
fn an_old_copy_of_the_store_that_was_put_back() {
    let world = led_in(World::folder());
    copy(&world.store(), &world.file("backup"));
    for agent in ["b", "c"] {
        let before = if agent == "b" { "a" } else { "b" };
        world.ok(&["release", "e", "--as", before]);
        world.ok(&["acquire", "e", "--as", agent]);
    }
    fs::remove_dir_all(world.store()).unwrap();
    copy(&world.file("backup"), &world.store());
    let before = tree(&world.store());
    for call in [&["status", "e"][..], &["acquire", "e", "--as", "d"], &["renew", "e", "--as", "c"]] {
        let told = failure(&world, call, 7);
        assert_eq!(told["code"], "corrupt", "{call:?}");
        assert!(message(&told).contains("epoch went back from 3 to 1"), "{told}");
    }
    assert_eq!(before, tree(&world.store()));
}

#[test]
fn a_store_that_was_wiped_is_another_store() {
    let world = World::folder();
    // It is to be running still when the next one asks, on a busy machine too.
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10s"]);
    world.ok(&["fence", "db", "--election", "e", "--token", "1"]);
    copy(&world.store().join("fences"), &world.file("fences"));
    fs::remove_dir_all(world.store()).unwrap();
    // Who saw it held waits out the lease, and goes on with a higher epoch.
    world.call(&["acquire", "e", "--as", "b"]).expect(3);
    let granted = world.json(&["acquire", "e", "--as", "b", "--wait", "50s"]);
    assert_eq!(granted["token"], 2);
    // The fences of the old store refuse the new one.
    copy(&world.file("fences"), &world.store().join("fences"));
    let told = failure(&world, &["fence", "db", "--election", "e", "--token", "2"], 2);
    assert!(message(&told).contains("store"), "{told}");
}

#[test]
fn the_store_of_another_machine() {
    let world = led_in(World::folder());
    let path = newest(&world.store().join("e"));
    let text = fs::read_to_string(&path).unwrap();
    let (_, rest) = text.split_once("\"machine\":\"").unwrap();
    let machine = rest.split('"').next().unwrap();
    assert!(!machine.is_empty());
    // Its checksum does not fit then: whichever is said first, it is refused and kept.
    fs::write(&path, text.replace(machine, "0123456789abcdef")).unwrap();
    failure(&world, &["acquire", "e", "--as", "b"], 7);
    assert!(fs::read_to_string(&path).unwrap().contains("0123456789abcdef"));
}

/// A small file system of its own, unmounted at the end.
struct Mount(PathBuf);

impl Mount {
    fn make(world: &World, kind: &str, options: &str) -> Option<Mount> {
        let path = world.file("mount");
        fs::create_dir(&path).unwrap();
        let mut command = Command::new("mount");
        let mounted = command.args(["-t", kind, "-o", options, "none"]).arg(&path).output();
        mounted.is_ok_and(|done| done.status.success()).then(|| Mount(path))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk() {
    let world = World::new();
    let Some(mount) = Mount::make(&world, "tmpfs", "size=256k") else {
        eprintln!("SKIPPED: a full disk; nothing can be mounted here (needs root)");
        return;
    };
    let store = format!("file:{}", mount.0.join("store").display());
    let with = |arguments: &[&'static str]| [arguments, &["--store"]].concat();
    let call = |arguments: &[&'static str], code: i32| {
        let arguments = with(arguments);
        let arguments: Vec<&str> = arguments.into_iter().chain([store.as_str()]).collect();
        world.call(&[&arguments[..], &["--json"]].concat()).expect(code).json()
    };
    call(&["acquire", "e", "--as", "a", "--ttl", "1h"], 0);
    call(&["fence", "db", "--election", "e", "--token", "1"], 0);
    let filler = mount.0.join("filler");
    let _ = fs::write(&filler, vec![0; 1 << 20]);
    let _ = fs::write(mount.0.join("crumbs"), vec![0; 1 << 12]);
    let before = tree(&mount.0.join("store"));
    for arguments in [
        &["renew", "e", "--as", "a"][..],
        &["acquire", "f", "--as", "a"],
        &["fence", "db", "--token", "1"],
        &["checkpoint", "e", "--as", "a", "--summary", "x"],
        &["release", "e", "--as", "a"],
    ] {
        let told = call(arguments, 7);
        assert_eq!(told["code"], "unavailable", "{arguments:?}: {told}");
        assert!(message(&told).contains("disk is full"), "{arguments:?}: {told}");
    }
    call(&["status", "e"], 0);
    let files = |tree: &std::collections::BTreeMap<PathBuf, Vec<u8>>| -> Vec<(PathBuf, Vec<u8>)> {
        tree.iter().filter(|(path, _)| !path.is_dir()).map(|(p, t)| (p.clone(), t.clone())).collect()
    };
    assert_eq!(files(&before), files(&tree(&mount.0.join("store"))), "nothing was lost or overwritten");
    fs::remove_file(&filler).unwrap();
    call(&["renew", "e", "--as", "a"], 0);
    call(&["fence", "db", "--token", "1"], 0);
}

#[test]
fn a_standby_on_a_full_disk_says_so_while_it_waits() {
    let world = World::new();
    let Some(mount) = Mount::make(&world, "tmpfs", "size=256k") else {
        eprintln!("SKIPPED: a full disk; nothing can be mounted here (needs root)");
        return;
    };
    let store = format!("file:{}", mount.0.join("store").display());
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h", "--store", &store]);
    let filler = mount.0.join("filler");
    let _ = fs::write(&filler, vec![0; 1 << 20]);
    let _ = fs::write(mount.0.join("crumbs"), vec![0; 1 << 12]);
    let mut standby = world.command(&["run", "e", "--as", "b", "--store", &store, "--", "true"]);
    let mut standby = standby.stderr(fs::File::create(world.file("said")).unwrap()).spawn().unwrap();
    let said = || fs::read_to_string(world.file("said")).unwrap();
    support::until("it says why it could not lead", || said().contains("disk is full"));
    assert!(standby.try_wait().unwrap().is_none(), "it waits on: {}", said());
    fs::remove_file(&filler).unwrap();
    world.ok(&["release", "e", "--as", "a", "--store", &store]);
    assert_eq!(support::exit_code(&mut standby), Some(0), "{}", said());
}

#[test]
fn a_network_file_system() {
    let world = World::new();
    // 9p over nothing cannot be mounted; the magic numbers themselves are tested where they are.
    let Some(mount) = Mount::make(&world, "9p", "trans=fd,rfdno=0,wfdno=1") else {
        eprintln!("SKIPPED: a network file system; none can be mounted here");
        return;
    };
    let store = format!("file:{}", mount.0.display());
    let told = failure(&world, &["acquire", "e", "--as", "a", "--store", &store], 7);
    assert_eq!(told["code"], "refused");
    assert!(message(&told).contains("network file system"), "{told}");
}

#[test]
fn private_folders_that_cannot_be_written() {
    let world = World::new();
    fs::write(world.file("state"), "in the way").unwrap();
    let told = failure(&world, &["acquire", "e", "--as", "a"], 1);
    assert!(message(&told).contains("cannot write"), "{told}");
    assert!(told["hint"].as_str().unwrap().contains("BATON_STATE_DIR"), "{told}");
    // What could not be kept is not held either.
    fs::remove_file(world.file("state")).unwrap();
    world.ok(&["acquire", "e", "--as", "b"]);
}

#[test]
fn large_and_odd_texts() {
    let world = led();
    let long = "x".repeat(100_000);
    failure(&world, &["release", "e", "--as", "a", "--reason", &long], 2);
    failure(&world, &["checkpoint", "e", "--as", "a", "--summary", &long], 2);
    failure(&world, &["checkpoint", "e", "--as", "a", "--state", &format!("\"{long}\"")], 2);
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    failure(&world, &["checkpoint", "e", "--as", "a", "--state", &deep], 2);
    failure(&world, &["check", "e", "--token", "-1"], 2);
    failure(&world, &["check", "e", "--token", "18446744073709551616"], 2);
    failure(&world, &["check", "e", "--token", "18446744073709551615"], 5);
    assert_eq!(world.status("e")["leader"]["agent"], "a");
}

/// Of a request whose answer was lost: it may have been granted, until it is seen that it was not.
#[test]
fn a_refused_acquire_leaves_no_key() {
    let world = led();
    let store = fs::read_dir(world.file("state/stores")).unwrap().next().unwrap().unwrap().path();
    let (theirs, ours) = (store.join("leases/e/a.json"), store.join("leases/e/b.json"));
    failure(&world, &["acquire", "e", "--as", "b"], 3);
    assert!(!ours.exists(), "of a first request");
    let mut kept: Value = serde_json::from_slice(&fs::read(&theirs).unwrap()).unwrap();
    kept["credential"] = serde_json::to_value(baton::mint_credential().unwrap()).unwrap();
    for epoch in [0, 1] {
        kept["epoch"] = epoch.into();
        fs::write(&ours, kept.to_string()).unwrap();
        failure(&world, &["acquire", "e", "--as", "b"], 3);
        assert!(!ours.exists(), "of one with token {epoch}");
    }
    assert!(theirs.exists());
    world.ok(&["renew", "e", "--as", "a"]);
}

/// A name that was mistyped is told at once, as a shell would, and not after the wait for a turn: `other` leads for an hour.
#[test]
fn a_program_that_is_not_there_is_noticed_before_the_wait() {
    let world = World::new();
    world.ok(&["acquire", "e", "--as", "other", "--ttl", "1h"]);
    let plain = world.file("plain");
    fs::write(&plain, "text").unwrap();
    let (plain, data) = (plain.display().to_string(), world.file("data").display().to_string());
    let before = world.status("e");
    let peer = [
        "peer",
        "--algorithm",
        "raft",
        "--id",
        "1",
        "--peer",
        "1=127.0.0.1:1",
        "--listen",
        "127.0.0.1:1",
        "--data",
        &data,
    ];
    let calls: [&[&str]; 5] = [
        &["run", "e", "--as", "a"],
        &["fence", "db", "--election", "e", "--token", "1"],
        &["judge", "e", "--as", "a"],
        &["task", "work", "e", "--as", "a"],
        &peer,
    ];
    for call in calls {
        for (program, code) in [("nosuchcmd", 127), ("./nosuchcmd", 127), (plain.as_str(), 126), ("/", 126)] {
            let told = failure(&world, &[call, &["--", program]].concat(), code);
            assert!(message(&told).contains(program) && told["code"] == "no-program", "{told}");
        }
    }
    let after = world.status("e");
    assert_eq!((&before["token"], &before["leader"]["agent"]), (&after["token"], &after["leader"]["agent"]));
    assert!(!Path::new(&data).exists(), "it took part in the group");
}
