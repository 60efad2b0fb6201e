//! Waiting for a change of a folder without polling it.

use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_store::{BoxStream, Change, boot};
use futures_util::stream;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe;

/// How often to look where the kernel cannot notify: its limit of watches is reached.
const POLL: Duration = Duration::from_millis(250);
/// How often to begin anew while the folders change faster than they can be watched.
const MAX_ATTEMPTS: usize = 32;

/// Tells of every new file in `folder`, also if the folder does not exist yet.
pub(crate) fn changes(folder: PathBuf) -> BoxStream<Change> {
    let watcher = Watcher::new(&folder).ok();
    Box::pin(stream::unfold((watcher, folder), |(mut watcher, folder)| async move {
        let change = match &mut watcher {
            Some(known) => match known.wait(&folder).await {
                Ok(change) => change,
                Err(_) => {
                    watcher = None;
                    Change::Gap
                }
            },
            None => {
                tokio::time::sleep(POLL).await;
                watcher = Watcher::new(&folder).ok();
                Change::Gap
            }
        };
        Some((change, (watcher, folder)))
    }))
}

/// The kernel's notifier. Closing one waits for a grace period of the kernel, ten milliseconds and more, so that it is done
/// aside: the end of a wait is when a leader is in a hurry.
struct Notifier(Option<pipe::Receiver>);

impl Deref for Notifier {
    type Target = pipe::Receiver;
    fn deref(&self) -> &pipe::Receiver {
        let Some(receiver) = &self.0 else {
            unreachable!("it is taken out when it is dropped, and not before")
        };
        receiver
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        let Some(Ok(descriptor)) = self.0.take().map(pipe::Receiver::into_nonblocking_fd) else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn_blocking(move || drop(descriptor));
        }
    }
}

struct Watcher {
    notifier: Notifier,
    /// The folder itself, or the nearest one above it that exists.
    watched: PathBuf,
    /// The kernel's number of that watch: another once another folder bears the name.
    watch: i32,
}

impl Watcher {
    /// Watches the folder, or what will tell when it is made.
    fn new(folder: &Path) -> io::Result<Watcher> {
        for _ in 0..MAX_ATTEMPTS {
            let notifier = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            let notifier = Notifier(Some(boot::readable(notifier)?));
            let Some((watched, watch)) = nearest(&notifier, folder)? else { continue };
            let watcher = Watcher { notifier, watched, watch };
            // The next folder on the way may have been made between the two looks.
            if !watcher.next_exists(folder) {
                return Ok(watcher);
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Whether the folder below the watched one, on the way to `folder`, exists.
    fn next_exists(&self, folder: &Path) -> bool {
        let below = folder.ancestors().take_while(|ancestor| *ancestor != self.watched).last();
        below.is_some_and(Path::exists)
    }

    async fn wait(&mut self, folder: &Path) -> io::Result<Change> {
        loop {
            self.notifier.readable().await?;
            self.drain()?;
            // A watch goes with its folder, not with the name: one that was deleted or moved is deaf.
            let in_place = add_watch(&self.notifier, &self.watched) == Ok(self.watch);
            if in_place && self.watched == folder {
                return Ok(Change::Changed);
            }
            if !in_place || self.next_exists(folder) {
                *self = Watcher::new(folder)?;
                return Ok(Change::Gap);
            }
        }
    }

    fn drain(&self) -> io::Result<()> {
        let mut events = [0; 4_096];
        loop {
            match self.notifier.try_read(&mut events) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Watches the nearest folder upwards that exists.
fn nearest(notifier: &pipe::Receiver, folder: &Path) -> io::Result<Option<(PathBuf, i32)>> {
    for candidate in folder.ancestors() {
        match add_watch(notifier, candidate) {
            Ok(watch) => return Ok(Some((candidate.to_path_buf(), watch))),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

fn add_watch(notifier: &pipe::Receiver, folder: &Path) -> rustix::io::Result<i32> {
    let flags = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
    inotify::add_watch(notifier.as_fd(), folder, flags)
}
