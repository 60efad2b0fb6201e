//! Leases as clients write them, as documents.

mod bare;
mod damaged;
mod foreigners;
mod ours;
mod written_under_a_foreign_holder;

use std::sync::Arc;

use baton_election::document::{
    Approval, Cause, Departure, Leader, Pause, Phase, Question, Reservation, State,
};
use baton_election::id::{Incarnation, KeyHash, StoreId};
use baton_election::operator::PublicKey;
use baton_election::policy::{Limits, Policy};
use baton_election::removal_rules::Verdicts;
use baton_election::time::WallTime;
use baton_election::{AgentName, Span};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::*;

fn name() -> ElectionName {
    ElectionName::new("refactor-auth").unwrap()
}

pub(crate) fn document(epoch: u64) -> Document {
    Document::new(name(), StoreId([5; 8]), Epoch(epoch), &[PublicKey([9; 32])])
}

pub(crate) fn leader(agent: &str, epoch: u64) -> Leader {
    Leader {
        agent: AgentName::new(agent).unwrap(),
        incarnation: Incarnation([1; 8]),
        key_hash: KeyHash([7; 32]),
        epoch: Epoch(epoch),
        granted: Epoch(epoch),
        ttl: Span::secs(30),
        renewals: 2,
        offered: false,
        contact: None,
        region: None,
        through: None,
        phase: Phase::Serving,
        limits: Limits::default(),
        held: Span::ZERO,
        idle: Span::ZERO,
        spent_tokens: 0,
        verdicts: Verdicts::default(),
        acquired: WallTime::from_unix_millis(1_700_000_000_000),
        expires: WallTime::from_unix_millis(1_700_000_030_000),
    }
}

fn led(epoch: u64) -> Document {
    Document { state: State::Held, beat: 17, leader: Some(leader("agent-a", epoch)), ..document(epoch) }
}

fn info() -> StoreInfo {
    StoreInfo {
        operator_keys: vec![PublicKey([9; 32])],
        ..StoreInfo::new(StoreId([5; 8]), WallTime::default())
    }
}

/// A Lease as it stands after a write of Baton's on another, as the apiserver merges it.
fn put(lease: Option<&Lease>, next: &Document, clock: AgeStamp, resource: u64) -> (Lease, LeaseVersion) {
    let over = lease.map(|lease| seen(lease).1);
    let (patch, base) = write(next, over, clock, &Stamps::begin(), "c0", "here").unwrap();
    let mut object = lease.map_or(json!({ "metadata": {} }), |lease| serde_json::to_value(lease).unwrap());
    merge(&mut object, &patch);
    object["metadata"]["resourceVersion"] = json!(resource.to_string());
    (serde_json::from_value(object).unwrap(), base.at(resource))
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name.as_str()], value);
        }
    }
}

fn seen(lease: &Lease) -> (Document, LeaseVersion) {
    read(&name(), lease, &info(), "here").unwrap()
}

fn spec(lease: &mut Lease) -> &mut LeaseSpec {
    lease.spec.get_or_insert_default()
}

/// As client-go takes over or acquires a Lease: a new holder, one more transition.
fn take(lease: &mut Lease, identity: &str, second: i64) {
    let spec = spec(lease);
    spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0) + 1);
    spec.holder_identity = Some(identity.to_string());
    spec.lease_duration_seconds = Some(15);
    spec.acquire_time = Some(MicroTime(Timestamp::from_second(second).unwrap()));
    renew(lease, second);
}

/// As client-go renews.
fn renew(lease: &mut Lease, second: i64) {
    spec(lease).renew_time = Some(MicroTime(Timestamp::from_second(second).unwrap()));
    let resource: u64 = lease.metadata.resource_version.as_deref().unwrap_or("500").parse().unwrap();
    lease.metadata.resource_version = Some((resource + 1).to_string());
}

/// As client-go releases: no holder, a duration of one second, the transitions as they were.
fn release(lease: &mut Lease, second: i64) {
    let spec = spec(lease);
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    spec.acquire_time = Some(MicroTime(Timestamp::from_second(second).unwrap()));
    renew(lease, second);
}

fn annotated(lease: &mut Lease, name: &str, value: Option<&str>) {
    let all = lease.metadata.annotations.get_or_insert_default();
    match value {
        Some(value) => all.insert(name.to_string(), value.to_string()),
        None => all.remove(name),
    };
}
