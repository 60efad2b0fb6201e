//! The page: what is served, who signs in and how, what a browser may sign, and the stream that it shows.

use baton::NewToken;
use baton_election::operator::{Act, OperatorKey};
use baton_election::tokens::Role;
use baton_server::Options;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{Answer, HANG, get, post, request, send};
use super::setting::{Setting, acquire, code, credential, election, token};

/// A browser that was signed in.
struct Browser {
    key: OperatorKey,
    cookie: String,
}

/// Asks as a browser does, with its cookie and without a token.
async fn ask(setting: &Setting, browser: &Browser, method: &str, path: &str, body: Option<&Value>) -> Answer {
    let cookie = format!("Host: localhost\r\nCookie: other=1; {}\r\n", browser.cookie);
    let text = request(method, path, None, body).replacen("Host: localhost\r\n", &cookie, 1);
    send(setting.address, &text).await
}

/// An operator lets a browser sign in, and it does.
async fn signed_in(setting: &Setting, operator_token: Option<&str>, seed: u8) -> Browser {
    let given = json!(setting.operator.delegate(setting.delegation(&setting.run().await, seed)));
    let begun = post(setting.address, "/v1/sign-ins", operator_token, &given).await;
    assert_eq!(begun.status, 200, "{begun:?}");
    let opened = post(setting.address, "/v1/sign-ins/open", None, &json!({ "code": code(seed) })).await;
    assert_eq!(opened.status, 200, "{opened:?}");
    let set = opened.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap().to_string();
    for word in ["httponly", "samesite=strict", "path=/", "max-age="] {
        assert!(set.contains(word), "{set}");
    }
    let cookie = set.split(';').next().unwrap().to_string();
    Browser { key: OperatorKey::from_seed([seed; 32]), cookie }
}

/// What a browser signs and sends, as the page does.
async fn act(setting: &Setting, browser: &Browser, act: &Act) -> Answer {
    let wanted = json!({ "key": browser.key.public(), "act": act });
    let drafted = ask(setting, browser, "POST", "/v1/elections/mine/operate/draft", Some(&wanted)).await;
    if drafted.status != 200 {
        return drafted;
    }
    let drafted = drafted.json();
    let [text, via] = ["text", "via"].map(|part| drafted[part].as_str().unwrap());
    let signature = browser.key.sign_text(&format!("baton operator order 1\n{text}"));
    let [order, via]: [Value; 2] = [text, via].map(|part| serde_json::from_str(part).unwrap());
    let body = json!({ "order": order, "by": browser.key.public(), "signature": signature, "via": via });
    ask(setting, browser, "POST", "/v1/elections/mine/operate", Some(&body)).await
}

fn pause() -> Act {
    Act::Pause { reason: "<b>because</b>".to_string() }
}

#[tokio::test]
async fn the_page_is_served_to_everybody_and_may_do_little() {
    let setting = Setting::guarded().await;
    let page = get(setting.address, "/", None).await;
    assert_eq!(page.status, 200);
    for words in [
        "content-type: text/html; charset=utf-8",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:;",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "etag: \"",
    ] {
        assert!(page.head.contains(words), "{words} is not in {}", page.head);
    }
    let script = get(setting.address, "/page/app.js", None).await;
    assert!(script.status == 200 && script.head.contains("text/javascript"), "{}", script.head);
    assert_eq!(get(setting.address, "/page/..%2f..%2fCargo.toml", None).await.status, 404);
    assert_eq!(get(setting.address, "/v1/overview", None).await.status, 401, "the elections are not");
}

