//! What an agent tells of itself while a command of ours keeps it: what is measured, and what it writes itself.
//!
//! Guarantees that nothing waits for it: a server that is away is tried again, and a description that is none is told of and left out. Whoever
//! ends in order also ends its session, so that nobody waits for its answer.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use baton::api::describe::{Description, MAX_DESCRIPTION_BYTES};
use baton::election::{AgentName, ElectionName};
use baton::{Coordinator, Session};
use baton_warden::Usage;
use serde_json::json;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::input::open_plain;
use crate::output::{Failure, Output, clean_lines};

/// How often an agent is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long a server that is away is left alone.
const AGAIN: Duration = Duration::from_secs(2);
/// How long the end of a session may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// Where a description comes from.
pub(crate) struct DescriptionSource {
    /// The agent's own word.
    pub(crate) file: Option<PathBuf>,
    /// Whether to measure the processes below this one.
    pub(crate) measures: bool,
    /// What it can do, as it was said when it was started.
    pub(crate) capabilities: BTreeSet<String>,
    pub(crate) output: Output,
}

/// One look after the other.
struct DescriptionSampler {
    source: DescriptionSource,
    /// What was measured last, and when.
    measured: Option<(Usage, Instant)>,
    /// What the agent said last that was a description.
    said: Description,
    /// What was wrong with its file when that was last told.
    told: Option<String>,
}

