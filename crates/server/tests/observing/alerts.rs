//! Each alert, caused for real, told by `/v1/alerts`, by a metric and by a webhook.

use baton::{Bid, Campaign, Region};
use baton_api::describe::Suspicion;
use baton_api::sessions::{Announce, LeadershipClaim, MAX_CLAIMS};
use baton_election::time::Span;
use baton_server::{Rate, Thresholds};
use serde_json::Value;

use super::test_server::{QUIET, Taker, TestServer, agent, election, warning_of};

const HOUR: Span = Span::secs(3_600);

/// What a webhook was told of alerts: name, state, election.
fn told(taken: &[(String, Value)]) -> Vec<(String, String, String)> {
    let alerts = taken.iter().map(|(_, body)| body).filter(|body| body["type"] == "alert");
    let text = |body: &Value, field: &str| body[field].as_str().unwrap().to_string();
    alerts.map(|body| (text(body, "alert"), text(body, "state"), text(body, "election"))).collect()
}

async fn is_told(hook: &Taker, alert: &str, state: &str, election: &str) -> Vec<(String, Value)> {
    let wanted = (alert.to_string(), state.to_string(), election.to_string());
    hook.takes(|taken| told(taken).contains(&wanted)).await
}

#[tokio::test]
async fn no_leader_is_told_of_and_when_there_is_one_again() {
    let hook = Taker::start().await;
    let options = warning_of(Thresholds { no_leader: Some(Span::secs(1)), ..QUIET });
    let place = TestServer::telling(options, Some(&hook)).await;
    let first = place.lead("e", "a").await;
    let unwanted = place.lead("unwanted", "a").await;
    let session = place.client.announce(&agent("f")).await.unwrap();
    let _follower = session.follow(&election("e")).await.unwrap();
    place.alerts_become(&[]).await;
    place.release("e", &first).await;
    place.release("unwanted", &unwanted).await;
    let alerts = place.alerts_become(&[("no-leader", "e")]).await;
    assert_eq!(alerts[0]["severity"], "alert");
    assert_eq!(alerts[0]["runbook"], "docs/operations/no-leader.md");
    assert!(alerts[0]["what"].as_str().unwrap().starts_with("nobody has led `e` for "), "{alerts:?}");
    let page = place.page().await;
    assert_eq!(page.value("baton_alerts_active{alert=\"no-leader\",severity=\"alert\"}"), 1.0);
    is_told(&hook, "no-leader", "firing", "e").await;

    place.lead("e", "b").await;
    place.alerts_become(&[]).await;
    let taken = is_told(&hook, "no-leader", "resolved", "e").await;
    assert_eq!(told(&taken).len(), 2, "each once: {taken:?}");
    let resolved = taken.iter().map(|(_, body)| body).find(|body| body["state"] == "resolved").unwrap();
    assert_eq!((resolved["number"].as_u64(), resolved["missed"].as_u64()), (Some(2), Some(0)));
}

#[tokio::test]
async fn an_election_that_was_never_led_does_not_miss_a_leader() {
    let place = TestServer::open(warning_of(Thresholds { no_leader: Some(Span::millis(1)), ..QUIET })).await;
    let session = place.client.announce(&agent("f")).await.unwrap();
    let _follower = session.follow(&election("never")).await.unwrap();
    let _other = session.follow(&election("e")).await.unwrap();
    let first = place.lead("e", "a").await;
    place.release("e", &first).await;
    // The one proves that the other was looked at.
    place.alerts_become(&[("no-leader", "e")]).await;
}

/// Whom the rules bar stands in no line, and wants it all the same.
#[tokio::test]
async fn what_is_kept_for_somebody_who_does_not_come_misses_a_leader() {
    let place = TestServer::open(warning_of(Thresholds { no_leader: Some(Span::secs(1)), ..QUIET })).await;
    let first = place.lead("e", "a").await;
    let (of, gone) = (election("e"), agent("gone"));
    place.client.pass(&of, first.epoch, first.credential, &gone, None).await.unwrap();
    let barred = place.try_to_lead("e", "b").await.unwrap_err();
    assert!(barred.to_string().contains("kept for gone"), "{barred}");
    let alerts = place.alerts_become(&[("no-leader", "e")]).await;
    assert!(
        alerts[0]["what"].as_str().unwrap().ends_with("who asks may not lead by the rules"),
        "{alerts:?}"
    );
}

