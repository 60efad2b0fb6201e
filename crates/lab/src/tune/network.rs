//! What is assumed of a network and of the machines on it.

use std::fmt;
use std::str::FromStr;

use baton_election::time::Span;

/// The exponent of the jitter's tail: finite variance, but far heavier than an exponential one.
const JITTER_TAIL: f64 = 2.5;
/// The exponent of the pauses' tail: most are short, a few are very long, the variance is infinite.
const PAUSE_TAIL: f64 = 1.5;
/// Linux: a lost segment is sent again after the smoothed round trip and at least this.
const RESEND_MIN: f64 = 0.2;
/// Linux: the waits between two tries double up to this.
const RESEND_MAX: f64 = 120.0;
/// More losses in a row are not told apart: at half of all packets lost, their chance is below 10⁻⁹.
const MOST_LOSSES: u32 = 32;

/// A network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Network {
    /// There and back, when nothing is in the way.
    pub rtt: Span,
    /// What a round trip takes longer, on average.
    pub jitter: Span,
    /// How many packets are lost, each for itself.
    pub loss: Share,
    /// How the process that leads stands still at times: collections of garbage, swapping, a laptop's lid.
    pub pauses: Option<Pauses>,
    /// What becomes of a lost packet between the members of a group.
    pub transport: Transport,
}

/// What becomes of a lost packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// It is sent again after a while, and what comes behind it waits.
    Tcp,
    /// The message is gone.
    Datagrams,
}

/// A part of a whole, from nothing to all of it.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Share(f64);

impl Share {
    /// So many hundredths.
    pub fn percent(percent: f64) -> Option<Share> {
        (0.0..=100.0).contains(&percent).then_some(Share(percent / 100.0))
    }

    /// From 0 to 1.
    pub fn of_one(self) -> f64 {
        self.0
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let wrong = || format!("`{}` is no share such as 1% or 0.5%", text.escape_debug());
        if text == "0" {
            return Ok(Share(0.0));
        }
        let number = text.strip_suffix('%').filter(|number| number.starts_with(|c: char| c.is_ascii_digit()));
        let percent: f64 = number.ok_or_else(wrong)?.parse().map_err(|_| wrong())?;
        Share::percent(percent).ok_or_else(wrong)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0 * 100.0)
    }
}

/// How often a process stands still, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pauses {
    /// How long, on average.
    pub length: Span,
    /// From one to the next, on average.
    pub every: Span,
}

impl FromStr for Pauses {
    type Err = String;

    fn from_str(text: &str) -> Result<Pauses, String> {
        let wrong = || format!("`{}` is no length and distance of pauses such as 1s/1d", text.escape_debug());
        let (length, every) = text.split_once('/').ok_or_else(wrong)?;
        let pauses = Pauses {
            length: length.parse().map_err(|_| wrong())?,
            every: every.parse().map_err(|_| wrong())?,
        };
        if pauses.length == Span::ZERO || pauses.every < pauses.length.scaled(10, 1) {
            return Err(format!(
                "pauses of {length} every {every}: a process must be awake for at least nine tenths of the time"
            ));
        }
        Ok(pauses)
    }
}

impl fmt::Display for Pauses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.length, self.every)
    }
}

/// A length as it is read again, also where it is shorter than what people say in milliseconds.
pub fn exact(span: Span) -> String {
    let nanos = span.as_nanos();
    match (nanos % 1_000_000, nanos % 1_000) {
        (0, _) => span.to_string(),
        (_, 0) => format!("{}us", nanos / 1_000),
        (_, _) => format!("{nanos}ns"),
    }
}

/// In seconds.
pub(crate) fn seconds(span: Span) -> f64 {
    std::time::Duration::from_nanos(span.as_nanos()).as_secs_f64()
}

impl Network {
    pub(crate) fn rtt_s(&self) -> f64 {
        seconds(self.rtt)
    }

