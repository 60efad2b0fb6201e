//! A list of numbered entries that is kept beside a document, so that the document stays small.
//!
//! An entry leaves its document only after it stands here, and it is known by its number: whoever is interrupted,
//! or comes second, repeats the step without harm. So no entry is lost and none stands twice.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::document::Transition;

/// The transitions that a history keeps.
pub const MAX_HISTORY: usize = 256;

/// Something that has a number which rises.
pub trait Numbered {
    /// The number.
    fn number(&self) -> u64;
}

impl Numbered for Transition {
    fn number(&self) -> u64 {
        self.epoch.0
    }
}

/// Entries in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Log<T> {
    /// The oldest first.
    pub entries: Vec<T>,
}

impl<T> Default for Log<T> {
    fn default() -> Log<T> {
        Log { entries: Vec::new() }
    }
}

impl<T: Numbered + Clone> Log<T> {
    /// The list with these entries added, at most `keep` of them all; none if it has them already.
    pub fn with(&self, entries: &[T], keep: usize) -> Option<Log<T>> {
        let last = self.entries.last().map(Numbered::number);
        let fresh = entries.iter().filter(|entry| last.is_none_or(|last| entry.number() > last));
        let mut all = self.entries.clone();
        all.extend(fresh.cloned());
        if all.len() == self.entries.len() {
            return None;
        }
        let surplus = all.len().saturating_sub(keep);
        Some(Log { entries: all.split_off(surplus) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    impl Numbered for u64 {
        fn number(&self) -> u64 {
            *self
        }
    }

    #[test]
    fn an_entry_is_added_once_and_the_oldest_go() {
        let log = Log::default().with(&[1_u64, 2], 3).unwrap();
        assert_eq!(log.with(&[2], 3), None);
        assert_eq!(log.with(&[2, 3, 4], 3).unwrap().entries, vec![2, 3, 4]);
    }
}
