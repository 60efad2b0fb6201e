//! The toolbox, as it is asked for.

use baton_api::toolbox::{ItemPage, MAX_PAGE};
use baton_election::{ElectionName, ItemName};
use baton_store::Tools;
use baton_store::toolbox::{
    Added, Answer, Breaker, Command, Counts, Drawn, Item, Kind, Page, Proposal, Query, Quota, Task, Value,
};
use baton_store::{Decision, Key, StoreError, Undecided};
use serde::de::DeserializeOwned;

use crate::client::segment;
use crate::store::{AT_ONCE, HttpStore};

impl HttpStore {
    /// The keys of items, in order: the first, or those after this one.
    pub(crate) async fn names(
        &self,
        election: &ElectionName,
        kind: Kind,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Key>, StoreError> {
        let mut keys: Vec<Key> = Vec::new();
        let mut last = after.and_then(|after| ItemName::new(after.name()).ok());
        while keys.len() < limit {
            let asked = (limit - keys.len()).min(MAX_PAGE);
            let query = Query { after: last.clone(), limit: asked, ..Query::default() };
            let page = self.page_now(election, kind, &query).await.map_err(|undecided| match undecided {
                Undecided::Store(error) => error,
                Undecided::Refused(refusal) => StoreError::Refused {
                    place: self.client.base.clone(),
                    why: refusal.to_string(),
                    hint: refusal.hint(),
                },
            })?;
            let names = page.items.iter().map(|item| item.place().1.clone());
            keys.extend(names.map(|name| Key::Item(election.clone(), kind, name)));
            last = page.items.last().map(|item| item.place().1.clone());
            if !page.more || last.is_none() {
                break;
            }
        }
        Ok(keys)
    }

    async fn page_now(&self, election: &ElectionName, kind: Kind, query: &Query) -> Result<Page, Undecided> {
        let mut path = format!(
            "/v1/elections/{}/{}?limit={}",
            segment(election),
            kind.plural(),
            query.limit.clamp(1, MAX_PAGE)
        );
        if let Some(after) = &query.after {
            path.push_str(&format!("&after={}", segment(after)));
        }
        if let Some(state) = query.state {
            path.push_str(&format!("&state={state}"));
        }
        if let Some(agent) = &query.agent {
            path.push_str(&format!("&agent={}", segment(agent)));
        }
        match kind {
            Kind::Task => self.items::<Task>(&path, Item::Task).await,
            Kind::Proposal => self.items::<Proposal>(&path, Item::Proposal).await,
            Kind::Quota => self.items::<Quota>(&path, Item::Quota).await,
            Kind::Value => self.items::<Value>(&path, Item::Value).await,
            Kind::Breaker => self.items::<Breaker>(&path, Item::Breaker).await,
        }
    }

    async fn items<T: DeserializeOwned>(&self, path: &str, of: fn(T) -> Item) -> Result<Page, Undecided> {
        let shown: ItemPage<T> =
            self.client.get(path).await.map_err(|fault| fault.of_command(&self.client.base))?;
        Ok(Page { items: shown.items.into_iter().map(of).collect(), more: shown.more })
    }
}

impl Tools for HttpStore {
    fn carry_out<'a>(&'a self, election: &'a ElectionName, command: &'a Command) -> Decision<'a, Answer> {
        Box::pin(async move {
            let base = format!("/v1/elections/{}", segment(election));
            let item = |kind: Kind, name: &ItemName| format!("{base}/{}/{}", kind.plural(), segment(name));
            Ok(match command {
                Command::Add(add) => {
                    let added: Vec<Added> = self.send(&format!("{base}/tasks"), add, AT_ONCE).await?;
                    Answer::Added(added)
                }
                Command::Order(name, order) => {
                    Answer::Item(Item::Task(self.send(&item(Kind::Task, name), order, AT_ONCE).await?))
                }
                Command::Propose(propose) => Answer::Item(Item::Proposal(
                    self.send(&format!("{base}/proposals"), propose, AT_ONCE).await?,
                )),
                Command::Rule(name, ruling) => Answer::Item(Item::Proposal(
                    self.send(&item(Kind::Proposal, name), ruling, AT_ONCE).await?,
                )),
                Command::SetQuota(name, set) => {
                    Answer::Item(Item::Quota(self.send(&item(Kind::Quota, name), set, AT_ONCE).await?))
                }
                Command::Draw(name, draw) => {
                    let path = format!("{}/draw", item(Kind::Quota, name));
                    Answer::Drawn(self.send::<Drawn>(&path, draw, AT_ONCE).await?)
                }
                Command::Put(name, put) => {
                    Answer::Item(Item::Value(self.send(&item(Kind::Value, name), put, AT_ONCE).await?))
                }
            })
        })
    }

    fn page<'a>(&'a self, election: &'a ElectionName, kind: Kind, query: &'a Query) -> Decision<'a, Page> {
        Box::pin(self.page_now(election, kind, query))
    }

    fn counts<'a>(&'a self, election: &'a ElectionName) -> Decision<'a, Counts> {
        Box::pin(async move {
            let path = format!("/v1/elections/{}/board", segment(election));
            self.client.get(&path).await.map_err(|fault| fault.of_command(&self.client.base))
        })
    }
}
