//! The shell of a machine: order of effects, disk, leaving, resigning, the file of members.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support;
use std::fs;
use std::time::Duration;

use crate::support::toy::{self, Toy};
use crate::support::wires::Wires;
use crate::support::{HANG, id, options, run};
use baton_node::{
    Change, ControlReply, ControlRequest, Event, LeadershipSnapshot, LeadershipStatus, NodeError,
    NodeOptions, Peer, RunningNode, StateError, ask_folder,
};
use baton_peer::raft::Raft;
use baton_peer::{Group, LossCause, Member};
use tempfile::TempDir;
use tokio::sync::watch;

async fn until(
    leadership: &mut watch::Receiver<LeadershipStatus>,
    what: &str,
    holds: impl FnMut(&LeadershipStatus) -> bool,
) -> LeadershipStatus {
    match tokio::time::timeout(HANG, leadership.wait_for(holds)).await {
        Ok(Ok(leadership)) => *leadership,
        Ok(Err(_)) => panic!("the member ended before: {what}"),
        Err(_) => panic!("never happened: {what}"),
    }
}

async fn leads(leadership: &mut watch::Receiver<LeadershipStatus>) -> LeadershipSnapshot {
    until(leadership, "it leads", |leadership| leadership.current.is_some()).await.current.unwrap()
}

#[tokio::test]
async fn what_cannot_be_kept_is_not_said_and_the_machine_stops() {
    let place = tempfile::tempdir().unwrap();
    let wires = Wires::new();
    let options = options(&place, 1, 2);
    let folder = options.folder.clone();
    let mut member = run::<Toy>(options, &wires);
    // The toy keeps a number before it says it, and leads from three on.
    let mut other = wires.end(id(2));
    for said in 1..=3 {
        assert_eq!(other.said().await, said);
    }
    leads(&mut member.leadership).await;
    // From here on nothing can be kept.
    fs::create_dir(folder.join("state.next")).unwrap();
    let ended = tokio::time::timeout(HANG, &mut member.task).await.unwrap().unwrap();
    assert!(
        matches!(&ended, Err(NodeError::State(StateError::Io { file, .. })) if file.ends_with("state.next")),
        "{ended:?}"
    );
    assert_eq!(member.leadership.borrow().current, None, "nobody must think that it leads");
    // Whatever was said was kept, and what is kept may be one number more.
    let heard = other.all_said();
    let kept = toy::kept(&folder);
    assert!(heard.iter().all(|said| *said <= kept), "{heard:?} were said, and {kept} was kept");
}

#[tokio::test]
async fn three_members_elect_one_and_it_hands_over_when_it_leaves() {
    let place = tempfile::tempdir().unwrap();
    let wires = Wires::new();
    let mut members: Vec<RunningNode> =
        (1..=3).map(|number| run::<Raft>(options(&place, number, 3), &wires)).collect();
    let (first, current) = leader(&members, 0).await;
    assert!(current.until.is_some() && current.term.0 > 0);
    members[first].work.leave().await;
    let left = tokio::time::timeout(HANG, &mut members[first].task).await.unwrap().unwrap();
    assert!(left.is_ok());
    let ended = members[first].leadership.borrow().ended;
    members.remove(first);
    let (_, next) = leader(&members, current.term.0).await;
    assert!(next.term > current.term);
    assert!(matches!(ended, Some((serial, LossCause::HandedOver)) if serial == current.serial), "{ended:?}");
}

