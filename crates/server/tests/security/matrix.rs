//! Every route by every role. What is expected comes from the right that the route says it needs. A route that needs a signature or
//! something that is there gets its body and names in this file; any other is sent the example of its description.

use baton::NewToken;
use baton_election::bindings::FenceChange;
use baton_election::operator::Act;
use baton_election::store_order::StoreChange;
use baton_election::tokens::{Role, TokenChange};
use baton_election::{ResourceName, TokenId};
use baton_store::{Key, boot};
use serde_json::{Value, json};

use super::client::{Answer, get, post, request, send, send_locally};
use super::setting::{Setting, acquire, credential, election, token};

/// The caller.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asker {
    None,
    Agent,
    OtherAgent,
    Observer,
    Operator,
    /// Nobody's token, over the Unix socket.
    User,
}

/// What is sent to a route that takes a body: what `alice` would send, of the election `mine`.
pub(crate) async fn body(setting: &Setting, operation: &str) -> Value {
    match known_body(setting, operation).await {
        Value::Null => example(setting, operation).await,
        body => body,
    }
}

/// The example of the description.
async fn example(setting: &Setting, operation: &str) -> Value {
    let described = get(setting.address, "/openapi.json", None).await.json();
    let paths = described["paths"].as_object().unwrap().values();
    let mut operations = paths.flat_map(|path| path.as_object().unwrap().values());
    let found = operations.find(|found| found["operationId"] == operation).unwrap();
    found["requestBody"]["content"]["application/json"]["example"].clone()
}

async fn known_body(setting: &Setting, operation: &str) -> Value {
    let held = json!({ "token": 1, "credential": credential(1) });
    let with = |more: Value| {
        let (mut all, more) = (held.as_object().unwrap().clone(), more.as_object().unwrap().clone());
        all.extend(more);
        Value::Object(all)
    };
    let incarnation = credential(9).incarnation;
    match operation {
        "acquire" => acquire("alice", 1),
        "renew" | "release" => held,
        "pass" => with(json!({ "to": "alice" })),
        "checkpoint" => with(json!({ "seq": 1, "summary": "s", "state": {} })),
        "acknowledge" => with(json!({ "hash": "00".repeat(32) })),
        "report" => json!({ "token": 1, "finding": "stall", "detail": "d", "by": "alice" }),
        "operate" => {
            let document = setting.store.view(&election("mine")).await.unwrap().document.unwrap();
            json!(setting.operator.sign(&document, Act::Pause { reason: "r".to_string() }))
        }
        "enlist" => candidate(),
        "withdraw" => json!({ "agent": "alice", "credential": credential(1) }),
        "batch" => json!([{ "election": "mine", "acquire": acquire("alice", 1) },
                          { "election": "mine", "check": { "token": 1 } },
                          { "election": "mine", "operate": body_of_operate(setting).await }]),
        "admit" => json!({ "token": 1, "election": "mine", "agent": "alice",
                           "hold": { "credential": credential(9), "ttl_ms": 60_000 } }),
        "keepHold" => json!({ "election": "mine", "credential": credential(9) }),
        "leaveHold" => json!({ "credential": credential(9) }),
        "orderFence" => {
            let (info, fence) = (&setting.info, setting.store.fences().get(&resource()).await.unwrap());
            let fence = fence.map(|view| view.fence);
            let change = FenceChange::Bind { election: election("mine") };
            json!(setting.operator.sign_fence(info, resource(), fence.as_ref(), change))
        }
        "orderStore" => {
            let info = setting.store.info().await.unwrap();
            json!({ "order": setting.operator.sign_store(&info, StoreChange::Resume, boot::wall()) })
        }
        "orderTokens" => {
            let (info, tokens) =
                (setting.store.info().await.unwrap(), setting.store.tokens().list().await.unwrap());
            let change = TokenChange::Revoke { id: TokenId([0; 6]) };
            json!(setting.operator.sign_tokens(&info, &tokens, change, boot::wall()))
        }
        "beginSignIn" => {
            let run = setting.run().await;
            json!(setting.operator.delegate(setting.delegation(&run, 8)))
        }
        "openSignIn" => json!({ "code": "00".repeat(32) }),
        "closeSignIn" => json!({ "key": setting.operator.public() }),
        "draftStore" => json!({ "key": setting.operator.public(), "change": { "change": "resume" } }),
        "draft" => json!({ "key": setting.operator.public(), "act": { "act": "resume" } }),
        "announce" => {
            json!({ "agent": "alice", "credential": credential(5), "number": 1, "follows": ["mine"], "leases": [] })
        }
        "heartbeat" => {
            let ride = json!({ "election": "mine", "token": 1, "incarnation": incarnation });
            json!({ "credential": credential(5), "number": 2, "add": [ride] })
        }
        "news" => json!({ "credential": credential(6), "wait_ms": 0 }),
        "endSession" => json!({ "credential": credential(6) }),
        other => tool(other),
    }
}

