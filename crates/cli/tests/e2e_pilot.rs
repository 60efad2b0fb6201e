//! `baton peer` over a real Pilot network: three daemons on this machine, elections among their members.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use baton::store::conformance::free_port;
use serde_json::Value;

use crate::support::test_stores::at;
use crate::support::{Done, MARK, World, finish, until};

const MEMBERS: [u16; 3] = [1, 2, 3];
const GROUP: &str = "fleet";

/// What the services give.
struct Programs {
    registry: String,
    beacon: String,
    pilotctl: String,
    daemon: String,
}

impl Programs {
    fn found() -> Option<Programs> {
        Some(Programs {
            registry: at("BATON_TEST_PILOT_REGISTRY")?,
            beacon: at("BATON_TEST_PILOT_BEACON")?,
            pilotctl: at("BATON_TEST_PILOTCTL")?,
            daemon: at("BATON_TEST_PILOT_DAEMON")?,
        })
    }
}

/// Three Pilot nodes, with a member of the group on each.
struct Fleet<'a> {
    world: &'a World,
    programs: Programs,
    /// Where each daemon has its tunnel.
    ports: [u16; 3],
    daemons: [Option<Child>; 3],
    members: [Option<Child>; 3],
    addresses: [String; 3],
}

impl Fleet<'_> {
    fn new(world: &World, programs: Programs) -> Fleet<'_> {
        let ports = MEMBERS.map(|_| free_port());
        let none = || MEMBERS.map(|_| None);
        let addresses = MEMBERS.map(|_| String::new());
        let mut fleet = Fleet { world, programs, ports, daemons: none(), members: none(), addresses };
        for member in MEMBERS {
            fleet.start_daemon(member);
            fleet.addresses[at_index(member)] = fleet.info(member)["address"].as_str().unwrap().to_string();
        }
        fleet
    }

    fn file(&self, member: u16, name: &str) -> PathBuf {
        self.world.file(&format!("{member}.{name}"))
    }

    fn socket(&self, member: u16) -> String {
        self.file(member, "sock").display().to_string()
    }

    /// A Pilot program of one node: it sees that node's folders only, and no server but ours.
    fn pilot(&self, member: u16, program: &str) -> Command {
        let home = self.file(member, "home");
        fs::create_dir_all(&home).unwrap();
        let mut command = Command::new(program);
        command
            .env("HOME", home)
            .env("PILOT_REGISTRY", &self.programs.registry)
            .env("PILOT_SOCKET", self.socket(member))
            .env("PILOT_APPSTORE_CATALOG_URL", "http://127.0.0.1:9/")
            .env(MARK, self.world.mark())
            .stdin(Stdio::null());
        command
    }

    fn start_daemon(&mut self, member: u16) {
        let index = at_index(member);
        let place = format!("127.0.0.1:{}", self.ports[index]);
        let log = File::options().create(true).append(true).open(self.file(member, "daemon.log")).unwrap();
        let mut command = self.pilot(member, &self.programs.daemon);
        command.args(["-registry", &self.programs.registry, "-beacon", &self.programs.beacon]);
        command.args(["-listen", &place, "-endpoint", &place, "-socket", &self.socket(member)]);
        command.arg("-identity").arg(self.file(member, "identity.json"));
        command.args(["-email", &format!("n{member}@example.org"), "-hostname", &format!("node-{member}")]);
        command.args([
            "-public",
            "-transport",
            "udp",
            "-proxy",
            "off",
            "-telemetry-url",
            "",
            "-motd-feed-url",
            "",
        ]);
        command.args(["-no-skillinject", "-trust-auto-approve"]);
        self.daemons[index] = Some(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
        until("the daemon answers", || self.pilotctl(member, &["info"]).code == 0);
    }

    fn pilotctl(&self, member: u16, arguments: &[&str]) -> Done {
        let mut command = self.pilot(member, &self.programs.pilotctl);
        command.arg("--json").args(arguments);
        finish(command, None)
    }

    fn info(&self, member: u16) -> Value {
        self.pilotctl(member, &["info"]).expect(0).json()["data"].clone()
    }

    /// CMD notes when it begins, and that another one runs beside it: whoever lives has the lock.
    fn start_member(&mut self, algorithm: &str, member: u16) {
        let work = r#"exec 9>lock; flock -n 9 || echo "TWO AT ONCE" >>journal; echo "$BATON_TOKEN $BATON_AGENT" >>journal; exec sleep 600"#;
        let (id, data, socket) = (member.to_string(), self.data(member), self.socket(member));
        let mut arguments =
            vec!["peer", "--algorithm", algorithm, "--id", &id, "--group", GROUP, "--data", &data];
        let peers: Vec<String> =
            MEMBERS.iter().map(|n| format!("{n}={}", self.addresses[at_index(*n)])).collect();
        for peer in &peers {
            arguments.extend(["--peer", peer]);
        }
        arguments.extend(["--transport", "pilot", "--pilot-socket", &socket]);
        // A machine that stands still for seconds costs nobody its lease.
        arguments.extend(["--heartbeat", "200ms", "--timeout", "4s..6s", "--", "sh", "-c", work]);
        let log = File::options().create(true).append(true).open(self.file(member, "log")).unwrap();
        let mut command = self.world.command(&arguments);
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        self.members[at_index(member)] = Some(child);
    }

    fn data(&self, member: u16) -> String {
        self.file(member, "data").display().to_string()
    }

    fn status(&self, member: u16) -> Option<Value> {
        let done = self.world.call(&["peer", "status", "--json", "--data", &self.data(member)]);
        (done.code == 0).then(|| done.json())
    }

    /// The one that leads with a higher token than `above`, once all of these follow it.
    fn leader_among(&self, members: &[u16], above: u64) -> (u16, u64) {
        let mut found = None;
        until("they follow one leader", || {
            let views: Option<Vec<Value>> = members.iter().map(|member| self.status(*member)).collect();
            let Some(views) = views else { return false };
            let (term, leader) = (views[0]["term"].as_u64().unwrap(), views[0]["leader"].as_u64());
            let agreed = views.iter().all(|view| view["term"] == term && view["leader"].as_u64() == leader);
            let leads = |view: &&Value| view["leads"] == true;
            found = leader.map(|leader| (u16::try_from(leader).unwrap(), term));
            agreed && term > above && views.iter().filter(leads).count() == 1
        });
        found.unwrap()
    }

    /// The tokens and agents of the CMDs that began, in order.
    fn journal(&self) -> Vec<(u64, String)> {
        let text = fs::read_to_string(self.world.file("journal")).unwrap_or_default();
        assert!(!text.contains("TWO"), "{text}");
        let entry = |line: &str| {
            line.split_once(' ').map(|(token, agent)| (token.parse().unwrap(), agent.to_string()))
        };
        text.lines().filter_map(entry).collect()
    }
}

