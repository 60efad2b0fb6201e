//! What is noted of requests, and how much one may look at.

use std::sync::Arc;
use std::time::Duration;

use baton_election::tokens::Role;
use baton_server::{AccessLog, Limits, Options};
use serde_json::{Value, json};

use super::client::{HANG, get, post, request};
use super::setting::{Setting, acquire, credential};

fn guarded(limits: Limits) -> Options {
    Options { require_tokens: true, limits, ..Options::default() }
}

/// The lines of a log once the last of them tells of this answer: they are written aside.
pub(crate) async fn lines(path: &std::path::Path, last: u16) -> Vec<Value> {
    let deadline = tokio::time::Instant::now() + HANG;
    loop {
        let text = std::fs::read_to_string(path).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines: Vec<Value> = whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        if lines.last().is_some_and(|line| line["status"] == last) {
            return lines;
        }
        assert!(tokio::time::Instant::now() < deadline, "{text}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn each_request_is_noted_without_what_is_secret() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let access_log = Some(Arc::new(AccessLog::to_file(&path).unwrap()));
    let setting = Setting::new(Options { access_log, ..guarded(Limits::default()) }).await;
    let (agent, operator) = (setting.token(Role::Agent).await, setting.token(Role::Operator).await);
    let at = setting.address;
    assert_eq!(post(at, "/v1/elections/e/acquire", Some(&agent), &acquire("alice", 1)).await.status, 200);
    let renew = json!({ "token": 1, "credential": credential(1) });
    assert_eq!(post(at, "/v1/elections/e/renew", Some(&agent), &renew).await.status, 200);
    assert_eq!(get(at, "/v1/tokens?", Some(&agent)).await.status, 403);
    assert_eq!(get(at, "/v1/elections", Some("no-token")).await.status, 401);
    assert_eq!(get(at, "/nothing", None).await.status, 404);
    let all = lines(&path, 404).await;
    let told = &all[all.len() - 5..];
    let shown: Vec<Value> = told
        .iter()
        .map(|line| json!([line["route"], line["election"], line["agent"], line["role"], line["status"]]))
        .collect();
    assert_eq!(
        json!(shown),
        json!([
            ["acquire", "e", "alice", "agent", 200],
            ["renew", "e", null, "agent", 200],
            ["tokens", null, null, "agent", 403],
            ["elections", null, null, null, 401],
            [null, null, null, null, 404],
        ])
    );
    let id = told[0]["token"].as_str().unwrap().to_string();
    assert!(
        told.iter()
            .all(|line| line["address"] == "127.0.0.1" && line["bytes"].is_u64() && line["took_us"].is_u64())
    );
    let text = std::fs::read_to_string(&path).unwrap();
    let key = renew["credential"]["key"].as_str().unwrap();
    assert!(!text.contains(&agent) && !text.contains(key) && !text.contains("no-token"), "{text}");

    let used = get(at, "/v1/tokens", Some(&operator)).await.json()["uses"][&id].clone();
    assert_eq!((&used["last_address"], &used["refused"]), (&json!("127.0.0.1"), &json!(1)), "{used}");
    assert!(used["last_used"].is_string(), "{used}");
    let metrics = get(at, "/metrics", Some(&operator)).await.body;
    assert!(metrics.contains(&format!("baton_requests_refused_total{{token=\"{id}\"}} 1")), "{metrics}");
}

#[tokio::test]
async fn who_looks_at_too_much_waits_and_keeps_its_leases() {
    let setting = Setting::new(guarded(Limits { reads: 20, ..Limits::default() })).await;
    let (greedy, modest) = (setting.token(Role::Agent).await, setting.token(Role::Agent).await);
    let at = setting.address;
    assert_eq!(post(at, "/v1/elections/e/acquire", Some(&greedy), &acquire("a", 1)).await.status, 200);
    let mut looked = Vec::new();
    for _ in 0..200 {
        looked.push(get(at, "/v1/elections", Some(&greedy)).await.status);
    }
    assert!(looked.contains(&200) && looked.contains(&429), "{looked:?}");
    let renew = json!({ "token": 1, "credential": credential(1) });
    assert_eq!(post(at, "/v1/elections/e/renew", Some(&greedy), &renew).await.status, 200);
    let batch = json!([{ "election": "e", "renew": renew }]);
    assert_eq!(post(at, "/v1/batch", Some(&greedy), &batch).await.json()[0]["answer"]["outcome"], "renewed");
    assert_eq!(get(at, "/v1/elections", Some(&modest)).await.status, 200);
    // Checks in a batch are looks, too.
    let checks = Value::Array(vec![json!({ "election": "e", "check": { "token": 1 } }); 1_000]);
    let answers = post(at, "/v1/batch", Some(&modest), &checks).await.json();
    let refused = answers.as_array().unwrap().iter().filter(|answer| answer["code"] == "too-many").count();
    assert!((1..1_000).contains(&refused), "{refused}");
}

#[tokio::test]
async fn the_streams_of_one_token_watch_so_many_leases() {
    let setting = Setting::new(guarded(Limits { watched: 5, ..Limits::default() })).await;
    let (one, other) = (setting.token(Role::Observer).await, setting.token(Role::Observer).await);
    let at = setting.address;
    let open = async |token: &str| {
        use tokio::io::AsyncWriteExt;
        let mut stream = tokio::net::TcpStream::connect(at).await.unwrap();
        let text = request("GET", "/v1/events?leases=a,b,c", Some(token), None);
        stream.write_all(text.as_bytes()).await.unwrap();
        let answer = tokio::time::timeout(HANG, super::client::receive(&mut stream)).await.unwrap();
        (stream, answer.status)
    };
    let (first, status) = open(&one).await;
    assert_eq!(status, 200);
    assert_eq!(open(&one).await.1, 429, "six are more than five");
    assert_eq!(open(&other).await.1, 200);
    // A stream that ended gives its places back.
    drop(first);
    let deadline = tokio::time::Instant::now() + HANG;
    while open(&one).await.1 != 200 {
        assert!(tokio::time::Instant::now() < deadline, "the places are not given back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
