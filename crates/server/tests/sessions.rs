//! What sessions promise, to clients of the library and to those who speak the protocol themselves.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use baton::{
    Bid, Campaign, CheckpointContent, Coordinator, Error, Leadership, Session, SessionLeadership, Status,
};
use baton_api::CommandError;
use baton_api::describe::{Description, Fares, SUSPECT};
use baton_api::elections::Sessions;
use baton_api::sessions::{
    Announce, EndSession, Heartbeat, HeartbeatReply, LeaseRef, NewsRequest, SessionLease,
};
use baton_election::command::{Ending, Release};
use baton_election::operator::{Act, OperatorKey};
use baton_election::time::Span;
use baton_election::{
    AgentName, Credential, ElectionName, Epoch, Incarnation, LeaseKey, Margins, Policy, Refusal,
    policy::Limits,
};
use baton_server::{Founders, Options, Server};
use baton_store::{MemoryStore, boot};
use serde_json::json;

/// A bound on a hang, far above what anything takes.
const HANG: Duration = Duration::from_secs(120);

/// A server that can crash and start anew at the same address.
struct TestServer {
    store: MemoryStore,
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TestServer {
    async fn open() -> TestServer {
        let store = MemoryStore::default();
        let (address, task) = TestServer::serve(&store, "127.0.0.1:0".parse().unwrap()).await;
        TestServer { store, address, task }
    }

    async fn serve(store: &MemoryStore, address: SocketAddr) -> (SocketAddr, tokio::task::JoinHandle<()>) {
        // A server that comes back to its port may find it lent out, to somebody's connection, for a moment.
        let listener = in_time(async {
            loop {
                match Server::listen(address, &Options::default()).await {
                    Ok(listener) => return listener,
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        })
        .await;
        let founders = Arc::new(Founders::with_keys(vec![OperatorKey::from_seed([42; 32]).public()]));
        let options = Options { founders, ..Options::default() };
        let server = Server::start(listener, Arc::new(store.clone()), options).await.unwrap();
        let address = server.listening().address().unwrap();
        (address, tokio::spawn(server.serve(std::future::pending())))
    }

    /// It dies, and all that it had in memory with it.
    async fn crash(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    async fn restart(&mut self) {
        (self.address, self.task) = TestServer::serve(&self.store, self.address).await;
    }

    async fn client(&self) -> Coordinator {
        Coordinator::connect(&format!("http://{}", self.address)).await.unwrap()
    }
}

fn sessions(coordinator: &Coordinator) -> &dyn Sessions {
    coordinator.backend().sessions().unwrap()
}

fn agent(name: &str) -> AgentName {
    AgentName::new(name).unwrap()
}

fn election(name: &str) -> ElectionName {
    ElectionName::new(name).unwrap()
}

fn bid(name: &str, ttl: Span) -> Bid {
    Bid { ttl: Some(ttl), ..Bid::new(agent(name)) }
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, work).await.expect("this hangs")
}

/// Looks again and again, since nobody tells of it.
async fn until<F: Future<Output = bool>>(holds: &impl Fn() -> F) {
    while !holds().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn lead(coordinator: &Coordinator, name: &str, of: &str, ttl: Span) -> Leadership {
    in_time(coordinator.campaign(&election(of), Campaign::new(bid(name, ttl)))).await.unwrap()
}

async fn ride(session: &Session, of: &str, ttl: Span) -> SessionLeadership {
    in_time(session.acquire(&election(of), &bid(session.agent().as_str(), ttl))).await.unwrap()
}

const CREDENTIAL: Credential = Credential { incarnation: Incarnation([1; 8]), key: LeaseKey([2; 16]) };

fn announce(number: u64, leases: Vec<SessionLease>) -> Announce {
    Announce { agent: agent("a"), credential: CREDENTIAL, number, follows: Vec::new(), leases }
}

fn heartbeat(number: u64) -> Heartbeat {
    Heartbeat {
        credential: CREDENTIAL,
        number,
        add: Vec::new(),
        drop: Vec::new(),
        follows: None,
        health: None,
        progress: None,
        description: None,
        leads: None,
    }
}

/// A lease with the session's key, by hand.
async fn taken(coordinator: &Coordinator, of: &str, life: u8, ttl: Span) -> SessionLease {
    let credential = Credential { incarnation: Incarnation([life; 8]), ..CREDENTIAL };
    let grant = coordinator.acquire(&election(of), &bid("a", ttl), credential, None, None).await.unwrap();
    SessionLease { election: election(of), token: grant.epoch, incarnation: credential.incarnation }
}

async fn beat(coordinator: &Coordinator, heartbeat: &Heartbeat) -> Option<HeartbeatReply> {
    sessions(coordinator).heartbeat(heartbeat).await.unwrap()
}

#[tokio::test]
async fn one_heartbeat_keeps_many_leases() {
    let place = TestServer::open().await;
    let client = place.client().await;
    let session = client.announce(&agent("a")).await.unwrap();
    let mut riding = Vec::new();
    for number in 0..50 {
        riding.push(ride(&session, &format!("e-{number}"), Span::secs(9)).await);
    }
    let until = boot::now() + Span::secs(10);
    while boot::now() < until {
        assert!(riding.iter().all(|riding| riding.ensure(Duration::ZERO)));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let other = client.acquire(&election("e-7"), &bid("b", Span::secs(2)), CREDENTIAL, None, None).await;
    assert!(matches!(other, Err(Error::Refused(Refusal::Held { .. }))));
    let shown = client.sessions().await.unwrap();
    assert_eq!((shown.len(), shown[0].leases, shown[0].agent.as_str()), (1, 50, "a"));
    let ended = session.end(true).await.unwrap();
    assert_eq!((ended.released, ended.failed.len()), (50, 0));
    assert!(riding.iter().all(|riding| !riding.ensure(Duration::ZERO)));
    assert!(client.sessions().await.unwrap().is_empty());
    lead(&client, "b", "e-7", Span::secs(2)).await;
}

#[tokio::test]
async fn what_is_lost_is_named_until_it_is_dropped() {
    let place = TestServer::open().await;
    let client = place.client().await;
    let short = taken(&client, "short", 3, Span::secs(1)).await;
    let long = taken(&client, "long", 4, Span::secs(60)).await;
    // A server that stood still would have given it its length anew.
    in_time(async {
        while client.check(&short.election, short.token).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let rides = vec![short.clone(), long];
    let first = sessions(&client).announce(&announce(1, rides.clone())).await.unwrap();
    assert_eq!((first.riding, first.lost.len()), (1, 1));
    // The answer is lost, and another leads for a while.
    let other = lead(&client, "b", "short", Span::secs(60)).await;
    for number in 2..4 {
        let answer = beat(&client, &heartbeat(number)).await.unwrap();
        assert_eq!((answer.riding, answer.lost.len()), (1, 1), "{answer:?}");
        assert_eq!((&answer.lost[0].election, answer.lost[0].token), (&short.election, short.token));
    }
    let dropped = vec![LeaseRef { election: short.election, token: short.token }];
    let answer = beat(&client, &Heartbeat { drop: dropped, ..heartbeat(4) }).await.unwrap();
    assert_eq!((answer.riding, answer.lost.len()), (1, 0));
    assert!(other.ensure(Duration::ZERO));
}

#[tokio::test]
async fn the_interval_fits_the_shortest_lease() {
    let place = TestServer::open().await;
    let client = place.client().await;
    let free = sessions(&client).announce(&announce(1, Vec::new())).await.unwrap();
    assert!(free.heartbeat_ms >= 5_000 && free.jitter_ms == 1_000 && free.missed == 3, "{free:?}");
    let add = vec![taken(&client, "e", 3, Span::secs(6)).await];
    let bound = beat(&client, &Heartbeat { add, ..heartbeat(2) }).await.unwrap();
    assert!(bound.riding == 1 && bound.heartbeat_ms + bound.jitter_ms <= 2_000, "{bound:?}");
}

#[tokio::test]
async fn a_request_that_was_overtaken_changes_nothing() {
    let place = TestServer::open().await;
    let client = place.client().await;
    let held = taken(&client, "e", 3, Span::secs(60)).await;
    sessions(&client).announce(&announce(1, vec![held.clone()])).await.unwrap();
    assert_eq!(beat(&client, &heartbeat(5)).await.unwrap().riding, 1);
    let late = sessions(&client).announce(&announce(2, Vec::new())).await;
    assert!(matches!(late, Err(CommandError::Refused(Refusal::Invalid { .. }))), "{late:?}");
    let dropped = vec![LeaseRef { election: held.election, token: held.token }];
    let late = sessions(&client).heartbeat(&Heartbeat { drop: dropped, ..heartbeat(4) }).await;
    assert!(matches!(late, Err(CommandError::Refused(Refusal::Invalid { .. }))), "{late:?}");
    assert_eq!(beat(&client, &heartbeat(6)).await.unwrap().riding, 1);
}

#[tokio::test]
async fn nobody_speaks_for_another() {
    let place = TestServer::open().await;
    let client = place.client().await;
    let held = taken(&client, "e", 3, Span::secs(60)).await;
    sessions(&client).announce(&announce(1, vec![held.clone()])).await.unwrap();
    let other = Credential { key: LeaseKey([9; 16]), ..CREDENTIAL };
    let wrong = |refused: Result<(), CommandError>| {
        assert!(matches!(refused, Err(CommandError::Refused(Refusal::WrongKey { .. }))), "{refused:?}");
    };
    let there = sessions(&client);
    wrong(there.announce(&Announce { credential: other, ..announce(2, Vec::new()) }).await.map(|_| ()));
    wrong(there.heartbeat(&Heartbeat { credential: other, ..heartbeat(2) }).await.map(|_| ()));
    let ask = NewsRequest { credential: other, acknowledged: None, wait_ms: 0 };
    wrong(there.news(&ask).await.map(|_| ()));
    wrong(there.end(&EndSession { credential: other, stopped: true }).await.map(|_| ()));
    // A session of another's lease: its key does not fit.
    let thief = Credential { incarnation: Incarnation([8; 8]), key: LeaseKey([9; 16]) };
    let stolen = Announce { credential: thief, ..announce(1, vec![held]) };
    let answer = there.announce(&stolen).await.unwrap();
    assert_eq!((answer.riding, answer.lost.len()), (0, 1));
    assert_eq!(beat(&client, &heartbeat(2)).await.unwrap().riding, 1, "it is still its owner's");
}

#[tokio::test]
async fn a_session_that_is_silent_is_forgotten_and_its_leases_run_out() {
    let place = TestServer::open().await;
    let client = place.client().await;
    let held = taken(&client, "e", 3, Span::secs(4)).await;
    sessions(&client).announce(&announce(1, Vec::new())).await.unwrap();
    // Told twice, so that it counts on nothing longer.
    beat(&client, &Heartbeat { add: vec![held], ..heartbeat(2) }).await.unwrap();
    beat(&client, &heartbeat(3)).await.unwrap();
    in_time(async {
        while !client.sessions().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(beat(&client, &heartbeat(4)).await, None);
    lead(&client, "b", "e", Span::secs(1)).await;
}

#[tokio::test]
async fn too_much_is_refused_with_a_hint() {
    let place = TestServer::open().await;
    let client = place.client().await;
    let there = sessions(&client);
    let many = |count: u64| {
        let ride = |n: u64| SessionLease {
            election: election(&format!("e-{n}")),
            token: Epoch(1),
            incarnation: Incarnation([7; 8]),
        };
        (0..count).map(ride).collect::<Vec<_>>()
    };
    let refused = there.announce(&announce(1, many(501))).await;
    assert!(matches!(refused, Err(CommandError::Refused(Refusal::Invalid { .. }))), "{refused:?}");
    let follows = (0..1_001).map(|n| election(&format!("e-{n}"))).collect();
    let refused = there.announce(&Announce { follows, ..announce(1, Vec::new()) }).await;
    assert!(matches!(refused, Err(CommandError::Refused(Refusal::Invalid { .. }))), "{refused:?}");
    let answer = there.announce(&announce(1, many(500))).await.unwrap();
    assert_eq!((answer.riding, answer.lost.len()), (0, 500), "there are no such leases");
    let health = Some(json!("x".repeat(2_000)));
    let refused = there.heartbeat(&Heartbeat { health, ..heartbeat(2) }).await;
    assert!(matches!(refused, Err(CommandError::Refused(Refusal::Invalid { .. }))), "{refused:?}");
    let health = Some(json!({ "context": 0.4 }));
    there.heartbeat(&Heartbeat { health: health.clone(), ..heartbeat(2) }).await.unwrap();
    assert_eq!(client.sessions().await.unwrap()[0].health, health);
    let odd = Description { cpu_percent: Some(u32::MAX), ..Description::default() };
    let refused = there.heartbeat(&Heartbeat { description: Some(odd), ..heartbeat(3) }).await;
    assert!(matches!(refused, Err(CommandError::Refused(Refusal::Invalid { .. }))), "{refused:?}");
    let description = Description { queue_depth: Some(4), ..Description::default() };
    there.heartbeat(&Heartbeat { description: Some(description.clone()), ..heartbeat(4) }).await.unwrap();
    there.heartbeat(&heartbeat(5)).await.unwrap();
    let shown = client.sessions().await.unwrap();
    assert_eq!(shown[0].description, Some(description), "who says nothing new is as it was");
    assert!(shown[0].suspicion < SUSPECT);
}

#[tokio::test]
async fn a_bid_with_limits_of_its_own_does_not_ride() {
    let place = TestServer::open().await;
    let client = place.client().await;
    let session = client.announce(&agent("a")).await.unwrap();
    let limits = Limits { renewals: Some(9), ..Limits::default() };
    let refused = session.acquire(&election("e"), &Bid { limits, ..bid("a", Span::secs(9)) }).await;
    assert!(matches!(refused.err(), Some(Error::Refused(Refusal::Invalid { .. }))));
    let refused = session.acquire(&election("e"), &bid("b", Span::secs(9))).await;
    assert!(matches!(refused.err(), Some(Error::Refused(Refusal::Invalid { .. }))));
    let _held = ride(&session, "e", Span::secs(9)).await;
    let refused = session.acquire(&election("e"), &bid("a", Span::secs(9))).await;
    assert!(matches!(refused.err(), Some(Error::Refused(Refusal::Invalid { .. }))));
}

#[tokio::test]
async fn a_description_is_told_again_to_a_server_that_forgot_it() {
    let mut place = TestServer::open().await;
    let client = place.client().await;
    let session = client.announce(&agent("a")).await.unwrap();
    session.describe(Description { queue_depth: Some(7), ..Description::default() }).unwrap();
    let told = || async {
        let shown = client.sessions().await.unwrap_or_default();
        shown.first().and_then(|shown| shown.description.as_ref()?.queue_depth) == Some(7)
    };
    in_time(until(&told)).await;
    place.crash().await;
    place.restart().await;
    in_time(until(&told)).await;
    let refused = session.describe(Description { cpu_percent: Some(u32::MAX), ..Description::default() });
    assert!(matches!(refused, Err(Error::Refused(Refusal::Invalid { .. }))));
}

#[tokio::test]
async fn an_operator_ends_a_leadership_that_rides() {
    let place = TestServer::open().await;
    let client = place.client().await;
    let operator = OperatorKey::from_seed([42; 32]);
    client.operators().enrol(&operator).await.unwrap();
    let session = client.announce(&agent("a")).await.unwrap();
    let (deposed, other) =
        (ride(&session, "e", Span::secs(6)).await, ride(&session, "f", Span::secs(60)).await);
    let act = Act::Depose { force: false, reason: "enough".to_string() };
    client.operate(&election("e"), &operator, &act).await.unwrap();
    let why = in_time(deposed.lost()).await;
    assert!(why.contains("depose"), "{why}");
    assert!(!deposed.ensure(Duration::ZERO) && other.ensure(Duration::ZERO));
    lead(&client, "b", "e", Span::secs(2)).await;
}

#[tokio::test]
async fn a_leadership_that_rides_ends_when_what_it_needs_fails() {
    let place = TestServer::open().await;
    let client = place.client().await;
    let operator = OperatorKey::from_seed([42; 32]);
    client.operators().enrol(&operator).await.unwrap();
    let policy = Policy { depends: vec!["db".to_string()], ..Policy::default() };
    client.operate(&election("e"), &operator, &Act::SetPolicy { policy }).await.unwrap();
    let session = client.announce(&agent("a")).await.unwrap();
    let (needs, other) = (ride(&session, "e", Span::secs(9)).await, ride(&session, "f", Span::secs(9)).await);
    let fares = |db| Description { dependencies: [("db".to_string(), db)].into(), ..Description::default() };
    session.describe(fares(Fares::Degraded)).unwrap();
    session.describe(fares(Fares::Failing)).unwrap();
    let why = in_time(needs.lost()).await;
    assert!(why.contains("dependency"), "{why}");
    assert!(other.ensure(Duration::ZERO), "it does not need it");
    let next = lead(&client, "b", "e", Span::secs(2)).await;
    assert!(next.token() > needs.token());
    let history = client.history(&election("e"), 9).await.unwrap();
    assert_eq!(history.last().unwrap().cause, baton_election::document::Cause::Dependency);
}

#[tokio::test]
async fn an_approval_reaches_a_lease_that_rides() {
    let place = TestServer::open().await;
    let client = place.client().await;
    let operator = OperatorKey::from_seed([42; 32]);
    client.operators().enrol(&operator).await.unwrap();
    let policy = Policy {
        approval: baton_election::policy::ApprovalMode::Time,
        approval_ttl: Span::secs(8),
        ..Policy::default()
    };
    client.operate(&election("e"), &operator, &Act::SetPolicy { policy }).await.unwrap();
    let session = client.announce(&agent("a")).await.unwrap();
    // A heartbeat every two seconds, and time for some more while an approval lasts.
    let riding = ride(&session, "e", Span::secs(6)).await;
    let mut status = riding.status();
    in_time(status.wait_for(|status| *status == Status::AwaitingApproval)).await.unwrap();
    assert!(!riding.ensure(Duration::ZERO), "its token is refused");
    let document = client.view(&election("e")).await.unwrap().document.unwrap();
    let act = Act::Approve { checkpoint: None };
    assert_eq!(document.leader.unwrap().epoch, riding.token());
    client.operate(&election("e"), &operator, &act).await.unwrap();
    in_time(status.wait_for(|status| *status == Status::Safe)).await.unwrap();
    let epoch = client.view(&election("e")).await.unwrap().document.unwrap().epoch;
    assert_eq!(riding.token(), epoch);
}

#[tokio::test]
async fn a_restart_loses_no_lease_that_rides_and_doubles_none() {
    let mut place = TestServer::open().await;
    let client = place.client().await;
    let session = client.announce(&agent("a")).await.unwrap();
    let mut riding = Vec::new();
    // More than one request announces.
    for number in 0..520 {
        riding.push(ride(&session, &format!("e-{number}"), Span::secs(12)).await);
    }
    let tokens: Vec<Epoch> = riding.iter().map(SessionLeadership::token).collect();
    for _ in 0..2 {
        let crashed = boot::now();
        place.crash().await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        place.restart().await;
        // By a heartbeat that was sent, and answered, since.
        let renewed = Margins::STANDARD.deadline(crashed, Span::secs(12));
        in_time(async {
            while riding.iter().any(|riding| riding.deadline() <= renewed) {
                assert!(riding.iter().all(|riding| riding.ensure(Duration::ZERO)));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        assert_eq!(client.sessions().await.unwrap()[0].leases, 520);
    }
    assert_eq!(riding.iter().map(SessionLeadership::token).collect::<Vec<_>>(), tokens);
}

#[tokio::test]
async fn leases_are_lost_here_before_a_server_that_is_gone_could_give_them_to_another() {
    let mut place = TestServer::open().await;
    let client = place.client().await;
    let session = client.announce(&agent("a")).await.unwrap();
    let riding = ride(&session, "e", Span::secs(4)).await;
    place.crash().await;
    let why = in_time(riding.lost()).await;
    assert!(why.contains("no heartbeat was accepted in time"), "{why}");
    place.restart().await;
    let epoch = lead(&client, "b", "e", Span::secs(1)).await.token();
    assert!(epoch > riding.token() && !riding.ensure(Duration::ZERO));
    // The session itself goes on.
    ride(&session, "f", Span::secs(60)).await;
}

#[tokio::test]
async fn a_release_waits_until_followers_know_and_says_who_does_not() {
    let place = TestServer::open().await;
    let client = place.client().await;
    let session = client.announce(&agent("follower")).await.unwrap();
    let follower = session.follow(&election("e")).await.unwrap();
    let first = lead(&client, "a", "e", Span::secs(30)).await;
    let release = |lead: Leadership| {
        let client = client.clone();
        async move {
            let (epoch, credential) = (lead.token(), lead.credential());
            let release = Release { epoch, credential, reason: None, ending: Ending::Stopped };
            let wait = Duration::from_secs(8);
            in_time(client.leave_telling(&election("e"), release, wait)).await.unwrap().1
        }
    };
    in_time(async {
        while client.sessions().await.unwrap()[0].follows.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let notified = release(first).await;
    assert_eq!((notified.told, notified.silent.len()), (1, 0), "{notified:?}");
    assert!(notified.waited_ms < 8_000, "{notified:?}");
    let known = follower.leader();
    assert!(known.vacant && known.agent == Some(agent("a")), "who led last is known, and that it is over");
    // One that follows and says nothing, and one that only releases what it follows itself.
    let mute = Announce { follows: vec![election("e")], ..announce(1, Vec::new()) };
    sessions(&client).announce(&mute).await.unwrap();
    let second = lead(&client, "a", "e", Span::secs(30)).await;
    let notified = release(second).await;
    assert_eq!((notified.told, &notified.silent), (1, &vec![agent("a")]), "{notified:?}");
    // It is asked once, says what it knows, and is not waited for any more.
    let ask = NewsRequest { credential: CREDENTIAL, acknowledged: None, wait_ms: 0 };
    let told = sessions(&client).news(&ask).await.unwrap().unwrap();
    assert_eq!(told.news.len(), 1);
    let third = lead(&client, "a", "e", Span::secs(30)).await;
    let answered = tokio::spawn(release(third));
    let acknowledge = NewsRequest { acknowledged: Some(told.event), wait_ms: 20_000, ..ask.clone() };
    let mut told = sessions(&client).news(&acknowledge).await.unwrap().unwrap();
    in_time(async {
        while !answered.is_finished() {
            let acknowledge =
                NewsRequest { acknowledged: Some(told.event.clone()), wait_ms: 100, ..ask.clone() };
            told = sessions(&client).news(&acknowledge).await.unwrap().unwrap();
        }
    })
    .await;
    let notified = answered.await.unwrap();
    assert_eq!((notified.told, notified.silent.len()), (2, 0), "{notified:?}");
}

#[tokio::test]
async fn news_come_in_parts_and_none_is_left_out() {
    let place = TestServer::open().await;
    let client = place.client().await;
    let state = format!("\"{}\"", "x".repeat(60_000));
    let content = CheckpointContent { summary: String::new(), state, reference: None, covers: None };
    let names: Vec<ElectionName> = (0..200).map(|number| election(&format!("e.{number:03}"))).collect();
    for name in &names {
        let held = taken(&client, name.as_str(), 9, Span::secs(600)).await;
        let credential = Credential { incarnation: held.incarnation, ..CREDENTIAL };
        client.checkpoint(name, held.token, credential, &content).await.unwrap();
    }
    let there = sessions(&client);
    there.announce(&Announce { follows: names.clone(), ..announce(1, Vec::new()) }).await.unwrap();
    let (mut told, mut parts, mut acknowledged) = (Vec::new(), 0, None);
    loop {
        let ask = NewsRequest { credential: CREDENTIAL, acknowledged, wait_ms: 0 };
        let part = there.news(&ask).await.unwrap().unwrap();
        acknowledged = Some(part.event);
        if part.news.is_empty() {
            break;
        }
        assert!(part.news.len() <= 4, "a quarter of a MiB: {}", part.news.len());
        told.extend(part.news.into_iter().map(|standing| standing.election));
        parts += 1;
    }
    assert_eq!((parts, &told), (50, &names), "each once");
    // What changes from here on is told, and nothing else.
    let held = taken(&client, "e.007", 9, Span::secs(600)).await;
    let credential = Credential { incarnation: held.incarnation, ..CREDENTIAL };
    client.release(&names[7], held.token, credential, None).await.unwrap();
    let ask = NewsRequest { credential: CREDENTIAL, acknowledged, wait_ms: 20_000 };
    let news = there.news(&ask).await.unwrap().unwrap().news;
    assert_eq!(news.iter().map(|standing| &standing.election).collect::<Vec<_>>(), [&names[7]]);
}

#[tokio::test]
async fn who_releases_does_not_wait_for_itself_nor_for_who_has_ended() {
    let place = TestServer::open().await;
    let client = place.client().await;
    let session = client.announce(&agent("a")).await.unwrap();
    let _follower = session.follow(&election("e")).await.unwrap();
    let riding = ride(&session, "e", Span::secs(30)).await;
    let mute = Announce { follows: vec![election("e")], ..announce(1, Vec::new()) };
    sessions(&client).announce(&mute).await.unwrap();
    let ending = {
        let client = client.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            sessions(&client).end(&EndSession { credential: CREDENTIAL, stopped: false }).await.unwrap();
        })
    };
    let (document, notified) =
        in_time(riding.leave_telling(Ending::Stopped, "", Duration::from_secs(60))).await.unwrap();
    assert_eq!((notified.told, notified.silent.len()), (0, 0), "{notified:?}");
    assert!(document.unwrap().leader.is_none());
    ending.await.unwrap();
}

#[tokio::test]
async fn a_store_without_sessions_says_so() {
    let client = Coordinator::with_store(Arc::new(MemoryStore::default()), baton::Memory::new());
    let refused = client.announce(&agent("a")).await.err();
    assert!(
        matches!(&refused, Some(Error::Refused(Refusal::Invalid { hint, .. })) if hint.contains("serve"))
    );
    assert!(client.tells_followers().is_err());
}

#[tokio::test]
async fn a_follower_serves_what_it_knew_while_the_server_is_gone() {
    let mut place = TestServer::open().await;
    let client = place.client().await;
    let session = client.announce(&agent("follower")).await.unwrap();
    let mut by_session = session.follow(&election("e")).await.unwrap();
    let mut by_watch = client.follow(&election("e")).await;
    let first = lead(&client, "a", "e", Span::secs(60)).await;
    for follower in [&mut by_session, &mut by_watch] {
        in_time(async {
            while follower.leader().agent != Some(agent("a")) || follower.leader().stale {
                follower.changed().await;
            }
        })
        .await;
    }
    place.crash().await;
    for follower in [&mut by_session, &mut by_watch] {
        in_time(async {
            while !follower.leader().stale {
                follower.changed().await;
            }
        })
        .await;
        let known = follower.leader();
        assert_eq!(
            (known.agent.clone(), known.token, known.vacant),
            (Some(agent("a")), first.token(), false)
        );
        assert!(follower.unconfirmed_for() < Span::secs(60));
    }
    place.restart().await;
    first.release("").await.unwrap();
    let second = lead(&client, "b", "e", Span::secs(60)).await;
    for follower in [&mut by_session, &mut by_watch] {
        in_time(async {
            while follower.leader().token != second.token() || follower.leader().stale {
                follower.changed().await;
            }
        })
        .await;
        assert_eq!(follower.leader().agent, Some(agent("b")));
    }
}

#[tokio::test]
async fn a_lease_that_ends_without_a_word_is_noticed_by_who_follows() {
    let place = TestServer::open().await;
    let client = place.client().await;
    let session = client.announce(&agent("follower")).await.unwrap();
    let mut follower = session.follow(&election("e")).await.unwrap();
    let lead = lead(&client, "a", "e", Span::secs(1)).await;
    drop(lead);
    in_time(async {
        let mut known = follower.leader();
        while !(known.vacant && known.agent == Some(agent("a")) && !known.stale) {
            known = follower.changed().await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_end_of_a_session_that_the_server_forgot_releases_its_leases_all_the_same() {
    let mut place = TestServer::open().await;
    let client = place.client().await;
    let session = client.announce(&agent("a")).await.unwrap();
    let riding = ride(&session, "e", Span::secs(60)).await;
    let follower = session.follow(&election("e")).await.unwrap();
    place.crash().await;
    place.restart().await;
    let ended = in_time(session.end(true)).await.unwrap();
    assert_eq!((ended.released, ended.failed.len()), (1, 0));
    assert!(!riding.ensure(Duration::ZERO));
    assert!(in_time(riding.lost()).await.contains("session"));
    assert!(follower.leader().stale, "nobody tells it of anything any more");
    lead(&client, "b", "e", Span::secs(1)).await;
}

#[tokio::test]
async fn a_word_that_is_too_long_is_refused_before_it_could_cost_a_lease() {
    let place = TestServer::open().await;
    let client = place.client().await;
    let session = client.announce(&agent("a")).await.unwrap();
    assert!(session.health(json!("x".repeat(2_000))).is_err());
    session.progress(json!({ "done": 3 })).unwrap();
    let riding = ride(&session, "e", Span::secs(6)).await;
    in_time(async {
        while client.sessions().await.unwrap()[0].progress != Some(json!({ "done": 3 })) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(riding.ensure(Duration::ZERO));
}
