//! One identity that wants too much, and the others.

use std::time::Duration;

use baton_election::tokens::Role;
use baton_server::{Limits, Options};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::client::{HANG, get, post, receive, request};
use super::setting::{Setting, acquire, credential};

fn options(limits: Limits) -> Options {
    Options { require_tokens: true, limits, ..Options::default() }
}

/// Ten thousand acquires, each of another election.
fn flood() -> Value {
    let entry = |number: usize| json!({ "election": format!("e-{number}"), "acquire": acquire("greedy", 1) });
    Value::Array((0..10_000).map(entry).collect())
}

fn count(answers: &Value, code: &str) -> usize {
    answers.as_array().unwrap().iter().filter(|answer| answer["code"] == code).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_acquires_of_one_leave_another_served() {
    let setting = Setting::new(options(Limits { commands: 500, ..Limits::default() })).await;
    let (greedy, modest) = (setting.token(Role::Agent).await, setting.token(Role::Agent).await);
    let at = setting.address;
    assert_eq!(
        post(at, "/v1/elections/mine/acquire", Some(&greedy), &acquire("greedy", 1)).await.status,
        200
    );
    let begun = std::time::Instant::now();
    let floods: Vec<_> = (0..2)
        .map(|_| {
            let greedy = greedy.clone();
            tokio::spawn(async move { post(at, "/v1/batch", Some(&greedy), &flood()).await })
        })
        .collect();
    // Meanwhile and afterwards.
    for number in 0..20 {
        let path = format!("/v1/elections/modest-{number}/acquire");
        let served = post(at, &path, Some(&modest), &acquire("modest", 2)).await;
        assert_eq!(served.status, 200, "{served:?}");
    }
    let mut refused = 0;
    for flood in floods {
        let answers = tokio::time::timeout(HANG, flood).await.unwrap().unwrap().json();
        refused += count(&answers, "too-many");
    }
    // A second's worth at once, and then as many as time goes by.
    let most = 500.0 * (1.0 + begun.elapsed().as_secs_f64()) + 1.0;
    let let_through = 20_000 - refused;
    assert!(let_through as f64 <= most, "{let_through} of 20000 in {:?}", begun.elapsed());
    // Its leases are not lost for it.
    let renew = json!({ "token": 1, "credential": credential(1) });
    assert_eq!(post(at, "/v1/elections/mine/renew", Some(&greedy), &renew).await.status, 200);
}

#[tokio::test]
async fn who_sent_too_many_is_told_when_to_come_again() {
    let setting = Setting::new(options(Limits { commands: 1, ..Limits::default() })).await;
    let (one, other) = (setting.token(Role::Agent).await, setting.token(Role::Agent).await);
    let at = setting.address;
    let mut answers = Vec::new();
    for number in 0..20 {
        let path = format!("/v1/elections/e-{number}/acquire");
        answers.push(post(at, &path, Some(&one), &acquire("a", 1)).await);
    }
    let refused = answers.iter().find(|answer| answer.status == 429).unwrap();
    assert_eq!(refused.code(), "too-many");
    assert!(refused.head.contains("retry-after: "), "{refused:?}");
    assert!(refused.json()["retry_in_ms"].as_u64().unwrap() <= 1_000, "{refused:?}");
    assert_eq!(get(at, "/v1/elections", Some(&one)).await.status, 200, "looking is not counted");
    assert_eq!(post(at, "/v1/elections/x/acquire", Some(&other), &acquire("a", 1)).await.status, 200);
}

#[tokio::test]
async fn without_tokens_it_is_the_agent_that_is_counted() {
    let limits = Limits { commands: 1, ..Limits::default() };
    let setting = Setting::new(Options { limits, ..Options::default() }).await;
    let at = setting.address;
    let mut statuses = Vec::new();
    for number in 0..20 {
        let path = format!("/v1/elections/e-{number}/acquire");
        statuses.push(post(at, &path, None, &acquire("greedy", 1)).await.status);
    }
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(post(at, "/v1/elections/x/acquire", None, &acquire("modest", 2)).await.status, 200);
}

#[tokio::test]
async fn who_has_not_the_key_of_a_lease_uses_up_nothing_of_its_holder() {
    let limits = Limits { commands: 3, ..Limits::default() };
    let setting = Setting::new(Options { limits, ..Options::default() }).await;
    let at = setting.address;
    assert_eq!(post(at, "/v1/elections/mine/acquire", None, &acquire("holder", 1)).await.status, 200);
    // Everybody sees by what a leader is known; its key nobody does.
    let guessed = json!({ "incarnation": credential(1).incarnation, "key": credential(2).key });
    let mut statuses = Vec::new();
    for _ in 0..30 {
        let release = json!({ "token": 1, "credential": guessed });
        statuses.push(post(at, "/v1/elections/mine/release", None, &release).await.status);
    }
    assert!(statuses.contains(&403) && statuses.contains(&429), "{statuses:?}");
    let release = json!({ "token": 1, "credential": credential(1) });
    assert_eq!(post(at, "/v1/elections/mine/release", None, &release).await.status, 200);
}

#[tokio::test]
async fn who_sent_too_many_keeps_its_hold() {
    let setting = Setting::new(options(Limits { commands: 3, ..Limits::default() })).await;
    let (one, at) = (setting.token(Role::Agent).await, setting.address);
    assert_eq!(post(at, "/v1/elections/e/acquire", Some(&one), &acquire("a", 1)).await.status, 200);
    let hold = credential(3);
    let admission = json!({ "token": 1, "election": "e", "agent": "a", "hold": { "credential": hold, "ttl_ms": 40_000 } });
    assert_eq!(post(at, "/v1/fences/db/admit", Some(&one), &admission).await.status, 200);
    let mut statuses = Vec::new();
    for number in 0..30 {
        let path = format!("/v1/elections/e-{number}/acquire");
        statuses.push(post(at, &path, Some(&one), &acquire("a", 1)).await.status);
    }
    assert!(statuses.contains(&429), "{statuses:?}");
    let kept =
        post(at, "/v1/fences/db/keep", Some(&one), &json!({ "election": "e", "credential": hold })).await;
    assert_eq!(kept.status, 200, "{kept:?}");
}

#[tokio::test]
async fn one_token_has_so_many_streams() {
    let setting = Setting::new(options(Limits { streams: 2, ..Limits::default() })).await;
    let (one, other) = (setting.token(Role::Observer).await, setting.token(Role::Observer).await);
    let open = async |token: &str| {
        let mut stream = TcpStream::connect(setting.address).await.unwrap();
        let watch = request("GET", "/v1/elections/e/watch", Some(token), None);
        stream.write_all(watch.as_bytes()).await.unwrap();
        let answer = tokio::time::timeout(HANG, receive(&mut stream)).await.unwrap();
        (stream, answer)
    };
    let (first, answer) = open(&one).await;
    assert_eq!(answer.status, 200);
    let (_second, _) = open(&one).await;
    let (_, refused) = open(&one).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "too-many"), "{refused:?}");
    assert_eq!(open(&other).await.1.status, 200);
    drop(first);
    let again = async {
        while open(&one).await.1.status == 429 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(HANG, again).await.expect("the place of one that has gone is free again");
}

