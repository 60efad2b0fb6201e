//! What of a request reaches the upstream, and what of the answer the client.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use baton::election::Span;
use baton_guard::Settings;
use support::{Fickle, Running, Upstream, lead, settings};
use tokio::net::{TcpListener, TcpSocket};

const LONG: Duration = Duration::from_secs(30);

async fn led() -> (Upstream, Running) {
    let (store, upstream) = (Fickle::default(), Upstream::start().await);
    let guard = Running::start(&store, &upstream.url(), LONG).await;
    lead(&store, "a", Span::secs(600)).await;
    (upstream, guard)
}

#[tokio::test]
async fn headers_of_one_connection_stay_there_and_others_pass() {
    let (upstream, guard) = led().await;
    let headers = [
        ("baton-token", "1"),
        ("connection", "x-private"),
        ("x-private", "1"),
        ("te", "trailers"),
        ("keep-alive", "1"),
        ("proxy-authorization", "secret"),
        ("expect", "100-continue"),
        ("authorization", "kept"),
        ("x-forwarded-for", "10.0.0.1"),
        ("via", "1.1 before"),
    ];
    let answer = guard.ask("PUT", "/a/b?c=d%20e", &headers, "body").await;
    let seen = &upstream.seen()[0];
    assert_eq!((seen.path.as_str(), seen.body.as_deref()), ("/a/b?c=d%20e", Some(&b"body"[..])));
    for gone in ["connection", "x-private", "te", "keep-alive", "proxy-authorization", "expect"] {
        assert_eq!(seen.headers.get(gone), None, "{gone}");
    }
    let value = |name: &str| seen.headers.get(name).unwrap().to_str().unwrap().to_string();
    assert_eq!(value("authorization"), "kept");
    assert_eq!(value("baton-token"), "1");
    assert_eq!(value("content-length"), "4");
    assert_eq!(value("host"), upstream.address.to_string());
    assert_eq!(value("x-forwarded-host"), "guarded");
    assert_eq!(value("x-forwarded-proto"), "http");
    assert_eq!(value("x-forwarded-for"), "10.0.0.1, 127.0.0.1");
    assert_eq!(seen.headers.get_all("via").iter().count(), 2);
    // The upstream answers once it is asked to go on, and then whole.
    assert!(answer.body.ends_with(".."), "{answer:?}");
    let answer = guard.get("/").await;
    assert_eq!((answer.status, answer.header("x-kept")), (200, Some("1")));
    assert_eq!((answer.header("x-secret"), answer.header("baton-guard")), (None, None));
    assert!(answer.header("via").unwrap().starts_with("1.1 baton-"));
}

