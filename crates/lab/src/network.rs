//! The network: who reaches whom, how long a message takes, and which are lost or come twice.

use baton_election::Span;
use baton_peer::{MAX_MEMBERS, Random};

use crate::seed::pick;

/// How messages travel. The links that are cut are apart from it, in [`Links`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// The shortest time that a message takes.
    pub delay_min: Span,
    /// The longest that most messages take: they lie evenly between the two, so that they overtake each other.
    pub delay_max: Span,
    /// How many of a thousand take longer.
    pub late_permille: u16,
    /// How long those may take.
    pub late_max: Span,
    /// How many of a thousand are lost.
    pub loss_permille: u16,
    /// How many of a thousand come twice.
    pub twice_permille: u16,
}

impl Network {
    /// One on which nothing is lost, late or doubled.
    pub const fn calm(delay_min: Span, delay_max: Span) -> Network {
        Network {
            delay_min,
            delay_max,
            late_permille: 0,
            late_max: Span::ZERO,
            loss_permille: 0,
            twice_permille: 0,
        }
    }

    /// One on which messages take up to a fair part of a round, overtake each other, get lost, come twice, or come rounds later.
    pub(crate) fn bad(round: Span, random: &mut Random) -> Network {
        let delay_min = part(round, 1, 500, random);
        let delay_max = delay_min.plus(part(round, 2, [20, 100, 400][pick(random, 3)], random));
        Network {
            delay_min,
            delay_max,
            late_permille: [0, 5, 50][pick(random, 3)],
            late_max: part(round, 100, 40_000, random),
            loss_permille: [0, 0, 10, 50, 200][pick(random, 5)],
            twice_permille: [0, 10, 100][pick(random, 3)],
        }
    }

    /// How long a message takes; none if it is lost.
    pub fn travel(&self, random: &mut Random) -> Option<Span> {
        if chance(random, self.loss_permille) { None } else { Some(self.delay(random)) }
    }

    /// How long a message takes that arrives.
    pub fn delay(&self, random: &mut Random) -> Span {
        let usual = Span::nanos(random.between(self.delay_min.as_nanos(), self.delay_max.as_nanos()));
        if !chance(random, self.late_permille) {
            return usual;
        }
        // Most of the late ones are a little late, some are very late.
        let most = random.below(self.late_max.as_nanos());
        usual.plus(Span::nanos(random.below(most)))
    }

    /// Whether a message comes a second time.
    pub fn doubles(&self, random: &mut Random) -> bool {
        chance(random, self.twice_permille)
    }
}

/// Between two shares of a round, in ten-thousandths.
fn part(round: Span, low: u64, high: u64, random: &mut Random) -> Span {
    let (low, high) = (round.scaled(low, 10_000), round.scaled(high, 10_000));
    Span::nanos(random.between(low.as_nanos(), high.as_nanos()))
}

fn chance(random: &mut Random, permille: u16) -> bool {
    permille > 0 && random.below(1_000) < u64::from(permille)
}

/// The directed links: a row for each sender, with a bit for each receiver that it reaches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Links {
    rows: Vec<u128>,
}

impl Links {
    /// Everybody reaches everybody. At most one more than a group has members: a store has a place too.
    pub fn whole(places: usize) -> Links {
        assert!(places <= MAX_MEMBERS + 1, "{places} places");
        Links { rows: vec![u128::MAX; places] }
    }

    /// How many places there are.
    pub fn places(&self) -> usize {
        self.rows.len()
    }

    /// Whether nothing is cut.
    pub fn is_whole(&self) -> bool {
        *self == Links::whole(self.places())
    }

    /// Whether a message gets from one place to another.
    pub fn open(&self, from: usize, to: usize) -> bool {
        self.rows.get(from).is_some_and(|row| row & (1 << to) != 0)
    }

    /// Cuts or mends one direction.
    pub fn set(&mut self, from: usize, to: usize, open: bool) {
        if let Some(row) = self.rows.get_mut(from) {
            if open {
                *row |= 1 << to;
            } else {
                *row &= !(1 << to);
            }
        }
    }

    /// Cuts both ways between all places of different sides.
    pub fn split(sides: &[u8]) -> Links {
        let mut links = Links::whole(sides.len());
        for (from, side) in sides.iter().enumerate() {
            for (to, other) in sides.iter().enumerate() {
                links.set(from, to, side == other);
            }
        }
        links
    }

    /// Cuts a place off: what it sends, what it would hear, or both.
    pub fn isolate(&mut self, place: usize, outbound: bool, inbound: bool) {
        for other in 0..self.places() {
            if other != place {
                if outbound {
                    self.set(place, other, false);
                }
                if inbound {
                    self.set(other, place, false);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_is_two_ways_and_an_isolation_may_be_one_way() {
        let split = Links::split(&[0, 0, 1]);
        assert!(split.open(0, 1) && split.open(2, 2) && !split.open(0, 2) && !split.open(2, 1));
        let mut links = Links::whole(3);
        links.isolate(1, true, false);
        assert!(!links.open(1, 0) && links.open(0, 1) && links.open(0, 2));
    }

    #[test]
    fn shares_are_as_they_say() {
        let network = Network {
            loss_permille: 100,
            late_permille: 50,
            late_max: Span::secs(9),
            ..Network::calm(Span::millis(1), Span::millis(5))
        };
        let mut random = Random::seeded(3);
        let travelled: Vec<Option<Span>> = (0..10_000).map(|_| network.travel(&mut random)).collect();
        let lost = travelled.iter().filter(|span| span.is_none()).count();
        let late = travelled.iter().flatten().filter(|span| **span > Span::millis(5)).count();
        assert!((800..1_200).contains(&lost) && (350..550).contains(&late), "{lost} lost, {late} late");
        assert!(travelled.iter().flatten().all(|span| *span >= Span::millis(1)));
    }
}
