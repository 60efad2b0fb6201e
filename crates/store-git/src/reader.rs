//! Reading: ask the arbiter where the ref stands, bring what is missing, compare it with what was seen.

use std::time::Duration;

use baton_election::document::Transition;
use baton_election::{ElectionName, Epoch};
use baton_store::{Claim, Key, Record, StoreError, Version};

use crate::arbiter::ArbiterLocation;
use crate::git::GitFailure;
use crate::lineage::{Judgement, Search, compare};
use crate::refs::{self, Oid};
use crate::store::Inner;
use crate::tip::{self, Commit, Tip};
use crate::{blame, watch};

/// How often a tip that is replaced while it is brought is asked for anew.
const TRIES: usize = 5;
/// How long after an alarm the arbiter is asked a second time: a replica of the remote may lag behind.
const SECOND_LOOK: Duration = Duration::from_millis(300);

impl Inner {
    /// What is under a key.
    pub(crate) async fn read(&self, key: &Key) -> Result<Option<Tip>, StoreError> {
        match self.look(key).await {
            Err(StoreError::Diverged { .. } | StoreError::Corrupt { .. }) => {
                tokio::time::sleep(SECOND_LOOK).await;
                self.look(key).await
            }
            answer => answer,
        }
    }

    async fn look(&self, key: &Key) -> Result<Option<Tip>, StoreError> {
        // First what was seen, then what is there: it stood there when it was noted, so this can only be newer.
        let seen = self.seen(key).await;
        let known = seen.as_ref().map(|seen| &seen.commit.oid);
        let Some(oid) = self.tip_oid(&refs::of(key)).await? else {
            return match seen {
                Some(seen) => self.vanished(key, &seen).await,
                None => Ok(None),
            };
        };
        if let Some(seen) = seen.as_ref().filter(|seen| seen.commit.oid == oid) {
            return Ok(Some(seen.clone()));
        }
        let tip = self.obtain(key, oid, known).await?;
        let Some(tip) = tip else { return Ok(None) };
        if let Some(seen) = &seen {
            self.check(key, seen, &tip).await?;
        }
        if !self.arbiter.is_here() {
            self.arbiter.remember(&refs::seen(&self.space, key), &tip.commit.oid).await;
        }
        Ok(Some(tip))
    }

    /// Where a ref stands at the arbiter.
    pub(crate) async fn tip_oid(&self, refname: &str) -> Result<Option<Oid>, StoreError> {
        match &self.arbiter.seat {
            ArbiterLocation::Remote(remote) => self.arbiter.remote_tip(remote, refname).await,
            ArbiterLocation::Here(_) => {
                let found = self.objects.at_ref(refname).await.map_err(|fault| self.fault(&fault))?;
                Ok(found.map(|object| object.oid))
            }
        }
    }

    /// The tip of that name, brought from the remote if need be. None if the record has gone meanwhile.
    async fn obtain(&self, key: &Key, oid: Oid, have: Option<&Oid>) -> Result<Option<Tip>, StoreError> {
        let mut oid = oid;
        for _ in 0..TRIES {
            if let Some(tip) = self.tip(key, &oid).await? {
                return Ok(Some(tip));
            }
            let ArbiterLocation::Remote(remote) = &self.arbiter.seat else {
                return Err(self.corrupt(key, &oid, "a part of it is missing", "look with `git fsck`"));
            };
            self.arbiter.fetch(remote, &refs::of(key), have).await?;
            if let Some(tip) = self.tip(key, &oid).await? {
                return Ok(Some(tip));
            }
            match self.arbiter.remote_tip(remote, &refs::of(key)).await? {
                Some(next) if next == oid => {
                    let hint = "look at the remote with `git fsck`";
                    return Err(self.corrupt(key, &oid, "a part of it is missing", hint));
                }
                Some(next) => oid = next,
                None => return Ok(None),
            }
        }
        Err(StoreError::Unavailable {
            location: self.arbiter.location.clone(),
            why: format!("{} changes faster than it can be read", refs::of(key)),
            hint: "use a longer lease, or a store that is nearer".to_string(),
        })
    }

