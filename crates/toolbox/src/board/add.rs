//! Putting tasks on the board.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use baton_election::command::MAX_CAPABILITIES;
use baton_election::policy::check_capability;
use baton_election::{AgentName, ContentHash, Epoch, ItemName, Refusal};
use serde::{Deserialize, Serialize};

use super::{Progress, State, Task};
use crate::bounds::{self, MAX_BODY_BYTES, MAX_NOTE_BYTES};
use crate::item::{Kind, called};
use crate::mandate::{Mandate, Sight};

/// The most tasks of one request.
pub const MAX_ADDED: usize = 500;
/// The most tasks that wait and were queued while nobody led.
pub const MAX_UNLED: u64 = 1_000;

/// Puts tasks on the board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AddTasks {
    /// The leader's. Without one tasks are taken only while nobody leads, and only so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mandate: Option<Mandate>,
    /// Who adds them, where there is no mandate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AgentName>,
    /// The tasks. Each is added by itself: if one is refused, others may stand all the same.
    #[serde(deserialize_with = "baton_election::objects")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = MAX_ADDED)))]
    pub tasks: Vec<NewTask>,
}

/// A task that is to be added. To add the same one again changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NewTask {
    /// By what it shall be known. Without it, the key decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ItemName>,
    /// What tells it from other tasks, in the words of the agent that adds it: the same key is the same task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = MAX_NOTE_BYTES)))]
    pub key: Option<String>,
    /// One line for people.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = crate::MAX_TITLE_BYTES)))]
    pub title: String,
    /// What is to be done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_BODY_BYTES)))]
    pub body: String,
    /// What whoever does it must be able to do.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_CAPABILITIES)))]
    pub needs: BTreeSet<String>,
    /// How much of a worker's capacity it takes.
    #[serde(default = "one")]
    pub size: u64,
}

fn one() -> u64 {
    1
}

/// That a task stands on the board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Added {
    /// Which.
    pub id: ItemName,
    /// It stood there before.
    pub repeated: bool,
    /// How it stands.
    pub state: State,
}

impl AddTasks {
    /// Refuses a request without tasks or with too many.
    pub fn check(&self) -> Result<(), Refusal> {
        if (1..=MAX_ADDED).contains(&self.tasks.len()) {
            return Ok(());
        }
        Err(Refusal::invalid(
            format!("{} tasks at once; between 1 and {MAX_ADDED} are allowed", self.tasks.len()),
            "send them in parts",
        ))
    }

    /// How many different tasks of it are not known by their ids: to add one again takes no room.
    pub fn unlike(&self, is_known: impl Fn(&ItemName) -> bool) -> usize {
        let ids: BTreeSet<ItemName> = self.tasks.iter().filter_map(|task| task.id().ok()).collect();
        ids.iter().filter(|id| !is_known(id)).count()
    }
}

impl NewTask {
    /// By what it is known: its id, or what its key comes to.
    pub fn id(&self) -> Result<ItemName, Refusal> {
        if let Some(id) = &self.id {
            return Ok(id.clone());
        }
        let Some(key) = self.key.as_deref().filter(|key| !key.is_empty()) else {
            return Err(Refusal::invalid(
                "a task needs an id or a key",
                "give one: a request whose answer was lost can then be sent again",
            ));
        };
        bounds::check("key", key, MAX_NOTE_BYTES)?;
        let hash = baton_election::hex::encode(&ContentHash::of(key.as_bytes()).0[..12]);
        let name = ItemName::new(&format!("k-{hash}"));
        let Ok(name) = name else { unreachable!("digits are a name") };
        Ok(name)
    }

    fn check(&self) -> Result<(), Refusal> {
        bounds::check_title(&self.title)?;
        bounds::check("body", &self.body, MAX_BODY_BYTES)?;
        if self.needs.len() > MAX_CAPABILITIES {
            return Err(Refusal::invalid(
                format!("a task needs at most {MAX_CAPABILITIES} capabilities"),
                "name the ones that matter",
            ));
        }
        self.needs.iter().try_for_each(|capability| check_capability(capability))
    }

    fn is(&self, task: &Task) -> bool {
        self.title == task.title
            && self.body == task.body
            && self.needs == task.needs
            && self.size == task.size
    }
}

/// Adds one task. None if it stands there already. `unled` is how many wait that were queued while nobody led.
pub fn add(
    found: Option<&Task>,
    asked: &AddTasks,
    new: &NewTask,
    unled: u64,
    sight: &Sight<'_>,
) -> Result<Option<Task>, Refusal> {
    let id = new.id()?;
    new.check()?;
    let (by, fence) = match (&asked.mandate, &asked.by) {
        (Some(mandate), _) => {
            let leader = mandate.check_for(found.map_or(Epoch(0), |task| task.fence), sight)?;
            (leader.agent.clone(), mandate.token)
        }
        (None, Some(by)) => {
            check_unled(found, unled, sight)?;
            (by.clone(), Epoch(0))
        }
        (None, None) => {
            return Err(Refusal::invalid(
                "nobody is said to add the task",
                "give a mandate, or say who adds it",
            ));
        }
    };
    match found {
        Some(task) if new.is(task) => Ok(None),
        Some(_) => Err(Refusal::out_of_turn(
            format!("{} is another one", called(Kind::Task, &id)),
            "use another id or key for another task",
        )),
        None => Ok(Some(Task {
            election: sight.election.clone(),
            id,
            title: new.title.clone(),
            body: new.body.clone(),
            needs: new.needs.clone(),
            size: new.size,
            state: State::Queued,
            fence,
            orders: 0,
            by,
            added: sight.wall,
            progress: Progress::default(),
            result: None,
            reason: String::new(),
            attempts: Vec::new(),
        })),
    }
}

/// While somebody leads it decides what is on its board.
fn check_unled(found: Option<&Task>, unled: u64, sight: &Sight<'_>) -> Result<(), Refusal> {
    sight.document()?;
    if let Some(leader) = sight.leader() {
        return Err(Refusal::out_of_turn(
            format!("{} leads, and decides what is on its board", leader.agent),
            "propose it: baton proposal make",
        ));
    }
    if found.is_none() && unled >= MAX_UNLED {
        return Err(Refusal::Exhausted {
            why: format!("nobody leads, and {unled} tasks wait already; at most {MAX_UNLED} may"),
            retry_in: None,
        });
    }
    Ok(())
}
