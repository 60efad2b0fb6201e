//! Fail-over after a crash, ours beside a peer's.
//!
//! A crash is a SIGKILL at a moment drawn at random: of the peer's process; of `baton run` and its warden together, so
//! that nobody is left who releases. What is measured is the *overhead*: from the end of the dead one's lease until the
//! successor leads, which for `baton run` is when its CMD runs, and for a peer, which is a library, when its callback does.
//!
//! The end of the lease is when its last renewal became visible, plus its length. For Baton and for client-go that is when the
//! server told a watcher that takes no part in the election ([`Renewals`]), which is a little after the renewal took
//! effect; for etcd's own recipe, whose renewals no watcher can see, when the dead one itself had its answer, which is a
//! little after as well. Both shorten the overhead by less than a round trip.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::figures::{percentile, short};
use crate::load::random;
use crate::runs::{Runs, Terms};
use crate::voices::Voices;

/// How long anything is waited for: a bound on a hang.
const HANG: Duration = Duration::from_secs(60);

/// The holder of a lease, and the value that every renewal changes.
pub(crate) type Beat = (String, String);

/// The renewals of one lease, as somebody who watches the server sees them.
pub(crate) struct Renewals {
    watcher: Voices,
    /// What a line says of the lease.
    read: fn(&str) -> Option<Beat>,
    latest: Option<Beat>,
    /// When the last renewal of each holder was seen.
    seen: BTreeMap<String, u64>,
}

impl Renewals {
    /// Watches by a command that prints a line for every change.
    pub(crate) fn watch(command: &mut Command, read: fn(&str) -> Option<Beat>) -> std::io::Result<Renewals> {
        let mut watcher = Voices::new()?;
        watcher.start(command)?;
        Ok(Renewals { watcher, read, latest: None, seen: BTreeMap::new() })
    }

    /// The current holder of the lease. Waits until it has seen a renewal.
    pub(crate) fn holder(&mut self) -> std::io::Result<String> {
        self.catch_up();
        while self.latest.is_none() {
            let said = self.watcher.next(HANG, "no renewal was seen")?;
            self.take(&said.line, said.heard);
        }
        Ok(self.latest.as_ref().map(|(holder, _)| holder.clone()).unwrap_or_default())
    }

    /// When the lease of this holder was last renewed.
    pub(crate) fn last_of(&mut self, holder: &str) -> std::io::Result<u64> {
        self.catch_up();
        let seen = self.seen.get(holder).copied();
        seen.ok_or_else(|| std::io::Error::other(format!("no renewal by {holder} was seen")))
    }

    fn catch_up(&mut self) {
        let said: Vec<_> = self.watcher.so_far().collect();
        for said in said {
            self.take(&said.line, said.heard);
        }
    }

    fn take(&mut self, line: &str, heard: u64) {
        let Some(beat) = (self.read)(line) else { return };
        // A change of something else is no renewal.
        if self.latest.as_ref() != Some(&beat) {
            self.seen.insert(beat.0.clone(), heard);
            self.latest = Some(beat);
        }
    }
}

/// Two of Baton's candidates, and who watches them.
pub(crate) struct Ours {
    runs: Runs,
    renewals: Renewals,
    ttl: Duration,
}

impl Ours {
    /// Both are in line when it returns. `watch` begins to watch their election.
    pub(crate) fn start(
        terms: Terms<'_>,
        ttl: Duration,
        watch: impl FnOnce() -> std::io::Result<Renewals>,
    ) -> std::io::Result<Ours> {
        let mut runs = Runs::start(terms, tempfile::tempdir()?)?;
        runs.began_after(0)?;
        let renewals = watch()?;
        std::thread::sleep(ttl);
        Ok(Ours { runs, renewals, ttl })
    }

    /// One crash, anywhere between two renewals: Baton renews after a third of the lease.
    pub(crate) fn crash(&mut self) -> std::io::Result<Overhead> {
        std::thread::sleep(random(self.ttl / 3));
        // A leadership that has just changed by itself is let settle, and told of in the table.
        while self.runs.changed_unasked()? {
            std::thread::sleep(self.ttl + random(self.ttl / 3));
        }
        let killed = self.runs.kill_run_and_warden()?;
        let holder = self.renewals.holder()?;
        let leads = self.runs.began_after(killed)?;
        let lease_end = self.renewals.last_of(&holder)? + nanos(self.ttl);
        self.runs.spawn()?;
        Ok(Overhead { leads, lease_end })
    }

    /// The spread of what was measured, in words.
    pub(crate) fn spread(&self, crashes: &mut Crashes) -> String {
        let lost = match self.runs.unasked() {
            0 => String::new(),
            times => format!(", {times} LOST without a crash"),
        };
        format!("{}{lost}", crashes.spread())
    }
}

/// How one crash went, on the boot-time clock.
pub(crate) struct Overhead {
    /// When the successor led.
    pub(crate) leads: u64,
    /// When the dead one's lease had ended.
    pub(crate) lease_end: u64,
}

/// The overheads of one side.
#[derive(Default)]
pub(crate) struct Crashes {
    pub(crate) values: Vec<Duration>,
    /// Successors that led before the lease had ended, as far as the watcher can tell. They count as no overhead.
    early: usize,
}

impl Crashes {
    pub(crate) fn add(&mut self, overhead: &Overhead) {
        self.early += usize::from(overhead.leads < overhead.lease_end);
        self.values.push(Duration::from_nanos(overhead.leads.saturating_sub(overhead.lease_end)));
    }

    /// Those of another round too.
    #[cfg(feature = "etcd")]
    pub(crate) fn extend(&mut self, other: Crashes) {
        self.early += other.early;
        self.values.extend(other.values);
    }

    /// How many successors were early.
    #[cfg(feature = "etcd")]
    pub(crate) fn early(&self) -> usize {
        self.early
    }

    /// The spread, in words.
    pub(crate) fn spread(&mut self) -> String {
        let early = if self.early > 0 { format!(", {} EARLY", self.early) } else { String::new() };
        format!("{}{early}", spread(&mut self.values))
    }
}

/// The spread of some durations, in words.
pub(crate) fn spread(values: &mut [Duration]) -> String {
    let [least, half, most] = [0.0, 0.5, 1.0].map(|p| short(percentile(values, p)));
    format!("{least} · {half} · {most} over {}", values.len())
}

/// As the stamps count.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A name that no other run uses.
pub(crate) fn unique() -> String {
    let now = baton_store::boot::now().as_nanos();
    format!("bench-{now:x}-{:x}", std::process::id())
}

/// What `scripts/services` says about a server.
pub(crate) fn told(variable: &str) -> std::io::Result<String> {
    std::env::var(variable).map_err(|_| {
        std::io::Error::other(format!("{variable} is not set; scripts/bench starts the servers and sets it"))
    })
}

/// Carries out a tool's command, which must succeed, within a bound.
pub(crate) fn carry_out(command: &mut Command) -> std::io::Result<()> {
    let mut child = command.stdout(std::process::Stdio::null()).spawn()?;
    let begun = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(std::io::Error::other(format!("{command:?}: {status}"))),
            None if begun.elapsed() > HANG => {
                child.kill()?;
                child.wait()?;
                return Err(std::io::Error::other(format!("{command:?} did not end")));
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// The baton command under test.
pub(crate) fn terms<'a>(baton: &'a Path, store: &str, lasts: Option<Duration>) -> Terms<'a> {
    Terms { baton, store: store.to_string(), ttl: "2s", lasts }
}
