//! Many agents with sessions at one server: nobody loses a lease that it did not give up, no token comes twice, and everybody who follows
//! is told. `BATON_CAMPAIGN=1` runs it with 5,000 agents and 1,000 elections for two minutes; `scripts/bench sessions` does so with
//! optimised code.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stderr, reason = "the figures of the run")]

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton::election::command::Ending;
use baton::election::{AgentName, ElectionName, Moment, Span};
use baton::store::boot;
use baton::{Bid, Coordinator, Follower, Session, SessionLeadership, Status};
use tokio::task::JoinSet;

use crate::support;
use crate::support::World;
use crate::support::server::Server;

/// How much of it.
#[derive(Clone, Copy, Debug)]
struct Size {
    agents: usize,
    elections: usize,
    lasts: Duration,
    /// Elections that change hands every second.
    handovers: usize,
}

impl Size {
    fn wanted() -> Size {
        match support::campaign() {
            true => Size { agents: 5_000, elections: 1_000, lasts: Duration::from_secs(120), handovers: 20 },
            false => Size { agents: 120, elections: 40, lasts: Duration::from_secs(8), handovers: 5 },
        }
    }
}

/// How many requests are on their way at once, while everything is set up.
const AT_ONCE: usize = 100;
/// How long a leader waits until its followers know.
const NOTIFY: Duration = Duration::from_secs(10);

fn election(number: usize) -> ElectionName {
    ElectionName::new(&format!("e-{number}")).unwrap()
}

fn agent(number: usize) -> AgentName {
    AgentName::new(&format!("agent-{number}")).unwrap()
}

async fn acquire(session: Arc<Session>, number: usize) -> SessionLeadership {
    let bid = Bid { ttl: Some(Span::secs(30)), ..Bid::new(session.agent().clone()) };
    session.acquire(&election(number), &bid).await.unwrap()
}

/// Does something for each number, some at a time; gives what comes of it in order.
async fn each<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    count: usize,
    work: impl Fn(usize) -> F,
) -> Vec<T> {
    let (mut tasks, mut done) = (JoinSet::new(), Vec::with_capacity(count));
    for number in 0..count {
        if tasks.len() == AT_ONCE {
            done.push(tasks.join_next().await.unwrap().unwrap());
        }
        let work = work(number);
        tasks.spawn(async move { (number, work.await) });
    }
    while let Some(ended) = tasks.join_next().await {
        done.push(ended.unwrap());
    }
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, done)| done).collect()
}

/// What came of the hand-overs.
#[derive(Debug, Default)]
struct HandoverCounts {
    over: u64,
    told: u64,
    silent: u64,
}

/// One leader releases and waits until its followers know; another agent leads.
async fn hand_over(
    riding: SessionLeadership,
    number: usize,
    to: Arc<Session>,
) -> (usize, SessionLeadership, u64, usize) {
    let (_, notified) = riding.leave_telling(Ending::Stopped, "next", NOTIFY).await.unwrap();
    (number, acquire(to, number).await, notified.told, notified.silent.len())
}

async fn run(url: String, size: Size) -> HandoverCounts {
    let coordinator = Coordinator::connect(&url).await.unwrap();
    let begun = Instant::now();
    let sessions: Vec<Arc<Session>> = each(size.agents, |number| {
        let coordinator = coordinator.clone();
        async move { Arc::new(coordinator.announce(&agent(number)).await.unwrap()) }
    })
    .await;
    let announced = boot::now();
    let mut riding: Vec<Option<SessionLeadership>> = each(size.elections, |number| {
        let session = Arc::clone(&sessions[number % size.agents]);
        async move { Some(acquire(session, number).await) }
    })
    .await;
    let followers: Vec<Follower> = each(size.agents, |number| {
        let session = Arc::clone(&sessions[number]);
        async move { session.follow(&election(number % size.elections)).await.unwrap() }
    })
    .await;
    eprintln!("{} sessions, {} leases: {:?}", size.agents, size.elections, begun.elapsed());
    let mut tokens: HashSet<(ElectionName, u64)> = HashSet::new();
    for lead in riding.iter().flatten() {
        assert!(tokens.insert((lead.election().clone(), lead.token().0)));
    }
    let (begun, mut handed, mut next) = (Instant::now(), HandoverCounts::default(), 0);
    let mut handing = JoinSet::new();
    let mut tick = tokio::time::interval(Duration::from_secs(1) / u32::try_from(size.handovers).unwrap());
    while begun.elapsed() < size.lasts || !handing.is_empty() {
        tokio::select! {
            _ = tick.tick(), if begun.elapsed() < size.lasts => {
                let (number, place) = (next % size.elections, next);
                next += 1;
                if let Some(lead) = riding[number].take() {
                    let to = Arc::clone(&sessions[(place * 7 + size.elections) % size.agents]);
                    handing.spawn(hand_over(lead, number, to));
                }
            }
            Some(ended) = handing.join_next() => {
                let (number, lead, told, silent) = ended.unwrap();
                assert!(tokens.insert((lead.election().clone(), lead.token().0)), "a token came twice");
                riding[number] = Some(lead);
                handed.over += 1;
                handed.told += told;
                handed.silent += silent as u64;
            }
        }
        for lead in riding.iter().flatten() {
            assert!(lead.ensure(Duration::ZERO), "{}: {:?}", lead.election(), *lead.status().borrow());
        }
    }
    for lead in riding.iter().flatten() {
        assert!(!matches!(*lead.status().borrow(), Status::Lost(_)));
    }
    all_ride(&coordinator, size, announced).await;
    for (number, follower) in followers.iter().enumerate() {
        let lead = riding[number % size.elections].as_ref().unwrap();
        // What a machine that stood still has not heard for a while it hears again.
        let begun = Instant::now();
        while follower.leader().stale {
            assert!(begun.elapsed() < support::HANG, "{:?}", follower.leader());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(follower.leader().token.0 <= lead.token().0, "{:?}", follower.leader());
    }
    handed
}

/// No session was forgotten, and all leases ride. The newest do so from the next heartbeat on.
async fn all_ride(coordinator: &Coordinator, size: Size, announced: Moment) {
    let begun = Instant::now();
    loop {
        let age = boot::now().since(announced).as_millis();
        let shown = coordinator.sessions().await.unwrap();
        assert_eq!(shown.len(), size.agents, "a session was forgotten");
        assert!(shown.iter().all(|session| session.age_ms >= age), "a session was announced anew");
        let leases: u64 = shown.iter().map(|session| session.leases).sum();
        if leases == size.elections as u64 {
            break;
        }
        assert!(begun.elapsed() < support::HANG, "{leases} leases ride");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn many_agents_with_sessions_lose_nothing_that_they_do_not_give_up() {
    let size = Size::wanted();
    let place = World::folder();
    let server = Server::start(&place.file("server.redb"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (cpu, begun) = (server.cpu(), Instant::now());
    let handed = runtime.block_on(run(server.url(), size));
    let (used, took) = (server.cpu() - cpu, begun.elapsed());
    eprintln!(
        "{size:?}: {handed:?}; server: {used:.1?} of CPU in {took:.0?} ({:.1} % of a core), {} MB",
        100.0 * used.as_secs_f64() / took.as_secs_f64(),
        server.memory() / 1_000_000,
    );
    assert!(handed.over > 0 && handed.told > 0, "{handed:?}");
    assert_eq!(handed.silent, 0, "{handed:?}");
}
