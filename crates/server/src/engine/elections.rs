//! All elections of a shard that are known, by their names, which stand in them and nowhere else.
//!
//! They lie side by side in large pieces of memory: one by one they would lie between what requests take and give back for a
//! moment, and keep the gaps between them from being given back.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use super::cached_election::CachedElection;

/// How many lie side by side. What is not used yet of a piece this large takes no memory.
const SIDE_BY_SIDE: usize = 4_096;

#[derive(Default)]
pub(super) struct Elections {
    /// The places of the elections.
    table: HashTable<u32>,
    places: Places,
    hasher: RandomState,
}

#[derive(Default)]
struct Places {
    /// Each has room for [`SIDE_BY_SIDE`] and is never moved.
    pieces: Vec<Vec<Option<CachedElection>>>,
    free: Vec<u32>,
}

impl Places {
    fn known(&self, place: u32) -> &CachedElection {
        let known = self.pieces[place as usize / SIDE_BY_SIDE][place as usize % SIDE_BY_SIDE].as_ref();
        known.unwrap_or_else(|| unreachable!("a place in the table is taken"))
    }

    fn slot(&mut self, place: u32) -> &mut Option<CachedElection> {
        &mut self.pieces[place as usize / SIDE_BY_SIDE][place as usize % SIDE_BY_SIDE]
    }

    fn put(&mut self, known: CachedElection) -> u32 {
        if let Some(place) = self.free.pop() {
            *self.slot(place) = Some(known);
            return place;
        }
        if self.pieces.last().is_none_or(|last| last.len() == SIDE_BY_SIDE) {
            self.pieces.push(Vec::with_capacity(SIDE_BY_SIDE));
        }
        let before = (self.pieces.len() - 1) * SIDE_BY_SIDE;
        let Some(last) = self.pieces.last_mut() else { unreachable!("there is one") };
        let Ok(place) = u32::try_from(before + last.len()) else { unreachable!("memory ends before that") };
        last.push(Some(known));
        place
    }

    fn take(&mut self, place: u32) -> Option<CachedElection> {
        self.free.push(place);
        self.slot(place).take()
    }
}

impl Elections {
    fn place(&self, name: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(name);
        self.table.find(hash, |place| self.places.known(*place).name() == name).copied()
    }

    pub(super) fn get(&self, name: &str) -> Option<&CachedElection> {
        self.place(name).map(|place| self.places.known(place))
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut CachedElection> {
        let place = self.place(name)?;
        self.places.slot(place).as_mut()
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.place(name).is_some()
    }

    /// Puts it in the place of the one of the same name, if there is one.
    pub(super) fn insert(&mut self, known: CachedElection) {
        if let Some(place) = self.get_mut(known.name()) {
            *place = known;
            return;
        }
        let hash = self.hasher.hash_one(known.name());
        let place = self.places.put(known);
        let (hasher, places) = (&self.hasher, &self.places);
        self.table.insert_unique(hash, place, |place| hasher.hash_one(places.known(*place).name()));
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<CachedElection> {
        let places = &self.places;
        let found =
            self.table.find_entry(self.hasher.hash_one(name), |place| places.known(*place).name() == name);
        let (place, _) = found.ok()?.remove();
        self.places.take(place)
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &CachedElection> {
        self.places.pieces.iter().flatten().flatten()
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}

#[cfg(test)]
mod tests {
    use baton_election::{Document, ElectionName, Epoch, StoreId};
    use baton_store::Version;

    use super::super::compact_document::FieldInterner;
    use super::*;

    fn known(number: usize, version: &str) -> CachedElection {
        let election = ElectionName::new(&format!("e-{number}")).unwrap();
        let document = Document::new(election, StoreId([1; 8]), Epoch(0), &[]);
        CachedElection::new(
            document,
            &FieldInterner::default(),
            Version::new(version),
            baton_store::boot::now(),
        )
    }

    #[test]
    fn each_is_found_by_its_name_and_places_are_taken_again() {
        let mut elections = Elections::default();
        for number in 0..3 * SIDE_BY_SIDE {
            elections.insert(known(number, "1"));
        }
        for number in (0..3 * SIDE_BY_SIDE).step_by(3) {
            let removed = elections.remove(&format!("e-{number}")).unwrap();
            assert_eq!(removed.name(), format!("e-{number}"));
            assert!(elections.remove(&format!("e-{number}")).is_none());
        }
        assert_eq!(elections.len(), 2 * SIDE_BY_SIDE);
        for number in 0..3 * SIDE_BY_SIDE {
            assert_eq!(elections.contains(&format!("e-{number}")), number % 3 != 0);
            elections.insert(known(number, "2"));
        }
        assert_eq!((elections.len(), elections.places.pieces.len()), (3 * SIDE_BY_SIDE, 3));
        for number in 0..3 * SIDE_BY_SIDE {
            let name = format!("e-{number}");
            assert_eq!(elections.get(&name).unwrap().version().as_str(), "2");
            assert_eq!(elections.get_mut(&name).unwrap().name(), name);
        }
        assert!(elections.get("e").is_none());
        assert_eq!(elections.iter().count(), elections.len());
    }

    #[test]
    fn an_election_takes_a_quarter_of_a_kilobyte() {
        assert!(size_of::<Option<CachedElection>>() <= 240, "{}", size_of::<Option<CachedElection>>());
    }
}
