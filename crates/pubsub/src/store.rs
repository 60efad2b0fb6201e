//! A store whose changes are told through a topic.

use std::sync::Arc;

use baton_election::document::Transition;
use baton_election::{ContentHash, ElectionName, WallTime};
use baton_store::waiting::Waiters;
use baton_store::{
    AgeStamp, BoxFuture, BoxStream, Change, Cost, Expect, Key, Persistence, Prefix, Reading, Record, Store,
    StoreError, StoreProperties, Swapped, Watching,
};
use futures_util::stream;

use crate::fault::Failure;
use crate::google::{Caller, Route};
use crate::hub::Hub;
use crate::tell::Teller;
use crate::topic::Topic;

/// A store, with push.
pub struct Notified {
    inner: Arc<dyn Store>,
    topic: Arc<Topic>,
    teller: Teller,
    hub: Hub,
    /// How the topic is made by hand.
    by_hand: String,
}

impl Notified {
    /// A store whose changes are told through a topic of a project, by this route. Sends nothing.
    pub async fn open(
        inner: Arc<dyn Store>,
        project: &str,
        topic: &str,
        route: &Route,
    ) -> Result<Notified, StoreError> {
        let location = inner.location();
        let place = format!("the topic `{topic}` of {location}");
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~+%".contains(c);
        let is_name = (3..=255).contains(&topic.len())
            && topic.starts_with(|c: char| c.is_ascii_alphabetic())
            && !topic.starts_with("goog")
            && topic.chars().all(plain);
        if !is_name {
            return Err(StoreError::Refused {
                place,
                why: "it is no name of a topic".to_string(),
                hint: "it has 3 to 255 letters, digits and -_.~+%, begins with a letter, and not with `goog`"
                    .to_string(),
            });
        }
        let caller =
            Caller::new(route, &[]).await.map_err(|not_sent| Failure::NotSent(not_sent).told(&place))?;
        // The location's hash, so that nothing about a store is told to others who may read the topic.
        let store = ContentHash::of(location.as_bytes()).to_string()[..16].to_string();
        let topic_name = topic;
        let topic = Arc::new(Topic::new(caller, project, topic, store));
        Ok(Notified {
            inner,
            teller: Teller::new(Arc::clone(&topic)),
            hub: Hub::new(Arc::clone(&topic)),
            topic,
            by_hand: format!("gcloud pubsub topics create {topic_name} --project {project}"),
        })
    }
}

impl Drop for Notified {
    fn drop(&mut self) {
        self.hub.close();
    }
}

impl Store for Notified {
    fn location(&self) -> String {
        self.inner.location()
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(async move {
            self.teller.look_ahead().await;
            self.inner.read(key).await
        })
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expect: Expect,
        next: &'a Record,
        clock: AgeStamp,
        persistence: Persistence,
    ) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        Box::pin(async move {
            self.teller.insist().await?;
            let swapped = self.inner.swap(key, expect, next, clock, persistence).await;
            // What may have been applied is told of as well: whoever hears of it reads again.
            if matches!(swapped, Ok(_) | Err(StoreError::Unknown { .. })) {
                self.teller.tell(key.to_string()).await;
            }
            swapped
        })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        self.inner.list(prefix)
    }

    fn watch<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        Box::pin(async move {
            let told = self.hub.watch(&key.to_string()).await?;
            let seen = self.inner.watch(key).await?;
            Ok(Box::pin(stream::select(told, seen)) as BoxStream<Change>)
        })
    }

    fn waiters(&self) -> Option<&dyn Waiters> {
        self.inner.waiters()
    }

    fn wall(&self) -> BoxFuture<'_, Result<Option<WallTime>, StoreError>> {
        self.inner.wall()
    }

    fn properties(&self) -> StoreProperties {
        let inner = self.inner.properties();
        let Cost { per_renewal, looks_per_hour } = inner.cost;
        // One message for every renewal.
        let cost = Cost { per_renewal: per_renewal + 1, looks_per_hour };
        StoreProperties { watch: Watching::Pushed, cost, ..inner }
    }

    fn layout(&self) -> Option<String> {
        match self.inner.layout() {
            Some(inner) => {
                Some(format!("{inner}\n-- The topic that changes are told through:\n-- {}\n", self.by_hand))
            }
            None => Some(self.by_hand.clone()),
        }
    }

    fn prepare(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.inner.prepare().await?;
            self.topic.make().await.map_err(|failure| failure.told(&self.topic.name))
        })
    }

    fn native_history<'a>(
        &'a self,
        election: &'a ElectionName,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Transition>, StoreError>> {
        self.inner.native_history(election, limit)
    }
}
