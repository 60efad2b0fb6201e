//! How much of the store is used, and by whom: elections, and the bytes of their records, items and fences.
//!
//! Assumes that it is told of every record that this server writes. Guarantees that what each token has is counted as the records themselves
//! say, also after a restart or a take-over: an election names the token that began it, and what belongs to the election counts for that token,
//! whoever wrote it. So that nobody uses up another token's bytes, a token whose bytes are used up still has an even part of them in each of its
//! elections: refused is what would grow an election beyond that part. An
//! election that an operator retired counts for nothing, and neither does what belongs to it. Does not guarantee an exact bound: requests that are under way together may each be the
//! last that fits; and until all records have been read once after the start, those that were not yet read do not count.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use baton_election::{ElectionName, Refusal, TokenId};
use baton_store::{ItemKind, Key, Prefix, Record, Store, StoreError};

use crate::metrics::Counter;
use crate::options::Quotas;

/// How many names are asked for at once.
const PART: usize = 1_000;
/// From this part of a limit on somebody is warned, in hundredths.
const NEARLY: u64 = 80;

/// How much is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) elections: u64,
    pub(crate) bytes: u64,
}

impl Use {
    fn add(&mut self, other: Use) {
        self.elections += other.elections;
        self.bytes += other.bytes;
    }

    fn take(&mut self, other: Use) {
        self.elections = self.elections.saturating_sub(other.elections);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

/// What is known of one election.
#[derive(Clone, Copy, Default)]
struct ElectionShare {
    /// There is one: it was read or written, and is not retired.
    counts: bool,
    owner: Option<TokenId>,
    /// Of its record, and of what belongs to it.
    bytes: u64,
}

impl ElectionShare {
    fn share(self) -> Use {
        if self.counts { Use { elections: 1, bytes: self.bytes } } else { Use::default() }
    }
}

/// Records and elections, by the hashes of their keys: two that collide count as one.
#[derive(Default)]
struct Inventory {
    sizes: HashMap<u64, u32>,
    elections: HashMap<u64, ElectionShare>,
    all: Use,
    by_token: HashMap<TokenId, Use>,
}

impl Inventory {
    /// A record of an election takes so many bytes.
    fn put(&mut self, number: u64, election: u64, bytes: u32) {
        let before = self.sizes.insert(number, bytes).unwrap_or(0);
        self.change(election, |kept| {
            kept.bytes = (kept.bytes + u64::from(bytes)).saturating_sub(u64::from(before));
        });
    }

    /// Changes what is known of an election, and with it what its owner has.
    fn change(&mut self, election: u64, change: impl FnOnce(&mut ElectionShare)) {
        let kept = self.elections.entry(election).or_default();
        let before = *kept;
        change(kept);
        let after = *kept;
        self.all.take(before.share());
        self.all.add(after.share());
        if let Some(owner) = before.owner {
            let used = self.by_token.entry(owner).or_default();
            used.take(before.share());
            if *used == Use::default() {
                self.by_token.remove(&owner);
            }
        }
        if let Some(owner) = after.owner.filter(|_| after.counts) {
            self.by_token.entry(owner).or_default().add(after.share());
        }
    }
}

/// What one limit allows, and how much of it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// `elections` or `bytes`.
    pub(crate) what: &'static str,
    /// Whose; none for the store as a whole.
    pub(crate) token: Option<TokenId>,
    pub(crate) used: u64,
    pub(crate) limit: u64,
}

impl Share {
    /// Whether somebody should know before it is used up.
    pub(crate) fn is_nearly_used(&self) -> bool {
        self.limit > 0 && self.used.saturating_mul(100) >= self.limit.saturating_mul(NEARLY)
    }

    fn is_used(&self) -> bool {
        self.limit > 0 && self.used >= self.limit
    }

    fn refusal(&self) -> Refusal {
        let whose = match self.token {
            Some(id) => format!("the access token {id}"),
            None => "the store".to_string(),
        };
        let Share { what, used, limit, .. } = self;
        Refusal::invalid(
            format!("{whose} has {used} {what}, and this server keeps at most {limit}"),
            "an operator retires elections whose work is done: baton forget ELECTION; or raises the limit: baton serve --limit-…",
        )
    }
}

/// Counts what is kept.
pub(crate) struct Census {
    hasher: RandomState,
    counted: Mutex<Inventory>,
    quotas: RwLock<Quotas>,
    /// Requests that were refused for a limit.
    pub(crate) refused: Counter,
}

impl Default for Census {
    fn default() -> Census {
        Census {
            hasher: RandomState::new(),
            counted: Mutex::default(),
            quotas: RwLock::new(Quotas::none()),
            refused: Counter::default(),
        }
    }
}

impl Census {
    /// From here on refuses what is more than this.
    pub(crate) fn limit(&self, quotas: Quotas) {
        *self.quotas.write().unwrap_or_else(PoisonError::into_inner) = quotas;
    }

