use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use baton::{Bid, Campaign, CheckpointContent, Renewal};
use baton_api::sessions::{Announce, Heartbeat, NewsRequest};
use baton_election::fence::Entry;
use baton_election::{Epoch, Incarnation};
use baton_server::{Options, Thresholds};
use baton_store::boot;
use serde_json::json;

use super::test_server::{Page, QUIET, TestServer, agent, election, warning_of};
use crate::security::client::{get, post};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names of metrics in a text.
fn names_in(text: &str) -> BTreeSet<String> {
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let plain = |name: &str| {
        let end = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        // Not every count is one of a histogram.
        end.filter(|stem| stem.ends_with("_seconds")).unwrap_or(name).to_string()
    };
    let names = text.split(word).filter(|word| word.starts_with("baton_") || word.starts_with("process_"));
    names.map(plain).collect()
}

#[tokio::test]
async fn the_list_of_metrics_is_what_is_printed_and_rules_and_dashboards_use_no_other() {
    let place = TestServer::open(Options::default()).await;
    let printed: BTreeSet<String> = place.page().await.metrics().into_iter().collect();
    assert!(printed.len() > 25, "{printed:?}");
    let listed = fs::read_to_string(root().join("docs/reference/metrics.md")).unwrap();
    let page = place.page().await.text;
    let causes = page.lines().filter_map(|line| line.strip_prefix("baton_transitions_total{cause=\""));
    for cause in causes.filter_map(|rest| rest.split('"').next()) {
        assert!(listed.contains(&format!("`{cause}`")), "{cause} is not listed");
    }
    let rows = listed.lines().filter_map(|line| line.strip_prefix("| `")?.split(['`', '{']).next());
    let listed: BTreeSet<String> = rows.map(ToString::to_string).collect();
    assert_eq!(listed, printed);
    for file in ["deploy/prometheus/baton.rules.yml", "deploy/grafana/baton.json"] {
        let used = names_in(&fs::read_to_string(root().join(file)).unwrap());
        let unknown: Vec<&String> = used.difference(&printed).collect();
        assert!(unknown.is_empty() && used.len() > 5, "{file} uses {unknown:?}");
    }
}

#[tokio::test]
async fn what_leaders_coordinate_with_is_counted() {
    let place = TestServer::open(warning_of(QUIET)).await;
    let first = place.lead("e", "a").await;
    let tools = place.client.toolbox(&election("e"));
    let mandate = |grant: &baton::Grant| baton::Mandate { token: grant.epoch, credential: grant.credential };
    let new = |id: &str| baton::toolbox::NewTask {
        id: Some(id.parse().unwrap()),
        title: "t".to_string(),
        size: 1,
        ..baton::toolbox::NewTask::default()
    };
    tools.add(Some(mandate(&first)), None, &[new("t"), new("u")]).await.unwrap();
    tools.assign(&"t".parse().unwrap(), mandate(&first), Some("b".parse().unwrap())).await.unwrap();
    place.release("e", &first).await;
    place.lead("e", "b").await;
    tools.assign(&"u".parse().unwrap(), mandate(&first), Some("b".parse().unwrap())).await.unwrap_err();
    let page = place.page().await;
    let commands = |command: &str, outcome: &str| {
        page.value(&format!("baton_toolbox_commands_total{{command=\"{command}\",outcome=\"{outcome}\"}}"))
    };
    assert_eq!((commands("add", "done"), commands("assign", "done")), (1.0, 1.0));
    assert_eq!((commands("assign", "refused"), commands("assign", "failed")), (1.0, 0.0));
    assert_eq!(page.value("baton_stale_tokens_refused_total{at=\"toolbox\"}"), 1.0);
    assert_eq!(page.value("baton_tasks{state=\"queued\"}"), 1.0);
    assert_eq!(page.value("baton_tasks{state=\"assigned\"}"), 1.0);
    assert_eq!((page.value("baton_toolbox_items"), page.value("baton_toolbox_waiting")), (2.0, 0.0));
    assert!(page.value("baton_toolbox_bytes") > 0.0);
}