/// The same for the leader's toolbox.
fn tool(operation: &str) -> Value {
    match operation {
        "addTasks" => json!({ "mandate": mandate(), "tasks": [{ "id": "t", "title": "do it" }] }),
        "orderTask" => {
            json!({ "order": "accept", "agent": "alice", "key_hash": credential(1).key.hash(), "seen": 0 })
        }
        "propose" => json!({ "id": "t", "by": "alice", "title": "do it otherwise" }),
        "ruleOn" => json!({ "mandate": mandate(), "accept": true }),
        "setQuota" => {
            json!({ "mandate": mandate(), "amount": 1, "window_ms": 1_000, "shares": { "alice": 1 } })
        }
        "draw" => json!({ "agent": "alice", "amount": 1, "id": credential(9).incarnation }),
        "putValue" => json!({ "mandate": mandate(), "value": "v" }),
        _ => Value::Null,
    }
}

fn resource() -> ResourceName {
    ResourceName::new("res").unwrap()
}

fn mandate() -> Value {
    json!({ "token": 1, "credential": credential(1) })
}

async fn body_of_operate(setting: &Setting) -> Value {
    let document = setting.store.view(&election("mine")).await.unwrap().document.unwrap();
    json!(setting.operator.sign(&document, Act::Resume))
}

fn candidate() -> Value {
    json!({ "election": "mine", "agent": "alice", "incarnation": credential(1).incarnation,
            "key_hash": credential(1).key.hash(), "priority": 0, "capabilities": [], "score": 0, "load": 0,
            "ttl_ms": 30_000, "beat": 0, "withdrawn": false, "enlisted": "2026-01-01T00:00:00.000Z" })
}

/// A path with names in it.
pub(crate) fn named(path: &str) -> String {
    let names = [
        ("{election}", "mine"),
        ("{agent}", "alice"),
        ("{resource}", "res"),
        ("{part}", "0"),
        ("{file}", "app.js"),
    ];
    let items = ["{task}", "{proposal}", "{quota}", "{value}", "{breaker}"].map(|item| (item, "t"));
    let path =
        names.iter().chain(&items).fold(path.to_string(), |path, (name, with)| path.replace(name, with));
    assert!(!path.contains('{'), "decide what stands for the name in {path}");
    path
}

/// Whether it may, by what the route needs.
fn expected(asker: Asker, right: &str, path: &str) -> Result<(), &'static str> {
    let may = match (asker, right) {
        (_, "public") | (Asker::Operator, _) => Ok(()),
        (Asker::None, _) => Err("unauthorized"),
        (Asker::Agent | Asker::OtherAgent, "read" | "act") | (Asker::Observer, "read") => Ok(()),
        (Asker::User, "read" | "act" | "operate") => Ok(()),
        (Asker::Agent | Asker::OtherAgent, "operate" | "administer")
        | (Asker::Observer, "act" | "operate" | "administer")
        | (Asker::User, "administer") => Err("forbidden"),
        (_, other) => panic!("`{other}` is not a right"),
    };
    // The sessions, and what was ordered of the store, are only for callers that see all elections.
    let of_the_store = matches!(path, "/v1/sessions" | "/metrics" | "/v1/audit" | "/v1/audit/{part}");
    if of_the_store && right == "read" && matches!(asker, Asker::Agent | Asker::OtherAgent) {
        return Err("forbidden");
    }
    // It has a token for another election than this, and for that of the fence; of a session, what it follows or rides.
    let of_a_session = matches!((path, right), ("/v1/sessions" | "/v1/sessions/heartbeat", "act"));
    let concerns_mine = path.contains("{election}") || path.contains("{resource}") || of_a_session;
    if asker == Asker::OtherAgent && concerns_mine { Err("forbidden") } else { may }
}

