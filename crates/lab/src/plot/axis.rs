//! Where a number lies on an axis, and which numbers are written beside it.

use super::unit::Unit;

/// How numbers are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps are equal differences; begins at zero.
    Linear,
    /// Equal steps are equal factors; only positive numbers have a place.
    Log,
}

/// An axis: what it shows and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What is measured, in words.
    pub label: String,
    /// How its numbers are written.
    pub unit: Unit,
    /// How its numbers are spread.
    pub scale: Scale,
}

impl Axis {
    /// A plain axis.
    pub fn linear(label: &str, unit: Unit) -> Axis {
        Axis { label: label.to_string(), unit, scale: Scale::Linear }
    }

    /// An axis of factors.
    pub fn log(label: &str, unit: Unit) -> Axis {
        Axis { label: label.to_string(), unit, scale: Scale::Log }
    }

    /// Whether the number has a place on this axis.
    pub(super) fn holds(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// The axis laid over these numbers, from pixel `start` to pixel `end`, with about `wanted` numbers beside it.
    pub(super) fn over(&self, values: impl Iterator<Item = f64>, pixels: (f64, f64), wanted: u32) -> Laid {
        let held = values.filter(|&value| self.holds(value));
        let (low, high) = held
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (ticks, range) = match self.scale {
            Scale::Linear => linear_ticks(low.min(0.0), if high > 0.0 { high } else { 1.0 }, wanted),
            Scale::Log if low <= high => log_ticks(low, high, wanted),
            Scale::Log => log_ticks(1.0, 10.0, wanted),
        };
        Laid { scale: self.scale, ticks, range, pixels }
    }
}

/// An axis that knows its range and its place in the picture.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Laid {
    scale: Scale,
    /// The numbers that are written beside it.
    pub(super) ticks: Vec<f64>,
    range: (f64, f64),
    pub(super) pixels: (f64, f64),
}

impl Laid {
    /// Where the number lies.
    pub(super) fn at(&self, value: f64) -> f64 {
        let (low, high, value) = match self.scale {
            Scale::Linear => (self.range.0, self.range.1, value),
            Scale::Log => (self.range.0.log10(), self.range.1.log10(), value.log10()),
        };
        let share = (value - low) / (high - low);
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }
}

/// Multiples of 1, 2 or 5 times a power of ten that cover the range; they begin and end at a tick.
fn linear_ticks(low: f64, high: f64, wanted: u32) -> (Vec<f64>, (f64, f64)) {
    let rough = (high - low) / f64::from(wanted.max(1));
    let power = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|&step| step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let (first, last) = ((low / step).floor(), (high / step - 1e-9).ceil());
    let mut ticks = Vec::new();
    let mut number = first;
    // At most `wanted` + 2 of them, since a step is at least the range by `wanted`.
    while number <= last {
        ticks.push(tidy(number * step));
        number += 1.0;
    }
    (ticks, (first * step, last * step))
}

/// Powers of ten; where these are few, also twice and five times each.
fn log_ticks(low: f64, high: f64, wanted: u32) -> (Vec<f64>, (f64, f64)) {
    let (mut first, mut last) = ((low.log10() + 1e-9).floor(), (high.log10() - 1e-9).ceil());
    if last <= first {
        (first, last) = (first.min(last), first.min(last) + 1.0);
    }
    let decades = last - first;
    let factors: &[f64] = if decades <= 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let every = (decades / f64::from(wanted.max(1))).ceil().max(1.0);
    let mut ticks = Vec::new();
    let mut decade = first;
    while decade <= last {
        let power = 10_f64.powf(decade);
        ticks.extend(factors.iter().map(|factor| tidy(factor * power)));
        decade += every;
    }
    // A range of fewer than a decade at an end would leave the curve in a corner.
    let (mut from, mut to) = (10_f64.powf(first), 10_f64.powf(last));
    if decades <= 2.0 {
        from = ticks.iter().copied().rev().find(|&tick| tick <= low * 1.000_001).unwrap_or(from);
        to = ticks.iter().copied().find(|&tick| tick >= high * 0.999_999).unwrap_or(to);
        if to <= from {
            to = from * 10.0;
        }
    }
    ticks.retain(|&tick| tick >= from * 0.999_999 && tick <= to * 1.000_001);
    (ticks, (from, to))
}

/// Without the last digits that arithmetic leaves behind.
fn tidy(value: f64) -> f64 {
    format!("{value:.10e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid(axis: &Axis, values: &[f64]) -> Laid {
        axis.over(values.iter().copied(), (0.0, 100.0), 5)
    }

    #[test]
    fn linear_axes_begin_at_zero_and_step_nicely() {
        let axis = Axis::linear("", Unit::Count);
        assert_eq!(laid(&axis, &[3.0, 7.3]).ticks, [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(laid(&axis, &[0.01, 0.031]).ticks, [0.0, 0.01, 0.02, 0.03, 0.04]);
        assert_eq!(laid(&axis, &[0.0]).ticks, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(laid(&axis, &[]).ticks.len(), 6);
        assert_eq!(laid(&axis, &[-3.0, 7.0]).ticks, [-4.0, -2.0, 0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(laid(&axis, &[4.0, 8.0]).at(4.0), 50.0);
    }

    #[test]
    fn logarithmic_axes_show_decades_or_parts_of_them() {
        let axis = Axis::log("", Unit::Count);
        assert_eq!(laid(&axis, &[3.0, 40_000.0]).ticks, [1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0]);
        assert_eq!(laid(&axis, &[3.0, 31.0]).ticks, [2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(laid(&axis, &[1e-9, 1e9]).ticks.len(), 5);
        assert_eq!(laid(&axis, &[10.0]).ticks, [10.0, 20.0, 50.0, 100.0]);
        assert_eq!(laid(&axis, &[]).ticks, [1.0, 2.0, 5.0, 10.0]);
        assert!((laid(&axis, &[1.0, 10_000.0]).at(100.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn what_has_no_place_is_left_out() {
        let log = Axis::log("", Unit::Count);
        assert_eq!(laid(&log, &[0.0, -1.0, f64::NAN, f64::INFINITY, 3.0, 31.0]), laid(&log, &[3.0, 31.0]));
        let linear = Axis::linear("", Unit::Count);
        assert_eq!(laid(&linear, &[f64::NAN, f64::INFINITY, 8.0]), laid(&linear, &[8.0]));
    }

    #[test]
    fn every_number_lies_inside() {
        for high in [1e-7, 0.99, 1.0, 1.01, 9.99, 10.0, 12_345.6, 7e12] {
            for axis in [Axis::linear("", Unit::Count), Axis::log("", Unit::Count)] {
                let low = high / 37.0;
                let laid = laid(&axis, &[low, high]);
                for value in [low, high] {
                    assert!((-0.001..=100.001).contains(&laid.at(value)), "{value} of {high} on {axis:?}");
                }
                assert!(laid.ticks.len() >= 2 && laid.ticks.len() <= 8, "{:?}", laid.ticks);
            }
        }
    }
}
