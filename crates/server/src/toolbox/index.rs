//! What there is of one election's toolbox, in memory: found by name, and tasks also by their state and by
//! the agent that has them.
//!
//! Guarantees that a page of a list takes as many steps as it has items, times the number of states, however
//! long the board is; only a list of one agent's proposals looks at all of those. Counts what there is, and
//! how much it weighs, so that neither grows without a bound. Does not know what is in the store: the caller
//! that changes the store also tells the index.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use baton_election::{AgentName, ItemName, Refusal};
use baton_store::toolbox::board::MAX_UNLED;
use baton_store::toolbox::{AddTasks, Command, Counts, Item, Kind, MAX_WEIGHT, Propose, Query, State, Task};

/// How long a text may be that a worker says of its task where there is no room for more.
const SHORT: u64 = 512;

/// What there is.
#[derive(Default)]
pub(super) struct Index {
    kinds: [BTreeMap<ItemName, Arc<Item>>; Kind::ALL.len()],
    /// Tasks by the agent that has them, or had them last. Under no agent: all tasks.
    tasks: BTreeMap<(Option<AgentName>, State), BTreeSet<ItemName>>,
    counts: Counts,
    weight: u64,
}

/// A part of a list.
#[derive(Default)]
pub(super) struct Part {
    pub(super) items: Vec<Arc<Item>>,
    /// There are more after the last one.
    pub(super) more: bool,
    /// How many names were looked at for it.
    pub(super) looked_at: usize,
}

impl Index {
    pub(super) fn put(&mut self, item: Item) {
        let (kind, name) = (item.kind(), item.place().1.clone());
        self.weight = self.weight.saturating_add(item.weight());
        let mut found_at = Vec::new();
        if let Item::Task(task) = &item {
            self.counts.count(task);
            found_at.extend(places(task));
        }
        let before = self.of_kind_mut(kind).insert(name.clone(), Arc::new(item));
        if let Some(before) = &before {
            self.weight = self.weight.saturating_sub(before.weight());
        }
        if let Some(Item::Task(task)) = before.as_deref() {
            self.counts.discount(task);
            for place in places(task) {
                if let Some(names) = self.tasks.get_mut(&place) {
                    names.remove(&name);
                    if names.is_empty() {
                        self.tasks.remove(&place);
                    }
                }
            }
        }
        for place in found_at {
            self.tasks.entry(place).or_default().insert(name.clone());
        }
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many items there are.
    pub(super) fn len(&self) -> u64 {
        self.kinds.iter().map(|of| of.len() as u64).sum()
    }

    /// How much memory they take, about.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    fn of_kind(&self, kind: Kind) -> &BTreeMap<ItemName, Arc<Item>> {
        &self.kinds[place_of(kind)]
    }

    fn of_kind_mut(&mut self, kind: Kind) -> &mut BTreeMap<ItemName, Arc<Item>> {
        &mut self.kinds[place_of(kind)]
    }

    /// Refuses what there is no room for: too many items, or too much text.
    pub(super) fn check_room(&self, command: &Command) -> Result<(), Refusal> {
        let new = |kind: Kind, name: &ItemName| match self.of_kind(kind).contains_key(name) {
            true => Ok(()),
            false => kind.check_room(self.of_kind(kind).len()),
        };
        match command {
            Command::Add(add) if self.new_tasks(add)? == 0 => return Ok(()),
            Command::Add(_) => {}
            // What stands there already is not written again.
            Command::Propose(Propose { id, .. }) if self.of_kind(Kind::Proposal).contains_key(id) => {
                return Ok(());
            }
            Command::Propose(propose) => new(Kind::Proposal, &propose.id)?,
            Command::SetQuota(name, _) => new(Kind::Quota, name)?,
            Command::Put(name, _) => new(Kind::Value, name)?,
            // What is there goes on, with few words if there is no room for many.
            Command::Order(..) | Command::Rule(..) | Command::Draw(..) if command.weight() <= SHORT => {
                return Ok(());
            }
            Command::Order(..) | Command::Rule(..) | Command::Draw(..) => {}
        }
        if self.weight.saturating_add(command.weight()) <= MAX_WEIGHT {
            return Ok(());
        }
        let why = format!(
            "the toolbox of this election has {} MiB of text already; at most {} are allowed",
            self.weight >> 20,
            MAX_WEIGHT >> 20
        );
        Err(Refusal::Exhausted { why, retry_in: None })
    }

