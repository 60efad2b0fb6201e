//! A server's Unix socket: who is let in, what is noted, and what ends.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use baton::Coordinator;
use baton_election::tokens::Role;
use baton_election::{AgentName, ElectionName};
use baton_server::{AccessLog, Limits, Options, Server, Socket};
use baton_store::MemoryStore;
use futures_util::StreamExt;
use rustix::process::geteuid;
use serde_json::json;
use tokio::sync::oneshot;

use super::client::{Answer, HANG, get, request, send_locally};
use super::setting::{Setting, acquire, credential};
use super::uses::lines;

/// A user that is neither root nor whoever runs the tests.
const OTHER: u32 = 61_234;

async fn ask(socket: &Path, path: &str, token: Option<&str>) -> Answer {
    send_locally(socket, &request("GET", path, token, None)).await
}

#[tokio::test]
async fn the_servers_own_user_needs_no_token_at_the_socket_and_one_at_the_address() {
    let setting = Setting::guarded().await;
    assert_eq!(get(setting.address, "/v1/elections", None).await.status, 401);
    assert_eq!(ask(&setting.socket, "/v1/elections", None).await.status, 200);
    let acquired = request("POST", "/v1/elections/e/acquire", None, Some(&acquire("alice", 1)));
    assert_eq!(send_locally(&setting.socket, &acquired).await.status, 200);
    // A token that is shown binds here too.
    let observer = setting.token(Role::Observer).await;
    let acquired = request("POST", "/v1/elections/f/acquire", Some(&observer), Some(&acquire("bob", 2)));
    assert_eq!(send_locally(&setting.socket, &acquired).await.status, 403);
    assert_eq!(ask(&setting.socket, "/v1/elections", Some("baton_nothing")).await.status, 401);
    // A page of another site gets no further than over TCP.
    let foreign = "GET /v1/elections HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    assert_eq!(send_locally(&setting.socket, foreign).await.code(), "wrong-host");
}

#[tokio::test]
async fn the_log_and_the_last_use_of_a_token_name_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let access_log = Some(Arc::new(AccessLog::to_file(&path).unwrap()));
    let setting = Setting::new(Options { require_tokens: true, access_log, ..Options::default() }).await;
    let operator = setting.token(Role::Operator).await;
    let own = geteuid().as_raw();
    assert_eq!(ask(&setting.socket, "/v1/elections", None).await.status, 200);
    assert_eq!(ask(&setting.socket, "/v1/tokens", None).await.status, 403);
    let tokens = ask(&setting.socket, "/v1/tokens", Some(&operator)).await;
    assert_eq!(tokens.status, 200, "{tokens:?}");
    let tokens = ask(&setting.socket, "/v1/tokens", Some(&operator)).await;
    assert!(tokens.body.contains(&format!("\"uid {own}\"")), "{tokens:?}");
    assert_eq!(ask(&setting.socket, "/nothing", None).await.status, 404);
    let all = lines(&path, 404).await;
    let shown: Vec<_> = all[all.len() - 5..]
        .iter()
        .map(|line| json!([line["address"], line["uid"], line["role"], line["status"]]))
        .collect();
    assert_eq!(
        json!(shown),
        json!([
            [null, own, "agent", 200],
            [null, own, "agent", 403],
            [null, own, "operator", 200],
            [null, own, "operator", 200],
            [null, own, null, 404],
        ])
    );
    let over_tcp = all.iter().find(|line| line["address"] == "127.0.0.1").unwrap();
    assert!(over_tcp["uid"].is_null(), "{over_tcp}");
}

#[tokio::test]
async fn a_client_leads_and_watches_by_the_socket_until_the_server_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let socket = Socket::bind(&path).await.unwrap();
    let server = Server::start(socket, Arc::new(MemoryStore::default()), Options::default()).await.unwrap();
    assert_eq!(server.listening().address(), None);
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(async { drop(stopped.await) }));
    let url = format!("unix:{}", path.display());
    let coordinator = Coordinator::connect(&url).await.unwrap();
    let election = ElectionName::new("e").unwrap();
    let mut changes =
        Box::pin(coordinator.backend().watch(&baton_store::Key::Election(election.clone())).await.unwrap());
    let bid = baton::Bid::new(AgentName::new("alice").unwrap());
    coordinator.acquire(&election, &bid, credential(1), None, None).await.unwrap();
    tokio::time::timeout(HANG, changes.next()).await.unwrap().unwrap();
    let view = coordinator.view(&election).await.unwrap();
    assert_eq!(view.document.unwrap().leader.unwrap().agent.as_str(), "alice");
    stop.send(()).unwrap();
    tokio::time::timeout(HANG, serving).await.unwrap().unwrap();
    assert!(!path.exists(), "the file of the socket is removed");
}

/// What the server answers when another user of this machine sends this; none where this user cannot become one.
async fn as_another_user(socket: &Path, text: String) -> Option<String> {
    let (socket, other) = (socket.to_path_buf(), rustix::process::Uid::from_raw(OTHER));
    let asking = move || {
        // Of this thread alone, which ends with this.
        rustix::thread::set_thread_res_uid(other, other, other).ok()?;
        let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        Some(all)
    };
    tokio::task::spawn_blocking(|| std::thread::spawn(asking).join().unwrap()).await.unwrap()
}

#[tokio::test]
async fn another_user_is_told_that_the_socket_is_not_for_it_whatever_it_asks_and_shows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let access_log = Some(Arc::new(AccessLog::to_file(&path).unwrap()));
    let limits = Limits { unauthenticated: 5, ..Limits::default() };
    let setting = Setting::new(Options { access_log, limits, ..Options::default() }).await;
    // Somebody has opened what is closed.
    for (path, mode) in [(setting.socket.parent().unwrap(), 0o755), (&*setting.socket, 0o666)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let operator = setting.token(Role::Operator).await;
    let look = |path: &str, token| request("GET", path, token, None);
    for text in [look("/v1/elections", Some(&operator)), look("/healthz", None), look("/", None)] {
        // The second is not even read: the connection ends with the first answer.
        let twice = format!("{text}{text}");
        let Some(all) = as_another_user(&setting.socket, twice).await else {
            assert!(!geteuid().is_root(), "root can become another user");
            return;
        };
        let sentence =
            format!("the user {OTHER} may not use this socket: it is for the server's own user and for root");
        assert!(all.starts_with("HTTP/1.1 403 ") && all.contains(&sentence), "{all}");
        assert_eq!(all.matches("HTTP/1.1 ").count(), 1, "{all}");
    }
    let all = lines(&path, 403).await;
    let last = all.last().unwrap();
    assert_eq!((&last["uid"], &last["route"], &last["token"]), (&OTHER.into(), &json!(null), &json!(null)));
    // It has a budget, which is not the one of the server's own user.
    let mut answers = Vec::new();
    for _ in 0..20 {
        answers.push(as_another_user(&setting.socket, look("/healthz", None)).await.unwrap());
    }
    assert!(answers.iter().any(|answer| answer.starts_with("HTTP/1.1 429 ")), "{answers:?}");
    assert_eq!(ask(&setting.socket, "/v1/elections", None).await.status, 200);
}
