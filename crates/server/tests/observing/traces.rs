use baton_server::{Collector, Options};
use serde_json::{Value, json};

use super::test_server::{Page, QUIET, Taker, TestServer, warning_of};
use crate::security::client::{request, send};

fn traced(endpoint: &str) -> Options {
    let collector = Some(Collector::new(endpoint, "").unwrap());
    Options { collector, ..warning_of(QUIET) }
}

/// All spans that were sent, with the name of the service that sent them.
fn spans(taken: &[(String, Value)]) -> Vec<Value> {
    let mut all = Vec::new();
    for (path, body) in taken {
        assert_eq!(path, "/v1/traces");
        for resource in body["resourceSpans"].as_array().unwrap() {
            assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "baton");
            for scope in resource["scopeSpans"].as_array().unwrap() {
                all.extend(scope["spans"].as_array().unwrap().iter().cloned());
            }
        }
    }
    all
}

fn named<'a>(spans: &'a [Value], name: &str) -> Option<&'a Value> {
    spans.iter().find(|span| span["name"] == name)
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a str {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == key);
    found.unwrap_or_else(|| panic!("no {key} in {span}"))["value"]["stringValue"].as_str().unwrap()
}

#[tokio::test]
async fn commands_are_traced_as_part_of_what_they_belong_to() {
    let taker = Taker::start().await;
    let place = TestServer::open(traced(&taker.url())).await;
    let first = place.lead("e", "a").await;
    place.release("e", &first).await;
    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let credential = baton::mint_credential().unwrap();
    let acquire = json!({ "agent": "b", "incarnation": credential.incarnation, "key_hash": credential.key.hash(), "noticed_ms": 0 });
    let asked = |flags: &str, of: &str| {
        let text = request("POST", &format!("/v1/elections/{of}/acquire"), None, Some(&acquire));
        let header = format!("Host: localhost\r\ntraceparent: 00-{trace}-{parent}-{flags}\r\n");
        text.replacen("Host: localhost\r\n", &header, 1)
    };
    assert_eq!(send(place.address, &asked("01", "e")).await.status, 200);
    assert_eq!(send(place.address, &asked("00", "unrecorded")).await.status, 200);
    let taken = taker
        .takes(|taken| spans(taken).iter().filter(|span| span["name"] == "transition").count() == 3)
        .await;
    let spans = spans(&taken);
    let ours = spans.iter().find(|span| span["traceId"] == trace).unwrap();
    assert_eq!(
        (&ours["name"], &ours["parentSpanId"], &ours["kind"]),
        (&json!("acquire"), &json!(parent), &json!(2))
    );
    assert_eq!(attribute(ours, "baton.election"), "e");
    assert_eq!(attribute(ours, "http.response.status_code"), "200");
    let commands: Vec<&Value> = spans.iter().filter(|span| span["kind"] == 2).collect();
    assert!(!commands.iter().any(|span| attribute(span, "baton.election") == "unrecorded"), "{commands:?}");
    assert!(named(&spans, "release").is_some());

    // A change of leader, with the phases below it.
    let changed = spans.iter().find(|span| {
        span["name"] == "transition"
            && attribute(span, "baton.election") == "e"
            && attribute(span, "baton.epoch") != "1"
    });
    let changed = changed.unwrap();
    assert_eq!(attribute(changed, "baton.cause"), "release");
    assert_eq!(attribute(changed, "baton.kind"), "voluntary");
    assert_eq!((attribute(changed, "baton.from"), attribute(changed, "baton.leader")), ("a", "b"));
    let below: Vec<&str> = spans
        .iter()
        .filter(|span| span["traceId"] == changed["traceId"] && span["parentSpanId"] == changed["spanId"])
        .map(|span| span["name"].as_str().unwrap())
        .collect();
    assert!(below.contains(&"detection") && below.contains(&"election"), "{below:?}");
    let nanos = |span: &Value, field: &str| span[field].as_str().unwrap().parse::<u64>().unwrap();
    assert!(spans.iter().all(|span| nanos(span, "startTimeUnixNano") <= nanos(span, "endTimeUnixNano")));
    let sent = |page: &Page| page.value("baton_traces_sent_total") >= 3.0;
    assert_eq!(place.page_with(sent).await.value("baton_traces_dropped_total"), 0.0);
}

#[tokio::test]
async fn a_collector_that_is_away_costs_spans_and_nothing_else() {
    // Nobody listens there, and nobody else gets it.
    let gone = tokio::net::TcpSocket::new_v4().unwrap();
    gone.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let endpoint = format!("http://{}", gone.local_addr().unwrap());
    let place = TestServer::open(traced(&endpoint)).await;
    for number in 0..20 {
        place.lead(&format!("e-{number}"), "a").await;
    }
    let page = place.page_with(|page| page.value("baton_traces_dropped_total") > 0.0).await;
    assert_eq!(page.value("baton_traces_sent_total"), 0.0);
    assert_eq!(page.value("baton_leases"), 20.0);
}
