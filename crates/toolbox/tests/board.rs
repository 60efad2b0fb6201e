//! The board, one rule at a time.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};

use baton_election::command::Acquire;
use baton_election::time::{Span, WallTime};
use baton_election::{
    AgentName, Command, Credential, Document, ElectionName, Epoch, Evidence, Incarnation, ItemName, LeaseKey,
    Refusal, StoreId, decide, fence,
};
use baton_toolbox::board::{self, Accept, Adopt, Assign, Complete, Fail, MAX_UNLED, Report, Withdraw};
use baton_toolbox::proposal::{propose, rule};
use baton_toolbox::{
    AddTasks, Counts, Draw, Mandate, NewTask, Order, Propose, Put, Ruling, SetQuota, Sight, State, Task,
    Worker, choose, quota, value,
};

fn named<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().unwrap()
}

fn credential(life: u8) -> Credential {
    Credential { incarnation: Incarnation([life; 8]), key: LeaseKey([life; 16]) }
}

fn election() -> ElectionName {
    named("e")
}

/// An election that `agent` leads, where epochs up to `floor` were given.
fn led(agent: &str, life: u8, floor: u64) -> (Document, Mandate) {
    let name = election();
    let acquire = Command::Acquire(Acquire::new(
        named(agent),
        credential(life).incarnation,
        credential(life).key.hash(),
    ));
    let evidence = Evidence {
        election: &name,
        store: StoreId([1; 8]),
        age: Span::ZERO,
        wall: WallTime::default(),
        floor: Epoch(floor),
        vanished_lease: Span::ZERO,
        operator_keys: &[],
    };
    let document = decide(None, &acquire, &evidence).unwrap().next.unwrap();
    let mandate = Mandate { token: document.epoch, credential: credential(life) };
    (document, mandate)
}

fn sight<'a>(name: &'a ElectionName, document: Option<&'a Document>) -> Sight<'a> {
    Sight {
        election: name,
        document,
        document_age: Span::ZERO,
        item_age: Span::ZERO,
        wall: WallTime::default(),
    }
}

fn new(id: &str) -> NewTask {
    NewTask { id: Some(named(id)), title: format!("do {id}"), size: 1, ..NewTask::default() }
}

fn added(document: &Document, mandate: Mandate) -> Task {
    let (name, new) = (election(), new("t"));
    let add = AddTasks { mandate: Some(mandate), by: None, tasks: vec![new.clone()] };
    board::add(None, &add, &new, 0, &sight(&name, Some(document))).unwrap().unwrap()
}

fn carried(task: &Task, document: Option<&Document>, order: Order) -> Result<Option<Task>, Refusal> {
    board::carry_out(task, &order, &sight(&election(), document))
}

fn assign(mandate: Mandate, to: &str) -> Order {
    Order::Assign(Assign { mandate, to: Some(named(to)), attempts: None })
}

fn accept(agent: &str, key: u8, seen: u64) -> Order {
    let key_hash = LeaseKey([key; 16]).hash();
    Order::Accept(Accept { agent: named(agent), key_hash, seen: Epoch(seen), attempts: None })
}

fn report(key: u8, percent: u8) -> Order {
    Order::Progress(Report { key: LeaseKey([key; 16]), percent, estimate: None, note: String::new() })
}

fn complete(key: u8) -> Order {
    Order::Complete(Complete { key: LeaseKey([key; 16]), result: "r".into() })
}

/// A task that `worker` works on with the key 7, told in epoch 1.
fn working(worker: &str) -> (Document, Mandate, Task) {
    let (document, mandate) = led("a", 1, 0);
    let task = added(&document, mandate);
    let task = carried(&task, Some(&document), assign(mandate, worker)).unwrap().unwrap();
    let task = carried(&task, None, accept(worker, 7, 1)).unwrap().unwrap();
    (document, mandate, task)
}