#[tokio::test]
async fn a_browser_that_an_operator_let_in_sees_and_acts() {
    let setting = Setting::guarded().await;
    let operator = setting.token(Role::Operator).await;
    post(setting.address, "/v1/elections/mine/acquire", Some(&operator), &acquire("alice", 1)).await;
    let browser = signed_in(&setting, Some(&operator), 8).await;
    let again = post(setting.address, "/v1/sign-ins/open", None, &json!({ "code": code(8) })).await;
    assert_eq!((again.status, again.code().as_str()), (403, "not-signed-in"), "a link works once");
    let rows = ask(&setting, &browser, "GET", "/v1/overview", None).await.json();
    assert_eq!(rows[0]["leader"]["agent"], "alice");
    let me = ask(&setting, &browser, "GET", "/v1/sign-in", None).await.json();
    assert_eq!(me["signed_in"]["operator"], json!(setting.operator.public()));
    // It looks and hands in what was signed, and takes no part: whatever else listens at this host may see its cookie.
    let report = json!({ "token": 1, "finding": "stall", "detail": "d", "by": "alice" });
    let refused = ask(&setting, &browser, "POST", "/v1/elections/mine/report", Some(&report)).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "forbidden"), "{refused:?}");
    let batch = json!([{ "election": "mine", "report": report }]);
    let refused = ask(&setting, &browser, "POST", "/v1/batch", Some(&batch)).await.json();
    assert_eq!(refused[0]["code"], "forbidden");
    let paused = act(&setting, &browser, &pause()).await;
    assert_eq!(paused.status, 200, "{paused:?}");
    let document = setting.store.view(&election("mine")).await.unwrap().document.unwrap();
    assert_eq!(document.paused.as_ref().unwrap().by, setting.operator.public(), "it is its operator's act");
    assert_eq!(document.last_act.as_ref().unwrap().by, setting.operator.public());
    // What outlasts a sign-in takes the operator's own key.
    let enrol = act(&setting, &browser, &Act::Enrol { key: browser.key.public() }).await;
    assert_eq!((enrol.status, enrol.code().as_str()), (403, "wrong-key"), "{enrol:?}");
    // Who signed out neither sees nor acts, whatever it has kept.
    let key = json!({ "key": browser.key.public() });
    let closed = ask(&setting, &browser, "POST", "/v1/sign-ins/close", Some(&key)).await;
    assert_eq!(closed.json()["closed"], true);
    assert_eq!(ask(&setting, &browser, "GET", "/v1/overview", None).await.status, 401);
    assert_eq!(act(&setting, &browser, &Act::Resume).await.status, 401);
}

#[tokio::test]
async fn agents_begin_no_sign_in_and_draft_nothing() {
    let setting = Setting::guarded().await;
    let [agent, observer] = [setting.token(Role::Agent).await, setting.token(Role::Observer).await];
    let run = setting.run().await;
    let given = json!(setting.operator.delegate(setting.delegation(&run, 8)));
    let wanted = json!({ "key": OperatorKey::from_seed([8; 32]).public(), "act": pause() });
    for token in [&agent, &observer] {
        assert_eq!(post(setting.address, "/v1/sign-ins", Some(token), &given).await.status, 403);
        let path = "/v1/elections/mine/operate/draft";
        assert_eq!(post(setting.address, path, Some(token), &wanted).await.status, 403);
    }
    // An operator's token is no operator's key.
    let operator = setting.token(Role::Operator).await;
    let stranger = OperatorKey::from_seed([99; 32]);
    let elsewhere = |origin: &str| baton_election::delegation::Delegation {
        origin: origin.to_string(),
        ..setting.delegation(&run, 8)
    };
    for forged in [
        json!(stranger.delegate(setting.delegation(&run, 8))),
        json!(setting.operator.delegate(setting.delegation("another run", 8))),
        // Who sits between the operator and the server would have its own page let in.
        json!(setting.operator.delegate(elsewhere("http://evil.example:7420"))),
    ] {
        let refused = post(setting.address, "/v1/sign-ins", Some(&operator), &forged).await;
        assert_eq!((refused.status, refused.code().as_str()), (403, "wrong-key"), "{refused:?}");
    }
    // One that was given for another address of this server does not open here.
    let beside = json!(setting.operator.delegate(elsewhere("http://localhost:1")));
    assert_eq!(post(setting.address, "/v1/sign-ins", Some(&operator), &beside).await.status, 200);
    let opened = post(setting.address, "/v1/sign-ins/open", None, &json!({ "code": code(8) })).await;
    assert_eq!((opened.status, opened.code().as_str()), (403, "not-signed-in"), "{opened:?}");
}

#[tokio::test]
async fn a_delegation_without_a_living_sign_in_is_worth_nothing() {
    let setting = Setting::new(Options::default()).await;
    post(setting.address, "/v1/elections/mine/acquire", None, &acquire("alice", 1)).await;
    let browser = signed_in(&setting, None, 8).await;
    let wanted = json!({ "key": browser.key.public(), "act": pause() });
    let draft = post(setting.address, "/v1/elections/mine/operate/draft", None, &wanted).await.json();
    let [text, via] = ["text", "via"].map(|part| draft[part].as_str().unwrap());
    let [order, via]: [Value; 2] = [text, via].map(|part| serde_json::from_str(part).unwrap());
    let signature = browser.key.sign_text(&format!("baton operator order 1\n{text}"));
    let body = json!({ "order": order, "by": browser.key.public(), "signature": signature, "via": via });
    // The operator ends all its sign-ins before the act arrives.
    let mut end = setting.delegation(&setting.run().await, 9);
    end.lasts = baton_election::Span::ZERO;
    let ended = post(setting.address, "/v1/sign-ins", None, &json!(setting.operator.delegate(end))).await;
    assert_eq!(ended.status, 200, "{ended:?}");
    let refused = post(setting.address, "/v1/elections/mine/operate", None, &body).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "not-signed-in"), "{refused:?}");
    let batch = json!([{ "election": "mine", "operate": body }]);
    let refused = post(setting.address, "/v1/batch", None, &batch).await.json();
    assert_eq!(refused[0]["code"], "not-signed-in", "a batch is not a way around");
    let document = setting.store.view(&election("mine")).await.unwrap().document.unwrap();
    assert!(document.paused.is_none());
}

