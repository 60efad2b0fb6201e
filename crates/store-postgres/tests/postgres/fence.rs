//! The fence that users call in their own transactions.

use std::time::Duration;

use baton_election::Span;
use baton_store::Expect;
use baton_store::conformance::documents::{
    acknowledged, checkpointed, document, key, put, released, renewed, strict, take, take_for,
};
use tokio_postgres::Client;

use crate::support::TestSchema;

const STALE: &str = "ZB001";
const WRONG: &str = "ZB002";
const DAMAGED: &str = "ZB004";
const UNREAD: &str = "ZB005";

/// Shows a token: the SQLSTATE and the words of a refusal.
pub(crate) async fn show(
    client: &Client,
    resource: &str,
    election: &str,
    token: i64,
) -> Result<(), (String, String)> {
    let sql = format!("SELECT baton_fence('{resource}', '{election}', {token})");
    refusal(client.batch_execute(&sql).await)
}

fn refusal(outcome: Result<(), tokio_postgres::Error>) -> Result<(), (String, String)> {
    outcome.map_err(|error| match error.as_db_error() {
        Some(said) => (said.code().code().to_string(), said.message().to_string()),
        None => ("closed".to_string(), error.to_string()),
    })
}

async fn refused(client: &Client, resource: &str, election: &str, token: i64, code: &str, words: &str) {
    let (found, said) = show(client, resource, election, token).await.unwrap_err();
    assert!(found == code && said.contains(words), "{found}: {said}");
}

#[tokio::test]
async fn a_token_passes_while_it_is_current() {
    let Some(place) = TestSchema::new().await else { return };
    let (store, client) = (place.store(""), place.client().await);
    let _ = take(&*store, &key("job"), "a").await;
    let _ = take(&*store, &key("other"), "a").await;
    show(&client, "orders", "job", 1).await.unwrap();
    show(&client, "orders", "job", 1).await.unwrap();
    refused(&client, "orders", "job", 2, STALE, "never given").await;
    refused(&client, "orders", "job", 0, STALE, "has seen token 1").await;
    refused(&client, "fresh", "job", 0, STALE, "epoch 1 has begun").await;
    refused(&client, "orders", "other", 1, WRONG, "belongs to the election `job`").await;
    refused(&client, "fresh", "nobody", 1, WRONG, "no election `nobody`").await;
    assert_eq!(
        place.by_hand("SELECT count(*) FROM baton WHERE kind = 'fence'").await,
        ["1"],
        "a refusal leaves nothing"
    );
    let (document, version) = take(&*store, &key("job"), "b").await;
    refused(&client, "orders", "job", 1, STALE, "epoch 2 has begun").await;
    show(&client, "orders", "job", 2).await.unwrap();
    refused(&client, "orders", "job", 1, STALE, "has seen token 2").await;
    let _ = put(&*store, &key("job"), Expect::Version(version), &released(&document, None)).await.unwrap();
    refused(&client, "orders", "job", 2, STALE, "the election is vacant").await;
}

#[tokio::test]
async fn a_token_is_refused_when_the_election_says_so() {
    let Some(place) = TestSchema::new().await else { return };
    let (store, client) = (place.store(""), place.client().await);
    let _ = take(&*store, &key("job"), "a").await;
    for (change, code, words) in [
        ("state = 'paused'", STALE, "the election is paused"),
        ("state = 'awaiting-approval'", STALE, "the election is awaiting-approval"),
        ("state = 'offered'", STALE, "has not been claimed"),
        ("state = 'held', beat = beat - interval '31 s'", STALE, "the lease has run out"),
        (
            "beat = clock_timestamp(), store = 'another'",
            WRONG,
            "trusts the elections of store 0707070707070707",
        ),
        ("fencing_token = NULL", DAMAGED, "not intact"),
        ("fencing_token = 1, state = NULL", DAMAGED, "not intact"),
        ("state = 'held', lease_ms = NULL", DAMAGED, "not intact"),
    ] {
        if change.contains("another") {
            show(&client, "orders", "job", 1).await.unwrap_err();
            let _ = place.by_hand("UPDATE baton SET beat = clock_timestamp() WHERE key = 'job'").await;
            show(&client, "orders", "job", 1).await.unwrap();
        }
        let _ = place.by_hand(&format!("UPDATE baton SET {change} WHERE key = 'job'")).await;
        refused(&client, "orders", "job", 1, code, words).await;
    }
}

