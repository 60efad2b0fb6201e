//! Circuit breakers beside the board.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton::election::removal_rules::Breakers;
use baton::election::{Epoch, ItemName, Policy, Refusal, Span};
use baton::store::conformance::Wrapped;
use baton::store::{BoxFuture, Key, MemoryStore, Reading, Store, StoreError};
use baton::toolbox::breaker::{Circuit, name_of};
use baton::toolbox::{Item, Kind, NewTask};
use baton::{Error, Mandate, WorkerKey};

use crate::support::{agent, bid, client, election, lead, rule};

/// A store in which one record is older than it is.
#[derive(Clone)]
struct Aged {
    inner: MemoryStore,
    rested: ItemName,
}

impl Wrapped for Aged {
    fn inner(&self) -> Arc<dyn Store> {
        Arc::new(self.inner.clone())
    }

    fn reads<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(async move {
            let mut reading = self.inner.read(key).await?;
            if matches!(key, Key::Item(_, Kind::Breaker, name) if *name == self.rested) {
                reading.age = reading.age.map(|_| Span::secs(2 * 3_600));
            }
            Ok(reading)
        })
    }
}

fn needing(key: &str, needs: &[&str]) -> NewTask {
    let needs: BTreeSet<String> = needs.iter().map(ToString::to_string).collect();
    NewTask { key: Some(key.into()), title: "t".into(), size: 1, needs, ..NewTask::default() }
}

/// The agent has rested from what it failed at first, and may try once; from the second it has not.
#[tokio::test]
async fn a_probe_is_not_used_up_by_a_task_that_another_breaker_refuses() {
    let rested = name_of(&agent("w"), "a-rested");
    let store = Aged { inner: MemoryStore::default(), rested: rested.clone() };
    let coordinator = client(&store);
    let breakers = Breakers {
        failures: 1,
        cool_off: Span::secs(3_600),
        probes: 1,
        generation: 0,
        bars: Default::default(),
    };
    rule(&coordinator, Policy { breakers: Some(breakers), ..Policy::default() }).await;
    let leader = lead(&coordinator, bid("a", 60_000)).await;
    let mandate = Mandate { token: leader.token(), credential: leader.credential() };
    let tools = coordinator.toolbox(&election());
    for (key, need) in [("one", "a-rested"), ("two", "b-open")] {
        let added = tools.add(Some(mandate), None, &[needing(key, &[need])]).await.unwrap();
        tools.assign(&added[0].id, mandate, Some(agent("w"))).await.unwrap();
        let key = WorkerKey::mint().unwrap();
        tools.accept(&added[0].id, &agent("w"), key, Epoch(0)).await.unwrap();
        tools.fail(&added[0].id, key, "no compiler").await.unwrap();
    }
    let both = tools.add(Some(mandate), None, &[needing("both", &["a-rested", "b-open"])]).await.unwrap();
    for _ in 0..2 {
        let refused = tools.assign(&both[0].id, mandate, Some(agent("w"))).await.unwrap_err();
        let Error::Refused(Refusal::NotEligible { why, .. }) = &refused else { panic!("{refused:?}") };
        assert!(why.contains("b-open"), "{why}");
        let Some(Item::Breaker(breaker)) = tools.item(Kind::Breaker, &rested).await.unwrap() else {
            panic!("there is none")
        };
        assert_eq!((breaker.circuit, breaker.probes), (Circuit::Open, 0), "its probe is not used up");
    }
    let probe = tools.add(Some(mandate), None, &[needing("probe", &["a-rested"])]).await.unwrap();
    tools.assign(&probe[0].id, mandate, Some(agent("w"))).await.unwrap();
}