#[tokio::test]
async fn a_base_path_is_put_before_every_path() {
    let (store, upstream) = (Fickle::default(), Upstream::start().await);
    let url = format!("{}/base/", upstream.url());
    let guard = Running::start(&store, &url, LONG).await;
    assert_eq!(guard.get("/a?b").await.status, 200);
    assert_eq!(
        guard.raw("GET http://elsewhere/c HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.status,
        200
    );
    let paths: Vec<String> = upstream.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/base/a?b", "/base/c"]);
}

#[tokio::test]
async fn one_request_is_never_taken_for_two() {
    let (upstream, guard) = led().await;
    let hidden = "PUT /hidden HTTP/1.1\r\nhost: g\r\nbaton-token: 1\r\ncontent-length: 0\r\n\r\n";
    for lengths in [
        format!("content-length: {}\r\ntransfer-encoding: chunked", hidden.len() + 5),
        format!("transfer-encoding: chunked\r\ncontent-length: {}", hidden.len() + 5),
        "content-length: 5\r\ncontent-length: 6".to_string(),
        "transfer-encoding: identity, chunked, identity".to_string(),
        "transfer-encoding: xchunked".to_string(),
    ] {
        let head = "connection: close\r\nbaton-token: 1\r\nhost: g";
        guard.raw(&format!("POST /outer HTTP/1.1\r\n{head}\r\n{lengths}\r\n\r\n0\r\n\r\n{hidden}")).await;
    }
    assert!(upstream.seen().iter().all(|seen| seen.path == "/outer"), "{:?}", upstream.seen());
    let folded = "GET / HTTP/1.1\r\nhost: g\r\nx: a\r\n b\r\nconnection: close\r\n\r\n";
    assert_eq!(guard.raw(folded).await.status, 400);
    assert_eq!(guard.raw("nonsense\r\n\r\n").await.status, 400);
}

#[tokio::test]
async fn what_cannot_be_guarded_is_refused() {
    let (upstream, guard) = led().await;
    guard.ask("TRACE", "/", &[("baton-token", "1")], "").await.expect(405, "invalid");
    guard.raw("CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\nconnection: close\r\n\r\n").await.expect(405, "invalid");
    guard.raw("OPTIONS * HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\r\n").await.expect(400, "invalid");
    let upgrade = [("upgrade", "websocket"), ("baton-token", "1")];
    guard.ask("GET", "/", &upgrade, "").await.expect(501, "invalid");
    guard.ask("GET", "/", &[("x-http-method-override", "PUT")], "").await.expect(428, "no-token");
    guard.ask("PUT", "/", &[("baton-token", "1"), ("baton-token", "1")], "").await.expect(400, "invalid");
    assert!(upstream.seen().is_empty(), "{:?}", upstream.seen());
    let many: Vec<(String, String)> = (0..200).map(|n| (format!("x-{n}"), "1".to_string())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(guard.ask("GET", "/", &many, "").await.status, 431);
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_said_to_be() {
    let store = Fickle::default();
    // Nobody listens there, and nobody else gets it.
    let taken = TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let free = taken.local_addr().unwrap();
    let guard = Running::start(&store, &format!("http://{free}"), LONG).await;
    lead(&store, "a", Span::secs(600)).await;
    guard.get("/").await.expect(502, "upstream");
    guard.put("/", 1).await.expect(502, "upstream");
}

#[tokio::test]
async fn a_guard_in_front_of_itself_is_found_out() {
    let store = Fickle::default();
    let listener = baton_guard::Guard::listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let url = format!("http://{address}");
    let guard =
        baton_guard::Guard::start(listener, support::coordinator(&store), settings(&url)).await.unwrap();
    let serving = tokio::spawn(guard.serve(std::future::pending()));
    let other = Running::start(&store, &url, LONG).await;
    let found_out = other.get("/").await;
    assert_eq!((found_out.status, &found_out.problem()["code"]), (508, &"loop".into()));
    serving.abort();
}

#[tokio::test]
async fn bodies_are_streamed_both_ways() {
    let (upstream, guard) = led().await;
    let large = "x".repeat(4 << 20);
    assert_eq!(guard.ask("POST", "/", &[("baton-token", "1")], &large).await.status, 200);
    assert_eq!(upstream.seen()[0].body.as_ref().unwrap().len(), large.len());
    assert_eq!(guard.get("/large").await.body.len(), support::LARGE);
    let chunked = "POST /chunked HTTP/1.1\r\nhost: g\r\nbaton-token: 1\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    assert_eq!(guard.raw(&format!("{chunked}3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")).await.status, 200);
    assert_eq!(upstream.seen()[2].body.as_deref(), Some(&b"abcde"[..]));
}

#[tokio::test]
async fn the_body_of_a_read_passes_or_is_refused_but_is_not_lost() {
    let (upstream, guard) = led().await;
    assert_eq!(guard.ask("GET", "/search", &[], "query").await.status, 200);
    assert_eq!(upstream.seen()[0].body.as_deref(), Some(&b"query"[..]));
    let chunked = "transfer-encoding: chunked\r\nhost: g\r\nconnection: close\r\n\r\n5\r\nquery\r\n0\r\n\r\n";
    guard.raw(&format!("GET /search HTTP/1.1\r\n{chunked}")).await.expect(411, "invalid");
    assert_eq!(guard.raw(&format!("OPTIONS /search HTTP/1.1\r\n{chunked}")).await.status, 200);
    assert_eq!(upstream.seen()[1].body.as_deref(), Some(&b"query"[..]));
    assert_eq!(upstream.seen().len(), 2);
}

#[tokio::test]
async fn an_upstream_with_a_certificate_is_believed_if_its_authority_is() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let upstream = Upstream::start().await;
    let serving = upstream.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, serving) = (acceptor.clone(), serving.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serving.serve(stream).await;
                }
            });
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let pem = folder.path().join("ca.pem");
    std::fs::write(&pem, made.cert.pem()).unwrap();
    let store = Fickle::default();
    let url = format!("https://localhost:{port}");
    let trusting = Settings { authority: Some(pem), ..settings(&url) };
    assert_eq!(Running::with(&store, trusting).await.get("/tls").await.status, 200);
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
    let pem = folder.path().join("other.pem");
    std::fs::write(&pem, other.cert.pem()).unwrap();
    let doubting = Settings { authority: Some(pem), ..settings(&url) };
    Running::with(&store, doubting).await.get("/doubted").await.expect(502, "upstream");
    assert!(upstream.seen().iter().all(|seen| seen.path == "/tls"));
}
