//! A record as a row: the columns that say to people and to SQL what the record says.

use baton_election::audit::Book;
use baton_election::document::State;
use baton_election::{Document, Span};
use baton_store::{Key, NotARecord, Record};

/// The columns beside the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    /// What the record is of.
    pub(crate) kind: String,
    /// The election that it belongs to.
    pub(crate) election: Option<String>,
    /// The leader.
    pub(crate) leader: Option<String>,
    /// The token: an election's epoch, the highest that a fence has seen.
    pub(crate) token: Option<i64>,
    /// What the election is doing.
    pub(crate) state: Option<String>,
    /// How long the record's word holds after its beat.
    pub(crate) lease_ms: Option<i64>,
    /// The store that made the record.
    pub(crate) store: Option<String>,
}

/// The columns of a record; none if a number is larger than a column can hold.
pub(crate) fn columns(key: &Key, record: &Record) -> Option<Columns> {
    let kind = key.kind().to_string();
    let election = match key {
        Key::Election(election)
        | Key::Candidate(election, _)
        | Key::History(election)
        | Key::Item(election, ..)
        | Key::Audit(Book::Election(election), _) => Some(election.to_string()),
        Key::Store
        | Key::Tokens
        | Key::Fence(_)
        | Key::FenceLog(..)
        | Key::Audit(Book::Store | Book::Tokens, _) => None,
    };
    let plain = Columns { kind, election, ..Columns::default() };
    Some(match record {
        Record::Election(document) => of_election(document, plain)?,
        Record::Candidate(candidate) => Columns { lease_ms: millis(Some(candidate.ttl))?, ..plain },
        Record::Fence(fence) => Columns {
            election: Some(fence.election.to_string()),
            token: Some(i64::try_from(fence.highest.0).ok()?),
            lease_ms: millis(fence.hold.as_ref().map(|hold| hold.ttl))?,
            store: Some(fence.store.to_string()),
            ..plain
        },
        Record::Store(info) => Columns { store: Some(info.id.to_string()), ..plain },
        Record::Item(item) => Columns { token: Some(i64::try_from(item.fence().0).ok()?), ..plain },
        Record::Tokens(_) | Record::History(_) | Record::FenceLog(_) | Record::Audit(_) => plain,
    })
}

fn of_election(document: &Document, plain: Columns) -> Option<Columns> {
    let offered = document.leader.as_ref().is_some_and(|leader| leader.offered);
    let state = match document.state {
        State::Held if offered => "offered".to_string(),
        // Its token is refused until it has acknowledged what was left.
        State::Held if document.must_acknowledge().is_some() => "synchronising".to_string(),
        State::Held | State::Vacant | State::AwaitingApproval | State::Paused => document.state.to_string(),
    };
    Some(Columns {
        leader: document.leader.as_ref().map(|leader| leader.agent.to_string()),
        token: Some(i64::try_from(document.epoch.0).ok()?),
        state: Some(state),
        lease_ms: millis(document.lease_holder().map(|leader| leader.lease()))?,
        store: Some(document.store.to_string()),
        ..plain
    })
}

/// The record of a row, if its columns say the same.
pub(crate) fn record(key: &Key, text: &str, found: &Columns) -> Result<Record, NotARecord> {
    let record = Record::from_json(key, text)?;
    let meant = columns(key, &record);
    let pairs = |columns: &Columns| {
        let number = |number: Option<i64>| number.map(|number| number.to_string());
        [
            ("kind", Some(columns.kind.clone())),
            ("election", columns.election.clone()),
            ("leader", columns.leader.clone()),
            ("fencing_token", number(columns.token)),
            ("state", columns.state.clone()),
            ("lease_ms", number(columns.lease_ms)),
            ("store", columns.store.clone()),
        ]
    };
    let meant_pairs = pairs(&meant.unwrap_or_default());
    for ((name, says), (_, means)) in pairs(found).into_iter().zip(meant_pairs) {
        if says != means {
            let shown = |value: Option<String>| value.unwrap_or_else(|| "nothing".to_string());
            return Err(NotARecord::Damaged {
                why: format!("its column {name} says {}, its record {}", shown(says), shown(means)),
                hint: "a part of the row was changed by hand; put back what was there".to_string(),
            });
        }
    }
    Ok(record)
}

/// Milliseconds as the server counts them.
fn millis(span: Option<Span>) -> Option<Option<i64>> {
    span.map(|span| i64::try_from(span.as_millis())).transpose().ok()
}