    /// After how long a lost segment is sent again for the first time (RFC 6298 with Linux' bounds).
    pub(crate) fn resend_after(&self) -> f64 {
        self.rtt_s() + (4.0 * seconds(self.jitter)).max(RESEND_MIN)
    }

    /// How long a segment is held up that is lost so many times in a row.
    pub(crate) fn held_up(&self, losses: u32) -> f64 {
        let (mut wait, mut total) = (self.resend_after(), 0.0);
        for _ in 0..losses {
            total += wait;
            wait = (wait * 2.0).min(RESEND_MAX);
        }
        total
    }

    /// The chance that a round trip takes longer than `rtt + x` although nothing is lost (Lomax).
    pub(crate) fn jitter_exceeds(&self, x: f64) -> f64 {
        let scale = seconds(self.jitter) * (JITTER_TAIL - 1.0);
        match (x < 0.0, scale > 0.0) {
            (true, _) => 1.0,
            (false, false) => 0.0,
            (false, true) => (1.0 + x / scale).powf(-JITTER_TAIL),
        }
    }

    /// What a round trip takes longer at this share of all round trips.
    pub(crate) fn jitter_at(&self, share: f64) -> f64 {
        let scale = seconds(self.jitter) * (JITTER_TAIL - 1.0);
        scale * ((1.0 - share).powf(-1.0 / JITTER_TAIL) - 1.0)
    }

    /// The chance that a request over TCP has no answer after `t`: question or answer was lost, perhaps repeatedly, or
    /// was slow.
    pub(crate) fn unanswered(&self, t: f64) -> f64 {
        let (p, rtt) = (self.loss.of_one(), self.rtt_s());
        let mut delays: Vec<(f64, f64)> = Vec::new();
        let (mut chance, mut wait, mut held_up) = (1.0 - p, self.resend_after(), 0.0);
        for _ in 0..MOST_LOSSES {
            delays.push((chance, held_up));
            held_up += wait;
            wait = (wait * 2.0).min(RESEND_MAX);
            chance *= p;
            if chance < 1e-18 {
                break;
            }
        }
        let mut chance: f64 = 0.0;
        for &(there, late_there) in &delays {
            for &(back, late_back) in &delays {
                chance += there * back * self.jitter_exceeds(t - rtt - late_there - late_back);
            }
        }
        chance.min(1.0)
    }

    /// The chance that a datagram has no answer after `t`.
    pub(crate) fn unheard(&self, t: f64) -> f64 {
        let arrives = (1.0 - self.loss.of_one()).powi(2);
        1.0 - arrives * (1.0 - self.jitter_exceeds(t - self.rtt_s()))
    }

    /// After how long this share of all requests over TCP has an answer.
    pub(crate) fn answered_at(&self, share: f64) -> f64 {
        let (mut low, mut high) = (0.0, 100_000.0);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if self.unanswered(middle) > 1.0 - share { low = middle } else { high = middle }
        }
        high
    }

    /// How often a pause is longer than what is left of the lease, in times per second. The pause begins at a random moment
    /// of a rhythm of `every`, the last proof of life of which lasts for `lasts`.
    pub(crate) fn pauses_beyond(&self, lasts: f64, every: f64) -> f64 {
        const STEPS: u32 = 64;
        let Some(pauses) = &self.pauses else { return 0.0 };
        let step = |number: u32| {
            let age = every * (f64::from(number) + 0.5) / f64::from(STEPS);
            pauses.exceeds(lasts - age - self.rtt_s())
        };
        (0..STEPS).map(step).sum::<f64>() / f64::from(STEPS) / seconds(pauses.every)
    }
}

impl Pauses {
    /// The chance that a pause is longer than `x` (Pareto).
    pub(crate) fn exceeds(&self, x: f64) -> f64 {
        let shortest = self.shortest();
        if x <= shortest { 1.0 } else { (shortest / x).powf(PAUSE_TAIL) }
    }

