//! An etcd of one test's own.

use std::process::{Child, Command, Stdio};

use baton_store::conformance::free_port;
use rustix::process::{Pid, Signal, kill_process};

use super::{etcdctl, needed, until};

/// Members that can be killed, stopped and started again. They end with the value.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    scheme: &'static str,
    flags: Vec<String>,
    /// What etcd's own tool must be told to be let in.
    credentials: Vec<String>,
    members: Vec<Member>,
}

struct Member {
    client: String,
    peer: String,
    child: Option<Child>,
}

impl Server {
    /// So many members, ready to serve; none if there is no etcd on this machine.
    pub(crate) async fn start(count: usize, flags: &[&str]) -> Option<Server> {
        let flags = flags.iter().map(ToString::to_string).collect();
        Server::start_as(count, "http", flags, Vec::new()).await
    }

    /// One member that lets in only who shows a certificate: `server.crt` beside the authority's.
    pub(crate) async fn start_with_certificates(ca: &str) -> Option<Server> {
        let (cert, key) = (ca.replace("ca.crt", "server.crt"), ca.replace("ca.crt", "server.key"));
        let option = |name: &str, file: &str| format!("--{name}={file}");
        let flags = vec![
            option("cert-file", &cert),
            option("key-file", &key),
            option("trusted-ca-file", ca),
            "--client-cert-auth".to_string(),
        ];
        let credentials = vec![option("cacert", ca), option("cert", &cert), option("key", &key)];
        Server::start_as(1, "https", flags, credentials).await
    }

    async fn start_as(
        count: usize,
        scheme: &'static str,
        flags: Vec<String>,
        credentials: Vec<String>,
    ) -> Option<Server> {
        let (_, _) = (needed("BATON_TEST_ETCD_SERVER")?, needed("BATON_TEST_ETCDCTL")?);
        let member = || Member { client: free_address(), peer: free_address(), child: None };
        let mut server = Server {
            folder: tempfile::tempdir().unwrap(),
            scheme,
            flags,
            credentials,
            members: (0..count).map(|_| member()).collect(),
        };
        for index in 0..count {
            server.spawn(index);
        }
        server.ready().await;
        Some(server)
    }

    /// `host:port` of all members, with commas between them.
    pub(crate) fn hosts(&self) -> String {
        self.members.iter().map(|member| member.client.as_str()).collect::<Vec<_>>().join(",")
    }

    /// `host:port` of one.
    pub(crate) fn host(&self, index: usize) -> &str {
        &self.members[index].client
    }

    /// Which of them is etcd's leader.
    pub(crate) fn leader(&self) -> usize {
        let text = etcdctl(&self.hosts(), &["endpoint", "status", "-w", "json"]);
        let answers: serde_json::Value = serde_json::from_str(&text).unwrap();
        let leads = |answer: &&serde_json::Value| {
            answer["Status"]["leader"] == answer["Status"]["header"]["member_id"]
        };
        let leader = answers.as_array().unwrap().iter().find(leads).unwrap()["Endpoint"].as_str().unwrap();
        self.members.iter().position(|member| leader.ends_with(&member.client)).unwrap()
    }

    /// Starts a member, for the first time or again.
    pub(crate) fn spawn(&mut self, index: usize) {
        let cluster: Vec<String> = self
            .members
            .iter()
            .enumerate()
            .map(|(i, member)| format!("m{i}=http://{}", member.peer))
            .collect();
        let member = &self.members[index];
        let (client, peer) =
            (format!("{}://{}", self.scheme, member.client), format!("http://{}", member.peer));
        let log = std::fs::File::create(self.folder.path().join(format!("m{index}.log"))).unwrap();
        let child = Command::new(std::env::var("BATON_TEST_ETCD_SERVER").unwrap())
            .args(["--name", &format!("m{index}"), "--initial-cluster", &cluster.join(",")])
            .args(["--data-dir", self.folder.path().join(format!("m{index}")).to_str().unwrap()])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(&self.flags)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.members[index].child = Some(child);
    }

    /// Waits until all members serve.
    pub(crate) async fn ready(&self) {
        for member in &self.members {
            until("an etcd of our own", || async {
                let tool = std::env::var("BATON_TEST_ETCDCTL").unwrap();
                let mut command = tokio::process::Command::new(tool);
                command.args(&self.credentials).args(["--command-timeout=2s", "--endpoints"]);
                command.args([&format!("{}://{}", self.scheme, member.client), "endpoint", "health"]);
                command.output().await.unwrap().status.success().then_some(())
            })
            .await;
        }
    }

    /// Kills a member outright.
    pub(crate) fn kill(&mut self, index: usize) {
        if let Some(mut child) = self.members[index].child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stops a member: it says nothing, and its connections stay open.
    pub(crate) async fn stop(&self, index: usize) {
        let pid = self.signal(index, Signal::STOP);
        until("all of its threads stop", || async {
            threads(pid).iter().all(|state| state == "T").then_some(())
        })
        .await;
    }

    /// Lets a stopped member go on.
    pub(crate) fn go_on(&self, index: usize) {
        let _ = self.signal(index, Signal::CONT);
    }

    fn signal(&self, index: usize, signal: Signal) -> i32 {
        let pid = i32::try_from(self.members[index].child.as_ref().unwrap().id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
        pid
    }
}

/// The states of all threads of a process, as one letter each.
fn threads(pid: i32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
    // The name comes before, in parentheses.
    stats.map(|stat| stat.rsplit_once(") ").unwrap().1[..1].to_string()).collect()
}

impl Drop for Server {
    fn drop(&mut self) {
        for index in 0..self.members.len() {
            self.kill(index);
        }
    }
}

/// An address that nobody listens at, and that is given to nobody.
pub(crate) fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}
