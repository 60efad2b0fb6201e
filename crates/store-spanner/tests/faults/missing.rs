//! Places that are not there, or are somebody else's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_store::conformance;
use baton_store::{AgeStamp, BoxFuture, Expect, Persistence, Prefix, Store, StoreError, StoreUrl};

use crate::support::refuser::Refuser;
use crate::support::{Database, Server, election, led};

fn refusal<T: std::fmt::Debug>(result: Result<T, StoreError>) -> (String, String) {
    match result {
        Err(StoreError::Refused { place, why, hint }) => {
            assert!(place.starts_with("spanner://"), "{place}");
            (why, hint)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_missing_database_is_refused_with_how_to_make_it() {
    let Some(server) = Server::shared() else { return };
    let store = server.bare_database().store();
    let (name, key) = election("e");
    let (_, hint) = refusal(store.read(&key).await);
    assert!(hint.contains("gcloud spanner ") && hint.contains(" create "), "{hint}");
    let _ = refusal(
        store.swap(&key, Expect::Absent, &led(&name, "a", 0), AgeStamp::Reset, Persistence::Durable).await,
    );
    let _ = refusal(store.list(&Prefix::Elections).await);
    let _ = refusal(store.watch(&key).await.map(|_| ()));
    store.prepare().await.unwrap();
    assert!(store.read(&key).await.unwrap().found.is_none(), "once it is made, it is used");
}

#[tokio::test]
async fn a_missing_table_is_refused_with_how_to_make_it() {
    let Some(server) = Server::shared() else { return };
    let database = server.bare_database();
    database.make("").await;
    let store = database.store();
    let (name, key) = election("e");
    let whole: StoreUrl = database.url("").parse().unwrap();
    let hint = format!("baton init --store '{whole}'");
    assert!(refusal(store.read(&key).await).1.contains(&hint));
    let swapped =
        store.swap(&key, Expect::Absent, &led(&name, "a", 0), AgeStamp::Reset, Persistence::Durable).await;
    assert!(refusal(swapped).1.contains(&hint));
    store.prepare().await.unwrap();
    assert!(store.read(&key).await.unwrap().found.is_none());
}

#[tokio::test]
async fn an_emulator_that_is_administered_elsewhere_is_told_of_at_once_and_by_the_whole_url() {
    let Some(server) = Server::shared() else { return };
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for rest in ["127.0.0.1:1".to_string(), silent.local_addr().unwrap().to_string()] {
        let database = Server { rest, ..server.clone() }.bare_database();
        let store = database.store_with("&table=Led&timeout=4s");
        let begun = Instant::now();
        let error = store.prepare().await.unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(error.to_string().contains(&database.server.rest), "{error}");
        let hint = error.hint();
        assert!(hint.contains("&rest=HOST:PORT") && hint.contains("&table=Led"), "{hint}");
    }
}

#[tokio::test]
async fn a_table_of_somebody_else_is_left_alone() {
    let Some(server) = Server::shared() else { return };
    for theirs in [
        "CREATE TABLE Leadership (cluster_id STRING(64) NOT NULL, motto STRING(MAX)) PRIMARY KEY (cluster_id)",
        "CREATE TABLE Leadership (cluster_id STRING(64) NOT NULL, leader_id STRING(64), lease_expiration TIMESTAMP, \
         fencing_token INT64 NOT NULL, metadata JSON, record STRING(MAX), version INT64, beat TIMESTAMP) \
         PRIMARY KEY (cluster_id)",
    ] {
        let database = server.bare_database();
        database.make(theirs).await;
        let store = database.store();
        let (why, hint) = refusal(store.prepare().await);
        assert!(
            why.contains("`Leadership` is not as Baton makes it") && hint.contains("?table=NAME"),
            "{why}; {hint}"
        );
        let (name, key) = election("e");
        let _ = refusal(store.read(&key).await);
        let _ = refusal(
            store
                .swap(&key, Expect::Absent, &led(&name, "a", 0), AgeStamp::Reset, Persistence::Durable)
                .await,
        );
        let own = database.store_with("&table=Ours");
        own.prepare().await.unwrap();
        assert!(own.read(&key).await.unwrap().found.is_none());
    }
}

/// A store whose server answers everything with one and the same status.
async fn refused_with(status: u8, message: &str) -> Database {
    let address = Refuser::start(status, message).await;
    let server = Server { grpc: address.clone(), rest: address };
    Database { server, path: "p/i1/d1".to_string() }
}

#[tokio::test]
async fn who_may_not_is_told_which_role_it_takes() {
    let message = "Caller is missing IAM permission spanner.sessions.create on resource d1.";
    let store = refused_with(7, message).await.store();
    let (name, key) = election("e");
    let (why, hint) = refusal(store.read(&key).await);
    assert_eq!(why, message);
    assert!(hint.contains("roles/spanner.databaseUser") && hint.contains("--project=p"), "{hint}");
    let _ = refusal(
        store.swap(&key, Expect::Absent, &led(&name, "a", 0), AgeStamp::Reset, Persistence::Durable).await,
    );
    let _ = refusal(store.list(&Prefix::Elections).await);
    let _ = refusal(store.watch(&key).await.map(|_| ()));
    let _ = refusal(store.prepare().await);
}

#[tokio::test]
async fn credentials_that_have_run_out_are_refused() {
    let store = refused_with(16, "Request had invalid authentication credentials.").await.store();
    let (why, hint) = refusal(store.read(&election("e").1).await);
    assert!(why.contains("credentials") && !hint.is_empty(), "{why}; {hint}");
}

#[tokio::test]
async fn a_server_that_has_too_much_to_do_is_asked_again_later() {
    let store = refused_with(8, "Too many requests").await.store();
    let (name, key) = election("e");
    let read = store.read(&key).await;
    assert!(matches!(read, Err(StoreError::Unavailable { .. })), "{read:?}");
    let swapped =
        store.swap(&key, Expect::Absent, &led(&name, "a", 0), AgeStamp::Reset, Persistence::Durable).await;
    assert!(matches!(swapped, Err(StoreError::Unavailable { .. })), "{swapped:?}");
}

#[tokio::test]
async fn nobody_waits_for_a_server_that_does_not_answer() {
    let open = |address: String| -> BoxFuture<'_, Arc<dyn Store>> {
        let server = Server { grpc: address.clone(), rest: address };
        let store = Database { server, path: "p/i1/d1".to_string() }.store();
        Box::pin(async move { Arc::new(store) as Arc<dyn Store> })
    };
    conformance::plain_words(&open).await;
    conformance::bounded(&open, Duration::from_secs(14)).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable_soon() {
    let nobody = Server { grpc: "127.0.0.1:1".to_string(), rest: "127.0.0.1:1".to_string() };
    let database = Database { server: nobody, path: "p/i1/d1".to_string() };
    let store = database.store();
    let (name, key) = election("e");
    let begun = Instant::now();
    let read = store.read(&key).await;
    assert!(
        matches!(&read, Err(StoreError::Unavailable { hint, .. }) if hint.contains("127.0.0.1:1")),
        "{read:?}"
    );
    let swapped =
        store.swap(&key, Expect::Absent, &led(&name, "a", 0), AgeStamp::Reset, Persistence::Durable).await;
    assert!(matches!(swapped, Err(StoreError::Unavailable { .. })), "{swapped:?}");
    let prepared = store.prepare().await;
    assert!(matches!(prepared, Err(StoreError::Unavailable { .. })), "{prepared:?}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}
