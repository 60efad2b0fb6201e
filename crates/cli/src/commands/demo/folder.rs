//! The folder that a demo runs in: one of its own, so that nothing of the user's is touched.

use std::path::PathBuf;

use tokio::process::Command;

use crate::output::Failure;
use crate::state_folder::make_private_folder;

/// How the folder's name begins; the process's number follows, so that `baton doctor` can tell whether it is in use.
pub(crate) const PREFIX: &str = "baton-demo-";

/// The longest name of a folder for temporary files below which a socket's name still fits (108 bytes in all).
const MAX_PARENT_BYTES: usize = 20;

/// The folder. Removed when it is dropped.
pub(super) struct DemoFolder {
    pub(super) path: PathBuf,
    pub(super) exe: PathBuf,
}

impl DemoFolder {
    pub(super) fn make() -> Result<DemoFolder, Failure> {
        let exe = std::env::current_exe()?;
        let mut random = [0; 3];
        getrandom::fill(&mut random).map_err(std::io::Error::other)?;
        let name = format!("{PREFIX}{}-{}", std::process::id(), baton::election::hex::encode(&random));
        let path = parent().join(name);
        make_private_folder(&path)?;
        Ok(DemoFolder { path, exe })
    }

    /// The store.
    pub(super) fn store(&self) -> String {
        format!("file:{}", self.path.join("store").display())
    }

    /// This very program, with nothing of the user's Baton in its environment.
    pub(super) fn baton(&self) -> Command {
        let mut command = Command::new(&self.exe);
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"BATON_"))
        {
            command.env_remove(name);
        }
        command
            .env("BATON_STORE", self.store())
            .env("BATON_STATE_DIR", self.path.join("state"))
            .env("BATON_CONFIG_DIR", self.path.join("config"))
            .env("XDG_RUNTIME_DIR", &self.path)
            .current_dir(&self.path);
        command
    }
}

impl Drop for DemoFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Where the folders of demos are.
pub(crate) fn parent() -> PathBuf {
    let usual = std::env::temp_dir();
    if usual.as_os_str().len() <= MAX_PARENT_BYTES { usual } else { PathBuf::from("/tmp") }
}
