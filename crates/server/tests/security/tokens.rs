//! Tokens that are none, or none any more, and orders that were signed once.

use std::time::Duration;

use baton::NewToken;
use baton_election::TokenId;
use baton_election::time::Span;
use baton_election::tokens::{Proof, Role, TokenChange, TokenSecret};
use baton_store::boot;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{HANG, get, post, request};
use super::setting::{Setting, acquire, credential, token};

#[tokio::test]
async fn forged_and_unknown_tokens_open_nothing_and_are_not_repeated() {
    let setting = Setting::guarded().await;
    let (real, entry) = setting.create(&token(Role::Operator)).await;
    let forged = TokenSecret::new(entry.id, [3; 32]);
    let unknown = TokenSecret::new(TokenId([3; 6]), [3; 32]);
    let cut = &real[..real.len() - 1];
    for (text, why) in [(forged.reveal(), "not known"), (unknown.reveal(), "not known"), (cut, "mistyped")] {
        let refused = get(setting.address, "/v1/elections", Some(text)).await;
        assert_eq!((refused.status, refused.code().as_str()), (401, "unauthorized"), "{refused:?}");
        assert!(refused.head.contains("www-authenticate: bearer"), "{refused:?}");
        assert!(refused.body.contains(why), "{refused:?}");
        assert!(!refused.body.contains("0303") && !refused.body.contains(text), "{refused:?}");
    }
    assert_eq!(get(setting.address, "/v1/elections", None).await.status, 401);
    for open in ["/healthz", "/readyz", "/openapi.json"] {
        assert_eq!(get(setting.address, open, None).await.status, 200, "{open}");
    }
}

#[tokio::test]
async fn an_expired_token_opens_nothing_and_ends_its_streams() {
    let setting = Setting::guarded().await;
    let new = NewToken { expires: Some(Span::secs(8)), ..token(Role::Agent) };
    let (text, _) = setting.create(&new).await;
    let mut stream = TcpStream::connect(setting.address).await.unwrap();
    let watch = request("GET", "/v1/elections/e/watch", Some(&text), None);
    stream.write_all(watch.as_bytes()).await.unwrap();
    let all = tokio::time::timeout(HANG, read_to_end(&mut stream)).await.unwrap();
    assert!(all.starts_with("HTTP/1.1 200") && all.contains("event: state"), "{all}");
    let refused = get(setting.address, "/v1/elections", Some(&text)).await;
    assert_eq!(refused.status, 401);
    assert!(refused.body.contains("expired"), "{refused:?}");
}

