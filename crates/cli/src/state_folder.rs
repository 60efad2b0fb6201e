//! The user's private folders: lease keys and what was seen (state), the operator's key (configuration).
//!
//! Everything here is readable by this user only. Agents that run as the same Unix user can read it too: see the docs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use baton::caller::{LeaseKeys, NotKept};
use baton::election::{AgentName, ContentHash, Credential, ElectionName};
use baton::{Memory, private};
use serde::Deserialize;

use crate::output::Failure;

/// The folders of one store.
#[derive(Clone, Debug)]
pub(crate) struct StateFolder {
    folder: PathBuf,
}

impl StateFolder {
    /// The private folder for a store, known by where it is, whatever path leads there.
    pub(crate) fn of(location: &str) -> Result<StateFolder, Failure> {
        let real =
            location.strip_prefix("file:").map(|path| format!("file:{}", real(Path::new(path)).display()));
        let hash = ContentHash::of(real.as_deref().unwrap_or(location).as_bytes()).to_string();
        Ok(StateFolder { folder: state_root()?.join("stores").join(&hash[..16]) })
    }

    fn candidacy_path(&self, election: &ElectionName, agent: &AgentName) -> PathBuf {
        let folder = self.folder.join("candidacies").join(election.as_str().replace('/', "+"));
        folder.join(format!("{agent}.json"))
    }

    /// The lease keys of agents that are not processes.
    pub(crate) fn leases(&self) -> LeaseKeys {
        LeaseKeys::at(&self.folder.join("leases"))
    }

    /// The credential under which an agent stands.
    pub(crate) fn candidacy(&self, election: &ElectionName, agent: &AgentName) -> Option<Credential> {
        read_json(&self.candidacy_path(election, agent))
    }

    pub(crate) fn keep_candidacy(
        &self,
        election: &ElectionName,
        agent: &AgentName,
        credential: &Credential,
    ) -> Result<(), Failure> {
        let text = serde_json::to_vec(credential).unwrap_or_default();
        write_private(&self.candidacy_path(election, agent), &text)
    }

    pub(crate) fn drop_candidacy(&self, election: &ElectionName, agent: &AgentName) {
        let _ = fs::remove_file(self.candidacy_path(election, agent));
    }

    /// What was seen of this store.
    pub(crate) fn memory(&self) -> Memory {
        read_json(&self.folder.join("memory.json")).unwrap_or_else(Memory::new)
    }

    /// Best effort: a memory that cannot be kept makes the next call wait longer, not less.
    pub(crate) fn keep_memory(&self, memory: &Memory) {
        if let Ok(text) = serde_json::to_vec(memory) {
            let _ = write_private(&self.folder.join("memory.json"), &text);
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }
}

/// A path without links and detours, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    match found.map(|(above, real)| (path.strip_prefix(above), real)) {
        Some((Ok(below), real)) if below.as_os_str().is_empty() => real,
        Some((Ok(below), real)) => real.join(below),
        Some((Err(_), _)) | None => path.to_path_buf(),
    }
}

/// The root of all private state.
pub(crate) fn state_root() -> Result<PathBuf, Failure> {
    private_root("BATON_STATE_DIR", "XDG_STATE_HOME", ".local/state")
}

/// The folder of the user's configuration.
pub(crate) fn config_root() -> Result<PathBuf, Failure> {
    private_root("BATON_CONFIG_DIR", "XDG_CONFIG_HOME", ".config")
}

fn private_root(own: &str, xdg: &str, below_home: &str) -> Result<PathBuf, Failure> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = set(own) {
        return Ok(folder);
    }
    if let Some(folder) = set(xdg) {
        return Ok(folder.join("baton"));
    }
    match std::env::home_dir() {
        Some(home) if !home.as_os_str().is_empty() => Ok(home.join(below_home).join("baton")),
        Some(_) | None => Err(Failure::usage(
            "there is no home folder for private files",
            format!("set {own} to a private folder"),
        )),
    }
}

/// A folder that only this user can use, for one run of a command.
pub(crate) fn make_private_folder(path: &Path) -> Result<(), Failure> {
    private::make_folder(path).map_err(|error| cannot(path, &error))
}

pub(crate) fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Writes a file that only this user can read, in one step.
pub(crate) fn write_private(path: &Path, text: &[u8]) -> Result<(), Failure> {
    write(path, text, false)
}

/// The same, and it survives a power cut: for keys.
pub(crate) fn write_durably(path: &Path, text: &[u8]) -> Result<(), Failure> {
    write(path, text, true)
}

fn write(path: &Path, text: &[u8], durably: bool) -> Result<(), Failure> {
    private::write(path, text, durably).map_err(|error| cannot(path, &error))
}

impl From<NotKept> for Failure {
    fn from(not_kept: NotKept) -> Failure {
        cannot(&not_kept.path, &not_kept.error)
    }
}

pub(crate) fn cannot(path: &Path, error: &io::Error) -> Failure {
    let below = |root: Result<PathBuf, Failure>| root.is_ok_and(|root| path.starts_with(root));
    let hint = if below(config_root()) {
        "it holds the operator's key and must be on a disk with room that this user can write; BATON_CONFIG_DIR moves it"
    } else if below(state_root()) {
        "it holds lease keys and must be on a disk with room that this user can write; BATON_STATE_DIR moves it"
    } else {
        "it must be on a disk with room that this user can write; XDG_RUNTIME_DIR moves what belongs to a run"
    };
    let message = format!("cannot write {}: {error}", path.display());
    Failure::new(crate::exit::Exit::Error, "system", message, hint)
}
