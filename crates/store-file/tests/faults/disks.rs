//! Disks that are full, that fail to sync, that are read-only; folders without permission.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use baton_store::{Access, AgeStamp, Expect, Persistence, Prefix, Store, StoreError};
use baton_store_file::FileStore;

use crate::support::{
    candidate, candidate_key, child_without_rights, found, key, led, put, read, role, succeeds, tree, writer,
};

/// A file system of our own, gone at the end.
struct Mount {
    folder: PathBuf,
    /// What the file system is on, and the folder of the mount point.
    _below: Box<dyn std::any::Any>,
}

impl Drop for Mount {
    fn drop(&mut self) {
        // The store may still have a file open.
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}

impl Mount {
    /// None where this user may not mount. In continuous integration nothing is skipped.
    fn try_new(below: impl std::any::Any, folder: &Path, arguments: &[&str]) -> Option<Mount> {
        fs::create_dir_all(folder).unwrap();
        let done = Command::new("mount").args(arguments).arg(folder).output();
        if let Ok(output) = &done
            && output.status.success()
        {
            return Some(Mount { folder: folder.to_path_buf(), _below: Box::new(below) });
        }
        assert!(std::env::var("CI").as_deref() != Ok("true"), "mount {arguments:?}: {done:?}");
        let _ = writeln!(io::stderr(), "SKIPPED: this user may not mount {arguments:?}");
        None
    }

    fn tmpfs(size: &str) -> Option<Mount> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let options = format!("size={size}");
        Mount::try_new(folder, &path, &["-t", "tmpfs", "-o", &options, "none"])
    }

    /// A disk on a file that grows as it is written, on another disk.
    fn ext4_on(disk: Mount, megabytes: u64) -> Option<Mount> {
        let image = disk.folder.join("image");
        fs::File::create(&image).unwrap().set_len(megabytes << 20).unwrap();
        let made = Command::new("mkfs.ext4").args(["-q", "-F", "-O", "^has_journal"]).arg(&image).output();
        assert!(made.is_ok_and(|made| made.status.success()), "mkfs.ext4");
        let path = disk.folder.join("inner");
        Mount::try_new(disk, &path, &["-o", "loop", image.to_str().unwrap()])
    }
}

/// Waits until this process has a nameless file with blocks below a folder: what a leader keeps for its hand-over.
async fn lies_ready(folder: &Path) {
    let is_ready = |link: fs::DirEntry| {
        let nameless = fs::read_link(link.path())
            .is_ok_and(|to| to.starts_with(folder) && to.to_string_lossy().ends_with(" (deleted)"));
        nameless && fs::metadata(link.path()).is_ok_and(|file| file.len() > 0)
    };
    let ready = || fs::read_dir("/proc/self/fd").unwrap().flatten().any(is_ready);
    let began = std::time::Instant::now();
    while !ready() {
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "nothing lies ready");
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

/// Writes until nothing more fits.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
    let full = loop {
        if let Err(error) = file.write_all(&[7; 1_024]) {
            break error;
        }
    };
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
}

fn is_full(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable { why, hint, .. }
        if why.contains("disk is full") && hint.contains("nothing was lost"))
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_serves_again_once_there_is_room() {
    let Some(disk) = Mount::tmpfs("512k") else { return };
    let folder = disk.folder.join("store");
    let store = writer(&folder);
    put(&store, &key(), &led(1)).await;
    lies_ready(&folder).await;
    put(&store, &key(), &led(2)).await;
    lies_ready(&folder).await;
    fill(&disk.folder.join("filler"));
    let before = tree(&folder);
    for store in [&writer(&folder), &writer(&folder)] {
        let expect = read(store, &key()).await.expect();
        let error =
            store.swap(&key(), expect, &led(3), AgeStamp::Reset, Persistence::Durable).await.unwrap_err();
        assert!(is_full(&error), "{error:?}");
        let error = store
            .swap(&candidate_key(), Expect::Absent, &candidate(1), AgeStamp::Reset, Persistence::Durable)
            .await;
        assert!(is_full(error.as_ref().unwrap_err()), "{error:?}");
        assert_eq!(found(store, &key()).await.0, led(2), "reading goes on");
    }
    let left = tree(&folder);
    let files = |tree: &std::collections::BTreeMap<PathBuf, (bool, std::time::SystemTime, Vec<u8>)>| {
        tree.iter()
            .filter(|(_, (is_folder, ..))| !is_folder)
            .map(|(p, (_, _, c))| (p.clone(), c.clone()))
            .collect()
    };
    let (files_before, files_left): (Vec<_>, Vec<_>) = (files(&before), files(&left));
    assert_eq!(files_left, files_before, "no file was changed, none was left behind");
    // Whoever leads has what it needs to hand over.
    put(&store, &key(), &led(3)).await;
    assert_eq!(found(&writer(&folder), &key()).await.0, led(3));
    fs::remove_file(disk.folder.join("filler")).unwrap();
    put(&store, &key(), &led(4)).await;
    put(&store, &candidate_key(), &candidate(1)).await;
    assert_eq!(found(&writer(&folder), &key()).await.0, led(4));
}

