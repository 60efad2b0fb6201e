//! A group of `baton peer` processes, and a guard that knows if two of their CMDs ever lived at once.
//!
//! The guard is a file that each CMD locks: the kernel lets go of it when the last process of the CMD's tree is gone. A CMD that
//! finds it locked writes that down. So not a moment is missed, however short.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;
use serde_json::Value;

use super::{HANG, World, baton, happens, processes, until};

/// Takes the guard, says so, and does not obey SIGTERM; nor does what it started.
pub(crate) const CMD: &str = r#"
exec 9>>"$GUARD"
flock -n 9 || echo "$BATON_AGENT ${BATON_TOKEN-none} found the guard taken" >> "$OVERLAPS"
trap '' TERM
sleep 100000 &
echo "$BATON_AGENT ${BATON_TOKEN-none}" >> "$JOURNAL"
wait
"#;

/// A rhythm that a busy machine can keep, and that a test can wait for.
pub(crate) const RHYTHM: [&str; 4] = ["--heartbeat", "150ms", "--timeout", "900ms..1800ms"];

/// One in which a machine that stands still for seconds costs nobody its lease: for a member that must lead
/// from one step of a test to the next.
pub(crate) const STEADY: [&str; 4] = ["--heartbeat", "150ms", "--timeout", "4s..6s"];

/// How a member is started.
#[derive(Clone)]
pub(crate) struct Member {
    /// Where the others find it, as each of them is told: by the id of the member that dials, else by 0.
    pub(crate) addresses: BTreeMap<u16, String>,
    pub(crate) listen: String,
    pub(crate) extra: Vec<String>,
    /// What comes before the command.
    pub(crate) prefix: Vec<String>,
    pub(crate) witness: bool,
}

pub(crate) struct Peers<'a> {
    world: &'a World,
    pub(crate) algorithm: String,
    members: BTreeMap<u16, Member>,
    running: BTreeMap<u16, Child>,
    /// The list is a file.
    pub(crate) file: Option<PathBuf>,
    pub(crate) rhythm: [&'static str; 4],
}

/// A loopback address that no other test has: each has a net of its own in 127.0.0.0/8.
pub(crate) fn net() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = std::process::id().wrapping_mul(16).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
    format!("127.{}.{}", 1 + number / 250 % 250, 1 + number % 250)
}

