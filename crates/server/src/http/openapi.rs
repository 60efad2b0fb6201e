//! The interface, described for programs: OpenAPI 3.1, generated from the table of routes and from the types that are read and written.
//!
//! What is read and what is written of one type may differ: a field may be left out that is always shown. Such a type stands twice, the
//! one that is written with `Answered` behind its name.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use baton_api::alerts::Alerts;
use baton_api::batch::described::{BatchEntryOrMalformed, BatchResult};
use baton_api::command::{CommandResponse, WithdrawRequest, WithdrawResponse};
use baton_api::elections::{ElectionSummary, LeaderResponse};
use baton_api::fences::{AdmitRequest, KeepHoldRequest, LeaveHoldRequest};
use baton_api::problem::ProblemResponse;
use baton_api::records::{RecordResponse, TokensResponse};
use baton_api::server::{EmptyResponse, ReadinessResponse};
use baton_api::sessions::{
    Announce, AskNews, Beat, EndSession, EndedSession, Heartbeat, NewsOf, SessionView,
};
use baton_api::sign_ins::{
    CloseSignInRequest, CloseSignInResponse, DraftActRequest, DraftResponse, DraftStoreOrderRequest,
    OpenSignInRequest, PageStatus, SignInView,
};
use baton_api::toolbox::ItemPage;
use baton_api::waiting::Waiting;
use baton_election::audit::{Entry, TokensAudit};
use baton_election::bindings::SignedFenceOrder;
use baton_election::command::{Acknowledge, Acquire, Pass, Release, Renew, Report, WriteCheckpoint};
use baton_election::delegation::SignedDelegation;
use baton_election::document::Transition;
use baton_election::operator::SignedAct;
use baton_election::store_order::StoreRequest;
use baton_election::store_quorum::OrderOutcome;
use baton_election::tokens::SignedTokenOrder;
use baton_election::{AgentName, Candidate, ElectionName, Fence, ItemName, ResourceName};
use baton_store::toolbox::{
    self, AddTasks, Added, Breaker, Counts, Draw, Drawn, Order, Proposal, Propose, Put, Quota, Ruling,
    SetQuota, State, Task,
};
use bytes::Bytes;
use http::Method;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::page;
use super::right::Right;
use super::route::{Ask, Given, ROUTES, Route};

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
    let operations: Vec<(&Route, Value, Value)> = ROUTES
        .iter()
        .map(|route| (route, request(route, &mut asked), responses(route.ask, &mut answered)))
        .collect();
    let (mut types, written) = (asked.take_definitions(true), answered.take_definitions(true));
    let differing = differing(&types, &written);
    for (name, schema) in written {
        types.insert(renamed(&name, &differing), repointed(schema, &differing));
    }
    let mut paths: Map<String, Value> = Map::new();
    for (route, mut operation, responses) in operations {
        operation["responses"] = repointed(responses, &differing);
        let method = if route.method == Method::GET { "get" } else { "post" };
        paths.entry(route.path).or_insert_with(|| json!({}))[method] = operation;
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

/// What a route takes.
fn request(route: &Route, types: &mut SchemaGenerator) -> Value {
    let mut operation = json!({
        "operationId": name(route.ask),
        "summary": route.summary,
        "parameters": parameters(route, types),
    });
    let right = route.ask.right();
    operation["x-right"] = json!(right.name());
    // Where no token is needed, none is what everybody shows.
    operation["security"] = if right == Right::Public { json!([]) } else { json!([{}, { "token": [] }]) };
    if let Some(body) = body(route.ask, types) {
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": body } } });
        operation["requestBody"]["x-max-bytes"] = json!(route.ask.largest_body());
    }
    operation
}

pub(super) fn name(ask: Ask) -> String {
    let mut name = format!("{ask:?}");
    name[..1].make_ascii_lowercase();
    name
}

fn parameters(route: &Route, types: &mut SchemaGenerator) -> Vec<Value> {
    let names = route.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
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
    for (name, value, description) in route.ask.query() {
        let schema = match (value, route.ask) {
            (Given::Number, _) => json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX }),
            (Given::UpTo(most), _) => json!({ "type": "integer", "minimum": 1, "maximum": most }),
            (Given::Text, _) => json!({ "type": "string" }),
            (Given::Item, _) => json!(types.subschema_for::<ItemName>()),
            (Given::Agent, _) => json!(types.subschema_for::<AgentName>()),
            (Given::TaskState, _) => json!(types.subschema_for::<State>()),
            (Given::Name, Ask::Candidates) => json!(types.subschema_for::<AgentName>()),
            (Given::Name, Ask::Fences) => json!(types.subschema_for::<ResourceName>()),
            (Given::Name, _) => json!(types.subschema_for::<ElectionName>()),
        };
        parameters.push(json!({ "name": name, "in": "query", "description": description, "schema": schema }));
    }
    let more = match route.ask {
        Ask::Watch | Ask::Events => {
            vec![json!({ "name": "Last-Event-ID", "in": "header", "schema": { "type": "string" },
                                   "description": "Go on after this event" })]
        }
        _ => Vec::new(),
    };
    parameters.extend(more);
    parameters.iter_mut().for_each(bound);
    parameters
}

