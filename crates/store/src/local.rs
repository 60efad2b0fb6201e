//! What the stores on a disk of this machine share: what they are opened for, and which file systems they may be on.

use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// What a store is opened for. A reader writes nothing and creates nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To look.
    Read,
    /// To take part.
    Write,
}

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

/// Refuses a path on a file system that is not known to be local, for stores that one machine only may write.
pub fn refuse_network(path: &Path) -> Result<(), StoreError> {
    let Some(existing) = nearest_existing(path) else { return Ok(()) };
    let kind = rustix::fs::statfs(&existing).map_err(|error| StoreError::Unavailable {
        location: existing.display().to_string(),
        why: std::io::Error::from(error).to_string(),
        hint: "see what the file system says".to_string(),
    })?;
    let kind = i128::from(kind.f_type);
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
    Err(StoreError::Refused {
        place: path.display().to_string(),
        why,
        hint: "use a folder on a local disk, or git:DIR?remote=R to elect among machines".to_string(),
    })
}

/// The name of a file system in a list, by its magic number: 32 bits, which some platforms extend by the sign.
fn named(list: &[(&'static str, u64)], kind: i128) -> Option<&'static str> {
    list.iter().find(|(_, magic)| kind & 0xFFFF_FFFF == i128::from(*magic)).map(|(name, _)| *name)
}

/// The path itself if it exists, or else the nearest folder above it that does.
pub fn nearest_existing(path: &Path) -> Option<PathBuf> {
    path.ancestors().find(|ancestor| ancestor.exists()).map(Path::to_path_buf)
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
