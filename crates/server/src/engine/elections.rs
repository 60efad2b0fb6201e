//! All elections of a shard that are known, by their names, which stand in them and nowhere else.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use super::known::Known;

#[derive(Default)]
pub(super) struct Elections {
    table: HashTable<Box<Known>>,
    hasher: RandomState,
}

impl Elections {
    pub(super) fn get(&self, name: &str) -> Option<&Known> {
        self.table.find(self.hasher.hash_one(name), |known| known.name() == name).map(|known| &**known)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Known> {
        let hash = self.hasher.hash_one(name);
        self.table.find_mut(hash, |known| known.name() == name).map(|known| &mut **known)
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Puts it in the place of the one of the same name, if there is one.
    pub(super) fn insert(&mut self, known: Known) {
        if let Some(place) = self.get_mut(known.name()) {
            *place = known;
            return;
        }
        let hasher = &self.hasher;
        let hash = hasher.hash_one(known.name());
        self.table.insert_unique(hash, Box::new(known), |known| hasher.hash_one(known.name()));
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Box<Known>> {
        let found = self.table.find_entry(self.hasher.hash_one(name), |known| known.name() == name);
        found.ok().map(|found| found.remove().0)
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}
