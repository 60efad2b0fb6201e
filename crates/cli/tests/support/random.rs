//! Chance from one printed seed.

/// `SplitMix64`.
pub(crate) struct Random(u64);

impl Random {
    /// From `$BATON_SEED`, else from the clock; printed, so that a failure can be played again.
    pub(crate) fn seeded() -> Random {
        let given = std::env::var("BATON_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed =
            given.unwrap_or_else(|| rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_nsec);
        eprintln!("seed: BATON_SEED={seed}");
        Random(seed.cast_unsigned())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From `low` to below `high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low)
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    pub(crate) fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[usize::try_from(self.next() % among.len() as u64).unwrap()]
    }
}