#[tokio::test]
async fn what_cannot_be_synced_is_not_committed() {
    let Some(disk) = Mount::tmpfs("6m") else { return };
    let filler = disk.folder.join("filler");
    let Some(inner) = Mount::ext4_on(disk, 64) else { return };
    let folder = inner.folder.join("store");
    let store = writer(&folder);
    put(&store, &key(), &led(1)).await;
    fill(&filler);
    // The upper file system has room and takes the data; what it is on has none when it is told to sync.
    let mut last = 1;
    let error = loop {
        let expect = read(&store, &key()).await.expect();
        match store.swap(&key(), expect, &led(last + 1), AgeStamp::Reset, Persistence::Durable).await {
            Ok(_) => last += 1,
            Err(error) => break error,
        }
        assert!(last < 200, "the sync does not fail");
    };
    match &error {
        StoreError::Unavailable { .. } => assert_eq!(found(&store, &key()).await.0, led(last)),
        // The version was synced, and the folder was not.
        StoreError::Unknown { .. } => assert_eq!(found(&store, &key()).await.0, led(last + 1)),
        other => panic!("{other:?}"),
    }
    fs::remove_file(&filler).unwrap();
    put(&store, &key(), &led(250)).await;
    assert_eq!(found(&writer(&folder), &key()).await.0, led(250), "with room it goes on");
}

#[tokio::test]
async fn a_read_only_disk_is_refused_for_writing_and_serves_readers() {
    let Some(disk) = Mount::tmpfs("512k") else { return };
    let folder = disk.folder.join("store");
    put(&writer(&folder), &key(), &led(1)).await;
    let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(&disk.folder).status().unwrap();
    assert!(remounted.success());
    let store = writer(&folder);
    let (record, version) = found(&store, &key()).await;
    assert_eq!(record, led(1));
    let error = store
        .swap(&key(), Expect::Version(version), &led(2), AgeStamp::Reset, Persistence::Durable)
        .await
        .unwrap_err();
    assert!(matches!(&error, StoreError::Refused { why, .. } if why.contains("read-only")), "{error:?}");
    let error = store.writable(&key()).await.unwrap_err();
    assert!(matches!(&error, StoreError::Refused { why, .. } if why.contains("read-only")), "{error:?}");
}

