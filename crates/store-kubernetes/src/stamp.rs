//! The times in a Lease: for people, and for clients that notice a renewal by its `renewTime`.

use baton_election::time::{Moment, WallTime};
use baton_store::boot;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;

/// The wall clock as it stood at the beginning, carried on by the boot-time clock.
///
/// client-go notices a renewal by its `renewTime`, in whole seconds. If somebody sets the wall clock back under a leader, two renewals
/// must still not show the same second for longer than one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamps {
    wall: WallTime,
    boot: Moment,
}

impl Stamps {
    /// From now on.
    pub(crate) fn begin() -> Stamps {
        Stamps { wall: boot::wall(), boot: boot::now() }
    }

    /// The present time.
    pub(crate) fn now(&self) -> MicroTime {
        let since = boot::now().since(self.boot).as_nanos() / 1_000;
        let micros = i64::try_from(self.wall.as_unix_millis().saturating_mul(1_000).saturating_add(since));
        MicroTime(micros.ok().and_then(|micros| Timestamp::from_microsecond(micros).ok()).unwrap_or_default())
    }
}

/// A time of the document.
pub(crate) fn of_wall(at: WallTime) -> MicroTime {
    let millis = i64::try_from(at.as_unix_millis()).ok();
    MicroTime(millis.and_then(|millis| Timestamp::from_millisecond(millis).ok()).unwrap_or_default())
}

/// A time of a Lease, as the document has it; 1970 for none and for what is earlier.
pub(crate) fn to_wall(at: Option<&MicroTime>) -> WallTime {
    let millis = at.and_then(|MicroTime(at)| u64::try_from(at.as_millisecond()).ok());
    WallTime::from_unix_millis(millis.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_rise_and_times_survive() {
        let stamps = Stamps::begin();
        let first = stamps.now();
        while stamps.now() == first {}
        assert!(stamps.now() > first);
        let at = WallTime::from_unix_millis(1_700_000_000_123);
        assert_eq!(to_wall(Some(&of_wall(at))), at);
        assert_eq!(to_wall(None), WallTime::default());
        assert_eq!(to_wall(Some(&MicroTime(Timestamp::from_second(-5).unwrap()))), WallTime::default());
    }
}
