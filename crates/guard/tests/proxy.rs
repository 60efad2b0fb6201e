//! What of a request reaches the upstream, and what of the answer the client.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use crate::support;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Fickle, RunningGuard, Upstream, lead, settings};
use baton::election::Span;
use baton_guard::Settings;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

const LONG: Duration = Duration::from_secs(30);

async fn led() -> (Upstream, RunningGuard) {
    let (store, upstream) = (Fickle::default(), Upstream::start().await);
    let guard = RunningGuard::start(&store, &upstream.url(), LONG).await;
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
async fn no_header_for_the_service_is_taken_out_by_the_client() {
    let (upstream, guard) = led().await;
    let headers = [
        ("baton-token", "1"),
        ("connection", "Baton-Token, authorization, Cookie, host, x-forwarded-for, via, x-private"),
        ("authorization", "Bearer me"),
        ("cookie", "a=b"),
        ("x-forwarded-for", "10.0.0.1"),
        ("via", "1.1 before"),
        ("x-private", "1"),
    ];
    assert_eq!(guard.ask("PUT", "/", &headers, "body").await.status, 200);
    let seen = &upstream.seen()[0].headers;
    let value = |name: &str| seen.get(name).map(|value| value.to_str().unwrap().to_string());
    assert_eq!(value("baton-token").as_deref(), Some("1"));
    assert_eq!(value("authorization").as_deref(), Some("Bearer me"));
    assert_eq!(value("cookie").as_deref(), Some("a=b"));
    assert_eq!(value("host"), Some(upstream.address.to_string()));
    assert_eq!(value("x-forwarded-for").as_deref(), Some("10.0.0.1, 127.0.0.1"));
    assert_eq!(seen.get_all("via").iter().count(), 2);
    assert_eq!(value("x-private"), None);
}

#[tokio::test]
async fn a_base_path_is_put_before_every_path() {
    let (store, upstream) = (Fickle::default(), Upstream::start().await);
    let url = format!("{}/base/", upstream.url());
    let guard = RunningGuard::start(&store, &url, LONG).await;
    assert_eq!(guard.get("/a?b").await.status, 200);
    assert_eq!(
        guard.raw("GET http://elsewhere/c HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.status,
        200
    );
    let paths: Vec<String> = upstream.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/base/a?b", "/base/c"]);
    for path in ["/../admin", "/%2e%2e/admin", "/a/..%2F..%2fadmin", "/..;/admin"] {
        guard.get(path).await.expect(400, "invalid");
    }
    assert_eq!(upstream.seen().len(), 2, "{:?}", upstream.seen());
    // Without a base path there is nothing to leave.
    let plain = RunningGuard::start(&store, &upstream.url(), LONG).await;
    assert_eq!(plain.get("/a/../b").await.status, 200);
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
    // Of two lengths the chunks count, and the connection ends: its client may mean the other one. The HTTP library sees to both (RFC 9112,
    // 6.3) and takes the other length out before the guard could see it.
    let before = upstream.seen().len();
    let lengths = "baton-token: 1\r\nhost: g\r\ncontent-length: 4\r\ntransfer-encoding: chunked";
    let first = format!("PUT /two HTTP/1.1\r\n{lengths}\r\n\r\n2\r\nab\r\n0\r\n\r\n");
    let answer = guard.raw(&format!("{first}{hidden}")).await;
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")), "{answer:?}");
    assert!(!answer.body.contains("HTTP/1.1"), "one answer: {answer:?}");
    let seen = upstream.seen().split_off(before);
    assert_eq!((seen.len(), seen[0].body.as_deref()), (1, Some(&b"ab"[..])), "{seen:?}");
    let folded = "GET / HTTP/1.1\r\nhost: g\r\nx: a\r\n b\r\nconnection: close\r\n\r\n";
    assert_eq!(guard.raw(folded).await.status, 400);
    assert_eq!(guard.raw("nonsense\r\n\r\n").await.status, 400);
}

/// All addresses of 127.0.0.0/8 are this machine's: each is another client.
async fn connect_from(client: [u8; 4], guard: &RunningGuard) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((client, 0).into()).unwrap();
    socket.connect(guard.address).await.unwrap()
}

async fn read_all(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let all = stream.read_to_string(&mut text);
    tokio::time::timeout(support::HANG, all).await.expect("it is left waiting").unwrap();
    text
}

#[tokio::test]
async fn one_address_does_not_have_all_connections() {
    let (store, upstream) = (Fickle::default(), Upstream::start().await);
    let guard =
        RunningGuard::with(&store, Settings { peer_connections: 2, ..settings(&upstream.url()) }).await;
    let request = b"GET / HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\r\n";
    let (greedy, other) = ([127, 0, 0, 2], [127, 0, 0, 3]);
    let mut idle = Vec::new();
    for _ in 0..2 {
        let mut stream = connect_from(greedy, &guard).await;
        // It is being served once it was answered.
        stream.write_all(b"GET / HTTP/1.1\r\nhost: g\r\n\r\n").await.unwrap();
        assert_ne!(stream.read(&mut [0; 64]).await.unwrap(), 0);
        idle.push(stream);
    }
    let mut third = connect_from(greedy, &guard).await;
    third.write_all(request).await.unwrap();
    let told = read_all(&mut third).await;
    assert!(told.starts_with("HTTP/1.1 429 ") && told.contains("\"too-many\""), "{told}");
    let mut another = connect_from(other, &guard).await;
    another.write_all(request).await.unwrap();
    let served = read_all(&mut another).await;
    assert!(served.starts_with("HTTP/1.1 200 "), "{served}");
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
    let guard = RunningGuard::start(&store, &format!("http://{free}"), LONG).await;
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
    let other = RunningGuard::start(&store, &url, LONG).await;
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
async fn a_read_with_a_body_needs_a_token_and_its_body_is_not_lost() {
    let (upstream, guard) = led().await;
    let chunked = "transfer-encoding: chunked\r\nhost: g\r\nconnection: close\r\n\r\n5\r\nquery\r\n0\r\n\r\n";
    for method in ["GET", "HEAD", "OPTIONS"] {
        let refused = guard.ask(method, "/search", &[], "query").await;
        assert_eq!((refused.status, refused.header("baton-guard")), (428, Some("no-token")), "{method}");
    }
    guard.raw(&format!("OPTIONS /search HTTP/1.1\r\n{chunked}")).await.expect(428, "no-token");
    guard.raw(&format!("GET /search HTTP/1.1\r\n{chunked}")).await.expect(411, "invalid");
    assert!(upstream.seen().is_empty(), "{:?}", upstream.seen());
    let token = [("baton-token", "1")];
    assert_eq!(guard.ask("GET", "/search", &token, "query").await.status, 200);
    assert_eq!(
        guard.raw(&format!("OPTIONS /search HTTP/1.1\r\nbaton-token: 1\r\n{chunked}")).await.status,
        200
    );
    for seen in upstream.seen() {
        assert_eq!(seen.body.as_deref(), Some(&b"query"[..]), "{seen:?}");
    }
    assert_eq!(upstream.seen().len(), 2);
}

/// A keep-alive service that does not read the body of a request whose method needs none, as many do not.
async fn careless_upstream() -> (std::net::SocketAddr, Arc<Mutex<Vec<(usize, String)>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen: Arc<Mutex<Vec<(usize, String)>>> = Arc::default();
    let noted = Arc::clone(&seen);
    tokio::spawn(async move {
        for number in 1.. {
            let (stream, _) = listener.accept().await.unwrap();
            let noted = Arc::clone(&noted);
            tokio::spawn(async move { converse_carelessly(stream, number, &noted).await });
        }
    });
    (address, seen)
}

async fn converse_carelessly(stream: TcpStream, number: usize, noted: &Mutex<Vec<(usize, String)>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut line, mut length, mut close) = (String::new(), 0, false);
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        loop {
            let mut header = String::new();
            if stream.read_line(&mut header).await.unwrap_or(0) == 0 || header == "\r\n" {
                break;
            }
            let (name, value) = header.trim().split_once(':').unwrap();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap(),
                "connection" => close = value.trim().eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
        noted.lock().unwrap().push((number, line.trim().to_string()));
        if !line.starts_with("GET") && !line.starts_with("OPTIONS") {
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.unwrap();
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        if close {
            return;
        }
    }
}

#[tokio::test]
async fn no_write_is_hidden_in_the_body_of_a_read() {
    let (address, seen) = careless_upstream().await;
    let store = Fickle::default();
    let guard = RunningGuard::start(&store, &format!("http://{address}"), LONG).await;
    lead(&store, "a", Span::secs(600)).await;
    let hidden = "POST /smuggled HTTP/1.1\r\nhost: g\r\ncontent-length: 4\r\n\r\nEVIL";
    for method in ["GET", "OPTIONS"] {
        guard.ask(method, "/read", &[], hidden).await.expect(428, "no-token");
    }
    // Whatever the service had left unread would be taken for the beginning of this.
    assert_eq!(guard.get("/after").await.status, 200);
    assert_eq!(*seen.lock().unwrap(), [(1, "GET /after HTTP/1.1".to_string())]);
    // With a token it is passed on, over a connection that nobody else's requests follow on.
    assert_eq!(guard.ask("GET", "/search", &[("baton-token", "1")], hidden).await.status, 200);
    assert_eq!(guard.get("/last").await.status, 200);
    let seen = seen.lock().unwrap().clone();
    assert!(seen.iter().all(|(_, line)| !line.contains("smuggled")), "{seen:?}");
    let connection = |path: &str| seen.iter().find(|(_, line)| line.contains(path)).unwrap().0;
    assert_ne!(connection("/search"), connection("/last"), "{seen:?}");
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
    assert_eq!(RunningGuard::with(&store, trusting).await.get("/tls").await.status, 200);
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
    let pem = folder.path().join("other.pem");
    std::fs::write(&pem, other.cert.pem()).unwrap();
    let doubting = Settings { authority: Some(pem), ..settings(&url) };
    RunningGuard::with(&store, doubting).await.get("/doubted").await.expect(502, "upstream");
    assert!(upstream.seen().iter().all(|seen| seen.path == "/tls"));
}
