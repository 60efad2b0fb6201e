//! A Unix socket at which a server listens.
//!
//! Assumes a folder on a disk of this machine. Guarantees that the socket file of a dead server is replaced, that the one of a living server
//! never is, and that nothing but a socket is ever removed. A server is dead if the kernel refuses a connection to its socket; a server that is
//! stopped is alive. Two servers that start at once are kept apart by a lock file beside the socket, which each has only while it binds. Only
//! this user and root can write the folder, and open the lock file, so that no stranger keeps a server from starting or listens in its place.
//!
//! Does not guarantee that the file lasts: this user and root can remove it.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::geteuid;
use tokio::net::{UnixListener, UnixSocket, UnixStream};

/// The longest path that the kernel binds: `sun_path` has 108 bytes, and the last is zero.
const LONGEST: usize = 107;
/// How many connections wait until they are taken; the kernel may allow fewer.
const WAITING: u32 = 4_096;
/// How often the lock is tried, and the pause between two tries: five seconds in all.
const TRIES: u32 = 250;
const PAUSE: Duration = Duration::from_millis(20);
/// Where the kernel says which uid it shows for users that a user namespace does not know.
const OVERFLOW_UID: &str = "/proc/sys/kernel/overflowuid";

/// Why a server cannot listen at a path. Nothing was changed there.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The kernel binds no such path.
    #[error("its path has {0} bytes, and a socket's has {LONGEST} at most")]
    TooLong(usize),
    /// It is a file, a folder or a link.
    #[error("something else than a socket is there")]
    NotASocket,
    /// A server accepts connections there.
    #[error("another server listens there")]
    InUse,
    /// Another process of this user or of root has the lock.
    #[error("another process has held the lock beside it for {} seconds", TRIES / 50)]
    Locked,
    /// Others could remove the socket, and listen in its place.
    #[error("{0}")]
    OthersWrite(String),
    /// The kernel shows this uid for every user that it does not know, so that it proves nothing.
    #[error("this server runs as the user {0}, which the kernel shows for every user that it does not know")]
    Nobody(u32),
    /// The folder or the socket could not be used.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A socket at which this server listens. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct Socket {
    pub(crate) listener: UnixListener,
    /// The user whose server this is.
    pub(crate) owner: u32,
    path: PathBuf,
    /// The device and the inode of the file, by which it is known again.
    file: (u64, u64),
}

