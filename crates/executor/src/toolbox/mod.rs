//! The toolbox of an election's leader, decided here: each item is a record, changed by compare-and-swap.

mod breakers;
mod write;

use baton_api::Patience;
use baton_api::elections::{BoxResult, CommandError, Tools};
use baton_api::toolbox::MAX_PAGE;
use baton_election::{ElectionName, ItemName};
use baton_store::toolbox::{Answer, Command, Counts, Item, Kind, Page, Query, Task};
use baton_store::{Key, Prefix, Record};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::executor::Executor;

/// How many items are read at once.
const AT_ONCE: usize = 64;

/// The toolbox of one election's leader.
#[derive(Clone, Copy)]
pub struct Toolbox<'a> {
    executor: &'a Executor,
    patience: Patience,
    election: &'a ElectionName,
}

impl Executor {
    /// The toolbox of an election's leader.
    pub fn toolbox<'a>(&'a self, patience: Patience, election: &'a ElectionName) -> Toolbox<'a> {
        Toolbox { executor: self, patience, election }
    }
}

impl Tools for Executor {
    fn carry_out<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        command: &'a Command,
    ) -> BoxResult<'a, Answer> {
        Box::pin(async move {
            let toolbox = self.toolbox(patience, election);
            let answer = toolbox.carry_out(command).await?;
            // A caller that repeats the command after an error makes up for it.
            toolbox.end_lead(command, &answer).await?;
            Ok(answer)
        })
    }

    fn page<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        kind: Kind,
        query: &'a Query,
    ) -> BoxResult<'a, Page> {
        Box::pin(async move { self.toolbox(patience, election).page(kind, query).await })
    }

    fn all<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        kind: Kind,
        query: &'a Query,
    ) -> BoxResult<'a, Vec<Item>> {
        Box::pin(async move { self.toolbox(patience, election).all(kind, query).await })
    }

    fn counts<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        most: usize,
    ) -> BoxResult<'a, Option<Counts>> {
        Box::pin(async move {
            let toolbox = self.toolbox(patience, election);
            if most < usize::MAX && toolbox.keys(Kind::Task).await?.len() > most {
                return Ok(None);
            }
            let seen = self.see(election).await?;
            let mut counts = Counts::default();
            toolbox.tasks(&Query::default()).await?.iter().for_each(|task| counts.count(task));
            let document = seen.document.filter(|document| !document.is_retired());
            Ok(Some(counts.seen(document.as_ref(), seen.age)))
        })
    }
}

impl Toolbox<'_> {
    /// An item; none if there is none.
    pub async fn item(&self, kind: Kind, name: &ItemName) -> Result<Option<Item>, CommandError> {
        self.read(&Key::Item(self.election.clone(), kind, name.clone())).await
    }

    /// A part of the items of a kind, in the order of their names.
    pub async fn page(&self, kind: Kind, query: &Query) -> Result<Page, CommandError> {
        let limit = query.limit.clamp(1, MAX_PAGE);
        // One more than is wanted tells whether there are more.
        let mut items = self.read_wanted(kind, query, limit + 1).await?;
        let more = items.len() > limit;
        items.truncate(limit);
        Ok(Page { items, more })
    }

    /// All items of a kind that are wanted.
    pub async fn all(&self, kind: Kind, query: &Query) -> Result<Vec<Item>, CommandError> {
        self.read_wanted(kind, query, usize::MAX).await
    }

    async fn tasks(&self, query: &Query) -> Result<Vec<Task>, CommandError> {
        let items = self.all(Kind::Task, query).await?;
        let task = |item| if let Item::Task(task) = item { Some(task) } else { None };
        Ok(items.into_iter().filter_map(task).collect())
    }

    async fn task(&self, id: &ItemName) -> Result<Task, CommandError> {
        match self.item(Kind::Task, id).await? {
            Some(Item::Task(task)) => Ok(task),
            Some(_) | None => Err(Kind::Task.no_such(id).into()),
        }
    }

    async fn keys(&self, kind: Kind) -> Result<Vec<Key>, CommandError> {
        Ok(self.executor.store.list(&Prefix::Items(self.election.clone(), kind)).await?)
    }

    /// At most so many of the items that are wanted.
    async fn read_wanted(&self, kind: Kind, query: &Query, limit: usize) -> Result<Vec<Item>, CommandError> {
        let keys = self.keys(kind).await?;
        let from = query.after.as_ref();
        let keys = keys.into_iter().filter(|key| from.is_none_or(|after| key.name() > after.as_str()));
        let reads = stream::iter(keys.map(|key| async move { self.read(&key).await })).buffered(AT_ONCE);
        let wanted = reads.try_filter_map(|item| async move { Ok(item.filter(|item| query.wants(item))) });
        wanted.take(limit).try_collect().await
    }

    async fn read(&self, key: &Key) -> Result<Option<Item>, CommandError> {
        let reading = self.executor.store.read(key).await?;
        Ok(match reading.found {
            Some((Record::Item(item), _)) => Some(*item),
            Some(_) | None => None,
        })
    }
}
