//! The store itself.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use baton_election::document::Transition;
use baton_election::{ElectionName, Moment};
use baton_store::{
    Access, AgeStamp, BoxFuture, BoxStream, Change, Cost, Deletion, Durability, Expect, HistoryKept, Key,
    Persistence, Prefix, Reading, Record, Store, StoreError, StoreProperties, Swapped, Trace, Version,
    Watching,
};
use redb::WriteTransaction;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::fault::StorePath;
use crate::fresh::Fresh;
use crate::open::{self, Connect};
use crate::pending::Pending;
use crate::reader::{Disk, Shared, version};
use crate::restore::copy;
use crate::shape::{META, META_SNAPSHOT};
use crate::writer::{Job, Prepared, QUEUE, Writer};

/// How many look at the disk at once. A look is short, and a thread for everybody who looks would take more than it gives.
const READERS: usize = 4;

/// One of several changes that are made together or not at all.
#[derive(Clone, Debug)]
pub struct Write {
    /// The record.
    pub key: Key,
    /// What must be there.
    pub expect: Expect,
    /// What is put there.
    pub next: Record,
    /// Whether its clock restarts.
    pub clock: AgeStamp,
}

/// A store in a file. Clones share it; the file is closed with the last of them.
///
/// Whoever drops an unfinished swap knows as little as after [`StoreError::Unknown`].
#[derive(Clone)]
pub struct EmbeddedStore {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    /// The way to the thread that writes; none for a reader.
    queue: Option<mpsc::Sender<Job>>,
    writer: Option<JoinHandle<()>>,
    readers: Semaphore,
    /// Goes last: whoever listens to it hears that the file is closed.
    open: watch::Sender<()>,
}

impl Drop for Inner {
    /// The file is closed when this returns, so that the next process finds it whole and can open it.
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl EmbeddedStore {
    /// Opens the store in a file, which is made if it is not there and `access` allows it. Blocks: the whole file is read and checked.
    pub fn open(path: &Path, access: Access) -> Result<EmbeddedStore, StoreError> {
        EmbeddedStore::open_by(path, access, open::connect())
    }

    pub(crate) fn open_by(
        path: &Path,
        access: Access,
        connect: Connect,
    ) -> Result<EmbeddedStore, StoreError> {
        let place = StorePath::new(path);
        baton_store::refuse_network(&place.path)?;
        match access {
            Access::Write => {
                open::make(&place)?;
                let opened = open::open(&place, &connect)?;
                let meta = opened.meta;
                let shared = Arc::new(Shared::new(place, Disk::Open(opened.database), Some(meta)));
                let (queue, jobs) = mpsc::channel(QUEUE);
                let writer = Writer::new(Arc::clone(&shared), jobs, opened.journal, &meta);
                let thread = std::thread::Builder::new().name("baton-embedded".to_string());
                let writer = thread
                    .spawn(move || writer.run())
                    .map_err(|error| shared.place.unavailable(format!("no thread can be had: {error}")))?;
                let (queue, writer, readers) = (Some(queue), Some(writer), Semaphore::new(READERS));
                let inner = Inner { shared, queue, writer, readers, open: watch::Sender::new(()) };
                Ok(EmbeddedStore { inner: Arc::new(inner) })
            }
            Access::Read => {
                let (disk, meta) = if place.path.exists() {
                    let opened = open::peek(&place)?;
                    (Disk::Open(opened.database), Some(opened.meta))
                } else {
                    (Disk::Absent, None)
                };
                let shared = Arc::new(Shared::new(place, disk, meta));
                let (queue, writer, readers) = (None, None, Semaphore::new(READERS));
                let inner = Inner { shared, queue, writer, readers, open: watch::Sender::new(()) };
                Ok(EmbeddedStore { inner: Arc::new(inner) })
            }
        }
    }

    /// Waits until the file is closed, which it is with the last clone. To wait does not keep it open.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut open = self.inner.open.subscribe();
        async move { while open.changed().await.is_ok() {} }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.inner.shared.place.path
    }

    /// When this process opened the file: from here on the lease of every record counts that was not swapped since.
    pub fn opened_at(&self) -> Moment {
        self.inner.shared.stamps.opened_at()
    }

    /// What is known of elections that are not there: something only after a restore.
    pub fn trace(&self) -> Option<Trace> {
        self.inner.shared.trace()
    }

    /// Makes several changes of different records, all of them or none, in one durable commit.
    ///
    /// A conflict of one is a conflict of all. Without any change it answers once the store can be written to.
    pub async fn commit(&self, changes: Vec<Write>) -> Result<Vec<Swapped>, StoreError> {
        let place = &self.inner.shared.place;
        if changes.iter().map(|change| &change.key).collect::<BTreeSet<_>>().len() < changes.len() {
            return Err(place.refused("a commit changes one record twice", "this is a fault in the program"));
        }
        let prepare = |write: &Write| Prepared::new(&write.key, &write.expect, &write.next, write.clock);
        self.hand_over(changes.iter().map(prepare).collect()).await
    }

