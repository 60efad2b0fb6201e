//! A place in etcd's own elections, beside `etcdctl elect`.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::time::Duration;

use baton_api::Elections;
use baton_election::{Credential, Epoch, Span};
use baton_store::{AgeStamp, BoxStream, Change, Expect, Key, Persistence, Prefix, StoreError};
use baton_store_etcd::{Candidacy, EtcdElections};
use futures_util::StreamExt;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::support;
use crate::support::server::Server;
use crate::support::{
    agent, credential, elections, etcdctl, fresh, inspect, led, name, need, open, put, soon, until,
};

const TTL: Span = Span::secs(30);

async fn stand(elections: &EtcdElections, by: &str, credential: &Credential) -> Candidacy {
    elections.stand(&name("e"), &agent(by), credential, TTL).await.unwrap()
}

/// `etcdctl elect`, as a process.
struct Elect {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Elect {
    fn start(at: &str, election: &str, value: &str) -> Elect {
        let mut child = Command::new(std::env::var("BATON_TEST_ETCDCTL").unwrap())
            .args(["--endpoints", at, "elect", election, value])
            .stdout(std::process::Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Elect { child, lines }
    }

    /// The key under which it leads, once it does.
    async fn leads(&mut self) -> String {
        soon("etcdctl leads", self.lines.next_line()).await.unwrap().unwrap()
    }

    /// Lets it resign.
    async fn resign(mut self) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        soon("etcdctl resigns", self.child.wait()).await.unwrap();
    }
}

/// How many candidates stand.
fn standing(at: &str, prefix: &str) -> usize {
    etcdctl(at, &["get", "--prefix", "--keys-only", &format!("{prefix}/e/")]).split_whitespace().count()
}

#[tokio::test]
async fn one_who_stands_alone_leads_with_its_create_revision() {
    let (at, _) = (need!("BATON_TEST_ETCD"), need!("BATON_TEST_ETCDCTL"));
    let prefix = fresh();
    let (elections, credential) = (elections(&at, &prefix).await, credential());
    assert_eq!(elections.leader(&name("e")).await.unwrap(), None);
    let first = stand(&elections, "agent-a", &credential).await;
    assert!(first.leads);
    assert_eq!(first.ttl, TTL);
    let lease = elections.lease_of(&name("e"), &credential);
    let raw = inspect(&at, &format!("{prefix}/e/{lease:x}")).unwrap();
    assert_eq!(raw["create_revision"].as_u64(), Some(first.epoch.0));
    assert_eq!(raw["lease"].as_i64(), Some(lease));
    let shown = etcdctl(&at, &["get", "--prefix", "--print-value-only", &prefix]);
    assert_eq!(shown, "agent-a");
    let leader = elections.leader(&name("e")).await.unwrap().unwrap();
    assert_eq!(
        (leader.agent, leader.said.as_str(), leader.epoch),
        (agent("agent-a"), "agent-a", first.epoch)
    );
    assert_eq!(leader.incarnation, elections.incarnation_of(&name("e"), &credential));
    assert_eq!(leader.ttl, Some(TTL));
    assert!(leader.left.is_some_and(|left| left <= TTL));
    // Repeated, it is the same.
    let again = stand(&elections, "agent-a", &credential).await;
    assert_eq!((again.leads, again.epoch), (true, first.epoch));
    assert!(again.asked_at > first.asked_at);
    assert_eq!(standing(&at, &prefix), 1);
}

#[tokio::test]
async fn another_process_with_the_credential_keeps_and_ends_the_lead() {
    let (at, _) = (need!("BATON_TEST_ETCD3"), need!("BATON_TEST_ETCDCTL"));
    let prefix = fresh();
    let (one, two, credential) = (elections(&at, &prefix).await, elections(&at, &prefix).await, credential());
    let stood = stand(&one, "a", &credential).await;
    let kept = two.keep_alive(&name("e"), &credential).await.unwrap().unwrap();
    assert_eq!((kept.epoch, kept.ttl), (stood.epoch, TTL));
    assert!(kept.asked_at > stood.asked_at);
    let stranger = support::credential();
    assert_eq!(two.keep_alive(&name("e"), &stranger).await.unwrap(), None);
    assert!(!two.leave(&name("e"), &stranger).await.unwrap());
    assert!(two.leave(&name("e"), &credential).await.unwrap());
    assert!(!two.leave(&name("e"), &credential).await.unwrap(), "once is enough");
    assert_eq!(one.keep_alive(&name("e"), &credential).await.unwrap(), None);
    assert_eq!(one.leader(&name("e")).await.unwrap(), None);
}

#[tokio::test]
async fn the_shortest_lease_is_what_etcd_says_and_ends_by_itself() {
    let (at, _) = (need!("BATON_TEST_ETCD"), need!("BATON_TEST_ETCDCTL"));
    let prefix = fresh();
    let (elections, gone, next) = (elections(&at, &prefix).await, credential(), credential());
    let stood = elections.stand(&name("e"), &agent("a"), &gone, Span::millis(700)).await.unwrap();
    assert!(stood.ttl >= Span::secs(1), "{}", stood.ttl);
    let waits = stand(&elections, "b", &next).await;
    assert!(!waits.leads && waits.leader.epoch == stood.epoch && waits.epoch > stood.epoch);
    let mut turn = elections.watch_predecessor(&name("e"), &next).await.unwrap();
    assert_eq!(soon("the lease ends", turn.next()).await, Some(Change::Changed));
    let leads = stand(&elections, "b", &next).await;
    assert_eq!((leads.leads, leads.epoch), (true, waits.epoch));
    let waited = leads.asked_at.since(stood.asked_at);
    assert!(waited > stood.ttl, "the lease of {} ended after {waited}", stood.ttl);
    assert_eq!(elections.keep_alive(&name("e"), &gone).await.unwrap(), None);
}

#[tokio::test]
async fn a_deleted_key_is_noticed_and_the_next_token_is_higher() {
    let (at, _) = (need!("BATON_TEST_ETCD"), need!("BATON_TEST_ETCDCTL"));
    let prefix = fresh();
    let (elections, credential) = (elections(&at, &prefix).await, credential());
    let first = stand(&elections, "a", &credential).await;
    let mut turn = elections.watch_predecessor(&name("e"), &credential).await.unwrap();
    assert_eq!(soon("nobody is ahead", turn.next()).await, Some(Change::Changed));
    etcdctl(&at, &["del", &first.leader.key]);
    assert_eq!(soon("the own key is gone", turn.next()).await, Some(Change::Changed));
    assert_eq!(elections.keep_alive(&name("e"), &credential).await.unwrap(), None);
    let second = stand(&elections, "a", &credential).await;
    assert!(second.leads && second.epoch > first.epoch);
    // A key that would outlive its lease is not believed in.
    etcdctl(&at, &["put", &second.leader.key, "a"]);
    assert_eq!(elections.keep_alive(&name("e"), &credential).await.unwrap(), None);
    let stood = elections.stand(&name("e"), &agent("a"), &credential, TTL).await;
    assert!(matches!(stood, Err(StoreError::Corrupt { .. })), "{stood:?}");
}

#[tokio::test]
async fn a_revoked_lease_is_noticed() {
    let (at, _) = (need!("BATON_TEST_ETCD"), need!("BATON_TEST_ETCDCTL"));
    let (elections, credential) = (elections(&at, &fresh()).await, credential());
    let first = stand(&elections, "a", &credential).await;
    let mut changes = elections.watch(&name("e")).await.unwrap();
    let lease = elections.lease_of(&name("e"), &credential);
    etcdctl(&at, &["lease", "revoke", &format!("{lease:x}")]);
    assert_eq!(soon("a change", changes.next()).await, Some(Change::Changed));
    assert_eq!(elections.keep_alive(&name("e"), &credential).await.unwrap(), None);
    assert!(stand(&elections, "a", &credential).await.epoch > first.epoch);
}

/// Whether a stream has nothing to tell.
async fn is_quiet(changes: &mut BoxStream<Change>) -> bool {
    tokio::time::timeout(Duration::from_millis(200), changes.next()).await.is_err()
}

#[tokio::test]
async fn only_the_next_in_line_is_woken() {
    let at = need!("BATON_TEST_ETCD");
    let elections = elections(&at, &fresh()).await;
    let credentials = [credential(), credential(), credential(), credential()];
    let mut turns = Vec::new();
    for (place, credential) in credentials.iter().enumerate() {
        assert_eq!(stand(&elections, "a", credential).await.leads, place == 0);
        turns.push(elections.watch_predecessor(&name("e"), credential).await.unwrap());
    }
    assert_eq!(soon("the first leads", turns[0].next()).await, Some(Change::Changed));
    for turn in &mut turns {
        assert!(is_quiet(turn).await);
    }
    // The one in the middle goes: whoever stood behind it looks, finds the next ahead, and waits for that one.
    assert!(elections.leave(&name("e"), &credentials[1]).await.unwrap());
    assert_eq!(soon("the one behind looks", turns[2].next()).await, Some(Change::Changed));
    assert!(!stand(&elections, "a", &credentials[2]).await.leads);
    assert!(is_quiet(&mut turns[2]).await && is_quiet(&mut turns[0]).await && is_quiet(&mut turns[3]).await);
    assert!(elections.leave(&name("e"), &credentials[0]).await.unwrap());
    assert_eq!(soon("the next leads", turns[2].next()).await, Some(Change::Changed));
    assert!(stand(&elections, "a", &credentials[2]).await.leads);
    assert!(is_quiet(&mut turns[3]).await);
}

#[tokio::test]
async fn etcdctl_and_baton_take_turns() {
    let (at, _) = (need!("BATON_TEST_ETCD3"), need!("BATON_TEST_ETCDCTL"));
    let prefix = fresh();
    let elections = elections(&at, &prefix).await;
    let mut tokens = Vec::new();
    let mut ours = credential();
    let mut stood = stand(&elections, "baton", &ours).await;
    for _ in 0..5 {
        assert!(stood.leads);
        tokens.push(stood.epoch);
        let mut theirs = Elect::start(&at, &format!("{prefix}/e"), "etcdctl says hello");
        until("etcdctl waits", || async { (standing(&at, &prefix) == 2).then_some(()) }).await;
        let quiet = tokio::time::timeout(Duration::from_millis(100), theirs.lines.next_line()).await;
        assert!(quiet.is_err(), "etcdctl leads beside Baton: {quiet:?}");
        assert!(elections.keep_alive(&name("e"), &ours).await.unwrap().is_some());
        assert!(elections.leave(&name("e"), &ours).await.unwrap());
        let key = theirs.leads().await;
        ours = credential();
        stood = stand(&elections, "baton", &ours).await;
        assert!(!stood.leads, "Baton leads beside etcdctl");
        assert_eq!(
            (stood.leader.key.as_str(), stood.leader.said.as_str()),
            (key.as_str(), "etcdctl says hello")
        );
        assert!(stood.leader.agent.as_str().starts_with("foreign-"));
        assert_eq!(stood.leader.ttl, Some(Span::secs(60)), "etcdctl's lease");
        tokens.push(stood.leader.epoch);
        let mut turn = elections.watch_predecessor(&name("e"), &ours).await.unwrap();
        assert!(is_quiet(&mut turn).await);
        theirs.resign().await;
        assert_eq!(soon("Baton's turn", turn.next()).await, Some(Change::Changed));
        stood = stand(&elections, "baton", &ours).await;
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "tokens rise strictly: {tokens:?}");
}

#[tokio::test]
async fn of_many_candidates_one_leads_at_a_time() {
    let at = need!("BATON_TEST_ETCD3");
    let prefix = fresh();
    let leading = std::sync::Arc::new(std::sync::Mutex::new((0_usize, Vec::<Epoch>::new())));
    let mut candidates = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (elections, leading) = (elections(&at, &prefix).await, leading.clone());
        candidates.spawn(async move {
            for _ in 0..3 {
                let credential = credential();
                let mut turn = elections.watch_predecessor(&name("e"), &credential).await.unwrap();
                let token = loop {
                    let stood = stand(&elections, "a", &credential).await;
                    if stood.leads {
                        break stood.epoch;
                    }
                    let _ = turn.next().await;
                };
                {
                    let mut leading = leading.lock().unwrap();
                    leading.0 += 1;
                    assert_eq!(leading.0, 1, "two lead at once");
                    leading.1.push(token);
                }
                assert!(elections.keep_alive(&name("e"), &credential).await.unwrap().is_some());
                leading.lock().unwrap().0 -= 1;
                assert!(elections.leave(&name("e"), &credential).await.unwrap());
            }
        });
    }
    soon("all have led", candidates.join_all()).await;
    let tokens = leading.lock().unwrap().1.clone();
    assert_eq!(tokens.len(), 24);
    assert!(tokens.is_sorted_by(|a, b| a < b), "tokens rise strictly: {tokens:?}");
}

