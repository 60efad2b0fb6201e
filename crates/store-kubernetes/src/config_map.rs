//! A ConfigMap as a record that is not an election's, and back.

use std::collections::BTreeMap;

use baton_election::{ContentHash, ElectionName};
use baton_store::{Key, Record, StoreError};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::shape::{CHANGE, KIND};

/// The key of the record.
pub(crate) const KEY: &str = "baton.dev/key";
/// Which election a record belongs to, as a hash: names may be longer than a label.
pub(crate) const ELECTION: &str = "baton.dev/election";
/// The entry that has the record.
pub(crate) const ENTRY: &str = "record.json";

/// An election as a label has it.
pub(crate) fn label(election: &ElectionName) -> String {
    ContentHash::of(election.as_str().as_bytes()).to_string()[..32].to_string()
}

/// The election that a record belongs to and can go with.
pub(crate) fn belongs_to(key: &Key) -> Option<&ElectionName> {
    match key {
        Key::Election(election)
        | Key::Candidate(election, _)
        | Key::History(election)
        | Key::Item(election, ..) => Some(election),
        // What operators did outlives what they did it to.
        Key::Store | Key::Tokens | Key::Fence(_) | Key::FenceLog(..) | Key::Audit(..) => None,
    }
}

/// The record in a ConfigMap.
pub(crate) fn read(key: &Key, map: &ConfigMap, place: &str) -> Result<Record, StoreError> {
    let corrupt = |why: String, hint: &str| StoreError::Corrupt {
        place: place.to_string(),
        why,
        hint: hint.to_string(),
    };
    let written = map.metadata.annotations.as_ref().and_then(|all| all.get(KEY)).map(String::as_str);
    if written != Some(key.to_string().as_str()) {
        let why = format!("its annotation {KEY} is {written:?}, and that of this record is `{key}`");
        return Err(corrupt(why, "it is not Baton's, or was renamed by hand; delete it or rename it"));
    }
    let no_data = BTreeMap::new();
    let Some(text) = map.data.as_ref().unwrap_or(&no_data).get(ENTRY) else {
        return Err(corrupt(format!("it has no entry `{ENTRY}`"), "put back what was there"));
    };
    Record::from_json(key, text).map_err(|error| error.at(place))
}

/// What a write puts on a ConfigMap, as a merge patch without the resourceVersion.
pub(crate) fn write(key: &Key, next: &Record, change: &str) -> Value {
    let mut labels = json!({ KIND: key.kind() });
    if let Some(election) = belongs_to(key) {
        labels[ELECTION] = Value::from(label(election));
    }
    json!({
        "metadata": { "labels": labels, "annotations": { KEY: key.to_string(), CHANGE: change } },
        "data": { ENTRY: next.to_json() },
    })
}

#[cfg(test)]
mod tests {
    use baton_election::log::Log;

    use super::*;

    fn key(text: &str) -> Key {
        Key::parse(text).unwrap()
    }

    fn map(patch: Value) -> ConfigMap {
        serde_json::from_value(patch).unwrap()
    }

    #[test]
    fn a_record_survives_and_is_found_by_its_election() {
        let record = Record::History(Log::default());
        let patch = write(&key("a/b/history"), &record, "c1");
        assert_eq!(patch["metadata"]["labels"][KIND], "history");
        assert_eq!(patch["metadata"]["labels"][ELECTION], label(&ElectionName::new("a/b").unwrap()));
        assert_eq!(read(&key("a/b/history"), &map(patch), "here").unwrap(), record);
        let fence = write(&key("fences/a"), &record, "c1");
        assert!(fence["metadata"]["labels"].get(ELECTION).is_none());
    }

    #[test]
    fn what_no_baton_wrote_is_refused() {
        let good = write(&key("a/history"), &Record::History(Log::default()), "c1");
        let mut cases = Vec::new();
        cases.push((json!({}), "its annotation baton.dev/key is None"));
        let mut other = good.clone();
        other["metadata"]["annotations"][KEY] = json!("b/history");
        cases.push((other, "Some(\"b/history\")"));
        let mut empty = good.clone();
        empty["data"] = json!({});
        cases.push((empty, "no entry `record.json`"));
        let mut half = good.clone();
        half["data"][ENTRY] = json!("{\"format\": 1, \"entr");
        cases.push((half, "not a record of Baton"));
        let mut newer = good;
        newer["data"][ENTRY] = json!("{\"format\": 99}");
        cases.push((newer, "newer Baton"));
        for (patch, why) in cases {
            let error = read(&key("a/history"), &map(patch), "here").unwrap_err();
            assert_eq!(matches!(error, StoreError::Newer { .. }), why == "newer Baton", "{error:?}");
            assert!(matches!(error, StoreError::Corrupt { .. } | StoreError::Newer { .. }), "{error:?}");
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
