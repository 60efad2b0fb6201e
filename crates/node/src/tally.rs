//! What every transport counts, and what it has to tell people.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use baton_peer::NodeId;

use crate::transport::Counters;

/// What people have not been told yet, of strangers and of all others; and what they are told of strangers within [`CROWD_EVERY`].
const COMPLAINTS_MAX: usize = 16;
/// What people are told of one source and are not told again; more is not told at all.
const TOLD_MAX: usize = 8;
/// Strangers whose complaints are remembered; of more, the first are forgotten.
const STRANGERS_MAX: usize = 64;
/// In such a time not more than [`COMPLAINTS_MAX`] words are told of strangers.
const CROWD_EVERY: Duration = Duration::from_secs(60);

/// [`Counters`] that several tasks raise.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) oversized: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) connections: AtomicU64,
}

impl Tally {
    pub(crate) fn counters(&self) -> Counters {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            sent: value(&self.sent),
            received: value(&self.received),
            dropped: value(&self.dropped),
            oversized: value(&self.oversized),
            malformed: value(&self.malformed),
            refused: value(&self.refused),
            connections: value(&self.connections),
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whole between any two statements, also where a panic left it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whom a complaint is about. Each has a share of its own, so that nobody can use up what is told of others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// What is beside this member: its daemon.
    Own,
    /// A member that is known here.
    Member(NodeId),
    /// Somebody who is not, by where it speaks from.
    Stranger(String),
}

impl Source {
    /// A stranger at that address. A stranger with one IPv6 address has 2^64 of them.
    pub(crate) fn at(address: IpAddr) -> Source {
        Source::Stranger(match address.to_canonical() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => (address.to_bits() >> 64).to_string(),
        })
    }

    const fn is_stranger(&self) -> bool {
        match self {
            Source::Stranger(_) => true,
            Source::Own | Source::Member(_) => false,
        }
    }
}

/// What people should know, each of it once.
///
/// Guarantees that what strangers do never keeps a word about a member or the own daemon from being told, that one stranger never keeps a
/// word about another from being told, and a bound on what is kept. A crowd of strangers at many addresses can delay what is told of others
/// by [`CROWD_EVERY`].
#[derive(Debug, Default)]
pub(crate) struct Complaints(Mutex<Backlog>);

#[derive(Debug, Default)]
struct Backlog {
    texts: VecDeque<(bool, String)>,
    /// What was told of whom, the source that was told of first at the front.
    told: VecDeque<(Source, BTreeSet<String>)>,
    /// Since when strangers are counted, and how often they were told of since.
    crowd: Option<(Instant, usize)>,
}

impl Complaints {
    /// Tells people something, once.
    pub(crate) fn tell(&self, about: Source, text: String) {
        lock(&self.0).tell(about, text, Instant::now());
    }

    /// What was complained of is mended: it may be told again.
    pub(crate) fn forgive(&self, about: &Source) {
        lock(&self.0).told.retain(|(source, _)| source != about);
    }

    /// What has not been told yet.
    pub(crate) fn take(&self) -> Vec<String> {
        lock(&self.0).texts.drain(..).map(|(_, text)| text).collect()
    }
}

impl Backlog {
    fn tell(&mut self, about: Source, text: String, now: Instant) {
        let strange = about.is_stranger();
        let waiting = self.texts.iter().filter(|(other, _)| *other == strange).count();
        if waiting >= COMPLAINTS_MAX || self.was_told(&about, &text) || (strange && !self.bears(now)) {
            return;
        }
        self.note(about, text.clone());
        self.texts.push_back((strange, text));
    }

    /// Whether it was told, or so much else of the same source that nobody reads more.
    fn was_told(&self, about: &Source, text: &str) -> bool {
        let told = self.told.iter().find(|(source, _)| source == about);
        told.is_some_and(|(_, told)| told.len() >= TOLD_MAX || told.contains(text))
    }

    /// Whether one more word about strangers can be borne; counts it if so.
    fn bears(&mut self, now: Instant) -> bool {
        let (since, count) = self.crowd.filter(|(since, _)| now - *since < CROWD_EVERY).unwrap_or((now, 0));
        self.crowd = Some((since, count + usize::from(count < COMPLAINTS_MAX)));
        count < COMPLAINTS_MAX
    }

    fn note(&mut self, about: Source, text: String) {
        if let Some((_, told)) = self.told.iter_mut().find(|(source, _)| *source == about) {
            told.insert(text);
            return;
        }
        let strangers = self.told.iter().filter(|(source, _)| source.is_stranger()).count();
        if about.is_stranger()
            && strangers >= STRANGERS_MAX
            && let Some(first) = self.told.iter().position(|(source, _)| source.is_stranger())
        {
            self.told.remove(first);
        }
        self.told.push_back((about, BTreeSet::from([text])));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(number: u16) -> Source {
        Source::Member(NodeId::new(number).unwrap())
    }

    fn stranger(last: u8) -> Source {
        Source::at(IpAddr::from([10, 0, 0, last]))
    }

    #[test]
    fn a_complaint_is_told_once_until_it_is_forgiven() {
        let complaints = Complaints::default();
        complaints.tell(member(2), "no".to_string());
        complaints.tell(member(2), "no".to_string());
        assert_eq!(complaints.take(), ["no"]);
        complaints.tell(member(2), "no".to_string());
        assert!(complaints.take().is_empty());
        complaints.forgive(&member(3));
        complaints.tell(member(2), "no".to_string());
        assert!(complaints.take().is_empty(), "another one was forgiven");
        complaints.forgive(&member(2));
        complaints.tell(member(2), "no".to_string());
        assert_eq!(complaints.take(), ["no"]);
    }

    #[test]
    fn one_stranger_mutes_nobody_else() {
        let complaints = Complaints::default();
        for version in 0..100_000 {
            complaints.tell(stranger(66), format!("somebody speaks version {version}"));
            if version % 10 == 0 {
                complaints.take();
            }
        }
        complaints.take();
        complaints.tell(stranger(7), "another stranger".to_string());
        complaints.tell(member(2), "member 2".to_string());
        complaints.tell(Source::Own, "the daemon".to_string());
        assert_eq!(complaints.take(), ["another stranger", "member 2", "the daemon"]);
    }

    #[test]
    fn a_crowd_of_strangers_mutes_no_member_and_others_only_for_a_while() {
        let (mut waiting, now) = (Backlog::default(), Instant::now());
        for last in 0..=255 {
            waiting.tell(stranger(last), "no".to_string(), now);
        }
        assert_eq!(waiting.texts.len(), COMPLAINTS_MAX);
        waiting.tell(member(2), "member 2".to_string(), now);
        assert_eq!(waiting.texts.len(), COMPLAINTS_MAX + 1, "although no stranger has read anything");
        waiting.texts.clear();
        waiting.tell(stranger(200), "once more".to_string(), now);
        assert!(waiting.texts.is_empty());
        for last in 0..=255 {
            waiting.tell(stranger(last), "later".to_string(), now + CROWD_EVERY);
        }
        assert_eq!(waiting.texts.len(), COMPLAINTS_MAX);
        assert!(waiting.told.len() <= STRANGERS_MAX + 1, "{}", waiting.told.len());
    }

    #[test]
    fn neighbours_on_ipv6_are_one_stranger() {
        let at = |text: &str| Source::at(text.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:2"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_ne!(at("::ffff:10.0.0.1"), at("::ffff:10.0.0.2"));
    }
}