#[tokio::test]
async fn batons_own_records_are_left_alone() {
    let at = need!("BATON_TEST_ETCD");
    let (prefix, other) = (fresh(), fresh());
    let store = open(&format!("etcd://{at}/{prefix}")).await.unwrap();
    put(&*store, &Key::Election(name("e")), Expect::Absent, &led("e", "a", Epoch(1))).await.unwrap();
    let info = support::store_info();
    let info = baton_store::Record::Store(info);
    let plain = open(&format!("etcd://{at}/{other}")).await.unwrap();
    plain.swap(&Key::Store, Expect::Absent, &info, AgeStamp::Reset, Persistence::Durable).await.unwrap();
    for prefix in [prefix, other] {
        let (elections, credential) = (elections(&at, &prefix).await, credential());
        let stood = elections.stand(&name("e"), &agent("a"), &credential, TTL).await.map(|_| ());
        let leader = elections.leader(&name("e")).await.map(|_| ());
        for refused in [stood, leader] {
            let error = refused.unwrap_err();
            assert!(matches!(&error, StoreError::Refused { .. }), "{error:?}");
            assert!(error.hint().contains("another prefix"), "{error}");
        }
        assert_eq!(elections.keep_alive(&name("e"), &credential).await.unwrap(), None, "nothing stands");
    }
}

