//! A Lease as an election's document, and back.

use std::collections::BTreeMap;

use baton_election::{Document, ElectionName, Epoch, StoreInfo};
use baton_store::{AgeStamp, Key, Record, StoreError};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::{Value, json};

use crate::foreign;
use crate::hold::{Hold, is_foreign};
use crate::stamp::{self, Stamps};
use crate::version::LeaseVersion;

/// The whole document, as JSON.
pub(crate) const RECORD: &str = "baton.dev/record";
/// What `leaseTransitions` is counted from: together they are the token.
pub(crate) const BASE: &str = "baton.dev/base";
/// The holder that the record was written with.
pub(crate) const HOLDER: &str = "baton.dev/holder";
/// The transitions that the record was written with.
pub(crate) const TRANSITIONS: &str = "baton.dev/transitions";
/// The `renewTime` that the record was written with.
pub(crate) const RENEWED: &str = "baton.dev/renewed";
/// The token, for people. It is the holder's while that is [`HOLDER`].
pub(crate) const TOKEN: &str = "baton.dev/token";
/// A number that no other write has: a write that changes nothing would not raise the resourceVersion.
pub(crate) const CHANGE: &str = "baton.dev/change";
/// The kind of record, for selectors.
pub(crate) const KIND: &str = "baton.dev/kind";

/// What Baton wrote on a Lease.
struct ParsedLease {
    record: Document,
    base: u64,
    /// What of the spec it was written with; none if Baton left another client's as it was.
    with: Option<SpecMark>,
}

/// What tells whether another client has changed a spec.
#[derive(PartialEq, Eq)]
struct SpecMark {
    holder: String,
    transitions: u64,
    /// Counts for a Lease that nobody holds: a client may have taken and released it meanwhile, without counting that.
    renewed: Option<String>,
}

impl SpecMark {
    fn new(holder: &str, transitions: u64, renewed: Option<String>) -> SpecMark {
        let renewed = renewed.filter(|_| holder.is_empty());
        SpecMark { holder: holder.to_string(), transitions, renewed }
    }

    fn of(spec: &LeaseSpec) -> SpecMark {
        SpecMark::new(foreign::holder(spec), foreign::transitions(spec), spec.renew_time.as_ref().map(text))
    }
}

/// A time as the apiserver writes it.
fn text(at: &MicroTime) -> String {
    match serde_json::to_value(at) {
        Ok(Value::String(text)) => text,
        Ok(_) | Err(_) => unreachable!("a time is always expressible as text"),
    }
}

/// Whether no Baton has written on this Lease.
pub(crate) fn is_bare(lease: &Lease) -> bool {
    let annotations = lease.metadata.annotations.as_ref();
    annotations.is_none_or(|all| {
        [RECORD, BASE, HOLDER, TRANSITIONS, RENEWED].iter().all(|name| !all.contains_key(*name))
    })
}

/// The document of a Lease, and its version. `info` is what the store knows of itself, for a Lease that is bare.
pub(crate) fn read(
    election: &ElectionName,
    lease: &Lease,
    info: &StoreInfo,
    place: &str,
) -> Result<(Document, LeaseVersion), StoreError> {
    let resource = resource_version(lease.metadata.resource_version.as_deref(), place)?;
    let no_spec = LeaseSpec::default();
    let spec = lease.spec.as_ref().unwrap_or(&no_spec);
    if is_bare(lease) {
        let base = foreign::bare_base(resource, spec);
        let version = LeaseVersion { resource, base, foreign: true };
        return Ok((foreign::bare(election, info, base, spec), version));
    }
    let ParsedLease { record, base, with } = written(election, lease, place)?;
    match with {
        Some(mark) if mark == SpecMark::of(spec) => {
            agree(&record, base, &mark, place)?;
            Ok((record, LeaseVersion { resource, base, foreign: false }))
        }
        Some(_) | None => {
            let version = LeaseVersion { resource, base, foreign: true };
            Ok((foreign::adopted(record, base, spec), version))
        }
    }
}

/// A resourceVersion as the number that it is.
pub(crate) fn resource_version(text: Option<&str>, place: &str) -> Result<u64, StoreError> {
    text.and_then(|text| text.parse().ok()).ok_or_else(|| StoreError::Refused {
        place: place.to_string(),
        why: format!("its resourceVersion {text:?} is not a number"),
        hint: "epochs are seeded from it; use an apiserver whose storage counts its writes, as etcd does"
            .to_string(),
    })
}

