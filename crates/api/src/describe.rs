//! What an agent says of itself with its heartbeats: how busy it is, what it can do, what it is at, and how what it depends on fares.
//!
//! Guarantees that what passes [`Description::check`] is bounded in every respect. Does not guarantee that it is true: it is the agent's
//! own word, or was measured by whoever runs it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use baton_election::Refusal;
use baton_election::command::MAX_CAPABILITIES;
use baton_election::policy::check_capability;
use baton_election::removal_rules::check_dependency;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// The longest description, as JSON.
pub const MAX_DESCRIPTION_BYTES: usize = 4_096;
/// The most tasks of one description.
pub const MAX_CURRENT_TASKS: usize = 16;
/// The most things of one description that an agent depends on.
pub const MAX_DEPENDENCIES: usize = 32;
/// The longest name of a task in a description, in bytes.
pub const MAX_TASK_NAME_BYTES: usize = 256;
/// More than a thousand cores is no measurement.
const MAX_CPU_PERCENT: u32 = 100_000;

const SUCH_AS: &str = r#"such as {"queue_depth": 3, "tasks": [{"name": "parser", "percent": 40}], "dependencies": {"db": "ok"}}"#;

/// An agent, described. What is not known is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Description {
    /// How much of one core its processes take, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = MAX_CPU_PERCENT)))]
    pub cpu_percent: Option<u32>,
    /// How much memory its processes take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// How much waits to be done by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u64>,
    /// What it can do.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_CAPABILITIES)))]
    pub capabilities: BTreeSet<String>,
    /// What it is at.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "baton_election::objects")]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_CURRENT_TASKS)))]
    pub tasks: Vec<CurrentTask>,
    /// What it depends on, by name, and how that fares.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dependencies: BTreeMap<String, Fares>,
}

/// Something that an agent is at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CurrentTask {
    /// What, in a few words or by the id that it has on a board.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = MAX_TASK_NAME_BYTES)))]
    pub name: String,
    /// How much of it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 100)))]
    pub percent: Option<u8>,
    /// How long it will still take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_ms: Option<u64>,
}

/// How something fares that an agent depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Fares {
    /// It works.
    Ok,
    /// It works badly.
    Degraded,
    /// It does not work.
    Failing,
}

impl fmt::Display for Fares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Fares::Ok => "ok",
            Fares::Degraded => "degraded",
            Fares::Failing => "failing",
        })
    }
}

/// From an object only: as it comes from serde it could be any array, since every field may be left out.
fn of_object(object: Map<String, Value>) -> Result<Description, serde_json::Error> {
    serde_json::from_value(Value::Object(object))
}

/// Reads what a heartbeat has of it.
pub(crate) fn in_heartbeat<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Description>, D::Error> {
    let object = Option::<Map<String, Value>>::deserialize(deserializer)?;
    object.map(of_object).transpose().map_err(D::Error::custom)
}

impl Description {
    /// Reads what an agent wrote.
    pub fn parse(text: &str) -> Result<Description, Refusal> {
        check_size(text.trim().len())?;
        let read = serde_json::from_str::<Map<String, Value>>(text).and_then(of_object);
        let description =
            read.map_err(|error| Refusal::invalid(format!("this describes no agent: {error}"), SUCH_AS))?;
        description.check()?;
        Ok(description)
    }

