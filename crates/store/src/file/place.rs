//! Whether a folder can hold a store, and what to say when it cannot.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// File systems on which another machine may write, or whose `link(2)` is not ours to trust: name and magic number.
const REFUSED_FILE_SYSTEMS: [(&str, u64); 14] = [
    ("NFS", 0x6969),
    ("SMB", 0x517B),
    ("CIFS", 0xFF53_4D42),
    ("SMB2", 0xFE53_4D42),
    ("9p", 0x0102_1997),
    ("FUSE or virtiofs", 0x6573_5546),
    ("AFS", 0x5346_414F),
    ("Coda", 0x7375_7245),
    ("Ceph", 0x00C3_6400),
    ("GFS2", 0x0116_1970),
    ("OCFS2", 0x7461_636F),
    ("Lustre", 0x0BD0_0BD0),
    ("NCP", 0x564C),
    ("VirtualBox shared folders", 0x786F_4256),
];

/// Refuses a folder on a network file system, and a path that is not a folder.
pub(super) fn refuse_unfit(folder: &Path) -> Result<(), StoreError> {
    match nearest_existing(folder) {
        Some(existing) if !existing.is_dir() => {
            Err(refused(&existing, "it is not a folder".to_string(), "name a folder: file:DIR"))
        }
        Some(_) | None => refuse_network(folder),
    }
}

/// Refuses a path on a network file system, for stores that one machine only may write.
pub fn refuse_network(path: &Path) -> Result<(), StoreError> {
    let Some(existing) = nearest_existing(path) else { return Ok(()) };
    let kind = rustix::fs::statfs(&existing).map_err(|error| io_error(&existing, &error.into()))?.f_type;
    match network(kind.into()) {
        None => Ok(()),
        Some(name) => Err(refused(
            path,
            format!("it is on a network file system ({name}), where another machine may write too"),
            "use a local folder, or git:DIR?remote=R to elect among machines",
        )),
    }
}

/// The name of a file system that is refused, by its magic number: 32 bits, which some platforms extend by the sign.
fn network(kind: i128) -> Option<&'static str> {
    REFUSED_FILE_SYSTEMS
        .iter()
        .find(|(_, magic)| kind & 0xFFFF_FFFF == i128::from(*magic))
        .map(|(name, _)| *name)
}

fn nearest_existing(path: &Path) -> Option<PathBuf> {
    path.ancestors().find(|ancestor| ancestor.exists()).map(Path::to_path_buf)
}

fn refused(place: &Path, why: String, hint: &str) -> StoreError {
    StoreError::Refused { place: place.display().to_string(), why, hint: hint.to_string() }
}

/// What an error of the file system means: nothing was applied.
pub(super) fn io_error(path: &Path, error: &io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => refused(
            path,
            "this user may not use it".to_string(),
            "let all agents run as one user, or give their group the folder: chmod -R g+rwX",
        ),
        io::ErrorKind::ReadOnlyFilesystem => {
            refused(path, "the file system is read-only".to_string(), "use a folder that can be written")
        }
        io::ErrorKind::NotADirectory => {
            refused(path, "a part of the path is not a folder".to_string(), "name a folder: file:DIR")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Unavailable {
            location: path.display().to_string(),
            why: "the disk is full".to_string(),
            hint:
                "make room; nothing was lost or overwritten, and the running leases run out as if unreachable"
                    .to_string(),
        },
        _ => StoreError::Unavailable {
            location: path.display().to_string(),
            why: error.to_string(),
            hint: "see what the file system says".to_string(),
        },
    }
}

/// Makes a folder below the root, and the root, durably.
pub(super) fn create(root: &Path, folder: &Path) -> Result<(), StoreError> {
    if folder.is_dir() {
        return Ok(());
    }
    let first_missing = folder.ancestors().take_while(|ancestor| !ancestor.exists()).last();
    fs::create_dir_all(folder).map_err(|error| io_error(folder, &error))?;
    if first_missing.is_some_and(|missing| root.starts_with(missing)) {
        // A store in a work tree is not part of the work. Best effort.
        let _ = fs::write(root.join(".gitignore"), "*\n");
    }
    let Some(top) = first_missing.and_then(Path::parent) else { return Ok(()) };
    let made = folder.ancestors().skip(1).take_while(|ancestor| *ancestor != top);
    for ancestor in made.chain([top]) {
        match sync_folder(ancestor) {
            Ok(()) => {}
            // Above the root, a folder that cannot be opened is not ours to sync.
            Err(_) if !ancestor.starts_with(root) => {}
            Err(error) => return Err(io_error(ancestor, &error)),
        }
    }
    Ok(())
}

/// Makes the names in a folder survive a power cut.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_and_local_ones_are_not() {
        for (name, magic) in REFUSED_FILE_SYSTEMS {
            let magic = u32::try_from(magic).unwrap();
            assert_eq!(network(magic.into()), Some(name));
            assert_eq!(network(magic.cast_signed().into()), Some(name), "extended by the sign");
        }
        let local = [("ext4", 0xEF53), ("xfs", 0x5846_5342), ("btrfs", 0x9123_683E), ("tmpfs", 0x0102_1994)];
        for (name, magic) in local.into_iter().chain([("zfs", 0x2FC1_2FC1), ("overlay", 0x794C_7630)]) {
            assert_eq!(network(magic), None, "{name}");
        }
    }
}
