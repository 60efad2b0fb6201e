//! The interface, described for programs: OpenAPI 3.1, generated from the table of routes and from the types that are read and written.
//!
//! What is read and what is written of one type may differ: a field may be left out that is always shown. Such a type stands twice, the
//! one that is written with `Answered` behind its name.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use baton_api::endpoints::{ENDPOINTS, Media, Method, Right, Row, Values};
use baton_api::problem::ProblemResponse;
use baton_election::{AgentName, ElectionName, ItemName, ResourceName};
use baton_store::toolbox::State;
use bytes::Bytes;
use schemars::generate::SchemaSettings;
use schemars::{SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::page;

/// Where the types stand.
const TYPES: &str = "/components/schemas";
/// What is put behind the name of a type that is written in another way than it is read.
const ANSWERED: &str = "Answered";

/// The text of it, written once: everybody may ask for it.
pub(super) fn written() -> Bytes {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| description().to_string().into());
    TEXT.clone()
}

/// OpenAPI 3.1.
fn description() -> Value {
    let mut asked = generator(SchemaSettings::draft2020_12().for_deserialize());
    let mut answered = generator(SchemaSettings::draft2020_12().for_serialize());
    let operations: Vec<(&Row, Value, Value)> =
        ENDPOINTS.iter().map(|row| (row, request(row, &mut asked), responses(row, &mut answered))).collect();
    let (mut types, written) = (asked.take_definitions(true), answered.take_definitions(true));
    let differing = differing(&types, &written);
    for (name, schema) in written {
        types.insert(renamed(&name, &differing), repointed(schema, &differing));
    }
    let mut paths: Map<String, Value> = Map::new();
    for (row, mut operation, responses) in operations {
        operation["responses"] = repointed(responses, &differing);
        let method = if row.method == Method::Get { "get" } else { "post" };
        paths.entry(row.path).or_insert_with(|| json!({}))[method] = operation;
    }
    types.values_mut().for_each(bound);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Baton",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Who is in charge of a fleet of agents: elections with leases and fencing tokens.",
            "license": { "name": "Apache-2.0 OR MIT" },
        },
        "paths": paths,
        "components": {
            "schemas": types,
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "An access token (baton token create), or a JWT of the server's issuer; a client certificate takes the place of either" },
            },
        },
    })
}

fn generator(mut settings: SchemaSettings) -> SchemaGenerator {
    settings.definitions_path = TYPES.into();
    settings.meta_schema = None;
    settings.into_generator()
}

/// The types of both that are not the same, by themselves or by what they refer to.
fn differing(asked: &Map<String, Value>, answered: &Map<String, Value>) -> BTreeSet<String> {
    let mut differing: BTreeSet<String> = answered
        .iter()
        .filter(|(name, schema)| asked.get(*name).is_some_and(|other| other != *schema))
        .map(|(name, _)| name.clone())
        .collect();
    loop {
        let reached: Vec<String> = answered
            .iter()
            .filter(|(name, _)| asked.contains_key(*name) && !differing.contains(*name))
            .filter(|(_, schema)| repointed((*schema).clone(), &differing) != **schema)
            .map(|(name, _)| name.clone())
            .collect();
        if reached.is_empty() {
            return differing;
        }
        differing.extend(reached);
    }
}

fn renamed(name: &str, differing: &BTreeSet<String>) -> String {
    if differing.contains(name) { format!("{name}{ANSWERED}") } else { name.to_string() }
}

/// With every reference to one of these types changed to how it is written.
fn repointed(mut schema: Value, differing: &BTreeSet<String>) -> Value {
    match &mut schema {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                let name = value
                    .as_str()
                    .and_then(|text| text.strip_prefix('#')?.strip_prefix(TYPES)?.strip_prefix('/'));
                *value = match name {
                    Some(name) if key == "$ref" => json!(format!("#{TYPES}/{}", renamed(name, differing))),
                    _ => repointed(value.take(), differing),
                };
            }
        }
        Value::Array(array) => array.iter_mut().for_each(|value| *value = repointed(value.take(), differing)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    schema
}

/// Says how large a number may be.
fn bound(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            let bounds = match object.get("format").and_then(Value::as_str) {
                Some("uint64" | "uint") => Some((json!(0), json!(u64::MAX))),
                Some("uint32") => Some((json!(0), json!(u32::MAX))),
                Some("int64") => Some((json!(i64::MIN), json!(i64::MAX))),
                _ => None,
            };
            if let Some((least, most)) = bounds {
                object.insert("minimum".to_string(), least);
                object.insert("maximum".to_string(), most);
            }
            object.values_mut().for_each(bound);
        }
        Value::Array(array) => array.iter_mut().for_each(bound),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What an endpoint takes.
