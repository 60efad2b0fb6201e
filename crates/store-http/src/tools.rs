//! The toolbox, as it is asked for.

use baton_api::elections::{BoxResult, CommandError, Tools};
use baton_api::endpoints::{Endpoint, Target};
use baton_api::toolbox::{ItemPage, MAX_PAGE};
use baton_api::{Patience, retried};
use baton_election::{ElectionName, ItemName, Refusal, Span};
use baton_store::toolbox::{
    Added, Answer, Breaker, Command, Counts, Drawn, Item, Kind, Page, Proposal, Query, Quota, Task, Value,
};
use baton_store::{Key, StoreError};

use crate::client::Reply;
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
        let endpoint = match kind {
            Kind::Task => Endpoint::Tasks,
            Kind::Proposal => Endpoint::Proposals,
            Kind::Quota => Endpoint::Quotas,
            Kind::Value => Endpoint::Values,
            Kind::Breaker => Endpoint::Breakers,
        };
        let takes = |name: &str| endpoint.row().query.iter().any(|parameter| parameter.name == name);
        let filters = [("state", query.state.is_some()), ("agent", query.agent.is_some())];
        if let Some((filter, _)) = filters.iter().find(|(filter, is_set)| *is_set && !takes(filter)) {
            let why = format!("a list of such items has no filter `{filter}`");
            return Err(Refusal::invalid(why, "leave the filter out").into());
        }
        let mut target = endpoint.target(&[election]).with("limit", &query.limit.clamp(1, MAX_PAGE));
        if let Some(after) = &query.after {
            target = target.with("after", after);
        }
        if let Some(state) = query.state {
            target = target.with("state", &state);
        }
        if let Some(agent) = &query.agent {
            target = target.with("agent", agent);
        }
        match kind {
            Kind::Task => self.items::<Task>(&target, Item::Task).await,
            Kind::Proposal => self.items::<Proposal>(&target, Item::Proposal).await,
            Kind::Quota => self.items::<Quota>(&target, Item::Quota).await,
            Kind::Value => self.items::<Value>(&target, Item::Value).await,
            Kind::Breaker => self.items::<Breaker>(&target, Item::Breaker).await,
        }
    }

    async fn items<T: Reply>(&self, target: &Target, of: fn(T) -> Item) -> Result<Page, CommandError> {
        let shown: ItemPage<T> =
            self.client.get(target).await.map_err(|fault| fault.of_command(&self.client.base))?;
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
            let all = |endpoint: Endpoint| endpoint.target(&[election]);
            let one = |endpoint: Endpoint, name: &ItemName| endpoint.target(&[election, name]);
            Ok(match command {
                Command::Add(add) => {
                    let added: Vec<Added> = self.send(&all(Endpoint::AddTasks), add, AT_ONCE).await?;
                    Answer::Added(added)
                }
                Command::Order(name, order) => Answer::Item(Item::Task(
                    self.send(&one(Endpoint::OrderTask, name), order, AT_ONCE).await?,
                )),
                Command::Propose(propose) => {
                    Answer::Item(Item::Proposal(self.send(&all(Endpoint::Propose), propose, AT_ONCE).await?))
                }
                Command::Rule(name, ruling) => Answer::Item(Item::Proposal(
                    self.send(&one(Endpoint::RuleOn, name), ruling, AT_ONCE).await?,
                )),
                Command::SetQuota(name, set) => {
                    Answer::Item(Item::Quota(self.send(&one(Endpoint::SetQuota, name), set, AT_ONCE).await?))
                }
                Command::Draw(name, draw) => {
                    Answer::Drawn(self.send::<Drawn>(&one(Endpoint::Draw, name), draw, AT_ONCE).await?)
                }
                Command::Put(name, put) => {
                    Answer::Item(Item::Value(self.send(&one(Endpoint::PutValue, name), put, AT_ONCE).await?))
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
            let target = Endpoint::Board.target(&[election]);
            self.client.get(&target).await.map(Some).map_err(|fault| fault.of_command(&self.client.base))
        }))
    }
}
