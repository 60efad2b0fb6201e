//! Whether a folder can hold a store, and the folders that a store makes.

use std::path::Path;

use baton_store::disk::Disk;
use baton_store::{StoreError, nearest_existing, refuse_network};

use crate::fault::{failed, refused};

/// Refuses a folder that is not on a local file system, and a path that is not a folder.
pub(crate) fn refuse_unfit(folder: &Path) -> Result<(), StoreError> {
    match nearest_existing(folder) {
        Some(existing) if !existing.is_dir() => {
            Err(refused(&existing, "it is not a folder".to_string(), "name a folder: file:DIR"))
        }
        Some(_) | None => refuse_network(folder),
    }
}

/// Refuses a folder, or the nearest one above it that exists, in which this user may make no files.
pub(crate) fn refuse_unwritable(folder: &Path) -> Result<(), StoreError> {
    let Some(existing) = nearest_existing(folder) else { return Ok(()) };
    let wanted = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    let may = rustix::fs::accessat(rustix::fs::CWD, &existing, wanted, rustix::fs::AtFlags::EACCESS);
    may.map_err(|error| failed(&existing, &error.into()))
}

/// Makes a folder below the root, and the root, durably.
///
/// If nothing was answered yet on the strength of the folder, all names on the way to it are synced, whoever made them: another
/// process may have died between the making and the sync.
pub(crate) fn create(disk: &Disk, root: &Path, folder: &Path, relied_on: bool) -> Result<(), StoreError> {
    if relied_on && folder.is_dir() {
        return Ok(());
    }
    let made = disk.make_folders(folder, 0o777).map_err(|error| failed(folder, &error))?;
    if made.iter().any(|made| made == root) {
        // A store in a work tree is not part of the work. Best effort.
        let ignore = root.join(".gitignore");
        let _ = disk.make_file(&ignore, 0o666).and_then(|file| disk.write(&file, &ignore, b"*\n"));
    }
    let above_root = |ancestor: &Path| !ancestor.starts_with(root);
    let is_parent = |ancestor: &Path| {
        root.parent() == Some(ancestor) || made.iter().any(|made| made.parent() == Some(ancestor))
    };
    let ancestors = folder.ancestors().skip(1);
    for ancestor in ancestors.filter(|ancestor| !above_root(ancestor) || is_parent(ancestor)) {
        match disk.sync_folder(ancestor) {
            Ok(()) => {}
            // Above the root, a folder that cannot be opened is not ours to sync.
            Err(_) if above_root(ancestor) => {}
            Err(error) => return Err(failed(ancestor, &error)),
        }
    }
    Ok(())
}