#[tokio::test]
async fn a_leader_that_must_acknowledge_first_is_refused_until_it_has() {
    let Some(place) = TestSchema::new().await else { return };
    let (store, client) = (place.store(""), place.client().await);
    let (led, version) = take(&*store, &key("job"), "a").await;
    let left = checkpointed(&strict(&led));
    let _ = put(&*store, &key("job"), Expect::Version(version), &left).await.unwrap();
    show(&client, "orders", "job", 1).await.unwrap();
    let (unread, _) = take(&*store, &key("job"), "b").await;
    refused(&client, "orders", "job", 2, UNREAD, "b has not yet taken on").await;
    refused(&client, "orders", "job", 1, STALE, "epoch 2 has begun").await;
    let _ = place.by_hand("UPDATE baton SET beat = beat - interval '31 s' WHERE key = 'job'").await;
    refused(&client, "orders", "job", 2, STALE, "the lease has run out").await;
    let (_, version) = document(&*store, &key("job")).await;
    let next = acknowledged(&unread);
    let _ = put(&*store, &key("job"), Expect::Version(version), &next).await.unwrap();
    show(&client, "orders", "job", 2).await.unwrap();
}

#[tokio::test]
async fn a_fence_that_is_not_intact_is_refused_and_not_overwritten() {
    let Some(place) = TestSchema::new().await else { return };
    let (store, client) = (place.store(""), place.client().await);
    for (number, change) in [
        "election = NULL",
        "fencing_token = NULL",
        "store = NULL",
        "kind = 'election'",
        "record = '[]'",
        "record = (record::jsonb || '{\"format\": 2}')::json",
        "record = (record::jsonb || '{\"highest\": 7}')::json",
        "record = (record::jsonb - 'tail')::json",
    ]
    .into_iter()
    .enumerate()
    {
        let (job, resource) = (format!("job-{number}"), format!("orders-{number}"));
        let _ = take(&*store, &key(&job), "a").await;
        show(&client, &resource, &job, 1).await.unwrap();
        let _ = take(&*store, &key(&job), "b").await;
        let _ = place.by_hand(&format!("UPDATE baton SET {change} WHERE key = 'fences/{resource}'")).await;
        let rows = format!("SELECT baton::text FROM baton WHERE key = 'fences/{resource}'");
        let before = place.by_hand(&rows).await;
        refused(&client, &resource, &job, 2, DAMAGED, &format!("fences/{resource}")).await;
        assert_eq!(place.by_hand(&rows).await, before, "{change}");
    }
}

#[tokio::test]
async fn a_call_that_is_wrong_is_refused() {
    let Some(place) = TestSchema::new().await else { return };
    let (store, client) = (place.store(""), place.client().await);
    let _ = take(&*store, &key("job"), "a").await;
    let long = "a".repeat(65);
    for odd in [
        "",
        "A",
        "a b",
        "a//b",
        "/a",
        "a/",
        ".a",
        "-a",
        "a.",
        "a..b",
        "a.lock",
        "a/history",
        "fences/a",
        &long,
    ] {
        refused(&client, odd, "job", 1, WRONG, "no name").await;
    }
    for good in ["a", "orders/eu", "v1.2_x", "_", "a-b"] {
        show(&client, good, "job", 1).await.unwrap();
    }
    for nothing in ["NULL, 'job', 1", "'a', NULL, 1", "'a', 'job', NULL"] {
        let outcome = client.batch_execute(&format!("SELECT baton_fence({nothing})")).await;
        assert_eq!(refusal(outcome).unwrap_err().0, WRONG, "nothing is not a pass: {nothing}");
    }
}

#[tokio::test]
async fn a_later_token_waits_for_an_open_transaction_of_an_earlier_one() {
    let Some(place) = TestSchema::new().await else { return };
    let (store, old, new) = (place.store(""), place.client().await, place.client().await);
    let _ = place.by_hand("CREATE TABLE writes (n bigserial, token bigint)").await;
    let _ = take(&*store, &key("job"), "a").await;
    old.batch_execute("BEGIN").await.unwrap();
    show(&old, "orders", "job", 1).await.unwrap();
    old.batch_execute("INSERT INTO writes (token) VALUES (1)").await.unwrap();
    let (document, version) = take(&*store, &key("job"), "b").await;
    let _ = put(&*store, &key("job"), Expect::Version(version), &renewed(&document)).await.unwrap();
    new.batch_execute("BEGIN").await.unwrap();
    let mut passing = Box::pin(show(&new, "orders", "job", 2));
    let early = tokio::time::timeout(Duration::from_millis(300), &mut passing).await;
    assert!(early.is_err(), "the earlier transaction is still open: {early:?}");
    refused(&old, "orders", "job", 1, STALE, "epoch 2 has begun").await;
    // The refusal has broken off the old transaction, and with it what it wrote.
    passing.await.unwrap();
    new.batch_execute("INSERT INTO writes (token) VALUES (2); COMMIT").await.unwrap();
    old.batch_execute("COMMIT").await.unwrap();
    assert_eq!(place.by_hand("SELECT token FROM writes").await, ["2"]);
    refused(&old, "orders", "job", 1, STALE, "has seen token 2").await;
}

