//! The interface, described for programs: from the table of routes and from what each takes and answers.

use http::Method;
use serde_json::{Map, Value, json};

use super::route::{Ask, ROUTES, Route};

/// OpenAPI 3.1.
pub(super) fn description() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in &ROUTES {
        let method = if route.method == Method::GET { "get" } else { "post" };
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Value::Object(path) = path {
            path.insert(method.to_string(), operation(route));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Baton",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Who is in charge of a fleet of agents: elections with leases and fencing tokens.",
            "license": { "name": "Apache-2.0 OR MIT" },
        },
        "paths": paths,
        "components": { "schemas": schemas() },
    })
}

fn operation(route: &Route) -> Value {
    let mut operation = json!({
        "operationId": name(route.ask),
        "summary": route.summary,
        "parameters": parameters(route),
        "responses": {
            "200": answer(route.ask),
            "default": { "description": "Why not", "content": { "application/problem+json": { "schema": of("Problem") } } },
        },
    });
    if let Some(body) = body(route.ask) {
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": body } } });
    }
    operation
}

fn name(ask: Ask) -> String {
    let mut name = format!("{ask:?}");
    name[..1].make_ascii_lowercase();
    name
}

fn of(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn parameters(route: &Route) -> Vec<Value> {
    let names = route.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    let in_path = names.map(|name| {
        let schema = if name == "part" { json!({ "type": "integer", "minimum": 0 }) } else { of("Name") };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    });
    let number = |name: &str, description: &str| {
        json!({ "name": name, "in": "query", "description": description,
                "schema": { "type": "integer", "minimum": 0, "maximum": u32::MAX } })
    };
    let more = match route.ask {
        Ask::Acquire => vec![number("wait_ms", "How long to wait in line, at most a minute")],
        Ask::History => vec![number("limit", "How many of the newest")],
        Ask::Watch => vec![json!({ "name": "Last-Event-ID", "in": "header", "schema": { "type": "string" },
                                   "description": "Go on after this event" })],
        _ => Vec::new(),
    };
    in_path.chain(more).collect()
}

fn body(ask: Ask) -> Option<Value> {
    Some(match ask {
        Ask::Acquire => of("Acquire"),
        Ask::Renew => of("Renew"),
        Ask::Release => of("Release"),
        Ask::Pass => of("Pass"),
        Ask::Checkpoint => of("Checkpoint"),
        Ask::Acknowledge => of("Acknowledge"),
        Ask::Report => of("Report"),
        Ask::Operate => of("Signed"),
        Ask::Enlist => of("Candidate"),
        Ask::Withdraw => {
            object(&[("agent", of("Name")), ("credential", of("Credential"))], &["agent", "credential"])
        }
        Ask::Batch => json!({ "type": "array", "items": of("Item") }),
        Ask::Admit => of("Admission"),
        Ask::KeepHold => object(
            &[("election", of("Name")), ("incarnation", of("Incarnation"))],
            &["election", "incarnation"],
        ),
        Ask::LeaveHold => object(&[("incarnation", of("Incarnation"))], &["incarnation"]),
        Ask::Operators => of("Signed"),
        Ask::Store
        | Ask::Elections
        | Ask::Election
        | Ask::Leader
        | Ask::History
        | Ask::Watch
        | Ask::Candidates
        | Ask::Candidate
        | Ask::Fences
        | Ask::Fence
        | Ask::FenceLog
        | Ask::Health
        | Ask::Ready
        | Ask::OpenApi => return None,
    })
}

fn answer(ask: Ask) -> Value {
    let (kind, schema) = match ask {
        Ask::Acquire
        | Ask::Renew
        | Ask::Release
        | Ask::Pass
        | Ask::Checkpoint
        | Ask::Acknowledge
        | Ask::Report
        | Ask::Operate => ("application/json", of("Decided")),
        Ask::Batch => (
            "application/json",
            json!({ "type": "array", "items": { "anyOf": [of("Decided"), of("Problem")] } }),
        ),
        Ask::Store | Ask::Election | Ask::Candidate | Ask::Fence | Ask::FenceLog => {
            ("application/json", of("Shown"))
        }
        Ask::Elections | Ask::Candidates | Ask::Fences => {
            ("application/json", json!({ "type": "array", "items": { "type": "string" } }))
        }
        Ask::Leader => (
            "application/json",
            object(
                &[("agent", of("Name")), ("epoch", of("Epoch")), ("remaining_ms", of("Milliseconds"))],
                &["agent", "epoch", "remaining_ms"],
            ),
        ),
        Ask::History => ("application/json", json!({ "type": "array", "items": { "type": "object" } })),
        Ask::Withdraw => {
            ("application/json", object(&[("withdrawn", json!({ "type": "boolean" }))], &["withdrawn"]))
        }
        Ask::Enlist => ("application/json", of("Candidate")),
        Ask::Admit | Ask::KeepHold | Ask::LeaveHold | Ask::Operators | Ask::Ready | Ask::OpenApi => {
            ("application/json", json!({ "type": "object" }))
        }
        Ask::Watch => ("text/event-stream", json!({ "type": "string" })),
        Ask::Health => ("text/plain; charset=utf-8", json!({ "type": "string" })),
    };
    json!({ "description": "Done", "content": { kind: { "schema": schema } } })
}

fn object(fields: &[(&str, Value)], required: &[&str]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, schema)| ((*name).to_string(), schema.clone())).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn hexadecimal(digits: usize) -> Value {
    json!({ "type": "string", "pattern": format!("^[0-9a-fA-F]{{{digits}}}$") })
}

