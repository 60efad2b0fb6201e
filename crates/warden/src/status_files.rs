//! The files by which CMD knows whether it leads.
//!
//! Assumes that nobody but the warden writes them while it lives, and that CMD reads the mode before the secret files.
//! Guarantees that each file changes in one step, that the secret files are in place before the mode says
//! `leading`, and that the mode says `read-only` before they are taken away. Does not guarantee that CMD looks.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

const LEADING: &str = "leading\n";
const READ_ONLY: &str = "read-only\n";

/// What CMD is shown of its leadership.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusFiles {
    /// The file that says `leading` or `read-only`.
    pub mode: PathBuf,
    /// What only a leader has. Empty files while CMD does not lead.
    pub secrets: Vec<SecretFile>,
    /// CMD is not ended with its lease, but goes on as `read-only`.
    pub outlives_lease: bool,
}

/// A file and what is in it while CMD leads. It may be a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretFile {
    /// The file that CMD reads.
    pub path: PathBuf,
    /// Its content while CMD leads; otherwise the file is empty.
    pub text: String,
}

impl fmt::Debug for SecretFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretFile({}, …)", self.path.display())
    }
}

impl StatusFiles {
    /// CMD leads.
    pub(crate) fn show_leading(&self) -> io::Result<()> {
        self.show_secrets()?;
        replace(&self.mode, LEADING)
    }

    /// CMD leads already, with other secret files.
    pub(crate) fn show_secrets(&self) -> io::Result<()> {
        self.secrets.iter().try_for_each(|paper| replace(&paper.path, &paper.text))
    }

    /// CMD does not lead.
    pub(crate) fn show_read_only(&self) -> io::Result<()> {
        replace(&self.mode, READ_ONLY)?;
        self.secrets.iter().try_for_each(|paper| replace(&paper.path, ""))
    }
}

/// Replaces a file in one step. It need not survive a power cut: nobody who reads it does.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut next = path.as_os_str().to_owned();
    next.push(".next");
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&next)
        .and_then(|mut file| file.write_all(text.as_bytes()))?;
    fs::rename(&next, path)
}

#[cfg(test)]
mod tests {
    use super::{SecretFile, StatusFiles};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn status_files(folder: &Path, text: &str) -> StatusFiles {
        let paper = SecretFile { path: folder.join("paper"), text: text.to_owned() };
        StatusFiles { mode: folder.join("mode"), secrets: vec![paper], outlives_lease: true }
    }

    #[test]
    fn a_sign_is_changed_whole_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let shown = || (read("mode"), read("paper"));
        let first = status_files(folder.path(), "1");
        first.show_leading().unwrap();
        assert_eq!(shown(), ("leading\n".into(), "1".into()));
        status_files(folder.path(), "2").show_secrets().unwrap();
        assert_eq!(shown(), ("leading\n".into(), "2".into()));
        first.show_read_only().unwrap();
        assert_eq!(shown(), ("read-only\n".into(), String::new()));
        let mut names = Vec::new();
        for entry in fs::read_dir(folder.path()).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{entry:?}");
            names.push(entry.file_name());
        }
        names.sort();
        assert_eq!(names, ["mode", "paper"], "nothing else is left");
    }

    #[test]
    fn papers_that_cannot_be_written_are_not_led_with() {
        let folder = tempfile::tempdir().unwrap();
        let mut status_files = status_files(folder.path(), "1");
        status_files.secrets[0].path = folder.path().join("missing/paper");
        assert!(status_files.show_leading().is_err());
        assert!(!status_files.mode.exists(), "it says that it leads, and its paper is not there");
    }

    #[test]
    fn papers_are_not_printed() {
        assert!(!format!("{:?}", status_files(Path::new("/"), "hunter2")).contains("hunter2"));
    }
}
