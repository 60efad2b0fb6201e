//! Files that only this user can read, written in one step.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Makes a folder that only this user can use, and those above it.
pub fn make_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file in one step: a reader sees the old text or the new one. With `durably`, the new one survives a power cut.
pub fn write(path: &Path, text: &[u8], durably: bool) -> io::Result<()> {
    let draft = draft(path, text, durably)?;
    let written = fs::rename(&draft, path).and_then(|()| sync(path, durably));
    written.inspect_err(|_| drop(fs::remove_file(&draft)))
}

/// The same, unless there is such a file: then false.
pub fn write_new(path: &Path, text: &[u8]) -> io::Result<bool> {
    let draft = draft(path, text, false)?;
    let linked = fs::hard_link(&draft, path);
    let _ = fs::remove_file(&draft);
    match linked {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

fn draft(path: &Path, text: &[u8], durably: bool) -> io::Result<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new("."));
    make_folder(folder)?;
    // Several tasks and processes may write the same file at once.
    let mut name = [0; 8];
    getrandom::fill(&mut name).map_err(io::Error::other)?;
    let draft = folder.join(format!(".tmp-{:016x}", u64::from_be_bytes(name)));
    let written =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).and_then(|mut file| {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
            file.write_all(text)?;
            if durably { file.sync_data() } else { Ok(()) }
        });
    match written {
        Ok(()) => Ok(draft),
        Err(error) => {
            let _ = fs::remove_file(&draft);
            Err(error)
        }
    }
}

fn sync(path: &Path, durably: bool) -> io::Result<()> {
    if durably { fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all() } else { Ok(()) }
}
