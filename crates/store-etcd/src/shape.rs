//! Where records stand in etcd, and in what form: `<prefix>/<key>`, and JSON that a person can read.

use baton_election::ElectionName;
use baton_store::{Key, Prefix, Record, StoreError, Version};

use crate::wire::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::wire::etcdserverpb::{Compare, PutRequest, RangeRequest, RequestOp, ResponseHeader, request_op};
use crate::wire::mvccpb::KeyValue;

/// From a key to what comes after all keys below it: `/` is followed by `0`.
const BELOW: char = '/';
const PAST_BELOW: char = '0';

/// The keys of one store.
#[derive(Clone)]
pub(crate) struct Keys {
    prefix: String,
    location: String,
}

/// Keys from the first up to, but without, the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) from: Vec<u8>,
    pub(crate) to: Vec<u8>,
}

impl Keys {
    /// Those below a prefix.
    pub(crate) fn of(prefix: &str, location: &str) -> Keys {
        Keys { prefix: prefix.to_string(), location: location.to_string() }
    }

    /// The text of a record's key.
    pub(crate) fn text(&self, key: &Key) -> String {
        self.under(&key.to_string())
    }

    /// The prefix of an election, as etcd's recipe takes it.
    pub(crate) fn election(&self, election: &ElectionName) -> String {
        self.under(election.as_str())
    }

    /// The key that is written whenever the record of an election is made, and stays when that is deleted.
    pub(crate) fn begun(&self, election: &ElectionName) -> String {
        self.under(&format!("@begun/{election}"))
    }

    fn under(&self, text: &str) -> String {
        if self.prefix.is_empty() { text.to_string() } else { format!("{}/{text}", self.prefix) }
    }

    /// The key of a record whose text this is.
    pub(crate) fn key_of(&self, text: &[u8]) -> Option<Key> {
        let text = std::str::from_utf8(text).ok()?;
        let rest = match self.prefix.as_str() {
            "" => text,
            prefix => text.strip_prefix(prefix)?.strip_prefix(BELOW)?,
        };
        Key::parse(rest)
    }

    /// All that can be of a kind.
    pub(crate) fn area(&self, prefix: &Prefix) -> Area {
        match prefix {
            Prefix::Elections | Prefix::Audits => self.all(),
            Prefix::Candidates(election) => Area::below(&format!("{}/candidates", self.election(election))),
            Prefix::Fences => Area::below(&self.under("fences")),
            Prefix::Items(election, kind) => {
                Area::below(&format!("{}/@{}", self.election(election), kind.plural()))
            }
        }
    }

    /// All of the store.
    pub(crate) fn all(&self) -> Area {
        match self.prefix.as_str() {
            "" => Area { from: vec![0], to: vec![0] },
            prefix => Area::below(prefix),
        }
    }

    /// The record in a value, and its version.
    pub(crate) fn record(&self, key: &Key, found: &KeyValue) -> Result<(Record, Version), StoreError> {
        let corrupt =
            |why: String, hint: String| StoreError::Corrupt { place: self.place(&found.key), why, hint };
        let text = std::str::from_utf8(&found.value).map_err(|error| {
            corrupt(
                format!("it is not text: {error}"),
                "it is another program's; use another prefix".to_string(),
            )
        })?;
        let record = Record::from_json(key, text).map_err(|error| error.at(self.place(&found.key)))?;
        Ok((record, Version::new(&found.mod_revision.to_string())))
    }

    /// A key, for people.
    pub(crate) fn place(&self, key: &[u8]) -> String {
        format!("the key `{}` of {}", String::from_utf8_lossy(key).escape_debug(), self.location)
    }
}

impl Area {
    /// All below a key, without itself.
    pub(crate) fn below(key: &str) -> Area {
        Area { from: format!("{key}{BELOW}").into_bytes(), to: format!("{key}{PAST_BELOW}").into_bytes() }
    }

    /// One key.
    pub(crate) fn only(key: &str) -> Area {
        Area { from: key.as_bytes().to_vec(), to: Vec::new() }
    }

    /// A request for what is there.
    pub(crate) fn request(&self) -> RangeRequest {
        RangeRequest { key: self.from.clone(), range_end: self.to.clone(), ..RangeRequest::default() }
    }

    /// A request for at most so many of the keys, without their values.
    pub(crate) fn keys(&self, limit: i64) -> RangeRequest {
        RangeRequest { limit, keys_only: true, ..self.request() }
    }

    /// The condition that none of the keys is bound to a lease; true where there is no key.
    pub(crate) fn without_lease(&self) -> Compare {
        Compare {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Lease.into(),
            key: self.from.clone(),
            range_end: self.to.clone(),
            target_union: Some(TargetUnion::Lease(0)),
        }
    }
}

/// The condition that a key is not there.
pub(crate) fn is_absent(key: &str) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key: key.as_bytes().to_vec(),
        range_end: Vec::new(),
        target_union: Some(TargetUnion::CreateRevision(0)),
    }
}

/// The condition that a key was last written at this revision.
pub(crate) fn is_at(key: &str, revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Mod.into(),
        key: key.as_bytes().to_vec(),
        range_end: Vec::new(),
        target_union: Some(TargetUnion::ModRevision(revision)),
    }
}

/// The condition that a key was last written before this revision; true where there is no key.
pub(crate) fn is_older_than(key: &str, revision: u64) -> Compare {
    Compare {
        result: CompareResult::Less.into(),
        target: CompareTarget::Mod.into(),
        key: key.as_bytes().to_vec(),
        range_end: Vec::new(),
        target_union: Some(TargetUnion::ModRevision(i64::try_from(revision).unwrap_or(i64::MAX))),
    }
}

/// A part of a transaction that writes.
pub(crate) fn put(key: &str, value: String) -> RequestOp {
    let put = PutRequest { key: key.as_bytes().to_vec(), value: value.into_bytes(), lease: 0 };
    operation(request_op::Request::RequestPut(put))
}

/// A part of a transaction.
pub(crate) fn operation(request: request_op::Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

/// A part of a transaction that reads.
pub(crate) fn look(request: RangeRequest) -> RequestOp {
    operation(request_op::Request::RequestRange(request))
}

/// The revision of the whole of etcd that an answer was given at; it only rises.
pub(crate) fn revision(header: Option<&ResponseHeader>) -> u64 {
    header.map_or(0, |header| u64::try_from(header.revision).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_again_under_any_prefix() {
        let name = |text| ElectionName::new(text).unwrap();
        for (prefix, text) in [("", "a/b"), ("p", "p/a/b"), ("/p/q", "/p/q/a/b")] {
            let keys = Keys::of(prefix, "l");
            let key = Key::Election(name("a/b"));
            assert_eq!(keys.text(&key), text);
            assert_eq!(keys.key_of(text.as_bytes()), Some(key));
            assert_eq!(keys.election(&name("a/b")), text);
        }
        let keys = Keys::of("p", "l");
        assert_eq!(keys.begun(&name("a/b")), "p/@begun/a/b");
        for other in ["a", "pa", "p", "p/", "q/a", "p/A", "p/@begun/a/b"] {
            assert_eq!(keys.key_of(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn an_area_has_what_is_below_and_nothing_else() {
        let area = Area::below("p/a");
        let has = |key: &str| *key.as_bytes() >= *area.from && *key.as_bytes() < *area.to;
        assert!(has("p/a/") && has("p/a/b") && has("p/a/b/c") && has("p/a/\u{ff}"));
        assert!(!has("p/a") && !has("p/ab") && !has("p/a-b") && !has("p/a.b") && !has("p/a0"));
    }
}
