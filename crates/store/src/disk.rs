//! The changes that Baton makes to files and folders, one step at a time.
//!
//! Whatever must survive a power cut or a deletion by others is written through a [`Disk`], so that a test can watch every step,
//! act between two of them, let one fail, or replay them up to a power cut. A program's own disk has no watcher: a step is then one
//! system call and nothing else.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// One change of the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A folder gets its name.
    MakeFolder(PathBuf),
    /// An empty file gets its name.
    MakeFile(PathBuf),
    /// An empty file is made without a name. The path tells it from all others; nobody finds the file there.
    MakeNameless(PathBuf),
    /// The bytes of a file are written, from its beginning on.
    Write(PathBuf, Vec<u8>),
    /// The bytes of a file survive a power cut.
    SyncFile(PathBuf),
    /// A file gets a second name, unless that is taken.
    Link(PathBuf, PathBuf),
    /// A file gets another name, in the place of whatever has it.
    Rename(PathBuf, PathBuf),
    /// A name is removed.
    Remove(PathBuf),
    /// The names in a folder survive a power cut.
    SyncFolder(PathBuf),
}

/// Sees every step of a disk.
pub trait Watcher: Send + Sync {
    /// Before the step. With an error the step is not done, and fails with it.
    fn before(&self, step: &Step) -> io::Result<()>;
    /// After the step was done. Not called for one that failed.
    fn after(&self, step: &Step);
}

/// Where files are changed.
#[derive(Clone, Default)]
pub struct Disk {
    watcher: Option<Arc<dyn Watcher>>,
}

impl Disk {
    /// A disk with a watcher.
    pub fn watched(watcher: Arc<dyn Watcher>) -> Disk {
        Disk { watcher: Some(watcher) }
    }

    fn step<T>(&self, step: impl FnOnce() -> Step, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let Some(watcher) = &self.watcher else { return work() };
        let step = step();
        watcher.before(&step)?;
        let done = work()?;
        watcher.after(&step);
        Ok(done)
    }

    /// Makes one folder, with these rights before the umask.
    pub fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        let make = || {
            fs::DirBuilder::new().mode(mode).create(path)?;
            if is_for_group(mode) { share(&File::open(path)?, path.parent()) } else { Ok(()) }
        };
        self.step(|| Step::MakeFolder(path.to_path_buf()), make)
    }

    /// Makes a folder and those above it that are missing. Returns them, the uppermost first.
    pub fn make_folders(&self, path: &Path, mode: u32) -> io::Result<Vec<PathBuf>> {
        let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.is_dir()).collect();
        let mut made = Vec::new();
        for folder in missing.into_iter().rev().filter(|folder| !folder.as_os_str().is_empty()) {
            match self.make_folder(folder, mode) {
                Ok(()) => made.push(folder.to_path_buf()),
                // Somebody else was first.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(made)
    }

    /// Makes an empty file, unless its name is taken.
    pub fn make_file(&self, path: &Path, mode: u32) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let make = || open_new(path, flags, mode, path.parent());
        self.step(|| Step::MakeFile(path.to_path_buf()), make)
    }

    /// Makes a file without a name on the file system of a folder. `name` tells it from others.
    pub fn make_nameless(&self, folder: &Path, name: &Path, mode: u32) -> io::Result<File> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let make = || open_new(folder, flags, mode, Some(folder));
        self.step(|| Step::MakeNameless(name.to_path_buf()), make)
    }

    /// Writes the bytes of a file that was made here, from its beginning on.
    pub fn write(&self, file: &File, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let write = || file.write_all_at(bytes, 0);
        self.step(|| Step::Write(path.to_path_buf(), bytes.to_vec()), write)
    }

    /// Makes the bytes of a file survive a power cut.
    pub fn sync_file(&self, file: &File, path: &Path) -> io::Result<()> {
        self.step(|| Step::SyncFile(path.to_path_buf()), || file.sync_data())
    }

    /// Gives a file a name in an open folder, unless that is taken. `name` is what [`Disk::make_file`] or [`Disk::make_nameless`] was
    /// told, `from` where the kernel finds it, `path` where `folder` was opened.
    pub fn link(
        &self,
        (name, from, flags): (&Path, &Path, AtFlags),
        (folder, path): (&File, &Path),
        to: &str,
    ) -> io::Result<()> {
        let link = || Ok(rustix::fs::linkat(CWD, from, folder, to, flags)?);
        self.step(|| Step::Link(name.to_path_buf(), path.join(to)), link)
    }

    /// Gives a file another name, in the place of whatever has it.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|| Step::Rename(from.to_path_buf(), to.to_path_buf()), || fs::rename(from, to))
    }

    /// Removes a file.
    pub fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.step(|| Step::Remove(path.to_path_buf()), || fs::remove_file(path))
    }

    /// Removes a file from an open folder, whatever became of the folder's name.
    pub fn remove_in(&self, (folder, path): (&File, &Path), name: &str) -> io::Result<()> {
        let remove = || Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?);
        self.step(|| Step::Remove(path.join(name)), remove)
    }

    /// Makes the names in a folder survive a power cut.
    pub fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.step(|| Step::SyncFolder(path.to_path_buf()), || File::open(path)?.sync_all())
    }

    /// Replaces a file in one step. Nothing is synced: for what can be made again.
    pub fn replace(&self, path: &Path, temporary: &Path, bytes: &[u8]) -> io::Result<()> {
        let written = self
            .make_file(temporary, 0o666)
            .and_then(|file| self.write(&file, temporary, bytes))
            .and_then(|()| self.rename(temporary, path));
        if written.is_err() {
            let _ = self.remove_file(temporary);
        }
        written
    }
}

fn open_new(path: &Path, flags: OFlags, mode: u32, folder: Option<&Path>) -> io::Result<File> {
    let file = File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(mode))?);
    if is_for_group(mode) {
        share(&file, folder)?;
    }
    Ok(file)
}

/// Whether somebody else may use what is made with these rights. A secret's group may not.
fn is_for_group(mode: u32) -> bool {
    mode & 0o060 != 0
}

/// Gives a new file or folder to the group of the folder that it is in, if that one is shared: it is setgid, and its group may write.
/// The umask of one user must not lock out the others.
fn share(made: &File, folder: Option<&Path>) -> io::Result<()> {
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (above, own) = (fs::metadata(folder)?, made.metadata()?);
    if above.mode() & 0o2020 != 0o2020 || above.gid() != own.gid() {
        return Ok(());
    }
    let bits = above.mode() & if own.is_dir() { 0o2070 } else { 0o060 };
    let mode = own.mode() & 0o7777;
    if mode | bits == mode { Ok(()) } else { made.set_permissions(fs::Permissions::from_mode(mode | bits)) }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("watched", &self.watcher.is_some()).finish()
    }
}
