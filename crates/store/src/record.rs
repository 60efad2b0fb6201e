//! What is kept under a key.

use baton_election::audit::Entry;
#[cfg(feature = "conformance")]
use baton_election::document::FORMAT;
use baton_election::document::{Pulse, Transition};
use baton_election::fence::Accepted;
use baton_election::log::Log;
use baton_election::{Candidate, Document, Fence, StoreInfo, Tokens};
use baton_toolbox::{Item, Kind};
use serde::de::Error;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::error::StoreError;
use crate::key::Key;
use crate::spoken;

/// A record of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// What the store knows of itself.
    Store(StoreInfo),
    /// The access tokens of the store's server.
    Tokens(Tokens),
    /// An election.
    Election(Box<Document>),
    /// A candidate.
    Candidate(Box<Candidate>),
    /// The transitions of an election.
    History(Log<Transition>),
    /// A fence.
    Fence(Box<Fence>),
    /// A part of what a fence accepted.
    FenceLog(Log<Accepted>),
    /// A part of what operators did.
    Audit(Log<Entry>),
    /// An item of a leader's toolbox.
    Item(Box<Item>),
}

/// Why some text is not the record that its key says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotARecord {
    /// A newer Baton wrote it.
    #[error("it was written by a newer Baton (format {format}; this one reads up to {reads})")]
    Newer {
        /// Its format.
        format: u32,
        /// The newest format that this Baton knows.
        reads: u32,
    },
    /// No Baton wrote it so.
    #[error("{why}")]
    Damaged {
        /// What is wrong with it.
        why: String,
        /// What to do.
        hint: String,
    },
}

impl NotARecord {
    /// As the failure of a store. `place` is where the text is, for people.
    pub fn at(self, place: impl Into<String>) -> StoreError {
        let place = place.into();
        match self {
            NotARecord::Newer { format, reads } => StoreError::Newer { place, format, reads },
            NotARecord::Damaged { why, hint } => StoreError::Corrupt { place, why, hint },
        }
    }
}

/// The form that all records but the document share: their own fields, and the format.
#[derive(Serialize, Deserialize)]
struct Framed<T> {
    format: u32,
    #[serde(flatten)]
    body: T,
}

/// The form in which a record is written.
struct Form<'a>(&'a Record);

impl Serialize for Form<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let format = spoken::written(self.0);
        fn framed<T: Serialize, S: Serializer>(
            format: u32,
            body: T,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            Framed { format, body }.serialize(serializer)
        }
        match self.0 {
            Record::Store(info) => framed(format, info, serializer),
            Record::Tokens(tokens) => framed(format, tokens, serializer),
            #[cfg(feature = "conformance")]
            Record::Election(document) if format != FORMAT => {
                let mut value = serde_json::to_value(document).map_err(serde::ser::Error::custom)?;
                value["format"] = format.into();
                value.serialize(serializer)
            }
            Record::Election(document) => document.serialize(serializer),
            Record::Candidate(candidate) => framed(format, candidate, serializer),
            Record::History(log) => framed(format, log, serializer),
            Record::Fence(fence) => framed(format, fence, serializer),
            Record::FenceLog(log) => framed(format, log, serializer),
            Record::Audit(log) => framed(format, log, serializer),
            Record::Item(item) => framed(format, item, serializer),
        }
    }
}