    fn quotas(&self) -> Quotas {
        *self.quotas.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn counted(&self) -> MutexGuard<'_, Inventory> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self, key: &Key) -> u64 {
        self.hasher.hash_one(key)
    }

    fn number_of(&self, election: &ElectionName) -> u64 {
        self.number(&Key::Election(election.clone()))
    }

    /// A record stands in the store as this.
    pub(crate) fn note(&self, key: &Key, record: &Record) {
        self.put(key, record, true);
    }

    fn put(&self, key: &Key, record: &Record, newer: bool) {
        let number = self.number(key);
        let election = match (key, record) {
            (Key::Election(_), Record::Election(_)) => number,
            (Key::Fence(_), Record::Fence(fence)) => self.number_of(&fence.election),
            (Key::Item(election, ..), Record::Item(_)) => self.number_of(election),
            (_, _) => return,
        };
        let bytes = length(record);
        let mut counted = self.counted();
        if !newer && counted.sizes.contains_key(&number) {
            return;
        }
        counted.put(number, election, bytes);
        if let Record::Election(document) = record {
            let (counts, owner) = (!document.is_retired(), document.created_by);
            counted.change(election, |kept| *kept = ElectionShare { counts, owner, ..*kept });
        }
    }

    /// Whether this election is known to count.
    pub(crate) fn knows(&self, election: &ElectionName) -> bool {
        self.counted().elections.get(&self.number_of(election)).is_some_and(|kept| kept.counts)
    }

    /// Refuses one more election of a token. It has next to no bytes yet, so that those of the token's other elections do not count.
    pub(crate) fn check_new(&self, token: Option<TokenId>) -> Result<(), Refusal> {
        let mut shares = self.shares_of(&self.counted(), token);
        shares.retain(|share| share.what == ELECTIONS || share.token.is_none());
        self.check(&shares)
    }

    /// Refuses more bytes of an election. Whoever wrote the others of its token, it has an even part of them.
    pub(crate) fn check_growth(&self, election: &ElectionName) -> Result<(), Refusal> {
        let shares = {
            let counted = self.counted();
            let kept = counted.elections.get(&self.number_of(election)).copied().unwrap_or_default();
            let mut shares = self.shares_of(&counted, kept.owner);
            let elections =
                kept.owner.and_then(|owner| counted.by_token.get(&owner)).map_or(1, |all| all.elections);
            let has_even_part = |share: &Share| kept.bytes >= share.limit / elections.max(1);
            shares.retain(|share| share.what == BYTES && (share.token.is_none() || has_even_part(share)));
            shares
        };
        self.check(&shares)
    }

    fn check(&self, shares: &[Share]) -> Result<(), Refusal> {
        match shares.iter().find(|share| share.is_used()) {
            None => Ok(()),
            Some(share) => {
                self.refused.one();
                Err(share.refusal())
            }
        }
    }

    /// The limits that one with this token is under.
    fn shares_of(&self, counted: &Inventory, token: Option<TokenId>) -> Vec<Share> {
        let Quotas { elections, bytes, token_elections, token_bytes } = self.quotas();
        let share = |what, token, used, limit| Share { what, token, used, limit };
        let Use { elections: all, bytes: all_bytes } = counted.all;
        let mut shares = vec![share(ELECTIONS, None, all, elections), share(BYTES, None, all_bytes, bytes)];
        if let Some(id) = token {
            let own = counted.by_token.get(&id).copied().unwrap_or_default();
            shares.push(share(ELECTIONS, token, own.elections, token_elections));
            shares.push(share(BYTES, token, own.bytes, token_bytes));
        }
        shares
    }

    /// How much of the store is used, and what it may be.
    pub(crate) fn store(&self) -> [Share; 2] {
        let counted = self.counted();
        let Quotas { elections, bytes, .. } = self.quotas();
        [
            Share { what: ELECTIONS, token: None, used: counted.all.elections, limit: elections },
            Share { what: BYTES, token: None, used: counted.all.bytes, limit: bytes },
        ]
    }

    /// Whose share is nearly used: the store's first.
    pub(crate) fn nearly_used(&self) -> Vec<Share> {
        let counted = self.counted();
        let tokens = counted.by_token.keys().copied().map(Some);
        let mut nearly: Vec<Share> = tokens
            .chain([None])
            .flat_map(|token| self.shares_of(&counted, token))
            .filter(Share::is_nearly_used)
            .collect();
        nearly.sort_unstable_by_key(|share| (share.token, share.what));
        nearly.dedup();
        nearly
    }

