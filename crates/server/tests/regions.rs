//! Regions at a server, which decides by what it knows of the region itself.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::sync::Arc;
use std::time::Duration;

use baton_api::CommandError;
use baton_election::command::{Acquire, Ending, Renew};
use baton_election::document::Cause;
use baton_election::region::{Proof, RegionReading};
use baton_election::time::Span;
use baton_election::{
    AgentName, Answer, Command, Credential, Document, ElectionName, Epoch, Incarnation, LeaseKey, Refusal,
    StoreId,
};
use baton_server::Engine;
use baton_store::MemoryStore;

const TTL: Span = Span::secs(600);

fn name(text: &str) -> ElectionName {
    text.parse().unwrap()
}

fn credential(number: u8) -> Credential {
    Credential { incarnation: Incarnation([number; 8]), key: LeaseKey([number; 16]) }
}

fn bid(agent: &str, number: u8, region: Option<Proof>) -> Acquire {
    let of = credential(number);
    let acquire = Acquire::new(AgentName::new(agent).unwrap(), of.incarnation, of.key.hash());
    Acquire { ttl: Some(TTL), region, ..acquire }
}

fn proof(of: &str, epoch: u64, number: u8) -> Proof {
    Proof { election: name(of), epoch: Epoch(epoch), credential: credential(number), seen: None }
}

async fn engine() -> Engine {
    Engine::start(Arc::new(MemoryStore::default())).await.unwrap()
}

async fn granted(engine: &Engine, of: &str, acquire: Acquire) -> Epoch {
    let answer = engine.acquire(&name(of), acquire, Span::ZERO).await.unwrap().answer;
    if let Answer::Granted { epoch, .. } = answer { epoch } else { panic!("{answer:?}") }
}

fn refusal(outcome: Result<baton_api::command::Decided, CommandError>) -> Refusal {
    match outcome {
        Err(CommandError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_server_looks_for_itself() {
    let engine = engine().await;
    granted(&engine, "fleet/eu", bid("a", 1, None)).await;
    // Whatever somebody claims to have seen.
    let mut document = Document::new(name("fleet/us"), StoreId([1; 8]), Epoch(0), &[]);
    document.leader = engine.view(&name("fleet/eu")).await.unwrap().document.unwrap().leader;
    let seen = Some(Arc::new(RegionReading { document: Some(document), age: Span::ZERO }));
    let forged = Proof { seen, ..proof("fleet/us", 1, 1) };
    let refused = refusal(engine.acquire(&name("fleet"), bid("a", 2, Some(forged)), Span::ZERO).await);
    assert!(refused.to_string().contains("there is no election `fleet/us` here"), "{refused}");
    assert_eq!(granted(&engine, "fleet", bid("a", 2, Some(proof("fleet/eu", 1, 1)))).await, Epoch(1));
}

#[tokio::test]
async fn a_renewal_by_a_lost_region_ends_the_leadership_and_another_region_takes_over() {
    let engine = engine().await;
    granted(&engine, "fleet/eu", bid("a", 1, None)).await;
    granted(&engine, "fleet/us", bid("b", 2, None)).await;
    granted(&engine, "fleet", bid("a", 3, Some(proof("fleet/eu", 1, 1)))).await;
    let renew = |region| Command::Renew(Renew { region, ..Renew::new(Epoch(1), credential(3)) });
    let bare = refusal(engine.execute(&name("fleet"), &renew(None)).await);
    assert!(bare.to_string().contains("from `fleet/eu`"), "{bare}");
    let shown = renew(Some(proof("fleet/eu", 1, 1)));
    let renewed = engine.execute(&name("fleet"), &shown).await.unwrap();
    assert!(matches!(renewed.answer, Answer::Renewed { .. }));
    // A leader of a region does not wait in the server's line, whatever it says.
    let fleet = name("fleet");
    let waits = engine.acquire(&fleet, bid("b", 4, Some(proof("fleet/us", 1, 2))), Span::secs(60));
    let held = refusal(tokio::time::timeout(Duration::from_secs(30), waits).await.unwrap());
    assert!(matches!(held, Refusal::Held { .. }), "{held:?}");
    let release = baton_election::command::Release {
        epoch: Epoch(1),
        credential: credential(1),
        reason: None,
        ending: Ending::Stopped,
    };
    engine.execute(&name("fleet/eu"), &Command::Release(release)).await.unwrap();
    let ended = engine.execute(&name("fleet"), &shown).await.unwrap().answer;
    assert!(matches!(ended, Answer::Ended { cause: Cause::Region, .. }), "{ended:?}");
    assert!(engine.check(&name("fleet"), Epoch(1)).await.is_err(), "its token is refused at once");
    let freed = baton_election::command::Release {
        epoch: Epoch(1),
        credential: credential(3),
        reason: None,
        ending: Ending::Stopped,
    };
    engine.execute(&name("fleet"), &Command::Release(freed)).await.unwrap();
    let next = granted(&engine, "fleet", bid("b", 5, Some(proof("fleet/us", 1, 2)))).await;
    assert_eq!(next, Epoch(3));
    let leader = engine.view(&name("fleet")).await.unwrap().document.unwrap().leader.unwrap();
    assert_eq!(leader.region.unwrap().election, name("fleet/us"));
    let leads = engine.leader(&name("fleet")).await.unwrap().unwrap();
    assert_eq!(leads.region.unwrap().election, name("fleet/us"));
    assert_eq!(engine.leader(&name("fleet/us")).await.unwrap().unwrap().region, None);
}