#[tokio::test]
async fn a_cookie_is_worth_what_the_token_was_by_which_it_came() {
    let setting = Setting::guarded().await;
    let (some, entry) = setting
        .create(&NewToken { elections: vec!["other".parse().unwrap()], ..token(Role::Operator) })
        .await;
    let browser = signed_in(&setting, Some(&some), 8).await;
    assert_eq!(ask(&setting, &browser, "GET", "/v1/elections/other", None).await.status, 200);
    assert_eq!(ask(&setting, &browser, "GET", "/v1/elections/mine", None).await.status, 403);
    let wanted = json!({ "key": browser.key.public(), "act": pause() });
    let drafted = ask(&setting, &browser, "POST", "/v1/elections/mine/operate/draft", Some(&wanted)).await;
    assert_eq!(drafted.status, 403);
    setting.store.tokens().revoke(&setting.operator, entry.id).await.unwrap();
    let mut tries = 0;
    while ask(&setting, &browser, "GET", "/v1/elections/other", None).await.status != 401 {
        tries += 1;
        assert!(tries < 1_000, "the server does not hear of the revocation");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// A stream of events, as it comes.
struct Stream {
    stream: TcpStream,
    text: String,
}

impl Stream {
    async fn open(setting: &Setting, path: &str, token: Option<&str>) -> Stream {
        let mut stream = TcpStream::connect(setting.address).await.unwrap();
        stream.write_all(request("GET", path, token, None).as_bytes()).await.unwrap();
        Stream { stream, text: String::new() }
    }

    /// The next event of this kind: its number, if it has one, and its data.
    async fn next(&mut self, kind: &str) -> (Option<String>, Value) {
        let found = async {
            loop {
                let head = format!("event: {kind}\ndata: ");
                if let Some(at) = self.text.find(&head)
                    && let Some(length) = self.text[at..].find("\n\n")
                {
                    let data = serde_json::from_str(&self.text[at + head.len()..at + length]).unwrap();
                    let before = self.text[..at].rsplit("\n\n").next().unwrap();
                    let id = before.rsplit("id: ").next().filter(|_| before.contains("id: "));
                    let id = id.map(|id| id.trim().to_string());
                    self.text.drain(..at + length);
                    return (id, data);
                }
                let mut more = [0; 16 * 1024];
                let count = self.stream.read(&mut more).await.unwrap();
                assert!(count > 0, "it broke off after {}", self.text);
                self.text.push_str(&String::from_utf8_lossy(&more[..count]));
            }
        };
        tokio::time::timeout(HANG, found).await.unwrap()
    }
}

#[tokio::test]
async fn everything_that_changes_is_told_and_nothing_that_one_may_not_see() {
    let setting = Setting::guarded().await;
    let operator = setting.token(Role::Operator).await;
    let (some, _) = setting
        .create(&NewToken { elections: vec!["other".parse().unwrap()], ..token(Role::Observer) })
        .await;
    let mut all = Stream::open(&setting, "/v1/events?leases=mine", Some(&operator)).await;
    let mut part = Stream::open(&setting, "/v1/events", Some(&some)).await;
    let (first, hello) = all.next("hello").await;
    assert_eq!(hello["fresh"], true);
    part.next("hello").await;
    for name in ["mine", "other"] {
        let path = format!("/v1/elections/{name}/acquire");
        assert_eq!(post(setting.address, &path, Some(&operator), &acquire("alice", 1)).await.status, 200);
    }
    let (_, mine) = all.next("changes").await;
    assert_eq!(
        (&mine["rows"][0]["election"], &mine["rows"][0]["leader"]["agent"]),
        (&json!("mine"), &json!("alice"))
    );
    let (last, other) = part.next("changes").await;
    assert_eq!(other["rows"].as_array().unwrap().len(), 1);
    assert_eq!(other["rows"][0]["election"], "other", "what may not be seen is not told");
    let (_, leases) = all.next("leases").await;
    assert_eq!((&leases["leases"][0][0], &leases["leases"][0][1]), (&json!("mine"), &json!(1)));
    // A client that was cut off goes on where it was; one that was told of another run is told of a gap.
    let mut again =
        Stream::open(&setting, &format!("/v1/events?after={}", first.unwrap()), Some(&operator)).await;
    assert_eq!(again.next("hello").await.1["fresh"], false);
    let (_, missed) = again.next("changes").await;
    assert_eq!(missed["rows"].as_array().unwrap().len(), 2, "{missed}");
    let mut nothing =
        Stream::open(&setting, &format!("/v1/events?after={}", last.unwrap()), Some(&operator)).await;
    nothing.next("hello").await;
    assert!(!nothing.text.contains("event: gap"));
    let mut lost = Stream::open(&setting, "/v1/events?after=0000-7", Some(&operator)).await;
    lost.next("gap").await;
}

/// A client that looked at a long lease is told of the short one after it.
#[tokio::test]
async fn a_lease_is_told_of_though_the_one_before_would_have_lasted_longer() {
    let setting = Setting::new(Options::default()).await;
    let acquired = async |agent: &str, number: u8, seconds: u64| {
        let mut bid = acquire(agent, number);
        bid["ttl_ms"] = json!(seconds * 1_000);
        assert_eq!(post(setting.address, "/v1/elections/mine/acquire", None, &bid).await.status, 200);
    };
    acquired("alice", 1, 3_600).await;
    let mut stream = Stream::open(&setting, "/v1/events?leases=mine", None).await;
    assert_eq!(stream.next("leases").await.1["leases"][0][1], 1);
    let release = json!({ "token": 1, "credential": credential(1) });
    assert_eq!(post(setting.address, "/v1/elections/mine/release", None, &release).await.status, 200);
    acquired("bob", 2, 600).await;
    let told = stream.next("leases").await.1;
    assert_eq!(told["leases"][0][1], 2, "{told}");
    assert!(told["leases"][0][2].as_u64().unwrap() <= 600_000, "{told}");
}

/// What changes without a change of the election is told of those that are looked at.
#[tokio::test]
async fn boards_and_who_knows_of_a_leader_are_told() {
    let setting = Setting::new(Options::default()).await;
    let mut stream = Stream::open(&setting, "/v1/events?leases=mine", None).await;
    stream.next("hello").await;
    let announce = json!({ "agent": "carol", "credential": credential(9), "number": 1, "follows": ["mine"] });
    assert_eq!(post(setting.address, "/v1/sessions", None, &announce).await.status, 200);
    assert_eq!(
        post(setting.address, "/v1/elections/mine/acquire", None, &acquire("alice", 1)).await.status,
        200
    );
    let expected = json!({ "acknowledged": 0, "expected": 1 });
    while stream.next("attended").await.1["rows"][0]["participation"] != expected {}
    let mandate = json!({ "token": 1, "credential": credential(1) });
    let tasks = json!({ "mandate": mandate, "tasks": [{ "id": "t", "title": "do it" }] });
    assert_eq!(post(setting.address, "/v1/elections/mine/tasks", None, &tasks).await.status, 200);
    assert_eq!(stream.next("boards").await.1["elections"], json!(["mine"]));
}

#[tokio::test]
async fn odd_streams_are_refused() {
    let setting = Setting::new(Options::default()).await;
    let many = (0..101).map(|number| format!("e{number}")).collect::<Vec<_>>().join(",");
    for query in [format!("leases={many}"), "leases=A%20B".to_string(), "what=1".to_string()] {
        let answer = get(setting.address, &format!("/v1/events?{query}"), None).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid"), "{query}: {answer:?}");
    }
}

#[tokio::test]
async fn elections_are_shown_in_parts() {
    let setting = Setting::new(Options::default()).await;
    for number in 0..5 {
        let path = format!("/v1/elections/e{number}/acquire");
        assert_eq!(post(setting.address, &path, None, &acquire("alice", 1)).await.status, 200);
    }
    let names = async |query: &str| -> Vec<String> {
        let rows = get(setting.address, &format!("/v1/overview?{query}"), None).await.json();
        let name = |row: &Value| row["election"].as_str().unwrap().to_string();
        rows.as_array().unwrap().iter().map(name).collect()
    };
    assert_eq!(names("limit=2").await, ["e0", "e1"]);
    assert_eq!(names("limit=2&after=e1").await, ["e2", "e3"]);
    assert_eq!(names("after=e3").await, ["e4"]);
}
