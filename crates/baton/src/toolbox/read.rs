//! What is on the board, and what else there is.

use baton_election::ItemName;
use baton_store::toolbox::{Counts, Item, Kind, Page, Proposal, Query, Quota, State, Task, Value};
use baton_store::{Key, Record};

use super::Toolbox;
use crate::error::Error;

impl Toolbox {
    /// An item; none if there is none.
    pub async fn item(&self, kind: Kind, name: &ItemName) -> Result<Option<Item>, Error> {
        let key = Key::Item(self.election.clone(), kind, name.clone());
        let reading = self.coordinator.backend.read(&key).await?;
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
        let tools = self.coordinator.backend.tools()?;
        Ok(tools.page(self.coordinator.patience, &self.election, kind, query).await?)
    }

    /// All items of a kind that are wanted, however many parts it takes.
    pub async fn all(&self, kind: Kind, query: &Query) -> Result<Vec<Item>, Error> {
        let tools = self.coordinator.backend.tools()?;
        Ok(tools.all(self.coordinator.patience, &self.election, kind, query).await?)
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
        Ok(self.counts_within(usize::MAX).await?.unwrap_or_default())
    }

    /// The same, unless more than so many tasks had to be read for it: a server knows them.
    pub async fn counts_within(&self, most: usize) -> Result<Option<Counts>, Error> {
        let tools = self.coordinator.backend.tools()?;
        Ok(tools.counts(self.coordinator.patience, &self.election, most).await?)
    }
}