#[test]
fn a_task_goes_from_the_queue_to_its_end_and_says_who_attempted_it() {
    let (document, _, task) = working("b");
    assert_eq!(task.state, State::Working);
    let task = carried(&task, None, report(7, 40)).unwrap().unwrap();
    assert_eq!(task.progress.percent, 40);
    let task = carried(&task, None, complete(7)).unwrap().unwrap();
    assert_eq!((task.state, task.result.as_deref()), (State::Done, Some("r")));
    assert_eq!(carried(&task, None, complete(7)), Ok(None), "to say it again changes nothing");
    assert!(matches!(carried(&task, None, report(7, 50)), Err(Refusal::OutOfTurn { .. })));
    let cancel = Order::Cancel(Withdraw {
        mandate: led("a", 1, 0).1,
        reason: String::new(),
        attempts: None,
        orders: None,
    });
    assert!(matches!(carried(&task, Some(&document), cancel), Err(Refusal::OutOfTurn { .. })));
}

#[test]
fn a_worker_reports_on_its_own_task_only() {
    let (.., task) = working("b");
    for order in
        [report(8, 99), complete(8), Order::Fail(Fail { key: LeaseKey([8; 16]), reason: String::new() })]
    {
        assert!(matches!(carried(&task, None, order), Err(Refusal::WrongKey { .. })));
    }
    assert!(matches!(carried(&task, None, accept("c", 8, 0)), Err(Refusal::OutOfTurn { .. })));
    assert!(
        matches!(carried(&task, None, accept("b", 8, 0)), Err(Refusal::OutOfTurn { .. })),
        "it has a key"
    );
    assert_eq!(carried(&task, None, accept("b", 7, 0)), Ok(None));
}

#[test]
fn who_lost_its_task_is_told_so_and_completes_nothing() {
    let (_, _, task) = working("b");
    let task = carried(&task, None, report(7, 60)).unwrap().unwrap();
    let (successor, mandate) = led("x", 2, 4);
    let retry = Order::Retry(Withdraw { mandate, reason: "silent".into(), attempts: Some(1), orders: None });
    let task = carried(&task, Some(&successor), retry).unwrap().unwrap();
    assert_eq!((task.state, task.attempts[0].percent, task.fence), (State::Queued, 60, Epoch(5)));
    assert!(matches!(carried(&task, None, complete(7)), Err(Refusal::OutOfTurn { .. })));
    let task = carried(&task, Some(&successor), assign(mandate, "c")).unwrap().unwrap();
    let task = carried(&task, None, accept("c", 9, 5)).unwrap().unwrap();
    assert!(matches!(carried(&task, None, complete(7)), Err(Refusal::OutOfTurn { .. })));
    let task = carried(&task, None, complete(9)).unwrap().unwrap();
    assert_eq!(task.attempts.len(), 2);
    let late = Order::Retry(Withdraw { mandate, reason: String::new(), attempts: Some(1), orders: None });
    assert!(matches!(carried(&task, Some(&successor), late), Err(Refusal::OutOfTurn { .. })));
}

/// An order says how many attempts there were when it was given: whatever the task is by then, one that comes late changes nothing.
#[test]
fn an_order_that_comes_late_changes_nothing() {
    let (document, mandate) = led("a", 1, 0);
    let told = |to: &str, attempts: u64| {
        Order::Assign(Assign { mandate, to: Some(named(to)), attempts: Some(attempts) })
    };
    let queued = added(&document, mandate);
    let first = carried(&queued, Some(&document), told("b", 0)).unwrap().unwrap();
    assert_eq!(carried(&first, Some(&document), told("b", 0)), Ok(None), "its answer was lost");
    let late = carried(&first, Some(&document), told("c", 0));
    assert!(matches!(late, Err(Refusal::OutOfTurn { .. })), "it was sent before the other: {late:?}");
    let moved = carried(&first, Some(&document), told("c", 1)).unwrap().unwrap();
    assert_eq!((moved.worker(), moved.attempts.len()), (Some(&named("c")), 2));
    assert_eq!(carried(&moved, Some(&document), told("c", 1)), Ok(None), "its answer was lost");
    assert!(matches!(carried(&moved, Some(&document), told("b", 0)), Err(Refusal::OutOfTurn { .. })));
    let moved = carried(&moved, None, accept("c", 7, 1)).unwrap().unwrap();
    assert_eq!(
        carried(&moved, Some(&document), told("c", 1)),
        Ok(None),
        "the worker was quicker than the answer"
    );
    assert_eq!(carried(&moved, Some(&document), assign(mandate, "c")), Ok(None));
    for other in [told("c", 2), told("c", 0), told("b", 1), assign(mandate, "b")] {
        let refused = carried(&moved, Some(&document), other);
        assert!(matches!(refused, Err(Refusal::OutOfTurn { .. })), "{refused:?}");
    }
    let fail = Order::Fail(Fail { key: LeaseKey([7; 16]), reason: String::new() });
    let failed = carried(&moved, None, fail).unwrap().unwrap();
    // Meant for the first attempt, by whatever way they were held up.
    let withdraw = Withdraw { mandate, reason: String::new(), attempts: Some(1), orders: None };
    for task in [&queued, &failed] {
        for order in [Order::Retry(withdraw.clone()), Order::Cancel(withdraw.clone())] {
            let late = carried(task, Some(&document), order);
            assert!(matches!(late, Err(Refusal::OutOfTurn { .. })), "{}: {late:?}", task.state);
        }
    }
    let meant = Order::Retry(Withdraw { attempts: Some(2), ..withdraw });
    assert_eq!(carried(&failed, Some(&document), meant).unwrap().unwrap().state, State::Queued);
}