    /// Refuses what is too much, or no measurement.
    pub fn check(&self) -> Result<(), Refusal> {
        let invalid = |what: String, hint: &str| Err(Refusal::invalid(what, hint));
        if let Some(percent) = self.cpu_percent.filter(|percent| *percent > MAX_CPU_PERCENT) {
            return invalid(
                format!("{percent} percent of a core"),
                "say how much of one core is taken: 0 to 100000",
            );
        }
        if self.capabilities.len() > MAX_CAPABILITIES {
            return invalid(
                format!("an agent claims at most {MAX_CAPABILITIES} capabilities"),
                "name the ones that matter",
            );
        }
        self.capabilities.iter().try_for_each(|capability| check_capability(capability))?;
        if self.tasks.len() > MAX_CURRENT_TASKS {
            return invalid(
                format!("an agent tells of at most {MAX_CURRENT_TASKS} tasks"),
                "name the ones that matter, and count the others in queue_depth",
            );
        }
        self.tasks.iter().try_for_each(CurrentTask::check)?;
        if self.dependencies.len() > MAX_DEPENDENCIES {
            return invalid(
                format!("an agent tells of at most {MAX_DEPENDENCIES} dependencies"),
                "name the ones without which it cannot work",
            );
        }
        self.dependencies.keys().try_for_each(|name| check_dependency(name))?;
        check_size(serde_json::to_string(self).map_or(usize::MAX, |text| text.len()))
    }

    /// What does not work of all that it depends on.
    pub fn failing(&self) -> BTreeSet<String> {
        let failing = self.dependencies.iter().filter(|(_, fares)| **fares == Fares::Failing);
        failing.map(|(name, _)| name.clone()).collect()
    }

    /// This, with what another one says that this does not.
    #[must_use]
    pub fn or(self, other: Description) -> Description {
        let Description { cpu_percent, memory_bytes, queue_depth, capabilities, tasks, dependencies } = self;
        Description {
            cpu_percent: cpu_percent.or(other.cpu_percent),
            memory_bytes: memory_bytes.or(other.memory_bytes),
            queue_depth: queue_depth.or(other.queue_depth),
            capabilities: if capabilities.is_empty() { other.capabilities } else { capabilities },
            tasks: if tasks.is_empty() { other.tasks } else { tasks },
            dependencies: if dependencies.is_empty() { other.dependencies } else { dependencies },
        }
    }
}