#[tokio::test]
async fn flapping_is_told_of() {
    let hook = Taker::start().await;
    let flapping = Some(Rate { count: 3, window: HOUR });
    let place = TestServer::telling(warning_of(Thresholds { flapping, ..QUIET }), Some(&hook)).await;
    for number in 0..4 {
        let grant = place.lead("e", &format!("agent-{number}")).await;
        place.release("e", &grant).await;
        let calm = place.lead(&format!("calm-{number}"), "a").await;
        assert!(calm.epoch.0 > 0);
    }
    let alerts = place.alerts_become(&[("flapping", "e")]).await;
    assert_eq!(alerts[0]["what"], "`e` changed its leader 4 times in 1h");
    is_told(&hook, "flapping", "firing", "e").await;
}

#[tokio::test]
async fn high_contention_is_told_of() {
    let hook = Taker::start().await;
    let contention = Some(Rate { count: 10, window: HOUR });
    let place = TestServer::telling(warning_of(Thresholds { contention, ..QUIET }), Some(&hook)).await;
    place.lead("e", "a").await;
    for number in 0..11 {
        place.try_to_lead("e", &format!("agent-{number}")).await.unwrap_err();
    }
    place.alerts_become(&[("high-contention", "e")]).await;
    is_told(&hook, "high-contention", "firing", "e").await;
}

/// The leader of a region that waits for the fleet only looks, and asks when the fleet is free.
#[tokio::test]
async fn regions_that_wait_for_their_fleet_are_no_contention() {
    let place = TestServer::open(warning_of(QUIET)).await;
    let of_region = async |region: &str, by: &str| {
        let bid = Bid { ttl: Some(Span::secs(60)), ..Bid::new(agent(by)) };
        let led = place.client.campaign(&election(region), Campaign::new(bid.clone())).await.unwrap();
        let bid = Bid { region: Some(Region::of(&led)), ..bid };
        (led, bid)
    };
    let ((_eu, first), (_us, second)) = (of_region("fleet/eu", "a").await, of_region("fleet/us", "b").await);
    let fleet = place.client.campaign(&election("fleet"), Campaign::new(first)).await.unwrap();
    let waits = Campaign { bid: second.clone(), wait: Some(Span::secs(1)) };
    let waited = place.client.campaign(&election("fleet"), waits).await;
    assert!(matches!(waited, Err(baton::Error::WaitedLongEnough { .. })));
    let refused = "baton_election_acquires_refused_total{election=\"fleet\"}";
    assert_eq!(place.page().await.value(refused), 0.0);
    fleet.release("").await.unwrap();
    place.client.campaign(&election("fleet"), Campaign::new(second)).await.unwrap();
}

#[tokio::test]
async fn two_who_say_that_they_lead_are_told_of_and_one_after_the_other_is_not() {
    let hook = Taker::start().await;
    let place = TestServer::telling(warning_of(QUIET), Some(&hook)).await;
    let avowal = |term| vec![LeadershipClaim { election: election("group"), term }];
    let (a, b) = (
        place.client.announce(&agent("peer-1")).await.unwrap(),
        place.client.announce(&agent("peer-2")).await.unwrap(),
    );
    // One after the other: what was said before proves nothing.
    a.avow(avowal(1)).unwrap();
    heard(&place, "peer-1", Some(1)).await;
    a.avow(Vec::new()).unwrap();
    heard(&place, "peer-1", None).await;
    b.avow(avowal(2)).unwrap();
    heard(&place, "peer-2", Some(2)).await;
    place.alerts_become(&[]).await;
    // Both at once, and each says so again.
    a.avow(avowal(3)).unwrap();
    let alerts = place.alerts_become(&[("two-leaders", "group")]).await;
    let what = alerts[0]["what"].as_str().unwrap();
    assert!(what.contains("peer-1 in term 3") && what.contains("peer-2 in term 2"), "{what}");
    is_told(&hook, "two-leaders", "firing", "group").await;
    b.avow(Vec::new()).unwrap();
    place.alerts_become(&[]).await;
    is_told(&hook, "two-leaders", "resolved", "group").await;
    let too_many = (0..=MAX_CLAIMS)
        .map(|number| LeadershipClaim { election: election(&format!("g-{number}")), term: 1 });
    assert!(a.avow(too_many.collect()).is_err());
}

