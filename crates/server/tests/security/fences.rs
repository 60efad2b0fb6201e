//! Fences: whose hold it is, and who may touch which resource.

use baton::NewToken;
use baton_election::bindings::FenceChange;
use baton_election::operator::OperatorKey;
use baton_election::tokens::Role;
use baton_election::{Epoch, Refusal, ResourceName};
use serde_json::{Value, json};

use super::client::{Answer, get, post};
use super::setting::{Setting, acquire, credential, election, token};

const FENCE: &str = "/v1/fences/team-b%2Fsvc";

/// A server at which `b-1` leads `team-b/deploy`, and a token for agents without limits, as a guard has.
async fn led() -> (Setting, String) {
    let setting = Setting::guarded().await;
    let agent = setting.token(Role::Agent).await;
    let path = "/v1/elections/team-b%2Fdeploy/acquire";
    assert_eq!(post(setting.address, path, Some(&agent), &acquire("b-1", 1)).await.status, 200);
    (setting, agent)
}

async fn ask(setting: &Setting, token: &str, what: &str, body: &Value) -> Answer {
    post(setting.address, &format!("{FENCE}/{what}"), Some(token), body).await
}

/// A request for admission that shows the leader's token.
fn admission(hold: &Value) -> Value {
    json!({ "token": 1, "election": "team-b/deploy", "agent": "b-2", "hold": hold })
}

#[track_caller]
fn refused_for_its_key(answer: &Answer) {
    assert_eq!((answer.status, answer.code().as_str()), (403, "wrong-key"), "{answer:?}");
}

#[tokio::test]
async fn only_the_key_of_a_hold_keeps_or_ends_it() {
    let (setting, agent) = led().await;
    let hold = json!({ "credential": credential(3), "ttl_ms": 5_000 });
    assert_eq!(ask(&setting, &agent, "admit", &admission(&hold)).await.status, 200);
    // Everybody who may look sees this much of it.
    let seen = get(setting.address, FENCE, Some(&agent)).await.json();
    let incarnation = &seen["record"]["hold"]["incarnation"];
    assert_eq!(*incarnation, json!(credential(3).incarnation));
    let stolen = json!({ "incarnation": incarnation, "key": credential(4).key });
    refused_for_its_key(&ask(&setting, &agent, "leave", &json!({ "credential": stolen })).await);
    let keep = json!({ "election": "team-b/deploy", "credential": stolen });
    refused_for_its_key(&ask(&setting, &agent, "keep", &keep).await);
    let again = admission(&json!({ "credential": stolen, "ttl_ms": 5_000 }));
    refused_for_its_key(&ask(&setting, &agent, "admit", &again).await);
    let nameless = ask(&setting, &agent, "leave", &json!({ "incarnation": incarnation })).await;
    assert_eq!(nameless.status, 400, "{nameless:?}");
    assert_eq!(
        get(setting.address, FENCE, Some(&agent)).await.json()["record"]["hold"],
        seen["record"]["hold"]
    );
    let own = json!({ "credential": credential(3) });
    assert_eq!(ask(&setting, &agent, "leave", &own).await.status, 200);
    assert!(get(setting.address, FENCE, Some(&agent)).await.json()["record"]["hold"].is_null());
}

#[tokio::test]
async fn an_agent_that_does_not_lead_holds_a_resource_for_a_minute_at_most() {
    let (setting, agent) = led().await;
    for lease in [Value::Null, json!(credential(2))] {
        let hour = json!({ "credential": credential(3), "ttl_ms": 3_600_000, "lease": lease });
        refused_for_its_key(&ask(&setting, &agent, "admit", &admission(&hour)).await);
    }
    assert_eq!(get(setting.address, FENCE, Some(&agent)).await.json()["record"], Value::Null);
    let hour = json!({ "credential": credential(3), "ttl_ms": 3_600_000, "lease": credential(1) });
    assert_eq!(ask(&setting, &agent, "admit", &admission(&hour)).await.status, 200, "the leader may");
}

