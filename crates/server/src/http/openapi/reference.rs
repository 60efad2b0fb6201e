//! `docs/reference/http.md`: the description in Markdown, for people.

use std::fmt::Write as _;
use std::path::Path;

use expect_test::expect_file;
use serde_json::{Map, Value};

use super::{TYPES, description};

const INTRODUCTION: &str = "\
# HTTP

<!-- generated from the code: UPDATE_EXPECT=1 cargo test -p baton-server --lib reference -->

What a server answers. `GET /openapi.json` of a running server has the same as OpenAPI 3.1.

- A body is JSON, and so is the answer, unless another type is named.
- A request that needs a right carries `Authorization: Bearer TOKEN`; a server without access
  tokens grants every right. [The server](../guide/server.md) says how to create tokens.
- An error is a [ProblemResponse](#problemresponse) as `application/problem+json`. Each request
  lists its statuses with their stable codes.
- A `/` in the name of an election or a resource is written `%2F` in a path.
- Numbers are whole, from 0 to 2^64 - 1.
";

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

/// A type in one phrase, with a link to each type that has a name.
fn phrase(schema: &Value) -> String {
    let kinds = |list: &Value| -> Vec<String> { list.as_array().into_iter().flatten().map(phrase).collect() };
    if let Some(name) = schema["$ref"].as_str().and_then(|to| to.strip_prefix(&format!("#{TYPES}/"))) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(value) = schema.get("const") {
        return format!("`{value}`");
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        return values.join(", ");
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        if schema.get(key).is_some() {
            return kinds(&schema[key]).join(" or ");
        }
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => format!("list of {}", phrase(&schema["items"])),
        Value::String(kind) if kind == "object" => object(schema),
        Value::String(kind) => kind.clone(),
        Value::Array(either) => {
            let either: Vec<&str> = either.iter().filter_map(Value::as_str).collect();
            either.join(" or ")
        }
        _ => "any".to_string(),
    }
}

fn object(schema: &Value) -> String {
    match (&schema["properties"], &schema["additionalProperties"]) {
        (Value::Object(fields), _) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, field)| format!("`{name}`: {}", phrase(field))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        (_, values @ Value::Object(_)) => format!("map to {}", phrase(values)),
        _ => "object".to_string(),
    }
}

/// The fields of an object, one row each.
fn fields(page: &mut String, schema: &Value) {
    let Some(fields) = schema["properties"].as_object() else { return };
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    page.push_str("\n| field | type | |\n|---|---|---|\n");
    for (name, field) in fields {
        let mark = if required.contains(&name.as_str()) { "" } else { " (optional)" };
        let about = field["description"].as_str().unwrap_or_default();
        let _ = writeln!(page, "| `{name}`{mark} | {} | {} |", escaped(&phrase(field)), escaped(about));
    }
}

fn operation(page: &mut String, path: &str, method: &str, operation: &Value) {
    let _ = write!(page, "\n### {} {path}\n\n", method.to_uppercase());
    let summary = operation["summary"].as_str().unwrap_or_default();
    let right = operation["x-right"].as_str().unwrap_or_default();
    wrapped(page, &format!("{summary}. Right: `{right}`."));
    page.push('\n');
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let (name, place) = (parameter["name"].as_str().unwrap_or_default(), &parameter["in"]);
        let about = parameter["description"].as_str().map(|text| format!(": {text}")).unwrap_or_default();
        let schema = phrase(&parameter["schema"]);
        wrapped(page, &format!("- `{name}` in the {}, {schema}{about}", place.as_str().unwrap_or_default()));
    }
    let body = &operation["requestBody"];
    if body.is_object() {
        let schema = phrase(&body["content"]["application/json"]["schema"]);
        let _ = writeln!(page, "- body: {schema}, at most {} bytes", body["x-max-bytes"]);
    }
    let answers = operation["responses"]["200"]["content"].as_object().cloned().unwrap_or_default();
    for (kind, answer) in answers {
        let kind = if kind == "application/json" { String::new() } else { format!(" as `{kind}`") };
        let _ = writeln!(page, "- answer{kind}: {}", phrase(&answer["schema"]));
    }
    let coded = |(status, response): (&String, &Value)| {
        let codes: Vec<String> =
            response["x-codes"].as_array()?.iter().map(|code| code.to_string().replace('"', "`")).collect();
        Some(format!("{status} {}", codes.join(" ")))
    };
    let errors: Vec<String> =
        operation["responses"].as_object().into_iter().flatten().filter_map(coded).collect();
    wrapped(page, &format!("- errors: {}", errors.join(", ")));
    let request = operation.pointer("/requestBody/content/application~1json/example");
    let response = operation.pointer("/responses/200/content/application~1json/example");
    for example in [request, response].into_iter().flatten().filter(|_| path != "/openapi.json") {
        let text = serde_json::to_string_pretty(example).unwrap();
        let _ = write!(page, "\n```json\n{text}\n```\n");
    }
}

/// Lines of at most 100 characters, those after the first indented.
fn wrapped(page: &mut String, text: &str) {
    let mut line = String::new();
    for word in text.split(' ') {
        if line.len() + word.len() >= 100 {
            let _ = writeln!(page, "{line}");
            line = " ".to_string();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(page, "{line}");
}

fn types(page: &mut String, types: &Map<String, Value>) {
    page.push_str("\n## Types\n");
    for (name, schema) in types {
        let _ = write!(page, "\n### {name}\n\n");
        if let Some(about) = schema["description"].as_str() {
            wrapped(page, &escaped(about));
        }
        let either = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
        if let Some(either) = either {
            page.push_str("\nOne of:\n\n");
            for one in either {
                let about = one["description"].as_str().map(|text| format!(": {text}")).unwrap_or_default();
                wrapped(page, &format!("- {}{}", escaped(&phrase(one)), escaped(&about)));
            }
        } else if schema["properties"].is_object() {
            fields(page, schema);
        } else {
            page.push('\n');
            wrapped(page, &escaped(&phrase(schema)));
        }
    }
}

#[test]
fn the_reference_is_current() {
    let description = description();
    let mut page = INTRODUCTION.to_string();
    page.push_str("\n## Requests\n");
    for (path, operations) in description["paths"].as_object().unwrap() {
        for (method, asked) in operations.as_object().unwrap() {
            operation(&mut page, path, method, asked);
        }
    }
    types(&mut page, description["components"]["schemas"].as_object().unwrap());
    let page = page.replace("\n\n\n", "\n\n");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/http.md");
    assert!(page.contains("### POST /v1/"), "{page}");
    expect_file![file].assert_eq(&page);
}
