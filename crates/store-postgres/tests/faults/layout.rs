//! Tables that are missing, foreign, or not ours to touch.

use baton_store::conformance::documents::{key, led, put, take};
use baton_store::conformance::{Required, required};
use baton_store::{Expect, Prefix, Store, StoreError};

use crate::support::{TestSchema, random, store};

async fn bare() -> Option<TestSchema> {
    match required("BATON_TEST_POSTGRES") {
        Required::At(server) => Some(TestSchema::bare(server).await),
        Required::Missing => None,
    }
}

/// Every operation is refused, in words that contain these.
async fn refused(store: &dyn Store, words: &str, hint: &str) {
    let (name, first) = (key("e"), led("e", None, "a"));
    let errors = [
        store.read(&name).await.err(),
        put(store, &name, Expect::Absent, &first).await.err(),
        store.list(&Prefix::Elections).await.err(),
        store.watch(&name).await.err(),
    ];
    for (number, error) in errors.into_iter().enumerate() {
        let error = error.unwrap();
        assert!(matches!(error, StoreError::Refused { .. }), "{number}: {error:?}");
        assert!(
            error.to_string().contains(words) && error.hint().contains(hint),
            "{number}: {error}; {}",
            error.hint()
        );
    }
}

#[tokio::test]
async fn a_missing_table_says_how_to_lay_it_out() {
    let Some(place) = bare().await else { return };
    let store = place.store("");
    refused(&*store, "does not exist", "baton init --store 'postgres://").await;
    store.prepare().await.unwrap();
    let _ = take(&*store, &key("e"), "a").await;
    let _ = place.by_hand("DROP TABLE baton_marks").await;
    let error = store.read(&key("e")).await.unwrap_err();
    assert!(error.to_string().contains("baton_marks") && error.hint().contains("baton init"), "{error}");
}

#[tokio::test]
async fn a_missing_schema_is_named() {
    let Some(place) = bare().await else { return };
    let name = format!("s{}", random());
    let store = store(&format!("{}?table={name}.baton", place.server)).unwrap();
    let error = store.prepare().await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(
        error.to_string().contains(&name) && error.hint().contains("CREATE SCHEMA"),
        "{error}; {}",
        error.hint()
    );
}

#[tokio::test]
async fn the_layout_is_what_prepare_does_and_may_be_repeated() {
    let Some(place) = bare().await else { return };
    let store = place.store("");
    let _ = place.by_hand(&store.layout().unwrap()).await;
    let (_, version) = take(&*store, &key("e"), "a").await;
    let state = "SELECT string_agg(c.oid || ' ' || c.xmin, ',' ORDER BY c.oid) FROM pg_class AS c WHERE relnamespace = current_schema::regnamespace";
    let before = place.by_hand(state).await;
    store.prepare().await.unwrap();
    assert_eq!(place.by_hand(state).await, before, "there was nothing left to do");
    let _ = place.by_hand(&store.layout().unwrap()).await;
    assert_eq!(store.read(&key("e")).await.unwrap().expect(), Expect::Version(version));
    let _ = place.by_hand("DROP TRIGGER baton_changed ON baton; DROP FUNCTION baton_fence").await;
    store.prepare().await.unwrap();
    let functions = "SELECT count(*) FROM pg_proc WHERE pronamespace = current_schema::regnamespace";
    assert_eq!(place.by_hand(functions).await, ["2"], "what was missing is put back");
}

#[tokio::test]
async fn many_may_lay_out_at_once() {
    let Some(place) = bare().await else { return };
    let mut layers = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let store = place.store("");
        layers.spawn(async move { store.prepare().await });
    }
    for outcome in layers.join_all().await {
        assert!(outcome.is_ok(), "{outcome:?}");
    }
    let _ = take(&*place.store(""), &key("e"), "a").await;
}

