//! Spans as OTLP writes them in JSON.

use std::fmt::Write;

use serde_json::{Value, json};

/// What a span is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Internal,
    Server,
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Kind::Internal => 1,
            Kind::Server => 2,
        }
    }
}

/// Something that took some time.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) trace: [u8; 16],
    pub(super) id: [u8; 8],
    pub(super) parent: Option<[u8; 8]>,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// In nanoseconds since 1970.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) attributes: Vec<(&'static str, String)>,
    pub(super) failed: bool,
}

/// One request with all of these.
pub(super) fn written(spans: &[Span]) -> Vec<u8> {
    let spans: Vec<Value> = spans.iter().map(shown).collect();
    let version = env!("CARGO_PKG_VERSION");
    let request = json!({ "resourceSpans": [{
        "resource": { "attributes": [attribute("service.name", "baton"), attribute("service.version", version)] },
        "scopeSpans": [{ "scope": { "name": "baton", "version": version }, "spans": spans }],
    }]});
    request.to_string().into_bytes()
}

fn shown(span: &Span) -> Value {
    let attributes: Vec<Value> = span.attributes.iter().map(|(key, value)| attribute(key, value)).collect();
    let mut shown = json!({
        "traceId": hex(&span.trace),
        "spanId": hex(&span.id),
        "name": span.name,
        "kind": span.kind.number(),
        // Numbers of 64 bits are texts in this encoding.
        "startTimeUnixNano": span.start.to_string(),
        "endTimeUnixNano": span.end.to_string(),
        "attributes": attributes,
    });
    if let Some(parent) = &span.parent {
        shown["parentSpanId"] = json!(hex(parent));
    }
    if span.failed {
        shown["status"] = json!({ "code": 2 });
    }
    shown
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
