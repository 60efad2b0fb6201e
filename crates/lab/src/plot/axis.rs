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

    /// About so many round numbers from zero to this one, as they are written beside the axis.
    pub(crate) fn ticks_until(&self, high: f64, wanted: u32) -> Vec<(f64, String)> {
        let (ticks, _) = self.linear_ticks(0.0, high, wanted);
        ticks.into_iter().filter(|tick| *tick <= high).map(|tick| (tick, self.unit.tick(tick))).collect()
    }

    /// Whether the number has a place on this axis.
    pub(super) fn holds(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// The axis laid over these numbers, from pixel `start` to pixel `end`, with about `wanted` numbers beside it.
    pub(super) fn over(
        &self,
        values: impl Iterator<Item = f64>,
        pixels: (f64, f64),
        wanted: u32,
    ) -> PlacedAxis {
        let held = values.filter(|&value| self.holds(value));
        let (low, high) = held
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (ticks, range) = match self.scale {
            Scale::Linear => self.linear_ticks(low.min(0.0), if high > 0.0 { high } else { 1.0 }, wanted),
            Scale::Log if low <= high => self.log_ticks(low, high, wanted),
            Scale::Log => self.log_ticks(1.0, 10.0, wanted),
        };
        PlacedAxis { scale: self.scale, ticks, range, pixels }
    }

    /// Multiples of 1, 2 or 5 times a power of ten, of the unit in which people count, that cover the range; they begin and end
    /// at a tick.
    fn linear_ticks(&self, low: f64, high: f64, wanted: u32) -> (Vec<f64>, (f64, f64)) {
        let unit = self.unit.step(high);
        let rough = (high - low) / unit / f64::from(wanted.max(1));
        let power = 10_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = unit * steps.into_iter().find(|&step| step >= rough * 0.999).unwrap_or(10.0 * power);
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

    /// Powers of ten, or what is as round in this unit; where these are few, also twice and five times each.
    fn log_ticks(&self, low: f64, high: f64, wanted: u32) -> (Vec<f64>, (f64, f64)) {
        let round = self.round_numbers(low, high);
        // The range ends at the round numbers next to the numbers, so that the curve is not left in a corner.
        let from = round.iter().copied().rev().find(|&number| number <= low * 1.000_001).unwrap_or(low);
        let to = round.iter().copied().find(|&number| number >= high * 0.999_999).unwrap_or(high);
        let to = if to > from * 1.5 { to } else { from * 10.0 };
        let inside = |number: &f64| *number >= from * 0.999_999 && *number <= to * 1.000_001;
        let decades = (to / from).log10();
        let mut ticks: Vec<f64> = round.into_iter().filter(inside).collect();
        if decades <= 2.5 {
            return (ticks, (from, to));
        }
        ticks.retain(|&number| self.is_decade(number));
        let most = usize::try_from(wanted).unwrap_or(1).max(2) + 1;
        let every = ticks.len().div_ceil(most).max(1);
        (ticks.into_iter().step_by(every).collect(), (from, to))
    }

    fn is_decade(&self, number: f64) -> bool {
        let marks = self.unit.marks();
        if marks.is_empty() { number.log10().fract().abs() < 1e-6 } else { marks.contains(&number) }
    }

    /// Round numbers from below `low` to above `high`.
    fn round_numbers(&self, low: f64, high: f64) -> Vec<f64> {
        let (first, last) = (low.log10().floor() - 1.0, high.log10().ceil() + 1.0);
        let mut decades: Vec<f64> = self.unit.marks().to_vec();
        if decades.is_empty() {
            let mut decade = first;
            while decade <= last {
                decades.push(tidy(10_f64.powf(decade)));
                decade += 1.0;
            }
        }
        let mut round: Vec<f64> =
            decades.iter().flat_map(|&decade| [decade, tidy(2.0 * decade), tidy(5.0 * decade)]).collect();
        round.sort_by(f64::total_cmp);
        round.dedup();
        // 50s would touch 1min.
        let touches = |number: f64| decades.iter().any(|&decade| decade > number && decade <= 1.25 * number);
        round.retain(|&number| number >= low / 100.0 && number <= high * 100.0 && !touches(number));
        round
    }
}

/// An axis that knows its range and its place in the picture.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlacedAxis {
    scale: Scale,
    /// The numbers that are written beside it.
    pub(super) ticks: Vec<f64>,
    range: (f64, f64),
    pub(super) pixels: (f64, f64),
}

impl PlacedAxis {
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

/// Without the last digits that arithmetic leaves behind.
fn tidy(value: f64) -> f64 {
    format!("{value:.10e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid(axis: &Axis, values: &[f64]) -> PlacedAxis {
        axis.over(values.iter().copied(), (0.0, 100.0), 5)
    }

    #[test]
    fn linear_axes_begin_at_zero_and_step_nicely() {
        let axis = Axis::linear("", Unit::Count);
        assert_eq!(laid(&axis, &[3.0, 7.3]).ticks, [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(laid(&axis, &[0.01, 0.031]).ticks, [0.0, 0.01, 0.02, 0.03, 0.04]);
        assert_eq!(laid(&axis, &[0.0]).ticks, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(laid(&axis, &[]).ticks.len(), 6);
        let time = Axis::linear("", Unit::Seconds);
        assert_eq!(laid(&time, &[1_188.0]).ticks, [0.0, 300.0, 600.0, 900.0, 1_200.0]);
        assert_eq!(laid(&axis, &[-3.0, 7.0]).ticks, [-4.0, -2.0, 0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(laid(&axis, &[4.0, 8.0]).at(4.0), 50.0);
    }

    #[test]
    fn logarithmic_axes_show_decades_or_parts_of_them() {
        let axis = Axis::log("", Unit::Count);
        assert_eq!(laid(&axis, &[3.0, 40_000.0]).ticks, [10.0, 100.0, 1_000.0, 10_000.0]);
        assert_eq!(laid(&axis, &[3.0, 31.0]).ticks, [2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(laid(&axis, &[1e-9, 1e9]).ticks.len(), 5);
        let time = Axis::log("", Unit::Seconds);
        assert_eq!(laid(&time, &[4.0, 190.0]).ticks, [2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0]);
        assert_eq!(laid(&time, &[4.0, 7_000.0]).ticks, [10.0, 60.0, 600.0, 3_600.0]);
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
                assert!(laid.ticks.len() >= 2 && laid.ticks.len() <= 9, "{:?}", laid.ticks);
            }
        }
    }
}