#[tokio::test]
async fn a_foreign_table_of_that_name_is_left_alone() {
    let Some(place) = bare().await else { return };
    let store = place.store("");
    for foreign in [
        "CREATE TABLE baton (key text PRIMARY KEY, value text)",
        "CREATE VIEW baton AS SELECT 'x'::text AS key",
        // An older layout, or a newer one: a column is of another type.
        "CREATE TABLE baton (key text PRIMARY KEY, kind text, election text, leader text, fencing_token text)",
    ] {
        let _ = place.by_hand(foreign).await;
        let error = store.read(&key("e")).await.unwrap_err();
        assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
        let error = store.prepare().await.unwrap_err();
        assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains("is not this Baton's"), "{error}");
        let made = place.by_hand("SELECT count(*) FROM pg_class WHERE relnamespace = current_schema::regnamespace AND relname LIKE '%marks%'").await;
        assert_eq!(made, ["0"], "nothing was changed");
        let _ = place
            .by_hand(if foreign.contains("VIEW") { "DROP VIEW baton" } else { "DROP TABLE baton" })
            .await;
    }
    store.prepare().await.unwrap();
    let _ = place.by_hand("DROP TABLE baton; CREATE TABLE baton (key text PRIMARY KEY, value text)").await;
    refused(&*store, "does not exist", "?table=NAME").await;
    let _ = place.by_hand("DROP TABLE baton, baton_marks; CREATE TABLE baton_marks (mark text)").await;
    let error = store.prepare().await.unwrap_err();
    assert!(error.to_string().contains("baton_marks already that is not this Baton's"), "{error}");
}

/// A role that may log in, with nothing else; its store in this place.
async fn poor(place: &TestSchema, role: &str) -> std::sync::Arc<dyn Store> {
    let _ = place.by_hand(&format!("CREATE ROLE {role} LOGIN PASSWORD 'poor'")).await;
    let (_, tail) = place.server.split_once('@').unwrap();
    store(&format!("postgres://{role}:poor@{tail}?table={}.baton", place.schema)).unwrap()
}

#[tokio::test]
async fn a_missing_privilege_is_named_and_the_hint_helps() {
    let Some(place) = TestSchema::new().await else { return };
    let role = format!("r{}", place.schema);
    let store = poor(&place, &role).await;
    refused(&*store, "permission denied for schema", "GRANT USAGE ON SCHEMA").await;
    let _ = place.by_hand(&format!("GRANT USAGE ON SCHEMA {} TO {role}", place.schema)).await;
    refused(&*store, "permission denied for table", "GRANT SELECT, INSERT, UPDATE ON").await;
    let _ = place.by_hand(&format!("GRANT SELECT ON baton, baton_marks TO {role}")).await;
    assert!(store.read(&key("e")).await.unwrap().found.is_none());
    let error = put(&*store, &key("e"), Expect::Absent, &led("e", None, "a")).await.unwrap_err();
    assert!(error.to_string().contains("permission denied for table"), "{error}");
    assert_eq!(place.by_hand("SELECT count(*) FROM baton").await, ["0"]);
    let _ = place.by_hand(&error.hint()).await;
    let (_, _) = take(&*store, &key("e"), "a").await;
    let (_, _) = take(&*store, &key("e"), "b").await;
    store.prepare().await.expect("everything is there, so no privilege is needed");
    let _ = place.by_hand("DROP FUNCTION baton_fence").await;
    let error = store.prepare().await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(error.hint().contains("baton init --print"), "{}", error.hint());
    let _ = place.by_hand(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn a_constraint_that_somebody_added_is_a_refusal_in_its_words() {
    let Some(place) = TestSchema::new().await else { return };
    let store = place.store("");
    let _ = place.by_hand("ALTER TABLE baton ADD CONSTRAINT no_mondays CHECK (leader <> 'monday')").await;
    let error = put(&*store, &key("e"), Expect::Absent, &led("e", None, "monday")).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains("no_mondays"), "{error}");
    let (_, _) = take(&*store, &key("e"), "tuesday").await;
}