#[tokio::test]
async fn an_election_below_another_is_refused() {
    let at = need!("BATON_TEST_ETCD");
    let (elections, inner, outer) = (elections(&at, &fresh()).await, credential(), credential());
    let deep = elections.stand(&name("e/f"), &agent("a"), &inner, TTL).await.unwrap();
    assert!(deep.leads);
    let error = elections.stand(&name("e"), &agent("b"), &outer, TTL).await.unwrap_err();
    assert!(matches!(&error, StoreError::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains(&deep.leader.key), "{error}");
    assert!(elections.leader(&name("e")).await.is_err());
    assert!(elections.keep_alive(&name("e/f"), &inner).await.unwrap().is_some(), "that one is as it was");
    assert_eq!(elections.keep_alive(&name("e"), &outer).await.unwrap(), None);
}

/// What is said to a caller that takes etcd's own elections for a store.
async fn as_store(at: &str, prefix: &str) -> StoreError {
    open(&format!("etcd://{at}/{prefix}?election=etcd")).await.map(|_| ()).unwrap_err()
}

#[tokio::test]
async fn as_a_store_it_is_watched_and_holds_nothing() {
    let at = need!("BATON_TEST_ETCD");
    let prefix = fresh();
    let store: &dyn Elections = &elections(&at, &prefix).await;
    assert!(store.location().ends_with(&format!("/{prefix}?election=etcd")));
    let key = Key::Election(name("e"));
    for error in [
        store.read(&key).await.map(|_| ()).unwrap_err(),
        store.list(&Prefix::Fences).await.map(|_| ()).unwrap_err(),
        as_store(&at, &prefix).await,
    ] {
        assert!(matches!(&error, StoreError::Refused { .. }), "{error:?}");
        assert!(error.hint().contains("acquire"), "{error}");
    }
    let credential = credential();
    let native = elections(&at, &prefix).await;
    assert!(native.leader(&name("e")).await.unwrap().is_none());
    let mut changes = store.watch(&key).await.unwrap();
    let stood = stand(&elections(&at, &prefix).await, "a", &credential).await;
    assert_eq!(soon("somebody stands", changes.next()).await, Some(Change::Changed));
    assert_eq!(native.keep_alive(&name("e"), &credential).await.unwrap().unwrap().epoch, stood.epoch);
}

#[tokio::test]
async fn the_lead_is_kept_while_etcd_elects_a_leader_of_its_own() {
    let Some(mut server) = Server::start(3, &[]).await else { return };
    let (elections, credential) = (elections(&server.hosts(), "p").await, credential());
    let stood = stand(&elections, "a", &credential).await;
    let killed = server.leader();
    server.kill(killed);
    let kept = until("the lead is kept", || async {
        match elections.keep_alive(&name("e"), &credential).await {
            Ok(kept) => Some(kept),
            Err(error) => {
                assert!(error.is_passing(), "{error:?}");
                None
            }
        }
    })
    .await;
    assert_eq!(kept.map(|kept| kept.epoch), Some(stood.epoch));
    server.spawn(killed);
    server.ready().await;
    assert!(elections.leave(&name("e"), &credential).await.unwrap());
}

#[tokio::test]
async fn all_who_stand_are_listed_in_their_order_with_what_is_left_of_their_leases() {
    let at = need!("BATON_TEST_ETCD");
    let prefix = fresh();
    let elections = elections(&at, &prefix).await;
    assert_eq!(elections.list(&Prefix::Elections).await.unwrap(), []);
    let (first, second) = (credential(), credential());
    assert!(!stand(&elections, "a", &first).await.stood);
    assert!(stand(&elections, "a", &first).await.stood);
    // Its process dies: it stands until its lease ends.
    stand(&elections, "ghost", &second).await;
    let other = name("x/y");
    elections.stand(&other, &agent("c"), &credential(), Span::secs(20)).await.unwrap();
    let listed = elections.list(&Prefix::Elections).await.unwrap();
    assert_eq!(listed, [Key::Election(name("e")), Key::Election(other)]);
    let line = elections.line(&name("e"), 10).await.unwrap();
    let told: Vec<&str> = line.iter().map(|stands| stands.agent.as_str()).collect();
    assert_eq!(told, ["a", "ghost"]);
    assert!(
        line.iter().all(|stands| stands.left > Some(Span::ZERO) && stands.left <= stands.ttl),
        "{line:?}"
    );
    assert_eq!(elections.line(&name("e"), 1).await.unwrap().len(), 1);
    assert_eq!(elections.line(&name("nobody"), 10).await.unwrap(), []);
}