#[tokio::test]
async fn what_happens_is_counted() {
    let place = TestServer::open(warning_of(QUIET)).await;
    let first = place.lead("e", "a").await;
    place.try_to_lead("e", "b").await.unwrap_err();
    for _ in 0..3 {
        place.client.renew(&election("e"), &Renewal::new(first.epoch, first.credential)).await.unwrap();
    }
    let stale = Renewal::new(Epoch(7), first.credential);
    place.client.renew(&election("e"), &stale).await.unwrap_err();
    let resource = "db".parse().unwrap();
    let entry = |token| Entry { resource: &resource, token, agent: None, note: "", hold: None };
    place.client.fences().admit(&entry(first.epoch), Some(&election("e"))).await.unwrap();
    let half = CheckpointContent {
        summary: "half".to_string(),
        state: "{}".to_string(),
        reference: None,
        covers: None,
    };
    place.client.checkpoint(&election("e"), first.epoch, first.credential, &half).await.unwrap();
    place.release("e", &first).await;
    let second = place.lead("e", "b").await;
    place.client.fences().admit(&entry(first.epoch), Some(&election("e"))).await.unwrap_err();
    let check = json!([{ "election": "e", "check": { "token": 1 } }]);
    assert_eq!(post(place.address, "/v1/batch", None, &check).await.status, 200);

    let page = place.page().await;
    assert_eq!(page.value("baton_transitions_total{cause=\"first\",kind=\"first\"}"), 1.0);
    assert_eq!(page.value("baton_transitions_total{cause=\"release\",kind=\"voluntary\"}"), 1.0);
    assert_eq!(page.value("baton_election_transitions_total{election=\"e\"}"), 2.0);
    assert_eq!(page.value("baton_leadership_seconds_count"), 1.0);
    assert_eq!(page.value("baton_acquires_refused_total{reason=\"held\"}"), 1.0);
    assert_eq!(page.value("baton_election_acquires_refused_total{election=\"e\"}"), 1.0);
    assert_eq!(page.value("baton_renewals_total{outcome=\"renewed\"}"), 3.0);
    assert_eq!(page.value("baton_renewals_total{outcome=\"refused\"}"), 1.0);
    assert_eq!(page.value("baton_renewal_seconds_count{way=\"single\"}"), 4.0);
    assert_eq!(page.value("baton_renewal_seconds_count{way=\"batch\"}"), 1.0);
    assert_eq!(page.value("baton_stale_tokens_refused_total{at=\"renew\"}"), 1.0);
    assert_eq!(page.value("baton_stale_tokens_refused_total{at=\"fence\"}"), 1.0);
    assert_eq!(page.value("baton_stale_tokens_refused_total{at=\"check\"}"), 1.0);
    assert_eq!(page.value("baton_leases"), 1.0);
    assert_eq!(page.value("baton_elections"), 1.0);
    assert!(page.value("baton_store_write_seconds_count") >= 4.0);
    assert_eq!(page.value("baton_requests_total{route=\"acquire\",status=\"4xx\"}"), 1.0);
    assert_eq!(page.value("baton_requests_total{route=\"renew\",status=\"2xx\"}"), 3.0);
    assert_eq!(page.value("baton_server_active"), 1.0);
    get(place.address, "/nothing", None).await;
    let left = place.client.view(&election("e")).await.unwrap().document.unwrap().checkpoint.unwrap();
    place.client.acknowledge(&election("e"), second.epoch, second.credential, &left).await.unwrap();
    let page = place.page().await;
    assert_eq!(page.value("baton_requests_total{route=\"none\",status=\"4xx\"}"), 1.0);
    assert_eq!(page.value("baton_transition_phase_seconds_count{phase=\"synchronisation\"}"), 1.0);
}

#[tokio::test]
async fn who_waits_in_line_is_counted_while_it_waits() {
    let place = TestServer::open(warning_of(QUIET)).await;
    let first = place.lead("e", "a").await;
    let client = place.client.clone();
    let waiting = tokio::spawn(async move {
        client.campaign(&election("e"), Campaign::new(Bid::new(agent("b")))).await.unwrap()
    });
    let page = place.page_with(|page| page.value("baton_waiting") == 1.0).await;
    assert_eq!(page.value("baton_election_waiting{election=\"e\"}"), 1.0);
    assert_eq!(page.value("baton_election_waiting{election=\"(others)\"}"), 0.0);
    place.release("e", &first).await;
    waiting.await.unwrap().release("done").await.unwrap();
    let page = place.page_with(|page| page.value("baton_waiting") == 0.0).await;
    assert_eq!(page.value("baton_transitions_total{cause=\"release\",kind=\"voluntary\"}"), 1.0);
}

/// Tells who follows that it follows, and nothing else.
async fn follow_in_silence(place: &TestServer) -> NewsRequest {
    let there = place.client.backend().sessions().unwrap();
    let mut credential = baton::mint_credential().unwrap();
    credential.incarnation = Incarnation([9; 8]);
    let announce = Announce {
        agent: agent("silent"),
        credential,
        number: 1,
        follows: vec![election("e")],
        leases: Vec::new(),
    };
    there.announce(&announce).await.unwrap();
    NewsRequest { credential, acknowledged: None, wait_ms: 0 }
}

