//! Bully and Ring under messages that nobody should send: from strangers and from oneself, with terms at the end of all
//! numbers and lists of anybody. Nothing panics, the term never goes back, and every step leads to a later deadline.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_election::{Moment, Span};
use baton_peer::bully::{self, Bully};
use baton_peer::ring::{self, Lap, Ring};
use baton_peer::{Config, Group, Input, Machine, Member, NodeId, Start, Term, Timing};
use proptest::collection::vec;
use proptest::prelude::*;

fn node() -> impl Strategy<Value = NodeId> {
    (1..=5_u16).prop_map(|number| NodeId::new(number).unwrap())
}

fn term() -> impl Strategy<Value = Term> {
    prop_oneof![4 => 0..6_u64, 1 => u64::MAX - 2..=u64::MAX].prop_map(Term)
}

fn members() -> impl Strategy<Value = Vec<Member>> {
    let member =
        (node(), any::<bool>(), 0..3_u8).prop_map(|(id, witness, priority)| Member { id, witness, priority });
    vec(member, 0..5)
}

fn bully_message() -> impl Strategy<Value = bully::Message> {
    use bully::Message;
    (0..6_u8, term()).prop_map(|(kind, term)| match kind {
        0 => Message::Election { term },
        1 => Message::Ok { term },
        2 => Message::Coordinator { term },
        3 => Message::Heartbeat { term },
        4 => Message::Refused { term },
        5.. => Message::Resign { term },
    })
}

fn ring_message() -> impl Strategy<Value = ring::Message> {
    use ring::Message;
    let parts = (0..5_u8, term(), node(), node(), vec(node(), 0..7), any::<bool>());
    parts.prop_map(|(kind, term, origin, leader, ids, coordinator)| match kind {
        0 => Message::Election { term, origin, ids },
        1 => Message::Coordinator { term, origin, leader, told: ids },
        2 => Message::Ack { lap: Lap { coordinator, term, origin }, term },
        3 => Message::Heartbeat { term },
        4.. => Message::Refused { term },
    })
}

fn inputs<M: std::fmt::Debug + Clone>(
    message: impl Strategy<Value = M>,
) -> impl Strategy<Value = Vec<(u64, Input<M>)>> {
    let input = prop_oneof![
        3 => Just(Input::Tick),
        8 => (node(), message).prop_map(|(from, message)| Input::Received { from, message }),
        1 => Just(Input::Stopped),
        1 => proptest::option::of(node()).prop_map(|to| Input::Transfer { to }),
        1 => members().prop_map(|members| Input::Reconfigure { members }),
    ];
    vec((0..200_u64, input), 1..60)
}

/// The members are 1 to 4, of whom the fourth is a witness; 5 is a stranger.
fn check<M: Machine>(own: NodeId, inputs: Vec<(u64, Input<M::Message>)>) -> Result<(), TestCaseError> {
    let member = |number| Member { witness: number == 4, ..Member::plain(NodeId::new(number).unwrap()) };
    let group = Group::founded((1..=4).map(member).collect()).unwrap();
    let mut now = Moment::from_nanos(0);
    let config = Config { id: own, group, timing: Timing::LAN, seed: 1 };
    let mut machine = M::start(config, Start::Founded, now);
    let mut term = Term::ZERO;
    for (wait_ms, input) in inputs {
        now = now + Span::millis(wait_ms);
        let effects = machine.step(now, input);
        prop_assert!(effects.send.len() <= 3 * 5, "{effects:?}");
        let view = machine.view(now);
        prop_assert!(view.term >= term);
        prop_assert!(view.term == term || effects.persist.is_some(), "a new term is kept at once");
        prop_assert!(effects.send.iter().all(|envelope| envelope.to != own), "{effects:?}");
        term = view.term;
        if wait_ms % 4 == 0 {
            now = now.max(machine.deadline());
            let _ = machine.step(now, Input::Tick);
            term = machine.view(now).term;
            prop_assert!(machine.deadline() > now, "it would be woken for ever");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn bully_bears_it(own in node(), inputs in inputs(bully_message())) {
        check::<Bully>(own, inputs)?;
    }

    #[test]
    fn ring_bears_it(own in node(), inputs in inputs(ring_message())) {
        check::<Ring>(own, inputs)?;
    }
}
