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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Log<T> {
    /// The oldest first.
    pub entries: Vec<T>,
}

impl<T> Default for Log<T> {
    fn default() -> Log<T> {
        Log { entries: Vec::new() }
    }
}

impl<T: Numbered + Clone + PartialEq> Log<T> {
    /// The list with these entries in it, the newest `keep` of them all; none if it has them already, as they are.
    ///
    /// An entry that stands there in another form is replaced; one that is older than all that are kept stays out.
    pub fn with(&self, entries: &[T], keep: usize) -> Option<Log<T>> {
        let mut all = self.entries.clone();
        for entry in entries {
            match all.binary_search_by_key(&entry.number(), Numbered::number) {
                Ok(place) => all[place] = entry.clone(),
                Err(place) => all.insert(place, entry.clone()),
            }
        }
        let surplus = all.len().saturating_sub(keep);
        let entries = all.split_off(surplus);
        (entries != self.entries).then_some(Log { entries })
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
        let full = Log { entries: vec![5_u64, 6, 7] };
        assert_eq!(full.with(&[1], 3), None, "older than all that are kept");
    }
}