/// Between one attempt and the next a task is queued and cancelled any number of times: the last word stands, whatever comes late.
#[test]
fn what_was_overtaken_by_another_order_changes_nothing() {
    let (document, mandate, task) = working("b");
    let withdraw =
        |orders: u64| Withdraw { mandate, reason: String::new(), attempts: Some(1), orders: Some(orders) };
    let retry = |task: &Task, orders| carried(task, Some(&document), Order::Retry(withdraw(orders)));
    let cancel = |task: &Task, orders| carried(task, Some(&document), Order::Cancel(withdraw(orders)));
    assert_eq!(task.orders, 1, "the assignment; the worker's word is no order");
    let cancelled = cancel(&task, 1).unwrap().unwrap();
    assert_eq!((cancelled.state, cancelled.orders), (State::Cancelled, 2));
    assert_eq!(cancel(&cancelled, 1), Ok(None), "its answer was lost");
    let late = retry(&cancelled, 1);
    assert!(matches!(late, Err(Refusal::OutOfTurn { .. })), "it was sent before the other: {late:?}");
    let queued = retry(&cancelled, 2).unwrap().unwrap();
    assert_eq!((queued.state, queued.orders), (State::Queued, 3));
    assert_eq!(retry(&queued, 2), Ok(None), "its answer was lost");
    for late in [cancel(&queued, 1), cancel(&queued, 2), retry(&queued, 1), retry(&queued, 9)] {
        assert!(matches!(late, Err(Refusal::OutOfTurn { .. })), "{late:?}");
    }
    // The same states as before, and yet another time.
    let again = cancel(&queued, 3).unwrap().unwrap();
    assert!(matches!(retry(&again, 2), Err(Refusal::OutOfTurn { .. })));
    assert_eq!(retry(&again, 4).unwrap().unwrap().state, State::Queued);
}

#[test]
fn an_acceptance_that_comes_late_begins_no_later_attempt() {
    let (document, mandate) = led("a", 1, 0);
    let late = Order::Accept(Accept {
        agent: named("b"),
        key_hash: LeaseKey([7; 16]).hash(),
        seen: Epoch(1),
        attempts: Some(1),
    });
    let first = carried(&added(&document, mandate), Some(&document), assign(mandate, "b")).unwrap().unwrap();
    let begun = carried(&first, None, late.clone()).unwrap().unwrap();
    assert_eq!(carried(&begun, None, late.clone()), Ok(None), "its answer was lost");
    let retry = Order::Retry(Withdraw { mandate, reason: String::new(), attempts: Some(1), orders: Some(1) });
    let queued = carried(&first, Some(&document), retry).unwrap().unwrap();
    let second = carried(&queued, Some(&document), assign(mandate, "b")).unwrap().unwrap();
    let refused = carried(&second, None, late);
    assert!(matches!(refused, Err(Refusal::OutOfTurn { .. })), "{refused:?}");
    assert!(carried(&second, None, accept("b", 8, 1)).unwrap().is_some());
}

#[test]
fn a_task_that_was_changed_by_hand_is_refused() {
    let (document, mandate, task) = working("b");
    for state in [State::Queued, State::Done, State::Failed, State::Cancelled] {
        let odd = Task { state, ..task.clone() };
        for order in [assign(mandate, "c"), complete(7), report(7, 50), accept("b", 7, 1)] {
            let refused = carried(&odd, Some(&document), order);
            assert!(matches!(refused, Err(Refusal::Invalid { .. })), "{state}: {refused:?}");
        }
    }
}

