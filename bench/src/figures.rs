//! What was measured, and how it is shown.

use std::io::Write;
use std::time::Duration;

/// One line of the table.
pub(crate) struct Figure {
    what: String,
    value: String,
    beside: String,
    bar: String,
    met: Option<bool>,
}

impl Figure {
    /// A figure of the machine itself.
    pub(crate) fn calibration(what: &str, value: Duration) -> Figure {
        Figure {
            what: what.to_string(),
            value: short(value),
            beside: "(calibration)".into(),
            bar: String::new(),
            met: None,
        }
    }

    /// A duration against a fixed bar.
    pub(crate) fn at_most(what: &str, value: Duration, bar: Duration, beside: String) -> Figure {
        Figure {
            what: what.to_string(),
            value: short(value),
            beside,
            bar: format!("≤ {}", short(bar)),
            met: Some(value <= bar),
        }
    }

    /// An amount of memory against a fixed bar.
    pub(crate) fn memory(what: &str, bytes: u64, bar: u64) -> Figure {
        Figure {
            what: what.to_string(),
            value: format!("{} MiB", bytes >> 20),
            beside: String::new(),
            bar: format!("≤ {} MiB", bar >> 20),
            met: Some(bytes <= bar),
        }
    }

    /// A rate against a fixed bar.
    pub(crate) fn rate(what: &str, per_second: f64, bar: f64, beside: String) -> Figure {
        Figure {
            what: what.to_string(),
            value: format!("{:.2} M/s", per_second / 1e6),
            beside,
            bar: format!("≥ {:.0} M/s", bar / 1e6),
            met: Some(per_second >= bar),
        }
    }

    /// Simulated seconds per second against a fixed bar.
    pub(crate) fn times_real_time(what: &str, speed: f64, bar: f64, beside: String) -> Figure {
        Figure {
            what: what.to_string(),
            value: format!("{speed:.0} s/s"),
            beside,
            bar: format!("≥ {bar:.0} s/s"),
            met: Some(speed >= bar),
        }
    }

    /// A duration as a multiple of another that was measured in the same run.
    pub(crate) fn ratio(what: &str, value: Duration, unit: Duration, bar: f64) -> Figure {
        let ratio = value.as_secs_f64() / unit.as_secs_f64();
        Figure {
            what: what.to_string(),
            value: short(value),
            beside: if ratio < 0.1 {
                format!("{ratio:.3} × {}", short(unit))
            } else {
                format!("{ratio:.2} × {}", short(unit))
            },
            bar: format!("≤ {bar} ×"),
            met: Some(ratio <= bar),
        }
    }

    /// The same without a bar.
    pub(crate) fn beside(what: &str, value: Duration, unit: Duration) -> Figure {
        Figure { bar: String::new(), met: None, ..Figure::ratio(what, value, unit, 0.0) }
    }

    /// What belongs to the figure above it.
    pub(crate) fn note(what: &str, beside: String) -> Figure {
        Figure { what: what.to_string(), value: String::new(), beside, bar: String::new(), met: None }
    }
}

/// All figures, in columns.
pub(crate) fn table(figures: &[Figure]) -> String {
    let mut text = String::new();
    for figure in figures {
        let met = match figure.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        let line = format!(
            "{:<68} {:>12}  {:<34} {:<10} {met}",
            figure.what, figure.value, figure.beside, figure.bar
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Writes to stdout.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    std::io::stdout().lock().write_all(text.as_bytes())
}

/// The p-th percentile of some durations.
pub(crate) fn percentile(values: &mut [Duration], p: f64) -> Duration {
    values.sort_unstable();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index below the length")]
    let place = ((values.len() as f64 - 1.0) * p).round() as usize;
    values.get(place).copied().unwrap_or_default()
}

/// The median of five runs that cannot fail.
pub(crate) fn median_of_five(mut run: impl FnMut() -> Duration) -> Duration {
    Five::sorted([(); 5].map(|()| run())).median()
}

/// What five runs had for a figure.
pub(crate) struct Five([Duration; 5]);

impl Five {
    /// Runs it five times.
    pub(crate) fn of(mut run: impl FnMut() -> std::io::Result<Duration>) -> std::io::Result<Five> {
        let mut values = [Duration::ZERO; 5];
        for value in &mut values {
            *value = run()?;
        }
        Ok(Five::sorted(values))
    }

    fn sorted(mut values: [Duration; 5]) -> Five {
        values.sort_unstable();
        Five(values)
    }

    /// The one in the middle.
    pub(crate) fn median(&self) -> Duration {
        self.0[2]
    }

    /// From the least to the most.
    pub(crate) fn range(&self) -> String {
        format!("{}–{}", short(self.0[0]), short(self.0[4]))
    }
}

/// In the unit that suits.
pub(crate) fn short(value: Duration) -> String {
    let nanos = value.as_nanos();
    match nanos {
        0..1_000 => format!("{:.1} ns", value.as_secs_f64() * 1e9),
        1_000..1_000_000 => format!("{:.1} µs", value.as_secs_f64() * 1e6),
        1_000_000..1_000_000_000 => format!("{:.2} ms", value.as_secs_f64() * 1e3),
        _ => format!("{:.2} s", value.as_secs_f64()),
    }
}