#[tokio::test]
async fn batches_that_do_not_arrive_keep_no_others_waiting() {
    let setting = Setting::new(options(Limits::default())).await;
    let token = setting.token(Role::Agent).await;
    let head = format!(
        "POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n"
    );
    let mut idle = Vec::new();
    for _ in 0..16 {
        let mut stream = TcpStream::connect(setting.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        idle.push(stream);
    }
    // All of them are asked for their bodies, well before any is given up.
    let asked_for = async {
        for stream in &mut idle {
            assert_eq!(receive(stream).await.status, 100);
        }
    };
    tokio::time::timeout(Duration::from_secs(8), asked_for).await.expect("some wait for the others");
    let entries = json!([{ "election": "e", "acquire": acquire("a", 1) }]);
    let served = post(setting.address, "/v1/batch", Some(&token), &entries);
    assert_eq!(tokio::time::timeout(Duration::from_secs(8), served).await.unwrap().status, 200);
}

#[tokio::test]
async fn one_has_so_many_sessions_and_who_has_one_goes_on() {
    let setting = Setting::new(options(Limits { sessions: 2, ..Limits::default() })).await;
    let (one, other) = (setting.token(Role::Agent).await, setting.token(Role::Agent).await);
    let announce = async |token: &str, life: u8| {
        let announce = json!({ "agent": format!("a-{life}"), "credential": credential(life) });
        post(setting.address, "/v1/sessions", Some(token), &announce).await
    };
    assert_eq!(announce(&one, 1).await.status, 200);
    assert_eq!(announce(&one, 2).await.status, 200);
    let refused = announce(&one, 3).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "too-many"), "{refused:?}");
    assert_eq!(announce(&one, 2).await.status, 200, "who is known goes on");
    assert_eq!(announce(&other, 4).await.status, 200, "another is not concerned");
    let end = json!({ "credential": credential(1) });
    assert_eq!(post(setting.address, "/v1/sessions/end", Some(&one), &end).await.status, 200);
    assert_eq!(announce(&one, 3).await.status, 200, "the place of one that has ended is free again");
}

