//! The mark of a fence: what outlives its ConfigMap.
//!
//! A fence stands a second time, without its hold, in a ConfigMap of its own. That one is written before the fence is, whenever the fence's
//! highest token rises or an operator binds it anew, so that it is never behind. Whoever finds the fence deleted goes on from its mark: what it is bound
//! to, and the tokens that it refuses, are what they were. Whoever deletes both has made a new fence, and means it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_election::fence::Fence;
use baton_store::{Expect, Key, Record, StoreError, Version};
use serde_json::Value;

use crate::shape::KIND;
use crate::store::Inner;
use crate::{config_map, name};

/// The kind of a mark, for selectors.
pub(crate) const MARK: &str = "fence-mark";
/// The version of a fence that is known by its mark alone.
const GONE: &str = "gone";
/// How often somebody else may raise a mark while we do.
const ATTEMPTS: usize = 8;

/// Fences whose marks are known to stand as high as this.
#[derive(Default)]
pub(crate) struct Marks {
    known: Mutex<BTreeMap<Key, Fence>>,
}

impl Marks {
    fn known(&self) -> MutexGuard<'_, BTreeMap<Key, Fence>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether two fences are of the same election.
fn same(a: &Fence, b: &Fence) -> bool {
    (&a.store, &a.election) == (&b.store, &b.election)
}

/// Whether a mark stands where the fence cannot go: further, or at another election without an operator's word.
fn is_beyond(mark: &Fence, next: &Fence) -> bool {
    mark.position() > next.position() || mark.binding == next.binding && !same(mark, next)
}

/// What is kept of a fence that is about to accept a token: not yet that it did.
fn kept(next: &Fence) -> Fence {
    let before = next.tail.len().saturating_sub(1);
    Fence { hold: None, tail: next.tail[..before].to_vec(), ..next.clone() }
}

impl Inner {
    /// A fence; if it was deleted, as its mark has it.
    pub(crate) async fn fence(&self, key: &Key) -> Result<Option<(Record, Version)>, StoreError> {
        if let Some((record, version)) = self.config_map(key, name::config_map(key)).await? {
            if let Record::Fence(fence) = &record {
                self.marks.known().insert(key.clone(), kept(fence));
            }
            return Ok(Some((record, version)));
        }
        let mark = self.config_map(key, name::mark(key)).await?;
        Ok(mark.map(|(record, _)| (record, Version::new(GONE))))
    }

    /// What a swap of a fence expects of its ConfigMap, once its mark is as high as the fence will be.
    pub(crate) async fn marked(
        &self,
        key: &Key,
        expect: &Expect,
        next: &Fence,
        change: &str,
    ) -> Result<Expect, StoreError> {
        let known = self
            .marks
            .known()
            .get(key)
            .is_some_and(|mark| same(mark, next) && mark.position() >= next.position());
        if !known {
            self.raise(key, expect, next, change).await?;
        }
        let gone = matches!(expect, Expect::Version(version) if version.as_str() == GONE);
        Ok(if gone { Expect::Absent } else { expect.clone() })
    }

    async fn raise(&self, key: &Key, expect: &Expect, next: &Fence, change: &str) -> Result<(), StoreError> {
        let name = name::mark(key);
        for _ in 0..ATTEMPTS {
            let found = self.config_map(key, name.clone()).await?;
            let over = match &found {
                Some((Record::Fence(mark), _)) if is_beyond(mark, next) => {
                    // Whoever raised it may just have written the fence too.
                    let fence = self.fence(key).await?;
                    if Expect::of(fence.as_ref().map(|(_, version)| version)) != *expect {
                        return Err(StoreError::Conflict);
                    }
                    return Err(self.lowered(&name, mark, next));
                }
                Some((Record::Fence(mark), _)) if mark.position() == next.position() => break,
                Some((_, version)) => Some(version.as_str().to_string()),
                None => None,
            };
            let mut patch = config_map::write(key, &Record::Fence(Box::new(kept(next))), change);
            patch["metadata"]["labels"][KIND] = Value::from(MARK);
            match self.write(&self.config_maps(), key, name.clone(), over, patch).await {
                Ok(_) => break,
                Err(StoreError::Conflict) => {}
                // The fence itself surely was not written.
                Err(StoreError::Unknown { location, why }) => {
                    let hint = "the same may succeed later".to_string();
                    return Err(StoreError::Unavailable { location, why, hint });
                }
                Err(error) => return Err(error),
            }
        }
        self.marks.known().insert(key.clone(), kept(next));
        Ok(())
    }

    fn lowered(&self, name: &str, mark: &Fence, next: &Fence) -> StoreError {
        StoreError::Corrupt {
            place: self.place("ConfigMap", &name::config_map(&Key::Fence(next.resource.clone()))),
            why: format!(
                "it would go to token {} of `{}`, and its mark has seen token {} of `{}`",
                next.highest, next.election, mark.highest, mark.election
            ),
            hint: format!(
                "an old copy was put back, or it was made anew; if its resource begins anew, delete it and ConfigMap {name}"
            ),
        }
    }
}
