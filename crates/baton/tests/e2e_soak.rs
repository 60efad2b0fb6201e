//! Eight agents on one store that fails all the time: never two leaders, and tokens that never go back.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use crate::support;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton::election::fence::Entry;
use baton::election::{Moment, ResourceName, Span};
use baton::file::FileStore;
use baton::store::{Access, Store, boot};
use baton::{Coordinator, Error, Leadership, Memory};

use crate::support::faulty::{Chaos, Faulty};
use crate::support::{bid, election, lead};

const AGENTS: usize = 8;

/// What all agents see of each other.
#[derive(Default)]
struct Stage {
    /// From when to when each leadership was sure of itself.
    reigns: Mutex<Vec<Reign>>,
    leaderships: AtomicU64,
    writes: AtomicU64,
    refused: AtomicU64,
}

/// The first and the last moment at which a leadership was sure of itself.
#[derive(Clone, Copy, Debug)]
struct Reign {
    token: u64,
    first: Moment,
    last: Moment,
}

impl Reign {
    fn of(leadership: &Leadership) -> Reign {
        let never = Moment::from_nanos(0);
        Reign { token: leadership.token().0, first: never, last: never }
    }

    /// Asks, and notes the moment: whoever is sure after it was sure at it.
    fn goes_on(&mut self, leadership: &Leadership) -> bool {
        let now = boot::now();
        let sure = leadership.ensure(Duration::ZERO);
        if sure {
            self.first = if self.first == Moment::from_nanos(0) { now } else { self.first };
            self.last = now;
        }
        sure
    }
}

fn resource() -> ResourceName {
    ResourceName::new("shared").unwrap()
}

fn random(below: u32) -> u32 {
    getrandom::u32().unwrap() % below
}

async fn write(stage: &Stage, coordinator: &Coordinator, leadership: &Leadership) {
    let resource = resource();
    let (token, agent) = (leadership.token(), Some(leadership.agent()));
    let entry = Entry { resource: &resource, token, agent, note: "", hold: None };
    match coordinator.fences().admit(&entry, Some(&election())).await {
        Ok(fence) => {
            assert!(fence.highest >= token);
            stage.writes.fetch_add(1, Ordering::Relaxed);
        }
        Err(Error::Refused(refusal)) => {
            assert_eq!(refusal.code(), "stale", "{refusal}");
            stage.refused.fetch_add(1, Ordering::Relaxed);
        }
        Err(Error::Store(error)) => assert!(error.is_passing(), "{error}"),
        Err(error) => panic!("{error}"),
    }
}

async fn agent(number: usize, stage: Arc<Stage>, store: Arc<dyn Store>, until: Instant) {
    let faulty = Faulty::over_shared(store);
    faulty.chaos(Chaos { before: 30, after: 30, reads: 30, delay: Span::millis(3) });
    let coordinator = Coordinator::with_store(Arc::new(faulty.clone()), Memory::new());
    while Instant::now() < until {
        let left = Span::millis(u64::try_from((until - Instant::now()).as_millis()).unwrap());
        let campaign = baton::Campaign { bid: bid(&format!("agent-{number}"), 1_000), wait: Some(left) };
        let leadership = match coordinator.campaign(&election(), campaign).await {
            Ok(leadership) => leadership,
            Err(Error::WaitedLongEnough { .. }) => return,
            // The wait ended while the store was failing.
            Err(Error::Store(error)) => {
                assert!(error.is_passing(), "{error}");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        stage.leaderships.fetch_add(1, Ordering::Relaxed);
        let mut reign = Reign::of(&leadership);
        for _ in 0..random(40) {
            if !reign.goes_on(&leadership) {
                break;
            }
            write(&stage, &coordinator, &leadership).await;
        }
        leave(&faulty, leadership, &mut reign).await;
        stage.reigns.lock().unwrap().push(reign);
    }
}

/// Some release, some crash, some lose their store first.
async fn leave(faulty: &Faulty, leadership: Leadership, reign: &mut Reign) {
    match random(10) {
        0 => drop(leadership),
        lot @ (1 | 2) => {
            let cut_off = |now| if lot == 1 { faulty.partition(now) } else { faulty.silence(now) };
            cut_off(true);
            while reign.goes_on(&leadership) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let _ = leadership.lost().await;
            assert!(!leadership.ensure(Duration::ZERO));
            cut_off(false);
        }
        _ => match leadership.release("").await {
            Ok(_) => {}
            Err(Error::Refused(refusal)) => assert_eq!(refusal.code(), "stale", "{refusal}"),
            Err(Error::Store(error)) => assert!(error.is_passing(), "{error}"),
            Err(error) => panic!("{error}"),
        },
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn never_two_leaders_and_tokens_that_never_go_back() {
    let folder = tempfile::tempdir().unwrap();
    let open = || FileStore::open(folder.path(), Access::Write).unwrap();
    let seconds = if std::env::var_os("BATON_CAMPAIGN").is_some() { 60 } else { 10 };
    let until = Instant::now() + Duration::from_secs(seconds);
    let stage = Arc::new(Stage::default());
    let mut agents = tokio::task::JoinSet::new();
    for number in 0..AGENTS {
        agents.spawn(agent(number, Arc::clone(&stage), Arc::new(open()), until));
    }
    support::in_time(agents.join_all()).await;
    let looker = support::client(&open());
    let accepted = looker.fences().accepted(&resource()).await.unwrap();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let figures = format!(
        "{} leaderships, {} writes, {} refused",
        count(&stage.leaderships),
        count(&stage.writes),
        count(&stage.refused)
    );
    assert!(accepted.is_sorted_by_key(|entry| entry.token), "tokens went back; {figures}");
    assert!(accepted.iter().map(|entry| entry.seq).eq(1..=accepted.len() as u64), "{figures}");
    assert!(accepted.len() as u64 >= count(&stage.writes), "a write is missing from the log; {figures}");
    one_after_the_other(&stage.reigns.lock().unwrap());
    assert!(count(&stage.leaderships) > 2 && count(&stage.writes) > 0, "nothing happened: {figures}");
    let history = looker.history(&election(), usize::MAX).await.unwrap();
    let epochs: BTreeSet<u64> = history.iter().map(|entry| entry.epoch.0).collect();
    assert_eq!(epochs.len(), history.len(), "every change has one entry");
    assert!(epochs.len() as u64 >= count(&stage.leaderships).min(256), "none is missing: {figures}");
    // When all is well again, whoever wants to lead does.
    assert!(lead(&looker, bid("last", 30_000)).await.ensure(Duration::ZERO));
}

/// No two were sure of themselves at one moment, and later ones have higher tokens.
fn one_after_the_other(reigns: &[Reign]) {
    let mut reigns: Vec<Reign> =
        reigns.iter().copied().filter(|reign| reign.last > Moment::from_nanos(0)).collect();
    reigns.sort_by_key(|reign| reign.first);
    assert!(!reigns.is_empty());
    for pair in reigns.windows(2) {
        assert!(pair[0].last < pair[1].first && pair[0].token < pair[1].token, "two at once: {pair:?}");
    }
}
