//! A server of its own, stopped, killed and started again.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use baton_store::conformance::free_port;
use baton_store::{AgeStamp, Change, Expect, Persistence, Store, StoreError};
use futures_util::StreamExt;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::support::{Database, Server, election, led, renewed, swap_at_last};

/// An emulator that belongs to one test.
struct Emulator {
    gateway: Child,
}

impl Emulator {
    /// Starts it, and waits until its database answers.
    async fn start(binary: &PathBuf, server: &Server) -> Emulator {
        let port = |address: &str| address.rsplit(':').next().unwrap().to_string();
        let gateway = Command::new(binary)
            .arg("--grpc_binary")
            .arg(binary.with_file_name("emulator_main"))
            .args([
                "--hostname",
                "127.0.0.1",
                "--grpc_port",
                &port(&server.grpc),
                "--http_port",
                &port(&server.rest),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let emulator = Emulator { gateway };
        for _ in 0..1_200 {
            let up =
                [&server.grpc, &server.rest].into_iter().all(|at| std::net::TcpStream::connect(at).is_ok());
            if up {
                return emulator;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the emulator does not start");
    }

    fn signal(&self, signal: Signal) {
        let group = Pid::from_raw(i32::try_from(self.gateway.id()).unwrap()).unwrap();
        kill_process_group(group, signal).unwrap();
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.gateway.wait();
    }
}

/// Where `gcloud` keeps the emulator; none if there is no `gcloud`.
fn binary() -> Option<PathBuf> {
    if let Ok(path) = std::env::var("BATON_TEST_SPANNER_SERVER") {
        return Some(PathBuf::from(path));
    }
    let path = std::env::var_os("PATH")?;
    let gcloud =
        std::env::split_paths(&path).filter_map(|folder| std::fs::canonicalize(folder.join("gcloud")).ok());
    let beside =
        gcloud.filter_map(|gcloud| Some(gcloud.parent()?.join("cloud_spanner_emulator/gateway_main")));
    beside.into_iter().find(|binary| binary.is_file())
}

/// A database of that server, once it answers: it takes connections before.
async fn prepared(server: &Server) -> Database {
    let (database, begun) = (server.bare_database(), Instant::now());
    while let Err(error) = database.store().prepare().await {
        assert!(begun.elapsed() < Duration::from_secs(60), "{error}");
    }
    database
}

fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

#[tokio::test]
#[allow(clippy::print_stderr, reason = "whoever runs the tests must see what was not tested")]
async fn a_server_that_is_stopped_killed_and_started_again() {
    let (Some(_), binary) = (Server::shared(), binary()) else { return };
    let Some(binary) = binary else {
        assert!(std::env::var("CI").is_err(), "there is no cloud_spanner_emulator beside gcloud");
        eprintln!(
            "SKIPPED: no cloud_spanner_emulator beside gcloud, and BATON_TEST_SPANNER_SERVER is not set"
        );
        return;
    };
    let server = Server { grpc: free_address(), rest: free_address() };
    let emulator = Emulator::start(&binary, &server).await;
    let database = prepared(&server).await;
    let store = database.store_with("&timeout=5s");
    let (name, key) = election("fleet/eu");
    let held = led(&name, "agent-a", 0);
    let version =
        store.swap(&key, Expect::Absent, &held, AgeStamp::Reset, Persistence::Durable).await.unwrap().version;
    let mut changes = store.watch(&key).await.unwrap();
    let (tell, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let watcher =
        tokio::spawn(
            async move { while changes.next().await.is_some_and(|change| tell.send(change).is_ok()) {} },
        );

    emulator.signal(Signal::STOP);
    let next = renewed(&held);
    let swapped =
        store.swap(&key, Expect::Version(version), &next, AgeStamp::Reset, Persistence::Durable).await;
    assert!(
        matches!(swapped, Err(StoreError::Unavailable { .. } | StoreError::Unknown { .. })),
        "{swapped:?}"
    );
    emulator.signal(Signal::CONT);
    let reading = database.store().read(&key).await.unwrap();
    assert!([Some(&held), Some(&next)].contains(&reading.record()));
    let _ = swap_at_last(&store, &key, reading.expect(), &next).await;
    assert_eq!(store.read(&key).await.unwrap().record(), Some(&next));

    drop(emulator);
    let read = store.read(&key).await;
    assert!(matches!(read, Err(StoreError::Unavailable { .. })), "{read:?}");
    while heard.try_recv().is_ok() {}
    // What is in an emulator dies with it.
    let _emulator = Emulator::start(&binary, &server).await;
    let begun = Instant::now();
    let read = loop {
        // It takes connections before it answers.
        match store.read(&key).await {
            Err(StoreError::Unavailable { .. }) if begun.elapsed() < Duration::from_secs(60) => {}
            read => break read,
        }
    };
    assert!(matches!(read, Err(StoreError::Refused { .. })), "{read:?}");
    store.prepare().await.unwrap();
    assert!(store.read(&key).await.unwrap().found.is_none());
    assert!(store.swap(&key, Expect::Absent, &held, AgeStamp::Reset, Persistence::Durable).await.is_ok());
    loop {
        match tokio::time::timeout(Duration::from_secs(60), heard.recv()).await.unwrap() {
            Some(Change::Gap) => break,
            Some(Change::Changed) => {}
            None => panic!("the watch ended"),
        }
    }
    watcher.abort();
}