impl Record {
    /// The record as JSON that a person can read.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(&Form(self));
        let Ok(text) = text else { unreachable!("a record is always expressible as JSON: {self:?}") };
        text
    }

    /// The same JSON without a space too many.
    pub fn to_compact_json(&self) -> Vec<u8> {
        let text = serde_json::to_vec(&Form(self));
        let Ok(text) = text else { unreachable!("a record is always expressible as JSON: {self:?}") };
        text
    }

    /// The record of this key in this text.
    pub fn from_json(key: &Key, text: &str) -> Result<Record, NotARecord> {
        fn framed<T: for<'de> Deserialize<'de>>(text: &str) -> serde_json::Result<T> {
            serde_json::from_str::<Framed<T>>(text).map(|framed| framed.body)
        }
        fn item<T: for<'de> Deserialize<'de>>(text: &str, of: fn(T) -> Item) -> serde_json::Result<Record> {
            framed(text).map(|item| Record::Item(Box::new(of(item))))
        }
        refuse_newer(key, text)?;
        #[cfg(feature = "conformance")]
        let rehearsed = known_format(text);
        #[cfg(feature = "conformance")]
        let text = rehearsed.as_deref().unwrap_or(text);
        let record = match key {
            Key::Store => framed(text).map(Record::Store),
            Key::Tokens => framed(text).map(Record::Tokens),
            Key::Election(_) => serde_json::from_str(text).map(Record::Election),
            Key::Candidate(..) => framed(text).map(Record::Candidate),
            Key::History(_) => framed(text).map(Record::History),
            Key::Fence(_) => framed(text).map(Record::Fence),
            Key::FenceLog(..) => framed(text).map(Record::FenceLog),
            Key::Audit(..) => framed(text).map(Record::Audit).and_then(|record| as_written(record, text)),
            Key::Item(_, Kind::Task, _) => item(text, Item::Task),
            Key::Item(_, Kind::Proposal, _) => item(text, Item::Proposal),
            Key::Item(_, Kind::Quota, _) => item(text, Item::Quota),
            Key::Item(_, Kind::Value, _) => item(text, Item::Value),
            Key::Item(_, Kind::Breaker, _) => item(text, Item::Breaker),
        };
        let record = record.map_err(|error| NotARecord::Damaged {
            why: format!("it is not a record of Baton: {error}"),
            hint: "it was changed by hand or by another program; put back what was there".to_string(),
        })?;
        match record.misplaced(key) {
            None => Ok(record),
            Some(why) => {
                let hint = "it was moved or copied by hand; put it back".to_string();
                Err(NotARecord::Damaged { why, hint })
            }
        }
    }

    /// The document, if it is one.
    pub fn as_election(&self) -> Option<&Document> {
        match self {
            Record::Election(document) => Some(document),
            Record::Store(_)
            | Record::Tokens(_)
            | Record::Candidate(_)
            | Record::History(_)
            | Record::Fence(_)
            | Record::FenceLog(_)
            | Record::Audit(_)
            | Record::Item(_) => None,
        }
    }

    /// What the record's clock is told by.
    pub fn pulse(&self) -> Option<Pulse> {
        match self {
            Record::Election(document) => Some(document.pulse()),
            Record::Candidate(candidate) => Some(candidate.pulse()),
            Record::Fence(fence) => Some(fence.pulse()),
            Record::Item(item) => item.pulse(),
            Record::Store(_)
            | Record::Tokens(_)
            | Record::History(_)
            | Record::FenceLog(_)
            | Record::Audit(_) => None,
        }
    }

    /// How the record contradicts the key that it was found under.
    fn misplaced(&self, key: &Key) -> Option<String> {
        let fits = match self {
            Record::Store(_) => matches!(key, Key::Store),
            Record::Tokens(_) => matches!(key, Key::Tokens),
            Record::Election(document) => key.as_election() == Some(&document.election),
            Record::Candidate(candidate) => {
                let (of, by) = (&candidate.election, &candidate.agent);
                matches!(key, Key::Candidate(election, agent) if of == election && by == agent)
            }
            Record::History(_) => matches!(key, Key::History(_)),
            Record::Fence(fence) => matches!(key, Key::Fence(resource) if fence.resource == *resource),
            Record::FenceLog(_) => matches!(key, Key::FenceLog(..)),
            Record::Audit(_) => matches!(key, Key::Audit(..)),
            Record::Item(item) => {
                let (place, of) = (item.place(), item.kind());
                matches!(key, Key::Item(election, kind, name) if place == (election, name) && of == *kind)
            }
        };
        (!fits).then(|| format!("it is a record of something else than `{key}`"))
    }
}

/// Refuses what says the same in other letters than a Baton writes: nobody but a Baton writes an audit log.
fn as_written(record: Record, text: &str) -> serde_json::Result<Record> {
    let (found, meant): (Value, Value) = (serde_json::from_str(text)?, serde_json::to_value(Form(&record))?);
    if found == meant { Ok(record) } else { Err(Error::custom("it is not as it was written")) }
}

/// A record of a format that is only rehearsed, in the format that there is.
#[cfg(feature = "conformance")]
fn known_format(text: &str) -> Option<String> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    let format = value.get_mut("format").filter(|format| format.as_u64() > Some(FORMAT.into()))?;
    *format = FORMAT.into();
    Some(value.to_string())
}

/// A record of a newer Baton has a higher format, whatever else stands in it.
fn refuse_newer(key: &Key, text: &str) -> Result<(), NotARecord> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let reads = spoken::read(key);
    match serde_json::from_str::<Format>(text) {
        Ok(Format { format }) if format > reads => Err(NotARecord::Newer { format, reads }),
        Ok(_) | Err(_) => Ok(()),
    }
}