#[tokio::test]
async fn a_hold_without_the_lease_is_kept_for_a_minute_in_all_and_its_log_names_who_asks_anew() {
    let (setting, agent) = led().await;
    let keep = json!({ "election": "team-b/deploy", "credential": credential(3) });
    let hold =
        |lease: &Value| admission(&json!({ "credential": credential(3), "ttl_ms": 20_000, "lease": lease }));
    // Each keeping costs a quarter of the hold at the least, so that no more than these can be let through, however fast they come.
    let keep_all = async || {
        let mut kept = 0;
        while kept < 100 {
            let answer = ask(&setting, &agent, "keep", &keep).await;
            if answer.status != 200 {
                refused_for_its_key(&answer);
                assert!(answer.body.contains("lasts 1m in all, however often it is kept"), "{answer:?}");
                break;
            }
            kept += 1;
        }
        kept
    };
    assert_eq!(ask(&setting, &agent, "admit", &hold(&Value::Null)).await.status, 200);
    assert!((1..=8).contains(&keep_all().await));
    // To come anew is an entry of the log.
    assert_eq!(ask(&setting, &agent, "admit", &hold(&Value::Null)).await.status, 200);
    assert!((1..=8).contains(&keep_all().await));
    let resource = ResourceName::new("team-b/svc").unwrap();
    let log = setting.store.fences().accepted(&resource).await.unwrap();
    let named = log.iter().filter(|entry| entry.agent.as_ref().is_some_and(|agent| agent.as_str() == "b-2"));
    assert_eq!(named.count(), 2, "{log:?}");
    // Whoever shows the lease keeps its hold for as long as it leads.
    assert_eq!(ask(&setting, &agent, "admit", &hold(&json!(credential(1)))).await.status, 200);
    assert_eq!(keep_all().await, 100);
}

/// A token of a team, for its own elections, and for its own resources by that.
async fn token_of(setting: &Setting, team: &str) -> String {
    let elections = vec![format!("{team}/*").parse().unwrap()];
    setting.create(&NewToken { elections, ..token(Role::Agent) }).await.0
}

#[tokio::test]
async fn no_team_binds_or_finds_a_resource_of_another() {
    let (setting, _) = led().await;
    let at = setting.address;
    let (a, b) = (token_of(&setting, "team-a").await, token_of(&setting, "team-b").await);
    let path = "/v1/elections/team-a%2Fx/acquire";
    assert_eq!(post(at, path, Some(&a), &acquire("a-evil", 2)).await.status, 200);
    let own = json!({ "token": 1, "election": "team-a/x", "agent": "a-evil" });
    let taken = post(at, "/v1/fences/team-b%2Fproduction/admit", Some(&a), &own).await;
    assert_eq!((taken.status, taken.code().as_str()), (403, "forbidden"), "{taken:?}");
    let admit = json!({ "token": 1, "election": "team-b/deploy", "agent": "b-1" });
    let admitted = post(at, "/v1/fences/team-b%2Fproduction/admit", Some(&b), &admit).await;
    assert_eq!(admitted.status, 200, "{admitted:?}");
    // One that exists is refused in the same words as one that does not.
    let mut said = Vec::new();
    for resource in ["team-b%2Fproduction", "team-b%2Fnothing"] {
        for what in ["", "/log/0"] {
            let looked = get(at, &format!("/v1/fences/{resource}{what}"), Some(&a)).await;
            assert_eq!(looked.status, 403, "{looked:?}");
            said.push(looked.body);
        }
        let admitted = post(at, &format!("/v1/fences/{resource}/admit"), Some(&a), &own).await;
        assert_eq!(admitted.status, 403, "{admitted:?}");
        said.push(admitted.body);
    }
    assert!(said.iter().all(|body| *body == said[0]), "{said:?}");
    assert_eq!(get(at, "/v1/fences", Some(&a)).await.json(), json!([]));
    // Whoever names no election is not let in at first use, and later judged by one that it may speak of.
    let nameless = json!({ "token": 1, "agent": "b-1" });
    let first = post(at, "/v1/fences/team-b%2Fnew/admit", Some(&b), &nameless).await;
    assert_eq!((first.status, first.code().as_str()), (422, "invalid"), "{first:?}");
    let bound = post(at, "/v1/fences/team-b%2Fproduction/admit", Some(&b), &nameless).await;
    assert_eq!(bound.status, 200, "{bound:?}");
}