fn refusal(answer: &Answer) -> Result<(), String> {
    match answer.code().as_str() {
        code @ ("unauthorized" | "forbidden" | "cross-site" | "wrong-host" | "too-many") => {
            Err(code.to_string())
        }
        _ => Ok(()),
    }
}

#[tokio::test]
async fn every_route_lets_in_whom_it_says_and_nobody_else() {
    let setting = Setting::guarded().await;
    let operator = setting.token(Role::Operator).await;
    let of = |agent: &str, election: &str| NewToken {
        agents: vec![agent.parse().unwrap()],
        elections: vec![election.parse().unwrap()],
        resources: vec!["res".parse().unwrap()],
        ..token(Role::Agent)
    };
    let (mine, _) = setting.create(&of("alice", "mine")).await;
    let (others, _) = setting.create(&of("bob", "other")).await;
    let observer = setting.token(Role::Observer).await;
    let acquired =
        post(setting.address, "/v1/elections/mine/acquire", Some(&mine), &acquire("alice", 1)).await;
    assert_eq!(acquired.status, 200, "{acquired:?}");
    let admit = body(&setting, "admit").await;
    let admitted = post(setting.address, "/v1/fences/res/admit", Some(&mine), &admit).await;
    assert_eq!(admitted.status, 200, "{admitted:?}");
    let described = get(setting.address, "/openapi.json", None).await.json();
    let mut seen = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let right = operation["x-right"].as_str().unwrap();
            let id = operation["operationId"].as_str().unwrap();
            let askers =
                [Asker::None, Asker::OtherAgent, Asker::Observer, Asker::Agent, Asker::Operator, Asker::User];
            for asker in askers {
                let token = match asker {
                    Asker::None | Asker::User => None,
                    Asker::Agent => Some(mine.as_str()),
                    Asker::OtherAgent => Some(others.as_str()),
                    Asker::Observer => Some(observer.as_str()),
                    Asker::Operator => Some(operator.as_str()),
                };
                let sent = match method.as_str() {
                    "get" => request("GET", &named(path), token, None),
                    _ => request("POST", &named(path), token, Some(&body(&setting, id).await)),
                };
                let answer = match asker {
                    Asker::User => send_locally(&setting.socket, &sent).await,
                    _ => send(setting.address, &sent).await,
                };
                let listed = &operation["responses"][answer.status.to_string()];
                let is_listed = answer.status == 200
                    || listed["x-codes"]
                        .as_array()
                        .is_some_and(|codes| codes.contains(&json!(answer.code())));
                assert!(is_listed, "{id} does not list {} {}: {answer:?}", answer.status, answer.code());
                let (wanted, got) = (expected(asker, right, path), refusal(&answer));
                assert_eq!(got, wanted.map_err(ToString::to_string), "{id} by {asker:?}: {answer:?}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 6 * 47, "{seen}");
}

#[tokio::test]
async fn a_batch_is_not_a_way_around() {
    let setting = Setting::guarded().await;
    let operator = setting.token(Role::Operator).await;
    let observer = setting.token(Role::Observer).await;
    post(setting.address, "/v1/elections/mine/acquire", Some(&operator), &acquire("alice", 1)).await;
    let (other, _) =
        setting.create(&NewToken { elections: vec!["other".parse().unwrap()], ..token(Role::Agent) }).await;
    let entries = body(&setting, "batch").await;
    let codes = async |token: &str| -> Vec<String> {
        let answers = post(setting.address, "/v1/batch", Some(token), &entries).await.json();
        let code = |entry: &Value| entry["code"].as_str().unwrap_or("done").to_string();
        answers.as_array().unwrap().iter().map(code).collect()
    };
    assert_eq!(codes(&observer).await, ["forbidden", "done", "forbidden"]);
    assert_eq!(codes(&other).await, ["forbidden"; 3]);
    let all = codes(&operator).await;
    assert!(!all.contains(&"forbidden".to_string()), "{all:?}");
}

#[tokio::test]
async fn who_is_for_some_agents_acts_as_no_other() {
    let setting = Setting::guarded().await;
    let (alice, _) =
        setting.create(&NewToken { agents: vec!["alice".parse().unwrap()], ..token(Role::Agent) }).await;
    let (bob, _) =
        setting.create(&NewToken { agents: vec!["bob".parse().unwrap()], ..token(Role::Agent) }).await;
    let at = setting.address;
    let refused = post(at, "/v1/elections/mine/acquire", Some(&bob), &acquire("alice", 1)).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "forbidden"), "{refused:?}");
    assert!(setting.store.view(&election("mine")).await.unwrap().document.is_none(), "nothing was done");
    assert_eq!(post(at, "/v1/elections/mine/acquire", Some(&alice), &acquire("alice", 1)).await.status, 200);
    let report = body(&setting, "report").await;
    assert_eq!(post(at, "/v1/elections/mine/report", Some(&bob), &report).await.status, 403);
    assert_eq!(post(at, "/v1/elections/mine/candidates", Some(&bob), &candidate()).await.status, 403);
    let admit = body(&setting, "admit").await;
    assert_eq!(post(at, "/v1/fences/res/admit", Some(&bob), &admit).await.status, 403);
    assert_eq!(post(at, "/v1/fences/res/admit", Some(&alice), &admit).await.status, 200);
}

