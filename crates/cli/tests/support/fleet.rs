//! Several `baton run` on one store, killed and stopped at random.

use std::fs::File;
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::random::Random;
use super::watcher::{Findings, Watcher};
use super::{HANG, World, exit_code, happens, processes, until};

/// What everybody wants to lead.
pub(crate) const ELECTION: &str = "fleet/chaos";
/// What the leader writes to.
pub(crate) const RESOURCE: &str = "db/orders";
/// The lease.
pub(crate) const TTL: Duration = Duration::from_secs(2);
/// How many may be stopped or dead at a time: the others are the candidates that run.
const MAX_DISTURBED: usize = 4;

/// CMD: a main process and a daemon that has left its parent, session and group write through the fence.
/// That of every other agent ignores SIGTERM.
const WORKER: &str = r#"
case "$BATON_AGENT" in *[13579]) trap '' TERM HUP INT;; esac
clock=$(date +%s) && printf '%s %s %s\n' "$BATON_TOKEN" "$BATON_AGENT" "$clock" >> "$E2E_WORLD/started"
cat > "$E2E_WORLD/daemon-$BATON_TOKEN.sh" <<'END'
trap '' TERM HUP INT
while :; do
    "$BATON" fence db/orders --token "$BATON_TOKEN" --note daemon >/dev/null 2>&1
    sleep 0.2
done
END
(setsid sh "$E2E_WORLD/daemon-$BATON_TOKEN.sh" </dev/null &)
echo "$BATON_TOKEN" > "$BATON_CHECKPOINT_FILE"
while :; do
    token=$(cat "$BATON_TOKEN_FILE")
    "$BATON" fence db/orders --election fleet/chaos --token "${token:-0}" --note main >/dev/null 2>&1
    sleep 0.05
done
"#;

/// The validator of some: it works for a second beside CMD, and so does a daemon of it, with the leader's papers. Neither obeys SIGTERM.
const VALIDATOR: &str = r#"
trap '' TERM HUP INT
export E2E_VALIDATES=1
echo "$BATON_TOKEN" >> "$E2E_WORLD/validated"
(setsid sleep 1 </dev/null >/dev/null 2>&1 &)
sleep 1
"#;

/// One `baton run`, over all its lives.
pub(crate) struct Member {
    pub(crate) agent: String,
    /// More options of its `baton run`.
    options: Vec<&'static str>,
    environment: Vec<(String, String)>,
    child: Option<Child>,
    /// What is done to it next, and when.
    next: Option<(Instant, Step)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Continue,
    Kill,
    Respawn,
}

pub(crate) struct Fleet<'a> {
    world: &'a World,
    members: Vec<Member>,
    pub(crate) kills: u32,
    pub(crate) stops: u32,
    pub(crate) stale_writes: u32,
    /// What one who was let lead at once, and gave it back, took at most while the others suffered.
    slowest: Duration,
}

/// How often the machine is measured.
const MEASURED_EVERY: Duration = Duration::from_millis(500);

/// Says when it goes, by whatever way, that it is enough.
struct EndFlag<'a>(&'a AtomicBool);

impl Drop for EndFlag<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// What a grant, and giving it back, takes at most on this machine and this store, until it is enough.
fn slowest_grant(world: &World, enough: &AtomicBool) -> Duration {
    let mut slowest = Duration::ZERO;
    while !enough.load(Ordering::Acquire) {
        let begun = Instant::now();
        world.ok(&["acquire", "gauge", "--as", "gauge"]);
        world.ok(&["release", "gauge", "--as", "gauge"]);
        slowest = slowest.max(begun.elapsed());
        std::thread::sleep(MEASURED_EVERY);
    }
    slowest
}