#[test]
fn a_task_is_an_object_and_no_list_of_its_fields() {
    let read = |task: &str| {
        serde_json::from_str::<AddTasks>(&format!(r#"{{"by": "a", "tasks": [{task}]}}"#)).map(|add| add.tasks)
    };
    assert_eq!(read(r#"{"id": "t", "title": "do t"}"#).unwrap(), vec![new("t")]);
    assert!(read(r#"["t", null, "do t"]"#).is_err());
}

#[test]
fn a_former_leader_writes_nothing_that_its_successor_wrote() {
    let (first, old) = led("a", 1, 0);
    let task = added(&first, old);
    let (second, new) = led("x", 2, 4);
    let task = carried(&task, Some(&second), assign(new, "b")).unwrap().unwrap();
    // Even if the old one still sees the election as it was.
    let stale = carried(&task, Some(&first), assign(old, "c"));
    assert!(matches!(stale, Err(Refusal::Stale { shown: Epoch(1), current: Epoch(5), .. })), "{stale:?}");
    let unseen = carried(&added(&first, old), Some(&second), assign(old, "c"));
    assert!(matches!(unseen, Err(Refusal::Stale { .. })));
    let forged = Mandate { token: new.token, credential: credential(9) };
    assert!(matches!(carried(&task, Some(&second), assign(forged, "c")), Err(Refusal::WrongKey { .. })));
    assert!(matches!(carried(&task, None, assign(new, "c")), Err(Refusal::UnknownElection { .. })));
}

#[test]
fn a_successor_adopts_what_is_under_way_and_the_worker_goes_on() {
    let (first, old, task) = working("b");
    let task = carried(&task, None, report(7, 60)).unwrap().unwrap();
    let (second, new) = led("x", 2, 4);
    let adopt = |mandate, attempts| Order::Adopt(Adopt { mandate, attempts });
    let mut counts = Counts::default();
    counts.count(&task);
    assert_eq!(counts.clone().seen(Some(&first), Span::ZERO).inherited, 0);
    assert_eq!(counts.clone().seen(Some(&second), Span::ZERO).inherited, 1);
    let mut approved = first.clone();
    approved.epoch = Epoch(2);
    approved.leader.as_mut().unwrap().epoch = Epoch(2);
    assert!(fence::check(Epoch(1), &approved, Span::ZERO).is_err(), "what its worker shows is refused");
    assert_eq!(counts.clone().seen(Some(&approved), Span::ZERO).inherited, 1);
    let late = carried(&task, Some(&second), adopt(new, Some(0)));
    assert!(matches!(late, Err(Refusal::OutOfTurn { .. })), "{late:?}");
    let adopted = carried(&task, Some(&second), adopt(new, Some(1))).unwrap().unwrap();
    let attempt = &adopted.attempts[0];
    assert_eq!((adopted.attempts.len(), attempt.epoch, adopted.fence), (1, Epoch(5), Epoch(5)));
    assert_eq!((adopted.state, adopted.progress.percent), (State::Working, 60));
    assert_eq!(carried(&adopted, Some(&second), adopt(new, Some(1))), Ok(None), "once is enough");
    counts.discount(&task);
    counts.count(&adopted);
    assert_eq!(counts.seen(Some(&second), Span::ZERO).inherited, 0);
    // The former leader's word counts no more, and the worker's does.
    let stale = carried(&adopted, Some(&first), adopt(old, None));
    assert!(matches!(stale, Err(Refusal::Stale { .. })), "{stale:?}");
    let done = carried(&adopted, None, complete(7)).unwrap().unwrap();
    assert_eq!(done.state, State::Done);
    assert!(matches!(carried(&done, Some(&second), adopt(new, None)), Err(Refusal::OutOfTurn { .. })));
}

#[test]
fn a_worker_refuses_an_instruction_of_an_older_epoch_until_it_is_given_again() {
    let (first, old) = led("a", 1, 0);
    let task = carried(&added(&first, old), Some(&first), assign(old, "b")).unwrap().unwrap();
    assert!(matches!(carried(&task, None, accept("b", 7, 5)), Err(Refusal::Stale { .. })));
    let (second, new) = led("x", 2, 4);
    let again = Order::Assign(Assign { mandate: new, to: None, attempts: None });
    let task = carried(&task, Some(&second), again.clone()).unwrap().unwrap();
    assert_eq!((task.attempts.len(), task.attempts[0].epoch), (1, Epoch(5)));
    assert_eq!(carried(&task, Some(&second), again), Ok(None));
    assert!(carried(&task, None, accept("b", 7, 5)).unwrap().is_some());
}

#[test]
fn the_same_key_is_the_same_task_and_another_task_needs_another() {
    let (document, mandate) = led("a", 1, 0);
    let name = election();
    let by_key =
        NewTask { key: Some("https://x/17".into()), title: "fix 17".into(), size: 1, ..NewTask::default() };
    let add = AddTasks { mandate: Some(mandate), by: None, tasks: vec![by_key.clone()] };
    let task = board::add(None, &add, &by_key, 0, &sight(&name, Some(&document))).unwrap().unwrap();
    assert_eq!(task.id, by_key.id().unwrap());
    let put = |new: &NewTask| board::add(Some(&task), &add, new, 0, &sight(&name, Some(&document)));
    assert_eq!(put(&by_key), Ok(None));
    assert!(matches!(
        put(&NewTask { title: "other".into(), ..by_key.clone() }),
        Err(Refusal::OutOfTurn { .. })
    ));
    assert!(matches!(NewTask { key: None, ..by_key.clone() }.id(), Err(Refusal::Invalid { .. })));
    for title in ["", " ", "a\nb", &"x".repeat(257)] {
        let odd = NewTask { title: title.into(), id: Some(named("n")), ..by_key.clone() };
        let refused = board::add(None, &add, &odd, 0, &sight(&name, Some(&document)));
        assert!(matches!(refused, Err(Refusal::Invalid { .. })), "{title:?}");
    }
}

#[test]
fn without_a_leader_tasks_wait_within_a_bound_and_with_one_they_are_its_business() {
    let (document, _) = led("a", 1, 0);
    let (name, new) = (election(), new("t"));
    let add = AddTasks { mandate: None, by: Some(named("b")), tasks: vec![new.clone()] };
    let put = |document: &Document, age: Span, unled: u64| {
        let sight = Sight { document_age: age, ..sight(&name, Some(document)) };
        board::add(None, &add, &new, unled, &sight)
    };
    assert!(matches!(put(&document, Span::ZERO, 0), Err(Refusal::OutOfTurn { .. })));
    let task = put(&document, Span::secs(3_600), 0).unwrap().unwrap();
    assert!(task.is_unled());
    assert!(matches!(put(&document, Span::secs(3_600), MAX_UNLED), Err(Refusal::Exhausted { .. })));
}

#[test]
fn the_best_is_who_can_and_has_room() {
    let (document, mandate) = led("a", 1, 0);
    let mut task = added(&document, mandate);
    task.needs = BTreeSet::from(["rust".to_string()]);
    task.size = 2;
    let worker = |agent: &str, can: &[&str], capacity, load| Worker {
        agent: named(agent),
        capabilities: can.iter().map(ToString::to_string).collect(),
        capacity,
        load,
    };
    let workers = [
        worker("idle", &[], 9, 0),
        worker("full", &["rust"], 2, 1),
        worker("near", &["rust", "sql"], 4, 2),
        worker("far", &["rust"], 4, 0),
    ];
    assert_eq!(choose(&workers, &task).unwrap().agent, named::<AgentName>("far"));
    assert_eq!(choose(&workers[..3], &task).unwrap().agent, named::<AgentName>("near"));
    assert!(matches!(choose(&workers[..2], &task), Err(Refusal::Exhausted { .. })));
    assert!(matches!(choose(&workers[..1], &task), Err(Refusal::NotEligible { .. })));
}

#[test]
fn the_first_decision_on_a_proposal_stands() {
    let (document, mandate) = led("a", 1, 0);
    let name = election();
    let asked = Propose {
        id: named("p"),
        by: named("b"),
        title: "use a generator".into(),
        body: String::new(),
        about: "parser".into(),
    };
    let sight = sight(&name, Some(&document));
    let open = propose(None, &asked, &sight).unwrap().unwrap();
    assert_eq!(propose(Some(&open), &asked, &sight), Ok(None));
    let ruling = |accept| Ruling { mandate, accept, reason: "r".into() };
    let ruled = rule(&open, &ruling(true), &sight).unwrap().unwrap();
    assert_eq!(rule(&ruled, &ruling(true), &sight), Ok(None));
    assert!(matches!(rule(&ruled, &ruling(false), &sight), Err(Refusal::OutOfTurn { .. })));
}

#[test]
fn shares_do_not_exceed_the_whole_and_a_new_leader_inherits_them() {
    let (document, mandate) = led("a", 1, 0);
    let (name, of) = (election(), named::<ItemName>("api"));
    let set = |mandate, amount, b, c| SetQuota {
        mandate,
        amount,
        window: Span::secs(60),
        shares: BTreeMap::from([(named("b"), b), (named("c"), c)]),
    };
    let first = sight(&name, Some(&document));
    for (amount, b, c) in [(10, 6, 5), (10, u64::MAX, u64::MAX)] {
        assert!(matches!(
            quota::set(None, &of, &set(mandate, amount, b, c), &first),
            Err(Refusal::Invalid { .. })
        ));
    }
    let split = quota::set(None, &of, &set(mandate, 10, 6, 4), &first).unwrap().unwrap().next;
    let draw = |agent: &str, amount, id| Draw { agent: named(agent), amount, id: Incarnation([id; 8]) };
    let (written, told) = quota::draw(&split, &draw("b", 5, 1), &first).unwrap();
    let written = written.unwrap();
    assert!(written.begins && told.left == 1);
    let later = Sight { item_age: Span::secs(20), ..first };
    let refused = quota::draw(&written.next, &draw("b", 2, 2), &later);
    let in_time = Err(Refusal::Exhausted {
        why: "1 of the 6 are left to b of the quota `api`, and it asks for 2".into(),
        retry_in: Some(Span::secs(40)),
    });
    assert_eq!(refused, in_time);
    assert!(matches!(
        quota::draw(&split, &draw("z", 1, 3), &first),
        Err(Refusal::Exhausted { retry_in: None, .. })
    ));
    let next_window = Sight { item_age: Span::secs(60), ..first };
    assert!(quota::draw(&written.next, &draw("b", 6, 4), &next_window).is_ok());
    // A leader that splits anew within a window gives out nothing twice.
    let (second, successor) = led("x", 2, 4);
    let inherited = sight(&name, Some(&second));
    let anew = quota::set(Some(&written.next), &of, &set(successor, 10, 0, 10), &inherited).unwrap().unwrap();
    assert!(!anew.begins);
    let beyond = quota::draw(&anew.next, &draw("c", 6, 5), &later);
    assert!(matches!(beyond, Err(Refusal::Exhausted { .. })), "{beyond:?}");
    assert!(quota::draw(&anew.next, &draw("c", 5, 6), &later).is_ok());
}

#[test]
fn a_value_is_put_on_top_of_the_version_that_was_meant_and_the_last_ones_stay() {
    let (document, mandate) = led("a", 1, 0);
    let (name, of) = (election(), named::<ItemName>("plan"));
    let sight = sight(&name, Some(&document));
    let put = |expected, text: &str| Put { mandate, expected, value: text.into() };
    let first = value::put(None, &of, &put(Some(0), "one"), &sight).unwrap().unwrap();
    assert_eq!(value::put(Some(&first), &of, &put(Some(0), "one"), &sight), Ok(None), "an answer was lost");
    assert!(matches!(
        value::put(Some(&first), &of, &put(Some(0), "x"), &sight),
        Err(Refusal::OutOfTurn { .. })
    ));
    let mut last = first;
    for number in 2..40_u64 {
        let text = format!("{number}{}", "x".repeat(40_000));
        last = value::put(Some(&last), &of, &put(Some(number - 1), &text), &sight).unwrap().unwrap();
        let bytes: usize = last.versions.iter().map(|version| version.value.len()).sum();
        assert!(last.versions.len() <= value::KEPT_VERSIONS && bytes <= value::KEPT_BYTES);
    }
    assert_eq!(last.version(), 39);
    let long = "x".repeat(value::MAX_VALUE_BYTES + 1);
    assert!(matches!(value::put(Some(&last), &of, &put(None, &long), &sight), Err(Refusal::Invalid { .. })));
}
