//! Time as the core knows it: lengths, moments on one clock, and wall-clock times for people.
//!
//! Nothing here reads a clock. A [`Moment`] means something only beside another of the same clock;
//! a [`WallTime`] is shown to people and decides nothing.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::ops::{Add, Sub};
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// Longer than anything that is measured.
    pub const MAX: Span = Span(u64::MAX);

    /// So many nanoseconds.
    pub const fn nanos(n: u64) -> Span {
        Span(n)
    }

    /// So many milliseconds.
    pub const fn millis(n: u64) -> Span {
        Span(n.saturating_mul(1_000_000))
    }

    /// So many seconds.
    pub const fn secs(n: u64) -> Span {
        Span(n.saturating_mul(1_000_000_000))
    }

    /// In nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// In whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Without the fraction of a millisecond: what survives being written.
    #[must_use]
    pub const fn whole_millis(self) -> Span {
        Span(self.0 - self.0 % 1_000_000)
    }

    /// The sum, at most [`Span::MAX`].
    #[must_use]
    pub const fn plus(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }

    /// The difference, at least zero.
    #[must_use]
    pub const fn minus(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }

    /// `self * numerator / denominator`, rounded down, without overflow in between.
    #[must_use]
    pub const fn scaled(self, numerator: u64, denominator: u64) -> Span {
        assert!(denominator > 0);
        let scaled = self.0 as u128 * numerator as u128 / denominator as u128;
        if scaled > u64::MAX as u128 {
            return Span::MAX;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the bound is checked above")]
        Span(scaled as u64)
    }
}

impl fmt::Display for Span {
    /// As a person would say it, in the largest unit that keeps it exact down to the millisecond: `30s`, `1h30m`, `1.5s`, `250ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Span::MAX {
            return f.pad("for ever");
        }
        let mut text = Short::default();
        self.write(&mut text)?;
        f.pad(text.as_str())
    }
}

/// A text that is put together without an allocation: a policy has several spans, and every document a policy.
#[derive(Default)]
struct Short {
    /// The longest span takes 24.
    bytes: [u8; 32],
    length: usize,
}

impl Short {
    fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

impl Span {
    fn write(self, text: &mut impl fmt::Write) -> fmt::Result {
        let ms = self.as_millis();
        if ms < 1_000 {
            return write!(text, "{ms}ms");
        }
        let mut rest = ms;
        for (unit, name) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m")] {
            if rest >= unit {
                write!(text, "{}{name}", rest / unit)?;
                rest %= unit;
            }
        }
        match (rest / 1_000, rest % 1_000) {
            (0, 0) => Ok(()),
            (seconds, 0) => write!(text, "{seconds}s"),
            (seconds, fraction) if fraction % 100 == 0 => write!(text, "{seconds}.{}s", fraction / 100),
            (seconds, fraction) if fraction % 10 == 0 => write!(text, "{seconds}.{:02}s", fraction / 10),
            (seconds, fraction) => write!(text, "{seconds}.{fraction:03}s"),
        }
    }
}

/// Why a length of time was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSpan(String);

impl fmt::Display for InvalidSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a length of time such as 500ms, 30s, 1m30s, 2h or 7d", self.0.escape_debug())
    }
}

impl core::error::Error for InvalidSpan {}

impl FromStr for Span {
    type Err = InvalidSpan;

    /// `500ms`, `1.5s`, `1m30s`, `2h`, `7d`, `0`. A bare number other than 0 is refused: it would hide its unit.
    fn from_str(text: &str) -> Result<Span, InvalidSpan> {
        let invalid = || InvalidSpan(text.chars().take(64).collect());
        if text == "0" {
            return Ok(Span::ZERO);
        }
        let mut total = Span::ZERO;
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(invalid)?;
            let (number, tail) = rest.split_at(digits);
            let unit = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit);
            let part = parse_part(number, unit).ok_or_else(invalid)?;
            total = total.0.checked_add(part.0).map(Span).ok_or_else(invalid)?;
            rest = tail;
        }
        if text.is_empty() { Err(invalid()) } else { Ok(total) }
    }
}

fn parse_part(number: &str, unit: &str) -> Option<Span> {
    let nanos_per_unit: u64 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) || fraction.len() > 9 {
        return None;
    }
    let nanos = whole.parse::<u64>().ok()?.checked_mul(nanos_per_unit)?;
    if fraction.is_empty() {
        return Some(Span(nanos));
    }
    let denominator = 10_u64.pow(u32::try_from(fraction.len()).ok()?);
    let part = Span(nanos_per_unit).scaled(fraction.parse().ok()?, denominator);
    Some(Span(nanos).plus(part))
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A [`Span`] as a whole number of milliseconds, for fields whose name ends in `_ms`.
pub mod as_millis {
    use super::{Deserialize, Deserializer, Serializer, Span};

    /// Writes whole milliseconds.
    pub fn serialize<S: Serializer>(span: &Span, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(span.as_millis())
    }

    /// Reads whole milliseconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        u64::deserialize(deserializer).map(Span::millis)
    }
}

/// An optional [`Span`] as a whole number of milliseconds or null.
pub mod as_optional_millis {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Span};

    /// Writes whole milliseconds or null.
    pub fn serialize<S: Serializer>(span: &Option<Span>, serializer: S) -> Result<S::Ok, S::Error> {
        span.map(Span::as_millis).serialize(serializer)
    }

    /// Reads whole milliseconds or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Span>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Span::millis))
    }
}

/// A point on one clock, in nanoseconds from that clock's own beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(u64);

