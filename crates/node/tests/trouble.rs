//! A group that cannot elect, or a hand-over that comes to nothing: the members say so.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support::wires::Wires;
use crate::support::{HANG, id, options, run, told};
use baton_node::{Change, ControlReply, ControlRequest, Event, NodeOptions, RunningNode, Status, ask_folder};
use baton_peer::paxos::Paxos;
use baton_peer::raft::Raft;
use baton_peer::{Group, Member, Timing};
use tempfile::TempDir;

/// Waits until it says that nobody can be elected, with these words.
async fn stuck(member: &mut RunningNode, words: &str) {
    told(member, words, |event| {
        let is_so = matches!(&event, Event::Stuck(why) if why.contains(words));
        is_so.then_some(())
    })
    .await;
}

async fn status(place: &TempDir, number: u16) -> Status {
    let answer = ask_folder(&place.path().join(number.to_string()), &ControlRequest::Status).await.unwrap();
    let ControlReply::Status(status) = answer else { panic!("no status: {answer:?}") };
    *status
}

/// In a rhythm in which trouble is soon told of; nobody leads for long here.
fn quick(mut options: NodeOptions) -> NodeOptions {
    options.config.timing = Timing::LAN;
    options
}

fn unfounded(place: &TempDir, number: u16, of: u16) -> NodeOptions {
    quick(NodeOptions { found: false, ..options(place, number, of) })
}

#[tokio::test]
async fn at_the_first_start_a_member_says_who_is_missing() {
    let place = tempfile::tempdir().unwrap();
    let wires = Wires::new();
    let mut members =
        [run::<Raft>(unfounded(&place, 1, 3), &wires), run::<Raft>(unfounded(&place, 2, 3), &wires)];
    for member in &mut members {
        stuck(member, "has lost its memory; missing: 3").await;
    }
    let seen = status(&place, 1).await;
    assert!(seen.trouble.unwrap().contains("missing: 3"));
    let others: Vec<bool> = seen.members.iter().map(|member| member.forgetful).collect();
    assert_eq!(others, [false, true, false], "the second one has told that it remembers nothing");
}

#[tokio::test]
async fn where_some_are_told_to_found_all_say_so() {
    let place = tempfile::tempdir().unwrap();
    let wires = Wires::new();
    let mut one = run::<Paxos>(quick(options(&place, 1, 3)), &wires);
    let mut two = run::<Paxos>(unfounded(&place, 2, 3), &wires);
    let mut three = run::<Paxos>(unfounded(&place, 3, 3), &wires);
    for member in [&mut one, &mut two, &mut three] {
        stuck(member, "--found was given to 1, and not to 2, 3").await;
    }
}

