//! The lease keys of a user's agents that are not processes, kept between their calls.
//!
//! `ELECTION/AGENT.json` is the lease that the agent holds, as far as this folder knows: any shell of this user renews and releases
//! with it. `ELECTION/AGENT@SLOT.json` is the key of one caller's request that is under way, or whose answer was lost. Each
//! caller has a slot of its own, so that none loses the key of another that was killed between asking and hearing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use baton_election::time::{Moment, Span};
use baton_election::{AgentName, Credential, ElectionName, Epoch, Margins};
use baton_store::boot::Boot;
use serde::{Deserialize, Serialize};

use super::session::CallerSession;
use crate::private;

/// A lease that an agent which is not a process holds, or tried to get.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeptLease {
    /// What proves to be its holder.
    pub credential: Credential,
    /// Its token; zero until it is granted.
    pub epoch: Epoch,
    /// How long it lasts after each renewal.
    pub ttl_ms: u64,
    /// When the last renewal was asked for, on the clock of `boot`.
    pub asked_at: Moment,
    /// The run of the machine.
    pub boot: String,
    /// The region under which it was granted, if under one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<ElectionName>,
    /// The session of the caller that asked for it; none if it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<CallerSession>,
}

impl KeptLease {
    /// A key that a caller is about to ask with.
    pub(super) fn reserved(credential: Credential, session: Option<CallerSession>) -> KeptLease {
        let (epoch, boot) = (Epoch(0), Boot::current().boot);
        KeptLease { credential, epoch, ttl_ms: 0, asked_at: Moment::default(), boot, region: None, session }
    }

    /// The same lease, as a renewal or a grant that was asked for at this moment left it.
    #[must_use]
    pub fn renewed(&self, epoch: Epoch, ttl: Span, asked_at: Moment) -> KeptLease {
        KeptLease { epoch, ttl_ms: ttl.as_millis(), asked_at, boot: Boot::current().boot, ..self.clone() }
    }

    /// When its holder must have stopped, unless it renewed since; none if this machine was started since.
    pub fn deadline(&self) -> Option<Moment> {
        let same = self.boot == Boot::current().boot;
        same.then(|| Margins::STANDARD.deadline(self.asked_at, Span::millis(self.ttl_ms)))
    }

    /// Whether a call of this session may use it as its own. A call without a session has nothing of its own.
    pub(super) fn is_of(&self, session: Option<&CallerSession>) -> bool {
        self.session.is_some() && self.session.as_ref() == session
    }

    fn slot(&self) -> String {
        match &self.session {
            Some(session) => session.slot(),
            None => self.credential.incarnation.to_string(),
        }
    }
}

/// A folder of lease keys. Only this user can read it.
#[derive(Clone, Debug)]
pub struct LeaseKeys {
    folder: PathBuf,
}

/// A file that could not be written.
#[derive(Debug)]
pub struct NotKept {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

impl LeaseKeys {
    /// The keys in this folder, which need not exist.
    pub fn at(folder: &Path) -> LeaseKeys {
        LeaseKeys { folder: folder.to_path_buf() }
    }

    /// The lease that an agent holds.
    pub fn held(&self, election: &ElectionName, agent: &AgentName) -> Option<KeptLease> {
        read(&self.path(election, agent))
    }

    /// Keeps a lease that was granted or renewed. A caller that was stopped meanwhile does not replace a later lease.
    pub fn keep(&self, election: &ElectionName, agent: &AgentName, lease: &KeptLease) -> Result<(), NotKept> {
        let path = self.path(election, agent);
        let later = read(&path).filter(|kept| {
            kept.credential.incarnation != lease.credential.incarnation && kept.epoch > lease.epoch
        });
        if later.is_none() {
            private::write(&path, &text(lease), false).map_err(|error| NotKept { path, error })?;
        }
        remove(&self.slot_path(election, agent, lease), lease.credential);
        Ok(())
    }

    /// Forgets a lease that is over, unless another has taken its place, and the request for it.
    pub fn forget(&self, election: &ElectionName, agent: &AgentName, lease: &KeptLease) {
        remove(&self.path(election, agent), lease.credential);
        remove(&self.slot_path(election, agent, lease), lease.credential);
    }

    /// Keeps the key of a request before it is sent. False if a call of the same session has one under way.
    pub(super) fn reserve(
        &self,
        election: &ElectionName,
        agent: &AgentName,
        lease: &KeptLease,
    ) -> Result<bool, NotKept> {
        let path = self.slot_path(election, agent, lease);
        if fs::read(&path).is_ok_and(|text| serde_json::from_slice::<KeptLease>(&text).is_err()) {
            // What is no key is in nobody's use.
            let _ = fs::remove_file(&path);
        }
        private::write_new(&path, &text(lease)).map_err(|error| NotKept { path, error })
    }

    /// All keys of an agent for an election, that of the lease that it holds first. It is read last: a request that is granted meanwhile
    /// has its key there before it leaves its slot.
    pub(super) fn all(&self, election: &ElectionName, agent: &AgentName) -> Vec<KeptLease> {
        let held = self.path(election, agent);
        let is_slot =
            |file: &KeyFile| file.election == *election && file.agent == *agent && file.path != held;
        let slots: Vec<KeptLease> =
            self.files().into_iter().filter(is_slot).filter_map(|file| file.lease()).collect();
        read(&held).into_iter().chain(slots).collect()
    }

    /// Every file of this folder that can hold a key.
    pub fn files(&self) -> Vec<KeyFile> {
        let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
        let mut found = Vec::new();
        for folder in entries(&self.folder) {
            let name = folder.file_name().to_str().map(|name| name.replace('+', "/"));
            let Some(election) = name.and_then(|name| ElectionName::new(&name).ok()) else { continue };
            for file in entries(&folder.path()) {
                let Some(stem) =
                    file.file_name().to_str().and_then(|name| name.strip_suffix(".json")).map(String::from)
                else {
                    continue;
                };
                let agent = stem.split_once('@').map_or(stem.as_str(), |(agent, _)| agent);
                let Ok(agent) = AgentName::new(agent) else { continue };
                found.push(KeyFile { path: file.path(), election: election.clone(), agent });
            }
        }
        found
    }

    fn path(&self, election: &ElectionName, agent: &AgentName) -> PathBuf {
        self.file(election, &agent.to_string())
    }

    fn slot_path(&self, election: &ElectionName, agent: &AgentName, lease: &KeptLease) -> PathBuf {
        self.file(election, &format!("{agent}@{}", lease.slot()))
    }

    fn file(&self, election: &ElectionName, stem: &str) -> PathBuf {
        self.folder.join(election.as_str().replace('/', "+")).join(format!("{stem}.json"))
    }
}

/// A file that can hold a key.
#[derive(Clone, Debug)]
pub struct KeyFile {
    /// Where it is.
    pub path: PathBuf,
    /// Of which election.
    pub election: ElectionName,
    /// Of which agent.
    pub agent: AgentName,
}

impl KeyFile {
    /// The key, if it is one.
    pub fn lease(&self) -> Option<KeptLease> {
        read(&self.path)
    }
}

fn text(lease: &KeptLease) -> Vec<u8> {
    serde_json::to_vec(lease).unwrap_or_default()
}

fn read(path: &Path) -> Option<KeptLease> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Removes a key, unless another is in its place.
fn remove(path: &Path, credential: Credential) {
    if read(path).is_some_and(|kept| kept.credential == credential) {
        let _ = fs::remove_file(path);
    }
}
