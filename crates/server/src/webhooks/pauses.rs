//! How long a receiver that failed is left alone.

use std::time::Duration;

/// The first pause is at most this, each later one at most twice the one before.
const FIRST: Duration = Duration::from_millis(500);
/// No pause is longer.
const LONGEST: Duration = Duration::from_secs(60);

/// The pauses between tries that fail one after the other.
#[derive(Debug, Default)]
pub struct Pauses {
    taken: u32,
}

impl Pauses {
    /// Whether there was one.
    pub fn any(&self) -> bool {
        self.taken > 0
    }

    /// How long to wait before the next try: from half of what it may be to all of it, so that receivers that came back together are not hit
    /// together.
    pub fn another(&mut self) -> Duration {
        let most = FIRST.saturating_mul(1 << self.taken.min(16)).min(LONGEST);
        self.taken = self.taken.saturating_add(1);
        let part = getrandom::u32().unwrap_or(u32::MAX / 2);
        most / 2 + (most / 2).mul_f64(f64::from(part) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_double_up_to_a_minute() {
        let mut pauses = Pauses::default();
        assert!(!pauses.any());
        for most in [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
            let (pause, most) = (pauses.another(), Duration::from_millis(most));
            assert!(pause >= most / 2 && pause <= most, "{pause:?} of {most:?}");
            assert!(pauses.any());
        }
    }
}
