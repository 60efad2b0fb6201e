//! Three servers on one etcd, the active one killed or stopped again and again under load: no token twice, no live lease lost, and
//! clients go on by themselves.
#![cfg(feature = "all-stores")]
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stderr, reason = "the figures of the run")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton::election::fence::Entry;
use baton::election::{AgentName, ElectionName, Margins, Moment, ResourceName, Span};
use baton::store::boot;
use baton::{Bid, Campaign, Coordinator};
use rustix::process::Signal;

use crate::support;
use crate::support::World;
use crate::support::book::Book;
use crate::support::random::Random;
use crate::support::server_group::ServerGroup;
use crate::support::test_stores;

const SERVERS: usize = 3;
/// Of the servers' own: so long that a machine which stands still for seconds does not cost a leadership beside a fail-over.
const SERVER_TTL: &str = "6s";
/// Three times that.
const TTL: Span = Span::secs(18);
/// Elections that programs lead for a moment, again and again.
const BRIEF: usize = 6;
/// Programs for each.
const PROGRAMS: usize = 2;
/// Elections whose leaders never let go.
const LASTING: usize = 8;

/// What everybody was granted and has lost.
#[derive(Clone, Default)]
struct Record {
    book: Book,
    lost: Arc<Mutex<Vec<String>>>,
    /// Until when each lasting leadership may act, by its own clock.
    deadlines: Arc<Mutex<BTreeMap<String, u64>>>,
    enough: Arc<AtomicBool>,
}

impl Record {
    /// Whether all lasting leaderships have asked for a renewal since this moment, and got it; or one is lost.
    fn all_renewed_since(&self, moment: Moment) -> bool {
        let renewed = Margins::STANDARD.deadline(moment, TTL).as_nanos();
        !self.lost.lock().unwrap().is_empty()
            || self.deadlines.lock().unwrap().values().all(|deadline| *deadline >= renewed)
    }

    fn is_full(&self) -> bool {
        self.enough.load(Ordering::Relaxed)
    }
}

fn bid(agent: &str) -> Bid {
    Bid { ttl: Some(TTL), ..Bid::new(AgentName::new(agent).unwrap()) }
}

/// Leads for a moment and writes behind a fence, again and again.
async fn brief(url: String, election: String, agent: String, record: Record) {
    let coordinator = Coordinator::connect(&url).await.unwrap();
    let name = ElectionName::new(&election).unwrap();
    let resource = ResourceName::new(&format!("db/{election}")).unwrap();
    let mut random = Random::seeded();
    while !record.is_full() {
        let campaign = Campaign { wait: Some(Span::secs(2)), ..Campaign::new(bid(&agent)) };
        let Ok(lead) = coordinator.campaign(&name, campaign).await else { continue };
        let place = record.book.granted(&election, lead.token().0);
        let entry = Entry { resource: &resource, token: lead.token(), agent: None, note: "", hold: None };
        let _ = tokio::time::timeout(Duration::from_secs(2), coordinator.fences().admit(&entry, Some(&name)))
            .await;
        let until = boot::now() + Span::millis(random.between(0, 200));
        while boot::now() < until && record.book.still(&election, place, || lead.ensure(Duration::ZERO)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let _ = lead.release("").await;
    }
}

/// Leads from the beginning to the end.
async fn lasting(url: String, election: String, record: Record) {
    let coordinator = Coordinator::connect(&url).await.unwrap();
    let name = ElectionName::new(&election).unwrap();
    let lead = coordinator.campaign(&name, Campaign::new(bid("lasting"))).await.unwrap();
    let place = record.book.granted(&election, lead.token().0);
    while !record.is_full() {
        tokio::select! {
            why = lead.lost() => {
                record.lost.lock().unwrap().push(format!("{election}: {why}"));
                return;
            }
            () = tokio::time::sleep(Duration::from_millis(20)) => {
                record.book.still(&election, place, || lead.ensure(Duration::ZERO));
                record.deadlines.lock().unwrap().insert(election.clone(), lead.deadline().as_nanos());
            }
        }
    }
    lead.release("").await.unwrap();
}

fn names(what: &str, count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("{what}-{number}")).collect()
}

/// What became of the active one, which another takes over from.
fn disturb(servers: &mut ServerGroup, round: usize, random: &mut Random) -> Duration {
    let active = servers.active(None);
    let begun = Instant::now();
    let stops = round % 2 == 1;
    if stops {
        servers.signal(active, Signal::STOP);
    } else {
        servers.kill(active);
    }
    servers.active(Some(active));
    let took = begun.elapsed();
    std::thread::sleep(Duration::from_millis(random.between(0, 1_000)));
    if stops {
        servers.signal(active, Signal::CONT);
    } else {
        servers.run(active);
    }
    took
}

