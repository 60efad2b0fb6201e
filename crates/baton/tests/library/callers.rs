//! Callers that lead by single calls, under one agent name: only those of one session share a lease.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton::caller::{Caller, CallerSession, LeaseKeys, NotGranted, SessionKind};
use baton::election::{Epoch, Span};
use baton::store::MemoryStore;
use baton::{Bid, Coordinator, Error, Grant, Patience};
use tempfile::TempDir;

use crate::support::faulty::{Chaos, Fault, Faulty, is_election};
use crate::support::{agent, bid, client, client_of, election, impatient, in_time, on_each_store};

fn named(id: &str) -> Option<CallerSession> {
    Some(CallerSession { kind: SessionKind::Named, id: id.to_string() })
}

fn keys() -> (TempDir, LeaseKeys) {
    let folder = tempfile::tempdir().unwrap();
    let keys = LeaseKeys::at(&folder.path().join("leases"));
    (folder, keys)
}

/// One call under the name `a`.
async fn call(
    coordinator: &Coordinator,
    keys: &LeaseKeys,
    session: Option<CallerSession>,
    repeat: bool,
) -> Result<Grant, NotGranted> {
    let (caller, election, bid) =
        (Caller { keys, session, repeat, tell: None }, election(), bid("a", 600_000));
    // Boxed: a test makes many of them.
    in_time(Box::pin(caller.acquire(coordinator, &election, &bid, None))).await
}

/// The sentence with which a call was refused, and the hint.
fn told(refused: Result<Grant, NotGranted>) -> (String, String) {
    match refused {
        Err(NotGranted::Elsewhere(elsewhere)) => (elsewhere.to_string(), elsewhere.hint()),
        other => panic!("not refused for a lease of another session: {other:?}"),
    }
}

async fn release(coordinator: &Coordinator, keys: &LeaseKeys) {
    let held = keys.held(&election(), &agent("a")).unwrap();
    coordinator.release(&election(), held.epoch, held.credential, None).await.unwrap();
    keys.forget(&election(), &agent("a"), &held);
}

#[tokio::test]
async fn a_lease_is_repeated_to_its_own_session_only() {
    on_each_store(async |store| {
        let (coordinator, (_folder, keys)) = (client_of(&store), keys());
        let first = call(&coordinator, &keys, named("one"), false).await.unwrap();
        assert_eq!((first.epoch, first.repeated), (Epoch(1), false));
        assert_eq!(keys.held(&election(), &agent("a")).unwrap().session, named("one"));

        let (why, hint) = told(call(&coordinator, &keys, named("two"), false).await);
        assert_eq!(why, "a already leads e with token 1, from another session (BATON_SESSION=one)");
        assert_eq!(
            hint,
            "if that is another agent, choose another name with --as; if it is you, add --repeat"
        );
        let (_, hint) = told(call(&coordinator, &keys, None, false).await);
        assert!(hint.ends_with("add --repeat, or set BATON_SESSION for all your calls"), "{hint}");

        for (session, repeat) in [(named("one"), false), (named("two"), true), (None, true)] {
            let again = call(&coordinator, &keys, session, repeat).await.unwrap();
            assert_eq!((again.epoch, again.repeated), (Epoch(1), true));
        }
        // Whoever repeated it did not take it over.
        told(call(&coordinator, &keys, named("two"), false).await);

        release(&coordinator, &keys).await;
        let next = call(&coordinator, &keys, named("two"), false).await.unwrap();
        assert_eq!((next.epoch, next.repeated), (Epoch(2), false));
        let (why, _) = told(call(&coordinator, &keys, named("one"), false).await);
        assert!(why.ends_with("token 2, from another session (BATON_SESSION=two)"), "{why}");
    })
    .await;
}

/// Whichever of them is granted the lease, the others find its key, also if they looked for one just before.
#[test]
fn calls_of_one_session_at_one_time_are_of_one_caller() {
    for _ in 0..200 {
        let (store, (_folder, keys)) = (MemoryStore::default(), keys());
        let one_of_four = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let granted = runtime.block_on(call(&client(&store), &keys, named("one"), false));
            assert_eq!(granted.unwrap().epoch, Epoch(1));
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(one_of_four);
            }
        });
    }
}

