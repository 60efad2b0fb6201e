//! The user's private folders: lease keys and what was seen (state), the operator's key (configuration).
//!
//! Everything here is readable by this user only. Agents that run as the same Unix user can read it too: see the docs.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use baton::Memory;
use baton::election::time::{Moment, Span};
use baton::election::{AgentName, ContentHash, Credential, ElectionName, Epoch};
use baton::store::boot::Boot;
use serde::{Deserialize, Serialize};

use crate::output::Failure;

/// A lease that an agent which is not a process holds, or tried to get.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeptLease {
    /// What proves to be its holder.
    pub(crate) credential: Credential,
    /// Its token; zero until it is granted.
    pub(crate) epoch: Epoch,
    /// How long it lasts after each renewal.
    pub(crate) ttl_ms: u64,
    /// When the last renewal was asked for, on the clock of `boot`.
    pub(crate) asked_at: Moment,
    /// The run of the machine.
    pub(crate) boot: String,
    /// The region under which it was granted, if under one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) region: Option<ElectionName>,
}

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

    fn lease_path(&self, kind: &str, election: &ElectionName, agent: &AgentName) -> PathBuf {
        self.folder.join(kind).join(election.as_str().replace('/', "+")).join(format!("{agent}.json"))
    }

    /// The lease of an agent.
    pub(crate) fn lease(&self, election: &ElectionName, agent: &AgentName) -> Option<KeptLease> {
        read_json(&self.lease_path("leases", election, agent))
    }

    pub(crate) fn keep_lease(
        &self,
        election: &ElectionName,
        agent: &AgentName,
        lease: &KeptLease,
    ) -> Result<(), Failure> {
        write_private(
            &self.lease_path("leases", election, agent),
            &serde_json::to_vec(lease).unwrap_or_default(),
        )
    }

    /// Keeps the key of a lease that will be asked for. False if there is one already: several calls of one agent may be at
    /// it at once, and the first of them decides on the key.
    pub(crate) fn reserve_lease(
        &self,
        election: &ElectionName,
        agent: &AgentName,
        lease: &KeptLease,
    ) -> Result<bool, Failure> {
        let path = self.lease_path("leases", election, agent);
        let draft = path.with_extension(format!("draft-{}", std::process::id()));
        write_private(&draft, &serde_json::to_vec(lease).unwrap_or_default())?;
        let linked = fs::hard_link(&draft, &path);
        let _ = fs::remove_file(&draft);
        match linked {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(cannot(&path, &error)),
        }
    }

    /// Drops a key, unless another has taken its place.
    pub(crate) fn drop_lease_of(&self, election: &ElectionName, agent: &AgentName, credential: Credential) {
        if self.lease(election, agent).is_some_and(|kept| kept.credential == credential) {
            self.drop_lease(election, agent);
        }
    }

    /// Drops what is in the place of a key and is none.
    pub(crate) fn drop_spoilt_lease(&self, election: &ElectionName, agent: &AgentName) {
        let path = self.lease_path("leases", election, agent);
        if fs::read(&path).is_ok_and(|text| serde_json::from_slice::<KeptLease>(&text).is_err()) {
            let _ = fs::remove_file(path);
        }
    }

    pub(crate) fn drop_lease(&self, election: &ElectionName, agent: &AgentName) {
        let _ = fs::remove_file(self.lease_path("leases", election, agent));
    }

    /// The credential under which an agent stands.
    pub(crate) fn candidacy(&self, election: &ElectionName, agent: &AgentName) -> Option<Credential> {
        read_json(&self.lease_path("candidacies", election, agent))
    }

    pub(crate) fn keep_candidacy(
        &self,
        election: &ElectionName,
        agent: &AgentName,
        credential: &Credential,
    ) -> Result<(), Failure> {
        let text = serde_json::to_vec(credential).unwrap_or_default();
        write_private(&self.lease_path("candidacies", election, agent), &text)
    }

    pub(crate) fn drop_candidacy(&self, election: &ElectionName, agent: &AgentName) {
        let _ = fs::remove_file(self.lease_path("candidacies", election, agent));
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

impl KeptLease {
    pub(crate) fn new(credential: Credential, epoch: Epoch, ttl: Span, asked_at: Moment) -> KeptLease {
        let boot = Boot::current().boot;
        KeptLease { credential, epoch, ttl_ms: ttl.as_millis(), asked_at, boot, region: None }
    }

    /// The same, of a lease under a region.
    pub(crate) fn under(self, region: Option<ElectionName>) -> KeptLease {
        KeptLease { region, ..self }
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
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| cannot(path, &error))
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
    let folder = path.parent().unwrap_or(Path::new("."));
    make_private_folder(folder)?;
    let temporary = folder.join(format!(".tmp-{}", std::process::id()));
    let written = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
            file.write_all(text)?;
            if durably { file.sync_data() } else { Ok(()) }
        })
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| if durably { fs::File::open(folder)?.sync_all() } else { Ok(()) });
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        cannot(path, &error)
    })
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
