//! Whether a sealed message is said here and at this time, and not said again by somebody who heard it once.
//!
//! A seal proves who wrote a message, not when. A leader's heartbeats, repeated after its death, would keep its followers waiting; an address, told once, could be told
//! anew from elsewhere. So each process has a *life*, a number of its own, and counts what it says; of a life that is known each number is heard once. A life that is not
//! known is believed when it repeats a *challenge* that was drawn for nothing else: who is dead repeats none. Two that meet need three signs of life for that, and what
//! their machines say before is lost, which every algorithm lives with.
//!
//! **Assumes** that messages are sealed, all of this included. **Guarantees** that each message is heard at most once, in the receiver's own life, and none of a former life of its
//! sender once a later one was heard. **Does not** guarantee that it is heard soon: whoever can hold messages back can still let each through later, once, while their
//! sender lives.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_peer::{NodeId, Random};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// So far behind the highest number of a life others may come: datagrams overtake each other.
const WINDOW: u64 = 64;
/// A life that is not known is answered at most so often: the answers must not push out what the machine says.
const ANSWER_EVERY: Duration = Duration::from_millis(100);

/// What a message says of its own place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    /// Of the process that says it.
    life: u64,
    /// Its number among all that the process has said.
    count: u64,
    /// What the receiver shall repeat.
    challenge: u64,
    /// What the receiver wanted to be repeated.
    echo: u64,
}

/// What a stamp means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    /// It is heard for the first time.
    Fresh,
    /// The same, and the first of a life; the sender may wait for our echo.
    First,
    /// It was heard before, or may have been.
    Stale,
    /// Of a life that is not known, to be answered with this; with nothing if that was done only just now.
    Unknown(Option<Stamp>),
}

/// What this process knows of those who talk to it.
#[derive(Debug)]
pub(super) struct Freshness {
    life: u64,
    count: u64,
    /// Numbers need not be hard to guess: nobody else can seal them. They must not come twice.
    random: Random,
    /// One for each id at most, since only what is sealed is noted.
    known: BTreeMap<NodeId, PeerFreshness>,
}

#[derive(Debug)]
struct PeerFreshness {
    /// What it must repeat for a new life to be believed.
    challenge: u64,
    /// What it wants to be repeated, as it said when it was last believed.
    echo: u64,
    life: Option<KnownProcess>,
    answered: Option<Instant>,
}

/// A life that is believed.
#[derive(Debug)]
struct KnownProcess {
    number: u64,
    highest: u64,
    /// Which of the last numbers were heard; the lowest bit stands for the highest.
    heard: u64,
}

impl KnownProcess {
    fn begun(number: u64, count: u64) -> KnownProcess {
        // What was said before it was believed is lost, and does not come later either.
        KnownProcess { number, highest: count, heard: u64::MAX }
    }

    /// Whether this number was not heard yet; it is then.
    fn take(&mut self, count: u64) -> bool {
        if let Some(ahead) = count.checked_sub(self.highest).filter(|ahead| *ahead > 0) {
            self.heard =
                u32::try_from(ahead).ok().and_then(|ahead| self.heard.checked_shl(ahead)).unwrap_or(0);
            (self.highest, self.heard) = (count, self.heard | 1);
            return true;
        }
        let behind = self.highest - count;
        let is_new = behind < WINDOW && self.heard & (1 << behind) == 0;
        if is_new {
            self.heard |= 1 << behind;
        }
        is_new
    }
}

impl Freshness {
    pub(super) fn new(seed: u64) -> Freshness {
        let mut random = Random::seeded(seed);
        Freshness { life: random.number(), count: 0, random, known: BTreeMap::new() }
    }

    /// For the next message to a member.
    pub(super) fn stamp(&mut self, to: NodeId) -> Stamp {
        let known = acquaintance(&mut self.known, &mut self.random, to);
        self.count += 1;
        Stamp { life: self.life, count: self.count, challenge: known.challenge, echo: known.echo }
    }

