//! The decision and the check: no IO.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton::{Bid, Campaign, Coordinator, Memory};
use baton_election::command::{Acquire, Renew};
use baton_election::time::WallTime;
use baton_election::{
    AgentName, Command, Credential, Document, ElectionName, Epoch, Evidence, Incarnation, LeaseKey, Span,
    StoreId,
};
use baton_store::MemoryStore;

use crate::figures::{Figure, median_of_five, short};

/// Renewals decided per second on one core: the most frequent command, with its key check.
pub(crate) fn decide_renewals() -> Duration {
    const TIMES: u32 = 200_000;
    let Ok(election) = ElectionName::new("bench") else { unreachable!("it is a plain name") };
    let credential = Credential { incarnation: Incarnation([1; 8]), key: LeaseKey([2; 16]) };
    let evidence = evidence(&election);
    let document = led(&credential, &evidence);
    let command = Command::Renew(Renew {
        epoch: document.epoch,
        credential,
        progress: true,
        spent_tokens: None,
        phase: None,
        promotion: None,
        region: None,
    });
    median_of_five(|| {
        let begun = Instant::now();
        for _ in 0..TIMES {
            let decided = baton_election::decide(black_box(Some(&document)), black_box(&command), &evidence);
            assert!(black_box(decided).is_ok());
        }
        begun.elapsed() / TIMES
    })
}

/// The same as a figure.
pub(crate) fn decide() -> Figure {
    let each = decide_renewals();
    Figure::rate(
        "decide: renewals on one core",
        1.0 / each.as_secs_f64(),
        1e6,
        format!("{} each", short(each)),
    )
}

fn evidence(election: &ElectionName) -> Evidence<'_> {
    Evidence {
        election,
        store: StoreId([1; 8]),
        age: Span::secs(10),
        wall: WallTime::from_unix_millis(1_700_000_000_000),
        floor: Epoch(0),
        vanished_lease: Span::ZERO,
        operator_keys: &[],
    }
}

fn led(credential: &Credential, evidence: &Evidence<'_>) -> Document {
    let Ok(agent) = AgentName::new("agent-a") else { unreachable!("it is a plain name") };
    let bid = Acquire::new(agent, credential.incarnation, credential.key.hash());
    let task = Some("refactor authentication".to_string());
    let acquire = Command::Acquire(Acquire { task, ..bid });
    match decide_once(&acquire, evidence) {
        Some(document) => document,
        None => unreachable!("a first acquire is granted"),
    }
}

fn decide_once(command: &Command, evidence: &Evidence<'_>) -> Option<Document> {
    baton_election::decide(None, command, evidence).ok()?.next
}

/// `ensure`: whether this agent surely leads for five more seconds.
pub(crate) fn ensure() -> std::io::Result<Figure> {
    const TIMES: u32 = 2_000_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let each = runtime.block_on(async {
        let coordinator = Coordinator::with_store(Arc::new(MemoryStore::default()), Memory::new());
        let (Ok(election), Ok(agent)) = (ElectionName::new("bench"), AgentName::new("agent-a")) else {
            unreachable!("they are plain names");
        };
        let Ok(lead) = coordinator.campaign(&election, Campaign::new(Bid::new(agent))).await else {
            unreachable!("nobody else campaigns");
        };
        median_of_five(|| {
            let begun = Instant::now();
            for _ in 0..TIMES {
                assert!(black_box(lead.ensure(black_box(Duration::from_secs(5)))));
            }
            begun.elapsed() / TIMES
        })
    });
    let clock = median_of_five(|| {
        let begun = Instant::now();
        for _ in 0..TIMES {
            black_box(baton_store::boot::now());
        }
        begun.elapsed() / TIMES
    });
    let beside = format!("reading the clock alone: {}", short(clock));
    Ok(Figure::at_most("ensure(5 s)", each, Duration::from_nanos(50), beside))
}
