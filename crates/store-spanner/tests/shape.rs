//! What somebody sees who looks with Spanner's own tools, and what it costs.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use crate::support::proxy::Proxy;
use crate::support::{ByHand, Database, Server, document, election, led, released, renewed};
use baton_store::{AgeStamp, Expect, Persistence, Record, Store, Version};

/// The one row of an election, as a person asks for it.
const ROW: &str = "SELECT leader_id, fencing_token, TIMESTAMP_DIFF(lease_expiration, beat, MILLISECOND), \
                   JSON_VALUE(metadata, '$.state'), JSON_VALUE(metadata, '$.task'), metadata IS NULL FROM Leadership";
/// The one mark.
const MARK: &str = "SELECT fencing_token, lease_ms, gone IS NULL FROM LeadershipMarks";

async fn row(by_hand: &ByHand) -> (Option<String>, i64, Option<i64>, Option<String>) {
    let rows = by_hand.select(ROW).await;
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap(), row.get(3).unwrap())
}

async fn mark(by_hand: &ByHand) -> Option<(i64, i64, bool)> {
    let rows = by_hand.select(MARK).await;
    rows.first().map(|row| (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap()))
}

async fn swap(store: &dyn Store, expect: Expect, next: &Record, clock: AgeStamp) -> Version {
    let (_, key) = election("fleet/eu");
    store.swap(&key, expect, next, clock, Persistence::Durable).await.unwrap().version
}

#[tokio::test]
async fn a_select_shows_leader_and_token() {
    let Some(server) = Server::shared() else { return };
    let database = server.database().await;
    let (store, by_hand) = (database.store(), database.by_hand().await);
    let (name, key) = election("fleet/eu");
    let some = |text: &str| Some(text.to_string());

    let held = led(&name, "agent-a", 6);
    let version = swap(&store, Expect::Absent, &held, AgeStamp::Reset).await;
    assert_eq!(row(&by_hand).await, (some("agent-a"), 7, Some(30_000), some("held")));
    let task: Option<String> = by_hand.select(ROW).await[0].get(4).unwrap();
    assert_eq!(task, some("refactor \"auth\" "));

    let version = swap(&store, Expect::Version(version), &renewed(&held), AgeStamp::Reset).await;
    let version = swap(&store, Expect::Version(version), &renewed(&held), AgeStamp::Preserve).await;
    assert_eq!(
        row(&by_hand).await,
        (some("agent-a"), 7, Some(30_000), some("held")),
        "a lease counts from its beat"
    );

    let free = released(&held);
    let _ = swap(&store, Expect::Version(version), &free, AgeStamp::Reset).await;
    assert_eq!(row(&by_hand).await, (None, 7, None, some("vacant")));
    assert_eq!(store.read(&key).await.unwrap().record(), Some(&free));
}

#[tokio::test]
async fn a_renewal_is_one_statement_and_one_commit() {
    let Some(server) = Server::shared() else { return };
    let proxy = Proxy::to(&server.grpc).await;
    let mut database = server.database().await;
    database.server.grpc = proxy.address.clone();
    let store = database.store();
    let (name, key) = election("fleet/eu");
    let held = led(&name, "agent-a", 0);
    let mut version = swap(&store, Expect::Absent, &held, AgeStamp::Reset).await;
    let mut record = held;
    for _ in 0..5 {
        let (statements, requests) = (store.statements(), proxy.requests());
        record = renewed(&record);
        version = swap(&store, Expect::Version(version), &record, AgeStamp::Reset).await;
        assert_eq!(store.statements() - statements, 1, "one statement, as the store counts");
        assert_eq!(proxy.requests() - requests, 2, "the statement and the commit, as the wire counts");
    }
    let requests = proxy.requests();
    assert_eq!(store.read(&key).await.unwrap().record(), Some(&record));
    assert_eq!(proxy.requests() - requests, 1, "a reading is one request");

    let (statements, requests) = (store.statements(), proxy.requests());
    let _ = swap(&store, Expect::Version(version), &led(&name, "agent-b", 1), AgeStamp::Reset).await;
    assert_eq!(store.statements() - statements, 2, "a new token is kept in two places");
    assert_eq!(proxy.requests() - requests, 3, "in one commit");
}

#[tokio::test]
async fn the_mark_follows_token_and_lease_and_nothing_else() {
    let Some(server) = Server::shared() else { return };
    let database = server.database().await;
    let (store, by_hand) = (database.store(), database.by_hand().await);
    let (name, key) = election("fleet/eu");
    let held = led(&name, "agent-a", 0);
    let version = swap(&store, Expect::Absent, &held, AgeStamp::Reset).await;
    assert_eq!(mark(&by_hand).await, Some((1, 30_000, true)));
    let version = swap(&store, Expect::Version(version), &renewed(&held), AgeStamp::Reset).await;
    assert_eq!(mark(&by_hand).await, Some((1, 30_000, true)));
    let version = swap(&store, Expect::Version(version), &released(&held), AgeStamp::Reset).await;
    assert_eq!(mark(&by_hand).await, Some((1, 0, true)), "who has let go holds no lease");
    let next = led(&name, "agent-b", 1);
    let _ = swap(&store, Expect::Version(version), &next, AgeStamp::Reset).await;
    assert_eq!(mark(&by_hand).await, Some((2, 30_000, true)));

    assert_eq!(by_hand.change("DELETE FROM LeadershipMarks WHERE TRUE").await, 1);
    let reading = store.read(&key).await.unwrap();
    let _ = swap(&store, reading.expect(), &renewed(&next), AgeStamp::Reset).await;
    assert_eq!(mark(&by_hand).await, Some((2, 30_000, true)), "a mark that was deleted is put back");
}

#[tokio::test]
async fn what_is_printed_is_laid_out_once() {
    let Some(server) = Server::shared() else { return };
    let database = server.bare_database();
    let stores: Vec<_> = (0..3).map(|_| database.store()).collect();
    let layout = stores[0].layout().unwrap();
    assert!(layout.contains("CREATE TABLE IF NOT EXISTS `Leadership` (") && layout.contains("-- who leads"));
    assert!(layout.contains("gcloud spanner databases ddl update elections"));
    let prepared = futures_util::future::join_all(stores.iter().map(Store::prepare)).await;
    assert!(prepared.iter().all(Result::is_ok), "several lay it out at the same time: {prepared:?}");
    stores[0].prepare().await.unwrap();
    let (name, _) = election("fleet/eu");
    let held = led(&name, "agent-a", 0);
    let _ = swap(&stores[1], Expect::Absent, &held, AgeStamp::Reset).await;
    stores[2].prepare().await.unwrap();
    assert_eq!(row(&database.by_hand().await).await.1, 1, "laying out again leaves alone what is there");
}

#[tokio::test]
async fn two_tables_in_one_database_are_two_stores() {
    let Some(server) = Server::shared() else { return };
    let database: Database = server.database().await;
    let other = database.store_with("&table=Crew");
    other.prepare().await.unwrap();
    let (name, key) = election("fleet/eu");
    let held = led(&name, "agent-a", 0);
    let _ = swap(&database.store(), Expect::Absent, &held, AgeStamp::Reset).await;
    assert!(other.read(&key).await.unwrap().found.is_none());
    let _ = swap(&other, Expect::Absent, &led(&name, "agent-b", 4), AgeStamp::Reset).await;
    assert_eq!(document(other.read(&key).await.unwrap().record().unwrap()).epoch.0, 5);
    assert_eq!(database.store().read(&key).await.unwrap().record(), Some(&held));
}
