//! Offers, and what is written of them.
//!
//! An offer is a lease that may be taken back after a while if nobody claims it. Only the engine that made it takes it back, and only
//! while it remembers that it is one: what is written is the lease, as if it had been claimed. So a claim changes nothing that must
//! outlive the server, and whoever reads the store, this server after a crash, the next one or a restore, finds a lease of full
//! length, claimed or not.
//!
//! Assumes that nobody but this engine grants the election while the engine runs. Guarantees that a lease that was claimed is never
//! taken for an offer by whoever comes later. Does not guarantee that an offer which nobody claims goes on after an eighth of the
//! lease if the server dies meanwhile: it then lasts as long as a lease.

use baton_election::{Answer, Document};

/// Makes a document what is written of it. Says whether it was an offer.
pub(super) fn keep_as_lease(document: &mut Document) -> bool {
    document.leader.as_mut().is_some_and(|leader| std::mem::take(&mut leader.offered))
}

/// Makes what was written what it is.
pub(super) fn remember(document: &mut Document, offered: bool) {
    if let Some(leader) = &mut document.leader {
        leader.offered = offered;
    }
}

/// Whether a renewal claims an offer.
pub(super) fn claims(old: &Document, next: &Document) -> bool {
    let offered = |document: &Document| document.leader.as_ref().is_some_and(|leader| leader.offered);
    offered(old) && next.leader.is_some() && !offered(next)
}

/// What who waited in line is told of a lease that was found to be its own: it leads after a renewal, whatever the lease was written as.
pub(super) fn to_be_claimed(mut answer: Answer) -> Answer {
    if let Answer::Granted { offer, .. } = &mut answer {
        *offer = true;
    }
    answer
}