#[tokio::test]
async fn a_candidate_is_told_how_long_it_stands() {
    let setting = Setting::guarded().await;
    let token = setting.token(Role::Agent).await;
    let mut wanted = candidate();
    wanted["ttl_ms"] = json!(3_600_000);
    let told = post(setting.address, "/v1/elections/mine/candidates", Some(&token), &wanted).await;
    assert_eq!((told.status, &told.json()["ttl_ms"]), (200, &json!(300_000)), "{told:?}");
}

#[tokio::test]
async fn lists_show_what_a_token_is_for() {
    let setting = Setting::guarded().await;
    let operator = setting.token(Role::Operator).await;
    let at = setting.address;
    for (name, resource) in [("fleet/eu", "res/eu"), ("fleet/us", "res/us"), ("deploy", "res/deploy")] {
        let path = format!("/v1/elections/{}/acquire", name.replace('/', "%2F"));
        assert_eq!(post(at, &path, Some(&operator), &acquire("alice", 1)).await.status, 200);
        let path = format!("/v1/fences/{}/admit", resource.replace('/', "%2F"));
        let admit = json!({ "token": 1, "election": name });
        assert_eq!(post(at, &path, Some(&operator), &admit).await.status, 200);
    }
    let of_the_fleet = NewToken {
        elections: vec!["fleet/*".parse().unwrap()],
        resources: vec!["res/*".parse().unwrap()],
        ..token(Role::Observer)
    };
    let (fleet, _) = setting.create(&of_the_fleet).await;
    assert_eq!(get(at, "/v1/elections", Some(&fleet)).await.json(), json!(["fleet/eu", "fleet/us"]));
    assert_eq!(get(at, "/v1/fences", Some(&fleet)).await.json(), json!(["res/eu", "res/us"]));
    assert_eq!(get(at, "/v1/elections", Some(&operator)).await.json().as_array().unwrap().len(), 3);
    let (europe, _) =
        setting.create(&NewToken { resources: vec!["res/eu".parse().unwrap()], ..of_the_fleet }).await;
    assert_eq!(get(at, "/v1/fences", Some(&europe)).await.json(), json!(["res/eu"]));
    let part = |after: &str| format!("/v1/elections?limit=1{after}");
    assert_eq!(get(at, &part(""), Some(&fleet)).await.json(), json!(["fleet/eu"]));
    assert_eq!(get(at, &part("&after=fleet%2Feu"), Some(&fleet)).await.json(), json!(["fleet/us"]));
    assert_eq!(get(at, &part("&after=fleet%2Fus"), Some(&fleet)).await.json(), json!([]));
    assert_eq!(get(at, "/v1/elections/deploy", Some(&fleet)).await.status, 403);
    assert_eq!(get(at, "/v1/elections/deploy/leader", Some(&fleet)).await.status, 403);
    assert_eq!(get(at, "/v1/fences/res%2Fdeploy", Some(&fleet)).await.status, 403);
    assert_eq!(get(at, "/v1/elections/fleet%2Feu", Some(&fleet)).await.status, 200);
    // A restricted operator does not speak for the store.
    let (some, _) = setting
        .create(&NewToken { elections: vec!["fleet/*".parse().unwrap()], ..token(Role::Operator) })
        .await;
    assert_eq!(get(at, "/v1/tokens", Some(&some)).await.status, 403);
}

