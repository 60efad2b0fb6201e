//! A server that is killed again and again under load, and what its clients were promised.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stderr, reason = "the figures of the run")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton::election::{AgentName, ElectionName, Margins, Span};
use baton::store::boot;
use baton::{Bid, Campaign, Coordinator};

use crate::support;
use crate::support::World;
use crate::support::book::Book;
use crate::support::fleet::{ELECTION, Fleet, check_history};
use crate::support::random::Random;
use crate::support::server::Server;
use crate::support::watcher::Watcher;

/// Elections that programs campaign for, beside the one of `baton run`.
const ELECTIONS: usize = 8;
/// Programs for each.
const PROGRAMS: usize = 3;
/// The lease that they ask for.
const TTL: Span = Span::secs(3);

/// Leads for a moment, again and again.
async fn campaign_on(url: String, election: String, agent: String, book: Book, enough: Arc<AtomicBool>) {
    let coordinator = Coordinator::connect(&url).await.unwrap();
    let name = ElectionName::new(&election).unwrap();
    let mut random = Random::seeded();
    while !enough.load(Ordering::Relaxed) {
        let bid = Bid { ttl: Some(TTL), ..Bid::new(AgentName::new(&agent).unwrap()) };
        let campaign = Campaign { wait: Some(Span::secs(1)), ..Campaign::new(bid) };
        let Ok(lead) = coordinator.campaign(&name, campaign).await else { continue };
        let place = book.granted(&election, lead.token().0);
        let until = boot::now() + Span::millis(random.between(0, 250));
        while boot::now() < until && book.still(&election, place, || lead.ensure(Duration::ZERO)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let _ = lead.release("").await;
    }
}

#[test]
fn a_snapshot_is_put_back_and_no_token_comes_twice() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("server.redb");
    let mut server = Server::start_with(&database, &["--snapshot-every", "100ms"]);
    let world = World::on(&server.url());
    let first = world.json(&["acquire", "e", "--as", "a", "--ttl", "1s"])["token"].as_u64().unwrap();
    let snapshots = folder.path().join("server.redb.snapshots");
    let newest = || {
        let entries = std::fs::read_dir(&snapshots).ok()?.map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "redb")).max()
    };
    // One that is taken at this moment may have begun before the grant: the next one has not.
    for _ in 0..2 {
        let before = newest();
        support::until("a snapshot has been taken", || newest() > before);
    }
    server.stop();
    let snapshot = newest().unwrap().display().to_string();
    // What was granted after the snapshot is not in it.
    server = Server::start(&database);
    let world = World::on(&server.url());
    let second = world.json(&["acquire", "e", "--as", "b", "--wait", "20s"])["token"].as_u64().unwrap();
    assert!(second > first);
    let store = format!("embedded:{}", database.display());
    let refused = world.call(&["restore", &snapshot, "--store", &store]).expect(7);
    assert!(refused.stderr.contains("open"), "{}", refused.stderr);
    server.stop();
    let restored = world.json(&["restore", &snapshot, "--store", &store]);
    assert_eq!(restored["elections"], 1);
    server = Server::start(&database);
    let world = World::on(&server.url());
    // Nobody knows who was granted what since the snapshot: the longest lease that it knows of is waited for.
    let wait = format!("{}ms", restored["waits_ms"].as_u64().unwrap() + 20_000);
    let third = world.json(&["acquire", "e", "--as", "c", "--wait", &wait])["token"].as_u64().unwrap();
    assert!(third > second && third > restored["floor"].as_u64().unwrap());
    world.call(&["check", "e", "--token", &second.to_string()]).expect(5);
    server.stop();
}

/// A lease of twelve seconds is renewed every four: a server that is away for half of them does not cost it.
#[test]
fn a_short_lease_outlives_a_restart_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(&folder.path().join("server.redb"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let coordinator = runtime.block_on(Coordinator::connect(&server.url())).unwrap();
    let mut leads = Vec::new();
    for number in 1..=20 {
        let name = ElectionName::new(&format!("short-{number}")).unwrap();
        let bid = Bid { ttl: Some(Span::secs(12)), ..Bid::new(AgentName::new("a").unwrap()) };
        leads.push(runtime.block_on(coordinator.campaign(&name, Campaign::new(bid))).unwrap());
    }
    for _ in 0..3 {
        let crashed = boot::now();
        server.crash_for(Duration::from_secs(2));
        // All of them have asked for a renewal since, and got it.
        let renewed = Margins::STANDARD.deadline(crashed, Span::secs(12));
        support::until("all are renewed", || leads.iter().all(|lead| lead.deadline() > renewed));
        assert!(leads.iter().all(|lead| lead.ensure(Duration::ZERO)));
    }
}

fn elections() -> Vec<String> {
    (1..=ELECTIONS).map(|number| format!("load-{number}")).collect()
}

#[test]
fn a_server_that_is_killed_under_load_loses_nothing_that_it_answered_and_gives_no_token_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(&folder.path().join("server.redb"));
    let world = World::on(&server.url());
    let mut random = Random::seeded();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (book, enough) = (Book::default(), Arc::new(AtomicBool::new(false)));
    let mut programs = Vec::new();
    for election in elections() {
        for program in 1..=PROGRAMS {
            let agent = format!("program-{program}");
            let (book, enough) = (book.clone(), Arc::clone(&enough));
            programs.push(runtime.spawn(campaign_on(server.url(), election.clone(), agent, book, enough)));
        }
    }
    let watcher = Watcher::start(&world, ELECTION);
    let fleet = Fleet::start(&world, 3, |_| Vec::new());
    support::until("somebody leads", || watcher.findings().leader().is_some());

    let rounds = if support::campaign() { 500 } else { 40 };
    let looker = runtime.block_on(Coordinator::connect(&server.url())).unwrap();
    for _ in 0..rounds {
        std::thread::sleep(Duration::from_millis(random.between(20, 300)));
        // What was answered before the kill must be there after it.
        let answered: Vec<(String, u64)> =
            elections().into_iter().map(|election| (election.clone(), book.highest(&election))).collect();
        server.crash();
        for (election, token) in answered {
            let name = ElectionName::new(&election).unwrap();
            let view = runtime.block_on(looker.view(&name)).unwrap();
            let epoch = view.document.map_or(0, |document| document.epoch.0);
            assert!(epoch >= token, "{election}: token {token} was granted, and the epoch is {epoch}");
        }
    }
    enough.store(true, Ordering::Relaxed);
    for program in programs {
        runtime.block_on(program).unwrap();
    }
    let findings = watcher.findings();
    book.checked();
    let count = book.grants();
    eprintln!(
        "{rounds} kills of the server, {count} leaderships of programs, {} of runs, longest vacancy {:?}",
        findings.trees.len(),
        findings.longest_vacancy
    );
    assert!(count > rounds, "there was load");
    fleet.stop();
    watcher.finish();
    check_history(&world);
}