    /// The tip of that name, as far as this clone has it. None if it lacks the commit or what is in it.
    pub(crate) async fn tip(&self, key: &Key, oid: &Oid) -> Result<Option<Tip>, StoreError> {
        let Some(commit) = self.commit(key, oid).await? else { return Ok(None) };
        let tree_file = format!("{oid}:{}", tip::file_name(key));
        match self.objects.find(&tree_file).await.map_err(|fault| self.fault(&fault))? {
            Some(file) => {
                let record = tip::record(key, &self.place(key, oid), &file.body)?;
                Ok(Some(Tip { commit, record }))
            }
            None if self.lacks_file(key, oid).await? => {
                let why = format!("it has no file {}", tip::file_name(key));
                Err(self.corrupt(key, oid, &why, "it was changed by hand; put back what was there"))
            }
            None => Ok(None),
        }
    }

    /// Whether the commit is here as a whole, without the file. A tree that names a file which is not here was not
    /// brought as a whole.
    async fn lacks_file(&self, key: &Key, oid: &Oid) -> Result<bool, StoreError> {
        let tree = self.objects.find(&format!("{oid}^{{tree}}")).await.map_err(|fault| self.fault(&fault))?;
        let entry = format!(" {}\0", tip::file_name(key));
        Ok(tree.is_some_and(|tree| !tree.body.windows(entry.len()).any(|part| part == entry.as_bytes())))
    }

    async fn commit(&self, key: &Key, oid: &Oid) -> Result<Option<Commit>, StoreError> {
        let found = self.objects.find(oid.as_str()).await.map_err(|fault| self.fault(&fault))?;
        let Some(object) = found else { return Ok(None) };
        let hint = "it was changed by hand; put back what was there";
        Commit::parse(&object).map(Some).ok_or_else(|| self.corrupt(key, oid, "it is not a commit", hint))
    }

    /// What this clone saw last; none if it remembers nothing that it can read.
    pub(crate) async fn seen(&self, key: &Key) -> Option<Tip> {
        let object = self.objects.at_ref(&refs::seen(&self.space, key)).await.ok()??;
        self.tip(key, &object.oid).await.ok()?
    }

    /// Refuses a tip that does not go on from the one that was seen.
    async fn check(&self, key: &Key, seen: &Tip, tip: &Tip) -> Result<(), StoreError> {
        let went_back = match compare(seen, tip) {
            Judgement::GoesOn => return Ok(()),
            Judgement::Far if self.has_kin(key, &seen.commit, &tip.commit).await? => return Ok(()),
            Judgement::Far | Judgement::Unrelated => None,
            Judgement::WentBack(why) => Some(why),
        };
        match (&tip.record, went_back) {
            (Record::Election(_), went_back) => Err(self.diverged(key, seen, Some(tip), went_back)),
            (_, went_back) => Err(self.lost(key, seen, &went_back.unwrap_or_default())),
        }
    }

