//! The decision on each command: pure, total, the same everywhere.
//!
//! Assumes that the document was read from the store in one piece, that `evidence.age` is a lower bound, and that
//! `next` is committed by compare-and-swap against the very version that was read. Guarantees that epochs rise
//! strictly, that no lease is granted while another may be running, and that every change of leader has one
//! transition. Does not guarantee anything about work that a former leader goes on doing: that is what the epoch,
//! shown to a fence, is for.

mod acquire;
mod holder;
mod moves;
mod operate;
mod report;

use alloc::string::ToString;

use crate::refusal::FORGOTTEN;

use crate::command::{Command, Decision, Evidence};
use crate::document::{Document, Leader};
use crate::id::{Credential, Epoch};
use crate::refusal::Refusal;

pub use moves::checkpoint_hash;

/// Decides one command on one election.
pub fn decide(
    document: Option<&Document>,
    command: &Command,
    evidence: &Evidence<'_>,
) -> Result<Decision, Refusal> {
    // Rounded down to what can be written, it is still a lower bound.
    let evidence = &Evidence { age: evidence.age.whole_millis(), ..evidence.clone() };
    let epoch = document.map_or(evidence.floor, |document| document.epoch.max(evidence.floor));
    if epoch == Epoch::LAST && !matches!(command, Command::Release(_)) {
        // Nothing may raise it. What stands in a store is data, however it came there.
        return Err(Refusal::invalid(
            alloc::format!("the tokens of {} are used up: {epoch} was the last", evidence.election),
            "nobody was ever granted so many: restore the store from a snapshot, or begin an election with another name",
        ));
    }
    let decision = match command {
        Command::Acquire(acquire) => acquire::decide(document, acquire, evidence),
        Command::Renew(renew) => holder::renew(known(document, evidence)?, renew, evidence),
        Command::Release(release) => holder::release(known(document, evidence)?, release, evidence),
        Command::Pass(pass) => holder::pass(known(document, evidence)?, pass, evidence),
        Command::Checkpoint(write) => holder::checkpoint(known(document, evidence)?, write, evidence),
        Command::Acknowledge(ack) => holder::acknowledge(known(document, evidence)?, ack, evidence),
        Command::Report(report) => report::decide(known(document, evidence)?, report, evidence),
        Command::Operate(signed) => operate::decide(document, signed, evidence),
    }?;
    if let Some(next) = &decision.next {
        assert!(next.contradiction().is_none(), "a decision contradicts itself: {:?}", next.contradiction());
        assert!(document.is_none_or(|old| old.epoch <= next.epoch && old.beat <= next.beat));
        assert!(document.is_some_and(|old| old.epoch == next.epoch) || next.epoch >= evidence.floor);
    }
    Ok(decision)
}

/// The document, or the refusal that there is no such election. A retired election has a document, and no token of it is current.
fn known<'a>(document: Option<&'a Document>, evidence: &Evidence<'_>) -> Result<&'a Document, Refusal> {
    document.ok_or_else(|| Refusal::UnknownElection { election: evidence.election.to_string() })
}

/// In what capacity somebody holds a lease.
enum Role<'a> {
    /// The document names it as the leader.
    Leader(&'a Leader),
    /// Its leadership was ended from outside; its lease may still be running.
    Outgoing(&'a Leader),
}

/// Who this credential belongs to, if to anybody who holds a lease.
fn role<'a>(document: &'a Document, credential: &Credential, epoch: Epoch) -> Result<Role<'a>, Refusal> {
    let stale = |why: &str| Refusal::Stale {
        shown: epoch,
        current: document.epoch,
        leader: document.leader.as_ref().map(|leader| leader.agent.clone()),
        why: why.to_string(),
    };
    let found = match (&document.leader, &document.outgoing) {
        (Some(leader), _) if leader.incarnation == credential.incarnation => Role::Leader(leader),
        (_, Some(leader)) if leader.incarnation == credential.incarnation => Role::Outgoing(leader),
        (Some(_) | None, Some(_) | None) => {
            let mine = document.departure.as_ref().filter(|d| d.incarnation == credential.incarnation);
            return Err(match mine {
                None if document.is_retired() => stale(FORGOTTEN),
                Some(departure) => stale(&alloc::format!("this leadership ended ({})", departure.cause)),
                None => stale("another leadership has begun"),
            });
        }
    };
    let (Role::Leader(leader) | Role::Outgoing(leader)) = &found;
    if !credential.key.opens(&leader.key_hash) {
        return Err(Refusal::WrongKey { why: "the lease key does not fit".to_string() });
    }
    if epoch < leader.granted || epoch > leader.epoch {
        return Err(stale("the token is not of this leadership"));
    }
    Ok(found)
}
