//! Firestore's times.

use baton_election::{Span, WallTime};
use baton_store::Version;
use gcloud_sdk::prost_types::Timestamp;

/// `REQUEST_TIME` is cut to the millisecond, so that it lies up to this before the time that it stands for.
const CUT: Span = Span::millis(1);

/// How long `later` surely is after a `stamp` of the server's; zero if it is not.
pub(crate) fn elapsed(later: &Timestamp, stamp: &Timestamp) -> Span {
    let nanos = nanos(later).saturating_sub(nanos(stamp));
    Span::nanos(u64::try_from(nanos).unwrap_or(0)).minus(CUT)
}

fn nanos(time: &Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos)
}

/// A document's version is the time of its last change, which no later change has again.
pub(crate) fn version(update_time: &Timestamp) -> Version {
    Version::new(&format!("{}.{:09}", update_time.seconds, update_time.nanos))
}

/// The time of a version, if it is one of this store's.
pub(crate) fn update_time(version: &Version) -> Option<Timestamp> {
    let (seconds, nanos) = version.as_str().split_once('.')?;
    let time = Timestamp { seconds: seconds.parse().ok()?, nanos: nanos.parse().ok()? };
    (self::version(&time) == *version && (0..1_000_000_000).contains(&time.nanos)).then_some(time)
}

/// A wall-clock time, for people.
pub(crate) fn shown(wall: WallTime) -> Timestamp {
    let millis = wall.as_unix_millis();
    Timestamp {
        seconds: i64::try_from(millis / 1_000).unwrap_or(0),
        nanos: i32::try_from(millis % 1_000).unwrap_or(0) * 1_000_000,
    }
}

/// The wall-clock time that Firestore says.
pub(crate) fn wall(time: &Timestamp) -> WallTime {
    WallTime::from_unix_millis(u64::try_from(nanos(time) / 1_000_000).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_time() {
        let time = Timestamp { seconds: 1_700_000_000, nanos: 5_000 };
        assert_eq!(version(&time).as_str(), "1700000000.000005000");
        assert_eq!(update_time(&version(&time)), Some(time));
        for odd in ["1:none", "1.5", "", "1.9999999999", "x.000000001"] {
            assert_eq!(update_time(&Version::new(odd)), None, "{odd}");
        }
    }

    #[test]
    fn an_age_is_never_too_high() {
        let at = |nanos| Timestamp { seconds: 7, nanos };
        assert_eq!(elapsed(&at(5_000_000), &at(2_000_000)), Span::millis(2));
        assert_eq!(elapsed(&at(2_000_000), &at(5_000_000)), Span::ZERO);
    }
}