#[tokio::test]
async fn calls_without_a_session_are_all_of_different_callers() {
    let (store, (_folder, keys)) = (MemoryStore::default(), keys());
    let coordinator = client(&store);
    assert_eq!(call(&coordinator, &keys, None, false).await.unwrap().epoch, Epoch(1));
    let (why, _) = told(call(&coordinator, &keys, None, false).await);
    assert_eq!(why, "a already leads e with token 1, from a call without a session");
    let again = call(&coordinator, &keys, None, true).await.unwrap();
    assert_eq!((again.epoch, again.repeated), (Epoch(1), true));
}

/// Of a lease of another user, or of a `baton run`, there is no key to repeat it with.
#[tokio::test]
async fn a_lease_whose_key_is_elsewhere_is_repeated_to_nobody() {
    let (store, (_folder, keys), (_other, others)) = (MemoryStore::default(), keys(), keys());
    let coordinator = client(&store);
    call(&coordinator, &others, named("one"), false).await.unwrap();
    for repeat in [false, true] {
        let (why, hint) = told(call(&coordinator, &keys, named("one"), repeat).await);
        assert_eq!(why, "a already leads e with token 1, from another process");
        assert!(hint.ends_with("wait for its release"), "{hint}");
    }
}

/// The answer to the first call is lost, or its process dies before it heard it.
#[tokio::test]
async fn a_call_whose_answer_was_lost_is_repeated_by_its_session_with_the_same_key() {
    let once = Patience { retries: Some(0), ..Patience::default() };
    for (session, repeat) in [(named("one"), false), (None, true)] {
        let (store, (_folder, keys)) = (MemoryStore::default(), keys());
        let faulty = Faulty::over(store.clone());
        let coordinator = client(&faulty).patient(once);
        coordinator.operators().enrol(&crate::support::operator()).await.unwrap();
        faulty.plan(is_election, &[Fault::After]);
        let lost = call(&coordinator, &keys, session.clone(), false).await;
        assert!(matches!(&lost, Err(NotGranted::Error(Error::Store(_)))), "{lost:?}");
        assert!(keys.held(&election(), &agent("a")).is_none(), "it heard of no lease");

        let (why, _) = told(call(&coordinator, &keys, named("two"), false).await);
        assert!(why.starts_with("a already leads e with token 1, from "), "{why}");
        let again = call(&coordinator, &keys, session.clone(), repeat).await.unwrap();
        assert_eq!((again.epoch, again.repeated), (Epoch(1), true), "one lease was granted");
        assert_eq!(keys.held(&election(), &agent("a")).unwrap().session, session);
        assert_eq!(keys.files().len(), 1, "nothing is left of the request");
    }
}

/// A request that was never applied leaves its key, and is in nobody's way.
#[tokio::test]
async fn a_call_that_failed_keeps_nobody_from_leading() {
    let once = Patience { retries: Some(0), ..Patience::default() };
    let (store, (_folder, keys)) = (MemoryStore::default(), keys());
    let faulty = Faulty::over(store.clone());
    let coordinator = client(&faulty).patient(once);
    coordinator.operators().enrol(&crate::support::operator()).await.unwrap();
    faulty.plan(is_election, &[Fault::Before]);
    assert!(call(&coordinator, &keys, named("one"), false).await.is_err());
    assert_eq!(call(&coordinator, &keys, named("two"), false).await.unwrap().epoch, Epoch(1));
    told(call(&coordinator, &keys, named("one"), false).await);
    release(&coordinator, &keys).await;
    assert_eq!(call(&coordinator, &keys, named("one"), false).await.unwrap().epoch, Epoch(2));
    assert_eq!(keys.files().len(), 1, "nothing is left of the request that failed");
}

/// Another session waits in line as any other agent does.
#[tokio::test]
async fn a_caller_of_another_session_waits_for_the_end_of_the_lease() {
    let (store, (_folder, keys)) = (MemoryStore::default(), keys());
    let coordinator = client(&store);
    call(&coordinator, &keys, named("one"), false).await.unwrap();
    let short = Some(Span::millis(50));
    let waiter = Caller { keys: &keys, session: named("two"), repeat: false, tell: None };
    let refused = in_time(waiter.acquire(&coordinator, &election(), &bid("a", 600_000), short)).await;
    assert!(told(refused).0.starts_with("a already leads e with token 1"));
    let bid = bid("a", 600_000);
    let (e, long) = (election(), Some(Span::secs(100)));
    let waiting = waiter.acquire(&coordinator, &e, &bid, long);
    let (granted, ()) = tokio::join!(in_time(waiting), release(&coordinator, &keys));
    assert_eq!(granted.unwrap().epoch, Epoch(2));
    assert_eq!(keys.held(&election(), &agent("a")).unwrap().session, named("two"));
}

