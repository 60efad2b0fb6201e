//! The executor as [`Elections`].

use std::sync::Arc;

use baton_api::elections::{
    AskInfo, AskLease, BoxResult, Candidacies, CommandError, Decides, Elections, Executed, Fences, Orders,
    Settlement, Sighting, StartFrom, Tools,
};
use baton_api::{Patience, SharedMemory};
use baton_election::document::Transition;
use baton_election::time::WallTime;
use baton_election::{Answer, Command, ElectionName, StoreInfo};
use baton_store::waiting::Waiters;
use baton_store::{
    BoxFuture, BoxStream, Change, HistoryKept, Key, Prefix, Reading, Store, StoreError, StoreProperties,
};

use crate::breakers::{needs_look, with_open_breakers};
use crate::executor::Executor;

impl Elections for Executor {
    fn location(&self) -> String {
        self.store.location()
    }

    fn properties(&self) -> StoreProperties {
        self.store.properties()
    }

    fn decides(&self) -> Decides {
        Decides::Here
    }

    fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    fn store(&self) -> Option<&dyn Store> {
        Some(&*self.store)
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        self.store.read(key)
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        self.store.list(prefix)
    }

    fn watch<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        self.store.watch(key)
    }

    fn writable<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<(), StoreError>> {
        self.store.writable(key)
    }

    fn layout(&self) -> Option<String> {
        self.store.layout()
    }

    fn prepare(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.prepare()
    }

    fn wall(&self) -> BoxFuture<'_, Result<Option<WallTime>, StoreError>> {
        self.store.wall()
    }

    fn waiters(&self) -> Option<&dyn Waiters> {
        self.store.waiters()
    }

    fn when_made(&self, tell: Box<dyn Fn() + Send + Sync>) {
        let _ = self.when_made.set(tell);
    }

    fn info(&self, patience: Patience, ask: AskInfo) -> BoxResult<'_, Arc<StoreInfo>> {
        Box::pin(async move {
            match ask.fresh {
                true => self.fresh_info(patience, ask.make).await,
                false => self.known_info(patience, ask.make).await,
            }
        })
    }

    fn view<'a>(&'a self, election: &'a ElectionName) -> BoxResult<'a, Sighting> {
        Box::pin(self.see(election))
    }

    fn last_pushed(&self, election: &ElectionName) -> Option<Sighting> {
        self.pushed(election)
    }

    fn history<'a>(&'a self, election: &'a ElectionName, limit: usize) -> BoxResult<'a, Vec<Transition>> {
        Box::pin(self.transitions(election, limit))
    }

    fn enter_history<'a>(&'a self, election: &'a ElectionName) -> BoxResult<'a, ()> {
        Box::pin(async move {
            if self.store.properties().history == HistoryKept::Native {
                return Ok(());
            }
            let document = self.see(election).await?.document.filter(|document| !document.is_retired());
            match document.as_ref().and_then(|document| document.last_transition.as_deref()) {
                None => Ok(()),
                Some(last) => self.record_transition(election, last).await,
            }
        })
    }

    fn is_in_history<'a>(
        &'a self,
        election: &'a ElectionName,
        transition: &'a Transition,
    ) -> BoxFuture<'a, bool> {
        Box::pin(self.learn_recorded(election, transition))
    }

    fn execute<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        command: &'a Command,
        start: StartFrom,
    ) -> BoxResult<'a, Executed> {
        if needs_look(command) {
            return Box::pin(async move {
                let command = self.with_breakers(election, command).await?;
                self.run(patience, election, &command, start).await
            });
        }
        Box::pin(self.run(patience, election, command, start))
    }

    fn acquire<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        ask: AskLease<'a>,
    ) -> BoxResult<'a, Executed> {
        Box::pin(async move {
            let command = Command::Acquire(ask.acquire.clone());
            match self.run(patience, election, &command, ask.start).await {
                Err(CommandError::Refused(refusal)) if refusal.asks_for_breakers() => {
                    // Apart: most policies do not look at them.
                    let command = Box::pin(self.with_breakers(election, &command)).await?;
                    self.run(patience, election, &command, StartFrom::Read).await
                }
                outcome => outcome,
            }
        })
    }

    fn settle<'a>(&'a self, patience: Patience, settlement: Settlement<'a>) -> BoxResult<'a, Answer> {
        Box::pin(self.settle_histories(patience, settlement))
    }

    fn candidacies(&self) -> Result<&dyn Candidacies, CommandError> {
        Ok(self)
    }

    fn fences(&self) -> Result<&dyn Fences, CommandError> {
        Ok(self)
    }

    fn orders(&self) -> Result<&dyn Orders, CommandError> {
        Ok(self)
    }

    fn tools(&self) -> Result<&dyn Tools, CommandError> {
        Ok(self)
    }
}

impl Executor {
    /// The command with what a look at circuit breakers shows.
    async fn with_breakers(
        &self,
        election: &ElectionName,
        command: &Command,
    ) -> Result<Command, CommandError> {
        let document = self.see(election).await?.document;
        with_open_breakers(self, election, document.as_ref(), command).await
    }
}