fn or_null(schema: &Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

fn text() -> Value {
    json!({ "type": "string", "maxLength": 1024 })
}

fn number() -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX })
}

fn schemas() -> Map<String, Value> {
    let parts = [plain(), commands(), candidates_and_fences(), answers()];
    parts
        .into_iter()
        .filter_map(|part| if let Value::Object(part) = part { Some(part) } else { None })
        .flatten()
        .collect()
}

fn plain() -> Value {
    json!({
        "Name": { "type": "string", "minLength": 1, "maxLength": 64, "description": "Segments of a-z 0-9 . _ - joined by /" },
        "Epoch": { "type": "integer", "minimum": 0, "maximum": u64::MAX, "description": "The fencing token" },
        "Milliseconds": number(),
        "Incarnation": hexadecimal(16),
        "Credential": object(
            &[("incarnation", of("Incarnation")), ("key", hexadecimal(32))],
            &["incarnation", "key"],
        ),
        "Limits": object(
            &[
                ("time", json!({ "type": "string", "description": "Such as 10m" })),
                ("tokens", number()),
                ("renewals", number()),
                ("stall", json!({ "type": "string", "description": "Such as 10m" })),
            ],
            &[],
        ),
    })
}

fn acquire() -> Value {
    object(
        &[
            ("agent", of("Name")),
            ("incarnation", of("Incarnation")),
            ("key_hash", hexadecimal(64)),
            ("ttl_ms", or_null(&of("Milliseconds"))),
            ("task", or_null(&text())),
            ("capabilities", json!({ "type": "array", "items": { "type": "string" }, "maxItems": 64 })),
            ("limits", of("Limits")),
            ("reason", or_null(&text())),
            ("noticed_ms", or_null(&of("Milliseconds"))),
        ],
        &["agent", "incarnation", "key_hash"],
    )
}