#[expect(clippy::too_many_lines, reason = "a line for each route, all in one place")]
fn body(ask: Ask, types: &mut SchemaGenerator) -> Option<Schema> {
    Some(match ask {
        Ask::Acquire => types.subschema_for::<Acquire>(),
        Ask::Renew => types.subschema_for::<Renew>(),
        Ask::Release => types.subschema_for::<Release>(),
        Ask::Pass => types.subschema_for::<Pass>(),
        Ask::Checkpoint => types.subschema_for::<WriteCheckpoint>(),
        Ask::Acknowledge => types.subschema_for::<Acknowledge>(),
        Ask::Report => types.subschema_for::<Report>(),
        Ask::Operate => types.subschema_for::<SignedAct>(),
        Ask::Enlist => types.subschema_for::<Candidate>(),
        Ask::Withdraw => types.subschema_for::<WithdrawRequest>(),
        Ask::Batch => types.subschema_for::<Vec<BatchEntryOrMalformed>>(),
        Ask::Admit => types.subschema_for::<AdmitRequest>(),
        Ask::KeepHold => types.subschema_for::<KeepHoldRequest>(),
        Ask::LeaveHold => types.subschema_for::<LeaveHoldRequest>(),
        Ask::OrderFence => types.subschema_for::<SignedFenceOrder>(),
        Ask::OrderStore => types.subschema_for::<StoreRequest>(),
        Ask::OrderTokens => types.subschema_for::<SignedTokenOrder>(),
        Ask::Announce => types.subschema_for::<Announce>(),
        Ask::Heartbeat => types.subschema_for::<Heartbeat>(),
        Ask::News => types.subschema_for::<AskNews>(),
        Ask::EndSession => types.subschema_for::<EndSession>(),
        Ask::BeginSignIn => types.subschema_for::<SignedDelegation>(),
        Ask::OpenSignIn => types.subschema_for::<OpenSignInRequest>(),
        Ask::CloseSignIn => types.subschema_for::<CloseSignInRequest>(),
        Ask::Draft => types.subschema_for::<DraftActRequest>(),
        Ask::DraftStore => types.subschema_for::<DraftStoreOrderRequest>(),
        Ask::AddTasks => types.subschema_for::<AddTasks>(),
        Ask::OrderTask => types.subschema_for::<Order>(),
        Ask::Propose => types.subschema_for::<Propose>(),
        Ask::RuleOn => types.subschema_for::<Ruling>(),
        Ask::SetQuota => types.subschema_for::<SetQuota>(),
        Ask::Draw => types.subschema_for::<Draw>(),
        Ask::PutValue => types.subschema_for::<Put>(),
        Ask::Store
        | Ask::Tokens
        | Ask::Elections
        | Ask::Audits
        | Ask::Election
        | Ask::Leader
        | Ask::History
        | Ask::Audit
        | Ask::AuditPart
        | Ask::StoreAudit
        | Ask::StoreAuditPart
        | Ask::TokensAudit
        | Ask::Watch
        | Ask::Candidates
        | Ask::Candidate
        | Ask::Waiting
        | Ask::Fences
        | Ask::Fence
        | Ask::FenceLog
        | Ask::Sessions
        | Ask::Overview
        | Ask::Events
        | Ask::Me
        | Ask::Page
        | Ask::PageFile
        | Ask::Board
        | Ask::Tasks
        | Ask::Task
        | Ask::Proposals
        | Ask::Proposal
        | Ask::Quotas
        | Ask::Quota
        | Ask::Values
        | Ask::Value
        | Ask::Breakers
        | Ask::Breaker
        | Ask::Alerts
        | Ask::Metrics
        | Ask::Health
        | Ask::Ready
        | Ask::OpenApi => return None,
    })
}

