//! An example of each request, parameter and response: made from its schema, with sample values by type and by field.

use baton_api::endpoints::{ENDPOINTS, Endpoint, Media, Row};
use baton_election::Command;
use serde_json::{Map, Value, json};

use super::TYPES;

/// How deep an example goes.
const DEEPEST: usize = 8;

/// Puts an example beside every schema of a request, a parameter or a response.
pub(super) fn add(paths: &mut Map<String, Value>, types: &Map<String, Value>) {
    for row in &ENDPOINTS {
        let method = if row.request.is_some() { "post" } else { "get" };
        let Some(operation) = paths.get_mut(row.path).and_then(|path| path.get_mut(method)) else { continue };
        let builder = Builder { types, row };
        for parameter in operation["parameters"].as_array_mut().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap_or_default().to_string();
            parameter["example"] = builder.value(&parameter["schema"], &name, 0);
        }
        if let Some(body) = operation.pointer_mut("/requestBody/content/application~1json") {
            body["example"] = builder.value(&body["schema"], "", 0);
        }
        for content in
            operation["responses"]["200"]["content"].as_object_mut().into_iter().flat_map(Map::values_mut)
        {
            content["example"] = match row.media {
                Media::Json => builder.value(&content["schema"], "", 0),
                Media::Text | Media::Events | Media::Html | Media::File => json!(text(row)),
            };
        }
    }
}

/// The example of a response that is not JSON.
fn text(row: &Row) -> &'static str {
    match (row.endpoint, row.media) {
        (Endpoint::Health, _) => "ok\n",
        (_, Media::Text) => "baton_leader{election=\"nightly-report\"} 1\n",
        (_, Media::Events) => "id: 5f0c3a-42\nevent: change\ndata: {\"age_ms\":0,\"document\":{}}\n\n",
        (_, Media::Html) => "<!doctype html>",
        (_, Media::Json | Media::File) => "export {};",
    }
}

/// The variant of a choice that an endpoint shows.
fn variant(endpoint: Endpoint) -> &'static str {
    match endpoint {
        Endpoint::Acquire => "granted",
        Endpoint::Renew => "renewed",
        Endpoint::Release | Endpoint::Pass => "released",
        Endpoint::Checkpoint => "checkpointed",
        Endpoint::Acknowledge => "acknowledged",
        Endpoint::OrderTask => "accept",
        Endpoint::OrderStore | Endpoint::DraftStore => "resume",
        // The other commands on an election.
        _ if Command::NAMES.contains(&endpoint.row().name) => "done",
        _ => "",
    }
}

/// The type of the record that an endpoint shows, if it has a name.
fn record(endpoint: Endpoint) -> Option<&'static str> {
    match endpoint {
        Endpoint::Candidate => Some("Candidate"),
        Endpoint::Fence => Some("Fence"),
        Endpoint::Task => Some("Task"),
        Endpoint::Proposal => Some("Proposal"),
        Endpoint::Quota => Some("Quota"),
        Endpoint::Value => Some("Value"),
        Endpoint::Breaker => Some("Breaker"),
        Endpoint::Election => Some("Document"),
        _ => None,
    }
}

/// A sample of a type that has a name, or of a field.
fn sample(name: &str) -> Option<Value> {
    Some(match name {
        "ElectionName" => json!("nightly-report"),
        "ResourceName" => json!("warehouse/orders"),
        "AgentName" => json!("builder-1"),
        "ItemName" => json!("load-orders"),
        "WallTime" | "WallTimeAnswered" => json!("2026-01-28T08:00:00.000Z"),
        "Span" | "SpanAnswered" => json!("30s"),
        "Epoch" | "token" | "epoch" => json!(42),
        "file" => json!("app.js"),
        "part" => json!(0),
        "ttl_ms" | "lasts_ms" => json!(30_000),
        "remaining_ms" | "lease_ms" => json!(21_500),
        "wait_ms" | "notify_timeout_ms" => json!(1_000),
        "heartbeat_ms" => json!(3_000),
        "jitter_ms" => json!(300),
        "age_ms" | "silent_ms" => json!(1_200),
        "version" => json!("1042"),
        "limit" => json!(20),
        "after" => json!("archive"),
        "leases" => json!("nightly-report"),
        "Last-Event-ID" | "event" => json!("5f0c3a-42"),
        "server" => json!("5f0c3a"),
        "contact" | "Contact" => json!("http://10.0.0.7:8080"),
        "summary" => json!("orders loaded up to 17:00"),
        "task" | "title" => json!("load yesterday's orders"),
        "reason" => json!("the work is done"),
        "why" | "detail" | "what" => json!("no progress for ten minutes"),
        "hint" => json!("look at the agent's output"),
        "runbook" => json!("https://example.com/runbooks/no-leader"),
        "store" => json!("embedded:/var/lib/baton/elections.redb"),
        "body" => json!("from the warehouse, one file a day"),
        "result" => json!("17 files loaded"),
        "act" => json!("pause"),
        "note" => json!("load"),
        "state" => json!({ "loaded": 17 }),
        "value" => json!("17"),
        "host" | "origin" => json!("http://127.0.0.1:7411"),
        "last_address" => json!("10.0.0.7"),
        "ready" | "withdrawn" | "closed" | "accept" => json!(true),
        "text" | "via" => json!("{}"),
        _ => return None,
    })
}