#[tokio::test]
async fn an_operator_binds_rebinds_and_frees_and_no_mark_goes_back() {
    let (setting, agent) = led().await;
    let at = setting.address;
    for (name, number) in [("team-b%2Fother", 2), ("team-b%2Fthird", 3)] {
        let path = format!("/v1/elections/{name}/acquire");
        assert_eq!(post(at, &path, Some(&agent), &acquire("b-2", number)).await.status, 200);
    }
    let show = async |election: &str| {
        let shown = json!({ "token": 1, "election": election });
        ask(&setting, &agent, "admit", &shown).await
    };
    assert_eq!(show("team-b/deploy").await.status, 200);
    assert_eq!(show("team-b/other").await.status, 422, "it is bound");
    let operator = setting.token(Role::Operator).await;
    let resource = ResourceName::new("team-b/svc").unwrap();
    let path = format!("{FENCE}/order");
    let order = async |key: &OperatorKey, change: FenceChange| {
        let found = setting.store.fences().get(&resource).await.unwrap().map(|view| view.fence);
        let order = key.sign_fence(&setting.info, resource.clone(), found.as_ref(), change);
        (post(at, &path, Some(&operator), &json!(order)).await, json!(order))
    };
    let bind = |name: &str| FenceChange::Bind { election: election(name) };
    let (stranger, _) = order(&OperatorKey::from_seed([9; 32]), bind("team-b/other")).await;
    refused_for_its_key(&stranger);
    let (bound, first) = order(&setting.operator, bind("team-b/other")).await;
    assert_eq!((bound.status, &bound.json()["election"]), (200, &json!("team-b/other")), "{bound:?}");
    assert_eq!(show("team-b/other").await.status, 200, "its tokens count from its own mark");
    assert_eq!(show("team-b/deploy").await.status, 422);
    assert_eq!(order(&setting.operator, FenceChange::Free).await.0.status, 200);
    assert_eq!(show("team-b/third").await.status, 200, "the next that is named takes it");
    let (back, _) = order(&setting.operator, bind("team-b/deploy")).await;
    assert_eq!((back.status, &back.json()["highest"]), (200, &json!(1)), "{back:?}");
    let replayed = post(at, &path, Some(&operator), &first).await;
    assert_eq!((replayed.status, replayed.code().as_str()), (422, "invalid"), "{replayed:?}");
    let elsewhere = post(at, "/v1/fences/team-b%2Felse/order", Some(&operator), &first).await;
    assert_eq!(elsewhere.status, 422, "{elsewhere:?}");
    let log = setting.store.fences().accepted(&resource).await.unwrap();
    let notes: Vec<&str> = log.iter().map(|entry| entry.note.as_str()).collect();
    assert!(notes.iter().any(|note| note.ends_with("bound it to team-b/other")), "{notes:?}");
    // Without a server the same holds.
    let direct = &setting.store;
    let stranger =
        direct.fences().bind(&OperatorKey::from_seed([9; 32]), &resource, &bind("team-b/third")).await;
    assert!(matches!(stranger, Err(baton::Error::Refused(Refusal::WrongKey { .. }))), "{stranger:?}");
    let third = direct.fences().bind(&setting.operator, &resource, &bind("team-b/third")).await.unwrap();
    assert_eq!((third.election.as_str(), third.highest), ("team-b/third", Epoch(1)));
}