/// The outcomes of the calls of a play.
#[derive(Default)]
struct CallOutcomes {
    /// The callers that were told that they lead, by token; a call without a session is a caller of its own.
    leads: BTreeMap<Epoch, Vec<String>>,
    repeated: u64,
    elsewhere: u64,
    broken_off: u64,
    released: u64,
}

impl CallOutcomes {
    /// Whether all that the play is about has happened.
    fn is_enough(&self) -> bool {
        let all = [self.repeated, self.elsewhere, self.broken_off, self.released];
        self.leads.len() > 20 && all.iter().all(|count| *count > 3)
    }
}

fn dice(sides: u64) -> u64 {
    getrandom::u64().unwrap() % sides
}

/// Calls, gives the lease back, and dies in the middle of a call, again and again.
async fn caller(
    store: Faulty,
    keys: LeaseKeys,
    (number, session): (usize, Option<CallerSession>),
    outcomes: Arc<Mutex<CallOutcomes>>,
) {
    let coordinator = client(&store).patient(impatient());
    let (election, bid): (_, Bid) = (election(), bid("a", 1_000));
    let mut calls = 0;
    while !outcomes.lock().unwrap().is_enough() {
        calls += 1;
        let caller = Caller { keys: &keys, session: session.clone(), repeat: false, tell: None };
        let asking = caller.acquire(&coordinator, &election, &bid, None);
        // A call that is broken off is one whose process was killed.
        let patience = Duration::from_millis(if dice(4) == 0 { dice(12) } else { 60_000 });
        let name = session
            .as_ref()
            .map_or_else(|| format!("call {calls} of caller {number}"), CallerSession::to_string);
        match tokio::time::timeout(patience, asking).await {
            Err(_) => outcomes.lock().unwrap().broken_off += 1,
            Ok(Ok(grant)) => {
                let mut outcomes = outcomes.lock().unwrap();
                outcomes.repeated += u64::from(grant.repeated);
                outcomes.leads.entry(grant.epoch).or_default().push(name);
            }
            Ok(Err(NotGranted::Elsewhere(_))) => outcomes.lock().unwrap().elsewhere += 1,
            Ok(Err(_)) => {}
        }
        // Any shell of the user may release.
        if dice(3) == 0
            && let Some(held) = keys.held(&election, &agent("a"))
            && coordinator.release(&election, held.epoch, held.credential, None).await.is_ok()
        {
            keys.forget(&election, &agent("a"), &held);
            outcomes.lock().unwrap().released += 1;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_calls_interleave_no_two_sessions_are_told_that_they_lead_with_one_token() {
    let rounds = if std::env::var_os("BATON_CAMPAIGN").is_some() { 200 } else { 3 };
    for _ in 0..rounds {
        let faulty = Faulty::over(MemoryStore::default());
        faulty.chaos(Chaos { before: 50, after: 100, reads: 20, delay: Span::millis(4) });
        let (_folder, keys) = keys();
        let outcomes = Arc::new(Mutex::new(CallOutcomes::default()));
        let sessions = [named("one"), named("one"), named("two"), None, None];
        let mut callers = Vec::new();
        for one in sessions.into_iter().enumerate() {
            callers.push(tokio::spawn(caller(faulty.clone(), keys.clone(), one, Arc::clone(&outcomes))));
        }
        for caller in callers {
            in_time(caller).await.unwrap();
        }
        let outcomes = outcomes.lock().unwrap();
        for (token, names) in &outcomes.leads {
            assert!(names.iter().all(|name| *name == names[0]), "token {token} was told to {names:?}");
            let single = names[0].starts_with("call ");
            assert!(
                !single || names.len() == 1,
                "token {token} was told to calls without a session: {names:?}"
            );
        }
    }
}