fn commands() -> Value {
    let held = [("epoch", of("Epoch")), ("credential", of("Credential"))];
    let with = |more: &[(&'static str, Value)]| [&held[..], more].concat();
    let reference = object(&[("location", text()), ("sha256", hexadecimal(64))], &["location", "sha256"]);
    json!({
        "Acquire": acquire(),
        "Renew": object(
            &with(&[
                ("progress", json!({ "type": "boolean" })),
                ("spent_tokens", or_null(&number())),
                ("phase", json!({ "enum": ["synchronising", "serving", "draining", null] })),
                ("promotion_ms", or_null(&of("Milliseconds"))),
            ]),
            &["epoch", "credential"],
        ),
        "Release": object(
            &with(&[("reason", or_null(&text())), ("orphaned", json!({ "type": "boolean" }))]),
            &["epoch", "credential"],
        ),
        "Pass": object(&with(&[("to", of("Name")), ("reason", or_null(&text()))]), &["epoch", "credential", "to"]),
        "Checkpoint": object(
            &with(&[
                ("seq", number()),
                ("summary", text()),
                ("state", json!({})),
                ("reference", or_null(&reference)),
            ]),
            &["epoch", "credential", "seq", "summary", "state"],
        ),
        "Acknowledge": object(&with(&[("hash", hexadecimal(64))]), &["epoch", "credential", "hash"]),
        "Report": object(
            &[
                ("epoch", of("Epoch")),
                ("finding", json!({ "enum": ["validation", "budget", "stall"] })),
                ("detail", text()),
                ("by", of("Name")),
                ("credential", or_null(&of("Credential"))),
            ],
            &["epoch", "finding", "detail", "by"],
        ),
        "Signed": {
            "type": "object",
            "properties": { "order": { "type": "object" }, "by": hexadecimal(64), "signature": hexadecimal(128) },
            "required": ["order", "by", "signature"],
        },
        "Item": {
            "type": "object",
            "description": "The name of an election, and one command under its own name: acquire, renew, release, pass, checkpoint, acknowledge, report, operate, check",
            "properties": { "election": of("Name") },
            "required": ["election"],
        },
    })
}

fn candidates_and_fences() -> Value {
    let hold = object(
        &[("incarnation", of("Incarnation")), ("ttl_ms", of("Milliseconds"))],
        &["incarnation", "ttl_ms"],
    );
    json!({
        "Candidate": {
            "type": "object",
            "properties": {
                "election": of("Name"), "agent": of("Name"), "incarnation": of("Incarnation"), "key_hash": hexadecimal(64),
                "priority": { "type": "integer" }, "score": { "type": "integer" }, "load": number(),
                "capabilities": { "type": "array", "items": { "type": "string" } },
                "ttl_ms": of("Milliseconds"), "beat": number(), "withdrawn": { "type": "boolean" },
                "enlisted": { "type": "string" },
            },
            "required": ["election", "agent", "incarnation", "key_hash", "priority", "capabilities", "score", "load",
                         "ttl_ms", "beat", "withdrawn", "enlisted"],
        },
        "Admission": object(
            &[
                ("token", of("Epoch")),
                ("election", or_null(&of("Name"))),
                ("agent", or_null(&of("Name"))),
                ("note", text()),
                ("hold", or_null(&hold)),
            ],
            &["token"],
        ),
    })
}

fn answers() -> Value {
    json!({
        "Decided": {
            "type": "object",
            "properties": {
                "answer": { "type": "object" }, "ttl_ms": of("Milliseconds"), "document": { "type": "object" },
            },
            "required": ["answer"],
        },
        "Shown": {
            "type": "object",
            "properties": {
                "record": { "type": ["object", "null"] },
                "version": { "type": ["string", "null"] },
                "age_ms": or_null(&of("Milliseconds")),
            },
            "required": ["record", "version", "age_ms"],
        },
        "Problem": {
            "type": "object",
            "properties": {
                "type": { "type": "string" }, "title": { "type": ["string", "null"] }, "status": { "type": "integer" },
                "code": { "type": "string", "description": "Stable; the command prints the same" },
                "detail": { "type": "string" }, "hint": { "type": "string" },
            },
            "required": ["type", "title", "status", "code", "detail", "hint"],
        },
    })
}