#[tokio::test]
async fn without_tokens_a_loopback_address_is_open_and_operators_sign() {
    let setting = Setting::new(baton_server::Options::default()).await;
    let at = setting.address;
    assert_eq!(post(at, "/v1/elections/mine/acquire", None, &acquire("alice", 1)).await.status, 200);
    assert_eq!(get(at, "/v1/tokens", None).await.status, 200);
    let document = setting.store.view(&election("mine")).await.unwrap().document.unwrap();
    let stranger = baton_election::operator::OperatorKey::from_seed([9; 32]);
    let forged = json!(stranger.sign(&document, Act::Pause { reason: String::new() }));
    let refused = post(at, "/v1/elections/mine/operate", None, &forged).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "wrong-key"), "{refused:?}");
    let signed = json!(setting.operator.sign(&document, Act::Pause { reason: String::new() }));
    assert_eq!(post(at, "/v1/elections/mine/operate", None, &signed).await.status, 200);
    // A caller that shows a token is bound by it all the same.
    let observer = setting.token(Role::Observer).await;
    assert_eq!(post(at, "/v1/elections/x/acquire", Some(&observer), &acquire("a", 2)).await.status, 403);
    assert_eq!(
        send(at, &super::client::request("GET", "/v1/store", Some("baton_x"), None)).await.status,
        401
    );
    assert!(setting.store.backend().read(&Key::Tokens).await.unwrap().found.is_some());
}

#[tokio::test]
async fn a_session_is_spoken_for_with_the_token_that_announced_it() {
    let setting = Setting::guarded().await;
    let at = setting.address;
    let (first, entry) = setting.create(&token(Role::Agent)).await;
    let narrow = NewToken { elections: vec!["other".parse().unwrap()], ..token(Role::Agent) };
    let (second, _) = setting.create(&narrow).await;
    assert_eq!(post(at, "/v1/elections/mine/acquire", Some(&first), &acquire("alice", 5)).await.status, 200);
    let ride = json!({ "election": "mine", "token": 1, "incarnation": credential(5).incarnation });
    let announce = |leases: Value, number: u64| json!({ "agent": "alice", "credential": credential(5), "number": number, "leases": leases });
    let answer = post(at, "/v1/sessions", Some(&first), &announce(json!([ride]), 1)).await;
    assert_eq!((answer.status, &answer.json()["riding"]), (200, &json!(1)), "{answer:?}");
    // A plain heartbeat names no election, and renews only for the token that was allowed to.
    let beat = json!({ "credential": credential(5), "number": 2 });
    let other = post(at, "/v1/sessions/heartbeat", Some(&second), &beat).await;
    assert_eq!((other.status, other.code().as_str()), (404, "no-such-session"), "{other:?}");
    assert_eq!(post(at, "/v1/sessions/heartbeat", Some(&first), &beat).await.status, 200);
    // To go on with another token is to announce anew, which that token must be allowed to.
    let refused = post(at, "/v1/sessions", Some(&second), &announce(json!([ride]), 3)).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "forbidden"), "{refused:?}");
    assert_eq!(post(at, "/v1/sessions", Some(&second), &announce(json!([]), 3)).await.status, 200);
    let gone = post(at, "/v1/sessions/heartbeat", Some(&first), &beat).await;
    assert_eq!((gone.status, gone.code().as_str()), (404, "no-such-session"), "{gone:?}");
    // When a token is revoked, a client that waits for news with it is refused at once.
    let follow = json!({ "agent": "bob", "credential": credential(6), "number": 1, "follows": ["mine"] });
    assert_eq!(post(at, "/v1/sessions", Some(&first), &follow).await.status, 200);
    let news = json!({ "credential": credential(6), "wait_ms": 0 });
    let told = post(at, "/v1/sessions/news", Some(&first), &news).await.json();
    let news = json!({ "credential": credential(6), "acknowledged": told["event"], "wait_ms": 60_000 });
    let waiting = post(at, "/v1/sessions/news", Some(&first), &news);
    let (let_go, ()) = tokio::join!(waiting, async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        setting.store.tokens().revoke(&setting.operator, entry.id).await.unwrap();
    });
    assert_eq!(let_go.status, 401, "{let_go:?}");
}
