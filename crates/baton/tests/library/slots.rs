//! Runs that happen once in each slot of time.

use baton::election::{Refusal, Span};
use baton::store::{Key, MemoryStore};
use baton::toolbox::{Again, Begun, MarkedSlot, SlotRun, SlotStanding, Slots};
use baton::{Coordinator, Error, Leadership, Mandate};

use crate::support::faulty::{Fault, Faulty};
use crate::support::{act, agent, bid, client, depose, election, lead, on_each_store, operator};

/// No test runs beyond the end of such a slot.
fn slots() -> Slots {
    Slots::new(Span::secs(36_500 * 86_400), Span::ZERO).unwrap()
}

fn mandate(lead: &Leadership) -> Mandate {
    Mandate { token: lead.token(), credential: lead.credential() }
}

async fn begin(coordinator: &Coordinator, lead: &Leadership, again: Again) -> Result<Begun, Error> {
    coordinator.toolbox(&election()).begin_slot(mandate(lead), lead.agent(), &slots(), again).await
}

fn mine(begun: Begun) -> MarkedSlot {
    match begun {
        Begun::Run(marked) => marked,
        Begun::Not(standing) => panic!("it may not run: {standing:?}"),
    }
}

#[track_caller]
fn over(begun: Begun) -> SlotRun {
    match begun {
        Begun::Not(SlotStanding::Over(run)) => run,
        other => panic!("the slot is not over: {other:?}"),
    }
}

#[tokio::test]
async fn a_slot_is_run_once_and_its_end_is_known() {
    on_each_store(async |store| {
        let coordinator = crate::support::client_of(&store);
        let tools = coordinator.toolbox(&election());
        assert_eq!(tools.last_slot().await.unwrap(), None);
        let first = lead(&coordinator, bid("a", 60_000)).await;
        let marked = mine(begin(&coordinator, &first, Again::Never).await.unwrap());
        assert_eq!(tools.last_slot().await.unwrap().as_ref(), Some(&marked.run), "before anything runs");
        tools.end_slot(mandate(&first), &marked, 0, true).await.unwrap();
        first.release("done").await.unwrap();
        for again in [Again::Never, Again::IfNotDone] {
            let standing = tools.slot_standing(&slots(), again).await.unwrap();
            assert!(matches!(standing, SlotStanding::Over(_)), "{standing:?}");
            let next = lead(&coordinator, bid("b", 60_000)).await;
            let run = over(begin(&coordinator, &next, again).await.unwrap());
            assert_eq!((run.by, run.ended.map(|end| (end.code, end.success))), (agent("a"), Some((0, true))));
            next.release("nothing to do").await.unwrap();
        }
    })
    .await;
}

/// The process was killed right after the mark.
#[tokio::test]
async fn a_run_that_died_after_its_mark_is_never_run_again_unless_that_is_asked_for() {
    let store = MemoryStore::default();
    let coordinator = client(&store);
    let first = lead(&coordinator, bid("a", 60_000)).await;
    let marked = mine(begin(&coordinator, &first, Again::Never).await.unwrap());
    first.release("its warden ended it").await.unwrap();
    let second = lead(&coordinator, bid("b", 60_000)).await;
    assert_eq!(over(begin(&coordinator, &second, Again::Never).await.unwrap()), marked.run);
    let again = mine(begin(&coordinator, &second, Again::IfNotDone).await.unwrap());
    assert_eq!((again.run.by.clone(), again.run.slot), (agent("b"), marked.run.slot));
    let tools = coordinator.toolbox(&election());
    tools.end_slot(mandate(&second), &again, 7, false).await.unwrap();
    second.release("failed").await.unwrap();
    let third = lead(&coordinator, bid("c", 60_000)).await;
    let once_more = mine(begin(&coordinator, &third, Again::IfNotDone).await.unwrap());
    tools.end_slot(mandate(&third), &once_more, 0, true).await.unwrap();
    let done = tools.slot_standing(&slots(), Again::IfNotDone).await.unwrap();
    assert!(matches!(done, SlotStanding::Over(run) if run.by == agent("c")));
}

/// Whether the mark was applied or not when its reply was lost: it is one mark, and this leadership's.
#[tokio::test]
async fn a_mark_whose_reply_is_lost_is_found_to_be_ones_own() {
    fn is_item(key: &Key) -> bool {
        matches!(key, Key::Item(..))
    }
    for faults in [&[Fault::After][..], &[Fault::Before, Fault::After], &[Fault::Before; 2]] {
        let store = MemoryStore::default();
        let faulty = Faulty::over(store.clone());
        let coordinator = client(&faulty);
        let leader = lead(&coordinator, bid("a", 60_000)).await;
        faulty.plan(is_item, faults);
        let marked = mine(begin(&coordinator, &leader, Again::Never).await.unwrap());
        assert!(faulty.is_over());
        // Also for a caller whose patience ended, and who asks again.
        assert_eq!(mine(begin(&coordinator, &leader, Again::Never).await.unwrap()), marked);
        let value = client(&store).toolbox(&election()).value(&"baton.slot".parse().unwrap()).await.unwrap();
        assert_eq!(value.version(), 1, "{faults:?}");
    }
}

#[tokio::test]
async fn a_deposed_leader_neither_marks_a_slot_nor_ends_its_successors() {
    let store = MemoryStore::default();
    let coordinator = client(&store);
    coordinator.operators().enrol(&operator()).await.unwrap();
    let first = lead(&coordinator, bid("a", 60_000)).await;
    act(&coordinator, depose("too slow")).await;
    let refused = begin(&coordinator, &first, Again::Never).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::Stale { .. })), "{refused:?}");
    let credential = first.credential();
    let old = mandate(&first);
    coordinator.release(&election(), first.token(), credential, None).await.unwrap();
    let second = lead(&coordinator, bid("b", 60_000)).await;
    let marked = mine(begin(&coordinator, &second, Again::Never).await.unwrap());
    let late = coordinator.toolbox(&election()).end_slot(old, &marked, 0, true).await.unwrap_err();
    assert!(matches!(late, Error::Refused(Refusal::Stale { .. })), "{late:?}");
    let last = coordinator.toolbox(&election()).last_slot().await.unwrap().unwrap();
    assert_eq!((last.by, last.ended), (agent("b"), None));
}
