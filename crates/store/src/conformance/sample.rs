//! Records to write.

use baton_election::command::Acquire;
use baton_election::id::{Incarnation, LeaseKey};
use baton_election::{AgentName, Command, Document, ElectionName, Epoch, Span};

use super::documents::after;
use crate::boot;
use crate::key::Key;
use crate::record::Record;

/// A name that no other run of the suite uses.
pub(super) fn fresh(what: &str) -> ElectionName {
    let name = format!("c{:x}-{what}", boot::now().as_nanos());
    match ElectionName::new(&name) {
        Ok(name) => name,
        Err(error) => unreachable!("{error}"),
    }
}

/// An election that an agent of this number leads.
pub(super) fn led(election: &ElectionName, number: u8) -> Document {
    led_above(election, number, Epoch(0))
}

/// The same, granted where epochs up to `floor` were given before.
pub(super) fn led_above(election: &ElectionName, number: u8, floor: Epoch) -> Document {
    let Ok(agent) = AgentName::new(&format!("agent-{number}")) else { unreachable!("it is a plain name") };
    let acquire = Acquire {
        task: Some("conformance".to_string()),
        contact: Some("http://127.0.0.1:7420".to_string()),
        ..Acquire::new(agent, Incarnation([number; 8]), LeaseKey([number; 16]).hash())
    };
    after(election, None, &Command::Acquire(acquire), Span::ZERO, floor)
}

/// The same election after one renewal.
pub(super) fn renewed(record: &Record) -> Record {
    let Record::Election(document) = record else { unreachable!("the sample is an election") };
    let mut next = document.clone();
    next.beat += 1;
    if let Some(leader) = &mut next.leader {
        leader.renewals += 1;
    }
    Record::Election(next)
}

/// The same as a record, with its key.
pub(super) fn record(election: &ElectionName, number: u8) -> (Key, Record) {
    (Key::Election(election.clone()), Record::Election(Box::new(led(election, number))))
}