/// The fields that an example shows although they may be absent or null.
const SHOWN: [&str; 12] = [
    "ttl_ms", "record", "version", "age_ms", "leader", "contact", "election", "agent", "title", "follows",
    "add", "uses",
];

struct Builder<'a> {
    types: &'a Map<String, Value>,
    row: &'a Row,
}

impl Builder<'_> {
    fn value(&self, schema: &Value, field: &str, depth: usize) -> Value {
        if let Some(name) = schema["$ref"].as_str().and_then(|to| to.strip_prefix(&format!("#{TYPES}/"))) {
            return match (sample(name), self.types.get(name)) {
                (Some(sample), _) => sample,
                (None, Some(schema)) => self.value(schema, field, depth),
                (None, None) => Value::Null,
            };
        }
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        if let Some(values) = schema["enum"].as_array() {
            return values.first().cloned().unwrap_or_default();
        }
        if field == "record"
            && let Some(schema) = record(self.row.endpoint).and_then(|name| self.types.get(name))
        {
            return self.value(schema, "", depth + 1);
        }
        if let Some(either) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
            return self.one_of(either, field, depth);
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.first().unwrap_or(&Value::Null),
            kind => kind,
        };
        match kind.as_str() {
            Some("object") => self.object(schema, depth),
            Some("array") if depth < DEEPEST => json!([self.value(&schema["items"], field, depth + 1)]),
            Some("array") => json!([]),
            Some("boolean") => sample(field).filter(Value::is_boolean).unwrap_or(json!(false)),
            Some("integer" | "number") => sample(field).filter(Value::is_number).unwrap_or_else(|| {
                schema["minimum"].as_u64().filter(|least| *least > 1).map_or(json!(1), |least| json!(least))
            }),
            Some("string") => string(schema, field),
            Some("null") => Value::Null,
            _ => sample(field).unwrap_or(json!({})),
        }
    }

    /// The variant that the endpoint shows, or the first.
    fn one_of(&self, either: &[Value], field: &str, depth: usize) -> Value {
        let wanted = variant(self.row.endpoint);
        let is_wanted = |one: &&Value| {
            one["const"] == wanted
                || one["properties"]
                    .as_object()
                    .is_some_and(|fields| fields.values().any(|field| field["const"] == wanted))
        };
        let one = either.iter().find(is_wanted).or(either.first());
        one.map(|one| self.value(one, field, depth + 1)).unwrap_or_default()
    }

    fn object(&self, schema: &Value, depth: usize) -> Value {
        let mut example = Map::new();
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let (is_required, is_shown) = (required.contains(&name.as_str()), SHOWN.contains(&name.as_str()));
            let may_be_null = field["type"].as_array().is_some_and(|kinds| kinds.contains(&json!("null")))
                || field["anyOf"]
                    .as_array()
                    .is_some_and(|either| either.contains(&json!({ "type": "null" })));
            let value = match (is_required, is_shown && depth < DEEPEST, may_be_null) {
                (_, true, _) | (true, _, false) => self.value(field, name, depth + 1),
                (true, false, true) => Value::Null,
                (false, false, _) => continue,
            };
            example.insert(name.clone(), value);
        }
        Value::Object(example)
    }
}

/// Text that fits: hexadecimal digits where the schema wants so many.
fn string(schema: &Value, field: &str) -> Value {
    let digits = schema["pattern"].as_str().and_then(|pattern| {
        let (_, count) = pattern.strip_suffix("}$")?.rsplit_once("]{")?;
        pattern.starts_with("^[0-9a-f").then(|| count.parse::<usize>().ok())?
    });
    match digits {
        Some(digits) => json!("3f8a41d2c07b95e6".chars().cycle().take(digits).collect::<String>()),
        None => sample(field).filter(Value::is_string).unwrap_or_else(|| json!("text")),
    }
}