    /// What the stamp of a message with a true seal means.
    pub(super) fn hear(&mut self, now: Instant, from: NodeId, stamp: &Stamp) -> Age {
        let known = acquaintance(&mut self.known, &mut self.random, from);
        match &mut known.life {
            Some(life) if life.number == stamp.life => {
                if !life.take(stamp.count) {
                    return Age::Stale;
                }
                // Of two that came in another order the later one counts.
                if life.highest == stamp.count {
                    known.echo = stamp.challenge;
                }
                Age::Fresh
            }
            Some(_) | None if stamp.echo == known.challenge => {
                known.life = Some(KnownProcess::begun(stamp.life, stamp.count));
                known.echo = stamp.challenge;
                known.challenge = self.random.number();
                Age::First
            }
            Some(_) | None => {
                if known.answered.is_some_and(|at| now - at < ANSWER_EVERY) {
                    return Age::Unknown(None);
                }
                known.answered = Some(now);
                // Nothing of it is believed, so nothing of it is kept.
                let answer = Stamp { echo: stamp.challenge, ..self.stamp(from) };
                Age::Unknown(Some(answer))
            }
        }
    }
}

fn acquaintance<'a>(
    known: &'a mut BTreeMap<NodeId, PeerFreshness>,
    random: &mut Random,
    id: NodeId,
) -> &'a mut PeerFreshness {
    known.entry(id).or_insert_with(|| PeerFreshness {
        challenge: random.number(),
        echo: 0,
        life: None,
        answered: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u16) -> NodeId {
        NodeId::new(number).unwrap()
    }

    /// Two that have never met get to know each other; everything that was said.
    fn meet(one: &mut Freshness, two: &mut Freshness, now: Instant) -> Vec<Stamp> {
        let hello = one.stamp(id(2));
        let Age::Unknown(Some(answer)) = two.hear(now, id(1), &hello) else { panic!("who is that?") };
        assert_eq!(one.hear(now, id(2), &answer), Age::First);
        let third = one.stamp(id(2));
        assert_eq!(two.hear(now, id(1), &third), Age::First);
        let fourth = two.stamp(id(1));
        assert_eq!(one.hear(now, id(2), &fourth), Age::Fresh);
        vec![hello, third]
    }

    #[test]
    fn two_get_to_know_each_other_and_hear_each_word_once() {
        let (mut one, mut two) = (Freshness::new(1), Freshness::new(2));
        let now = Instant::now();
        let mut said = meet(&mut one, &mut two, now);
        for _ in 0..200 {
            let stamp = one.stamp(id(2));
            assert_eq!(two.hear(now, id(1), &stamp), Age::Fresh);
            said.push(stamp);
        }
        for stamp in &said {
            assert_eq!(two.hear(now, id(1), stamp), Age::Stale, "{stamp:?}");
        }
    }

    #[test]
    fn words_may_overtake_each_other_a_little() {
        let (mut one, mut two) = (Freshness::new(1), Freshness::new(2));
        let now = Instant::now();
        meet(&mut one, &mut two, now);
        let stamps: Vec<Stamp> = (0..100).map(|_| one.stamp(id(2))).collect();
        for stamp in stamps[50..].iter().rev() {
            assert_eq!(two.hear(now, id(1), stamp), Age::Fresh);
        }
        assert_eq!(two.hear(now, id(1), &stamps[40]), Age::Fresh, "59 behind");
        assert_eq!(two.hear(now, id(1), &stamps[40]), Age::Stale);
        assert_eq!(two.hear(now, id(1), &stamps[30]), Age::Stale, "69 behind");
    }

    #[test]
    fn the_words_of_a_former_life_are_not_heard() {
        let (mut before, mut two) = (Freshness::new(1), Freshness::new(2));
        let now = Instant::now();
        let mut said = meet(&mut before, &mut two, now);
        said.extend((0..10).map(|_| before.stamp(id(2))));
        let mut again = Freshness::new(3);
        let now = now + ANSWER_EVERY;
        meet(&mut again, &mut two, now);
        for stamp in &said {
            assert!(matches!(two.hear(now, id(1), stamp), Age::Unknown(_)), "{stamp:?}");
        }
        // Nor does it put the living one out of touch.
        assert_eq!(two.hear(now, id(1), &again.stamp(id(2))), Age::Fresh);
        assert_eq!(again.hear(now, id(2), &two.stamp(id(1))), Age::Fresh);
    }

    #[test]
    fn words_to_a_former_life_are_not_heard() {
        let (mut one, mut before) = (Freshness::new(1), Freshness::new(2));
        let now = Instant::now();
        let mut said = meet(&mut one, &mut before, now);
        said.extend((0..10).map(|_| one.stamp(id(2))));
        let mut two = Freshness::new(4);
        for (number, stamp) in said.iter().enumerate() {
            let age = two.hear(now, id(1), stamp);
            // And what they are answered with is bounded.
            assert!(matches!(age, Age::Unknown(answer) if answer.is_some() == (number == 0)), "{age:?}");
        }
    }
}
