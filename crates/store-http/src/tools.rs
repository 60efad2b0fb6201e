//! The toolbox, as it is asked for.

use baton_api::elections::{BoxResult, CommandError, Tools};
use baton_api::toolbox::{ItemPage, MAX_PAGE};
use baton_api::{Patience, retried};
use baton_election::{ElectionName, ItemName, Span};
use baton_store::toolbox::{
    Added, Answer, Breaker, Command, Counts, Drawn, Item, Kind, Page, Proposal, Query, Quota, Task, Value,
};
use baton_store::{Key, StoreError};
use serde::de::DeserializeOwned;

use crate::client::segment;
use crate::fault::as_store_error;
use crate::records::{AT_ONCE, HttpElections};

/// A look is made once: its caller knows whether to look again.
const NO_RETRY: Patience =
    Patience { first: Span::ZERO, longest: Span::ZERO, retries: Some(0), within: None };

impl HttpElections {
    /// The keys of items, in order.
    pub(crate) async fn names(&self, election: &ElectionName, kind: Kind) -> Result<Vec<Key>, StoreError> {
        let all = self.all(NO_RETRY, election, kind, &Query::default()).await;
        let all = all.map_err(|error| as_store_error(error, &self.client.base))?;
        let key = |item: &Item| Key::Item(election.clone(), kind, item.place().1.clone());
        Ok(all.iter().map(key).collect())
    }

    async fn page_now(
        &self,
        election: &ElectionName,
        kind: Kind,
        query: &Query,
    ) -> Result<Page, CommandError> {
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

    async fn items<T: DeserializeOwned>(&self, path: &str, of: fn(T) -> Item) -> Result<Page, CommandError> {
        let shown: ItemPage<T> =
            self.client.get(path).await.map_err(|fault| fault.of_command(&self.client.base))?;
        Ok(Page { items: shown.items.into_iter().map(of).collect(), more: shown.more })
    }
}

impl Tools for HttpElections {
    fn carry_out<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        command: &'a Command,
    ) -> BoxResult<'a, Answer> {
        Box::pin(retried(patience, move || async move {
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
        }))
    }

    fn page<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        kind: Kind,
        query: &'a Query,
    ) -> BoxResult<'a, Page> {
        Box::pin(retried(patience, move || self.page_now(election, kind, query)))
    }

    /// The server knows them, however many there are.
    fn counts<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        _most: usize,
    ) -> BoxResult<'a, Option<Counts>> {
        Box::pin(retried(patience, move || async move {
            let path = format!("/v1/elections/{}/board", segment(election));
            self.client.get(&path).await.map(Some).map_err(|fault| fault.of_command(&self.client.base))
        }))
    }
}