impl Socket {
    /// Listens at a path, in a folder that is there. Only the owner and root can open the socket (mode 0600).
    pub async fn bind(path: &Path) -> Result<Socket, SocketError> {
        let owner = geteuid().as_raw();
        if overflow_uid() == Some(owner) {
            return Err(SocketError::Nobody(owner));
        }
        let bytes = path.as_os_str().as_bytes().len();
        if bytes > LONGEST {
            return Err(SocketError::TooLong(bytes));
        }
        check_folder(path.parent().unwrap_or(Path::new("/")), owner)?;
        let _lock = Lock::of(path).await?;
        make_way(path).await?;
        let socket = UnixSocket::new_stream()?;
        // Before it is bound, so that nobody else can open it even for a moment.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(io::Error::from)?;
        socket.bind(path)?;
        // Under the lock: a socket that is bound and does not listen looks dead.
        let listener = socket.listen(WAITING)?;
        let file = identity(&std::fs::symlink_metadata(path)?);
        Ok(Socket { listener, owner, path: path.to_path_buf(), file })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    /// The listener is still open, so that no other server takes the socket for a dead one's between the look and the removal.
    fn drop(&mut self) {
        let found = std::fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| identity(&found) == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn overflow_uid() -> Option<u32> {
    std::fs::read_to_string(OVERFLOW_UID).ok()?.trim().parse().ok()
}

/// Refuses a folder that others than this user and root can write.
fn check_folder(folder: &Path, own: u32) -> Result<(), SocketError> {
    let found = std::fs::metadata(folder)?;
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if owner != own && owner != 0 {
        return Err(SocketError::OthersWrite(format!("its folder belongs to the user {owner}")));
    }
    if mode & 0o022 != 0 {
        let why = format!("others than this user and root can write its folder (mode {mode:04o})");
        return Err(SocketError::OthersWrite(why));
    }
    Ok(())
}

/// Keeps other servers that start from binding the same path. It ends when this is dropped, and with the process.
struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    async fn of(socket: &Path) -> Result<Lock, SocketError> {
        let mut name = std::ffi::OsString::from(".");
        name.push(socket.file_name().unwrap_or_default());
        name.push(".lock");
        let path = socket.with_file_name(name);
        for _ in 0..TRIES {
            let file = open_lock(&path)?;
            match file.try_lock() {
                // The holder before may have removed the file when it was done. Then this is not the file
                // that other servers lock.
                Ok(()) if is_at(&file, &path) => return Ok(Lock { file, path }),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => tokio::time::sleep(PAUSE).await,
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
        }
        Err(SocketError::Locked)
    }
}

impl Drop for Lock {
    /// Under the lock, so that it is this process's own file.
    fn drop(&mut self) {
        if is_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Opens the lock file, which nobody but its owner and root can open.
fn open_lock(path: &Path) -> Result<File, SocketError> {
    let open = || {
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits()).unwrap_or(0);
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)
    };
    match open() {
        // Root left it behind. The folder is this user's, so this user may remove it.
        Err(error) if error.kind() == ErrorKind::PermissionDenied && path.symlink_metadata().is_ok() => {
            std::fs::remove_file(path).map_err(|_| error)?;
            Ok(open()?)
        }
        opened => Ok(opened?),
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let (own, found) = (file.metadata(), std::fs::symlink_metadata(path));
    own.is_ok_and(|own| found.is_ok_and(|found| identity(&own) == identity(&found)))
}

/// Removes the socket of a dead server.
async fn make_way(path: &Path) -> Result<(), SocketError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(SocketError::NotASocket),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    match UnixStream::connect(path).await {
        // Its backlog is full: it exists.
        Ok(_) => Err(SocketError::InUse),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(SocketError::InUse),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(std::fs::remove_file(path)?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        (folder, path)
    }

    #[tokio::test]
    async fn a_dead_servers_socket_is_replaced_and_a_living_ones_is_not() {
        let (_folder, path) = folder();
        // A killed process leaves this behind.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let socket = Socket::bind(&path).await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(Socket::bind(&path).await, Err(SocketError::InUse)));
        let _client = UnixStream::connect(&path).await.unwrap();
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_living_server_whose_backlog_is_full_is_alive() {
        let (_folder, path) = folder();
        let listener = UnixSocket::new_stream().unwrap();
        listener.bind(&path).unwrap();
        let _listener = listener.listen(1).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = UnixStream::connect(&path).await {
            waiting.push(stream);
        }
        assert!(matches!(Socket::bind(&path).await, Err(SocketError::InUse)), "{} wait", waiting.len());
    }

    #[tokio::test]
    async fn what_is_no_socket_is_left_alone() {
        let (folder, path) = folder();
        std::fs::write(&path, "text").unwrap();
        assert!(matches!(Socket::bind(&path).await, Err(SocketError::NotASocket)));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("nowhere"), &link).unwrap();
        assert!(matches!(Socket::bind(&link).await, Err(SocketError::NotASocket)));
        let below = folder.path().join("below");
        std::fs::create_dir(&below).unwrap();
        assert!(matches!(Socket::bind(&below).await, Err(SocketError::NotASocket)));
    }

    #[tokio::test]
    async fn another_servers_socket_in_its_place_is_left_alone() {
        let (_folder, path) = folder();
        let first = Socket::bind(&path).await.unwrap();
        // Somebody removed it, and another server was started.
        std::fs::remove_file(&path).unwrap();
        let second = Socket::bind(&path).await.unwrap();
        drop(first);
        assert!(UnixStream::connect(&path).await.is_ok());
        drop(second);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn of_many_that_start_at_once_one_listens() {
        let (_folder, path) = folder();
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let tries = (0..16).map(|_| {
            let path = path.clone();
            tokio::spawn(async move { Socket::bind(&path).await })
        });
        let all = futures_util::future::join_all(tries).await;
        let bound: Vec<_> = all.into_iter().filter_map(|one| one.unwrap().ok()).collect();
        assert_eq!(bound.len(), 1);
        assert!(UnixStream::connect(&path).await.is_ok());
    }

    #[tokio::test]
    async fn a_path_is_as_long_as_the_kernel_binds() {
        let (folder, _) = folder();
        let room = LONGEST - folder.path().as_os_str().len() - 1;
        let longest = folder.path().join("x".repeat(room));
        let _socket = Socket::bind(&longest).await.unwrap();
        let refused = Socket::bind(&folder.path().join("x".repeat(room + 1))).await.unwrap_err();
        assert_eq!(refused.to_string(), "its path has 108 bytes, and a socket's has 107 at most");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_is_waited_for_and_not_for_ever() {
        let (_folder, path) = folder();
        let held = Lock::of(&path).await.unwrap();
        let waiting = tokio::spawn({
            let path = path.clone();
            async move { Socket::bind(&path).await }
        });
        assert!(matches!(waiting.await.unwrap(), Err(SocketError::Locked)));
        drop(held);
        assert!(Socket::bind(&path).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_that_a_stranger_or_a_dead_server_leaves_keeps_a_server_from_starting() {
        let (folder, path) = folder();
        // Everybody who may read a folder may lock it.
        let locked = File::open(folder.path()).unwrap();
        locked.lock().unwrap();
        // A server that was killed while it started.
        let lock = folder.path().join(".s.lock");
        std::fs::write(&lock, "").unwrap();
        let socket = Socket::bind(&path).await.unwrap();
        assert!(!lock.exists(), "no lock file stays behind");
        drop(socket);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_folder_that_others_can_write_is_refused() {
        let (folder, path) = folder();
        for mode in [0o1777, 0o777, 0o770, 0o720, 0o702] {
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            let refused = Socket::bind(&path).await.unwrap_err();
            assert!(matches!(refused, SocketError::OthersWrite(_)), "{mode:o}: {refused}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
        for mode in [0o755, 0o750, 0o700] {
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            drop(Socket::bind(&path).await.unwrap());
        }
    }
}
