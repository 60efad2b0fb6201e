//! Keys.

use baton_election::audit::Book;
use baton_election::log::Log;
use baton_election::{AgentName, ElectionName, Epoch, ItemName};

use baton_toolbox::{Item, Kind, Value};

use super::{Open, sample};
use crate::Persistence;
use crate::key::{Key, Prefix};
use crate::record::Record;
use crate::store::{AgeStamp, Expect};

/// Names that a careless encoding would mix up, below a name of this run's own.
fn lookalikes(base: &ElectionName) -> Vec<ElectionName> {
    [
        "",
        "/a",
        "/a/b",
        "/a-b",
        "/a.b",
        "/a_b",
        "-a/b",
        "/versions",
        "/versions/1",
        "/coordinator.json",
        "/a/versions",
    ]
    .iter()
    .filter_map(|tail| ElectionName::new(&format!("{base}{tail}")).ok())
    .collect()
}

pub(super) async fn kept_apart(open: Open<'_>) {
    let store = open().await;
    let names = lookalikes(&sample::fresh("n"));
    assert_eq!(names.len(), 11, "all of them are names");
    for name in &names {
        let (key, record) = sample::record(name, 1);
        assert!(store.read(&key).await.is_ok_and(|reading| reading.found.is_none()), "`{name}` is free");
        let written = store.swap(&key, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable).await;
        assert!(written.is_ok(), "`{name}` can be written: {written:?}");
    }
    for name in &names {
        let (key, record) = sample::record(name, 1);
        let found = open().await.read(&key).await;
        assert!(found.is_ok_and(|reading| reading.record() == Some(&record)), "`{name}` has its own record");
    }
}

pub(super) async fn lists(open: Open<'_>) {
    let store = open().await;
    let base = sample::fresh("l");
    let names = lookalikes(&base);
    for name in &names {
        let (key, record) = sample::record(name, 1);
        assert!(
            store.swap(&key, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable).await.is_ok()
        );
    }
    let mut wanted: Vec<Key> = names.iter().cloned().map(Key::Election).collect();
    wanted.sort();
    let Ok(found) = open().await.list(&Prefix::Elections).await else { panic!("conformance: a list failed") };
    assert!(found.is_sorted(), "lists are in order");
    let all = found.len();
    let found: Vec<Key> =
        found.into_iter().filter(|key| key.to_string().starts_with(base.as_str())).collect();
    assert_eq!(found, wanted);
    // In parts it is the same list; others may write elections of theirs meanwhile.
    let (mut parts, limit): (Vec<Key>, _) = (Vec::new(), all / 3 + 1);
    loop {
        let part = store.list_part(&Prefix::Elections, parts.last(), limit).await;
        let Ok(part) = part else { panic!("conformance: a part of a list failed") };
        let follows = part.first().is_none_or(|first| parts.last() < Some(first));
        assert!(part.len() <= limit && part.is_sorted() && follows, "{part:?}");
        let last = part.len() < limit;
        parts.extend(part);
        if last {
            break;
        }
    }
    parts.retain(|key| key.to_string().starts_with(base.as_str()));
    assert_eq!(parts, wanted);
    candidates(open, &base).await;
    items(open, &base).await;
    audits(open, &base).await;
}

/// Logs of acts are listed by their first parts, also where there is no document, and are no elections.
async fn audits(open: Open<'_>, base: &ElectionName) {
    let store = open().await;
    let named = |text: String| match ElectionName::new(&text) {
        Ok(name) => name,
        Err(error) => unreachable!("{error}"),
    };
    let gone = named(format!("{base}-gone"));
    let below = named(format!("{base}-gone/a"));
    let later = named(format!("{base}-later"));
    let written = [(base, 0), (&gone, 0), (&gone, 1), (&below, 0), (&later, 1)];
    for (election, part) in written {
        let key = Key::Audit(Book::Election(election.clone()), part);
        let done = store
            .swap(
                &key,
                Expect::Absent,
                &Record::Audit(Log::default()),
                AgeStamp::Preserve,
                Persistence::Durable,
            )
            .await;
        assert!(done.is_ok(), "`{key}` can be written: {done:?}");
    }
    let listed = async |prefix: Prefix| match open().await.list(&prefix).await {
        Ok(keys) => {
            let own = keys.into_iter().filter(|key| key.to_string().starts_with(base.as_str()));
            own.collect::<Vec<Key>>()
        }
        Err(error) => panic!("conformance: a list failed: {error}"),
    };
    let wanted = [base, &gone, &below].map(|election| Key::Audit(Book::Election(election.clone()), 0));
    assert_eq!(listed(Prefix::Audits).await, wanted);
    let elections = listed(Prefix::Elections).await;
    assert!(!elections.contains(&Key::Election(gone)), "a log is no election");
    let Ok(second) = store.list_part(&Prefix::Audits, wanted.first(), 1).await else {
        panic!("conformance: a part of a list failed");
    };
    assert_eq!(second, wanted[1..2]);
}