/// Waits until the server has heard what an agent leads by its own word.
async fn heard(place: &TestServer, by: &str, term: Option<u64>) {
    let heard = async {
        loop {
            let sessions = place.client.sessions().await.unwrap();
            let session = sessions.iter().find(|session| session.agent.as_str() == by);
            if session.is_some_and(|session| session.leads.first().map(|avowal| avowal.term) == term) {
                return;
            }
        }
    };
    tokio::time::timeout(crate::security::client::HANG, heard).await.expect("it is not heard");
}

#[tokio::test]
async fn warnings_are_of_frequent_and_slow_changes() {
    let elections = Some(Rate { count: 1, window: HOUR });
    let limits = Thresholds { elections, transition: Some(Span::millis(50)), ..QUIET };
    let place = TestServer::open(warning_of(limits)).await;
    let first = place.lead("e", "a").await;
    place.release("e", &first).await;
    place.alerts_become(&[]).await;
    // Nobody leads for longer than a change may take.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    place.lead("e", "b").await;
    let alerts = place.alerts_become(&[("frequent-elections", "e"), ("slow-transition", "e")]).await;
    assert!(alerts.iter().all(|alert| alert["severity"] == "warning"), "{alerts:?}");
}

#[tokio::test]
async fn a_follower_that_does_not_answer_is_told_of() {
    let place = TestServer::open(warning_of(Thresholds { participation: Some(100), ..QUIET })).await;
    let there = place.client.backend().sessions().unwrap();
    let announce = Announce {
        agent: agent("silent"),
        credential: baton::mint_credential().unwrap(),
        number: 1,
        follows: vec![election("e")],
        leases: Vec::new(),
    };
    there.announce(&announce).await.unwrap();
    place.lead("e", "a").await;
    let alerts = place.alerts_become(&[("low-participation", "e")]).await;
    assert_eq!(alerts[0]["what"], "0 of 1 that follow `e` have acknowledged its last change of leader");
}

#[tokio::test]
async fn a_leader_that_falls_silent_while_its_lease_runs_is_told_of() {
    let hook = Taker::start().await;
    let suspicion = Some(Suspicion::of(1.0));
    let place = TestServer::telling(warning_of(Thresholds { suspicion, ..QUIET }), Some(&hook)).await;
    let grant = place.lead_for("e", "a", Span::secs(600)).await;
    let there = place.client.backend().sessions().unwrap();
    let session = baton::mint_credential().unwrap();
    let announce = Announce {
        agent: agent("a"),
        credential: session,
        number: 1,
        follows: vec![election("e")],
        leases: Vec::new(),
    };
    there.announce(&announce).await.unwrap();
    let alerts = place.alerts_become(&[("suspected-leader", "e")]).await;
    assert_eq!(alerts[0]["severity"], "warning");
    assert_eq!(alerts[0]["runbook"], "docs/operations/suspected-leader.md");
    let what = alerts[0]["what"].as_str().unwrap();
    assert!(what.starts_with("a leads `e` and has been silent for "), "{what}");
    let page = place.page().await;
    assert_eq!(page.value("baton_alerts_active{alert=\"suspected-leader\",severity=\"warning\"}"), 1.0);
    is_told(&hook, "suspected-leader", "firing", "e").await;
    let view = place.client.view(&election("e")).await.unwrap();
    assert_eq!(view.leader().unwrap().epoch, grant.epoch, "it decides nothing");

    // It lives: a renewal shows that as well as a heartbeat.
    let renewal = baton::Renewal::new(grant.epoch, grant.credential);
    place.client.renew(&election("e"), &renewal).await.unwrap();
    is_told(&hook, "suspected-leader", "resolved", "e").await;
}
