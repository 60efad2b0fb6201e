//! What is on the board, and what else there is.

use baton_api::toolbox::MAX_PAGE;
use baton_election::ItemName;
use baton_store::toolbox::{Counts, Item, Kind, Page, Proposal, Query, Quota, State, Task, Value};
use baton_store::{Decider, Key, Prefix, Record};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::Toolbox;
use crate::error::Error;
use crate::there::insist;

/// How many items are read at once.
const AT_ONCE: usize = 64;

impl Toolbox {
    /// An item; none if there is none.
    pub async fn item(&self, kind: Kind, name: &ItemName) -> Result<Option<Item>, Error> {
        let key = Key::Item(self.election.clone(), kind, name.clone());
        let reading = self.coordinator.local.store.read(&key).await?;
        Ok(match reading.found {
            Some((Record::Item(item), _)) => Some(*item),
            Some(_) | None => None,
        })
    }

    /// A task; a refusal if there is none.
    pub async fn task(&self, id: &ItemName) -> Result<Task, Error> {
        match self.item(Kind::Task, id).await? {
            Some(Item::Task(task)) => Ok(task),
            Some(_) | None => Err(Kind::Task.no_such(id).into()),
        }
    }

    /// A proposal; a refusal if there is none.
    pub async fn proposal(&self, id: &ItemName) -> Result<Proposal, Error> {
        match self.item(Kind::Proposal, id).await? {
            Some(Item::Proposal(proposal)) => Ok(proposal),
            Some(_) | None => Err(Kind::Proposal.no_such(id).into()),
        }
    }

    /// A quota; a refusal if there is none.
    pub async fn quota(&self, name: &ItemName) -> Result<Quota, Error> {
        match self.item(Kind::Quota, name).await? {
            Some(Item::Quota(quota)) => Ok(quota),
            Some(_) | None => Err(Kind::Quota.no_such(name).into()),
        }
    }

    /// A value; a refusal if there is none.
    pub async fn value(&self, name: &ItemName) -> Result<Value, Error> {
        match self.item(Kind::Value, name).await? {
            Some(Item::Value(value)) => Ok(value),
            Some(_) | None => Err(Kind::Value.no_such(name).into()),
        }
    }

    /// A part of the items of a kind, in the order of their names.
    pub async fn page(&self, kind: Kind, query: &Query) -> Result<Page, Error> {
        let coordinator = &self.coordinator;
        if let Some(tools) = coordinator.store().decider().and_then(Decider::tools) {
            return insist(coordinator.patience, || tools.page(&self.election, kind, query)).await;
        }
        let limit = query.limit.clamp(1, MAX_PAGE);
        // One more than is wanted tells whether there are more.
        let mut items = self.read_here(kind, query, limit + 1).await?;
        let more = items.len() > limit;
        items.truncate(limit);
        Ok(Page { items, more })
    }

    /// At most so many of the items that are wanted.
    async fn read_here(&self, kind: Kind, query: &Query, limit: usize) -> Result<Vec<Item>, Error> {
        let prefix = Prefix::Items(self.election.clone(), kind);
        let keys = self.coordinator.local.store.list(&prefix).await?;
        let from = query.after.as_ref();
        let keys = keys.into_iter().filter(|key| from.is_none_or(|after| key.name() > after.as_str()));
        let reads = stream::iter(keys.map(|key| async move { self.read_item(&key).await })).buffered(AT_ONCE);
        let wanted = reads.try_filter_map(|item| async move { Ok(item.filter(|item| query.wants(item))) });
        wanted.take(limit).try_collect().await
    }

    async fn read_item(&self, key: &Key) -> Result<Option<Item>, Error> {
        let reading = self.coordinator.local.store.read(key).await?;
        Ok(match reading.found {
            Some((Record::Item(item), _)) => Some(*item),
            Some(_) | None => None,
        })
    }

    /// All items of a kind that are wanted, however many parts it takes.
    pub async fn all(&self, kind: Kind, query: &Query) -> Result<Vec<Item>, Error> {
        if self.coordinator.store().decider().and_then(Decider::tools).is_none() {
            return self.read_here(kind, query, usize::MAX).await;
        }
        let mut items = Vec::new();
        let mut next = Query { limit: MAX_PAGE, ..query.clone() };
        loop {
            let page = self.page(kind, &next).await?;
            next.after = page.items.last().map(|item| item.place().1.clone());
            items.extend(page.items);
            if !page.more || next.after.is_none() {
                return Ok(items);
            }
        }
    }

    /// All tasks that are wanted.
    pub async fn tasks(&self, query: &Query) -> Result<Vec<Task>, Error> {
        let items = self.all(Kind::Task, query).await?;
        Ok(items
            .into_iter()
            .filter_map(|item| if let Item::Task(task) = item { Some(task) } else { None })
            .collect())
    }

    /// Tasks under way by the word of an earlier epoch, a former leader's or the present one's before an approval, that were not adopted. None while nobody leads.
    pub async fn inherited(&self) -> Result<Vec<Task>, Error> {
        let view = self.coordinator.view(&self.election).await?;
        let Some(epoch) = view.leader().map(|leader| leader.epoch) else { return Ok(Vec::new()) };
        let mut inherited = Vec::new();
        for state in [State::Assigned, State::Working] {
            let tasks = self.tasks(&Query { state: Some(state), ..Query::default() }).await?;
            let told_before = |task: &Task| task.attempt().is_some_and(|attempt| attempt.epoch < epoch);
            inherited.extend(tasks.into_iter().filter(told_before));
        }
        Ok(inherited)
    }

    /// How the board stands.
    pub async fn counts(&self) -> Result<Counts, Error> {
        let coordinator = &self.coordinator;
        if let Some(tools) = coordinator.store().decider().and_then(Decider::tools) {
            return insist(coordinator.patience, || tools.counts(&self.election)).await;
        }
        let view = coordinator.view(&self.election).await?;
        let mut counts = Counts::default();
        self.tasks(&Query::default()).await?.iter().for_each(|task| counts.count(task));
        Ok(counts.seen(view.document.as_ref(), view.age))
    }

    /// The same, unless more than so many tasks had to be read for it: a server knows them.
    pub async fn counts_within(&self, most: usize) -> Result<Option<Counts>, Error> {
        let coordinator = &self.coordinator;
        if coordinator.store().decider().and_then(Decider::tools).is_none() {
            let tasks = Prefix::Items(self.election.clone(), Kind::Task);
            if coordinator.local.store.list(&tasks).await?.len() > most {
                return Ok(None);
            }
        }
        self.counts().await.map(Some)
    }
}