    /// How many tasks are new, if there is room for so many. Those that stand on the board already need none: a request whose answer was lost
    /// is sent again.
    fn new_tasks(&self, add: &AddTasks) -> Result<usize, Refusal> {
        add.check()?;
        let board = self.of_kind(Kind::Task);
        let new = add.unlike(|id| board.contains_key(id));
        if new == 0 {
            return Ok(0);
        }
        Kind::Task.check_room(board.len() + new - 1)?;
        let unled = self.counts.unled;
        if add.mandate.is_none() && unled.saturating_add(new as u64) > MAX_UNLED {
            let why = format!("nobody leads, and {unled} tasks wait already; at most {MAX_UNLED} may");
            return Err(Refusal::Exhausted { why, retry_in: None });
        }
        Ok(new)
    }

    /// A part of the items of a kind that are wanted, in the order of their names.
    pub(super) fn part(&self, kind: Kind, query: &Query) -> Part {
        let by_task = kind == Kind::Task && (query.state.is_some() || query.agent.is_some());
        let all = self.of_kind(kind);
        if !by_task {
            let from = all.range::<ItemName, _>((after(query), Bound::Unbounded)).map(|(name, _)| name);
            return self.taken(from, kind, query);
        }
        let states = query.state.map_or_else(|| State::ALL.to_vec(), |state| vec![state]);
        let lists = states.into_iter().filter_map(|state| self.tasks.get(&(query.agent.clone(), state)));
        let lists = lists
            .map(|names| names.range::<ItemName, _>((after(query), Bound::Unbounded)).peekable())
            .collect();
        self.taken(Merged { lists }, kind, query)
    }

    fn taken<'a>(&self, names: impl Iterator<Item = &'a ItemName>, kind: Kind, query: &Query) -> Part {
        let mut part = Part::default();
        for name in names {
            part.looked_at += 1;
            let Some(item) = self.of_kind(kind).get(name).filter(|item| query.wants(item)) else { continue };
            if part.items.len() == query.limit {
                part.more = true;
                break;
            }
            part.items.push(Arc::clone(item));
        }
        part
    }
}

/// Where a task is found beside its name.
fn places(task: &Task) -> impl Iterator<Item = (Option<AgentName>, State)> {
    let of = task.worker().cloned();
    [Some((None, task.state)), of.map(|agent| (Some(agent), task.state))].into_iter().flatten()
}

fn place_of(kind: Kind) -> usize {
    match kind {
        Kind::Task => 0,
        Kind::Proposal => 1,
        Kind::Quota => 2,
        Kind::Value => 3,
        Kind::Breaker => 4,
    }
}

fn after(query: &Query) -> Bound<&ItemName> {
    query.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded)
}

/// Several lists, each in order, as one in order.
struct Merged<'a, I: Iterator<Item = &'a ItemName>> {
    lists: Vec<Peekable<I>>,
}

impl<'a, I: Iterator<Item = &'a ItemName>> Iterator for Merged<'a, I> {
    type Item = &'a ItemName;

    fn next(&mut self) -> Option<&'a ItemName> {
        let firsts = self.lists.iter_mut().enumerate();
        let (_, first) = firsts.filter_map(|(place, list)| Some((*list.peek()?, place))).min()?;
        self.lists[first].next()
    }
}

#[cfg(test)]
mod tests;
