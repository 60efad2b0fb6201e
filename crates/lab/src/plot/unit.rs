//! Numbers as people read them on an axis and at the end of a bar.

/// What a number counts, and so how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things: 950, 1.2k, 3M.
    Count,
    /// Seconds, in the unit that fits: 20ms, 3.5s, 2min, 4h, 3d.
    Seconds,
    /// Hundredths.
    Percent,
    /// As a table has it: 1188, 43.5, 0.3.
    Plain,
}

const SECONDS: [(f64, &str); 6] =
    [(1e-6, "µs"), (1e-3, "ms"), (1.0, "s"), (60.0, "min"), (3_600.0, "h"), (86_400.0, "d")];
const COUNTS: [(f64, &str); 5] = [(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")];

impl Unit {
    /// The number with its unit, to three digits.
    pub fn write(self, value: f64) -> String {
        if value == 0.0 {
            return "0".to_string();
        }
        match self {
            Unit::Count => scaled(value, &COUNTS),
            Unit::Seconds => scaled(value, &SECONDS),
            Unit::Percent => format!("{}%", digits(value)),
            Unit::Plain if value.abs() >= 99.95 => format!("{value:.0}"),
            Unit::Plain if value.abs() >= 0.095 => format!("{value:.1}"),
            Unit::Plain => format!("{value:.3}"),
        }
    }

    /// The number beside an axis: without zeros that say nothing.
    pub(super) fn tick(self, value: f64) -> String {
        match self {
            Unit::Plain => {
                let text = format!("{value:.3}");
                text.trim_end_matches('0').trim_end_matches('.').to_string()
            }
            Unit::Count | Unit::Seconds | Unit::Percent => self.write(value),
        }
    }

    /// In what steps people count as far as this number: minutes are counted in minutes.
    pub(super) fn step(self, high: f64) -> f64 {
        match self {
            Unit::Seconds => {
                let fits = SECONDS.iter().rev().find(|(size, _)| high >= 2.0 * size);
                fits.map_or(1.0, |&(size, _)| size)
            }
            Unit::Count | Unit::Percent | Unit::Plain => 1.0,
        }
    }

    /// Whether a number is round enough to stand at a decade of a logarithmic axis: not 100s, but 1min.
    pub(super) fn marks(self) -> &'static [f64] {
        const TIMES: [f64; 18] = [
            1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 36_000.0, 86_400.0,
            864_000.0, 8.64e6, 8.64e7, 8.64e8, 8.64e9,
        ];
        match self {
            Unit::Seconds => &TIMES,
            Unit::Count | Unit::Percent | Unit::Plain => &[],
        }
    }
}

/// In the largest unit in which it is at least one.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let fits = units.iter().rev().find(|(size, _)| value.abs() >= size * 0.999_5).or(units.first());
    let &(size, name) = fits.unwrap_or(&(1.0, ""));
    format!("{}{name}", digits(value / size))
}

/// Three significant digits without zeros at the end; powers of ten where it is very small or very large.
pub(crate) fn digits(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        return "0".to_string();
    }
    if !(1e-4..1e6).contains(&size) {
        return format!("{value:.0e}");
    }
    let decimals = match size {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.999_5 => 2,
        size if size >= 0.099_95 => 3,
        size if size >= 0.009_995 => 4,
        _ => 6,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_read_them() {
        for (unit, value, text) in [
            (Unit::Count, 0.0, "0"),
            (Unit::Count, 950.0, "950"),
            (Unit::Count, 999.9, "1k"),
            (Unit::Count, 1_234.0, "1.23k"),
            (Unit::Count, 1e6, "1M"),
            (Unit::Count, 0.05, "0.05"),
            (Unit::Count, 1e-7, "1e-7"),
            (Unit::Count, 1e20, "1e8T"),
            (Unit::Seconds, 0.0204, "20.4ms"),
            (Unit::Seconds, 3.5, "3.5s"),
            (Unit::Seconds, 120.0, "2min"),
            (Unit::Seconds, 86_400.0, "1d"),
            (Unit::Seconds, -0.5, "-500ms"),
            (Unit::Percent, 12.345, "12.3%"),
            (Unit::Plain, 1_188.4, "1188"),
            (Unit::Plain, 43.46, "43.5"),
            (Unit::Plain, 0.0123, "0.012"),
        ] {
            assert_eq!(unit.write(value), text, "{value}");
        }
    }
}