#[tokio::test]
async fn what_an_earlier_token_commits_comes_before_the_later_one_begins() {
    let Some(place) = TestSchema::new().await else { return };
    let (store, old, new) = (place.store(""), place.client().await, place.client().await);
    let _ = place.by_hand("CREATE TABLE writes (n bigserial, token bigint)").await;
    let _ = take(&*store, &key("job"), "a").await;
    // The first use of a resource is no exception: its row is not there for others yet.
    old.batch_execute("BEGIN").await.unwrap();
    show(&old, "orders", "job", 1).await.unwrap();
    let _ = take(&*store, &key("job"), "b").await;
    let mut passing = Box::pin(show(&new, "orders", "job", 2));
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut passing).await.is_err());
    old.batch_execute("INSERT INTO writes (token) VALUES (1); COMMIT").await.unwrap();
    passing.await.unwrap();
    assert_eq!(
        place.by_hand("SELECT token FROM writes").await,
        ["1"],
        "it is there when the later token passes"
    );
}

#[tokio::test]
async fn a_transaction_that_was_opened_before_the_take_over_is_refused_after_it() {
    let Some(place) = TestSchema::new().await else { return };
    let (store, old) = (place.store(""), place.client().await);
    let _ = take(&*store, &key("job"), "a").await;
    old.batch_execute("BEGIN; SELECT 1").await.unwrap();
    let _ = take(&*store, &key("job"), "b").await;
    refused(&old, "orders", "job", 1, STALE, "epoch 2 has begun").await;
}

#[tokio::test]
async fn a_snapshot_from_before_the_take_over_does_not_pass_a_later_token() {
    let Some(place) = TestSchema::new().await else { return };
    let (store, old, new) = (place.store(""), place.client().await, place.client().await);
    let _ = take(&*store, &key("job"), "a").await;
    show(&new, "orders", "job", 1).await.unwrap();
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let (before, _) = document(&*store, &key("job")).await;
        let token = i64::try_from(before.epoch.0).unwrap();
        old.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}; SELECT * FROM baton")).await.unwrap();
        let _ = take(&*store, &key("job"), "b").await;
        show(&new, "orders", "job", token + 1).await.unwrap();
        let (code, said) = show(&old, "orders", "job", token).await.unwrap_err();
        assert_eq!(code, "40001", "{said}");
        old.batch_execute("ROLLBACK").await.unwrap();
        refused(&old, "orders", "job", token, STALE, "has seen token").await;
    }
}

#[tokio::test]
async fn transactions_of_one_token_do_not_wait_for_each_other() {
    let Some(place) = TestSchema::new().await else { return };
    let (store, one, two) = (place.store(""), place.client().await, place.client().await);
    let (document, version) = take(&*store, &key("job"), "a").await;
    show(&one, "orders", "job", 1).await.unwrap();
    for client in [&one, &two] {
        client.batch_execute("BEGIN").await.unwrap();
        let shown = tokio::time::timeout(Duration::from_secs(10), show(client, "orders", "job", 1)).await;
        assert_eq!(shown, Ok(Ok(())));
    }
    let renewal = put(&*store, &key("job"), Expect::Version(version), &renewed(&document)).await;
    assert!(renewal.is_ok(), "nor does a renewal wait for them: {renewal:?}");
}