    /// By how much a pause is longer than `x`, on average; nothing if it is not.
    pub(crate) fn excess(&self, x: f64) -> f64 {
        let shortest = self.shortest();
        if x <= shortest {
            return seconds(self.length) - x.max(0.0);
        }
        shortest.powf(PAUSE_TAIL) * x.powf(1.0 - PAUSE_TAIL) / (PAUSE_TAIL - 1.0)
    }

    fn shortest(&self) -> f64 {
        seconds(self.length) * (PAUSE_TAIL - 1.0) / PAUSE_TAIL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(loss: &str) -> Network {
        Network {
            rtt: Span::millis(40),
            jitter: Span::millis(10),
            loss: loss.parse().expect("a share"),
            pauses: Some("1s/1d".parse().expect("pauses")),
            transport: Transport::Tcp,
        }
    }

    #[test]
    fn shares_and_pauses_are_read_as_people_write_them() {
        assert_eq!("1%".parse::<Share>().map(Share::of_one), Ok(0.01));
        assert_eq!("0".parse::<Share>().map(Share::of_one), Ok(0.0));
        assert_eq!("0.5%".parse::<Share>().map(|share| share.to_string()), Ok("0.5%".to_string()));
        for wrong in ["", "1", "%", "-1%", "101%", "NaN%", "inf%", "+1%", "1 %"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
        assert_eq!("1s/1d".parse::<Pauses>().map(|pauses| pauses.to_string()), Ok("1s/1d".to_string()));
        for wrong in ["", "1s", "1s/", "/1d", "0/1d", "1s/5s", "1d/1s", "1s/1d/1d"] {
            assert!(wrong.parse::<Pauses>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn short_lengths_are_read_as_they_are_written() {
        for text in ["250us", "1ms", "1500us", "40ms", "1.5s", "1ns", "0ms"] {
            let span: Span = text.parse().expect("a length");
            assert_eq!(exact(span), text);
        }
    }

    #[test]
    fn lost_segments_are_sent_again_after_doubling_waits() {
        let network = network("1%");
        let first = network.resend_after();
        assert!((first - 0.24).abs() < 1e-9, "{first}");
        assert_eq!(network.held_up(0), 0.0);
        assert!((network.held_up(3) - 7.0 * first).abs() < 1e-9);
        assert!(network.held_up(20) < 20.0 * RESEND_MAX);
    }

    #[test]
    fn chances_are_chances_and_fall_with_time() {
        for loss in ["0%", "1%", "50%"] {
            let network = network(loss);
            let mut before = 1.0;
            for t in [0.0, 0.039, 0.041, 0.1, 0.3, 1.0, 5.0, 60.0] {
                let chance = network.unanswered(t);
                assert!((0.0..=1.0).contains(&chance) && chance <= before + 1e-12, "{loss} {t}: {chance}");
                before = chance;
            }
            let p99 = network.answered_at(0.99);
            assert!((network.unanswered(p99) - 0.01).abs() < 1e-3 || loss != "0%", "{loss}: {p99}");
        }
    }

    #[test]
    fn tails_have_the_means_that_were_asked_for() {
        // The mean is the integral of the tail.
        let integral = |tail: &dyn Fn(f64) -> f64| {
            let (mut sum, mut x) = (0.0, 0.0_f64);
            while x < 1e5 {
                let step = (x * 0.001).max(1e-4);
                sum += tail(x + step / 2.0) * step;
                x += step;
            }
            sum
        };
        let network = network("0%");
        let pauses = network.pauses.expect("pauses");
        assert!((integral(&|x| network.jitter_exceeds(x)) - 0.01).abs() < 1e-4);
        assert!((integral(&|x| pauses.exceeds(x)) - 1.0).abs() < 0.02);
        assert!((pauses.excess(0.0) - 1.0).abs() < 1e-9);
        assert!((integral(&|x| pauses.exceeds(x + 3.0)) - pauses.excess(3.0)).abs() < 0.02);
        assert!((network.jitter_exceeds(network.jitter_at(0.9)) - 0.1).abs() < 1e-9);
    }
}
