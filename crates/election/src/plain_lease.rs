//! The plain renewal by itself, for a caller that carries out very many of them.
//!
//! Assumes what [`decide`](crate::decide()) assumes. Guarantees that whatever it does, `decide` would have done: the same answer,
//! and the same document, which differs from the former in nothing but what stands here, and which may be
//! [volatile](crate::Persistence::Volatile). Does not guarantee to do anything: what is
//! not plain is left to `decide`, refusals too.

use crate::command::{Answer, Renew};
use crate::document::{Document, Leader, State};
use crate::id::{Epoch, Incarnation, KeyHash};
use crate::time::{Span, WallTime};

/// What of a document a plain renewal reads and changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainLease {
    /// Which life of the leader.
    pub incarnation: Incarnation,
    /// The hash of its lease key.
    pub key_hash: KeyHash,
    /// The epoch of its token, and of the document.
    pub epoch: Epoch,
    /// The epoch that it was granted.
    pub granted: Epoch,
    /// How long the lease lasts after the last renewal.
    pub ttl: Span,
    /// Renewals since the grant.
    pub renewals: u64,
    /// Time as the leader.
    pub held: Span,
    /// Time without progress.
    pub idle: Span,
    /// When the lease would end, for people.
    pub expires: WallTime,
    /// The document's count of beats.
    pub beat: u64,
}

impl PlainLease {
    /// The lease of a document whose token is accepted; none if nobody has one, or if a renewal of it may do more than to lengthen it:
    /// count against a limit, claim an offer, ask for an approval, show a region.
    pub fn of(document: &Document) -> Option<PlainLease> {
        let leader = document.leader.as_ref()?;
        let uncounted = !document.is_counted()
            && document.approval.question.is_none()
            && document.must_acknowledge().is_none();
        let bound = leader.offered || leader.region.is_some();
        if document.state != State::Held || bound || !uncounted || leader.epoch != document.epoch {
            return None;
        }
        Some(PlainLease {
            incarnation: leader.incarnation,
            key_hash: leader.key_hash,
            epoch: leader.epoch,
            granted: leader.granted,
            ttl: leader.ttl,
            renewals: leader.renewals,
            held: leader.held,
            idle: leader.idle,
            expires: leader.expires,
            beat: document.beat,
        })
    }

    /// Renews it, given the age of the last beat; none if that is not this simple.
    #[must_use]
    pub fn renewed(&self, renew: &Renew, age: Span, wall: WallTime) -> Option<(PlainLease, Answer)> {
        let Renew { epoch, credential, progress, spent_tokens, phase, promotion, region } = renew;
        let plain = spent_tokens.is_none() && phase.is_none() && promotion.is_none() && region.is_none();
        let age = age.whole_millis();
        if !plain
            || credential.incarnation != self.incarnation
            || *epoch < self.granted
            || *epoch > self.epoch
            || age >= self.ttl
            || !credential.key.opens(&self.key_hash)
        {
            return None;
        }
        let next = PlainLease {
            renewals: self.renewals + 1,
            held: self.held.plus(age),
            idle: if *progress { Span::ZERO } else { self.idle.plus(age) },
            expires: wall + self.ttl,
            beat: self.beat + 1,
            ..*self
        };
        let answer = Answer::Renewed { epoch: self.epoch, awaiting_approval: false, approval_wanted: false };
        Some((next, answer))
    }

    /// Puts it into the document that it was taken from, however often it was renewed since.
    pub fn put_into(&self, document: &mut Document) {
        let PlainLease { incarnation, key_hash, epoch, granted, ttl, renewals, held, idle, expires, beat } =
            *self;
        document.beat = beat;
        document.epoch = epoch;
        if let Some(leader) = &mut document.leader {
            *leader = Leader {
                incarnation,
                key_hash,
                epoch,
                granted,
                ttl,
                renewals,
                held,
                idle,
                expires,
                ..leader.clone()
            };
        }
    }
}
