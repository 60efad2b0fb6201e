//! Beside client-go's leaderelection at its defaults (lease 15 s, renew deadline 10 s, retry period 2 s), on the same
//! apiserver; ours with leases of 2 s. See [`crate::crashes`] for what is measured.
//!
//! The overhead does not depend on the length of the lease: client-go's comes from looking every two to four seconds, whatever
//! the lease, and both are measured from where their own lease has ended.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use baton_store::boot;

use crate::crashes::{Beat, Crashes, Ours, Overhead, Renewals, carry_out, nanos, terms, told, unique};
use crate::figures::{Figure, percentile};
use crate::load::{Busy, random};
use crate::peer_etcd::journal;
use crate::runs::ELECTION;
use crate::voices::{Said, Voices};

const TTL: Duration = Duration::from_secs(2);
const CLIENT_GO_TTL: Duration = Duration::from_secs(15);
/// Between two renewals of client-go's: its retry period.
const CLIENT_GO_RENEWS: Duration = Duration::from_secs(2);
/// Rounds of client-go's: each takes more than its lease.
const ROUNDS: usize = 8;
/// Rounds of ours before each of them: a new candidate of client-go's gets in line meanwhile.
const OURS: usize = 3;
/// The time that a new candidate of ours is given to get in line.
const IN_LINE: Duration = Duration::from_millis(1_500);
/// The Lease of client-go's.
const PEER: &str = "peer";
/// How long anything is waited for: a bound on a hang.
const HANG: Duration = Duration::from_secs(60);

/// Where the apiserver is, and a namespace of our own, which is deleted when this is dropped.
struct Cluster {
    kubeconfig: String,
    kubectl: String,
    elector: String,
    namespace: String,
}

impl Cluster {
    fn find() -> std::io::Result<Cluster> {
        let cluster = Cluster {
            kubeconfig: told("BATON_TEST_KUBECONFIG")?,
            kubectl: told("BATON_TEST_KUBECTL")?,
            elector: told("BATON_TEST_CLIENT_GO_ELECTOR")?,
            namespace: unique(),
        };
        carry_out(cluster.kubectl().args(["create", "namespace", &cluster.namespace]))?;
        Ok(cluster)
    }

    fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.args(["--kubeconfig", &self.kubeconfig]);
        command
    }

    fn store(&self) -> String {
        format!("k8s://{}?kubeconfig={}", self.namespace, self.kubeconfig)
    }

    fn renewals(&self, lease: &str) -> std::io::Result<Renewals> {
        let mut command = self.kubectl();
        command.args(["--namespace", &self.namespace, "get", "leases", "--watch-only"]);
        command.args(["--field-selector", &format!("metadata.name={lease}")]);
        command.args(["--output", r#"jsonpath={.spec.holderIdentity} {.spec.renewTime}{"\n"}"#]);
        Renewals::watch(&mut command, beat)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let own = ["--namespace", &self.namespace];
        let _ = carry_out(self.kubectl().args(own).args([
            "delete",
            "leases,configmaps",
            "--all",
            "--wait=false",
        ]));
        let _ = carry_out(self.kubectl().args(["delete", "namespace", &self.namespace, "--wait=false"]));
    }
}

fn beat(line: &str) -> Option<Beat> {
    let (holder, renewed) = line.split_once(' ')?;
    (!holder.is_empty() && !renewed.is_empty()).then(|| (holder.to_string(), renewed.to_string()))
}

/// All of it.
pub(crate) fn measure(baton: &Path) -> std::io::Result<Vec<Figure>> {
    let cluster = Cluster::find()?;
    let mut peers = ClientGo::start(&cluster)?;
    let mut ours = Ours::start(terms(baton, &cluster.store(), None), TTL, || cluster.renewals(ELECTION))?;
    let (mut mine, mut theirs, mut busy) = (Crashes::default(), Crashes::default(), Busy::default());
    for _ in 0..ROUNDS {
        for _ in 0..OURS {
            std::thread::sleep(IN_LINE);
            mine.add(&busy.during(|| ours.crash())?);
        }
        theirs.add(&busy.during(|| peers.crash())?);
    }
    let ratio = |what: &str, p: f64, mine: &mut Crashes, theirs: &mut Crashes| {
        Figure::ratio(what, percentile(&mut mine.values, p), percentile(&mut theirs.values, p), 0.1)
    };
    Ok(vec![
        ratio("kubernetes: crash past the lease, p50, beside client-go's", 0.5, &mut mine, &mut theirs),
        ratio("kubernetes: crash past the lease, worst, beside client-go's", 1.0, &mut mine, &mut theirs),
        Figure::note("  least · p50 · most, baton run, lease 2 s", ours.spread(&mut mine)),
        Figure::note("  least · p50 · most, client-go, lease 15 s", theirs.spread()),
        Figure::note("  rounds with the cores over 30 % busy", busy.count()),
    ])
}

/// Processes that campaign by client-go, and who watches them.
struct ClientGo<'a> {
    cluster: &'a Cluster,
    voices: Voices,
    renewals: Renewals,
    leader: usize,
}

impl ClientGo<'_> {
    fn start(cluster: &Cluster) -> std::io::Result<ClientGo<'_>> {
        let renewals = cluster.renewals(PEER)?;
        let mut peers = ClientGo { cluster, voices: Voices::new()?, renewals, leader: 0 };
        peers.spawn()?;
        peers.spawn()?;
        peers.leads_after(0)?;
        Ok(peers)
    }

    fn spawn(&mut self) -> std::io::Result<()> {
        let identity = identity(self.voices.next_number());
        let mut command = Command::new(&self.cluster.elector);
        command.args(["--kubeconfig", &self.cluster.kubeconfig, "--namespace", &self.cluster.namespace]);
        // The defaults of the elector are client-go's.
        command.args(["--lease", PEER, "--identity", &identity]);
        self.voices.start(&mut command).map(|_| ())
    }

    /// Waits until one says that it leads since this moment; returns when it began.
    fn leads_after(&mut self, moment: u64) -> std::io::Result<u64> {
        let begun = Instant::now();
        while begun.elapsed() < HANG {
            let said = self.voices.next(HANG, "no candidate of client-go's led")?;
            if let Some(("start", at, _)) = journal(&said.line) {
                self.leader = said.who;
                if at > moment {
                    return Ok(at);
                }
            }
        }
        Err(std::io::Error::other("no candidate of client-go's led in time"))
    }

    /// One crash, anywhere between two renewals.
    fn crash(&mut self) -> std::io::Result<Overhead> {
        std::thread::sleep(random(CLIENT_GO_RENEWS));
        let said: Vec<Said> = self.voices.so_far().collect();
        let mut started = said.iter().filter(|said| matches!(journal(&said.line), Some(("start", ..))));
        let dead = started.next_back().map_or(self.leader, |said| said.who);
        let killed = boot::now().as_nanos();
        self.voices.kill(dead)?;
        let leads = self.leads_after(killed)?;
        let lease_end = self.renewals.last_of(&identity(dead))? + nanos(CLIENT_GO_TTL);
        self.spawn()?;
        Ok(Overhead { leads, lease_end })
    }
}

fn identity(number: usize) -> String {
    format!("peer-{number}")
}
