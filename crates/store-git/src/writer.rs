//! Swapping: write the objects, then let the arbiter move the ref.

use baton_store::{Expect, Key, Record, StoreError, Swapped, boot};

use crate::blame;
use crate::refs::{self, Oid};
use crate::store::Inner;
use crate::tip::{self, Draft, Tip};
use crate::watch::{SETTLES, version};

/// What a swap builds on.
enum Base {
    /// Nothing is there.
    Nothing,
    /// This is there.
    On(Oid),
    /// This is there, if anything, and that was seen.
    Settles(Option<Oid>, Oid),
}

impl Base {
    /// What a caller expects; none if no record can have that version.
    fn of(expect: &Expect) -> Option<Base> {
        let Expect::Version(version) = expect else { return Some(Base::Nothing) };
        match version.as_str().split_once(SETTLES) {
            None => Oid::parse(version.as_str()).map(Base::On),
            Some(("", seen)) => Some(Base::Settles(None, Oid::parse(seen)?)),
            Some((tip, seen)) => Some(Base::Settles(Some(Oid::parse(tip)?), Oid::parse(seen)?)),
        }
    }
}

impl Inner {
    /// Puts `next` under the key if what is there is what is expected.
    pub(crate) async fn swap(
        &self,
        key: &Key,
        expect: &Expect,
        next: &Record,
    ) -> Result<Swapped, StoreError> {
        let Some(base) = Base::of(expect) else { return Err(StoreError::Conflict) };
        let change = fresh_change()?;
        let (draft, expected) = match base {
            Base::Nothing => (tip::draft(next, None, &change), None),
            Base::On(oid) => {
                let tip = self.base(key, &oid).await?.ok_or(StoreError::Conflict)?;
                (tip::draft(next, Some(&tip), &change), Some(oid))
            }
            Base::Settles(oid, seen) => {
                let claims = self.settle(key, next, oid.as_ref(), &seen).await?;
                (tip::settling_draft(next, claims, &change), oid)
            }
        };
        let oid = self.write(key, next, &draft).await?;
        let seen = refs::seen(&self.space, key);
        self.arbiter.publish(&refs::of(key), expected.as_ref(), &oid, &seen).await?;
        if !self.arbiter.is_here() {
            self.arbiter.remember(&seen, &oid).await;
        }
        Ok(Swapped { version: version(&oid) })
    }

    /// The tip that a swap builds on: this clone has it if it has read it.
    async fn base(&self, key: &Key, oid: &Oid) -> Result<Option<Tip>, StoreError> {
        match self.tip(key, oid).await? {
            Some(tip) => Ok(Some(tip)),
            // Another clone has read it, and it may still be there.
            None => Ok(self.read(key).await?.filter(|tip| tip.commit.oid == *oid)),
        }
    }

    /// Both claims, the one first that `next` goes on from.
    async fn settle(
        &self,
        key: &Key,
        next: &Record,
        in_force: Option<&Oid>,
        seen: &Oid,
    ) -> Result<Vec<Oid>, StoreError> {
        let Record::Election(document) = next else { return Err(StoreError::Conflict) };
        let seen = self.tip(key, seen).await?.ok_or(StoreError::Conflict)?;
        let in_force = match in_force {
            Some(oid) => Some(self.tip(key, oid).await?.ok_or(StoreError::Conflict)?),
            None => None,
        };
        let claims = in_force.iter().chain([&seen]).filter_map(Tip::document);
        let highest = claims.map(|claim| claim.epoch).max().unwrap_or_default();
        if document.epoch <= highest {
            return Err(StoreError::Refused {
                place: refs::of(key),
                why: format!("epoch {} does not settle what has reached epoch {highest}", document.epoch),
                hint: "settle it with an epoch above both claims".to_string(),
            });
        }
        let goes_on_from =
            |tip: &Tip| tip.document().is_some_and(|claim| claim.last_transition == document.last_transition);
        let mut parents: Vec<Oid> = in_force.iter().map(|tip| tip.commit.oid.clone()).collect();
        let place = if in_force.as_ref().is_some_and(goes_on_from) { parents.len() } else { 0 };
        parents.insert(place, seen.commit.oid.clone());
        Ok(parents)
    }

    async fn write(&self, key: &Key, next: &Record, draft: &Draft) -> Result<Oid, StoreError> {
        let mut text = next.to_json();
        text.push('\n');
        let blob = self.object("blob", text.as_bytes()).await?;
        let tree = self.object("tree", &tip::tree(key, &blob)).await?;
        let seconds = boot::wall().as_unix_millis() / 1_000;
        let commit = self.object("commit", &draft.body(&tree, seconds)).await?;
        self.arbiter.keep(&[&blob, &tree, &commit]).await?;
        Ok(commit)
    }

    async fn object(&self, kind: &str, body: &[u8]) -> Result<Oid, StoreError> {
        let written = self.objects.write(kind, body).await.map_err(|fault| self.fault(&fault))?;
        written.map_err(|output| blame::failure(&self.arbiter.location, &output))
    }
}

/// A number that no other commit has.
fn fresh_change() -> Result<String, StoreError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Unavailable {
        location: "this machine".to_string(),
        why: format!("it has no random numbers: {error}"),
        hint: "look at /dev/urandom".to_string(),
    })?;
    Ok(format!("{:016x}", u64::from_be_bytes(bytes)))
}