/// That an agent stands for election `e`.
fn candidate(agent: &str, life: u8) -> Value {
    let credential = credential(life);
    json!({ "election": "e", "agent": agent, "incarnation": credential.incarnation, "key_hash": credential.key.hash(),
            "priority": 0, "capabilities": [], "score": 0, "load": 0, "ttl_ms": 300_000, "beat": 0, "withdrawn": false,
            "enlisted": "2026-01-01T00:00:00Z" })
}

#[tokio::test]
async fn one_token_does_not_take_all_places_of_candidates() {
    let setting = Setting::new(options(Limits { commands: 0, ..Limits::default() })).await;
    let (greedy, modest) = (setting.token(Role::Agent).await, setting.token(Role::Agent).await);
    let stand = async |token: &str, agent: &str| {
        post(setting.address, "/v1/elections/e/candidates", Some(token), &candidate(agent, 1)).await
    };
    for number in 0..2_500 {
        let stood = stand(&greedy, &format!("a-{number}")).await;
        assert_eq!(stood.status, 200, "{number}: {stood:?}");
    }
    let refused = stand(&greedy, "one-more").await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "too-many"), "{refused:?}");
    assert!(refused.body.contains("this token has as many candidates as one may have"), "{refused:?}");
    assert_eq!(stand(&greedy, "a-7").await.status, 200, "a candidate that stands goes on");
    assert_eq!(stand(&modest, "modest").await.status, 200, "another token has places of its own");
}

/// What the sessions of an agent follow, as the server shows them.
async fn followed(setting: &Setting, token: &str, agent: &str) -> Vec<Value> {
    let shown = get(setting.address, "/v1/sessions", Some(token)).await.json();
    let own = shown.as_array().unwrap().iter().filter(|session| session["agent"] == agent);
    own.flat_map(|session| session["follows"].as_array().unwrap().clone()).collect()
}

#[tokio::test]
async fn next_to_nothing_is_kept_of_elections_that_do_not_exist() {
    let setting = Setting::new(options(Limits::default())).await;
    let (token, at) = (setting.token(Role::Agent).await, setting.address);
    let names: Vec<String> = (0..1_000).map(|number| format!("{number:0>3}-{}", "x".repeat(60))).collect();
    let announce = json!({ "agent": "a", "credential": credential(1), "follows": names });
    let beat = post(at, "/v1/sessions", Some(&token), &announce).await.json();
    assert_eq!(
        beat["unfollowed"].as_array().unwrap().len(),
        1_000 - 32,
        "it is told what it does not follow"
    );
    assert_eq!(followed(&setting, &token, "a").await.len(), 32);
    // Other names take the places of the former ones, and add nothing.
    let heartbeat = |number: u64, follows: &[String]| json!({ "credential": credential(1), "number": number, "follows": follows });
    let beat = post(at, "/v1/sessions/heartbeat", Some(&token), &heartbeat(1, &names[500..])).await.json();
    assert_eq!(beat["unfollowed"].as_array().unwrap().len(), 500 - 32);
    assert_eq!(followed(&setting, &token, "a").await.len(), 32);
    // An election that is there is followed as before.
    let last = names.last().unwrap();
    let path = format!("/v1/elections/{last}/acquire");
    assert_eq!(post(at, &path, Some(&token), &acquire("a", 2)).await.status, 200);
    let beat = post(at, "/v1/sessions/heartbeat", Some(&token), &heartbeat(2, &names[500..])).await.json();
    assert_eq!(beat["unfollowed"].as_array().unwrap().len(), 500 - 33);
    assert!(followed(&setting, &token, "a").await.contains(&json!(last)));
    let ask = json!({ "credential": credential(1) });
    let news = post(at, "/v1/sessions/news", Some(&token), &ask).await.json();
    let told = news["news"].as_array().unwrap().iter().find(|told| told["election"] == *last).unwrap();
    assert_eq!(told["document"]["leader"]["agent"], "a");
}

