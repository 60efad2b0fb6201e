//! Chance that is the same for the same seed.

/// SplitMix64 (Steele, Lea, Flood 2014): eight bytes of state, every seed is a good one.
///
/// Not for secrets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub const fn seeded(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below the bound; zero if the bound is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product: unlike a remainder it needs no division, and its bias is below bound / 2^64.
        let product = u128::from(self.number()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included; `low` if they are the wrong way round.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // The first numbers of seed 1234567 in the reference implementation.
        let mut random = Random::seeded(1_234_567);
        assert_eq!(random.number(), 6_457_827_717_110_365_317);
        assert_eq!(random.number(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn bounds_hold_and_are_reached() {
        let mut random = Random::seeded(1);
        let drawn: alloc::vec::Vec<u64> = (0..1_000).map(|_| random.between(3, 5)).collect();
        assert!(drawn.iter().all(|&n| (3..=5).contains(&n)));
        for n in 3..=5 {
            assert!(drawn.contains(&n), "{n} was never drawn");
        }
        assert_eq!(random.below(0), 0);
    }
}
