//! The shape of a document: fields that any client can read, and the whole record beside them.

use std::collections::HashMap;

use baton_election::document::Document;
use baton_election::{AgentName, Span};
use baton_store::{AgeStamp, Expect, Key, Record, StoreError};
use gcloud_sdk::google::firestore::v1 as api;
use gcloud_sdk::google::firestore::v1::document_transform::FieldTransform;
use gcloud_sdk::google::firestore::v1::document_transform::field_transform::{ServerValue, TransformType};
use gcloud_sdk::google::firestore::v1::precondition::ConditionType;
use gcloud_sdk::google::firestore::v1::value::ValueType;
use gcloud_sdk::prost_types::Timestamp;

use crate::time;

/// The whole record, as JSON.
const RECORD: &str = "record";
/// A random number of every swap: a write that changes nothing would leave the version as it was.
const SWAP: &str = "swap";
/// The server's time of the last swap that restarted the record's clock.
const HEARTBEAT: &str = "lastHeartbeat";
/// When a lease would end by its holder's clock, for people. It decides nothing, and so it is not compared.
const EXPIRATION: &str = "leaseExpiration";

/// A document that was read.
#[derive(Debug)]
pub(crate) struct ParsedDocument {
    pub(crate) record: Record,
    /// When its clock was last restarted.
    pub(crate) heartbeat: Timestamp,
    /// Its version.
    pub(crate) update_time: Timestamp,
}

/// Reads a document. `place` is where it is, for people.
pub(crate) fn parse(place: &str, key: &Key, document: &api::Document) -> Result<ParsedDocument, StoreError> {
    let corrupt = |why: String, hint: &str| StoreError::Corrupt {
        place: place.to_string(),
        why,
        hint: hint.to_string(),
    };
    let foreign = "another program writes here: name another collection, ?collection=NAME";
    let Some(ValueType::StringValue(json)) = value(document, RECORD) else {
        return Err(corrupt(format!("it has no text in `{RECORD}`, so no Baton wrote it"), foreign));
    };
    let record = Record::from_json(key, json).map_err(|error| error.at(place))?;
    for (name, expected) in told(key, &record) {
        if document.fields.get(name) != Some(&expected) {
            return Err(corrupt(
                format!("its field `{name}` contradicts its record"),
                "it was changed by hand; put back what was there, or change the election with baton's commands",
            ));
        }
    }
    let Some(ValueType::TimestampValue(heartbeat)) = value(document, HEARTBEAT) else {
        return Err(corrupt(format!("it has no time in `{HEARTBEAT}`"), "put back what was there"));
    };
    let Some(update_time) = document.update_time else {
        return Err(corrupt("the server did not say when it was changed".to_string(), "try again"));
    };
    Ok(ParsedDocument { record, heartbeat: *heartbeat, update_time })
}

/// The write of a record.
pub(crate) fn write(
    name: String,
    key: &Key,
    record: &Record,
    expect: &Expect,
    clock: AgeStamp,
) -> Result<api::Write, StoreError> {
    let mut swap = [0; 8];
    getrandom::fill(&mut swap).map_err(|error| StoreError::Unavailable {
        location: name.clone(),
        why: format!("there is no randomness: {error}"),
        hint: "try again".to_string(),
    })?;
    let mut fields: HashMap<String, api::Value> =
        told(key, record).into_iter().map(|(name, value)| (name.to_string(), value)).collect();
    if let Record::Election(document) = record {
        fields.insert(EXPIRATION.to_string(), expiration(document));
    }
    fields.insert(RECORD.to_string(), text(&record.to_json()));
    fields.insert(SWAP.to_string(), text(&format!("{:016x}", u64::from_be_bytes(swap))));
    let condition = match expect {
        Expect::Absent => absent(),
        // A version of another store is not what is there.
        Expect::Version(version) => unchanged(time::update_time(version).ok_or(StoreError::Conflict)?),
    };
    let stamps = match (clock, expect) {
        (AgeStamp::Reset, Expect::Absent | Expect::Version(_)) | (AgeStamp::Preserve, Expect::Absent) => {
            vec![request_time(HEARTBEAT)]
        }
        (AgeStamp::Preserve, Expect::Version(_)) => Vec::new(),
    };
    // Only these are written: fields that somebody added stay.
    let mask = fields.keys().cloned().collect();
    Ok(update(name, fields, mask, stamps, condition))
}

/// What the fields beside the record say of it.
fn told(key: &Key, record: &Record) -> Vec<(&'static str, api::Value)> {
    match record.as_election() {
        Some(document) => vec![
            ("leaderId", leader(document).map_or_else(null, |agent| text(agent.as_str()))),
            ("fencingToken", integer(document.epoch.0)),
            ("leaseMs", integer(millis(document.lease_remaining(Span::ZERO)))),
            ("state", text(&document.state.to_string())),
        ],
        None => vec![("key", text(&key.to_string()))],
    }
}

fn leader(document: &Document) -> Option<&AgentName> {
    document.leader.as_ref().map(|leader| &leader.agent)
}

fn expiration(document: &Document) -> api::Value {
    document.lease_holder().map_or_else(null, |leader| api::Value {
        value_type: Some(ValueType::TimestampValue(time::shown(leader.expires))),
    })
}

/// The value of a field.
pub(crate) fn value<'a>(document: &'a api::Document, name: &str) -> Option<&'a ValueType> {
    document.fields.get(name)?.value_type.as_ref()
}

/// A field that is a whole number from zero on.
pub(crate) fn count(document: &api::Document, name: &str) -> Option<u64> {
    match value(document, name) {
        Some(ValueType::IntegerValue(number)) => u64::try_from(*number).ok(),
        Some(_) | None => None,
    }
}

/// A text.
pub(crate) fn text(text: &str) -> api::Value {
    api::Value { value_type: Some(ValueType::StringValue(text.to_string())) }
}

/// A whole number.
pub(crate) fn integer(number: u64) -> api::Value {
    api::Value { value_type: Some(ValueType::IntegerValue(i64::try_from(number).unwrap_or(i64::MAX))) }
}

fn null() -> api::Value {
    api::Value { value_type: Some(ValueType::NullValue(0)) }
}

/// A length of time in milliseconds, rounded up.
pub(crate) fn millis(span: Span) -> u64 {
    span.as_nanos().div_ceil(1_000_000)
}

/// The server's time of the request, put into a field.
pub(crate) fn request_time(field: &str) -> FieldTransform {
    let now = TransformType::SetToServerValue(i32::from(ServerValue::RequestTime));
    FieldTransform { field_path: field.to_string(), transform_type: Some(now) }
}

/// On condition that the document is not there.
pub(crate) fn absent() -> api::Precondition {
    api::Precondition { condition_type: Some(ConditionType::Exists(false)) }
}

/// On condition that the document was last changed then.
pub(crate) fn unchanged(update_time: Timestamp) -> api::Precondition {
    api::Precondition { condition_type: Some(ConditionType::UpdateTime(update_time)) }
}

/// A write of some fields of a document, on a condition.
pub(crate) fn update(
    name: String,
    fields: HashMap<String, api::Value>,
    mask: Vec<String>,
    stamps: Vec<FieldTransform>,
    condition: api::Precondition,
) -> api::Write {
    let document = api::Document { name, fields, create_time: None, update_time: None };
    api::Write {
        update_mask: Some(api::DocumentMask { field_paths: mask }),
        update_transforms: stamps,
        current_document: Some(condition),
        operation: Some(api::write::Operation::Update(document)),
    }
}