pub(crate) async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut more = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut more).await {
        all.extend_from_slice(&more[..count]);
        // The last chunk: the connection may stay, the stream has ended.
        if all.ends_with(b"0\r\n\r\n") {
            break;
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test]
async fn a_revoked_token_is_let_go_of_at_once_also_where_it_watches_and_waits() {
    let setting = Setting::guarded().await;
    let (text, entry) = setting.create(&token(Role::Agent)).await;
    let other = setting.token(Role::Agent).await;
    let at = setting.address;
    assert_eq!(post(at, "/v1/elections/e/acquire", Some(&other), &acquire("bob", 2)).await.status, 200);
    let mut watching = TcpStream::connect(at).await.unwrap();
    watching.write_all(request("GET", "/v1/elections/e/watch", Some(&text), None).as_bytes()).await.unwrap();
    let mut first = [0; 4096];
    let count = tokio::time::timeout(HANG, watching.read(&mut first)).await.unwrap().unwrap();
    assert!(first[..count].starts_with(b"HTTP/1.1 200"));
    let waiting = tokio::spawn({
        let text = text.clone();
        async move { post(at, "/v1/elections/e/acquire?wait_ms=60000", Some(&text), &acquire("alice", 1)).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    setting.store.tokens().revoke(&setting.operator, entry.id).await.unwrap();
    tokio::time::timeout(HANG, read_to_end(&mut watching)).await.unwrap();
    let refused = tokio::time::timeout(HANG, waiting).await.unwrap().unwrap();
    assert_eq!(refused.status, 401, "{refused:?}");
    assert_eq!(get(at, "/v1/elections", Some(&text)).await.status, 401);
    assert_eq!(get(at, "/v1/elections", Some(&other)).await.status, 200, "another is not concerned");
}

#[tokio::test]
async fn an_order_that_was_signed_once_is_carried_out_once() {
    let setting = Setting::guarded().await;
    let operator = setting.token(Role::Operator).await;
    let (at, path) = (setting.address, "/v1/tokens");
    let (info, tokens) = (setting.store.info().await.unwrap(), setting.store.tokens().list().await.unwrap());
    let secret = TokenSecret::new(TokenId([5; 6]), [5; 32]);
    let mut entry = tokens.tokens[0].clone();
    (entry.id, entry.proof) = (TokenId([5; 6]), Proof::Secret { hash: Some(secret.hash()) });
    let order = setting.operator.sign_tokens(
        &info,
        &tokens,
        TokenChange::Create { token: entry.clone() },
        boot::wall(),
    );
    let create = json!(order);
    assert_eq!(post(at, path, Some(&operator), &create).await.status, 200);
    assert_eq!(get(at, "/v1/elections", Some(secret.reveal())).await.status, 200, "it opens at once");
    assert_eq!(
        post(at, path, Some(&operator), &create).await.status,
        200,
        "a lost answer is asked for again"
    );
    let count = setting.store.tokens().list().await.unwrap().tokens.len();
    assert_eq!(count, tokens.tokens.len() + 1);
    setting.store.tokens().revoke(&setting.operator, entry.id).await.unwrap();
    let replayed = post(at, path, Some(&operator), &create).await;
    assert_eq!((replayed.status, replayed.code().as_str()), (422, "invalid"), "{replayed:?}");
    assert_eq!(get(at, "/v1/elections", Some(secret.reveal())).await.status, 401);
    // An order that nobody signed.
    let mut forged = order;
    forged.order.number = setting.store.tokens().list().await.unwrap().orders + 1;
    let refused = post(at, path, Some(&operator), &json!(forged)).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "wrong-key"), "{refused:?}");
}

#[tokio::test]
async fn hashes_and_secrets_are_shown_nowhere() {
    let setting = Setting::guarded().await;
    let (text, _) = setting.create(&token(Role::Operator)).await;
    let secret = text.rsplit_once('_').unwrap().1.to_string();
    let hash = TokenSecret::parse(&text).unwrap().hash().to_string();
    for path in [
        "/v1/tokens",
        "/v1/tokens/audit",
        "/v1/audit",
        "/v1/audit/0",
        "/v1/store",
        "/v1/elections",
        "/v1/elections/none",
        "/v1/nothing",
    ] {
        let answer = get(setting.address, path, Some(&text)).await;
        assert!(!answer.body.contains(&secret) && !answer.body.contains(&hash), "{path}: {answer:?}");
    }
    let listed = get(setting.address, "/v1/tokens", Some(&text)).await.json();
    assert_eq!(listed["record"]["tokens"].as_array().unwrap().len(), 2, "{listed}");
    assert!(!listed.to_string().contains("hash"), "{listed}");
}

#[tokio::test]
async fn a_region_is_shown_only_by_who_may_speak_of_it() {
    let setting = Setting::guarded().await;
    let wide = setting.token(Role::Agent).await;
    let narrow = NewToken { elections: vec!["fleet".parse().unwrap()], ..token(Role::Agent) };
    let (narrow, _) = setting.create(&narrow).await;
    let at = setting.address;
    let eu = post(at, "/v1/elections/fleet%2Feu/acquire", Some(&wide), &acquire("alice", 1)).await;
    assert_eq!(eu.status, 200, "{eu:?}");
    let mut bid = acquire("alice", 2);
    bid["region"] = json!({ "election": "fleet/eu", "token": 1, "credential": credential(1) });
    let mut guess = acquire("alice", 3);
    guess["region"] = json!({ "election": "fleet/eu", "token": 1, "credential": credential(9) });
    let path = "/v1/elections/fleet/acquire";
    for body in [&bid, &guess] {
        let refused = post(at, path, Some(&narrow), body).await;
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(!refused.body.contains("alice"), "it would tell who leads the region: {refused:?}");
    }
    let refused = post(at, path, Some(&wide), &guess).await;
    assert_eq!((refused.status, refused.code().as_str()), (409, "not-eligible"), "{refused:?}");
    assert_eq!(post(at, path, Some(&wide), &bid).await.status, 200);
    let mut renew = json!({ "token": 1, "credential": credential(2) });
    renew["region"] = bid["region"].clone();
    let path = "/v1/elections/fleet/renew";
    assert_eq!(post(at, path, Some(&narrow), &renew).await.status, 403);
    assert_eq!(post(at, path, Some(&wide), &renew).await.status, 200);
    let rows = get(at, "/v1/overview", Some(&wide)).await.json();
    let fleet = rows.as_array().unwrap().iter().find(|row| row["election"] == "fleet").unwrap().clone();
    assert_eq!(fleet["leader"]["region"]["election"], "fleet/eu");
}
