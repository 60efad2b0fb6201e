//! The text format of Prometheus, version 0.0.4, written by hand: a help line, a type line and the samples of each metric.

use std::fmt::Write;

use baton_election::time::Span;

use super::count::Histogram;

/// What the format is called.
pub(crate) const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The page that is written.
#[derive(Default)]
pub(super) struct Page {
    text: String,
}

/// What a metric is.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// Names and values of labels.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Page {
    /// Begins a metric.
    pub(super) fn metric(&mut self, name: &'static str, kind: Kind, help: &str) -> Samples<'_> {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
        Samples { page: self, name }
    }

    pub(super) fn counter(&mut self, name: &'static str, help: &str, value: u64) {
        self.metric(name, Kind::Counter, help).number(&[], value);
    }

    pub(super) fn gauge(&mut self, name: &'static str, help: &str, value: u64) {
        self.metric(name, Kind::Gauge, help).number(&[], value);
    }

    pub(super) fn done(self) -> String {
        self.text
    }
}

/// The samples of one metric.
pub(super) struct Samples<'a> {
    page: &'a mut Page,
    name: &'static str,
}

impl Samples<'_> {
    pub(super) fn number(&mut self, labels: Labels<'_>, value: u64) {
        self.sample("", labels, None, value);
    }

    pub(super) fn seconds(&mut self, labels: Labels<'_>, value: Span) {
        self.sample("", labels, None, seconds(value));
    }

    /// Nothing of nothing is no ratio: it is left out.
    pub(super) fn ratio(&mut self, labels: Labels<'_>, part: u64, of: u64) {
        if of == 0 {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let ratio = part as f64 / of as f64;
        self.sample("", labels, None, ratio);
    }

    pub(super) fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        let read = histogram.read();
        for (end, count) in histogram.ends.iter().zip(&read.up_to) {
            self.sample("_bucket", labels, Some(&seconds(*end)), count);
        }
        self.sample("_bucket", labels, Some("+Inf"), read.count);
        self.sample("_sum", labels, None, seconds(read.sum));
        self.sample("_count", labels, None, read.count);
    }

    fn sample(&mut self, suffix: &str, labels: Labels<'_>, end: Option<&str>, value: impl std::fmt::Display) {
        let text = &mut self.page.text;
        let _ = write!(text, "{}{suffix}", self.name);
        let all = labels.iter().copied().chain(end.map(|end| ("le", end)));
        for (number, (name, value)) in all.enumerate() {
            let _ = write!(text, "{}{name}=\"", if number == 0 { '{' } else { ',' });
            escaped(text, value);
            text.push('"');
        }
        if !labels.is_empty() || end.is_some() {
            text.push('}');
        }
        let _ = writeln!(text, " {value}");
    }
}

/// The value of a label: whatever it holds, it ends where it ends.
fn escaped(text: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

/// Exact, and without an exponent.
fn seconds(span: Span) -> String {
    let nanos = span.as_nanos();
    let (whole, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    if rest == 0 {
        return whole.to_string();
    }
    format!("{whole}.{rest:09}").trim_end_matches('0').to_string()
}

#[cfg(test)]
mod tests {
    use super::super::count::PHASES;
    use super::*;

    #[test]
    fn seconds_are_exact() {
        for (span, text) in [
            (Span::ZERO, "0"),
            (Span::secs(30), "30"),
            (Span::millis(2_500), "2.5"),
            (Span::nanos(50_000), "0.00005"),
            (Span::nanos(1), "0.000000001"),
        ] {
            assert_eq!(seconds(span), text);
        }
    }

    #[test]
    fn nothing_of_nothing_is_no_ratio() {
        let mut page = Page::default();
        let mut samples = page.metric("r", Kind::Gauge, "r");
        samples.ratio(&[("election", "none")], 0, 0);
        samples.ratio(&[("election", "half")], 1, 2);
        assert_eq!(page.done(), "# HELP r r\n# TYPE r gauge\nr{election=\"half\"} 0.5\n");
    }

    #[test]
    fn labels_end_where_they_end() {
        let mut page = Page::default();
        page.metric("m", Kind::Gauge, "one\\two\nthree").number(&[("a", "x\"y\\z\n"), ("b", "")], 7);
        let text = page.done();
        assert_eq!(text, "# HELP m one\\\\two\\nthree\n# TYPE m gauge\nm{a=\"x\\\"y\\\\z\\n\",b=\"\"} 7\n");
    }

    #[test]
    fn a_histogram_ends_with_all_of_it() {
        let histogram = Histogram::of(PHASES);
        histogram.observe(Span::secs(600));
        let mut page = Page::default();
        page.metric("h", Kind::Histogram, "h").histogram(&[("phase", "election")], &histogram);
        let text = page.done();
        assert!(text.contains("h_bucket{phase=\"election\",le=\"300\"} 0\n"), "{text}");
        assert!(text.contains("h_bucket{phase=\"election\",le=\"+Inf\"} 1\n"), "{text}");
        assert!(text.ends_with("h_sum{phase=\"election\"} 600\nh_count{phase=\"election\"} 1\n"), "{text}");
    }
}
