//! What a renewal costs.

use baton_store::Expect;
use baton_store::conformance::documents::{key, put, renewed, take};

use crate::support::proxy::Proxy;
use crate::support::{TestSchema, store};

#[tokio::test]
async fn a_renewal_is_one_statement_and_changes_one_row() {
    let Some(place) = TestSchema::new().await else { return };
    let proxy = Proxy::before(&place.server).await;
    let store = store(&format!("{}?table={}.baton&sslmode=disable", proxy.server, place.schema)).unwrap();
    let (mut document, mut version) = take(&*store, &key("e"), "a").await;
    let marks = "SELECT xmin || ' ' || epoch || ' ' || lease_ms FROM baton_marks";
    let (before, mark) = (proxy.passed(), place.by_hand(marks).await);
    for _ in 0..10 {
        document = renewed(&document);
        version = put(&*store, &key("e"), Expect::Version(version), &document).await.unwrap();
    }
    let after = proxy.passed();
    assert_eq!((after.0 - before.0, after.1 - before.1), (10, 10), "statements and transactions");
    assert_eq!(place.by_hand(marks).await, mark, "the mark was not written");
    assert_eq!(store.properties().cost.per_renewal, 1);
}

#[tokio::test]
async fn a_reading_is_one_statement() {
    let Some(place) = TestSchema::new().await else { return };
    let proxy = Proxy::before(&place.server).await;
    let store = store(&format!("{}?table={}.baton&sslmode=disable", proxy.server, place.schema)).unwrap();
    let _ = take(&*store, &key("e"), "a").await;
    let before = proxy.passed();
    for name in ["e", "absent"] {
        assert!(store.read(&key(name)).await.is_ok());
    }
    let after = proxy.passed();
    assert_eq!((after.0 - before.0, after.1 - before.1), (2, 2));
}
