use baton_election::time::WallTime;
use baton_store::toolbox::board::Complete;
use baton_store::toolbox::{MAX_BODY_BYTES, NewTask, Order, Put};
use serde_json::json;

use super::*;

fn name(text: &str) -> ItemName {
    text.parse().unwrap()
}

/// A task of this state, which somebody has or had last.
fn task(id: &str, state: State, agent: Option<&str>) -> Item {
    let wall = WallTime::default();
    let attempts = agent.map(|agent| json!({"agent": agent, "epoch": 1, "assigned": wall}));
    let task = json!({
        "election": "e", "id": id, "title": "t", "size": 1, "state": state, "fence": 1, "by": "a", "added": wall,
        "attempts": attempts.into_iter().collect::<Vec<_>>(),
    });
    Item::Task(serde_json::from_value(task).unwrap())
}

fn query(state: Option<State>, agent: Option<&str>, after: Option<&str>, limit: usize) -> Query {
    Query { state, agent: agent.map(|agent| agent.parse().unwrap()), after: after.map(name), limit }
}

fn names(items: &[Arc<Item>]) -> Vec<String> {
    items.iter().map(|item| item.place().1.to_string()).collect()
}

/// Every list is what a look at each item would give, also after tasks have changed their state and their worker.
#[test]
fn lists_are_what_a_look_at_everything_gives() {
    let agents = [None, Some("x"), Some("y")];
    let (mut index, mut plain) = (Index::default(), BTreeMap::new());
    // The second round changes half of what the first has put there.
    for round in 0..2 {
        for number in (0..120_usize).step_by(round + 1) {
            let state = State::ALL[(number + round) % State::ALL.len()];
            let item = task(&format!("t-{number:03}"), state, agents[(number / 7 + round) % agents.len()]);
            plain.insert(item.place().1.clone(), item.clone());
            index.put(item);
        }
    }
    let states = State::ALL.into_iter().map(Some).chain([None]);
    for state in states {
        for agent in agents {
            for after in [None, Some("t-050"), Some("t-119")] {
                let query = query(state, agent, after, 10);
                let later =
                    plain.iter().filter(|(id, _)| query.after.as_ref().is_none_or(|after| *id > after));
                let all: Vec<String> =
                    later.filter(|(_, item)| query.wants(item)).map(|(id, _)| id.to_string()).collect();
                let part = index.part(Kind::Task, &query);
                assert_eq!(names(&part.items), all[..all.len().min(10)], "{query:?}");
                assert_eq!(part.more, all.len() > 10, "{query:?}");
            }
        }
    }
    assert_eq!(index.counts().tasks(), 120);
}

/// Under the lock of an election nobody looks at a hundred thousand tasks.
#[test]
fn a_list_of_a_long_board_takes_few_steps() {
    let mut index = Index::default();
    let Item::Task(plain) = task("t", State::Queued, None) else { unreachable!("it is a task") };
    for number in 0..100_000 {
        index.put(Item::Task(Task { id: name(&format!("t-{number:06}")), ..plain.clone() }));
    }
    for (number, state) in State::ALL.into_iter().cycle().take(60).enumerate() {
        index.put(task(&format!("t-{:06}", number * 1_500), state, Some("b")));
    }
    let proposal = json!({
        "election": "e", "id": "p", "by": "b", "title": "t", "made": WallTime::default(),
    });
    index.put(Item::Proposal(serde_json::from_value(proposal).unwrap()));
    for (query, found) in [
        (query(None, None, Some("t-090000"), 100), 100),
        (query(None, Some("b"), None, 100), 60),
        (query(Some(State::Working), None, None, 100), 10),
        (query(Some(State::Working), Some("b"), None, 5), 5),
        (query(Some(State::Assigned), Some("nobody"), None, 100), 0),
        (query(Some(State::Queued), None, Some("t-099000"), 100), 100),
    ] {
        let part = index.part(Kind::Task, &query);
        assert_eq!(part.items.len(), found, "{query:?}");
        assert!(part.looked_at <= query.limit + 1, "{} for {query:?}", part.looked_at);
    }
    let part = index.part(Kind::Proposal, &query(None, None, None, 100));
    assert_eq!((part.items.len(), part.looked_at), (1, 1), "other kinds are not behind the tasks");
}

