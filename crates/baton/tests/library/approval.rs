//! Leaders that need a person's approval.

use std::time::Duration;

use baton::election::operator::Act;
use baton::election::policy::ApprovalMode;
use baton::election::{Answer, ItemName, Policy};
use baton::store::MemoryStore;
use baton::toolbox::NewTask;
use baton::{CheckpointContent, Leadership, Mandate, Status, WorkerKey};

use crate::support::{act, agent, bid, changes_of_leader, client, document, election, in_time, lead, rule};

fn content(summary: &str) -> CheckpointContent {
    CheckpointContent {
        summary: summary.to_string(),
        state: "null".to_string(),
        reference: None,
        covers: None,
    }
}

async fn stands(leader: &Leadership, wanted: &Status) {
    in_time(leader.status().wait_for(|status| status == wanted)).await.unwrap();
}

async fn checkpoint(leader: &Leadership, summary: &str) -> baton::election::ContentHash {
    match leader.checkpoint(&content(summary)).await.unwrap() {
        Answer::Checkpointed { hash, awaiting_approval: true, .. } => hash,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_token_rises_under_a_leader_whose_checkpoints_are_approved() {
    let store = MemoryStore::default();
    let (coordinator, person) = (client(&store), client(&store));
    rule(&person, Policy { approval: ApprovalMode::Checkpoints, ..Policy::default() }).await;
    let leader = lead(&coordinator, bid("a", 600_000)).await;
    for round in 1..=3 {
        assert_eq!(leader.token().0, round);
        assert!(leader.ensure(Duration::ZERO));
        let hash = checkpoint(&leader, &format!("round {round}")).await;
        assert!(!leader.ensure(Duration::ZERO), "from the moment of the answer on");
        stands(&leader, &Status::AwaitingApproval).await;
        assert!(person.check(leader.election(), leader.token()).await.is_err(), "the token is refused");
        act(&person, Act::Approve { checkpoint: Some(hash) }).await;
        stands(&leader, &Status::Safe).await;
        assert_eq!(leader.token().0, round + 1, "under the running leadership");
        assert!(leader.ensure(Duration::from_secs(60)));
        assert!(person.check(leader.election(), leader.token()).await.is_ok());
    }
    let history = changes_of_leader(&person).await;
    let expected = ["first to a", "approval to a", "approval to a", "approval to a"];
    assert!(history.iter().map(|(_, what)| what.as_str()).eq(expected), "{history:?}");
    let released = leader.release("").await.unwrap().unwrap();
    assert_eq!(released.epoch.0, 4);
}

#[tokio::test]
async fn who_works_for_a_leader_is_adopted_after_an_approval() {
    let store = MemoryStore::default();
    let (coordinator, person) = (client(&store), client(&store));
    rule(&person, Policy { approval: ApprovalMode::Checkpoints, ..Policy::default() }).await;
    let credential = baton::mint_credential().unwrap();
    let grant = coordinator.acquire(&election(), &bid("a", 600_000), credential, None, None).await.unwrap();
    let tools = coordinator.toolbox(&election());
    let mandate = |token| Mandate { token, credential };
    let (id, worker): (ItemName, _) = ("one".parse().unwrap(), agent("b"));
    let task = NewTask { id: Some(id.clone()), title: "do it".to_string(), size: 1, ..NewTask::default() };
    tools.add(Some(mandate(grant.epoch)), None, &[task]).await.unwrap();
    tools.assign(&id, mandate(grant.epoch), Some(worker.clone())).await.unwrap();
    tools.accept(&id, &worker, WorkerKey::mint().unwrap(), grant.epoch).await.unwrap();
    assert_eq!(tools.inherited().await.unwrap(), []);
    let left = coordinator.checkpoint(&election(), grant.epoch, credential, &content("half")).await.unwrap();
    let Answer::Checkpointed { hash, .. } = left else { panic!("{left:?}") };
    act(&person, Act::Approve { checkpoint: Some(hash) }).await;
    // What the worker shows to a fence is refused, as after a change of leader.
    assert!(person.check(&election(), grant.epoch).await.is_err());
    let token = document(&person).await.epoch;
    let told: Vec<ItemName> = tools.inherited().await.unwrap().into_iter().map(|task| task.id).collect();
    assert_eq!(told, std::slice::from_ref(&id));
    let adopted = tools.adopt(&id, mandate(token), Some(1)).await.unwrap();
    assert_eq!(adopted.attempt().map(|attempt| attempt.epoch), Some(token));
    assert_eq!(tools.inherited().await.unwrap(), []);
}

#[tokio::test]
async fn a_rejection_ends_it() {
    let store = MemoryStore::default();
    let (coordinator, person) = (client(&store), client(&store));
    rule(&person, Policy { approval: ApprovalMode::Checkpoints, ..Policy::default() }).await;
    let leader = lead(&coordinator, bid("a", 600_000)).await;
    let _ = checkpoint(&leader, "bold").await;
    act(&person, Act::Reject { reason: "too bold".to_string() }).await;
    assert!(in_time(leader.lost()).await.contains("too bold"));
    assert!(!leader.ensure(Duration::ZERO));
    leader.release("").await.unwrap();
    let next = lead(&coordinator, bid("b", 30_000)).await;
    assert_eq!(changes_of_leader(&person).await.last().unwrap().1, "approval to b");
    assert!(next.ensure(Duration::ZERO));
}

#[tokio::test]
async fn approvals_by_time_are_asked_for_in_advance_and_then_insisted_on() {
    let store = MemoryStore::default();
    let (coordinator, person) = (client(&store), client(&store));
    let approval_ttl = baton::election::Span::millis(8_000);
    rule(&person, Policy { approval: ApprovalMode::Time, approval_ttl, ..Policy::default() }).await;
    let leader = lead(&coordinator, bid("a", 6_000)).await;
    stands(&leader, &Status::AwaitingApproval).await;
    assert!(!leader.ensure(Duration::ZERO));
    assert!(document(&person).await.approval.question.is_some());
    act(&person, Act::Approve { checkpoint: None }).await;
    stands(&leader, &Status::Safe).await;
    assert_eq!(leader.token().0, 2);
    assert!(leader.ensure(Duration::ZERO));
}