#[tokio::test]
async fn participation_is_what_was_acknowledged() {
    let place = TestServer::open(warning_of(QUIET)).await;
    let session = place.client.announce(&agent("f")).await.unwrap();
    let _follower = session.follow(&election("e")).await.unwrap();
    let first = place.lead("e", "a").await;
    let counted = |page: &Page| page.value("baton_participation_acknowledged_total") == 1.0;
    let page = place.page_with(counted).await;
    assert_eq!(page.value("baton_participation_expected_total"), 1.0);
    assert_eq!(page.value("baton_transition_phase_seconds_count{phase=\"notification\"}"), 1.0);
    assert_eq!(page.value("baton_election_participation_ratio{election=\"e\"}"), 1.0);
    assert_eq!(page.value("baton_sessions"), 1.0);
    let history = place.client.history(&election("e"), 9).await.unwrap();
    assert!(history[0].phases.notification.is_some(), "it is in the history, too: {history:?}");

    // Another follows and does not answer.
    let mut ask = follow_in_silence(&place).await;
    place.release("e", &first).await;
    let second = place.lead("e", "b").await;
    let half = |page: &Page| page.get("baton_election_participation_ratio{election=\"e\"}") == Some(0.5);
    place.page_with(half).await;

    // It answers after all.
    let there = place.client.backend().sessions().unwrap();
    ask.acknowledged = Some(there.news(&ask).await.unwrap().unwrap().event);
    there.news(&ask).await.unwrap().unwrap();
    let page = place.page().await;
    assert_eq!(page.value("baton_election_participation_ratio{election=\"e\"}"), 1.0);
    assert_eq!(page.value("baton_participation_expected_total"), 3.0);
    assert_eq!(page.value("baton_participation_acknowledged_total"), 3.0);
    assert!(second.epoch > first.epoch);
    place.release("e", &second).await;
    let third = place.lead("e", "c").await;
    let history = place.client.history(&election("e"), 9).await.unwrap();
    let before: Vec<_> = history.iter().filter(|one| one.epoch < third.epoch).collect();
    assert!(before.len() == 2 && before.iter().all(|one| one.phases.notification.is_some()), "{history:?}");
}

/// Who says that it follows no more is not missed, and nobody waits a minute for it.
#[tokio::test]
async fn who_follows_no_more_is_excused_and_the_others_are_counted() {
    let place = TestServer::open(warning_of(QUIET)).await;
    let session = place.client.announce(&agent("f")).await.unwrap();
    let _follower = session.follow(&election("e")).await.unwrap();
    let ask = follow_in_silence(&place).await;
    place.lead("e", "a").await;
    let ratio = |page: &Page| page.get("baton_election_participation_ratio{election=\"e\"}");
    let page = place.page_with(|page| ratio(page) == Some(0.5)).await;
    assert_eq!(page.value("baton_participation_expected_total"), 0.0, "it still has time to answer");
    let there = place.client.backend().sessions().unwrap();
    let leaves = Heartbeat {
        credential: ask.credential,
        number: 2,
        add: Vec::new(),
        drop: Vec::new(),
        follows: Some(Vec::new()),
        health: None,
        progress: None,
        description: None,
        leads: None,
    };
    there.heartbeat(&leaves).await.unwrap().unwrap();
    let page = place.page().await;
    assert_eq!(ratio(&page), Some(1.0));
    assert_eq!(page.value("baton_participation_expected_total"), 1.0);
    assert_eq!(page.value("baton_participation_acknowledged_total"), 1.0);
}

#[tokio::test]
async fn time_without_a_leader_is_counted_while_somebody_waits() {
    let place = TestServer::open(warning_of(QUIET)).await;
    let first = place.lead("e", "a").await;
    // Before it is released: the answer may take its time.
    let alone = boot::now();
    place.release("e", &first).await;
    let session = place.client.announce(&agent("f")).await.unwrap();
    let _follower = session.follow(&election("e")).await.unwrap();
    let counted = |page: &Page| page.value("baton_leaderless_seconds_total") > 0.5;
    let page = place.page_with(counted).await;
    assert_eq!(page.value("baton_leaderless_elections"), 1.0);
    assert!(page.value("baton_election_leaderless_seconds{election=\"e\"}") > 0.0);
    #[expect(clippy::cast_precision_loss, reason = "a bound")]
    let most = boot::now().since(alone).as_millis() as f64 / 1_000.0;
    assert!(page.value("baton_leaderless_seconds_total") <= most + 0.001, "not more than there was");
    place.lead("e", "b").await;
    place.page_with(|page| page.value("baton_leaderless_elections") == 0.0).await;
}

#[tokio::test]
async fn only_so_many_elections_have_series_of_their_own() {
    let place = TestServer::open(warning_of(Thresholds { flapping: None, ..QUIET })).await;
    let many = 1_200;
    for number in 0..many {
        place.lead(&format!("e-{number}"), "a").await;
    }
    let page = place.page().await;
    let of = page.of("baton_election_transitions_total");
    assert_eq!(of.len(), 1_001, "a thousand, and all others as one");
    assert_eq!(of.iter().sum::<f64>(), f64::from(many));
    assert_eq!(page.value("baton_election_transitions_total{election=\"(others)\"}"), 200.0);
    assert_eq!(page.value("baton_leases"), f64::from(many));
    assert!(!page.text.contains("agent"), "nothing is counted of agents");
}
