//! The notes of those who wait: a file each, replaced in one step, not synced. No record, no version, no swap.

use std::path::{Path, PathBuf};
use std::{fs, io};

use baton_election::time::Moment;
use baton_election::{AgentName, ElectionName, Incarnation};
use baton_store::disk::Disk;
use baton_store::waiting::{MOST_SHOWN, NOTE_LASTS, Waiters, WaitingCandidate};
use baton_store::{BoxFuture, StoreError, boot};
use serde::{Deserialize, Serialize};

use crate::FileStore;
use crate::fault::failed;
use crate::shape::{self, Layout};

/// The most notes that are looked at in one folder: whoever waits sweeps what has lapsed.
const MOST_READ: usize = 10 * MOST_SHOWN;

/// A note as it is written.
#[derive(Serialize, Deserialize)]
struct Note {
    #[serde(flatten)]
    waiting: WaitingCandidate,
    /// When it was written, on this machine's boot-time clock.
    beat: Moment,
    /// In which run of the machine.
    boot: String,
}

impl Note {
    fn counts(&self, now: Moment, boot: &str) -> bool {
        self.boot == boot && now.since(self.beat) < NOTE_LASTS
    }
}

impl Layout {
    /// The folder of the notes of an election. A `/` in its name is an `@` here, which no name has.
    fn notes(&self, election: &ElectionName) -> PathBuf {
        self.root().join(NOTES).join(election.as_str().replace('/', "@"))
    }
}

/// The folder of the notes: no key's folder has this name.
const NOTES: &str = "@waiting";

fn file(folder: &Path, agent: &AgentName, incarnation: Incarnation) -> PathBuf {
    folder.join(format!("{agent}@{incarnation}"))
}

/// The notes that count; those that do not are removed, if they may be.
fn read_all(folder: &Path, boot: &str, sweep: Option<&Disk>) -> io::Result<Vec<WaitingCandidate>> {
    let now = boot::now();
    let mut all = Vec::new();
    for entry in shape::entries(folder)?.take(MOST_READ) {
        let path = entry?.path();
        let Ok(text) = fs::read(&path) else { continue };
        match serde_json::from_slice::<Note>(&text) {
            Ok(note) if note.counts(now, boot) => all.push(note.waiting),
            // It is replaced in one step: what is no note, or lapsed, is nobody's.
            Ok(_) | Err(_) => {
                if let Some(disk) = sweep {
                    let _ = disk.remove_file(&path);
                }
            }
        }
    }
    all.sort_by(|a, b| (a.since, &a.agent).cmp(&(b.since, &b.agent)));
    Ok(all)
}

impl Waiters for FileStore {
    fn note<'a>(
        &'a self,
        election: &'a ElectionName,
        waiting: &'a WaitingCandidate,
        incarnation: Incarnation,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let (folder, machine) = (self.inner.layout.notes(election), self.inner.machine.clone());
        let waiting = waiting.clone();
        Box::pin(self.answered(move |_, answer| {
            let path = file(&folder, &waiting.agent, incarnation);
            let note = Note { waiting, beat: boot::now(), boot: machine.here.boot.clone() };
            let written = serde_json::to_vec(&note).map_err(io::Error::other).and_then(|text| {
                machine.disk.make_folders(&folder, 0o777)?;
                machine.disk.replace(&path, &shape::temporary(&folder), &text)?;
                read_all(&folder, &note.boot, Some(&machine.disk))
            });
            let _ = answer.send(written.map(drop).map_err(|error| failed(&path, &error)));
        }))
    }

    fn leave<'a>(
        &'a self,
        election: &'a ElectionName,
        agent: &'a AgentName,
        incarnation: Incarnation,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let path = file(&self.inner.layout.notes(election), agent, incarnation);
        let disk = self.inner.machine.disk.clone();
        Box::pin(self.answered(move |_, answer| {
            let removed = match disk.remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&path, &error)),
                Ok(()) | Err(_) => Ok(()),
            };
            let _ = answer.send(removed);
        }))
    }

    fn waiting<'a>(
        &'a self,
        election: &'a ElectionName,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<WaitingCandidate>, StoreError>> {
        let (folder, boot) = (self.inner.layout.notes(election), self.inner.machine.here.boot.clone());
        Box::pin(self.answered(move |_, answer| {
            let all = read_all(&folder, &boot, None).map(|mut all| {
                all.truncate(limit.min(MOST_SHOWN));
                all
            });
            let _ = answer.send(all.map_err(|error| failed(&folder, &error)));
        }))
    }
}

#[cfg(test)]
mod tests {
    use baton_election::time::{Span, WallTime};

    use baton_store::{Access, Prefix, Store};

    use super::*;

    fn names(all: &[WaitingCandidate]) -> Vec<&str> {
        all.iter().map(|waiting| waiting.agent.as_str()).collect()
    }

    #[tokio::test]
    async fn a_note_is_shown_until_it_is_taken_back_or_lapses_and_no_reader_writes() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let store = FileStore::open(&root, Access::Write).unwrap();
        let (below, flat) = (ElectionName::new("a/b").unwrap(), ElectionName::new("a").unwrap());
        assert_eq!(store.waiting(&below, 10).await.unwrap(), []);
        assert!(!root.exists(), "a look makes nothing");
        let incarnation = |n| Incarnation([n; 8]);
        for (n, agent) in [(1, "bob"), (2, "carol"), (3, "bob")] {
            let agent = AgentName::new(agent).unwrap();
            let waiting = WaitingCandidate { agent, since: WallTime::from_unix_millis(n.into()) };
            store.note(&below, &waiting, incarnation(n)).await.unwrap();
        }
        assert_eq!(names(&store.waiting(&below, 10).await.unwrap()), ["bob", "carol", "bob"]);
        assert_eq!(names(&store.waiting(&below, 2).await.unwrap()), ["bob", "carol"]);
        assert_eq!(store.waiting(&flat, 10).await.unwrap(), [], "of another election");
        let bob = AgentName::new("bob").unwrap();
        for _ in 0..2 {
            store.leave(&below, &bob, incarnation(1)).await.unwrap();
        }
        assert_eq!(names(&store.waiting(&below, 10).await.unwrap()), ["carol", "bob"]);
        // One that died a minute ago, and one of another run of the machine.
        let notes = store.inner.layout.notes(&below);
        let here = store.inner.machine.here.boot.clone();
        let old = boot::now() - NOTE_LASTS - Span::millis(1);
        for (n, beat, boot) in [(4, old, here), (5, boot::now(), "another".to_string())] {
            let waiting = WaitingCandidate { agent: bob.clone(), since: WallTime::from_unix_millis(0) };
            let text = serde_json::to_vec(&Note { waiting, beat, boot }).unwrap();
            fs::write(file(&notes, &bob, incarnation(n)), text).unwrap();
        }
        fs::write(notes.join("torn"), "{").unwrap();
        assert_eq!(names(&store.waiting(&below, 10).await.unwrap()), ["carol", "bob"]);
        assert_eq!(fs::read_dir(&notes).unwrap().count(), 5, "a reader sweeps nothing");
        let dave =
            WaitingCandidate { agent: AgentName::new("dave").unwrap(), since: WallTime::from_unix_millis(9) };
        store.note(&below, &dave, incarnation(6)).await.unwrap();
        assert_eq!(fs::read_dir(&notes).unwrap().count(), 3, "who waits sweeps");
        assert_eq!(store.list(&Prefix::Elections).await.unwrap(), []);
    }
}