impl<'a> Fleet<'a> {
    /// Starts so many, the environment of each as told.
    pub(crate) fn start(
        world: &'a World,
        count: usize,
        environment: impl Fn(usize) -> Vec<(String, String)>,
    ) -> Fleet<'a> {
        Fleet::started(world, count, environment, |_| Vec::new())
    }

    /// The same, and some have a validator, some a CMD that outlives its lease, some both: whatever carries a token is work.
    pub(crate) fn start_mixed(
        world: &'a World,
        count: usize,
        environment: impl Fn(usize) -> Vec<(String, String)>,
    ) -> Fleet<'a> {
        Fleet::started(world, count, environment, |number| {
            let validates = (number % 3 == 0).then_some(["--validate", VALIDATOR]);
            let outlives = (number % 4 == 2).then_some(["--on-outage", "read-only"]);
            validates.into_iter().chain(outlives).flatten().collect()
        })
    }

    fn started(
        world: &'a World,
        count: usize,
        environment: impl Fn(usize) -> Vec<(String, String)>,
        options: impl Fn(usize) -> Vec<&'static str>,
    ) -> Fleet<'a> {
        let member = |number: usize| Member {
            agent: format!("agent-{number}"),
            options: options(number),
            environment: environment(number),
            child: None,
            next: None,
        };
        let members = (1..=count).map(member).collect();
        let mut fleet =
            Fleet { world, members, kills: 0, stops: 0, stale_writes: 0, slowest: Duration::ZERO };
        for place in 0..count {
            fleet.spawn(place);
        }
        fleet
    }

    fn spawn(&mut self, place: usize) {
        let member = &mut self.members[place];
        let ttl = format!("{}s", TTL.as_secs());
        let mut command = self.world.command(&["run", ELECTION, "--as", &member.agent, "--ttl", &ttl]);
        command.args(&member.options).args(["--", "sh", "-c", WORKER]);
        if member.options.contains(&"read-only") {
            command.env(processes::OUTLIVES, "1");
        }
        command.env("BATON", env!("CARGO_BIN_EXE_baton")).envs(member.environment.iter().cloned());
        let log = |kind: &str| -> PathBuf { self.world.file(&format!("{}.{kind}", member.agent)) };
        let append = |path: PathBuf| File::options().append(true).create(true).open(path).unwrap();
        command.stdout(append(log("out"))).stderr(append(log("err")));
        member.child = Some(command.spawn().unwrap());
        member.next = None;
    }

    /// Kills and stops at random, for this time at least and until enough has happened: a busy machine takes longer. Beside it the
    /// machine is measured.
    pub(crate) fn suffer(
        &mut self,
        watcher: &Watcher,
        random: &mut Random,
        least: Duration,
        enough_happened: impl Fn(&Fleet<'_>) -> bool,
    ) {
        let (world, enough) = (self.world, AtomicBool::new(false));
        let slowest = std::thread::scope(|scope| {
            let measured = scope.spawn(|| slowest_grant(world, &enough));
            let over = EndFlag(&enough);
            let bound = least + 3 * HANG;
            let begun = Instant::now();
            while begun.elapsed() < least || !enough_happened(self) {
                assert!(begun.elapsed() < bound, "too little happened in {bound:?}");
                self.strike(watcher, random);
            }
            drop(over);
            measured.join().unwrap()
        });
        self.slowest = self.slowest.max(slowest);
    }

    /// How long nobody may lead: a lease and a second, and what two grants took that nobody held up. A machine or a disk that stood still
    /// for that long kept the candidates waiting as well.
    pub(crate) fn longest_vacancy(&self) -> Duration {
        TTL + Duration::from_secs(1) + 2 * self.slowest
    }

    fn strike(&mut self, watcher: &Watcher, random: &mut Random) {
        std::thread::sleep(Duration::from_millis(random.between(20, 300)));
        self.carry_on();
        let disturbed = self.members.iter().filter(|member| member.next.is_some()).count();
        let findings = watcher.findings();
        if disturbed < MAX_DISTURBED {
            self.disturb(&findings, random);
        }
        if findings.epoch > 1 && random.one_in(8) {
            self.write_with_an_old_token(findings.epoch - 1);
        }
    }

    /// Does what was due: continues the stopped, kills some of them, begins new lives.
    fn carry_on(&mut self) {
        for place in 0..self.members.len() {
            let member = &mut self.members[place];
            let Some((_, turn)) = member.next.filter(|(at, _)| Instant::now() >= *at) else { continue };
            match turn {
                Step::Continue => {
                    processes::signal(member.child.as_ref().unwrap().id(), Signal::CONT);
                    member.next = None;
                }
                Step::Kill => {
                    self.kill(place);
                    self.members[place].next = Some((Instant::now(), Step::Respawn));
                }
                Step::Respawn => self.spawn(place),
            }
        }
    }

    fn disturb(&mut self, findings: &Findings, random: &mut Random) {
        let leads = |member: &Member| findings.leader().is_some_and(|tree| tree.agent == member.agent);
        let fit = |place: &usize| self.members[*place].next.is_none();
        let fit: Vec<usize> = (0..self.members.len()).filter(fit).collect();
        let leader = fit.iter().copied().find(|place| leads(&self.members[*place]));
        let place = leader.filter(|_| random.one_in(2)).unwrap_or_else(|| *random.pick(&fit));
        if random.one_in(2) {
            self.kill(place);
            let pause = Duration::from_millis(random.between(0, 1_000));
            self.members[place].next = Some((Instant::now() + pause, Step::Respawn));
        } else {
            self.stops += 1;
            processes::signal(self.members[place].child.as_ref().unwrap().id(), Signal::STOP);
            let pause = Duration::from_millis(random.between(50, 4_500));
            let turn = if random.one_in(4) { Step::Kill } else { Step::Continue };
            self.members[place].next = Some((Instant::now() + pause, turn));
        }
    }

    fn kill(&mut self, place: usize) {
        self.kills += 1;
        let mut child = self.members[place].child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// What a leader of the past would do on waking up.
    fn write_with_an_old_token(&mut self, token: u64) {
        let token = token.to_string();
        let call = self.world.call(&["fence", RESOURCE, "--election", ELECTION, "--token", &token]);
        call.expect(5);
        self.stale_writes += 1;
    }

    /// Everything runs again, and somebody leads.
    pub(crate) fn heal(&mut self, watcher: &Watcher) {
        for place in 0..self.members.len() {
            match self.members[place].next.take() {
                Some((_, Step::Respawn)) => self.spawn(place),
                Some((_, Step::Continue | Step::Kill)) => {
                    processes::signal(self.members[place].child.as_ref().unwrap().id(), Signal::CONT);
                }
                None => {}
            }
        }
        let began = watcher.findings().epoch;
        until("somebody leads after all is healed", || watcher.findings().leader().is_some());
        assert!(watcher.findings().epoch >= began);
    }

    /// Asks all to stop, and fails if one does not or leaves something behind.
    pub(crate) fn stop(mut self) {
        for member in &self.members {
            processes::signal(member.child.as_ref().unwrap().id(), Signal::TERM);
        }
        for member in &mut self.members {
            exit_code(member.child.as_mut().unwrap());
        }
        let mut left = Vec::new();
        let gone = happens(HANG, || {
            left = processes::of_world(self.world.mark());
            left.is_empty()
        });
        assert!(gone, "left behind: {left:?}");
    }
}

/// The fence's own log: numbered without a gap, and its tokens never go back. Returns the tokens.
pub(crate) fn check_log(world: &World) -> Vec<u64> {
    let entries = world.ok(&["fence", RESOURCE, "--log", "--json"]).jsons();
    let numbers: Vec<u64> = entries.iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
    let tokens: Vec<u64> = entries.iter().map(|entry| entry["token"].as_u64().unwrap()).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{numbers:?}");
    assert!(tokens.is_sorted(), "{tokens:?}");
    tokens
}

/// Every change of leader has one entry, with a rising epoch.
pub(crate) fn check_history(world: &World) -> Vec<serde_json::Value> {
    let entries = world.ok(&["history", ELECTION, "--limit", "100000", "--json"]).jsons();
    let epochs: Vec<u64> = entries.iter().map(|entry| entry["epoch"].as_u64().unwrap()).collect();
    assert!(epochs.is_sorted_by(|a, b| a < b), "{epochs:?}");
    entries
}