impl Drop for Fleet<'_> {
    fn drop(&mut self) {
        for child in self.members.iter_mut().chain(&mut self.daemons).flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn at_index(member: u16) -> usize {
    usize::from(member) - 1
}

fn kill(child: &mut Option<Child>) {
    let mut child = child.take().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn three_nodes_elect_fail_over_and_rejoin() {
    let Some(programs) = Programs::found() else { return };
    let world = World::folder();
    let mut fleet = Fleet::new(&world, programs);
    for member in MEMBERS {
        fleet.start_member("raft", member);
    }
    let (first, token) = fleet.leader_among(&MEMBERS, 0);
    until("its work begins", || fleet.journal() == [(token, format!("peer-{first}"))]);

    // Whoever listens on the topic hears it in the words of the skill.
    let node = fleet.info(first)["node_id"].to_string();
    let listener = MEMBERS.into_iter().find(|member| *member != first).unwrap();
    let (topic, address) = (format!("election:{GROUP}"), fleet.addresses[at_index(first)].clone());
    let heard =
        fleet.pilotctl(listener, &["subscribe", &address, &topic, "--count", "1", "--timeout", "30s"]);
    let event = heard.expect(0).json()["data"]["events"][0].clone();
    let said: Value = serde_json::from_str(event["data"].as_str().unwrap()).unwrap();
    assert_eq!(said, serde_json::json!({"type": "heartbeat", "leader": node, "term": token}));

    // The leader is killed: its CMD ends, the others elect. It comes back with its memory and follows.
    kill(&mut fleet.members[at_index(first)]);
    let others: Vec<u16> = MEMBERS.into_iter().filter(|member| *member != first).collect();
    let (second, token) = fleet.leader_among(&others, token);
    until("its work begins", || fleet.journal().last() == Some(&(token, format!("peer-{second}"))));
    fleet.start_member("raft", first);
    assert_eq!(fleet.leader_among(&MEMBERS, token - 1), (second, token), "who rejoins deposes nobody");

    // The daemon of the leader is killed: cut off, it gives up before the others elect.
    kill(&mut fleet.daemons[at_index(second)]);
    let others: Vec<u16> = MEMBERS.into_iter().filter(|member| *member != second).collect();
    let (third, token) = fleet.leader_among(&others, token);
    until("its work begins", || fleet.journal().last() == Some(&(token, format!("peer-{third}"))));
    until("it is read-only", || {
        let cut_off = fleet.status(second);
        cut_off.is_some_and(|status| status["leads"] == false && status["read_only"] == true)
    });

    // The daemon comes back, and the member is found again by itself.
    fleet.start_daemon(second);
    let (fourth, last) = fleet.leader_among(&MEMBERS, token - 1);
    until("its work begins", || fleet.journal().last() == Some(&(last, format!("peer-{fourth}"))));
    let tokens: Vec<u64> = fleet.journal().iter().map(|(token, _)| *token).collect();
    assert!(tokens.is_sorted_by(|one, next| one < next), "tokens only rise: {tokens:?}");
}

#[test]
fn every_algorithm_elects_and_fails_over() {
    let Some(programs) = Programs::found() else { return };
    let world = World::folder();
    let mut fleet = Fleet::new(&world, programs);
    for algorithm in ["paxos", "bully", "ring"] {
        for member in MEMBERS {
            fleet.start_member(algorithm, member);
        }
        let (first, term) = fleet.leader_among(&MEMBERS, 0);
        kill(&mut fleet.members[at_index(first)]);
        let others: Vec<u16> = MEMBERS.into_iter().filter(|member| *member != first).collect();
        let (second, _) = fleet.leader_among(&others, term);
        assert_ne!(first, second, "{algorithm}");
        for member in others {
            kill(&mut fleet.members[at_index(member)]);
        }
        for member in MEMBERS {
            fs::remove_dir_all(fleet.data(member)).unwrap();
        }
    }
}

#[test]
fn what_is_wrong_is_said_before_anything_runs() {
    let world = World::folder();
    let call = |arguments: &[&str]| {
        let common =
            ["peer", "--algorithm", "raft", "--id", "1", "--data", "data", "--pilot-socket", "none.sock"];
        let done = world.call(&[&common, arguments, &["--", "echo", "ran"]].concat()).expect(2);
        assert!(done.stdout.is_empty(), "CMD ran: {}", done.stdout);
        done.stderr
    };
    let (on_pilot, on_tcp) = ("1=0:0000.0000.0001", "2=127.0.0.1:7002");
    let text = call(&["--transport", "pilot", "--peer", on_pilot]);
    assert!(
        text.contains("no Pilot daemon answers at none.sock") && text.contains("hint: start it"),
        "{text}"
    );
    let text = call(&["--transport", "pilot", "--peer", on_pilot, "--peer", on_tcp]);
    assert!(text.contains("is not on the Pilot network"), "{text}");
    let text = call(&["--peer", on_pilot, "--peer", on_tcp]);
    assert!(text.contains("--transport pilot"), "{text}");
    let text = call(&["--transport", "pilot", "--peer", "1=0:0001.0000.0001"]);
    assert!(text.contains("the address is none") && text.contains("on the Pilot network"), "{text}");
}
