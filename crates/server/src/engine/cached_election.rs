//! What is known of one election: what is durable, and the renewals since.

use baton_election::command::Renew;
use baton_election::time::{Moment, Span, WallTime};
use baton_election::{Answer, Document, ElectionName};
use baton_store::Version;

use super::compact_document::{CompactDocument, FieldInterner};

/// An election as it stands.
pub(super) struct CachedElection {
    pub(super) compact: CompactDocument,
    /// Of what is durable.
    version: CompactVersion,
    /// When its clock was last restarted.
    pub(super) stamp: Moment,
}

/// A version, without an allocation of its own if it is a number.
enum CompactVersion {
    Number(u64),
    Text(Box<Version>),
}

/// What the clocks show.
#[derive(Clone, Copy)]
pub(crate) struct Now {
    pub(super) moment: Moment,
    pub(super) wall: WallTime,
}

impl CachedElection {
    pub(super) fn new(
        document: Document,
        interner: &FieldInterner,
        version: Version,
        stamp: Moment,
    ) -> CachedElection {
        let number = version.as_str().parse::<u64>().ok().filter(|n| n.to_string() == version.as_str());
        let version = number.map_or_else(|| CompactVersion::Text(Box::new(version)), CompactVersion::Number);
        CachedElection { compact: CompactDocument::of(document, interner), version, stamp }
    }

    /// The name of the election.
    pub(super) fn name(&self) -> &str {
        self.compact.name()
    }

    pub(super) fn version(&self) -> Version {
        match &self.version {
            CompactVersion::Number(number) => Version::new(&number.to_string()),
            CompactVersion::Text(version) => (**version).clone(),
        }
    }

    pub(super) fn document(&self, election: &ElectionName) -> Document {
        self.compact.document(election)
    }

    /// Renews it if that is plain: in memory alone, since a restart gives every lease its full length anyway.
    pub(super) fn renew(&mut self, renew: &Renew, age: Span, now: Now) -> Option<(Answer, Span)> {
        let (running, answer) = self.compact.running.as_ref()?.renewed(renew, age, now.wall)?;
        self.compact.running = Some(running);
        self.restart(now.moment);
        Some((answer, running.ttl))
    }

    /// What may stand in memory alone.
    pub(super) fn put(&mut self, document: Document, interner: &FieldInterner, now: Moment) {
        self.compact = CompactDocument::of(document, interner);
        self.restart(now);
    }

    /// Whoever looked at the clock earlier and comes later does not set it back.
    fn restart(&mut self, now: Moment) {
        self.stamp = self.stamp.max(now);
    }
}