/// What Baton wrote, all of it or an error.
fn written(election: &ElectionName, lease: &Lease, place: &str) -> Result<ParsedLease, StoreError> {
    let no_annotations = BTreeMap::new();
    let annotations = lease.metadata.annotations.as_ref().unwrap_or(&no_annotations);
    let missing = |name: &str| {
        corrupt(place, format!("the annotation {name} is missing, while others of Baton's are there"))
    };
    let number = |name: &str, text: &str| {
        text.parse::<u64>()
            .map_err(|_| corrupt(place, format!("the annotation {name} is `{text}`, which is no number")))
    };
    let text = annotations.get(RECORD).ok_or_else(|| missing(RECORD))?;
    let base = annotations.get(BASE).ok_or_else(|| missing(BASE))?;
    let base = number(BASE, base)?;
    let record = Record::from_json(&Key::Election(election.clone()), text)
        .map_err(|error| error.at(format!("the annotation {RECORD} of {place}")))?;
    let Record::Election(record) = record else {
        unreachable!("the key of an election has an election's record")
    };
    let with = match [HOLDER, TRANSITIONS, RENEWED].map(|name| annotations.get(name)) {
        [None, None, _] => None,
        [Some(holder), Some(transitions), Some(renewed)] => {
            Some(SpecMark::new(holder, number(TRANSITIONS, transitions)?, Some(renewed.clone())))
        }
        [None, Some(_), _] => return Err(missing(HOLDER)),
        [Some(_), None, _] => return Err(missing(TRANSITIONS)),
        [Some(_), Some(_), None] => return Err(missing(RENEWED)),
    };
    Ok(ParsedLease { record: *record, base, with })
}

/// Refuses a record that says something else than the spec that it was written with.
fn agree(record: &Document, base: u64, mark: &SpecMark, place: &str) -> Result<(), StoreError> {
    let SpecMark { holder, transitions, .. } = mark;
    let epoch = Epoch(base.saturating_add(*transitions));
    if record.epoch != epoch {
        return Err(corrupt(
            place,
            format!("its record is of epoch {}, while its base and transitions make {epoch}", record.epoch),
        ));
    }
    let Hold { holder: meant, .. } = Hold::of(record);
    if meant != *holder {
        return Err(corrupt(place, format!("its holder is `{holder}`, while by its record it is `{meant}`")));
    }
    Ok(())
}

fn corrupt(place: &str, why: String) -> StoreError {
    StoreError::Corrupt {
        place: place.to_string(),
        why,
        hint: "it was changed by hand; put back what was there, or delete the Lease: tokens go on rising"
            .to_string(),
    }
}

/// What a write puts on a Lease, as a merge patch without the resourceVersion. `over` is the version that it is put over; none for a
/// new Lease.
pub(crate) fn write(
    next: &Document,
    over: Option<LeaseVersion>,
    clock: AgeStamp,
    stamps: &Stamps,
    change: &str,
    place: &str,
) -> Result<(Value, LeaseBase), StoreError> {
    let left_alone = over.is_some_and(|over| over.foreign) && next.leader.as_ref().is_some_and(is_foreign);
    let (base, transitions) = count(next.epoch, over.map(|over| over.base), place)?;
    let record = Record::Election(Box::new(next.clone())).to_compact_json();
    let record = String::from_utf8_lossy(&record);
    let mut annotations = json!({
        RECORD: record,
        BASE: base.to_string(),
        TOKEN: next.epoch.to_string(),
        CHANGE: change,
        HOLDER: null,
        TRANSITIONS: null,
    });
    let mut patch = json!({ "metadata": { "labels": { KIND: "election" } } });
    if !left_alone {
        let Hold { holder, seconds } = Hold::of(next);
        annotations[HOLDER] = Value::from(holder.as_str());
        annotations[TRANSITIONS] = Value::from(transitions.to_string());
        let mut spec = LeaseSpec {
            holder_identity: Some(holder),
            lease_duration_seconds: Some(seconds),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        };
        if clock == AgeStamp::Reset || over.is_none_or(|over| over.foreign) {
            let now = stamps.now();
            annotations[RENEWED] = Value::from(text(&now));
            spec.acquire_time =
                Some(next.leader.as_ref().map_or(now.clone(), |leader| stamp::of_wall(leader.acquired)));
            spec.renew_time = Some(now);
        }
        let Ok(spec) = serde_json::to_value(spec) else {
            unreachable!("a spec is always expressible as JSON")
        };
        patch["spec"] = spec;
    }
    patch["metadata"]["annotations"] = annotations;
    Ok((patch, LeaseBase { base, foreign: left_alone }))
}

/// What of a version is known before its write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseBase {
    base: u64,
    foreign: bool,
}

impl LeaseBase {
    /// The version after the write that had this resourceVersion.
    pub(crate) fn at(self, resource: u64) -> LeaseVersion {
        LeaseVersion { resource, base: self.base, foreign: self.foreign }
    }
}

/// An epoch as base and transitions. The first epoch of a Lease is its base, and so is one for which the transitions would no longer fit.
fn count(epoch: Epoch, base: Option<u64>, place: &str) -> Result<(u64, i32), StoreError> {
    let base = base.unwrap_or(epoch.0);
    let Some(transitions) = epoch.0.checked_sub(base) else {
        return Err(StoreError::Refused {
            place: place.to_string(),
            why: format!("epoch {epoch} is below {base}, at which its Lease began"),
            hint: "epochs only rise; this is a fault of Baton's".to_string(),
        });
    };
    Ok(i32::try_from(transitions).map_or((epoch.0, 0), |transitions| (base, transitions)))
}

#[cfg(test)]
#[path = "shape_tests/mod.rs"]
pub(crate) mod tests;
