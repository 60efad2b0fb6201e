//! Members of a group come and go while it works.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;

use crate::support::peers::{Peers, net};
use crate::support::{World, until};

fn ids(status: &serde_json::Value) -> Vec<u64> {
    status["members"].as_array().unwrap().iter().map(|member| member["id"].as_u64().unwrap()).collect()
}

/// By commands: a fourth and a fifth join, the first leader leaves, and the new ones count.
fn by_commands(algorithm: &str) {
    let world = World::folder();
    let net = net();
    let mut peers = Peers::new(&world, algorithm, 3);
    peers.start_all();
    let (leader, mut token) = peers.leader_among(&[1, 2, 3], 0);
    for id in [4, 5] {
        let address = format!("{net}.{id}:7001");
        peers.know(id, &address);
        peers.start(id);
        let taken_in = |member: u16| {
            peers
                .status(member)
                .is_some_and(|status| !status["leader"].is_null() && ids(&status).contains(&u64::from(id)))
        };
        // The change before this one must have settled. A machine that stands still may have made another the leader.
        until(&format!("{id} is taken in; {}", peers.logs()), || {
            let (leader, _) = peers.leader_among(&[1, 2, 3, 4, 5], 0);
            let data = peers.data(leader).display().to_string();
            let call = world.call(&["peer", "members", "add", &format!("{id}={address}"), "--data", &data]);
            call.code == 0 || taken_in(leader)
        });
        until(&format!("{id} is a member; {}", peers.logs()), || taken_in(id));
    }
    until("all know all", || {
        (1..=5).all(|id| peers.status(id).is_some_and(|status| ids(&status) == [1, 2, 3, 4, 5]))
    });
    // Of five, two may go: the new ones vote, and one of them may lead.
    peers.kill(leader);
    let other = if leader == 1 { 2 } else { 1 };
    peers.kill(other);
    let rest: Vec<u16> = (1..=5).filter(|id| *id != leader && *id != other).collect();
    let (second, next) = peers.leader_among(&rest, token);
    token = next;
    // Both dead ones are taken off the list: of the three that are left, one may go.
    for id in [leader, other] {
        until("it is taken off", || {
            let (second, _) = peers.leader_among(&rest, 0);
            let data = peers.data(second).display().to_string();
            world.call(&["peer", "members", "remove", &id.to_string(), "--data", &data]);
            peers.status(second).is_some_and(|status| !ids(&status).contains(&u64::from(id)))
        });
    }
    until("all know", || {
        rest.iter().all(|id| peers.status(*id).is_some_and(|status| ids(&status).len() == 3))
    });
    peers.kill(second);
    let last: Vec<u16> = rest.into_iter().filter(|id| *id != second).collect();
    peers.leader_among(&last, token);
    peers.check();
}

#[test]
fn members_join_and_leave_by_commands_with_raft() {
    by_commands("raft");
}

#[test]
fn members_join_and_leave_by_commands_with_paxos() {
    by_commands("paxos");
}

#[test]
fn members_follow_a_file_one_at_a_time_and_the_leader_leaves_last() {
    let world = World::folder();
    let mut peers = Peers::new(&world, "raft", 5);
    let addresses: Vec<String> = (1..=5).map(|id| peers.address(id)).collect();
    let write = |ids: &[usize]| {
        let text: String = ids.iter().map(|id| format!("{id}={}\n", addresses[id - 1])).collect();
        fs::write(world.file("members.next"), format!("# of this test\n{text}")).unwrap();
        fs::rename(world.file("members.next"), world.file("members")).unwrap();
    };
    write(&[1, 2, 3]);
    peers.file = Some(world.file("members"));
    for id in 1..=3 {
        peers.start(id);
    }
    let (leader, token) = peers.leader_among(&[1, 2, 3], 0);
    // These run before the file knows of them, and take part once it does.
    for id in 4..=5 {
        peers.start(id);
    }
    let stay: Vec<usize> = (1..=5).filter(|id| *id != usize::from(leader)).collect();
    write(&stay);
    let others: Vec<u16> = stay.iter().map(|id| u16::try_from(*id).unwrap()).collect();
    let (next, token) = peers.leader_among(&others, token);
    until(&format!("all know; {}", peers.logs()), || {
        let wanted: Vec<u64> = others.iter().map(|id| u64::from(*id)).collect();
        others.iter().all(|id| peers.status(*id).is_some_and(|status| ids(&status) == wanted))
    });
    // A file that cannot be used changes nothing, and is told.
    fs::write(world.file("members"), "1=nonsense\n").unwrap();
    until("it is told", || peers.log(next).contains("the former list stays"));
    let refused =
        world.call(&["peer", "members", "remove", "1", "--data", &peers.data(next).display().to_string()]);
    assert!(refused.code == 3 && refused.stderr.contains("a file says who the members are"), "{refused:?}");
    peers.kill(next);
    let rest: Vec<u16> = others.into_iter().filter(|id| *id != next).collect();
    peers.leader_among(&rest, token);
    peers.check();
}

/// Of three one has just died, or dies while the other comes, and the file has another in its place. Whether the dead one goes first or the new one
/// comes first, there is a leader in the end, without the dead one.
#[test]
fn a_dead_member_is_replaced_by_a_change_of_the_file() {
    for algorithm in ["raft", "paxos"] {
        let world = World::folder();
        let mut peers = Peers::new(&world, algorithm, 4);
        let addresses: Vec<String> = (1..=4).map(|id| peers.address(id)).collect();
        let write = |ids: &[u16]| {
            let line = |id: &u16| format!("{id}={}\n", addresses[usize::from(*id) - 1]);
            fs::write(world.file("members.next"), ids.iter().map(line).collect::<String>()).unwrap();
            fs::rename(world.file("members.next"), world.file("members")).unwrap();
        };
        write(&[1, 2, 3]);
        peers.file = Some(world.file("members"));
        for id in 1..=3 {
            peers.start(id);
        }
        let (leader, _) = peers.leader_among(&[1, 2, 3], 0);
        let dead = if leader == 3 { 2 } else { 3 };
        let stay: Vec<u16> = (1..=4).filter(|id| *id != dead).collect();
        peers.start(4);
        write(&stay);
        peers.kill(dead);
        let wanted: Vec<u64> = stay.iter().map(|id| u64::from(*id)).collect();
        until(&format!("all know; {}", peers.logs()), || {
            stay.iter().all(|id| peers.status(*id).is_some_and(|status| ids(&status) == wanted))
        });
        peers.leader_among(&stay, 0);
        peers.check();
    }
}