#[cfg(any(feature = "etcd", feature = "all-stores"))]
#[test]
fn the_active_server_is_killed_and_stopped_under_load() {
    let Some(place) = test_stores::etcd() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut servers = ServerGroup::start(folder.path(), &place.url, SERVERS, &["--server-ttl", SERVER_TTL]);
    servers.active(None);
    let (url, record, mut random) = (servers.url(), Record::default(), Random::seeded());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut programs = Vec::new();
    for election in names("lasting", LASTING) {
        programs.push(runtime.spawn(lasting(url.clone(), election, record.clone())));
    }
    for election in names("brief", BRIEF) {
        for agent in names("program", PROGRAMS) {
            programs.push(runtime.spawn(brief(url.clone(), election.clone(), agent, record.clone())));
        }
    }
    support::until("all lead", || record.book.elections() == LASTING + BRIEF);
    let (rounds, mut longest) = (if support::campaign() { 20 } else { 4 }, Duration::ZERO);
    for round in 0..rounds {
        let (before, begun) = (record.book.grants(), boot::now());
        longest = longest.max(disturb(&mut servers, round, &mut random));
        support::until("clients go on", || record.book.grants() >= before + BRIEF);
        // Two servers that die one after the other, before a leader could renew, are one long fail-over.
        support::until("all are renewed by the next server", || record.all_renewed_since(begun));
        let lost = record.lost.lock().unwrap().clone();
        assert!(lost.is_empty(), "round {round}: {lost:?}\n{}", servers.logs());
    }
    // One that stops in order hands over.
    let before = record.book.grants();
    let active = servers.active(None);
    servers.stop(active);
    servers.active(Some(active));
    support::until("clients go on", || record.book.grants() >= before + BRIEF);
    record.enough.store(true, Ordering::Relaxed);
    for program in programs {
        runtime.block_on(program).unwrap();
    }
    assert_eq!(*record.lost.lock().unwrap(), Vec::<String>::new(), "{}", servers.logs());
    check(&record.book, &runtime.block_on(Coordinator::connect(&url)).unwrap(), &runtime);
    eprintln!(
        "{rounds} active servers gone, {} leaderships, longest fail-over {longest:?}",
        record.book.grants()
    );
    around(&place.url, &url);
}

/// Two servers on any store: the lease goes on under the next one, and the token after it is higher.
fn hands_over_on(place: Option<test_stores::TestStore>) {
    let Some(place) = place else { return };
    let folder = tempfile::tempdir().unwrap();
    World::on(&place.url).ok(&["init"]);
    let mut servers = ServerGroup::start(folder.path(), &place.url, 2, &["--server-ttl", "4s"]);
    let world = World::on(&servers.url());
    let first = world.json(&["acquire", "e", "--as", "a", "--ttl", "60s"])["token"].as_u64().unwrap();
    let active = servers.active(None);
    servers.kill(active);
    world.ok(&["renew", "e", "--as", "a"]);
    let next = servers.active(Some(active));
    servers.run(active);
    servers.signal(next, Signal::STOP);
    world.ok(&["release", "e", "--as", "a"]);
    let second = world.json(&["acquire", "e", "--as", "b"])["token"].as_u64().unwrap();
    assert!(second > first);
    servers.signal(next, Signal::CONT);
    let history = world.ok(&["history", "e", "--json"]).jsons();
    let epochs: Vec<u64> = history.iter().map(|entry| entry["epoch"].as_u64().unwrap()).collect();
    assert_eq!(epochs, [first, second]);
}

#[test]
fn servers_share_a_folder() {
    hands_over_on(test_stores::file());
}

#[test]
fn servers_share_a_repository() {
    hands_over_on(test_stores::git());
}

#[cfg(any(feature = "postgres", feature = "all-stores"))]
#[test]
fn servers_share_a_table() {
    hands_over_on(test_stores::postgres());
}

#[cfg(any(feature = "kubernetes", feature = "all-stores"))]
#[test]
fn servers_share_a_namespace() {
    hands_over_on(test_stores::kubernetes());
}

#[cfg(any(feature = "firestore", feature = "all-stores"))]
#[test]
fn servers_share_a_collection() {
    hands_over_on(test_stores::firestore());
}

#[cfg(any(feature = "spanner", feature = "all-stores"))]
#[test]
fn servers_share_a_database() {
    hands_over_on(test_stores::spanner());
}

/// No token twice, no two at a time, and what the fences let through never goes back.
fn check(book: &Book, coordinator: &Coordinator, runtime: &tokio::runtime::Runtime) {
    for (election, led) in book.checked() {
        let name = ElectionName::new(&election).unwrap();
        let history = runtime.block_on(coordinator.history(&name, 1_000)).unwrap();
        let epochs: Vec<u64> = history.iter().map(|entry| entry.epoch.0).collect();
        assert!(epochs.is_sorted_by(|a, b| a < b), "{election}: {epochs:?}");
        let first = epochs.first().copied().unwrap_or(u64::MAX);
        let missing: Vec<_> =
            led.iter().filter(|led| led.token >= first && !epochs.contains(&led.token)).collect();
        assert!(missing.is_empty(), "{election}: {missing:?} are not in its history");
    }
    for election in names("brief", BRIEF) {
        let resource = ResourceName::new(&format!("db/{election}")).unwrap();
        let accepted = runtime.block_on(coordinator.fences().accepted(&resource)).unwrap();
        assert!(!accepted.is_empty());
        assert!(accepted.is_sorted_by_key(|entry| entry.token), "{election}: {accepted:?}");
    }
}

/// Who goes around the servers is refused, and who looks is told what it cannot know.
fn around(store: &str, url: &str) {
    let (direct, through) = (World::on(store), World::on(url));
    let refused = direct.call(&["acquire", "brief-1", "--as", "direct"]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("servers decide on it"), "{}", refused.stderr);
    direct.ok(&["status", "brief-1"]);
    let servers = direct.json(&["status", "_baton/servers"]);
    assert!(url.contains(servers["leader"]["contact"].as_str().unwrap().trim_start_matches("http://")));
    // A program that ended may have missed an answer: what it was granted runs out.
    let wait = ["--wait", "60s", "--contact", "http://late:1"];
    let led = through.json(&[&["acquire", "brief-1", "--as", "late"][..], &wait].concat());
    assert!(led["token"].as_u64().unwrap() > 0);
    assert_eq!(through.status("brief-1")["leader"]["contact"], "http://late:1");
    through.call(&["acquire", "_baton/servers", "--as", "late"]).expect(2);
}
