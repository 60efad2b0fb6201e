//! Requests that are none, or are not what they should be. After each the server goes on.

use std::net::SocketAddr;

use baton_election::tokens::Role;
use baton_server::Options;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{HANG, get, post, send};
use super::setting::{Setting, acquire};

/// What comes until the connection ends.
async fn all_that_comes(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let _ = tokio::time::timeout(HANG, stream.read_to_end(&mut all)).await.expect("the connection ends");
    String::from_utf8_lossy(&all).into_owned()
}

async fn goes_on(address: SocketAddr) {
    assert_eq!(get(address, "/healthz", None).await.status, 200);
}

#[tokio::test]
async fn what_is_not_http_is_not_answered_for_long() {
    let setting = Setting::new(Options::default()).await;
    for odd in [
        "\0\0\0\0\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(setting.address).await.unwrap();
        stream.write_all(odd.as_bytes()).await.unwrap();
        let said = all_that_comes(&mut stream).await;
        assert!(said.starts_with("HTTP/1.1 400"), "{odd:?}: {said}");
        assert!(said.contains("application/problem+json"), "{odd:?}: {said}");
    }
    goes_on(setting.address).await;
}

#[tokio::test]
async fn bodies_are_bounded_and_must_be_what_they_say() {
    let setting = Setting::new(Options::default()).await;
    let at = setting.address;
    let large = json!({ "agent": "x".repeat(300 * 1024) });
    assert_eq!(post(at, "/v1/elections/e/acquire", None, &large).await.status, 413);
    let long_name = format!("/v1/elections/{}/acquire", "x".repeat(65));
    assert_eq!(post(at, &long_name, None, &acquire("a", 1)).await.status, 400);
    for body in [json!([]), json!({}), json!({ "agent": "a", "odd": 1 })] {
        let refused = post(at, "/v1/elections/e/acquire", None, &body).await;
        assert_eq!((refused.status, refused.code().as_str()), (400, "invalid"), "{refused:?}");
    }
    let headers = "X: y\r\n".repeat(100);
    let answer = send(at, &format!("GET /v1/elections HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")).await;
    assert_eq!((answer.status, answer.code().as_str()), (431, "invalid"), "{answer:?}");
    goes_on(at).await;
}

#[tokio::test]
async fn what_is_not_known_in_a_query_is_refused() {
    let setting = Setting::new(Options::default()).await;
    let at = setting.address;
    for path in ["/v1/elections?x=1", "/v1/elections/e?wait_ms=1", "/v1/store?token=secret"] {
        let refused = get(at, path, None).await;
        assert_eq!((refused.status, refused.code().as_str()), (400, "invalid"), "{refused:?}");
        assert!(!refused.body.contains("secret"), "{refused:?}");
    }
    assert_eq!(get(at, "/v1/elections?", None).await.status, 200);
    assert_eq!(get(at, "/v1/elections/e/history?limit=1", None).await.status, 200);
    assert_eq!(get(at, "/v1/elections/e/history?limit=1&limits=2", None).await.status, 400);
}

#[tokio::test]
async fn pages_of_other_sites_and_bound_names_are_refused_with_any_token() {
    let setting = Setting::guarded().await;
    let token = setting.token(Role::Operator).await;
    let ask = async |headers: &str| {
        let text =
            format!("GET /v1/elections HTTP/1.1\r\n{headers}\r\nAuthorization: Bearer {token}\r\n\r\n");
        send(setting.address, &text).await
    };
    assert_eq!(ask("Host: localhost").await.status, 200);
    assert_eq!(ask("Host: evil.example").await.code(), "wrong-host");
    assert_eq!(ask("Host: localhost\r\nOrigin: https://evil.example").await.code(), "cross-site");
    assert_eq!(ask("Host: localhost\r\nSec-Fetch-Site: cross-site").await.code(), "cross-site");
    let body = acquire("a", 1).to_string();
    let form = format!(
        "POST /v1/elections/e/acquire HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(send(setting.address, &form).await.status, 415);
    let named =
        Setting::new(Options { names: vec!["baton.example".to_string()], ..Options::default() }).await;
    let text = "GET /v1/elections HTTP/1.1\r\nHost: Baton.example:7420\r\n\r\n";
    assert_eq!(send(named.address, text).await.status, 200);
}

#[tokio::test]
async fn half_a_request_and_a_slow_one_are_cut_off() {
    let setting = Setting::new(Options::default()).await;
    let at = setting.address;
    // Half of it, and then nothing more will come.
    let mut half = TcpStream::connect(at).await.unwrap();
    half.write_all(b"POST /v1/elections/e/acquire HTTP/1.1\r\nHost: localhost\r\n").await.unwrap();
    half.shutdown().await.unwrap();
    all_that_comes(&mut half).await;
    let mut body = TcpStream::connect(at).await.unwrap();
    body.write_all(
        b"POST /v1/elections/e/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{",
    )
    .await
    .unwrap();
    body.shutdown().await.unwrap();
    all_that_comes(&mut body).await;
    // A letter now and then, for ever.
    let mut slow = TcpStream::connect(at).await.unwrap();
    slow.write_all(b"GET /v1/elections HTTP/1.1\r\n").await.unwrap();
    let (mut reading, mut writing) = slow.split();
    let dribble = async {
        while writing.write_all(b"X").await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    let ended = async {
        let mut all = Vec::new();
        let _ = reading.read_to_end(&mut all).await;
    };
    tokio::time::timeout(HANG, async {
        tokio::select! {
            () = dribble => {}
            () = ended => {}
        }
    })
    .await
    .expect("it is cut off");
    // The same with a body.
    let mut slow = TcpStream::connect(at).await.unwrap();
    slow.write_all(
        b"POST /v1/elections/e/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{",
    )
    .await
    .unwrap();
    let answer = tokio::time::timeout(HANG, super::client::receive(&mut slow)).await.unwrap();
    assert_eq!(answer.status, 408, "{answer:?}");
    goes_on(at).await;
}

#[tokio::test]
async fn no_answer_is_taken_for_something_else() {
    let setting = Setting::new(Options::default()).await;
    let at = setting.address;
    for path in ["/v1/elections", "/v1/store", "/v1/nothing", "/healthz", "/openapi.json", "/"] {
        let answer = get(at, path, None).await;
        assert!(answer.head.contains("x-content-type-options: nosniff"), "{path}: {}", answer.head);
        assert!(!answer.head.contains("strict-transport-security"), "{path}: there is no TLS");
    }
}
