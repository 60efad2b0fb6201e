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
        ] {
            assert_eq!(unit.write(value), text, "{value}");
        }
    }
}