#[tokio::test]
async fn where_too_many_have_forgotten_all_say_so() {
    let place = tempfile::tempdir().unwrap();
    let wires = Wires::new();
    let mut members: Vec<RunningNode> =
        (1..=3).map(|number| run::<Raft>(quick(options(&place, number, 3)), &wires)).collect();
    // All have kept a term.
    for number in 1..=3 {
        let heard = async {
            while !place.path().join(number.to_string()).join("state").exists()
                || status(&place, number).await.leader.is_none()
            {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(HANG, heard).await.unwrap();
    }
    for number in [2, 3] {
        let member = &mut members[usize::from(number - 1_u16)];
        member.task.abort();
        let _ = (&mut member.task).await;
        let folder = place.path().join(number.to_string());
        let removed = async {
            // What it was writing when it ended may still come.
            while folder.exists() && std::fs::remove_dir_all(&folder).is_err() {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(HANG, removed).await.unwrap();
    }
    let mut two = run::<Raft>(unfounded(&place, 2, 3), &wires);
    let _three = run::<Raft>(unfounded(&place, 3, 3), &wires);
    stuck(&mut two, "too many have lost their memory").await;
    stuck(&mut members[0], "without memory, and asking: 2, 3").await;
}

#[tokio::test]
async fn a_hand_over_to_who_does_not_answer_is_refused_or_said_to_have_failed() {
    let place = tempfile::tempdir().unwrap();
    let wires = Wires::new();
    // The third is there, and says nothing.
    let silent = wires.end(id(3));
    let mut one = run::<Raft>(with_witness(&place, 1), &wires);
    let _two = run::<Raft>(with_witness(&place, 2), &wires);
    tokio::time::timeout(HANG, one.leadership.wait_for(|leadership| leadership.current.is_some()))
        .await
        .unwrap()
        .unwrap();
    let ask = ControlRequest::Transfer { to: Some(id(3)) };
    // It may have been silent for long enough to be known for it.
    let first = ask_folder(&place.path().join("1"), &ask).await.unwrap();
    if first == ControlReply::Begun {
        let to = told(&mut one, "it came to nothing", |event| {
            if let Event::NotHandedOver { to, .. } = event { Some(to) } else { None }
        })
        .await;
        assert_eq!(to, Some(id(3)));
    }
    let refused = async {
        loop {
            match ask_folder(&place.path().join("1"), &ask).await.unwrap() {
                ControlReply::Refused(why) if why.contains("member 3 has not answered for") => return,
                ControlReply::Begun | ControlReply::Refused(_) => {}
                other => panic!("{other:?}"),
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(HANG, refused).await.expect("its silence is never noticed");
    let seen = status(&place, 1).await;
    assert!(seen.members[2].silent_ms.is_some() && seen.members[2].connected, "{seen:?}");
    assert_eq!(seen.members[1].silent_ms, None);
    drop(silent);
    let gone = ask_folder(&place.path().join("1"), &ask).await.unwrap();
    assert!(matches!(&gone, ControlReply::Refused(why) if why == "member 3 is out of reach"), "{gone:?}");
    assert!(one.leadership.borrow().current.is_some_and(|current| !current.stop), "its work was left alone");
}

/// Of members 1 to 3, of which the second never leads.
fn with_witness(place: &TempDir, number: u16) -> NodeOptions {
    let mut options = options(place, number, 3);
    let member = |n: u16| Member { witness: n == 2, ..Member::plain(id(n)) };
    options.config.group = Group::founded((1..=3).map(member).collect()).unwrap();
    options
}

#[tokio::test]
async fn a_change_of_nobody_or_of_somebody_unheard_is_told() {
    let place = tempfile::tempdir().unwrap();
    let wires = Wires::new();
    let mut one = run::<Raft>(options(&place, 1, 1), &wires);
    tokio::time::timeout(HANG, one.leadership.wait_for(|leadership| leadership.current.is_some()))
        .await
        .unwrap()
        .unwrap();
    let ask = |change: Change| {
        let folder = place.path().join("1");
        async move { ask_folder(&folder, &ControlRequest::Members { change }).await.unwrap() }
    };
    let gone = ask(Change::Remove { id: id(9) }).await;
    assert_eq!(gone, ControlReply::Refused("there is no member 9".to_string()));
    let add = || Change::Add { member: Member::plain(id(2)), address: Some("127.0.0.1:9".to_string()) };
    let taken = async {
        loop {
            match ask(add()).await {
                ControlReply::Warned(why) => return why,
                ControlReply::Refused(why) => assert!(why.contains("not been heard"), "{why}"),
                other => panic!("{other:?}"),
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let why = tokio::time::timeout(HANG, taken).await.unwrap();
    assert!(why.contains("member 2 was not heard") && why.contains("2 of 2 members"), "{why}");
}

#[tokio::test]
async fn a_list_that_does_not_count_is_told_of() {
    let place = tempfile::tempdir().unwrap();
    let wires = Wires::new();
    let mut one = run::<Raft>(options(&place, 1, 1), &wires);
    tokio::time::timeout(HANG, one.leadership.wait_for(|leadership| leadership.current.is_some()))
        .await
        .unwrap()
        .unwrap();
    one.task.abort();
    let _ = (&mut one.task).await;
    let mut again = run::<Raft>(options(&place, 1, 3), &wires);
    let lists = told(&mut again, "another list counts", |event| {
        if let Event::OtherList { counts, given } = event { Some((counts, given)) } else { None }
    })
    .await;
    assert_eq!(lists, (vec![id(1)], vec![id(1), id(2), id(3)]));
}