impl CurrentTask {
    fn check(&self) -> Result<(), Refusal> {
        if self.name.trim().is_empty() || self.name.len() > MAX_TASK_NAME_BYTES || self.name.contains('\n') {
            return Err(Refusal::invalid(
                format!("the name of a task is one line of 1 to {MAX_TASK_NAME_BYTES} bytes"),
                "say in a few words what it is",
            ));
        }
        match self.percent {
            Some(percent) if percent > 100 => {
                Err(Refusal::invalid(format!("{percent} percent of a task"), "say 0 to 100"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn check_size(bytes: usize) -> Result<(), Refusal> {
    if bytes <= MAX_DESCRIPTION_BYTES {
        return Ok(());
    }
    Err(Refusal::invalid(
        format!("a description of {bytes} bytes; at most {MAX_DESCRIPTION_BYTES} are told with a heartbeat"),
        "say it shorter; a checkpoint takes more",
    ))
}

/// From here on an agent is suspected: once in a hundred million silences of this length it is there all the same.
pub const SUSPECT: Suspicion = Suspicion::of_hundredths(800);

/// The suspicion level of an agent: φ, the negative decimal logarithm of the chance that it is only late. It decides nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suspicion(u32);

impl Suspicion {
    /// More is not told apart.
    pub const MOST: Suspicion = Suspicion::of_hundredths(10_000);

    /// Of φ in hundredths.
    pub const fn of_hundredths(hundredths: u32) -> Suspicion {
        Suspicion(if hundredths > 10_000 { 10_000 } else { hundredths })
    }

    /// Of φ; what is no number is none.
    pub fn of(phi: f64) -> Suspicion {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 10,000")]
        Suspicion((phi * 100.0).clamp(0.0, 10_000.0).round() as u32)
    }

    /// φ.
    pub fn phi(self) -> f64 {
        f64::from(self.0) / 100.0
    }

    /// In hundredths.
    pub fn hundredths(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Suspicion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}", self.0 / 100, self.0 % 100 / 10))
    }
}

impl Serialize for Suspicion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.phi())
    }
}

impl<'de> Deserialize<'de> for Suspicion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Suspicion, D::Error> {
        f64::deserialize(deserializer).map(Suspicion::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_writes_is_read() {
        let text = r#"{"cpu_percent": 180, "memory_bytes": 1024, "queue_depth": 3, "capabilities": ["rust"],
            "tasks": [{"name": "parser", "percent": 40, "estimate_ms": 60000}],
            "dependencies": {"db": "ok", "model": "failing", "queue": "degraded"}}"#;
        let read = Description::parse(text).unwrap();
        assert_eq!((read.cpu_percent, read.tasks[0].percent), (Some(180), Some(40)));
        assert_eq!(read.failing(), BTreeSet::from(["model".to_string()]));
        let again = serde_json::to_string(&read).unwrap();
        assert_eq!(Description::parse(&again).unwrap(), read);
        assert_eq!(Description::parse("{}").unwrap(), Description::default());
    }

    #[test]
    fn nonsense_is_refused_with_a_hint() {
        let long = "x".repeat(MAX_TASK_NAME_BYTES + 1);
        let many: Vec<String> = (0..=MAX_CURRENT_TASKS).map(|n| format!(r#"{{"name": "t{n}"}}"#)).collect();
        let deps: Vec<String> = (0..=MAX_DEPENDENCIES).map(|n| format!(r#""d{n}": "ok""#)).collect();
        let full: Vec<String> =
            (0..MAX_CURRENT_TASKS).map(|_| format!(r#"{{"name": "{}"}}"#, &long[1..])).collect();
        for text in [
            "",
            "[1]",
            "null",
            r#"{"cpu": 4}"#,
            r#"{"cpu_percent": 100001}"#,
            r#"{"cpu_percent": -1}"#,
            r#"{"cpu_percent": 1.5}"#,
            r#"{"capabilities": ["a b"]}"#,
            r#"{"tasks": [{"name": ""}]}"#,
            r#"{"tasks": [["t"]]}"#,
            r#"{"tasks": [["t", 40, 60000]]}"#,
            r#"{"tasks": [{"name": "two\nlines"}]}"#,
            r#"{"tasks": [{"name": "t", "percent": 101}]}"#,
            r#"{"dependencies": {"db": "fine"}}"#,
            r#"{"dependencies": {"a b": "ok"}}"#,
            r#"{"dependencies": {"": "ok"}}"#,
            &format!(r#"{{"tasks": [{{"name": "{long}"}}]}}"#),
            &format!(r#"{{"tasks": [{}]}}"#, many.join(",")),
            &format!(r#"{{"dependencies": {{{}}}}}"#, deps.join(",")),
            &format!(r#"{{"tasks": [{}]}}"#, full.join(",")),
        ] {
            let refused = Description::parse(text).unwrap_err();
            assert!(
                matches!(&refused, Refusal::Invalid { hint, .. } if !hint.is_empty()),
                "{text}: {refused}"
            );
        }
    }

    #[test]
    fn what_is_said_stands_before_what_is_measured() {
        let said = Description { queue_depth: Some(4), cpu_percent: Some(1), ..Description::default() };
        let measured = Description { cpu_percent: Some(90), memory_bytes: Some(7), ..Description::default() };
        let both = said.or(measured);
        assert_eq!((both.cpu_percent, both.memory_bytes, both.queue_depth), (Some(1), Some(7), Some(4)));
    }

    #[test]
    fn a_suspicion_is_a_bounded_number() {
        assert_eq!(serde_json::to_string(&Suspicion::of(1.234)).unwrap(), "1.23");
        assert_eq!(serde_json::from_str::<Suspicion>("8").unwrap(), SUSPECT);
        assert_eq!(Suspicion::of(f64::INFINITY), Suspicion::MOST);
        assert_eq!(
            (Suspicion::of(f64::NAN), Suspicion::of(-3.0)),
            (Suspicion::default(), Suspicion::default())
        );
        assert_eq!(Suspicion::of(12.34).to_string(), "12.3");
    }
}
