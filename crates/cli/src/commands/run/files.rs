//! The files through which `baton run` and CMD talk.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use baton::election::document::Checkpoint;
use baton::election::{Credential, Epoch};
use baton_warden::SecretFile;
use serde_json::json;

use crate::output::Failure;
use crate::state_folder::write_private;
use crate::warden_process::RunFolder;

/// Where they are.
pub(super) struct Files {
    pub(super) mode: PathBuf,
    pub(super) token: PathBuf,
    pub(super) lease: PathBuf,
    pub(super) key: PathBuf,
    pub(super) checkpoint: PathBuf,
    pub(super) judged: PathBuf,
    pub(super) progress: PathBuf,
    pub(super) handover: PathBuf,
}

impl Files {
    pub(super) fn make(folder: &RunFolder) -> Files {
        Files {
            mode: folder.file("mode"),
            token: folder.file("token"),
            lease: folder.file("lease.json"),
            key: folder.file("key"),
            checkpoint: folder.file("checkpoint"),
            judged: folder.file("checkpoint-judged"),
            progress: folder.file("progress"),
            handover: folder.file("handover.json"),
        }
    }

    /// What only a leader has: for the warden to write, which knows until when.
    pub(super) fn papers(&self, token: Epoch, credential: Credential) -> Vec<SecretFile> {
        let paper = |path: &Path, text: String| SecretFile { path: path.to_path_buf(), text };
        vec![paper(&self.key, format!("{credential}\n")), paper(&self.token, format!("{token}\n"))]
    }

    /// What the predecessor left; an empty object if nothing.
    pub(super) fn write_handover(&self, inherited: Option<&Checkpoint>) -> Result<(), Failure> {
        let data = inherited.map_or_else(|| json!({}), |checkpoint| json!(checkpoint));
        write_private(&self.handover, format!("{data:#}\n").as_bytes())
    }
}

/// When a file was last touched, empty or not.
pub(super) fn touched(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}
