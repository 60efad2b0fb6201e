//! Leases: granted, kept alive, ended.

use baton_election::{Moment, Span};
use baton_store::{StoreError, boot};

use super::EtcdElections;
use crate::fault::Meaning;
use crate::wire::etcdserverpb::{LeaseGrantRequest, ResponseHeader};

/// A lease that was granted or kept alive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) ttl: Span,
    pub(super) asked_at: Moment,
    /// The term that the answering member had reached before it passed a keep-alive on to etcd's leader; none for a
    /// grant, which every member counts from when it applies it.
    term: Option<u64>,
}

impl Held {
    /// Whether an answer that was agreed upon after it shows that the lease was renewed by etcd's leader of that time.
    pub(super) fn is_confirmed_by(&self, header: Option<&ResponseHeader>) -> bool {
        match (self.term, header) {
            (None, _) => true,
            (Some(before), Some(header)) => header.raft_term <= before,
            (Some(_), None) => false,
        }
    }
}

impl EtcdElections {
    /// The lease of this id, kept alive if it is there, else granted.
    pub(super) async fn hold(&self, lease: i64, ttl: Span) -> Result<Held, StoreError> {
        // It can end between the two requests, or begin by another process that holds the same credential.
        for _ in 0..3 {
            if let Some(held) = self.renew(lease).await? {
                return Ok(held);
            }
            if let Some(held) = self.grant(lease, ttl).await? {
                return Ok(held);
            }
        }
        Err(StoreError::Unavailable {
            location: self.location(),
            why: "the lease comes and goes".to_string(),
            hint: "see whether another process uses the same credential".to_string(),
        })
    }

    /// Keeps a lease alive. None if there is no such lease.
    pub(super) async fn renew(&self, lease: i64) -> Result<Option<Held>, StoreError> {
        let asked_at = boot::now();
        match self.client.keep_alive(lease).await {
            Ok(answer) => {
                let term = answer.header.as_ref().map_or(0, |header| header.raft_term);
                Ok(seconds(answer.ttl).map(|ttl| Held { ttl, asked_at, term: Some(term) }))
            }
            Err(fault) if fault.meaning() == Meaning::LeaseIsGone => Ok(None),
            Err(fault) => Err(fault.of_reading(&self.client.location)),
        }
    }

    /// Grants a lease. None if it is there already.
    async fn grant(&self, lease: i64, ttl: Span) -> Result<Option<Held>, StoreError> {
        let asked_at = boot::now();
        let request = LeaseGrantRequest { ttl: whole_seconds(ttl), id: lease };
        match self.client.grant(request).await {
            Ok(answer) => match seconds(answer.ttl) {
                Some(ttl) if answer.error.is_empty() => Ok(Some(Held { ttl, asked_at, term: None })),
                Some(_) | None => Err(StoreError::Unavailable {
                    location: self.location(),
                    why: format!("no lease was granted: {}", answer.error),
                    hint: "see etcd's log".to_string(),
                }),
            },
            Err(fault) if fault.meaning() == Meaning::LeaseIsThere => Ok(None),
            Err(fault) => Err(fault.of_writing(&self.client.location)),
        }
    }

    /// Ends a lease. One that is not there has ended.
    pub(super) async fn revoke(&self, lease: i64) -> Result<(), StoreError> {
        match self.client.revoke(lease).await {
            Ok(()) => Ok(()),
            Err(fault) if fault.meaning() == Meaning::LeaseIsGone => Ok(()),
            Err(fault) => Err(fault.of_writing(&self.client.location)),
        }
    }

    /// The length of a lease, and what is left of it. None if it has ended: what is bound to it goes in a moment.
    pub(super) async fn length(&self, lease: i64) -> Result<Option<(Span, Span)>, StoreError> {
        match self.client.time_to_live(lease).await {
            Ok(answer) => {
                let left = u64::try_from(answer.ttl).ok().map(Span::secs);
                Ok(left.and_then(|left| seconds(answer.granted_ttl).map(|ttl| (ttl, left))))
            }
            Err(fault) if fault.meaning() == Meaning::LeaseIsGone => Ok(None),
            Err(fault) => Err(fault.of_reading(&self.client.location)),
        }
    }
}

/// What etcd says in seconds; nothing if there are none.
fn seconds(count: i64) -> Option<Span> {
    u64::try_from(count).ok().filter(|count| *count > 0).map(Span::secs)
}

/// Whole seconds, rounded up: etcd knows no others.
fn whole_seconds(ttl: Span) -> i64 {
    i64::try_from(ttl.as_nanos().div_ceil(1_000_000_000)).unwrap_or(i64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_rounded_up() {
        for (ttl, count) in [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (30_000, 30)] {
            assert_eq!(whole_seconds(Span::millis(ttl)), count);
        }
        assert_eq!((seconds(0), seconds(-1), seconds(2)), (None, None, Some(Span::secs(2))));
    }

    #[test]
    fn a_keep_alive_is_believed_only_while_no_later_term_is_seen() {
        let held = |term| Held { ttl: Span::secs(2), asked_at: Moment::from_nanos(0), term };
        let header = |raft_term| ResponseHeader { raft_term, ..ResponseHeader::default() };
        assert!(held(Some(3)).is_confirmed_by(Some(&header(3))));
        assert!(!held(Some(3)).is_confirmed_by(Some(&header(4))));
        assert!(!held(Some(3)).is_confirmed_by(None));
        assert!(held(None).is_confirmed_by(Some(&header(4))));
    }
}
