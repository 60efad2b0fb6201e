//! A server that takes connections and says nothing: every command ends, and says what to do.
#![cfg(feature = "all-stores")]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton::store::boot;
use serde_json::{Value, json};

use crate::support::World;

/// One request may take ten seconds; the commands must not sum up many of them. A bound on a hang, on a busy machine.
const ENOUGH: Duration = Duration::from_secs(30);

/// Takes connections for as long as the test runs. Returns where.
fn silent_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let kept: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            kept.lock().unwrap().push(stream.unwrap());
        }
    });
    at
}

/// Where the key of an agent of this world lies, on a store of this place.
fn key_file(world: &World, location: &str) -> PathBuf {
    let hash = baton::election::ContentHash::of(location.as_bytes()).to_string();
    world.file(&format!("state/stores/{}/leases/e/a.json", &hash[..16]))
}

/// `a` believes to hold a lease of this length, renewed just now.
fn believes(world: &World, location: &str, ttl_ms: u64) {
    let credential = baton::mint_credential().unwrap();
    let lease = json!({
        "credential": credential, "epoch": 1, "ttl_ms": ttl_ms, "asked_at": boot::now(),
        "boot": boot::Boot::current().boot,
    });
    let path = key_file(world, location);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, lease.to_string()).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn timed(world: &World, arguments: &[&str], code: i32) -> (Value, Duration) {
    let began = Instant::now();
    let done = world.call(&[arguments, &["--json"]].concat()).expect(code);
    let took = began.elapsed();
    (done.jsons().pop().unwrap_or_default(), took)
}

#[test]
fn no_command_sums_up_many_waits() {
    let at = silent_server();
    std::thread::scope(|scope| {
        for url in [
            format!("etcd://{at}/p"),
            format!("etcd://{at}/p?election=etcd"),
            format!("postgres://u:p@{at}/d?sslmode=disable"),
            format!("spanner://p/i/d?emulator={at}"),
            format!("firestore://p?emulator={at}"),
        ] {
            for arguments in [
                &["acquire", "e", "--as", "b"][..],
                &["renew", "e", "--as", "a"],
                &["release", "e", "--as", "a"],
                &["fence", "db", "--election", "e", "--token", "1"],
                &["status"],
            ] {
                let url = url.clone();
                scope.spawn(move || {
                    let world = World::on(&url);
                    believes(&world, &location(&url), 3_600_000);
                    let (told, took) = timed(&world, arguments, 7);
                    assert!(took < ENOUGH, "{arguments:?} on {url}: {took:?}");
                    assert!(told["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{told}");
                    if arguments[0] == "release" && told["code"] != "refused" {
                        assert!(told["hint"].as_str().unwrap().contains("runs out by itself"), "{told}");
                    }
                });
            }
        }
    });
}

/// What a store calls itself; opening one sends nothing.
fn location(url: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { baton::Coordinator::connect(url).await.unwrap().backend().location() })
}

#[test]
fn the_doctor_asks_a_silent_server_once() {
    let at = silent_server();
    for url in [format!("etcd://{at}/p"), format!("etcd://{at}/p?election=etcd")] {
        let world = World::on(&url);
        believes(&world, &location(&url), 3_600_000);
        let began = Instant::now();
        let findings = world.call(&["doctor", "--write", "--json"]).expect(7).jsons();
        assert!(began.elapsed() < ENOUGH, "{:?}", began.elapsed());
        let failed: Vec<&Value> = findings.iter().filter(|finding| finding["verdict"] == "fail").collect();
        assert_eq!(failed.len(), 1, "{findings:?}");
        assert!(failed[0]["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{findings:?}");
    }
}

#[test]
fn patience_ends_with_the_lease() {
    let at = silent_server();
    let url = format!("etcd://{at}/p");
    let world = World::on(&url);
    let location = location(&url);
    // A request alone takes ten seconds, and then the store could not be reached.
    let ends_first = |arguments: &[&str], code: i32| {
        believes(&world, &location, 8_000);
        timed(&world, arguments, code).0
    };
    let told = ends_first(&["renew", "e", "--as", "a"], 4);
    assert_eq!(told["code"], "lost", "{told}");
    assert!(told["message"].as_str().unwrap().contains("ended before"), "{told}");
    let told = ends_first(&["release", "e", "--as", "a"], 7);
    assert!(told["message"].as_str().unwrap().contains("ended by itself"), "{told}");
}