#[test]
fn a_batch_that_is_sent_again_needs_no_room() {
    let mut index = Index::default();
    let new = |number: u64| NewTask {
        id: Some(name(&format!("t-{number}"))),
        title: "t".into(),
        size: 1,
        ..NewTask::default()
    };
    let add = |from: u64, to: u64| {
        let by = Some("a".parse().unwrap());
        Command::Add(AddTasks { mandate: None, by, tasks: (from..to).map(new).collect() })
    };
    for number in 0..MAX_UNLED {
        let Item::Task(task) = task(&format!("t-{number}"), State::Queued, None) else { unreachable!() };
        index.put(Item::Task(Task { fence: baton_election::Epoch(0), ..task }));
    }
    assert_eq!(index.counts().unled, MAX_UNLED);
    index.check_room(&add(0, 100)).expect("they stand there");
    let propose = |id: &str| {
        let propose = json!({"id": id, "by": "a", "title": "t"});
        Command::Propose(serde_json::from_value(propose).unwrap())
    };
    let made = json!({"election": "e", "id": "p", "by": "a", "title": "t", "made": WallTime::default()});
    index.put(Item::Proposal(serde_json::from_value(made).unwrap()));
    // The first time took the last room that there was.
    let weight = std::mem::replace(&mut index.weight, MAX_WEIGHT);
    index.check_room(&add(0, 100)).expect("they stand there all the same");
    index.check_room(&propose("p")).expect("so does it");
    assert!(matches!(index.check_room(&propose("q")), Err(Refusal::Exhausted { .. })));
    index.weight = weight;
    assert!(matches!(index.check_room(&add(MAX_UNLED - 1, MAX_UNLED + 1)), Err(Refusal::Exhausted { .. })));
}

#[test]
fn what_all_weigh_together_is_bounded_and_what_is_under_way_goes_on() {
    let mut index = Index::default();
    let mandate = json!({"token": 1, "credential": {"incarnation": "0".repeat(16), "key": "0".repeat(32)}});
    let put = |text: usize| {
        let put = json!({"mandate": mandate, "value": "x".repeat(text)});
        Command::Put(name("v"), serde_json::from_value::<Put>(put).unwrap())
    };
    let Item::Task(first) = task("t-0", State::Working, Some("b")) else { unreachable!("it is a task") };
    index.put(Item::Task(Task { body: "x".repeat(MAX_BODY_BYTES), ..first }));
    assert!(index.weight() > MAX_BODY_BYTES as u64);
    index.check_room(&put(100)).expect("there is room");
    // As if there were as many more as there may be.
    index.weight += MAX_WEIGHT - 2 * MAX_BODY_BYTES as u64;
    index.check_room(&put(100)).expect("there is still room");
    index.weight += MAX_BODY_BYTES as u64;
    let full = index.check_room(&put(100));
    assert!(matches!(full, Err(Refusal::Exhausted { .. })), "{full:?}");
    let complete = |text: usize| {
        let complete = json!({"key": "0".repeat(32), "result": "x".repeat(text)});
        Command::Order(name("t-0"), Order::Complete(serde_json::from_value::<Complete>(complete).unwrap()))
    };
    index.check_room(&complete(100)).expect("what is done can be told");
    assert!(index.check_room(&complete(10_000)).is_err(), "but not at length");
    // What takes the place of something weighs instead of it.
    let before = index.weight();
    index.put(task("t-0", State::Done, Some("b")));
    assert!(index.weight() < before - MAX_BODY_BYTES as u64 + 1_000);
}
