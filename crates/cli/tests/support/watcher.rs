//! Watches the trees of CMDs from outside: never two at a time, and how long none.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use baton::store::Access;
use baton::{Coordinator, Memory};

use super::World;
use super::processes::{Process, Tree, pids};

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(3);
/// A look that comes later than this shows that the machine stood still; nobody could act meanwhile.
const LATE: Duration = Duration::from_millis(60);
/// How often the store is asked, where it is not a folder.
const STORE_PAUSE: Duration = Duration::from_millis(200);
/// A process that was no member in so many looks will not become one.
const STRANGER: u32 = 20;

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    /// Two trees at a time, in words.
    pub(crate) overlaps: Vec<String>,
    /// Epochs that went back, in words.
    pub(crate) backwards: Vec<String>,
    /// All trees that were ever seen.
    pub(crate) trees: BTreeSet<Tree>,
    /// Those of the last look.
    pub(crate) alive: BTreeSet<Tree>,
    /// The epoch of the last look.
    pub(crate) epoch: u64,
    pub(crate) looks: u64,
    /// The longest time without a tree and without a new grant, since the first tree.
    pub(crate) longest_vacancy: Duration,
}

impl Findings {
    /// The tree of the leader whose CMD runs.
    pub(crate) fn leader(&self) -> Option<&Tree> {
        self.alive.iter().next_back()
    }
}

/// A thread that watches until it is dropped.
pub(crate) struct Watcher {
    stop: Arc<AtomicBool>,
    findings: Arc<Mutex<Findings>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    pub(crate) fn start(world: &World, election: &str) -> Watcher {
        let (stop, findings) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::default()));
        let looker = Sampler {
            mark: world.mark().to_string(),
            url: world.url(),
            election: election.parse().unwrap(),
            strangers: HashMap::new(),
            vacant_since: None,
            looked_at: Instant::now(),
        };
        let (ended, shared) = (Arc::clone(&stop), Arc::clone(&findings));
        let thread = std::thread::spawn(move || looker.run(&ended, &shared));
        Watcher { stop, findings, thread: Some(thread) }
    }

    pub(crate) fn findings(&self) -> Findings {
        self.findings.lock().unwrap().clone()
    }

    /// Ends the watch and fails if two trees were ever seen at a time.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Findings {
        self.stop.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap();
        let findings = self.findings();
        assert!(findings.looks > 0);
        assert!(findings.overlaps.is_empty(), "two CMDs at a time: {:#?}", findings.overlaps);
        assert!(findings.backwards.is_empty(), "{:#?}", findings.backwards);
        findings
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

struct Sampler {
    mark: String,
    url: String,
    election: baton::election::ElectionName,
    strangers: HashMap<u32, u32>,
    vacant_since: Option<Instant>,
    looked_at: Instant,
}

impl Sampler {
    fn run(mut self, stop: &AtomicBool, findings: &Mutex<Findings>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let connect = Coordinator::connect_for(&self.url, Access::Read, Memory::new());
            let coordinator = connect.await.unwrap();
            let pause = if self.url.starts_with("file:") { Duration::ZERO } else { STORE_PAUSE };
            let mut asked_at: Option<Instant> = None;
            while !stop.load(Ordering::Acquire) {
                let mut epoch = None;
                if asked_at.is_none_or(|at| at.elapsed() >= pause) {
                    asked_at = Some(Instant::now());
                    // A store that does not answer must not keep the watcher from watching.
                    let view = tokio::time::timeout(LATE, coordinator.view(&self.election)).await;
                    let document = view.ok().and_then(|view| view.ok()?.document);
                    epoch = document.map(|document| document.epoch.0);
                }
                let members = self.look();
                self.judge(&members, epoch, &mut findings.lock().unwrap());
                std::thread::sleep(PAUSE);
            }
        });
    }

    /// The processes of the trees.
    fn look(&mut self) -> Vec<Process> {
        let pids: Vec<u32> = pids().filter(|pid| *pid != std::process::id()).collect();
        self.strangers.retain(|pid, _| pids.binary_search(pid).is_ok() || pids.contains(pid));
        let mut members = Vec::new();
        for pid in pids {
            let times = self.strangers.get(&pid).copied().unwrap_or(0);
            if times >= STRANGER {
                continue;
            }
            match Process::look(pid, &self.mark) {
                Some(process) => members.extend(process.command.is_some().then_some(process)),
                None => {
                    self.strangers.insert(pid, times + 1);
                }
            }
        }
        members
    }

    fn judge(&mut self, members: &[Process], epoch: Option<u64>, findings: &mut Findings) {
        let tree = |process: &Process| process.command.clone();
        let alive: BTreeSet<Tree> = members.iter().filter_map(tree).collect();
        if let Some(newest) = alive.iter().next_back() {
            // All of the newest was seen by now: who is older and lives still, lived beside it.
            let older = members.iter().filter(|process| process.command.as_ref() != Some(newest));
            for process in older.filter(|process| process.lives(&self.mark)) {
                findings.overlaps.push(format!("{process:?} lives beside {newest:?}"));
            }
        }
        self.measure_vacancy(&alive, epoch, findings);
        if let Some(epoch) = epoch {
            if epoch < findings.epoch {
                findings.backwards.push(format!("the epoch went from {} to {epoch}", findings.epoch));
            }
            findings.epoch = findings.epoch.max(epoch);
        }
        findings.trees.extend(alive.iter().cloned());
        findings.alive = alive;
        findings.looks += 1;
    }

    /// A vacancy begins when the last process of a tree is gone, or when a lease was granted to somebody who does not begin.
    fn measure_vacancy(&mut self, alive: &BTreeSet<Tree>, epoch: Option<u64>, findings: &mut Findings) {
        let now = Instant::now();
        let late = now.duration_since(self.looked_at).saturating_sub(LATE);
        self.looked_at = now;
        let granted = epoch.is_some_and(|epoch| epoch > findings.epoch);
        if !alive.is_empty() || granted || findings.trees.is_empty() {
            self.vacant_since = None;
            return;
        }
        // A machine that stood still is not held against anybody.
        let since = self.vacant_since.map_or(now, |since| since + late);
        self.vacant_since = Some(since);
        findings.longest_vacancy = findings.longest_vacancy.max(now.saturating_duration_since(since));
    }
}
