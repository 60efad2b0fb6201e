//! An etcd of three members, each in a network namespace of its own, to be killed and cut off.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::World;
use super::test_stores::{at, tool};

/// A member and the namespace that it lives in.
pub(crate) struct Member {
    number: u8,
    child: Option<Child>,
}

/// Three members on a bridge. Removed when it is dropped.
pub(crate) struct Cluster {
    id: String,
    net: u8,
    server: String,
    folder: PathBuf,
    pub(crate) members: Vec<Member>,
}

impl Cluster {
    /// Builds it; none if this machine does not let us, said loudly.
    pub(crate) fn start(world: &World) -> Option<Cluster> {
        let server = at("BATON_TEST_ETCD_SERVER")?;
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = std::process::id() * 2 + COUNT.fetch_add(1, Ordering::Relaxed);
        let attempt = format!("bp{}", count % 100_000);
        let mut probe = Command::new("ip");
        probe.args(["link", "add", &attempt, "type", "bridge"]).stderr(Stdio::null());
        if !probe.status().is_ok_and(|status| status.success()) {
            let ci = std::env::var("CI").is_ok_and(|value| value == "true");
            assert!(!ci, "network namespaces cannot be made here, and CI skips nothing");
            eprintln!("SKIPPED: network namespaces need root and `ip`");
            return None;
        }
        ip(&format!("link del {attempt}"));
        let net = u8::try_from(count % 200).unwrap() + 20;
        let mut cluster = Cluster {
            id: format!("bt{}", count % 100_000),
            net,
            server,
            folder: world.file("etcd"),
            members: Vec::new(),
        };
        std::fs::create_dir(&cluster.folder).unwrap();
        let (id, bridge) = (cluster.id.clone(), format!("{}b", cluster.id));
        ip(&format!("link add {bridge} type bridge"));
        ip(&format!("addr add 10.213.{net}.254/24 dev {bridge}"));
        ip(&format!("link set {bridge} up"));
        for number in 1..=3_u8 {
            cluster.members.push(Member { number, child: None });
            let (name, outside) = (format!("{id}n{number}"), format!("{id}v{number}"));
            ip(&format!("netns add {name}"));
            ip(&format!("link add {outside} type veth peer name eth0 netns {name}"));
            ip(&format!("link set {outside} master {bridge} up"));
            ip(&format!("-n {name} addr add 10.213.{net}.{number}/24 dev eth0"));
            ip(&format!("-n {name} link set eth0 up"));
            ip(&format!("-n {name} link set lo up"));
        }
        for number in 1..=3 {
            cluster.run(number);
        }
        Some(cluster)
    }

    fn host(&self, number: u8) -> String {
        format!("10.213.{}.{number}", self.net)
    }

    /// All client addresses, with commas between them.
    pub(crate) fn endpoints(&self) -> String {
        (1..=3).map(|number| format!("{}:2379", self.host(number))).collect::<Vec<_>>().join(",")
    }

    /// Starts a member, again on what it wrote before.
    pub(crate) fn run(&mut self, number: u8) {
        let peer = |number: u8| format!("http://{}:2380", self.host(number));
        let peers: Vec<String> = (1..=3).map(|number| format!("m{number}={}", peer(number))).collect();
        let client = format!("http://{}:2379", self.host(number));
        let log = self.folder.join(format!("m{number}.log"));
        let log = File::options().append(true).create(true).open(log).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{}n{number}", self.id), &self.server]);
        command
            .args(["--name", &format!("m{number}"), "--data-dir"])
            .arg(self.folder.join(format!("m{number}")));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer(number), "--initial-advertise-peer-urls", &peer(number)]);
        command.args([
            "--initial-cluster",
            &peers.join(","),
            "--heartbeat-interval",
            "50",
            "--election-timeout",
            "500",
        ]);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.member(number).child = Some(command.spawn().unwrap());
    }

    fn member(&mut self, number: u8) -> &mut Member {
        self.members.iter_mut().find(|member| member.number == number).unwrap()
    }

    /// As a power cut would.
    pub(crate) fn kill(&mut self, number: u8) {
        let mut child = self.member(number).child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Cuts a member off from the others and from all clients, or joins it again.
    pub(crate) fn cut(&self, number: u8, off: bool) {
        ip(&format!("link set {}v{number} {}", self.id, if off { "down" } else { "up" }));
    }

    /// The member that leads etcd itself.
    pub(crate) fn leader(&self) -> u8 {
        let etcdctl = at("BATON_TEST_ETCDCTL").unwrap();
        for _ in 0..100 {
            for number in 1..=3 {
                let endpoint = format!("{}:2379", self.host(number));
                let mut command = Command::new(&etcdctl);
                command.args([
                    "--endpoints",
                    &endpoint,
                    "--command-timeout",
                    "2s",
                    "endpoint",
                    "status",
                    "-w",
                    "fields",
                ]);
                let done = command.output().unwrap();
                let text = String::from_utf8_lossy(&done.stdout).into_owned();
                let field = |name: &str| {
                    let line = text.lines().find(|line| line.starts_with(&format!("\"{name}\"")))?;
                    Some(line.rsplit(' ').next()?.to_string())
                };
                if let (Some(leader), Some(member)) = (field("Leader"), field("MemberID"))
                    && leader == member
                    && leader != "0"
                {
                    return number;
                }
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        panic!("etcd has no leader");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.members.iter_mut().filter_map(|member| member.child.as_mut()) {
            let _ = child.kill();
            let _ = child.wait();
        }
        for member in &self.members {
            let _ =
                Command::new("ip").args(["netns", "del", &format!("{}n{}", self.id, member.number)]).status();
        }
        let _ = Command::new("ip").args(["link", "del", &format!("{}b", self.id)]).status();
    }
}

#[track_caller]
fn ip(words: &str) {
    tool("ip", &words.split(' ').collect::<Vec<_>>());
}