/// What a route answers.
fn responses(ask: Ask, types: &mut SchemaGenerator) -> Value {
    let (kind, schema) = match ask {
        Ask::Watch | Ask::Events => ("text/event-stream", types.subschema_for::<String>()),
        Ask::Page => ("text/html", types.subschema_for::<String>()),
        Ask::Health | Ask::Metrics => ("text/plain", types.subschema_for::<String>()),
        other => ("application/json", answer(other, types)),
    };
    let problem = types.subschema_for::<ProblemResponse<'_>>();
    let kinds = if ask == Ask::PageFile { page::kinds() } else { vec![kind] };
    let content: Map<String, Value> =
        kinds.into_iter().map(|kind| (kind.to_string(), json!({ "schema": schema }))).collect();
    json!({
        "200": { "description": "Done", "content": content },
        "default": { "description": "Why not", "content": { "application/problem+json": { "schema": problem } } },
    })
}

fn answer(ask: Ask, types: &mut SchemaGenerator) -> Schema {
    fn of<T: JsonSchema>(types: &mut SchemaGenerator) -> Schema {
        types.subschema_for::<T>()
    }
    match ask {
        Ask::Acquire
        | Ask::Renew
        | Ask::Release
        | Ask::Pass
        | Ask::Checkpoint
        | Ask::Acknowledge
        | Ask::Report
        | Ask::Operate => of::<CommandResponse>(types),
        Ask::Batch => of::<Vec<BatchResult>>(types),
        Ask::Tokens => of::<TokensResponse>(types),
        Ask::Store
        | Ask::Election
        | Ask::Candidate
        | Ask::Fence
        | Ask::FenceLog
        | Ask::AuditPart
        | Ask::StoreAuditPart
        | Ask::Task
        | Ask::Proposal
        | Ask::Quota
        | Ask::Value
        | Ask::Breaker => of::<RecordResponse>(types),
        Ask::Board => of::<Counts>(types),
        Ask::Tasks => of::<ItemPage<Task>>(types),
        Ask::Proposals => of::<ItemPage<Proposal>>(types),
        Ask::Quotas => of::<ItemPage<Quota>>(types),
        Ask::Values => of::<ItemPage<toolbox::Value>>(types),
        Ask::Breakers => of::<ItemPage<Breaker>>(types),
        Ask::AddTasks => of::<Vec<Added>>(types),
        Ask::OrderTask => of::<Task>(types),
        Ask::Propose | Ask::RuleOn => of::<Proposal>(types),
        Ask::SetQuota => of::<Quota>(types),
        Ask::Draw => of::<Drawn>(types),
        Ask::PutValue => of::<toolbox::Value>(types),
        Ask::Elections | Ask::Audits => of::<Vec<ElectionName>>(types),
        Ask::Candidates => of::<Vec<AgentName>>(types),
        Ask::Waiting => of::<Vec<Waiting>>(types),
        Ask::Fences => of::<Vec<ResourceName>>(types),
        Ask::Leader => of::<LeaderResponse>(types),
        Ask::History => of::<Vec<Transition>>(types),
        Ask::Audit | Ask::StoreAudit => of::<Vec<Entry>>(types),
        Ask::TokensAudit => of::<TokensAudit>(types),
        Ask::Withdraw => of::<WithdrawResponse>(types),
        Ask::Enlist => of::<Candidate>(types),
        Ask::Admit | Ask::OrderFence => of::<Fence>(types),
        Ask::KeepHold | Ask::LeaveHold => of::<EmptyResponse>(types),
        Ask::OrderStore | Ask::OrderTokens => of::<OrderOutcome>(types),
        Ask::Announce | Ask::Heartbeat => of::<Beat>(types),
        Ask::News => of::<NewsOf>(types),
        Ask::EndSession => of::<EndedSession>(types),
        Ask::Sessions => of::<Vec<SessionView>>(types),
        Ask::Ready => of::<ReadinessResponse>(types),
        Ask::OpenApi => of::<Map<String, Value>>(types),
        Ask::Overview => of::<Vec<ElectionSummary>>(types),
        Ask::Me => of::<PageStatus>(types),
        Ask::BeginSignIn => of::<EmptyResponse>(types),
        Ask::OpenSignIn => of::<SignInView>(types),
        Ask::CloseSignIn => of::<CloseSignInResponse>(types),
        Ask::Draft | Ask::DraftStore => of::<DraftResponse>(types),
        Ask::Alerts => of::<Alerts>(types),
        Ask::Watch | Ask::Events | Ask::Page | Ask::PageFile | Ask::Health | Ask::Metrics => {
            of::<String>(types)
        }
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
        assert_eq!(operations, ROUTES.len());
    }
}