fn request(row: &Row, types: &mut SchemaGenerator) -> Value {
    let mut operation = json!({
        "operationId": row.name,
        "summary": row.summary,
        "parameters": parameters(row, types),
    });
    operation["x-right"] = json!(row.right.name());
    // Where no token is needed, none is what everybody shows.
    operation["security"] = if row.right == Right::Public { json!([]) } else { json!([{}, { "token": [] }]) };
    if let Some(schema) = row.request {
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema(types) } } });
        operation["requestBody"]["x-max-bytes"] = json!(row.max_body);
    }
    operation
}

fn parameters(row: &Row, types: &mut SchemaGenerator) -> Vec<Value> {
    let names = row.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    let in_path = names.map(|name| {
        let schema = match name {
            "election" => types.subschema_for::<ElectionName>(),
            "resource" => types.subschema_for::<ResourceName>(),
            "agent" => types.subschema_for::<AgentName>(),
            "file" => json_schema!({ "type": "string", "enum": page::NAMES }),
            "task" | "proposal" | "quota" | "value" | "breaker" => types.subschema_for::<ItemName>(),
            _ => types.subschema_for::<u64>(),
        };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    });
    let mut parameters: Vec<Value> = in_path.collect();
    for parameter in row.query {
        let schema = match parameter.values {
            Values::Number => json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX }),
            Values::UpTo(most) => json!({ "type": "integer", "minimum": 1, "maximum": most }),
            Values::Text => json!({ "type": "string" }),
            Values::Item => json!(types.subschema_for::<ItemName>()),
            Values::Agent => json!(types.subschema_for::<AgentName>()),
            Values::TaskState => json!(types.subschema_for::<State>()),
            Values::Resource => json!(types.subschema_for::<ResourceName>()),
            Values::Election => json!(types.subschema_for::<ElectionName>()),
        };
        let (name, summary) = (parameter.name, parameter.summary);
        parameters.push(json!({ "name": name, "in": "query", "description": summary, "schema": schema }));
    }
    if row.media == Media::Events {
        parameters.push(json!({ "name": "Last-Event-ID", "in": "header", "schema": { "type": "string" },
                                "description": "Go on after this event" }));
    }
    parameters.iter_mut().for_each(bound);
    parameters
}

/// What an endpoint answers.
fn responses(row: &Row, types: &mut SchemaGenerator) -> Value {
    let (kinds, schema) = (media_types(row.media), (row.response)(types));
    let problem = types.subschema_for::<ProblemResponse<'_>>();
    let content: Map<String, Value> =
        kinds.into_iter().map(|kind| (kind.to_string(), json!({ "schema": schema }))).collect();
    json!({
        "200": { "description": "Done", "content": content },
        "default": { "description": "Why not", "content": { "application/problem+json": { "schema": problem } } },
    })
}

fn media_types(media: Media) -> Vec<&'static str> {
    match media {
        Media::Json => vec!["application/json"],
        Media::Text => vec!["text/plain"],
        Media::Events => vec!["text/event-stream"],
        Media::Html => vec!["text/html"],
        Media::File => page::kinds(),
    }
}

#[cfg(test)]
mod reference;

#[cfg(test)]
mod tests {
    use super::*;

    /// Every name that is referred to.
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                if let Some(Value::String(to)) = object.get("$ref") {
                    found.insert(to.clone());
                }
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(array) => array.iter().for_each(|value| references(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let description = description();
        let mut found = BTreeSet::new();
        references(&description, &mut found);
        assert!(found.len() > 20, "{found:?}");
        for reference in found {
            let path = reference.strip_prefix('#').unwrap();
            assert!(description.pointer(path).is_some(), "{reference}");
        }
    }

    #[test]
    fn what_is_read_is_told_from_what_is_written() {
        let description = description();
        let types = &description["components"]["schemas"];
        assert_eq!(types["Acquire"]["required"], json!(["agent", "incarnation", "key_hash"]));
        assert_eq!(types["Acquire"]["additionalProperties"], json!(false));
        let shown = types["Candidate"]["properties"]["ttl_ms"]["maximum"].as_u64();
        assert_eq!(shown, Some(u64::MAX));
        assert!(
            types["WallTime"]["pattern"].is_string() && types["WallTimeAnswered"]["format"] == "date-time"
        );
    }

    #[test]
    fn each_route_is_described_once() {
        let description = description();
        let paths = description["paths"].as_object().unwrap();
        let operations: usize = paths.values().map(|path| path.as_object().unwrap().len()).sum();
        assert_eq!(operations, ENDPOINTS.len());
    }
}
