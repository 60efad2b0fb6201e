//! The access log: one line of JSON for each request that was answered, and for each handshake that failed.
//!
//! Guarantees that no request waits for it: lines go through a bounded queue to a thread that writes them, and lines that find the queue full
//! are counted. The next line that is written says how many. A file is bounded too: once it is large it is renamed to `FILE.1`, in the place of
//! an earlier one. Does not hold bodies, keys, tokens or query strings. Does not guarantee that the last lines survive a crash.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use baton_election::time::WallTime;
use serde::Serialize;

/// How many lines wait to be written.
const QUEUE: usize = 4_096;
/// How large a file gets before another one is begun.
const LARGEST: u64 = 100 << 20;
/// How often the thread looks whether it is to begin a file anew, while there is nothing to write.
const LOOK: Duration = Duration::from_millis(200);

/// One request, as the log has it.
#[derive(Serialize)]
pub(crate) struct RequestLine<'a> {
    pub(crate) time: WallTime,
    /// From where, over TCP.
    pub(crate) address: Option<IpAddr>,
    /// Which user of this machine, over the Unix socket.
    pub(crate) uid: Option<u32>,
    /// The id of the access token, if one was shown that is known.
    pub(crate) token: Option<String>,
    pub(crate) role: Option<&'static str>,
    /// What was asked for, as `/openapi.json` calls it; none if there is no such route.
    pub(crate) route: Option<&'static str>,
    pub(crate) election: Option<&'a str>,
    /// As which agent, if the request says so and may.
    pub(crate) agent: Option<&'a str>,
    pub(crate) status: u16,
    /// Why nobody was let in, in more words than the answer has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<&'a str>,
    /// How large the answer is; none of a stream.
    pub(crate) bytes: Option<u64>,
    pub(crate) took_us: u64,
}

/// A connection that did not become an encrypted one, as the log has it.
#[derive(Serialize)]
pub(crate) struct Handshake {
    pub(crate) time: WallTime,
    pub(crate) address: IpAddr,
    /// Why it failed.
    pub(crate) handshake: String,
}

/// Where lines go. It is closed, and what waits is written, with its last owner.
#[derive(Debug)]
pub struct AccessLog {
    lines: Option<SyncSender<Vec<u8>>>,
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Lines that found the queue full, or could not be written, since the last that said so.
    dropped: AtomicU64,
    /// All of them since the start.
    lost: AtomicU64,
    /// The file is to be opened anew.
    reopen: AtomicBool,
    /// Why the file could not be written last, if so.
    trouble: Mutex<Option<String>>,
}

impl Shared {
    fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        self.lost.fetch_add(1, Ordering::Relaxed);
    }
}

impl AccessLog {
    /// Writes to a file, at its end; only its owner can read it.
    pub fn to_file(path: &Path) -> io::Result<AccessLog> {
        AccessLog::bounded(path, LARGEST)
    }

    fn bounded(path: &Path, largest: u64) -> io::Result<AccessLog> {
        let (file, written) = open(path)?;
        AccessLog::start(Sink::File { path: path.to_path_buf(), file, written, largest })
    }

    /// Writes to standard output.
    pub fn to_stdout() -> io::Result<AccessLog> {
        AccessLog::start(Sink::Stdout)
    }

    fn start(sink: Sink) -> io::Result<AccessLog> {
        let (lines, waiting) = sync_channel(QUEUE);
        let shared = Arc::new(Shared::default());
        let told = Arc::clone(&shared);
        let writer = std::thread::Builder::new()
            .name("access-log".to_string())
            .spawn(move || write(sink, &waiting, &told))?;
        Ok(AccessLog { lines: Some(lines), shared, writer: Some(writer) })
    }

