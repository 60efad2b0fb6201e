//! Every change of leader has exactly one entry.

use baton::election::document::Cause;
use baton::store::MemoryStore;

use crate::support::faulty::{Chaos, Fault, Faulty, is_history};
use crate::support::{agent, bid, client, election, lead};

/// Thirty changes: releases, passes, and crashes whose lease must run out.
async fn thirty_changes(make: impl Fn() -> baton::Coordinator) -> Vec<(u64, Cause, String)> {
    let mut expected = Vec::new();
    let mut cause = Cause::First;
    for change in 1..=30_u64 {
        let name = format!("agent-{}", change % 3);
        let crashes = change % 6 == 0;
        let leader = lead(&make(), bid(&name, if crashes { 1_000 } else { 30_000 })).await;
        expected.push((leader.token().0, cause, name));
        cause = match change % 6 {
            0 => {
                drop(leader);
                Cause::Failover
            }
            3 => {
                let next = agent(&format!("agent-{}", (change + 1) % 3));
                leader.pass(&next, "your turn").await.unwrap();
                Cause::Pass
            }
            _ => {
                leader.release("").await.unwrap();
                Cause::Release
            }
        };
    }
    expected
}

async fn recorded(coordinator: &baton::Coordinator) -> Vec<(u64, Cause, String)> {
    let history = coordinator.history(&election(), usize::MAX).await.unwrap();
    history.into_iter().map(|entry| (entry.epoch.0, entry.cause, entry.to.to_string())).collect()
}

#[tokio::test]
async fn thirty_changes_have_thirty_entries() {
    let store = MemoryStore::default();
    let expected = thirty_changes(|| client(&store)).await;
    let found = recorded(&client(&store)).await;
    assert!(found.iter().map(|(epoch, ..)| *epoch).eq(1..=30), "{found:?}");
    assert_eq!(found, expected);
    let few = client(&store).history(&election(), 3).await.unwrap();
    assert!(few.iter().map(|entry| entry.epoch.0).eq(28..=30), "the newest of them");
}

#[tokio::test]
async fn and_so_it_is_on_a_store_that_fails() {
    let store = MemoryStore::default();
    let make = || {
        let faulty = Faulty::over(store.clone());
        faulty.chaos(Chaos { before: 100, after: 100, reads: 100, ..Chaos::default() });
        client(&faulty)
    };
    let expected = thirty_changes(make).await;
    let found = recorded(&client(&store)).await;
    assert_eq!(
        found.len(),
        found.iter().map(|(epoch, ..)| epoch).collect::<std::collections::BTreeSet<_>>().len()
    );
    // A grant that was heard of too late is a change of leader as well: of those that led, none is missing.
    for change in &expected {
        assert_eq!(found.iter().filter(|entry| entry.0 == change.0).count(), 1, "{change:?} in {found:?}");
    }
}

#[tokio::test]
async fn a_history_that_cannot_be_written_for_a_while_loses_nothing() {
    let store = MemoryStore::default();
    let faulty = Faulty::over(store.clone());
    lead(&client(&store), bid("a", 30_000)).await.release("").await.unwrap();
    faulty.plan(is_history, &[Fault::Before, Fault::After]);
    let second = lead(&client(&faulty), bid("b", 30_000)).await;
    assert_eq!(second.token().0, 2);
    assert!(faulty.is_over());
    let found = recorded(&client(&store)).await;
    assert!(found.iter().map(|(epoch, ..)| *epoch).eq(1..=2), "{found:?}");
}
