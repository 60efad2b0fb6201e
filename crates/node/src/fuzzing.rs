//! Entry points for `fuzz/`: what members and Pilot daemons may send.

use baton_election::{Moment, Span};
use baton_peer::bully::Bully;
use baton_peer::paxos::Paxos;
use baton_peer::raft::Raft;
use baton_peer::ring::Ring;
use baton_peer::{Config, Group, Input, Machine, Member, NodeId, Start, Term, Timing};

use crate::codec;
use crate::control::{ControlReply, ControlRequest};
use crate::{pilot, tcp};

/// The most messages of one input.
const MAX_MESSAGES: usize = 64;

/// Reads a TCP stream: the preamble, frames, and each frame as everything that a member or an operator may say in one.
pub fn stream(data: &[u8]) {
    for frame in tcp::fuzzing::frames(data) {
        tcp::fuzzing::greeting(&frame);
        let _ = serde_json::from_slice::<ControlRequest>(&frame);
        let _ = serde_json::from_slice::<ControlReply>(&frame);
    }
}

/// Reads what a Pilot daemon sends, and a datagram as a member's message.
pub fn pilot(data: &[u8]) {
    pilot::fuzzing::replies(data);
    pilot::fuzzing::datagram(data);
}

/// Decodes messages and gives them to a machine of each algorithm. A message is a wait, a sender, a length and so many bytes.
pub fn messages(data: &[u8]) {
    told::<Raft>(data);
    told::<Paxos>(data);
    told::<Bully>(data);
    told::<Ring>(data);
}

fn told<M: Machine>(mut data: &[u8]) {
    let members: Vec<Member> =
        (1..=4).filter_map(|number| NodeId::new(number).ok()).map(Member::plain).collect();
    let own = members[0].id;
    let Ok(group) = Group::founded(members) else { unreachable!("four members are a group") };
    let mut now = Moment::from_nanos(0);
    let config = Config { id: own, group, timing: Timing::LAN, seed: 1 };
    let mut machine = M::start(config, Start::Founded, now);
    let mut term = Term::ZERO;
    for _ in 0..MAX_MESSAGES {
        let Some((&[wait, from, length], rest)) = data.split_first_chunk() else { return };
        let (bytes, rest) = rest.split_at(usize::from(length).min(rest.len()));
        data = rest;
        now = now + Span::millis(u64::from(wait));
        // The fifth is a stranger.
        let Ok(from) = NodeId::new(u16::from(from % 5) + 1) else { continue };
        let input = codec::decode(bytes).map_or(Input::Tick, |message| Input::Received { from, message });
        let effects = machine.step(now, input);
        let view = machine.view(now);
        assert!(view.term >= term, "{}: a term never goes back", M::NAME);
        assert!(
            effects.send.iter().all(|envelope| envelope.to != own),
            "{}: nobody writes to itself",
            M::NAME
        );
        assert!(effects.send.len() <= 32, "{}: an answer is bounded", M::NAME);
        term = view.term;
    }
}