impl Moment {
    /// So many nanoseconds after the clock's beginning.
    pub const fn from_nanos(n: u64) -> Moment {
        Moment(n)
    }

    /// Nanoseconds since the clock's beginning.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Moment) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Moment {
    type Output = Moment;
    fn add(self, span: Span) -> Moment {
        Moment(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Moment {
    type Output = Moment;
    fn sub(self, span: Span) -> Moment {
        Moment(self.0.saturating_sub(span.0))
    }
}

/// A wall-clock time in milliseconds since 1970, for people. Written as RFC 3339 in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(u64);

impl WallTime {
    /// The end of the year 9999, after which its written form would need another digit.
    const LAST_MS: u64 = 253_402_300_799_999;

    /// So many milliseconds after 1970, at most the end of the year 9999.
    pub const fn from_unix_millis(n: u64) -> WallTime {
        WallTime(if n > WallTime::LAST_MS { WallTime::LAST_MS } else { n })
    }

    /// Milliseconds since 1970.
    pub const fn as_unix_millis(self) -> u64 {
        self.0
    }

    /// Its written form, without an allocation: a document has several.
    fn with_text<T>(self, use_it: impl FnOnce(&str) -> T) -> T {
        let (days, ms) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = civil_from_days(days);
        let (hour, minute, second, ms) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms % 1_000);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let fields = [
            (year, 0, 4),
            (month, 5, 7),
            (day, 8, 10),
            (hour, 11, 13),
            (minute, 14, 16),
            (second, 17, 19),
            (ms, 20, 23),
        ];
        for (mut number, from, to) in fields {
            for digit in text[from..to].iter_mut().rev() {
                *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
                number /= 10;
            }
        }
        match core::str::from_utf8(&text) {
            Ok(text) => use_it(text),
            Err(_) => unreachable!("digits are text"),
        }
    }
}

impl Add<Span> for WallTime {
    type Output = WallTime;
    fn add(self, span: Span) -> WallTime {
        WallTime::from_unix_millis(self.0.saturating_add(span.as_millis()))
    }
}

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| f.pad(text))
    }
}

/// Howard Hinnant's `civil_from_days`, for days after 1970 only.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

impl FromStr for WallTime {
    type Err = String;

    /// The form that [`WallTime`] is written in; fractions of a second may be left out.
    fn from_str(text: &str) -> Result<WallTime, String> {
        let invalid = || format!("`{text}` is not a time such as 2026-01-15T10:30:00Z");
        let part = |from: usize, to: usize| -> Option<u64> {
            let digits = text.get(from..to)?;
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        let bytes = text.as_bytes();
        let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
        if !separators.iter().all(|(at, byte)| bytes.get(*at) == Some(byte)) {
            return Err(invalid());
        }
        let fraction = match text.get(19..) {
            Some("Z") => 0,
            Some(tail) if tail.len() == 5 && tail.starts_with('.') && tail.ends_with('Z') => {
                part(20, 23).ok_or_else(invalid)?
            }
            _ => return Err(invalid()),
        };
        let fields = [part(0, 4), part(5, 7), part(8, 10), part(11, 13), part(14, 16), part(17, 19)];
        let [Some(year), Some(month), Some(day), Some(hour), Some(minute), Some(second)] = fields else {
            return Err(invalid());
        };
        if year < 1970
            || !(1..=12).contains(&month)
            || !(1..=31).contains(&day)
            || hour > 23
            || minute > 59
            || second > 60
        {
            return Err(invalid());
        }
        let seconds = days_from_civil(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
        Ok(WallTime(seconds * 1_000 + fraction))
    }
}

impl Serialize for WallTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with_text(|text| serializer.serialize_str(text))
    }
}

impl<'de> Deserialize<'de> for WallTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WallTime, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn spans_read_and_print_as_people_write_them() {
        for (text, ms) in [
            ("0ms", 0),
            ("250ms", 250),
            ("1s", 1_000),
            ("1.5s", 1_500),
            ("1m30s", 90_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
            ("1d2h3m4.005s", 93_784_005),
        ] {
            assert_eq!(text.parse(), Ok(Span::millis(ms)), "{text}");
            assert_eq!(Span::millis(ms).to_string(), text);
        }
        assert_eq!("0".parse(), Ok(Span::ZERO));
        assert_eq!("90s".parse(), Ok(Span::secs(90)));
    }

    #[test]
    fn odd_spans_are_refused() {
        for text in ["", "30", "s", "1x", "-1s", "1.s", ".5s", "1s2", "99999999999999d", "1e3s", "1 s"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn scaling_neither_overflows_nor_rounds_up() {
        assert_eq!(Span::nanos(u64::MAX).scaled(99, 101), Span::nanos(18_081_462_012_844_015_939));
        assert_eq!(Span::nanos(10).scaled(99, 101), Span::nanos(9));
        assert_eq!(Span::MAX.scaled(2, 1), Span::MAX);
    }

    #[test]
    fn wall_times_survive_their_text() {
        for (text, ms) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("2000-02-29T12:34:56.789Z", 951_827_696_789),
            ("2026-11-15T20:00:00.000Z", 1_794_772_800_000),
        ] {
            assert_eq!(WallTime(ms).to_string(), text);
            assert_eq!(text.parse(), Ok(WallTime(ms)));
        }
        assert_eq!("2024-01-15T10:30:00Z".parse(), Ok(WallTime(1_705_314_600_000)));
        for odd in ["2024-01-15", "2024-13-15T10:30:00Z", "1969-01-15T10:30:00Z", "2024-01-15T10:30:00+01:00"]
        {
            assert!(odd.parse::<WallTime>().is_err(), "{odd}");
        }
    }
}
