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

mod errors;
mod examples;
#[cfg(test)]
mod reference;

/// What the interface is for, and what holds for all of it.
const DESCRIPTION: &str = "Elections with leases and fencing tokens for a fleet of agents. \
    A `/` in the name of an election or a resource is written `%2F` in a path. \
    Numbers are whole, up to 2^64 - 1; tools that read numbers as floats show that bound rounded. \
    An error is `application/problem+json` with a stable `code`; each operation lists its codes as `x-codes`.";

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
    types.values_mut().for_each(finish);
    examples::add(&mut paths, &types);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Baton",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
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

/// Says how large a number may be, and that a field without a type takes any JSON.
fn finish(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::String(text)) = object.get_mut("description") {
                // A link into the code is none here.
                *text = text.replace("[`", "`").replace("`]", "`");
            }
            for field in object.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
                any_json(field.1);
            }
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
            object.values_mut().for_each(finish);
        }
        Value::Array(array) => array.iter_mut().for_each(finish),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Gives a field that takes any JSON a type.
fn any_json(field: &mut Value) {
    const SAYS: [&str; 6] = ["type", "$ref", "oneOf", "anyOf", "allOf", "enum"];
    let any = json!(["object", "array", "string", "number", "boolean", "null"]);
    match field {
        Value::Bool(true) => *field = json!({ "type": any }),
        Value::Object(schema)
            if schema.get("const").is_none() && SAYS.iter().all(|key| !schema.contains_key(*key)) =>
        {
            schema.insert("type".to_string(), any);
        }
        _ => {}
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
        let description = match name {
            "election" | "resource" => format!("The name of the {name}; a `/` in it is written `%2F`"),
            "part" => "The number of the part, from 0".to_string(),
            "file" => "The name of the file".to_string(),
            other => format!("The name of the {other}"),
        };
        json!({ "name": name, "in": "path", "required": true, "description": description, "schema": schema })
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
    parameters.iter_mut().for_each(finish);
    parameters
}

/// What an endpoint answers.
fn responses(row: &Row, types: &mut SchemaGenerator) -> Value {
    let (kinds, schema) = (media_types(row.media), (row.response)(types));
    let problem = json!(types.subschema_for::<ProblemResponse<'_>>());
    let content: Map<String, Value> =
        kinds.into_iter().map(|kind| (kind.to_string(), json!({ "schema": schema }))).collect();
    let mut responses = json!(errors::responses(row, &problem));
    responses["200"] = json!({ "description": "Done", "content": content });
    responses["default"] = json!({
        "description": "Any other error", "content": { "application/problem+json": { "schema": problem } },
    });
    responses
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

    /// Why a value does not fit a schema, of the keywords that are used here.
    fn misfit(types: &Value, schema: &Value, value: &Value) -> Result<(), String> {
        let fail = |why: &str| Err(format!("{value} {why} in {schema}"));
        if schema == &json!(true) {
            return Ok(());
        }
        if let Some(to) = schema["$ref"].as_str() {
            return misfit(types, &types[to.rsplit('/').next().unwrap()], value);
        }
        for key in ["oneOf", "anyOf"] {
            if let Some(either) = schema[key].as_array() {
                let fits = either.iter().filter(|one| misfit(types, one, value).is_ok()).count();
                if fits == 0 || key == "oneOf" && fits > 1 {
                    return fail(&format!("fits {fits} of {key}"));
                }
            }
        }
        schema["allOf"].as_array().into_iter().flatten().try_for_each(|one| misfit(types, one, value))?;
        if schema.get("const").is_some_and(|only| only != value)
            || schema["enum"].as_array().is_some_and(|values| !values.contains(value))
        {
            return fail("is not one of the values");
        }
        let is = |kind: &str| match kind {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            "integer" => value.is_u64() || value.is_i64(),
            "number" => value.is_number(),
            other => panic!("{other} is no type"),
        };
        let kinds = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            Value::String(kind) => vec![kind.as_str()],
            _ => Vec::new(),
        };
        if !kinds.is_empty() && !kinds.iter().any(|kind| is(kind)) {
            return fail("has another type");
        }
        if let (Some(number), least, most) = (value.as_u64(), &schema["minimum"], &schema["maximum"])
            && (least.as_u64().is_some_and(|least| number < least)
                || most.as_u64().is_some_and(|most| number > most))
        {
            return fail("is out of bounds");
        }
        if let (Some(text), Some(pattern)) = (value.as_str(), schema["pattern"].as_str())
            && !regex::Regex::new(pattern).unwrap().is_match(text)
        {
            return fail("does not match");
        }
        for item in value.as_array().into_iter().flatten() {
            misfit(types, &schema["items"], item)?;
        }
        misfit_object(types, schema, value)
    }

    fn misfit_object(types: &Value, schema: &Value, value: &Value) -> Result<(), String> {
        let Some(object) = value.as_object() else { return Ok(()) };
        let mut required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if let Some(absent) = required.find(|name| !object.contains_key(*name)) {
            return Err(format!("{value} has no {absent}"));
        }
        for (name, field) in object {
            match (&schema["properties"][name], &schema["additionalProperties"]) {
                (Value::Null, Value::Bool(false)) => return Err(format!("{name} is not known in {value}")),
                (Value::Null, values @ Value::Object(_)) => misfit(types, values, field)?,
                (Value::Null, _) => {}
                (known, _) => misfit(types, known, field)?,
            }
        }
        Ok(())
    }

    #[test]
    fn every_example_fits_its_schema() {
        let description = description();
        let types = &description["components"]["schemas"];
        let (mut checked, mut misfits) = (0, Vec::new());
        let mut check = |place: &str, content: &Value| match content.get("example") {
            Some(example) => {
                misfits.extend(
                    misfit(types, &content["schema"], example).err().map(|why| format!("{place}: {why}")),
                );
            }
            None => misfits.push(format!("{place} has no example")),
        };
        for operations in description["paths"].as_object().unwrap().values() {
            for operation in operations.as_object().unwrap().values() {
                let name = operation["operationId"].as_str().unwrap();
                let request = operation.pointer("/requestBody/content/application~1json");
                request.into_iter().for_each(|request| check(name, request));
                for parameter in operation["parameters"].as_array().unwrap() {
                    check(&format!("{name} {}", parameter["name"]), parameter);
                }
                for (status, response) in operation["responses"].as_object().unwrap() {
                    for content in response["content"].as_object().unwrap().values() {
                        if status != "default" {
                            check(&format!("{name} {status}"), content);
                            checked += 1;
                        }
                    }
                }
            }
        }
        assert!(checked > 5 * ENDPOINTS.len(), "{checked}");
        assert!(misfits.is_empty(), "{}", misfits.join("\n"));
    }

    #[test]
    fn a_value_that_does_not_fit_is_found() {
        let types = json!({ "Hex": { "type": "string", "pattern": "^[0-9a-f]{4}$" } });
        let hex = json!({ "$ref": "#/components/schemas/Hex" });
        let schema = json!({ "type": "object", "required": ["a"], "additionalProperties": false,
            "properties": { "a": hex, "b": { "anyOf": [{ "type": "null" }, { "type": "integer", "minimum": 1 }] } } });
        assert_eq!(misfit(&types, &schema, &json!({ "a": "00ff", "b": 1 })), Ok(()));
        for bad in [
            json!({}),
            json!({ "a": "00f" }),
            json!({ "a": 1 }),
            json!({ "a": "00ff", "b": 0 }),
            json!({ "a": "00ff", "c": 1 }),
            json!([]),
        ] {
            assert!(misfit(&types, &schema, &bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_operation_lists_its_errors() {
        let description = description();
        for row in &ENDPOINTS {
            let method = if row.method == Method::Get { "get" } else { "post" };
            let responses = &description["paths"][row.path][method]["responses"];
            let mut expected = vec!["400", "403"];
            if row.right > Right::Public {
                expected.extend(["401", "421", "429", "500", "503"]);
            }
            if row.request.is_some() {
                expected.extend(["408", "413", "415", "422"]);
            }
            for status in expected.into_iter().filter(|status| row.name != "metrics" || *status < "500") {
                let codes = responses[status]["x-codes"].as_array();
                assert!(codes.is_some_and(|codes| !codes.is_empty()), "{} {status}", row.name);
            }
        }
    }

    /// Text for readers of the code is not for readers of the interface, and every field says what it takes.
    #[test]
    fn descriptions_speak_of_the_interface() {
        fn visit(value: &Value, path: &str) {
            match value {
                Value::Object(object) => {
                    if let Some(Value::String(text)) = object.get("description") {
                        assert!(!text.contains("[`") && !text.contains("crate::"), "{path}: {text}");
                    }
                    for (name, field) in
                        object.get("properties").and_then(Value::as_object).into_iter().flatten()
                    {
                        let mut typed = field.clone();
                        any_json(&mut typed);
                        assert_eq!(&typed, field, "{path}/{name} has no type");
                    }
                    object.iter().for_each(|(name, value)| visit(value, &format!("{path}/{name}")));
                }
                Value::Array(array) => array.iter().for_each(|value| visit(value, path)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        visit(&description(), "");
    }

    #[test]
    fn each_route_is_described_once() {
        let description = description();
        let paths = description["paths"].as_object().unwrap();
        let operations: usize = paths.values().map(|path| path.as_object().unwrap().len()).sum();
        assert_eq!(operations, ENDPOINTS.len());
    }
}