/// Candidates are listed with their own election only.
async fn candidates(open: Open<'_>, base: &ElectionName) {
    let store = open().await;
    let Ok(inner) = ElectionName::new(&format!("{base}/a")) else { unreachable!("it is a plain name") };
    for (election, agent) in [(base, "one"), (base, "two"), (&inner, "three")] {
        let Ok(agent) = AgentName::new(agent) else { unreachable!("it is a plain name") };
        let candidate = baton_election::Candidate {
            election: election.clone(),
            agent: agent.clone(),
            incarnation: baton_election::Incarnation([1; 8]),
            key_hash: baton_election::KeyHash([1; 32]),
            priority: 0,
            capabilities: std::collections::BTreeSet::new(),
            score: 0,
            load: 0,
            ttl: baton_election::Span::secs(30),
            beat: 0,
            withdrawn: false,
            enlisted: baton_election::WallTime::default(),
            through: None,
        };
        let key = Key::Candidate(election.clone(), agent);
        let record = Record::Candidate(Box::new(candidate));
        assert!(
            store.swap(&key, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable).await.is_ok()
        );
    }
    let Ok(found) = open().await.list(&Prefix::Candidates(base.clone())).await else {
        panic!("conformance: a list failed");
    };
    let found: Vec<String> = found.iter().map(Key::to_string).collect();
    assert_eq!(found, [format!("{base}/candidates/one"), format!("{base}/candidates/two")]);
}

/// Items are listed with their own election and kind only, and are no elections.
async fn items(open: Open<'_>, base: &ElectionName) {
    let store = open().await;
    let named = |text: &str| match ElectionName::new(text) {
        Ok(name) => name,
        Err(error) => unreachable!("{error}"),
    };
    let inner = named(&format!("{base}/a"));
    let beside = named(&format!("{base}-a"));
    for (election, item) in
        [(base, "one"), (base, "versions"), (base, "coordinator.json"), (&inner, "three"), (&beside, "four")]
    {
        let Ok(name) = ItemName::new(item) else { unreachable!("it is a plain name") };
        let value = Value {
            election: election.clone(),
            name: name.clone(),
            fence: Epoch(1),
            versions: std::collections::VecDeque::new(),
        };
        let (key, record) =
            (Key::Item(election.clone(), Kind::Value, name), Record::Item(Box::new(Item::Value(value))));
        let written = store.swap(&key, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable).await;
        assert!(written.is_ok(), "`{key}` can be written: {written:?}");
        let again = store.swap(&key, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable).await;
        assert!(again.is_err(), "`{key}` is there");
        let found = open().await.read(&key).await;
        assert!(found.is_ok_and(|reading| reading.record() == Some(&record)), "`{key}` has its own record");
    }
    let listed = async |prefix: Prefix| match open().await.list(&prefix).await {
        Ok(keys) => keys.iter().map(Key::to_string).collect::<Vec<_>>(),
        Err(error) => panic!("conformance: a list failed: {error}"),
    };
    let of = |item: &str| format!("{base}/@state/{item}");
    let wanted = [of("coordinator.json"), of("one"), of("versions")];
    assert_eq!(listed(Prefix::Items(base.clone(), Kind::Value)).await, wanted);
    assert_eq!(listed(Prefix::Items(base.clone(), Kind::Task)).await, [""; 0]);
    let elections = listed(Prefix::Elections).await;
    assert!(!elections.iter().any(|name| name.contains('@')), "no item is an election");
}