#[tokio::test]
async fn nobody_who_was_stopped_holds_a_resource_for_ever() {
    let Some(place) = TestSchema::new().await else { return };
    let (store, old, new) = (place.store(""), place.client().await, place.client().await);
    let _ = take_for(&*store, &key("job"), "a", Some(Span::secs(1))).await;
    old.batch_execute("BEGIN").await.unwrap();
    show(&old, "orders", "job", 1).await.unwrap();
    let _ = take(&*store, &key("job"), "b").await;
    let shown = tokio::time::timeout(Duration::from_secs(20), show(&new, "orders", "job", 2)).await;
    assert_eq!(shown, Ok(Ok(())), "the idle transaction was ended by the server");
    assert!(old.batch_execute("COMMIT").await.is_err());
    let setting = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '2s'; SELECT baton_fence('orders', 'job', 2); \
                   SHOW idle_in_transaction_session_timeout";
    let shown = crate::support::rows(&new, setting).await.unwrap();
    assert_eq!(shown.last().map(String::as_str), Some("2s"), "a stricter bound stays");
    new.batch_execute("COMMIT").await.unwrap();
    let shown = crate::support::rows(&new, "SHOW idle_in_transaction_session_timeout").await.unwrap();
    assert_eq!(shown, ["0"], "the bound ends with the transaction");
}

#[tokio::test]
async fn a_role_needs_only_the_function() {
    let Some(place) = TestSchema::new().await else { return };
    let (store, client) = (place.store(""), place.client().await);
    let _ = take(&*store, &key("job"), "a").await;
    let role = format!("r{}", place.schema);
    let schema = &place.schema;
    let _ = place.by_hand(&format!("CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role}")).await;
    client.batch_execute(&format!("SET ROLE {role}")).await.unwrap();
    let (code, said) = show(&client, "orders", "job", 1).await.unwrap_err();
    assert_eq!(code, "42501", "{said}");
    let _ = place.by_hand(&format!("GRANT EXECUTE ON FUNCTION baton_fence TO {role}")).await;
    show(&client, "orders", "job", 1).await.unwrap();
    // A table of the caller's own does not stand in for the real one.
    client
        .batch_execute(&format!("CREATE TEMP TABLE baton (LIKE {schema}.baton); SELECT set_config('search_path', 'pg_temp,{schema}', false)"))
        .await
        .unwrap_err();
    client.batch_execute("RESET ROLE; CREATE TEMP TABLE baton AS TABLE baton").await.unwrap();
    client.batch_execute("UPDATE pg_temp.baton SET fencing_token = 9").await.unwrap();
    client.batch_execute(&format!("SET search_path = pg_temp, {schema}")).await.unwrap();
    refused(&client, "orders", "job", 9, STALE, "never given").await;
    let _ = place.by_hand(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_a_resource_never_go_back_under_load() {
    let Some(place) = TestSchema::new().await else { return };
    let store = place.store("");
    let _ = place.by_hand("CREATE TABLE writes (n bigserial, token bigint)").await;
    let _ = take(&*store, &key("job"), "a").await;
    let (current, tokens) = tokio::sync::watch::channel(1_i64);
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..5_u64 {
        let (client, tokens) = (place.client().await, tokens.clone());
        writers.spawn(async move {
            let (mut passed, mut refused) = (0, 0);
            for round in 0..40_u64 {
                // Some show the token that they remember, some think for a while between the check and the write.
                let token = *tokens.borrow();
                client.batch_execute("BEGIN").await.unwrap();
                let pause = Duration::from_micros((number * 7 + round * 13) % 11 * 300);
                tokio::time::sleep(pause).await;
                match show(&client, "orders", "job", token).await {
                    Ok(()) => {
                        tokio::time::sleep(pause).await;
                        let later = format!("SELECT count(*) FROM writes WHERE token > {token}");
                        assert_eq!(crate::support::rows(&client, &later).await.unwrap(), ["0"]);
                        let write = format!("INSERT INTO writes (token) VALUES ({token}); COMMIT");
                        client.batch_execute(&write).await.unwrap();
                        passed += 1;
                    }
                    Err((code, said)) => {
                        assert!(code == STALE || code == "40P01", "{code}: {said}");
                        client.batch_execute("ROLLBACK").await.unwrap();
                        refused += 1;
                    }
                }
            }
            (passed, refused)
        });
    }
    let leaders = async {
        for number in 0..25 {
            tokio::time::sleep(Duration::from_millis(15)).await;
            let (document, _) = take(&*store, &key("job"), if number % 2 == 0 { "b" } else { "a" }).await;
            current.send_replace(i64::try_from(document.epoch.0).unwrap());
        }
    };
    let (outcomes, ()) = tokio::join!(writers.join_all(), leaders);
    let (passed, refused) = outcomes.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(passed > 20 && refused > 0, "both were met: {passed} passed, {refused} were refused");
    let sorted = "SELECT count(*) FROM (SELECT token - lag(token) OVER (ORDER BY n) AS step FROM writes) AS s WHERE step < 0";
    assert_eq!(place.by_hand(sorted).await, ["0"], "written in the order of tokens");
}