    /// Begins the file anew: after it was moved away.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
    }

    /// Why the log could not be written last, once.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// How many lines are not in the log.
    pub(crate) fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self, line: &impl Serialize) {
        let Ok(mut text) = serde_json::to_vec(line) else { return };
        text.push(b'\n');
        match self.lines.as_ref().map(|lines| lines.try_send(text)) {
            Some(Ok(())) | None => {}
            Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) => self.shared.drop_one(),
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        drop(self.lines.take());
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

enum Sink {
    File { path: PathBuf, file: File, written: u64, largest: u64 },
    Stdout,
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let written = file.metadata()?.len();
    Ok((file, written))
}

impl Sink {
    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        match self {
            Sink::Stdout => io::stdout().lock().write_all(text),
            Sink::File { path, file, written, largest } => {
                if *written >= *largest {
                    let mut old = path.clone().into_os_string();
                    old.push(".1");
                    std::fs::rename(&*path, old)?;
                    (*file, *written) = open(path)?;
                }
                file.write_all(text)?;
                *written += text.len() as u64;
                Ok(())
            }
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        if let Sink::File { path, file, written, .. } = self {
            (*file, *written) = open(path)?;
        }
        Ok(())
    }
}

/// Writes what comes until nobody sends any more.
fn write(mut sink: Sink, waiting: &Receiver<Vec<u8>>, shared: &Shared) {
    loop {
        let line = match waiting.recv_timeout(LOOK) {
            Ok(line) => Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return,
        };
        let reopened = match shared.reopen.swap(false, Ordering::AcqRel) {
            true => sink.reopen(),
            false => Ok(()),
        };
        let written = line.map_or(Ok(()), |line| {
            let dropped = shared.dropped.swap(0, Ordering::Relaxed);
            let told = match dropped {
                0 => Ok(()),
                dropped => sink.write(format!("{{\"dropped\":{dropped}}}\n").as_bytes()),
            };
            told.and_then(|()| sink.write(&line)).inspect_err(|_| {
                shared.dropped.fetch_add(dropped, Ordering::Relaxed);
                shared.drop_one();
            })
        });
        if let Err(error) = reopened.and(written) {
            let mut trouble = shared.trouble.lock().unwrap_or_else(PoisonError::into_inner);
            *trouble = Some(error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(status: u16) -> RequestLine<'static> {
        RequestLine {
            time: WallTime::from_unix_millis(0),
            address: Some([127, 0, 0, 1].into()),
            uid: None,
            token: None,
            role: None,
            route: Some("renew"),
            election: Some("e"),
            agent: None,
            status,
            why: None,
            bytes: Some(2),
            took_us: 7,
        }
    }

    fn lines(path: &Path) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn what_was_noted_is_written_when_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        for status in [200, 403] {
            AccessLog::to_file(&path).unwrap().note(&line(status));
        }
        let statuses: Vec<_> = lines(&path).iter().map(|line| line["status"].clone()).collect();
        assert_eq!(statuses, [200, 403], "the second begins at the end of the first");
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_large_file_makes_way_and_one_old_one_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let log = AccessLog::bounded(&path, 1).unwrap();
        (200..210).for_each(|status| log.note(&line(status)));
        drop(log);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        assert_eq!(lines(&path)[0]["status"], 209);
        assert_eq!(lines(&folder.path().join("access.log.1"))[0]["status"], 208);
    }

    #[test]
    fn a_file_that_was_moved_away_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let log = AccessLog::to_file(&path).unwrap();
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        log.reopen();
        log.note(&line(200));
        drop(log);
        assert_eq!(lines(&path).len(), 1);
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let (lines, waiting) = sync_channel(1);
        let shared = Arc::new(Shared::default());
        let log = AccessLog { lines: Some(lines), shared: Arc::clone(&shared), writer: None };
        (0..3).for_each(|_| log.note(&line(200)));
        assert_eq!(log.lost(), 2);
        drop(log);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let (file, written) = open(&path).unwrap();
        write(Sink::File { path: path.clone(), file, written, largest: LARGEST }, &waiting, &shared);
        assert_eq!(self::lines(&path)[0]["dropped"], 2);
    }
}