impl DescriptionSource {
    /// Looks for ever.
    pub(crate) async fn keep_looking(self, tell: impl Fn(Description)) -> std::convert::Infallible {
        let mut sampler =
            DescriptionSampler { source: self, measured: None, said: Description::default(), told: None };
        loop {
            tell(sampler.look());
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl DescriptionSampler {
    fn look(&mut self) -> Description {
        if let Some(file) = self.source.file.clone() {
            self.read(&file);
        }
        let capabilities = self.source.capabilities.clone();
        let description =
            self.said.clone().or(self.measure()).or(Description { capabilities, ..Description::default() });
        match description.check() {
            Ok(()) => description,
            // What is measured may be the last straw.
            Err(_) => self.said.clone(),
        }
    }

    /// Takes in what the agent wrote. A file that is not there yet, or half written, changes nothing.
    fn read(&mut self, file: &Path) {
        let mut text = String::new();
        let most = MAX_DESCRIPTION_BYTES as u64 + 1;
        let read = open_plain(file).and_then(|file| file.take(most).read_to_string(&mut text));
        match read {
            Ok(_) if text.trim().is_empty() => {}
            Ok(_) => match Description::parse(&text) {
                Ok(said) => (self.said, self.told) = (said, None),
                Err(refusal) => self.complain(file, &refusal.to_string(), &refusal.hint()),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => self.complain(file, &error.to_string(), "write it as JSON text"),
        }
    }

    /// Once is enough.
    fn complain(&mut self, file: &Path, why: &str, hint: &str) {
        if self.told.as_deref() == Some(why) {
            return;
        }
        self.told = Some(why.to_string());
        let text = format!("the description in {} is not told: {why}", file.display());
        let output = self.source.output;
        output.talk(&clean_lines(&format!("baton: {text}\nhint: {hint}")));
        if output.json {
            output.event(&json!({"event": "undescribed", "message": text, "hint": hint}));
        }
    }

    fn measure(&mut self) -> Description {
        if !self.source.measures {
            return Description::default();
        }
        let Ok(usage) = baton_warden::of_descendants() else { return Description::default() };
        let now = Instant::now();
        let cpu_percent = self.measured.map(|(before, at)| {
            let (used, passed) = (usage.cpu.saturating_sub(before.cpu), now.duration_since(at));
            let percent = used.as_millis() * 100 / passed.as_millis().max(1);
            u32::try_from(percent).unwrap_or(u32::MAX).min(100_000)
        });
        self.measured = Some((usage, now));
        Description { cpu_percent, memory_bytes: Some(usage.memory_bytes), ..Description::default() }
    }
}

/// An agent that is looked at, and that may be known at a server. Goes on until it is ended or dropped.
pub(crate) struct DescribedAgent {
    said: watch::Receiver<Description>,
    looking: JoinHandle<()>,
    session: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Drop for DescribedAgent {
    fn drop(&mut self) {
        self.looking.abort();
        self.session.iter().for_each(|(_, task)| task.abort());
    }
}

impl DescribedAgent {
    /// Looks from here on; with a session, tells the server, and follows the election.
    pub(crate) fn begin(
        coordinator: &Coordinator,
        agent: &AgentName,
        election: &ElectionName,
        source: DescriptionSource,
        session: bool,
    ) -> Result<DescribedAgent, Failure> {
        if session && !coordinator.has_sessions() {
            return Err(Failure::usage(
                format!("{} has no sessions: nobody there is told", coordinator.backend().location()),
                "use a server: `baton serve`, and --store http://HOST:PORT",
            ));
        }
        let (teller, said) = watch::channel(Description::default());
        let looking = tokio::spawn(async move {
            source
                .keep_looking(|description| {
                    teller.send_if_modified(|known| {
                        let changed = *known != description;
                        *known = description;
                        changed
                    });
                })
                .await;
        });
        let session = session.then(|| {
            let (ends, is_over) = oneshot::channel();
            let telling = tell(coordinator.clone(), agent.clone(), election.clone(), said.clone(), is_over);
            (ends, tokio::spawn(telling))
        });
        Ok(DescribedAgent { said, looking, session })
    }

    /// What is known of the agent.
    pub(crate) fn said(&self) -> watch::Receiver<Description> {
        self.said.clone()
    }

    /// Ends the session in order: it is not waited for, and not missed.
    pub(crate) async fn end(mut self) {
        if let Some((ends, task)) = self.session.take() {
            drop(ends);
            let _ = tokio::time::timeout(FAREWELL, task).await;
        }
    }
}

/// Keeps a session until it is over.
async fn tell(
    coordinator: Coordinator,
    agent: AgentName,
    election: ElectionName,
    mut said: watch::Receiver<Description>,
    mut is_over: oneshot::Receiver<()>,
) {
    let session = loop {
        let announced = tokio::select! {
            announced = coordinator.announce(&agent) => announced,
            _ = &mut is_over => return,
        };
        if let Ok(session) = announced {
            break session;
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            _ = &mut is_over => return,
        }
    };
    tokio::select! {
        never = keep_telling(&session, &election, &mut said) => match never {},
        _ = &mut is_over => {}
    }
    let _ = session.end(false).await;
}

async fn keep_telling(
    session: &Session,
    election: &ElectionName,
    said: &mut watch::Receiver<Description>,
) -> std::convert::Infallible {
    let mut follower = None;
    loop {
        if follower.is_none() {
            follower = session.follow(election).await.ok();
        }
        let description = said.borrow_and_update().clone();
        // It was checked.
        let _ = session.describe(description);
        tokio::select! {
            // Who looks is gone when this is about to end.
            changed = said.changed() => if changed.is_err() { std::future::pending().await },
            () = tokio::time::sleep(AGAIN), if follower.is_none() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(file: &Path) -> DescriptionSampler {
        let source = DescriptionSource {
            file: Some(file.to_path_buf()),
            measures: false,
            capabilities: BTreeSet::from(["rust".to_string()]),
            output: Output { json: false },
        };
        DescriptionSampler { source, measured: None, said: Description::default(), told: None }
    }

    #[test]
    fn what_is_no_description_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("description.json");
        let mut sampler = sampler(&file);
        assert_eq!(sampler.look().capabilities.len(), 1, "what it was started with");
        std::fs::write(&file, r#"{"queue_depth": 7, "capabilities": ["sql", "go"]}"#).unwrap();
        let said = sampler.look();
        assert_eq!((said.queue_depth, said.capabilities.len()), (Some(7), 2));
        let long = format!(r#"{{"queue_depth": {}}}"#, " ".repeat(MAX_DESCRIPTION_BYTES));
        for nonsense in ["", "{\"queue_de", r#"{"queue_depth": "many"}"#, &long, "\u{1b}[31m"] {
            std::fs::write(&file, nonsense).unwrap();
            assert_eq!(sampler.look(), said, "{nonsense:?}");
        }
        std::fs::write(&file, [0xff, 0xfe]).unwrap();
        assert_eq!(sampler.look(), said);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(sampler.look(), said);
    }
}
