//! A lease that was granted, and from when on its holder may count it.
//!
//! Guarantees that every [`Grant`] counts from before the request that began or renewed its lease was first sent. A lease that
//! was granted to an earlier request, or offered, is older than the request that found it; one whose answer came late is over for
//! its holder. Each is [`Answered::Unconfirmed`], and only a renewal sent since turns it into a [`Grant`]. No other code can set
//! the moment: the field is private.

use baton_api::elections::Executed;
use baton_election::command::Renew;
use baton_election::region::Proof;
use baton_election::time::{Moment, Span};
use baton_election::{Answer, Credential, Document, Epoch, Margins, Refusal};

use crate::error::Error;
use crate::region::Region;

/// A lease that was granted.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The token.
    pub epoch: Epoch,
    /// What proves to be its holder.
    pub credential: Credential,
    /// How long the lease lasts after each renewal.
    pub ttl: Span,
    /// See [`Grant::asked_at`].
    asked_at: Moment,
    /// The document as granted.
    pub document: Document,
    /// It had been granted before.
    pub repeated: bool,
    /// The region under which it was granted: it lasts no longer than that.
    pub region: Option<Region>,
}

/// What an acquire was answered.
pub(crate) enum Answered {
    /// This request began the lease.
    Begun(Grant),
    /// An earlier request began it, or it is an offer, or the answer came after its own deadline.
    Unconfirmed(Unconfirmed),
}

/// A lease whose age this client does not know.
pub(crate) struct Unconfirmed(Grant);

impl Grant {
    /// The moment from which this lease is counted, on this machine's boot-time clock: before the request that began it was first
    /// sent; for a repeated grant, before the renewal that confirmed it was first sent.
    pub fn asked_at(&self) -> Moment {
        self.asked_at
    }

    /// How long it can be used after each renewal: as long as the lease lasts, or that of the region, if that is shorter.
    pub fn lasts(&self) -> Span {
        self.region.as_ref().map_or(self.ttl, |region| self.ttl.min(region.ttl()))
    }

    /// When the holder must have stopped, unless it renews.
    pub fn deadline(&self) -> Moment {
        let own = Margins::STANDARD.deadline(self.asked_at, self.ttl);
        self.region.as_ref().map_or(own, |region| own.min(region.deadline()))
    }

    /// The same, found in the store's own line, where its holder stood but did not lead before.
    pub(crate) fn after_a_wait_in_line(self) -> Grant {
        Grant { repeated: false, ..self }
    }
}

impl Answered {
    /// Sorts what an acquire was answered. `executed.asked_at` is before the first attempt of that request.
    pub(crate) fn new(executed: Executed, credential: Credential, region: Option<Region>) -> Answered {
        let Executed { answer, document, asked_at, .. } = executed;
        let Some(document) = document else { unreachable!("a grant shows the document") };
        let unconfirmed =
            answer.is_unconfirmed() || document.leader.as_ref().is_some_and(|leader| leader.offered);
        let Answer::Granted { epoch, ttl, repeated, .. } = answer else {
            unreachable!("an acquire is granted or refused, not {answer:?}")
        };
        let grant = Grant { epoch, credential, ttl, asked_at, document, repeated, region };
        if unconfirmed { Answered::Unconfirmed(Unconfirmed(grant)) } else { Answered::Begun(grant) }
    }

    /// The same at this moment: a lease that is over before its holder heard of it must be confirmed. Nobody else may have taken it
    /// yet, and then a renewal makes it usable; a store that was slow for a moment costs no second round among all candidates.
    pub(crate) fn judged_at(self, now: Moment) -> Answered {
        match self {
            Answered::Begun(grant) if now >= grant.deadline() => Answered::Unconfirmed(Unconfirmed(grant)),
            in_time => in_time,
        }
    }
}

impl Unconfirmed {
    /// The renewal that confirms it.
    pub(crate) fn renewal(&self, region: Option<Proof>) -> Renew {
        Renew { region, ..Renew::new(self.0.epoch, self.0.credential) }
    }

    /// The region under which it was granted.
    pub(crate) fn region(&self) -> Option<&Region> {
        self.0.region.as_ref()
    }

    /// The lease, counted from a renewal that was sent after this client heard of it.
    pub(crate) fn confirmed(self, renewed: Executed) -> Result<Grant, Error> {
        let Unconfirmed(grant) = self;
        let Answer::Renewed { epoch, .. } = renewed.answer else {
            // A limit ended it before it began.
            return Err(Error::Refused(Refusal::Stale {
                shown: grant.epoch,
                current: grant.epoch,
                leader: None,
                why: format!("it was ended before it was claimed: {:?}", renewed.answer),
            }));
        };
        let (asked_at, ttl) = (renewed.asked_at, renewed.ttl.unwrap_or(grant.ttl));
        // A server shows no document with a renewal.
        let document =
            renewed.document.filter(|document| document.leader.is_some()).unwrap_or(grant.document);
        Ok(Grant { epoch, ttl, asked_at, document, ..grant })
    }
}

#[cfg(test)]
impl Grant {
    /// A lease that was asked for at this moment.
    pub(crate) fn asked_for(
        asked_at: Moment,
        ttl: Span,
        credential: Credential,
        document: Document,
    ) -> Grant {
        Grant { epoch: document.epoch, credential, ttl, asked_at, document, repeated: false, region: None }
    }
}
