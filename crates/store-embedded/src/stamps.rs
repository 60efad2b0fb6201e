//! When the clock of each record was restarted: in this process's memory, and nowhere else.
//!
//! A record is known by a hash of its key. Two that share one share the later stamp, which makes an age too low and
//! never too high; so a million records cost a few megabytes.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Mutex, PoisonError};

use baton_election::Moment;

pub(crate) struct Stamps {
    /// When the file was opened: no record is older than that, as far as this process can tell.
    opened_at: Moment,
    restarted: Mutex<HashMap<u64, Moment>>,
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.finish()
}

impl Stamps {
    pub(crate) fn since(opened_at: Moment) -> Stamps {
        Stamps { opened_at, restarted: Mutex::default() }
    }

    pub(crate) fn opened_at(&self) -> Moment {
        self.opened_at
    }

    /// Restarts the clock of records. Done before their change can be seen: an age is never counted from before it.
    pub(crate) fn restart<'a>(&self, keys: impl Iterator<Item = &'a [u8]>, now: Moment) {
        let mut restarted = self.restarted.lock().unwrap_or_else(PoisonError::into_inner);
        restarted.extend(keys.map(|key| (hash(key), now)));
    }

    /// When the clock of a record was restarted. To be asked after the record was read, for the same reason.
    pub(crate) fn of(&self, key: &[u8]) -> Moment {
        let restarted = self.restarted.lock().unwrap_or_else(PoisonError::into_inner);
        restarted.get(&hash(key)).copied().unwrap_or(self.opened_at)
    }
}
