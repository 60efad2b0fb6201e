//! The toolboxes of the elections' leaders: what a server adds to the store behind it.
//!
//! Commands on the items of one election are carried out one after the other, and whoever looks at them waits for what was begun before. The leader's token is
//! checked against the engine's document in its turn, so that nothing of a former leader is carried out after its successor's first
//! look. What is answered is durable. What there is of a board is also kept in memory, so that it is listed and counted without the store: it is read at first use,
//! and anew after anything of which the store did not say what came of it. A server whose turn is over carries out nothing
//! more of what waits here (`own_lease.rs`). Does not guarantee that of a write which it had begun by then: it may still come late, as it may without a server, and is
//! then found when the item is next written.

mod index;
mod tally;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use baton::{Error, Patience};
use baton_api::CommandError;
use baton_election::ElectionName;
use baton_executor::{Executor, Toolbox};
use baton_store::toolbox::{Answer, Command, Counts, Item, Kind, MAX_WEIGHT, Query};
use baton_store::{StoreError, boot};
use futures_util::{StreamExt, TryStreamExt, stream};
use index::{Index, Part};
pub(crate) use tally::Tools;
use tally::{Size, Tally};
use tokio::sync::{MutexGuard, watch};

use crate::engine::Engine;

/// How many boards are kept in memory at once, and how many items of them all, before those that nobody uses are forgotten.
const MAX_BOARDS: usize = 256;
const MAX_ITEMS: u64 = 1_000_000;
/// How much they weigh all together, before the same.
const MAX_WEIGHTS: u64 = 2 * MAX_WEIGHT;
/// How many commands wait for one board, and how much those weigh that wait for any.
const MAX_WAITING: usize = 1_024;
const MAX_WAITING_WEIGHT: u64 = 64 << 20;
/// What is kept in memory. Breakers are few and written with other items: they are looked up in the store.
const KEPT: [Kind; 4] = [Kind::Task, Kind::Proposal, Kind::Quota, Kind::Value];
/// How many items are read at once.
const AT_ONCE: usize = 64;

/// All boards.
pub(crate) struct Boards {
    executor: Arc<Executor>,
    /// Decides on the elections.
    engine: Engine,
    boards: Mutex<HashMap<ElectionName, Arc<Board>>>,
    /// How much the commands weigh that wait for their turns.
    waiting: Arc<AtomicU64>,
    tally: Tally,
}

/// The toolbox of one election.
pub(crate) struct Board {
    executor: Arc<Executor>,
    election: ElectionName,
    /// What there is of it; none if that is not known.
    index: tokio::sync::Mutex<Option<Index>>,
    /// Counts what has changed.
    changes: watch::Sender<u64>,
    size: Size,
    /// How many commands wait for their turn, or are at it.
    waiting: AtomicUsize,
}

/// A command that waits for its turn, or is at it.
struct PendingCommand {
    board: Arc<Board>,
    weight: u64,
    all: Arc<AtomicU64>,
}

impl Drop for PendingCommand {
    fn drop(&mut self) {
        self.board.waiting.fetch_sub(1, Ordering::Relaxed);
        self.all.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

impl Board {
    fn toolbox(&self) -> Toolbox<'_> {
        self.executor.toolbox(Patience::default(), &self.election)
    }

    /// Waits for its turn.
    pub(crate) async fn turn(&self) -> impl Drop {
        self.index.lock().await
    }

    /// What there is, read if it is not known.
    async fn known(&self) -> Result<MutexGuard<'_, Option<Index>>, Error> {
        let mut index = self.index.lock().await;
        if index.is_none() {
            let mut read = Index::default();
            for kind in KEPT {
                let items = self.toolbox().all(kind, &Query::default()).await?;
                items.into_iter().for_each(|item| read.put(item));
            }
            self.size.store(&read);
            *index = Some(read);
        }
        Ok(index)
    }

