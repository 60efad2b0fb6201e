//! The first write of an election's Lease.
//!
//! A client decides on a first epoch by the resourceVersion at which it found no Lease. Another Lease may come and be deleted before that client
//! writes, with the very same epoch or a higher one. So a beginning is three writes, each of which excludes what came between:
//!
//! 1. A Lease on which nothing is written is created. If there is one, somebody else was first.
//! 2. A ConfigMap beside it, the mark of the election, is written over the version that was there. It must be older than the look.
//! 3. The document is written on that very Lease.
//!
//! **No epoch is given twice**: whoever finished a beginning since this client's look has written the mark since, and the second step fails. Whoever
//! finishes one later finds in its first step that there is a Lease, or, if that was deleted, looked after it was. A client that dies on the way
//! leaves a bare Lease: a vacant election, whose epoch is its resourceVersion.

use baton_election::Document;
use baton_store::{AgeStamp, Key, StoreError, Swapped};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::fault::Operation;
use crate::shape::{self, CHANGE, KIND};
use crate::store::{Inner, get};
use crate::{config_map, name};

/// The kind of the mark, for selectors.
const BEGUN: &str = "begun";
/// The entry of the mark that tells people with which token the election began last.
const TOKEN: &str = "token";

impl Inner {
    /// Makes the Lease of an election, with its document.
    pub(crate) async fn begin(
        &self,
        key: &Key,
        document: &Document,
        clock: AgeStamp,
        change: &str,
    ) -> Result<Swapped, StoreError> {
        let name = name::lease(&document.election);
        let place = self.place("Lease", &name);
        // What cannot be written is refused before anything is made.
        let written = shape::write(document, None, clock, &self.stamps, change, &place)?;
        let bare = json!({ "metadata": { "labels": { KIND: "election" } } });
        let made = self.write(&self.leases(), key, name.clone(), None, bare).await.map_err(not_applied)?;
        let resource = shape::resource_version(made.as_deref(), &place)?;
        self.mark_beginning(key, document, change).await.map_err(not_applied)?;
        self.put(key, name, resource, written).await
    }

    /// Writes the mark of an election over the one that was there when this client looked.
    async fn mark_beginning(&self, key: &Key, document: &Document, change: &str) -> Result<(), StoreError> {
        let (name, epoch) = (name::mark(key), document.epoch.0);
        let found = self.ask(Operation::Reading, get(&self.config_maps(), &name)).await?;
        let over = found.and_then(|map| map.resource_version());
        if let Some(resource) = &over
            && shape::resource_version(Some(resource.as_str()), &self.place("ConfigMap", &name))? >= epoch
        {
            return Err(StoreError::Conflict);
        }
        let patch = json!({
            "metadata": {
                "labels": { KIND: BEGUN },
                "annotations": { config_map::KEY: key.to_string(), CHANGE: change },
            },
            "data": { TOKEN: Value::from(epoch.to_string()) },
        });
        // A mark has no owner: it outlives what it is the mark of.
        self.write(&self.config_maps(), &Key::Store, name, over, patch).await.map(drop)
    }
}

/// The document was surely not written, whatever became of the rest.
fn not_applied(error: StoreError) -> StoreError {
    match error {
        StoreError::Unknown { location, why } => {
            StoreError::Unavailable { location, why, hint: "the same may succeed later".to_string() }
        }
        other => other,
    }
}
