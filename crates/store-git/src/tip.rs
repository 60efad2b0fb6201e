//! A commit that holds a record: how it is read, and how the next one is made.
//!
//! The tree holds one file, readable in any viewer of git. A change of leader is a commit on top of the former tip;
//! every other change takes the former tip's place, with the same parents, so that the log is the list of leaders.
//! Two trailers make that safe. `Baton-Change` is a random number: two clones that write the same at the same second
//! write different commits, of which only one can win, and no state of a record has the version of an earlier one.
//! `Baton-Term` is the change with which a commit came on top, kept by those that take its place: it tells the
//! successors of a tip from another history with the same parents.

use baton_election::Document;
use baton_store::{Key, Record, StoreError};

use crate::message;
use crate::objects::Object;
use crate::refs::Oid;

/// The trailer that says which term of the record a commit belongs to.
pub(crate) const TERM: &str = "Baton-Term: ";
/// The trailer that no other commit has.
pub(crate) const CHANGE: &str = "Baton-Change: ";

/// A commit, without what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Its name.
    pub(crate) oid: Oid,
    /// Its parents.
    pub(crate) parents: Vec<Oid>,
    /// Its term; none if no Baton made it.
    pub(crate) term: Option<String>,
}

/// A commit with the record in it.
#[derive(Clone, Debug)]
pub(crate) struct Tip {
    /// The commit.
    pub(crate) commit: Commit,
    /// The record.
    pub(crate) record: Record,
}

/// A commit that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Draft {
    parents: Vec<Oid>,
    message: String,
}

impl Commit {
    /// The commit in an object; none if it is not one.
    pub(crate) fn parse(object: &Object) -> Option<Commit> {
        if object.kind != "commit" {
            return None;
        }
        let text = String::from_utf8_lossy(&object.body);
        let (head, message) = text.split_once("\n\n").unwrap_or((&text, ""));
        let parents = head.lines().filter_map(|line| line.strip_prefix("parent ")).map(Oid::parse);
        let term = message.lines().rev().find_map(|line| line.strip_prefix(TERM)).map(str::to_string);
        Some(Commit { oid: object.oid.clone(), parents: parents.collect::<Option<_>>()?, term })
    }

    /// Whether both belong to the same term: one took the other's place, at once or in steps.
    pub(crate) fn is_kin(&self, other: &Commit) -> bool {
        self.oid == other.oid
            || (self.term.is_some() && self.term == other.term && self.parents == other.parents)
    }
}

impl Tip {
    /// The election's document, if it is one.
    pub(crate) fn document(&self) -> Option<&Document> {
        self.record.as_election()
    }
}

/// The name of the file that holds the record.
pub(crate) fn file_name(key: &Key) -> &'static str {
    match key {
        Key::Store => "store.json",
        Key::Tokens => "tokens.json",
        Key::Election(_) => "coordinator.json",
        Key::Candidate(..) => "candidate.json",
        Key::History(_) => "history.json",
        Key::Fence(_) => "fence.json",
        Key::FenceLog(..) => "log.json",
        Key::Audit(..) => "audit.json",
        Key::Item(..) => "item.json",
    }
}

/// The record in a file of a commit.
pub(crate) fn record(key: &Key, place: &str, body: &[u8]) -> Result<Record, StoreError> {
    let corrupt = |why: String, hint: String| StoreError::Corrupt { place: place.to_string(), why, hint };
    let text = std::str::from_utf8(body)
        .map_err(|_| corrupt("it is not text".into(), "put back what was there".into()))?;
    Record::from_json(key, text).map_err(|error| error.at(place))
}

/// The tree with one file in it.
pub(crate) fn tree(key: &Key, blob: &Oid) -> Vec<u8> {
    let mut tree = format!("100644 {}\0", file_name(key)).into_bytes();
    tree.extend(blob.bytes());
    tree
}

/// The commit that puts `next` in place of, or on top of, what is there. `change` is a number that no other has.
pub(crate) fn draft(next: &Record, base: Option<&Tip>, change: &str) -> Draft {
    let (parents, term) = match base {
        None => (Vec::new(), None),
        // A tip that no Baton made has no term by which those who saw it would know its successor.
        Some(base) if is_transition(base, next) || base.commit.term.is_none() => {
            (vec![base.commit.oid.clone()], None)
        }
        Some(base) => (base.commit.parents.clone(), base.commit.term.as_deref()),
    };
    let message = message::of(next, parents.len() > 1, term.unwrap_or(change), change);
    Draft { parents, message }
}

/// The commit that ends a divergence: on top of both claims, of which the first is the one that `next` goes on from.
pub(crate) fn settling_draft(next: &Record, claims: Vec<Oid>, change: &str) -> Draft {
    Draft { parents: claims, message: message::of(next, true, change, change) }
}

fn is_transition(base: &Tip, next: &Record) -> bool {
    let Record::Election(next) = next else { return false };
    let epoch = |document: &Document| document.last_transition.as_ref().map(|last| last.epoch);
    base.document().is_some_and(|base| epoch(base) != epoch(next))
}

impl Draft {
    /// The commit as git writes it, of this tree and this time.
    pub(crate) fn body(&self, tree: &Oid, unix_seconds: u64) -> Vec<u8> {
        let mut text = format!("tree {tree}\n");
        for parent in &self.parents {
            text.push_str(&format!("parent {parent}\n"));
        }
        let whom = format!("baton <agent@baton.invalid> {unix_seconds} +0000");
        text.push_str(&format!("author {whom}\ncommitter {whom}\n\n{}", self.message));
        text.into_bytes()
    }
}