    /// Has the thread that writes make changes, and waits for what comes of them.
    async fn hand_over(&self, changes: Vec<Prepared>) -> Result<Vec<Swapped>, StoreError> {
        let place = &self.inner.shared.place;
        let Some(queue) = &self.inner.queue else {
            return Err(place
                .refused("it was opened for reading only", "this is a fault in the program that opened it"));
        };
        let (answer, answered) = oneshot::channel();
        let job = Job { changes, answer };
        if queue.send(job).await.is_err() {
            return Err(place.unavailable("the thread that writes has ended"));
        }
        let given = answered.await.map_err(|_| place.unknown("the thread that writes has ended"))??;
        Ok(given.into_iter().map(|number| Swapped { version: version(number) }).collect())
    }

    /// Hands over all records of a kind, in order, as they are at one instant. Returns how many. Blocks.
    pub fn load(
        &self,
        prefix: &Prefix,
        mut each: impl FnMut(Key, Record, Version),
    ) -> Result<u64, StoreError> {
        self.inner.shared.load(prefix, &mut each)
    }

    /// Writes a consistent copy to a file that is not there yet, readable by its owner only. Swaps go on meanwhile. Blocks.
    ///
    /// The copy is for [`restore`](crate::restore()): opened as it is, it would give epochs a second time.
    pub fn snapshot(&self, to: &Path) -> Result<(), StoreError> {
        let to = StorePath::new(to);
        let copied = self.inner.shared.look(Pending::clone, |pending, transaction| {
            Ok(Fresh::make(&to, |into| {
                copy(&self.inner.shared.place, transaction, into)?;
                let marked = pending.write(into).and_then(|()| mark_as_snapshot(into));
                marked.map_err(|error| to.unavailable(error))
            }))
        })?;
        let Some(fresh) = copied else {
            return Err(self.inner.shared.place.refused("there is no database", "there is nothing to copy"));
        };
        match fresh.name(&to.path) {
            Ok(true) => Ok(()),
            Ok(false) => Err(to.refused("there is a file already", "give the snapshot another name")),
            Err(error) => Err(to.io(&error)),
        }
    }

    /// Work in a thread of its own: a disk may hang.
    async fn looked<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Shared) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if matches!(*self.inner.shared.disk(), Disk::Broken(_)) {
            // Whoever looks, too, makes the store try again.
            self.commit(Vec::new()).await?;
        }
        let _place = self.inner.readers.acquire().await;
        let shared = Arc::clone(&self.inner.shared);
        match tokio::task::spawn_blocking(move || look(&shared)).await {
            Ok(looked) => looked,
            Err(error) => {
                Err(self.inner.shared.place.unavailable(format!("the task that was at it ended: {error}")))
            }
        }
    }
}

fn mark_as_snapshot(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(META)?.insert(META_SNAPSHOT, 1)?;
    Ok(())
}

impl Store for EmbeddedStore {
    fn location(&self) -> String {
        self.inner.shared.place.location()
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        let key = key.clone();
        Box::pin(self.looked(move |shared| shared.read(&key)))
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expect: Expect,
        next: &'a Record,
        clock: AgeStamp,
        _persistence: Persistence,
    ) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        Box::pin(async move {
            let given = self.hand_over(vec![Prepared::new(key, &expect, next, clock)]).await?;
            given.into_iter().next().ok_or_else(|| self.inner.shared.place.unknown("no version was given"))
        })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        let prefix = prefix.clone();
        Box::pin(self.looked(move |shared| shared.list(&prefix, None, usize::MAX)))
    }

    fn list_part<'a>(
        &'a self,
        prefix: &'a Prefix,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        let (prefix, after) = (prefix.clone(), after.cloned());
        Box::pin(self.looked(move |shared| shared.list(&prefix, after.as_ref(), limit)))
    }

    fn watch<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        Box::pin(async move { Ok(self.inner.shared.watchers.watch(key)) })
    }

    fn properties(&self) -> StoreProperties {
        StoreProperties {
            age: "this machine's boot-time clock, since the last swap or since the file was opened, whichever is \
                  later: every restart gives each lease its full length",
            stamped: true,
            watch: Watching::Pushed,
            durability: Durability::Synced,
            deletion: Deletion::Impossible,
            history: HistoryKept::Native,
            partition: "cannot happen: one process",
            cost: Cost { per_renewal: 1, looks_per_hour: 0 },
        }
    }

    fn native_history<'a>(
        &'a self,
        election: &'a ElectionName,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Transition>, StoreError>> {
        let election = election.clone();
        Box::pin(self.looked(move |shared| shared.history(&election, limit)))
    }
}
