//! Waiting for a change of a folder without polling it.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::stream;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe;

use crate::boot;
use crate::store::{BoxStream, Change};

/// How often to look where the kernel cannot notify: its limit of watches is reached.
const POLL: Duration = Duration::from_millis(250);

/// Tells of every new file in `folder`, also if the folder does not exist yet.
pub(super) fn changes(folder: PathBuf) -> BoxStream<Change> {
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

struct Watcher {
    notifier: pipe::Receiver,
    /// The folder itself, or the nearest one above it that exists.
    watched: PathBuf,
}

impl Watcher {
    fn new(folder: &Path) -> io::Result<Watcher> {
        let notifier = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mut watcher = Watcher { notifier: boot::readable(notifier)?, watched: PathBuf::new() };
        watcher.arm(folder)?;
        Ok(watcher)
    }

    /// Watches the folder, or what will tell when it is made.
    fn arm(&mut self, folder: &Path) -> io::Result<()> {
        let flags =
            WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        for candidate in folder.ancestors() {
            match inotify::add_watch(self.notifier.as_fd(), candidate, flags) {
                Ok(_) => {
                    let missed = self.watched != candidate && folder != candidate && folder.exists();
                    self.watched = candidate.to_path_buf();
                    // It was made between the two looks.
                    return if missed { self.arm(folder) } else { Ok(()) };
                }
                Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    async fn wait(&mut self, folder: &Path) -> io::Result<Change> {
        self.notifier.readable().await?;
        let mut events = [0; 4_096];
        loop {
            match self.notifier.try_read(&mut events) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if self.watched == folder && folder.exists() {
            return Ok(Change::Changed);
        }
        self.arm(folder)?;
        Ok(Change::Gap)
    }
}