impl<'a> Peers<'a> {
    /// Members 1 to `count`, on addresses of their own; none runs yet.
    pub(crate) fn new(world: &'a World, algorithm: &str, count: u16) -> Peers<'a> {
        let net = net();
        let mut peers = Peers {
            world,
            algorithm: algorithm.to_string(),
            members: BTreeMap::new(),
            running: BTreeMap::new(),
            file: None,
            rhythm: RHYTHM,
        };
        for id in 1..=count {
            peers.know(id, &format!("{net}.{id}:7001"));
        }
        peers
    }

    /// There is such a member; those that are started from here on are told.
    pub(crate) fn know(&mut self, id: u16, address: &str) {
        let member = Member {
            addresses: BTreeMap::from([(0, address.to_string())]),
            listen: address.to_string(),
            extra: Vec::new(),
            prefix: Vec::new(),
            witness: false,
        };
        self.members.insert(id, member);
    }

    pub(crate) fn member(&mut self, id: u16) -> &mut Member {
        self.members.get_mut(&id).unwrap()
    }

    pub(crate) fn address(&self, id: u16) -> String {
        self.members[&id].addresses[&0].clone()
    }

    pub(crate) fn data(&self, id: u16) -> PathBuf {
        self.world.file(&format!("data-{id}"))
    }

    pub(crate) fn log(&self, id: u16) -> String {
        fs::read_to_string(self.world.file(&format!("log-{id}"))).unwrap_or_default()
    }

    /// A member's command line, with this CMD.
    pub(crate) fn command(&self, id: u16, cmd: &[&str]) -> Command {
        let member = &self.members[&id];
        let template = self.world.command(&[]);
        let mut words: Vec<String> = member.prefix.clone();
        words.push(baton().get_program().to_str().unwrap().to_string());
        words
            .extend(["peer", "--algorithm", &self.algorithm, "--listen", &member.listen].map(str::to_string));
        words.extend(["--id".to_string(), id.to_string()]);
        match &self.file {
            Some(file) => words.extend(["--members".to_string(), file.display().to_string()]),
            None => {
                for (number, other) in &self.members {
                    let address = other.addresses.get(&id).unwrap_or(&other.addresses[&0]);
                    let witness = if other.witness { ",witness" } else { "" };
                    words.extend(["--peer".to_string(), format!("{number}={address}{witness}")]);
                }
            }
        }
        words.extend(["--data".to_string(), self.data(id).display().to_string()]);
        words.extend(self.rhythm.map(str::to_string));
        words.extend(member.extra.clone());
        if member.witness {
            words.push("--witness".to_string());
        } else {
            words.push("--".to_string());
            words.extend(cmd.iter().map(ToString::to_string));
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(self.world.path());
        for (name, value) in template.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .env("GUARD", self.world.file("guard"))
            .env("OVERLAPS", self.world.file("overlaps"))
            .env("JOURNAL", self.world.file("journal"));
        command
    }

    pub(crate) fn start(&mut self, id: u16) {
        let log = fs::File::options()
            .append(true)
            .create(true)
            .open(self.world.file(&format!("log-{id}")))
            .unwrap();
        let mut command = self.command(id, &["sh", "-c", CMD]);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.running.insert(id, command.spawn().unwrap());
    }

    pub(crate) fn start_all(&mut self) {
        for id in self.members.keys().copied().collect::<Vec<_>>() {
            self.start(id);
        }
    }

    pub(crate) fn pid(&self, id: u16) -> u32 {
        self.running[&id].id()
    }

    pub(crate) fn signal(&self, id: u16, kind: Signal) {
        processes::signal(self.pid(id), kind);
    }

    /// SIGKILL to the member, not to its warden: that one ends CMD.
    pub(crate) fn kill(&mut self, id: u16) {
        let mut child = self.running.remove(&id).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGTERM, and its exit code.
    pub(crate) fn terminate(&mut self, id: u16) -> Option<i32> {
        let mut child = self.running.remove(&id).unwrap();
        processes::signal(child.id(), Signal::TERM);
        super::exit_code(&mut child)
    }

    /// Waits for it to end by itself.
    pub(crate) fn ended(&mut self, id: u16) -> Option<i32> {
        super::exit_code(&mut self.running.remove(&id).unwrap())
    }

    /// What a running member says of itself; none if it does not answer.
    pub(crate) fn status(&self, id: u16) -> Option<Value> {
        let data = self.data(id).display().to_string();
        let done = self.world.call(&["peer", "status", "--json", "--data", &data]);
        (done.code == 0).then(|| done.json())
    }

    /// What a running member says of itself, once it answers.
    #[track_caller]
    pub(crate) fn told(&self, id: u16) -> Value {
        let mut told = None;
        until(&format!("member {id} answers; {}", self.log(id)), || {
            told = self.status(id);
            told.is_some()
        });
        told.unwrap()
    }

    /// Waits until a member knows who leads: whoever that is, since a machine that stands still costs any leader its lease.
    #[track_caller]
    pub(crate) fn belongs(&self, id: u16) {
        until(&format!("member {id} knows who leads; {}", self.logs()), || {
            self.status(id).is_some_and(|status| !status["leader"].is_null() && status["read_only"] == false)
        });
    }

    /// Waits until one of these, which leads above this token, takes an order; gives who, and its token. One that has just lost its
    /// lease does not take it.
    #[track_caller]
    pub(crate) fn ordered(&self, order: &str, ids: &[u16], above: u64) -> (u16, u64) {
        let mut leader = (0, 0);
        until(&format!("a leader takes the order to {order}; {}", self.logs()), || {
            leader = self.leader_among(ids, above);
            let data = self.data(leader.0).display().to_string();
            self.world.call(&["peer", order, "--data", &data]).code == 0
        });
        leader
    }

    /// Waits until a CMD runs of a leadership that is none of the first `seen`; gives who, and its token.
    #[track_caller]
    pub(crate) fn next_run(&self, seen: usize) -> (u16, u64) {
        let mut found = None;
        until(&format!("run {seen} of CMD begins; {}", self.logs()), || {
            found = self.journal().get(seen).copied();
            found.is_some()
        });
        found.unwrap()
    }

    /// The runs of CMD so far: who, and its token; a run without one has 0.
    pub(crate) fn journal(&self) -> Vec<(u16, u64)> {
        let text = fs::read_to_string(self.world.file("journal")).unwrap_or_default();
        let run = |line: &str| {
            let (agent, token) = line.split_once(' ').unwrap();
            (agent.strip_prefix("peer-").unwrap().parse().unwrap(), token.parse().unwrap_or(0))
        };
        text.lines().filter(|line| line.contains(' ')).map(run).collect()
    }

    /// Waits until one of these leads with a CMD that runs, whose token is above this one; gives who, and its token.
    #[track_caller]
    pub(crate) fn leader_among(&self, ids: &[u16], above: u64) -> (u16, u64) {
        let mut found = None;
        let happened = happens(HANG, || {
            let last = self.journal().last().copied();
            found = last.filter(|(id, token)| {
                ids.contains(id)
                    && *token > above
                    && self
                        .status(*id)
                        .is_some_and(|status| status["leads"] == true && status["term"] == *token)
            });
            found.is_some()
        });
        assert!(happened, "none of {ids:?} leads above {above}: {:?}\n{}", self.journal(), self.logs());
        found.unwrap()
    }

    pub(crate) fn logs(&self) -> String {
        self.members.keys().map(|id| format!("--- member {id}\n{}", self.log(*id))).collect()
    }

    /// No two CMDs ever lived at once, and tokens only rose.
    #[track_caller]
    pub(crate) fn check(&self) {
        let overlaps = fs::read_to_string(self.world.file("overlaps")).unwrap_or_default();
        assert!(overlaps.is_empty(), "{overlaps}\n{:?}\n{}", self.journal(), self.logs());
        let journal = self.journal();
        for pair in journal.windows(2) {
            assert!(pair[0].1 < pair[1].1, "tokens must rise: {journal:?}\n{}", self.logs());
        }
    }
}

impl Drop for Peers<'_> {
    fn drop(&mut self) {
        for child in self.running.values_mut() {
            processes::signal(child.id(), Signal::CONT);
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
