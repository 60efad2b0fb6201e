//! Refused log-ins, and servers that do not answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_store::conformance::{self, Required, required};
use baton_store::{BoxFuture, Key, Store, StoreError};

use crate::support::store;

async fn error_of(url: &str) -> StoreError {
    let store = store(url).unwrap();
    let error = store.read(&Key::Store).await.unwrap_err();
    assert!(!error.to_string().contains("wr0ng") && !error.hint().contains("wr0ng"), "{error}");
    assert!(!store.location().contains("wr0ng"));
    error
}

async fn check_logins(server: &str, database: bool) {
    let (_, tail) = server.split_once('@').unwrap();
    let (address, _) = tail.split_once('/').unwrap();
    let (head, _) = server.split_once('@').unwrap();
    let mut odd =
        vec![format!("postgres://baton:wr0ng@{tail}"), format!("postgres://nobody-here:wr0ng@{tail}")];
    if database {
        odd.push(format!("{head}@{address}/no_such_database"));
    }
    for url in odd {
        let error = error_of(&url).await;
        assert!(matches!(error, StoreError::Refused { .. }), "{url}: {error:?}");
        assert!(error.hint().contains("PGPASSWORD"), "{error}; {}", error.hint());
    }
    let error = error_of(&format!("postgres://baton@{tail}?application_name=x")).await;
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
}

#[tokio::test]
async fn a_wrong_login_is_refused() {
    let Required::At(server) = required("BATON_TEST_POSTGRES") else { return };
    check_logins(&server, true).await;
}

#[tokio::test]
async fn a_wrong_login_is_refused_by_a_pooler_too() {
    let Required::At(server) = required("BATON_TEST_PGBOUNCER") else { return };
    check_logins(&server, true).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let free = conformance::free_port();
    for url in [format!("postgres://u@127.0.0.1:{free}/d"), "postgres://u@no-such-host.invalid/d".to_string()]
    {
        let error = error_of(&url).await;
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(error.to_string().contains("cannot be reached"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_unavailable_after_a_bound() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let began = Instant::now();
    let error = error_of(&format!("postgres://u@{address}/d?connect_timeout=1")).await;
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(20), "it was bounded");
}

#[tokio::test]
async fn nobody_waits_for_a_server_that_does_not_answer() {
    let usual = |address: String| opened(format!("postgres://u@{address}/d"));
    let short = |address: String| opened(format!("postgres://u@{address}/d?timeout=1s"));
    conformance::plain_words(&usual).await;
    conformance::bounded(&usual, Duration::from_secs(9)).await;
    conformance::bounded(&short, Duration::from_secs(4)).await;
}

fn opened<'a>(url: String) -> BoxFuture<'a, Arc<dyn Store>> {
    Box::pin(async move { store(&url).unwrap() })
}

#[tokio::test]
async fn what_is_no_postgres_is_unavailable() {
    let odd = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = odd.local_addr().unwrap();
    let task = tokio::spawn(async move {
        loop {
            let (mut client, _) = odd.accept().await.unwrap();
            let _ =
                tokio::io::AsyncWriteExt::write_all(&mut client, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let error = error_of(&format!("postgres://u@{address}/d?sslmode=disable")).await;
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    task.abort();
}
