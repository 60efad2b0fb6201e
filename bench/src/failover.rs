//! Fail-over of a group without a store, from the outside: real processes of `baton peer --lan` whose leader is killed.
//!
//! A round is a SIGKILL of the leading process at a moment drawn at random; its warden is left to end CMD. What is measured is the
//! time until the successor's CMD runs. The dead one then comes back with its memory, and the group settles before the
//! next round. A leadership that changes without a kill, on a machine too busy for heartbeats of 50 ms, is counted and told.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use baton_store::boot;

use crate::calibrate;
use crate::figures::{Figure, percentile, short};
use crate::load::{Busy, random};
use crate::runs::Stamp;
use crate::voices::Voices;

/// A bound on a hang.
const HANG: Duration = Duration::from_secs(60);
const ROUNDS: usize = 200;
const BAR: Duration = Duration::from_millis(600);

/// Measures groups of three and of five.
pub(crate) fn measure(baton: &Path) -> std::io::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (algorithm, size) in [("raft", 3), ("raft", 5), ("paxos", 5)] {
        let mut group = Group::start(baton, algorithm, size)?;
        let (mut values, mut busy) = (Vec::new(), Busy::default());
        for _ in 0..ROUNDS {
            values.push(busy.during(|| group.fail_over())?);
        }
        let what = format!("{algorithm}, {size} members, --lan: fail-over after SIGKILL, p99 of {ROUNDS}");
        let half = short(percentile(&mut values, 0.5));
        let most = short(percentile(&mut values, 1.0));
        let beside = format!("p50 {half}, most {most}");
        figures.push(Figure::at_most(&what, percentile(&mut values, 0.99), BAR, beside));
        let note = format!("{} without a kill; busy in {}", group.unasked, busy.count());
        figures.push(Figure::note("  leaderships that changed", note));
    }
    Ok(figures)
}

/// The members, over all their lives.
struct Group {
    voices: Voices,
    /// Which member each process is.
    members: BTreeMap<usize, usize>,
    /// The process whose CMD began last.
    leader: usize,
    unasked: usize,
    baton: PathBuf,
    algorithm: &'static str,
    addresses: Vec<String>,
    folder: tempfile::TempDir,
}

impl Group {
    fn start(baton: &Path, algorithm: &'static str, size: usize) -> std::io::Result<Group> {
        // A net of its own on loopback, so that ports are free.
        let number = boot::now().as_nanos() / 1_000 % 62_500;
        let net = format!("127.{}.{}", 1 + number / 250, 1 + number % 250);
        let mut group = Group {
            voices: Voices::new()?,
            members: BTreeMap::new(),
            leader: 0,
            unasked: 0,
            baton: fs::canonicalize(baton)?,
            algorithm,
            addresses: (1..=size).map(|id| format!("{net}.{id}:7001")).collect(),
            folder: calibrate::scratch()?,
        };
        for id in 1..=size {
            group.spawn(id)?;
        }
        group.began_after(0)?;
        Ok(group)
    }

    fn spawn(&mut self, id: usize) -> std::io::Result<()> {
        let mut command = Command::new(&self.baton);
        command.args(["peer", "--lan", "--found", "--algorithm", self.algorithm, "--id", &id.to_string()]);
        for (number, address) in self.addresses.iter().enumerate() {
            command.arg("--peer").arg(format!("{}={address}", number + 1));
        }
        command
            .arg("--data")
            .arg(self.folder.path().join(format!("data-{id}")))
            .arg("--")
            .arg(std::env::current_exe()?)
            .arg("--stamp")
            .env("XDG_RUNTIME_DIR", self.folder.path());
        let who = self.voices.start(&mut command)?;
        self.members.insert(who, id);
        Ok(())
    }

    /// One kill; how long until the successor's CMD ran.
    fn fail_over(&mut self) -> std::io::Result<Duration> {
        // Longer than a member that comes back takes to vote again.
        std::thread::sleep(Duration::from_millis(700) + random(Duration::from_millis(300)));
        self.note_unasked();
        let dead = self.leader;
        let killed = boot::now().as_nanos();
        self.voices.kill(dead)?;
        let began = self.began_after(killed)?;
        let id = self.members.remove(&dead).unwrap_or(1);
        self.spawn(id)?;
        Ok(Duration::from_nanos(began.saturating_sub(killed)))
    }

    /// Waits for a CMD that begins after this moment; returns when it did.
    fn began_after(&mut self, moment: u64) -> std::io::Result<u64> {
        loop {
            let said = self.voices.next(HANG, "no member took over")?;
            if let Some(stamp) = Stamp::of(&said) {
                self.leader = stamp.run;
                if stamp.at > moment {
                    return Ok(stamp.at);
                }
                self.unasked += 1;
            }
        }
    }

    /// Leaderships that changed although nobody was killed.
    fn note_unasked(&mut self) {
        let stamps: Vec<Stamp> = self.voices.so_far().filter_map(|said| Stamp::of(&said)).collect();
        for stamp in stamps {
            self.leader = stamp.run;
            self.unasked += 1;
        }
    }
}