    /// Carries out a command in its turn, whoever waits for it.
    async fn carry_out(&self, command: &Command) -> Result<Answer, Error> {
        let mut index = self.known().await?;
        let Some(known) = &mut *index else { unreachable!("it was just read") };
        known.check_room(command)?;
        let outcome = match command {
            Command::Add(add) => {
                self.toolbox().add_decided(add, known.counts().unled).await.map(Answer::Added)
            }
            Command::Propose(_)
            | Command::SetQuota(..)
            | Command::Put(..)
            | Command::Order(..)
            | Command::Rule(..)
            | Command::Draw(..) => self.toolbox().carry_out(command).await,
        };
        if !matches!(&outcome, Err(CommandError::Refused(_))) || matches!(command, Command::Add(_)) {
            let refreshed = self.refresh(known, command, outcome.as_ref().ok()).await;
            self.size.store(known);
            if refreshed.is_err() {
                *index = None;
            }
            self.changes.send_modify(|changes| *changes += 1);
        }
        Ok(outcome?)
    }

    /// Ends the leadership of a worker that failed, where the policy ends it for an open breaker. Who repeats the command after an error makes up
    /// for it.
    async fn end_lead(&self, engine: &Engine, command: &Command, answer: &Answer) -> Result<(), Error> {
        let Some(report) = self.toolbox().against_leader(command, answer).await? else { return Ok(()) };
        let report = baton_election::Command::Report(report);
        match engine.execute(&self.election, &report).await {
            // What is refused is over already.
            Ok(_) | Err(CommandError::Refused(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes in what a command changed, or may have.
    async fn refresh(
        &self,
        known: &mut Index,
        command: &Command,
        answer: Option<&Answer>,
    ) -> Result<(), Error> {
        if let Some(Answer::Item(item)) = answer {
            known.put(item.clone());
            return Ok(());
        }
        let (kind, names) = match command {
            Command::Add(add) => (Kind::Task, add.tasks.iter().filter_map(|task| task.id().ok()).collect()),
            Command::Order(name, _) => (Kind::Task, vec![name.clone()]),
            Command::Propose(propose) => (Kind::Proposal, vec![propose.id.clone()]),
            Command::Rule(name, _) => (Kind::Proposal, vec![name.clone()]),
            Command::SetQuota(name, _) | Command::Draw(name, _) => (Kind::Quota, vec![name.clone()]),
            Command::Put(name, _) => (Kind::Value, vec![name.clone()]),
        };
        let toolbox = self.toolbox();
        let reads: Vec<_> = names.iter().map(|name| toolbox.item(kind, name)).collect();
        let items: Vec<Option<Item>> = stream::iter(reads).buffered(AT_ONCE).try_collect().await?;
        items.into_iter().flatten().for_each(|item| known.put(item));
        Ok(())
    }
}

impl Boards {
    /// The toolboxes of a store's elections.
    pub(crate) fn new(executor: Arc<Executor>, engine: Engine) -> Boards {
        let (waiting, tally) = (Arc::default(), Tally::default());
        Boards { executor, engine, boards: Mutex::default(), waiting, tally }
    }

    /// The one of an election.
    pub(crate) fn board(&self, election: &ElectionName) -> Arc<Board> {
        let mut boards = self.boards.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(board) = boards.get(election) {
            return Arc::clone(board);
        }
        let sum = |of: fn(&Size) -> &AtomicU64| -> u64 {
            boards.values().map(|board| of(&board.size).load(Ordering::Relaxed)).sum()
        };
        let full = sum(|size| &size.items) >= MAX_ITEMS || sum(|size| &size.weight) >= MAX_WEIGHTS;
        if boards.len() >= MAX_BOARDS || full {
            // A board stays while a caller works on it, or waits for it.
            boards.retain(|_, board| Arc::strong_count(board) > 1);
        }
        let board = Arc::new(Board {
            executor: Arc::clone(&self.executor),
            election: election.clone(),
            index: tokio::sync::Mutex::default(),
            // Not from zero: a client that has a count of another run of the server sees that it is another.
            changes: watch::Sender::new(boot::wall().as_unix_millis()),
            size: Size::default(),
            waiting: AtomicUsize::new(0),
        });
        boards.insert(election.clone(), Arc::clone(&board));
        board
    }

    /// Carries out a command whole, also if its caller goes away meanwhile.
    pub(crate) async fn carry_out(&self, election: &ElectionName, command: Command) -> Result<Answer, Error> {
        let waits = self.wait_for(self.board(election), &command)?;
        let asked = Arc::new(command);
        let command = Arc::clone(&asked);
        let engine = self.engine.clone();
        let at_it = tokio::spawn(async move {
            let answer = waits.board.carry_out(&command).await?;
            waits.board.end_lead(&engine, &command, &answer).await?;
            Ok(answer)
        });
        let outcome = at_it.await.unwrap_or_else(|broke| Err(Error::System(std::io::Error::other(broke))));
        self.tally.count(self.engine.meters(), &asked, &outcome);
        outcome
    }

    /// A place among those who wait for a board, if there is one: behind a slow store nobody waits who would only be forgotten.
    fn wait_for(&self, board: Arc<Board>, command: &Command) -> Result<PendingCommand, Error> {
        let weight = command.weight();
        let all = self.waiting.fetch_add(weight, Ordering::Relaxed).saturating_add(weight);
        let before = board.waiting.fetch_add(1, Ordering::Relaxed);
        // From here on it is counted, and no more once it is dropped.
        let waits = PendingCommand { board, weight, all: Arc::clone(&self.waiting) };
        if before < MAX_WAITING && all <= MAX_WAITING_WEIGHT {
            return Ok(waits);
        }
        let why = match before < MAX_WAITING {
            true => "the commands that wait for the store are too large together".to_string(),
            false => format!("{before} commands wait for this toolbox already"),
        };
        let hint = "try again in a moment, with fewer at once".to_string();
        Err(StoreError::Unavailable { location: self.executor.store().location(), why, hint }.into())
    }

    /// What is counted of all toolboxes.
    pub(crate) fn tools(&self) -> Tools {
        let mut tools = Tools { commands: self.tally.read(), ..Tools::default() };
        for board in self.boards.lock().unwrap_or_else(PoisonError::into_inner).values() {
            board.size.add_to(&mut tools);
            tools.waiting += board.waiting.load(Ordering::Relaxed) as u64;
        }
        tools
    }

    /// Items of a kind, in the order of their names, and whether there are more.
    pub(crate) async fn page(
        &self,
        election: &ElectionName,
        kind: Kind,
        query: &Query,
    ) -> Result<(Vec<Arc<Item>>, bool), Error> {
        let board = self.board(election);
        if kind == Kind::Breaker {
            let _turn = board.turn().await;
            let page = board.toolbox().page(kind, query).await?;
            return Ok((page.items.into_iter().map(Arc::new).collect(), page.more));
        }
        let index = board.known().await?;
        let Some(known) = &*index else { unreachable!("it was just read") };
        let Part { items, more, looked_at: _ } = known.part(kind, query);
        Ok((items, more))
    }

    /// How a board stands.
    pub(crate) async fn counts(&self, election: &ElectionName) -> Result<Counts, Error> {
        let board = self.board(election);
        let index = board.known().await?;
        let Some(known) = &*index else { unreachable!("it was just read") };
        let seen = self.executor.see(election).await?;
        let document = seen.document.filter(|document| !document.is_retired());
        let mut counts = known.counts().clone().seen(document.as_ref(), seen.age);
        counts.changes = *board.changes.borrow();
        Ok(counts)
    }

    /// How often a board has changed; none if it is not in memory: then nobody has changed it of late.
    pub(crate) fn changes(&self, election: &ElectionName) -> Option<u64> {
        let boards = self.boards.lock().unwrap_or_else(PoisonError::into_inner);
        boards.get(election).map(|board| *board.changes.borrow())
    }

    /// Waits until a board is not as it was at this count of changes.
    pub(crate) async fn changed(&self, election: &ElectionName, after: u64) {
        let board = self.board(election);
        let mut changes = board.changes.subscribe();
        let _ = changes.wait_for(|changes| *changes != after).await;
    }
}

#[cfg(test)]
mod tests;
