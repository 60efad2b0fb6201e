//! Whether a folder can hold a store, and what to say when it cannot.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::error::StoreError;

/// File systems that one machine alone writes, and whose `link(2)` is atomic: name and magic number.
///
/// A list of those that are fit, not of those that are unfit: on a shared file system that nobody thought of, two machines
/// would lead at once, and nobody would see why.
const LOCAL: [(&str, u64); 19] = [
    ("ext2, ext3, ext4", 0xEF53),
    ("xfs", 0x5846_5342),
    ("btrfs", 0x9123_683E),
    ("tmpfs", 0x0102_1994),
    ("ramfs", 0x8584_58F6),
    ("zfs", 0x2FC1_2FC1),
    ("overlay", 0x794C_7630),
    ("f2fs", 0xF2F5_2010),
    ("bcachefs", 0xCA45_1A4E),
    ("jfs", 0x3153_464A),
    ("reiserfs", 0x5265_4973),
    ("nilfs2", 0x3434),
    ("ubifs", 0x2405_1905),
    ("jffs2", 0x72B6),
    ("ntfs3", 0x7366_746E),
    ("hfs+", 0x482B),
    ("ufs", 0x0001_1954),
    ("ecryptfs", 0xF15F),
    ("aufs", 0x6175_6673),
];

/// File systems that are known to be shared, for the message.
const SHARED: [(&str, u64); 24] = [
    ("NFS", 0x6969),
    ("SMB", 0x517B),
    ("CIFS", 0xFF53_4D42),
    ("SMB2", 0xFE53_4D42),
    ("9p", 0x0102_1997),
    ("FUSE or virtiofs", 0x6573_5546),
    ("AFS", 0x5346_414F),
    ("kAFS", 0x6B41_4653),
    ("Coda", 0x7375_7245),
    ("Ceph", 0x00C3_6400),
    ("GFS2", 0x0116_1970),
    ("GPFS", 0x4750_4653),
    ("BeeGFS", 0x1983_0326),
    ("PanFS", 0xAAD7_AAEA),
    ("StorNext", 0xBEEF_DEAD),
    ("ACFS", 0x6163_6673),
    ("IBRIX", 0x0131_11A8),
    ("OrangeFS", 0x2003_0528),
    ("OCFS2", 0x7461_636F),
    ("Lustre", 0x0BD0_0BD0),
    ("NCP", 0x564C),
    ("VirtualBox shared folders", 0x786F_4256),
    ("VMware shared folders", 0xBACB_ACBC),
    ("Parallels shared folders", 0x7C7C_6673),
];

/// Refuses a folder that is not on a local file system, and a path that is not a folder.
pub(super) fn refuse_unfit(folder: &Path) -> Result<(), StoreError> {
    match nearest_existing(folder) {
        Some(existing) if !existing.is_dir() => {
            Err(refused(&existing, "it is not a folder".to_string(), "name a folder: file:DIR"))
        }
        Some(_) | None => refuse_network(folder),
    }
}

/// Refuses a path on a file system that is not known to be local, for stores that one machine only may write.
pub fn refuse_network(path: &Path) -> Result<(), StoreError> {
    let Some(existing) = nearest_existing(path) else { return Ok(()) };
    let kind = rustix::fs::statfs(&existing).map_err(|error| io_error(&existing, &error.into()))?.f_type;
    let kind = i128::from(kind);
    let why = match (named(&LOCAL, kind), named(&SHARED, kind)) {
        (Some(_), _) => return Ok(()),
        (None, Some(name)) => {
            format!("it is on a network file system ({name}), where another machine may write too")
        }
        (None, None) => {
            let kind = kind & 0xFFFF_FFFF;
            format!("its file system (0x{kind:X}) is not known to belong to one machine alone")
        }
    };
    Err(refused(path, why, "use a folder on a local disk, or git:DIR?remote=R to elect among machines"))
}

/// The name of a file system in a list, by its magic number: 32 bits, which some platforms extend by the sign.
fn named(list: &[(&'static str, u64)], kind: i128) -> Option<&'static str> {
    list.iter().find(|(_, magic)| kind & 0xFFFF_FFFF == i128::from(*magic)).map(|(name, _)| *name)
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
            "let all agents run as one user, or share the folder DIR of the store among a group: chgrp -R GROUP DIR; \
             chmod -R g+rwX DIR; find DIR -type d -exec chmod g+s {} +",
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

/// Refuses a folder, or the nearest one above it that exists, in which this user may make no files.
pub(super) fn refuse_unwritable(folder: &Path) -> Result<(), StoreError> {
    let Some(existing) = nearest_existing(folder) else { return Ok(()) };
    let wanted = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    let may = rustix::fs::accessat(rustix::fs::CWD, &existing, wanted, rustix::fs::AtFlags::EACCESS);
    may.map_err(|error| io_error(&existing, &error.into()))
}

/// Makes a folder below the root, and the root, durably.
///
/// If nothing was answered yet on the strength of the folder, all names on the way to it are synced, whoever made them: another
/// process may have died between the making and the sync.
pub(super) fn create(disk: &Disk, root: &Path, folder: &Path, relied_on: bool) -> Result<(), StoreError> {
    if relied_on && folder.is_dir() {
        return Ok(());
    }
    let made = disk.make_folders(folder, 0o777).map_err(|error| io_error(folder, &error))?;
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
            Err(error) => return Err(io_error(ancestor, &error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_local_or_refused() {
        for (name, magic) in SHARED {
            let magic = u32::try_from(magic).unwrap();
            assert_eq!(named(&SHARED, magic.into()), Some(name));
            assert_eq!(named(&SHARED, magic.cast_signed().into()), Some(name), "extended by the sign");
            assert_eq!(named(&LOCAL, magic.into()), None, "{name} is not local");
        }
        for (name, magic) in LOCAL {
            let magic = u32::try_from(magic).unwrap();
            assert_eq!(named(&LOCAL, magic.cast_signed().into()), Some(name));
        }
        let unknown = 0x1234_5678;
        assert_eq!((named(&LOCAL, unknown), named(&SHARED, unknown)), (None, None));
        // A file system that nobody listed, and that every Linux has.
        let error = refuse_network(Path::new("/proc")).unwrap_err();
        assert!(error.to_string().contains("0x9FA0"), "{error}");
        assert!(error.hint().contains("git:DIR?remote=R"), "{}", error.hint());
    }
}