#[tokio::test]
async fn the_sessions_of_one_token_follow_so_many_elections_all_together() {
    let setting = Setting::new(options(Limits { follows: 5, ..Limits::default() })).await;
    let (one, other) = (setting.token(Role::Agent).await, setting.token(Role::Agent).await);
    let at = setting.address;
    let announce = async |token: &str, life: u8, follows: &[&str]| {
        let announce = json!({ "agent": format!("a-{life}"), "credential": credential(life), "number": 1, "follows": follows });
        let announced = post(at, "/v1/sessions", Some(token), &announce).await;
        assert_eq!(announced.status, 200, "nobody is refused for what it follows: {announced:?}");
        announced.json()["unfollowed"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(announce(&one, 1, &["a", "b", "c"]).await, 0);
    assert_eq!(announce(&one, 2, &["a", "b", "c"]).await, 1);
    assert_eq!(announce(&other, 3, &["a", "b", "c"]).await, 0, "another token is not concerned");
    assert_eq!(announce(&one, 2, &["a", "b", "c"]).await, 1, "to say it again changes nothing");
    assert_eq!(announce(&one, 1, &["d"]).await, 0);
    assert_eq!(announce(&one, 2, &["a", "b", "c"]).await, 0, "what is followed no more gives room");
    let end = json!({ "credential": credential(2) });
    assert_eq!(post(at, "/v1/sessions/end", Some(&one), &end).await.status, 200);
    assert_eq!(announce(&one, 4, &["a", "b", "c", "d"]).await, 0, "so does a session that has ended");
}

#[tokio::test]
async fn leases_that_are_none_are_named_once_and_few_are_remembered() {
    let setting = Setting::new(options(Limits::default())).await;
    let (token, at) = (setting.token(Role::Agent).await, setting.address);
    let ride = |number: usize| json!({ "election": format!("none-{number}"), "token": 1, "incarnation": credential(1).incarnation });
    let rides: Vec<Value> = (0..500).map(ride).collect();
    let announce = json!({ "agent": "a", "credential": credential(1), "leases": rides });
    let beat = post(at, "/v1/sessions", Some(&token), &announce).await.json();
    assert_eq!((beat["lost"].as_array().unwrap().len(), &beat["riding"]), (500, &json!(0)));
    let heartbeat = json!({ "credential": credential(1), "number": 1 });
    let beat = post(at, "/v1/sessions/heartbeat", Some(&token), &heartbeat).await.json();
    assert_eq!((beat["lost"].as_array().unwrap().len(), &beat["riding"]), (64, &json!(0)));
}

#[tokio::test]
async fn new_sessions_are_counted_and_known_ones_are_not() {
    let setting = Setting::new(options(Limits { commands: 1, ..Limits::default() })).await;
    let token = setting.token(Role::Agent).await;
    let mut statuses = Vec::new();
    for life in (1..=20).chain([1; 20]) {
        let announce = json!({ "agent": "a", "credential": credential(life) });
        statuses.push(post(setting.address, "/v1/sessions", Some(&token), &announce).await.status);
    }
    assert!(statuses[..20].contains(&429), "{statuses:?}");
    assert_eq!(statuses[20..], [200; 20], "who is known is let through");
}

#[tokio::test]
async fn who_does_not_read_is_cut_off() {
    let limits = Limits { unread: Duration::from_millis(300), ..Limits::default() };
    let setting = Setting::new(options(limits)).await;
    let mut stream = TcpStream::connect(setting.address).await.unwrap();
    let requests = request("GET", "/openapi.json", None, None).repeat(100);
    // Nothing is read. When the buffers between the two are full, the server waits for a while and no longer.
    let cut_off = async { while stream.write_all(requests.as_bytes()).await.is_ok() {} };
    tokio::time::timeout(HANG, cut_off).await.expect("the connection ends");
    assert_eq!(get(setting.address, "/healthz", None).await.status, 200);
}