/// The member that leads above this term.
async fn leader(members: &[RunningNode], above: u64) -> (usize, LeadershipSnapshot) {
    let found = tokio::time::timeout(HANG, async {
        loop {
            for (place, member) in members.iter().enumerate() {
                let current = member.leadership.borrow().current;
                if let Some(current) = current.filter(|current| current.term.0 > above && !current.stop) {
                    return (place, current);
                }
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    found.await.expect("nobody leads")
}

#[tokio::test]
async fn who_resigns_does_not_lead_again_in_the_same_term() {
    let place = tempfile::tempdir().unwrap();
    let wires = Wires::new();
    // Alone: there is nobody to hand over to.
    let mut member = run::<Raft>(options(&place, 1, 1), &wires);
    let first = leads(&mut member.leadership).await;
    member.work.resign(first.serial).await;
    let ended = until(&mut member.leadership, "it has ended", |leadership| {
        leadership.current.is_none_or(|o| o.serial != first.serial)
    })
    .await;
    assert_eq!(ended.ended.map(|(serial, _)| serial), Some(first.serial));
    let second = leads(&mut member.leadership).await;
    assert!(second.term > first.term, "{first:?} {second:?}");
    // A word about a leadership that is over changes nothing.
    member.work.resign(first.serial).await;
    member.work.stopped(first.serial).await;
    let ControlReply::Status(status) = asked(&place, &ControlRequest::Status).await else {
        panic!("a status")
    };
    assert!(status.leads && status.term == second.term, "{status:?}");
}

async fn asked(place: &TempDir, ask: &ControlRequest) -> ControlReply {
    ask_folder(&place.path().join("1"), ask).await.unwrap()
}

#[tokio::test]
async fn a_transfer_waits_for_the_work_to_stop() {
    let place = tempfile::tempdir().unwrap();
    let wires = Wires::new();
    let mut members: Vec<RunningNode> =
        (1..=3).map(|number| run::<Raft>(options(&place, number, 3), &wires)).collect();
    let (first, current) = leader(&members, 0).await;
    let folder = place.path().join((first + 1).to_string());
    assert_eq!(
        ask_folder(&folder, &ControlRequest::Transfer { to: None }).await.unwrap(),
        ControlReply::Begun
    );
    until(&mut members[first].leadership, "it is asked to stop", |leadership| {
        leadership.current.is_some_and(|current| current.stop)
    })
    .await;
    for (place, member) in members.iter().enumerate() {
        assert!(place == first || member.leadership.borrow().current.is_none(), "nobody else leads before");
    }
    members[first].work.stopped(current.serial).await;
    let (next, _) = leader(&members, current.term.0).await;
    assert_ne!(first, next);
    // A member that does not lead cannot hand over.
    let answer = ask_folder(&folder, &ControlRequest::Transfer { to: None }).await.unwrap();
    assert!(matches!(&answer, ControlReply::Refused(why) if why.contains("does not lead")), "{answer:?}");
}

#[tokio::test]
async fn a_member_of_a_file_goes_step_by_step() {
    let place = tempfile::tempdir().unwrap();
    let wires = Wires::new();
    let file = place.path().join("members");
    fs::write(&file, "1=127.0.0.1:1\n").unwrap();
    let mut options = options(&place, 1, 1);
    options.members_file = Some(file.clone());
    let mut member = run::<Raft>(options, &wires);
    leads(&mut member.leadership).await;
    let change = Change::Remove { id: id(1) };
    let answer = asked(&place, &ControlRequest::Members { change }).await;
    assert_eq!(answer, ControlReply::InFile(file.display().to_string()));
    fs::write(&file, "1=127.0.0.1:1\n2=127.0.0.1:2,witness\n").unwrap();
    let members = members_told(&mut member).await;
    assert_eq!(
        members.iter().map(|member| (member.id, member.witness)).collect::<Vec<_>>(),
        [(id(1), false), (id(2), true)]
    );
    fs::write(&file, "nonsense\n").unwrap();
    let told = support::told(&mut member, "the file cannot be used", |event| {
        if let Event::Unwanted(why) = event { Some(why) } else { None }
    });
    assert!(told.await.contains("the former list stays"));
    fs::write(&file, "1=127.0.0.1:1\n2=127.0.0.1:2,witness\n").unwrap();
    support::told(&mut member, "the file can be used again", |event| {
        matches!(event, Event::Usable).then_some(())
    })
    .await;
}

async fn members_told(member: &mut RunningNode) -> Vec<Member> {
    support::told(member, "the members are several", |event| {
        let Event::Members(group) = event else { return None };
        (group.size() > 1).then(|| group.members().to_vec())
    })
    .await
}

#[tokio::test]
async fn a_member_that_must_never_lead_hands_over_at_once() {
    let place = tempfile::tempdir().unwrap();
    let wires = Wires::new();
    // Nobody else knows that it must not, and its priority would make it the leader.
    let lists = |number: u16| {
        let mut options = options(&place, number, 3);
        let members =
            (1..=3).map(|n| Member { priority: if n == 1 { 9 } else { 0 }, ..Member::plain(id(n)) });
        options.config.group = Group::founded(members.collect()).unwrap();
        options.never_leads = number == 1;
        options
    };
    let members: Vec<RunningNode> = (1..=3).map(|number| run::<Raft>(lists(number), &wires)).collect();
    let found = tokio::time::timeout(HANG, async {
        loop {
            let (place, _) = leader(&members, 0).await;
            if place > 0 {
                return place;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(found.await.is_ok(), "another leads in the end");
}

#[tokio::test]
async fn nonsense_from_a_member_is_counted() {
    let place = tempfile::tempdir().unwrap();
    let wires = Wires::new();
    let _member = run::<Raft>(options(&place, 1, 2), &wires);
    let other = wires.end(id(2));
    for bytes in [&[][..], &[255; 40], &[0, 0, 0]] {
        other.tell(id(1), bytes);
    }
    let counted = tokio::time::timeout(HANG, async {
        loop {
            // Its socket may not be there yet.
            let asked = ask_folder(&place.path().join("1"), &ControlRequest::Status).await;
            if matches!(&asked, Ok(ControlReply::Status(status)) if status.machine.malformed == 3) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(counted.await.is_ok());
}

#[tokio::test]
async fn a_change_that_is_refused_moves_nobody() {
    let place = tempfile::tempdir().unwrap();
    let wires = Wires::new();
    let options = |number| NodeOptions {
        peers: (1..=3).map(|n| Peer { id: id(n), address: format!("127.0.0.1:{n}") }).collect(),
        ..options(&place, number, 3)
    };
    let members: Vec<RunningNode> = (1..=3).map(|number| run::<Raft>(options(number), &wires)).collect();
    let (leader, _) = leader(&members, 0).await;
    let folder = |member: usize| place.path().join((member + 1).to_string());
    let ask = async |member: usize, ask: ControlRequest| {
        let asked = async {
            loop {
                // Its socket may not be there yet.
                match ask_folder(&folder(member), &ask).await {
                    Ok(answer) => return answer,
                    Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
                }
            }
        };
        tokio::time::timeout(HANG, asked).await.unwrap()
    };
    let (follower, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let number = |place: usize| id(u16::try_from(place + 1).unwrap());
    // A follower may not change the list; and a leader that has nothing to change says so.
    for asked in [follower, leader] {
        let elsewhere = Some("127.0.0.1:9".to_string());
        let change = Change::Add { member: Member::plain(number(other)), address: elsewhere };
        let answer = ask(asked, ControlRequest::Members { change }).await;
        assert!(matches!(answer, ControlReply::Refused(_)), "{answer:?}");
        let ControlReply::Status(status) = ask(asked, ControlRequest::Status).await else {
            panic!("no status")
        };
        let known = status.members.iter().find(|member| member.id == number(other)).unwrap();
        assert_eq!(known.address, Some(format!("127.0.0.1:{}", other + 1)));
    }
    // A member that was never heard is not taken in at once.
    let change = Change::Add { member: Member::plain(id(9)), address: Some("127.0.0.1:9".to_string()) };
    let answer = ask(leader, ControlRequest::Members { change }).await;
    assert!(matches!(&answer, ControlReply::Refused(why) if why.contains("not been heard")), "{answer:?}");
}

#[tokio::test]
async fn what_waits_together_is_kept_together_and_answered_in_order() {
    let place = tempfile::tempdir().unwrap();
    let wires = Wires::new();
    let mut other = wires.end(id(2));
    let _member = run::<Toy>(options(&place, 1, 2), &wires);
    // All of it is there before the member is given the time to look.
    let asked: Vec<u64> = (0..50).map(|n| toy::ECHO + n).collect();
    for number in &asked {
        other.tell(id(1), &postcard::to_allocvec(number).unwrap());
    }
    let mut answered = Vec::new();
    let all = async {
        while answered.len() < asked.len() {
            answered.extend(Some(other.said().await).filter(|said| *said >= toy::ECHO));
        }
    };
    assert!(tokio::time::timeout(HANG, all).await.is_ok());
    assert_eq!(answered, asked);
    let folder = place.path().join("1");
    let status = tokio::time::timeout(HANG, async {
        loop {
            match ask_folder(&folder, &ControlRequest::Status).await {
                Ok(ControlReply::Status(status)) => return status,
                // Its socket may not be there yet.
                Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    });
    let counted = status.await.unwrap().machine;
    // Each tick of the toy is kept by itself; of the fifty messages few were.
    assert!(counted.received == 50 && counted.kept + 40 < counted.steps, "{counted:?}");
}
