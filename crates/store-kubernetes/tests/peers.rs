//! Baton and client-go's own leaderelection on one Lease: they respect each other.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use baton_election::lease::Margins;
use baton_election::operator::Act;
use baton_election::time::Moment;
use baton_election::{Epoch, Span};
use baton_store::boot;
use baton_store::conformance::{Required, required};

use crate::support::{Cluster, Player};

const TTL: Span = Span::secs(1);
/// What is given back needs no short lease: it outlasts a machine that stands still.
const LONG: Span = Span::secs(15);

/// A process that elects by client-go, and its journal.
struct Elector {
    child: Child,
    journal: PathBuf,
    _folder: tempfile::TempDir,
}

impl Elector {
    /// Campaigns for the Lease `e`; none if there is none.
    fn start(cluster: &Cluster, more: &[&str]) -> Option<Elector> {
        let Required::At(program) = required("BATON_TEST_CLIENT_GO_ELECTOR") else { return None };
        let Required::At(kubeconfig) = required("BATON_TEST_KUBECONFIG") else { return None };
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("journal");
        std::fs::write(&journal, "").unwrap();
        let child = Command::new(program)
            .args(["--kubeconfig", &kubeconfig, "--namespace", &cluster.namespace, "--lease", "e"])
            .args(["--identity", "go_1", "--lease-duration", "2s", "--renew-deadline", "1s"])
            .args(["--retry-period", "200ms", "--log", journal.to_str().unwrap()])
            .args(more)
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        Some(Elector { child, journal, _folder: folder })
    }

    /// When it began and ceased to lead; a term that goes on has no end.
    fn terms(&self) -> Vec<(Moment, Option<Moment>)> {
        let mut terms: Vec<(Moment, Option<Moment>)> = Vec::new();
        for line in std::fs::read_to_string(&self.journal).unwrap().lines() {
            let (what, at) = (line.split(' ').next().unwrap(), line.rsplit(' ').next().unwrap());
            let at = Moment::from_nanos(at.parse().unwrap());
            match what {
                "start" => terms.push((at, None)),
                _ => terms.last_mut().unwrap().1 = Some(at),
            }
        }
        terms
    }

    /// Waits until it has led more often than that.
    async fn leads_after(&self, terms: usize) {
        let bound = boot::now() + Span::secs(60);
        while self.terms().len() <= terms {
            assert!(boot::now() < bound, "client-go does not get the Lease");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Elector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_hand_overs_and_never_two_at_once() {
    let Some(cluster) = Cluster::get().await else { return };
    let often = ["--loop", "--hold", "150ms", "--rest", "150ms"];
    let long = ["--lease-duration", "15s", "--renew-deadline", "10s"];
    let Some(elector) = Elector::start(&cluster, &[&often[..], &long].concat()) else { return };
    let mut agent = Player::new(cluster.store().await, "e", "agent-a", LONG);
    let (mut ours, mut last) = (Vec::new(), Epoch(0));
    for _ in 0..10 {
        elector.leads_after(elector.terms().len()).await;
        agent.campaign().await;
        let began = boot::now();
        assert!(agent.epoch > last, "{} after {last}", agent.epoch);
        last = agent.epoch;
        tokio::time::sleep(Duration::from_millis(50)).await;
        agent.renew().await.unwrap();
        ours.push((began, boot::now()));
        agent.release().await.unwrap();
    }
    let theirs = elector.terms();
    assert!(theirs.len() >= 10);
    for (began, ended) in &ours {
        for (start, stop) in &theirs {
            assert!(start >= ended || stop.is_some_and(|stop| stop <= *began), "{ours:?} {theirs:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_on_either_side_is_waited_out() {
    let Some(cluster) = Cluster::get().await else { return };
    // One that a machine which stands still does not cost its Lease.
    let long = ["--lease-duration", "8s", "--renew-deadline", "6s"];
    let Some(mut elector) = Elector::start(&cluster, &long) else { return };
    elector.leads_after(0).await;
    let mut agent = Player::new(cluster.store().await, "e", "agent-a", TTL);
    assert!(agent.acquire().await.is_err(), "it is held");
    elector.child.kill().unwrap();
    let asked_at = agent.campaign().await;
    // This one crashes as well: it neither renews nor releases.
    let Some(successor) = Elector::start(&cluster, &[]) else { return };
    successor.leads_after(0).await;
    let deadline = Margins::STANDARD.deadline(asked_at, TTL);
    assert!(successor.terms()[0].0 > deadline, "client-go waits for the end of Baton's lease");
}

/// client-go sees renewals in whole seconds only: one in the second of its forerunner is none to it.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_renews_often_is_not_taken_over_from() {
    // A leader that renews late, since the machine stood still, may be taken over from: another try is needed
    // then.
    for _ in 0..5 {
        let Some(cluster) = Cluster::get().await else { return };
        let Some(renewed_in_time) = renews_often(&cluster).await else { return };
        if renewed_in_time {
            return;
        }
    }
    panic!("the machine stands still again and again");
}

/// Whether every renewal came in time, and nobody took over meanwhile; none if there is no client-go.
async fn renews_often(cluster: &Cluster) -> Option<bool> {
    let mut agent = Player::new(cluster.store().await, "e", "agent-a", TTL);
    let mut renewed = agent.acquire().await.unwrap();
    let elector = Elector::start(cluster, &["--retry-period", "50ms"])?;
    let until = boot::now() + Span::secs(5);
    while boot::now() < until {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let outcome = agent.renew().await;
        let now = boot::now();
        if now.since(renewed) > Span::millis(700) {
            return Some(false);
        }
        outcome.unwrap();
        renewed = now;
    }
    assert_eq!(elector.terms(), []);
    agent.release().await.unwrap();
    elector.leads_after(0).await;
    Some(true)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_keeps_client_go_away_until_it_ends() {
    let Some(cluster) = Cluster::get().await else { return };
    let mut agent = Player::new(cluster.store().await, "e", "agent-a", TTL);
    agent.acquire().await.unwrap();
    agent.operate(Act::Pause { reason: "night".into() }).await.unwrap();
    let Some(elector) = Elector::start(&cluster, &[]) else { return };
    // Longer than any lease here lasts.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(elector.terms(), [], "a pause is Baton holding the Lease");
    agent.operate(Act::Resume).await.unwrap();
    elector.leads_after(0).await;
}