    async fn has_kin(&self, key: &Key, seen: &Commit, tip: &Commit) -> Result<bool, StoreError> {
        let mut search = Search::new(seen, tip);
        while let Some(oid) = search.next() {
            let Some(ancestor) = self.commit(key, &oid).await? else { continue };
            if search.meets(&ancestor) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A record that was seen is not there: the owner wiped the store, or somebody deleted the ref.
    async fn vanished(&self, key: &Key, seen: &Tip) -> Result<Option<Tip>, StoreError> {
        match key {
            Key::Store
            | Key::Tokens
            | Key::Candidate(..)
            | Key::History(_)
            | Key::FenceLog(..)
            | Key::Audit(..) => {
                return Ok(None);
            }
            Key::Election(_) | Key::Fence(_) | Key::Item(..) => {}
        }
        let founded = self.seen(&Key::Store).await;
        let founding = self.tip_oid(&refs::of(&Key::Store)).await?;
        if let Some(founded) = founded.filter(|founded| Some(&founded.commit.oid) != founding.as_ref()) {
            let same_store = match founding {
                None => false,
                Some(oid) => {
                    let now = self.obtain(&Key::Store, oid, None).await?;
                    now.is_some_and(|now| now.record == founded.record)
                }
            };
            if !same_store {
                return Ok(None);
            }
        }
        match key {
            Key::Fence(_) => Err(self.lost(key, seen, "the fence was deleted")),
            Key::Item(..) => Err(self.lost(key, seen, "the item was deleted")),
            _ => Err(self.diverged(key, seen, None, None)),
        }
    }

    fn diverged(&self, key: &Key, seen: &Tip, tip: Option<&Tip>, went_back: Option<String>) -> StoreError {
        let claim = |tip: &Tip, at: String| {
            let document = tip.document();
            Claim {
                epoch: document.map_or(Epoch(0), |document| document.epoch),
                leader: document.and_then(|document| Some(document.lease_holder()?.agent.clone())),
                at,
                record: Some(Box::new(tip.record.clone())),
            }
        };
        let name = self.arbiter.name();
        let in_force = match tip {
            Some(tip) => claim(tip, format!("in force at {name}, commit {}", tip.commit.oid.short())),
            None => Claim { epoch: Epoch(0), leader: None, at: format!("deleted at {name}"), record: None },
        };
        let seen_here = claim(seen, format!("seen by this clone, commit {}", seen.commit.oid.short()));
        let note = went_back.map_or_else(String::new, |why| format!(" ({why})"));
        StoreError::Diverged {
            place: format!("{}{note}", refs::of(key)),
            claims: vec![in_force, seen_here],
            settles: settling(tip.map(|tip| &tip.commit.oid), &seen.commit.oid),
        }
    }

    /// A record that only rises has gone back, and nobody can settle that but who put it so.
    fn lost(&self, key: &Key, seen: &Tip, why: &str) -> StoreError {
        let (refname, seen_ref, oid) = (refs::of(key), refs::seen(&self.space, key), &seen.commit.oid);
        let put_back = match &self.arbiter.seat {
            ArbiterLocation::Here(_) => format!("git update-ref {refname} {oid}"),
            ArbiterLocation::Remote(_) => format!("git push --force {} {oid}:{refname}", self.arbiter.name()),
        };
        StoreError::Corrupt {
            place: format!("{refname} of {}", self.arbiter.location),
            why: why.to_string(),
            hint: format!("put it back: {put_back}; or, if it was meant: git update-ref -d {seen_ref}"),
        }
    }

    /// The last transitions, the oldest first: what the commits of the log hold.
    pub(crate) async fn history(
        &self,
        election: &ElectionName,
        limit: usize,
    ) -> Result<Vec<Transition>, StoreError> {
        let key = Key::Election(election.clone());
        let mut next = self.read(&key).await?;
        let mut found: Vec<Transition> = Vec::new();
        while let Some(tip) = next.filter(|_| found.len() < limit) {
            let last = tip.document().and_then(|document| document.last_transition.as_deref());
            // The commit that settled a divergence repeats the transition of the claim that it goes on from.
            if let Some(last) = last.filter(|last| found.last().is_none_or(|above| above.epoch != last.epoch))
            {
                found.push(last.clone());
            }
            next = match tip.commit.parents.first() {
                Some(parent) => self.tip(&key, parent).await?,
                None => None,
            };
        }
        found.reverse();
        Ok(found)
    }

    pub(crate) fn fault(&self, fault: &GitFailure) -> StoreError {
        blame::fault(&self.arbiter.location, fault)
    }

    fn place(&self, key: &Key, oid: &Oid) -> String {
        format!("{} of {} (commit {})", refs::of(key), self.arbiter.location, oid.short())
    }

    fn corrupt(&self, key: &Key, oid: &Oid, why: &str, hint: &str) -> StoreError {
        StoreError::Corrupt { place: self.place(key, oid), why: why.to_string(), hint: hint.to_string() }
    }
}

/// What a swap expects that settles a divergence: both claims.
fn settling(tip: Option<&Oid>, seen: &Oid) -> Version {
    let tip = tip.map_or("", Oid::as_str);
    Version::new(&format!("{tip}{}{seen}", watch::SETTLES))
}