/// In a process of a user without rights: root may do anything.
#[tokio::test]
async fn a_folder_without_permission_is_refused() {
    const NAME: &str = "faults::disks::a_folder_without_permission_is_refused";
    if let Some(folder) = role() {
        return without_permission(Path::new(&folder)).await;
    }
    let public = crate::support::public_folder();
    let folder = public.path().join("stores");
    for name in ["closed", "fixed"] {
        put(&writer(&folder.join(name)), &key(), &led(1)).await;
    }
    let set = |name: &str, mode| {
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    for (name, mode) in [("closed", 0o000), ("fixed/e/versions", 0o555), ("fixed/e", 0o555), ("fixed", 0o555)]
    {
        set(name, mode);
    }
    let before = tree(&folder.join("fixed"));
    succeeds(child_without_rights(public.path(), NAME, folder.to_str().unwrap()));
    assert_eq!(tree(&folder.join("fixed")), before);
    for name in ["closed", "fixed", "fixed/e", "fixed/e/versions"] {
        set(name, 0o755);
    }
    assert_eq!(found(&writer(&folder.join("closed")), &key()).await.0, led(1));
}

async fn without_permission(folder: &Path) {
    let refused = |error: &StoreError| matches!(error, StoreError::Refused { why, hint, .. } if why.contains("may not use it") && hint.contains("chmod"));
    for access in [Access::Read, Access::Write] {
        let closed = FileStore::open(&folder.join("closed"), access).unwrap();
        let error = closed.read(&key()).await.unwrap_err();
        assert!(refused(&error), "{error:?}");
        let error = closed.list(&Prefix::Elections).await.unwrap_err();
        assert!(refused(&error), "{error:?}");
    }
    let closed = writer(&folder.join("closed"));
    let error = closed
        .swap(&key(), Expect::Absent, &led(2), AgeStamp::Reset, Persistence::Durable)
        .await
        .unwrap_err();
    assert!(refused(&error), "{error:?}");
    let fixed = writer(&folder.join("fixed"));
    let (record, version) = found(&fixed, &key()).await;
    assert_eq!(record, led(1), "what may be read is read");
    let error = fixed
        .swap(&key(), Expect::Version(version), &led(2), AgeStamp::Reset, Persistence::Durable)
        .await
        .unwrap_err();
    assert!(refused(&error), "{error:?}");
    let error = fixed.writable(&key()).await.unwrap_err();
    assert!(refused(&error), "{error:?}");
    let error = fixed
        .swap(&candidate_key(), Expect::Absent, &candidate(1), AgeStamp::Reset, Persistence::Durable)
        .await;
    assert!(refused(error.as_ref().unwrap_err()), "{error:?}");
}

/// Whether this user, with this umask, can take part in what another user wrote.
async fn takes_part(folder: &Path, number: u8) {
    let store = writer(folder);
    store.writable(&key()).await.unwrap();
    put(&store, &key(), &led(number)).await;
    put(&store, &candidate_key(), &candidate(u64::from(number))).await;
    let other = baton_store::conformance::documents::key(&format!("of-{number}"));
    put_new(&store, &other).await;
}

async fn put_new(store: &FileStore, key: &baton_store::Key) {
    let name = key.to_string();
    let document = baton_store::conformance::documents::led(&name, None, "agent");
    let next = baton_store::Record::Election(Box::new(document));
    store.swap(key, Expect::Absent, &next, AgeStamp::Reset, Persistence::Durable).await.unwrap();
    crate::support::settle(store);
}

/// Two users in turn, in a folder that is setgid and that their group may write, with the strictest umask. Nobody runs chmod again.
#[tokio::test]
async fn two_users_of_one_group_share_a_folder_whatever_their_umask() {
    const NAME: &str = "faults::disks::two_users_of_one_group_share_a_folder_whatever_their_umask";
    if let Some(role) = role() {
        let (number, folder) = role.split_once(' ').unwrap();
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        return takes_part(Path::new(folder), number.parse().unwrap()).await;
    }
    if !rustix::process::geteuid().is_root() {
        let ci = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(!ci, "CI skips nothing: this user cannot act as two others");
        let _ = writeln!(io::stderr(), "SKIPPED: this user cannot act as two others");
        return;
    }
    let public = crate::support::public_folder();
    let folder = public.path().join("store");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, None, Some(65_533)).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o2770)).unwrap();
    for (turn, user) in ["65531", "65532", "65531", "65532"].into_iter().enumerate() {
        let role = format!("{} {}", turn + 1, folder.display());
        succeeds(crate::support::child_as(public.path(), NAME, &role, user));
    }
    let unshared: Vec<PathBuf> = tree(&folder)
        .into_keys()
        .filter(|path| {
            let mode = fs::metadata(path).unwrap().permissions().mode();
            mode & 0o007 != 0 || mode & 0o060 != 0o060 || path.is_dir() && mode & 0o2010 != 0o2010
        })
        .collect();
    assert_eq!(unshared, Vec::<PathBuf>::new(), "all is the group's, and nobody else's");
}

#[tokio::test]
async fn who_will_not_be_able_to_write_learns_it_beforehand() {
    let Some(disk) = Mount::tmpfs("512k") else { return };
    let folder = disk.folder.join("store");
    let store = writer(&folder);
    store.writable(&key()).await.unwrap();
    assert!(!folder.exists(), "to try makes nothing");
    put(&store, &key(), &led(1)).await;
    let before: Vec<PathBuf> = tree(&folder).into_keys().collect();
    store.writable(&key()).await.unwrap();
    assert_eq!(tree(&folder).into_keys().collect::<Vec<_>>(), before, "nothing is left");
    fill(&disk.folder.join("filler"));
    let error = writer(&folder).writable(&key()).await.unwrap_err();
    assert!(is_full(&error) && error.is_passing(), "{error:?}");
    fs::remove_file(disk.folder.join("filler")).unwrap();
    store.writable(&key()).await.unwrap();
    let error = FileStore::open(&folder, Access::Read).unwrap().writable(&key()).await.unwrap_err();
    assert!(matches!(&error, StoreError::Refused { .. }), "{error:?}");
}