    /// Counts what stands in the store. What is written meanwhile is told of otherwise, and is newer.
    pub(crate) async fn take(&self, store: &dyn Store) -> Result<(), StoreError> {
        let mut after: Option<Key> = None;
        loop {
            let part = store.list_part(&Prefix::Elections, after.as_ref(), PART).await?;
            for key in &part {
                self.read(store, key).await?;
                let Key::Election(election) = key else { continue };
                for kind in ItemKind::ALL {
                    for item in store.list(&Prefix::Items(election.clone(), kind)).await? {
                        self.read(store, &item).await?;
                    }
                }
            }
            if part.len() < PART {
                break;
            }
            after = part.last().cloned();
        }
        for fence in store.list(&Prefix::Fences).await? {
            self.read(store, &fence).await?;
        }
        Ok(())
    }

    async fn read(&self, store: &dyn Store, key: &Key) -> Result<(), StoreError> {
        tokio::task::yield_now().await;
        match store.read(key).await {
            Ok(reading) => {
                if let Some((record, _)) = &reading.found {
                    self.put(key, record, false);
                }
                Ok(())
            }
            // What is wrong with one record says nothing of the others.
            Err(error) if !error.is_passing() => Ok(()),
            Err(error) => Err(error),
        }
    }
}

const ELECTIONS: &str = "elections";
const BYTES: &str = "bytes";

/// How many bytes a record takes as JSON.
fn length(record: &Record) -> u32 {
    u32::try_from(record.to_compact_json().len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use baton_election::{Document, Epoch, Fence, ResourceName, StoreId};
    use baton_store::{AgeStamp, Expect, MemoryStore};

    use super::*;

    const ONE: TokenId = TokenId([1; 6]);
    const OTHER: TokenId = TokenId([2; 6]);

    fn name(text: &str) -> ElectionName {
        ElectionName::new(text).unwrap()
    }

    fn begun(text: &str, by: Option<TokenId>) -> (Key, Record) {
        let document =
            Document { created_by: by, ..Document::new(name(text), StoreId([1; 8]), Epoch(1), &[]) };
        (Key::Election(name(text)), Record::Election(Box::new(document)))
    }

    fn limited(quotas: Quotas) -> Census {
        let census = Census::default();
        census.limit(quotas);
        census
    }

    #[test]
    fn an_election_counts_for_the_token_that_began_it_until_it_is_forgotten() {
        let census = limited(Quotas { elections: 3, token_elections: 2, ..Quotas::none() });
        for (text, by) in [("a", Some(ONE)), ("b", Some(ONE)), ("a", Some(ONE))] {
            let (key, record) = begun(text, by);
            census.note(&key, &record);
        }
        let refused = census.check_new(Some(ONE)).unwrap_err();
        assert!(refused.to_string().contains("010101010101 has 2 elections"), "{refused}");
        assert!(refused.hint().contains("baton forget"), "{}", refused.hint());
        census.check_new(Some(OTHER)).unwrap();
        let (key, record) = begun("c", None);
        census.note(&key, &record);
        assert!(census.check_new(Some(OTHER)).unwrap_err().to_string().starts_with("the store has 3"));
        assert_eq!(census.refused.value(), 2);
        let (key, Record::Election(mut document)) = begun("a", Some(ONE)) else { unreachable!() };
        document.forgotten = Some(document.epoch);
        census.note(&key, &Record::Election(document));
        assert!(!census.knows(&name("a")) && census.knows(&name("b")));
        census.check_new(Some(ONE)).unwrap();
        assert_eq!(census.store()[0].used, 2);
    }

    #[test]
    fn bytes_are_those_of_the_records_and_somebody_is_warned_before_they_are_used_up() {
        let census = limited(Quotas { token_bytes: 1_000, ..Quotas::none() });
        let (key, Record::Election(mut document)) = begun("a", Some(ONE)) else { unreachable!() };
        census.note(&key, &Record::Election(document.clone()));
        census.check_growth(&name("a")).unwrap();
        assert_eq!(census.nearly_used(), []);
        document.task = Some(Arc::from("x".repeat(1_000).as_str()));
        census.note(&key, &Record::Election(document.clone()));
        let refused = census.check_growth(&name("a")).unwrap_err();
        assert!(refused.to_string().contains("bytes"), "{refused}");
        assert_eq!(census.nearly_used().iter().map(|share| share.token).collect::<Vec<_>>(), [Some(ONE)]);
        // The token that began the election pays for it, whichever token writes.
        census.check_growth(&name("unknown")).unwrap();
        document.task = None;
        census.note(&key, &Record::Election(document));
        census.check_growth(&name("a")).unwrap();
    }

    #[test]
    fn who_grows_one_election_of_a_token_uses_up_nothing_of_its_others() {
        let census = limited(Quotas { token_bytes: 40_000, token_elections: 4, ..Quotas::none() });
        for text in ["mine", "shared"] {
            let (key, record) = begun(text, Some(ONE));
            census.note(&key, &record);
        }
        // Another token leads one of them, and writes as much as there is.
        let grow = |text: &str, bytes: usize| {
            let (key, Record::Election(mut document)) = begun(text, Some(ONE)) else { unreachable!() };
            document.task = Some(Arc::from("x".repeat(bytes).as_str()));
            census.note(&key, &Record::Election(document));
        };
        while census.check_growth(&name("shared")).is_ok() {
            let bytes = census.counted().by_token[&ONE].bytes;
            grow("shared", usize::try_from(bytes).unwrap() + 1_000);
        }
        census.check_growth(&name("mine")).expect("it has an even part");
        census.check_new(Some(ONE)).expect("one more election is small");
        let (key, record) = begun("third", Some(ONE));
        census.note(&key, &record);
        census.check_growth(&name("third")).expect("it has an even part as well");
        // That part is what it has.
        grow("mine", 40_000 / 3);
        let refused = census.check_growth(&name("mine")).unwrap_err();
        assert!(refused.to_string().contains("010101010101 has"), "{refused}");
        // So that all of them together have at most twice what there is.
        grow("third", 40_000 / 3);
        assert!(census.counted().by_token[&ONE].bytes < 2 * 40_000);
        // What gives room is found at once.
        grow("shared", 10);
        census.check_growth(&name("shared")).unwrap();
    }

    #[test]
    fn what_belongs_to_an_election_counts_with_it_whichever_is_read_first() {
        let census = Census::default();
        let resource = ResourceName::new("db").unwrap();
        let fence = Fence::new(resource.clone(), StoreId([1; 8]), name("a"));
        let fence = Record::Fence(Box::new(Fence { highest: Epoch(1), ..fence }));
        census.note(&Key::Fence(resource), &fence);
        assert_eq!(census.store().map(|share| share.used), [0, 0], "nobody knows yet whose it is");
        let (key, Record::Election(mut document)) = begun("a", Some(ONE)) else { unreachable!() };
        census.note(&key, &Record::Election(document.clone()));
        let all = u64::from(length(&fence)) + u64::from(length(&Record::Election(document.clone())));
        assert_eq!(census.counted().by_token[&ONE], Use { elections: 1, bytes: all });
        document.forgotten = Some(document.epoch);
        census.note(&key, &Record::Election(document.clone()));
        assert_eq!(census.store().map(|share| share.used), [0, 0]);
        assert!(census.counted().by_token.is_empty());
        // It begins anew for another token, with what is still there.
        let again = Document { created_by: Some(OTHER), epoch: document.epoch.next(), ..*document };
        let again = Record::Election(Box::new(again));
        census.note(&key, &again);
        let all = u64::from(length(&fence)) + u64::from(length(&again));
        assert_eq!(census.counted().by_token[&OTHER], Use { elections: 1, bytes: all });
    }

    #[tokio::test]
    async fn what_stands_in_the_store_is_counted_and_what_was_written_since_is_newer() {
        let store = MemoryStore::default();
        let census = Census::default();
        for (text, by) in [("a", Some(ONE)), ("b", Some(OTHER)), ("c", None)] {
            let (key, record) = begun(text, by);
            store.swap(&key, Expect::Absent, &record, AgeStamp::Reset).await.unwrap();
        }
        let resource = ResourceName::new("db").unwrap();
        let fence = Fence::new(resource.clone(), StoreId([1; 8]), name("a"));
        let fence = Record::Fence(Box::new(Fence { highest: Epoch(1), ..fence }));
        store.swap(&Key::Fence(resource), Expect::Absent, &fence, AgeStamp::Reset).await.unwrap();
        let (key, newer) = begun("b", Some(ONE));
        census.note(&key, &newer);
        census.take(&store).await.unwrap();
        census.take(&store).await.unwrap();
        let counted = census.counted();
        assert_eq!(counted.all.elections, 3);
        assert_eq!(counted.by_token.keys().collect::<Vec<_>>(), [&ONE]);
        let own = counted.by_token[&ONE];
        assert_eq!(own.elections, 2);
        let of_both: u64 =
            [begun("a", Some(ONE)).1, newer, fence].iter().map(|record| u64::from(length(record))).sum();
        assert_eq!(own.bytes, of_both);
    }
}
