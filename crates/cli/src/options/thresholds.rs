//! From where on a server warns, and whom it sends traces.

use baton::api::describe::Suspicion;
use baton::election::time::Span;
use baton_server::{Collector, Rate, Thresholds, Warnings};
use clap::Args;

use crate::output::Failure;

/// The longest time over which something is counted.
const LONGEST: Span = Span::secs(24 * 3_600);

/// What a server warns of. `off` for never.
#[derive(Args, Debug)]
#[command(next_help_heading = "Alerts (`off` for never)")]
pub(crate) struct AlertThresholds {
    /// Alert if nobody leads for so long, while somebody waits, stands or follows
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = span)]
    alert_no_leader: Threshold<Span>,
    /// Alert on more changes of leader of one election than N in so long
    #[arg(long, value_name = "N/DURATION", default_value = "5/10m", value_parser = rate)]
    alert_flapping: Threshold<Rate>,
    /// Alert on more refused candidates of one election than N in so long, or on more than N in line
    #[arg(long, value_name = "N/DURATION", default_value = "100/1m", value_parser = rate)]
    alert_contention: Threshold<Rate>,
    /// Warn of more unplanned changes of leader of one election than N in so long
    #[arg(long, value_name = "N/DURATION", default_value = "3/1h", value_parser = rate)]
    warn_elections: Threshold<Rate>,
    /// Warn of a change of leader that took longer
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = span)]
    warn_transition: Threshold<Span>,
    /// Warn if a smaller percentage of followers acknowledges a change of leader
    #[arg(long, value_name = "PERCENT", default_value = "100", value_parser = percent)]
    warn_participation: Threshold<u8>,
    /// Warn of a leader whose lease runs but whose suspicion level φ is at least this, 1 to 100
    #[arg(long, value_name = "PHI", default_value = "8", value_parser = phi)]
    warn_suspicion: Threshold<Suspicion>,
    /// Warn of more requests with one access token, or without one, that were refused (401, 403, 429) than N in so long
    #[arg(long, value_name = "N/DURATION", default_value = "100/5m", value_parser = rate)]
    warn_refusals: Threshold<Rate>,
    /// Where the runbooks are, if not in the source tree: an address to which alerts link
    #[arg(long, value_name = "URL", default_value = "docs/operations")]
    runbooks: String,
    /// Send traces to this collector, by OTLP over HTTP [default: $OTEL_EXPORTER_OTLP_ENDPOINT]
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT", hide_env = true)]
    otlp: Option<String>,
}

/// Something, or nothing at all.
#[derive(Clone, Copy, Debug)]
struct Threshold<T>(Option<T>);

impl AlertThresholds {
    pub(crate) fn warnings(&self) -> Warnings {
        let limits = Thresholds {
            no_leader: self.alert_no_leader.0,
            flapping: self.alert_flapping.0,
            contention: self.alert_contention.0,
            elections: self.warn_elections.0,
            transition: self.warn_transition.0,
            participation: self.warn_participation.0,
            suspicion: self.warn_suspicion.0,
            refusals: self.warn_refusals.0,
        };
        Warnings { limits, runbooks: self.runbooks.clone() }
    }

    /// The collector that gets traces, with the headers of `$OTEL_EXPORTER_OTLP_HEADERS`.
    pub(crate) fn collector(&self) -> Result<Option<Collector>, Failure> {
        let Some(url) = self.otlp.as_deref().filter(|url| !url.is_empty()) else { return Ok(None) };
        let headers = std::env::var("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        // A URL may hold a secret: it is not repeated.
        let wrong = |why| {
            let hint = "such as --otlp http://127.0.0.1:4318; only OTLP over HTTP is spoken";
            Failure::usage(format!("the collector of traces cannot be used: {why}"), hint)
        };
        Collector::new(url, &headers).map(Some).map_err(wrong)
    }
}

fn span(text: &str) -> Result<Threshold<Span>, String> {
    if text == "off" {
        return Ok(Threshold(None));
    }
    text.parse().map(|span| Threshold(Some(span))).map_err(|error| format!("{error}; or write off"))
}

fn rate(text: &str) -> Result<Threshold<Rate>, String> {
    if text == "off" {
        return Ok(Threshold(None));
    }
    let (count, window) = text.split_once('/').ok_or("write N/DURATION, such as 5/10m, or off")?;
    let count = count.parse().map_err(|_| "write how many before the /, such as 5/10m")?;
    let window: Span = window.parse().map_err(|error| format!("{error}"))?;
    if window < Span::secs(1) || window > LONGEST {
        return Err(format!("so many can be counted over 1s to {LONGEST}"));
    }
    Ok(Threshold(Some(Rate { count, window })))
}

fn percent(text: &str) -> Result<Threshold<u8>, String> {
    if text == "off" {
        return Ok(Threshold(None));
    }
    let percent = text.trim_end_matches('%').parse().ok().filter(|percent| *percent <= 100);
    percent.map(|percent| Threshold(Some(percent))).ok_or_else(|| "write 0 to 100, or off".to_string())
}

fn phi(text: &str) -> Result<Threshold<Suspicion>, String> {
    if text == "off" {
        return Ok(Threshold(None));
    }
    let phi = text.parse().ok().filter(|phi| (1.0..=100.0).contains(phi));
    phi.map(|phi| Threshold(Some(Suspicion::of(phi)))).ok_or_else(|| "write 1 to 100, or off".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_counts_over_a_time() {
        assert_eq!(rate("5/10m").unwrap().0, Some(Rate { count: 5, window: Span::secs(600) }));
        assert_eq!(rate("off").unwrap().0, None);
        for odd in ["5", "/10m", "x/10m", "5/", "5/0s", "5/25h", "-1/1m", "5/10m/1"] {
            assert!(rate(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_suspicion_is_at_least_that_of_somebody_late() {
        assert_eq!(phi("8").unwrap().0, Some(Suspicion::of(8.0)));
        assert_eq!(phi("1.5").unwrap().0, Some(Suspicion::of_hundredths(150)));
        assert!(phi("off").unwrap().0.is_none());
        for odd in ["0.9", "101", "x", "NaN", "inf", "-1", ""] {
            assert!(phi(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_percentage_is_at_most_all() {
        assert_eq!(percent("100").unwrap().0, Some(100));
        assert_eq!(percent("95%").unwrap().0, Some(95));
        assert!(percent("101").is_err() && percent("x").is_err());
        assert!(span("1x").is_err() && span("off").unwrap().0.is_none());
    }
}
