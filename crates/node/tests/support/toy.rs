//! A machine that counts: it keeps each number before it says it, and leads from three on. A number from [`ECHO`] on it keeps and says again.

use std::path::Path;

use baton_election::{Moment, Span};
use baton_peer::{Config, Effects, Envelope, Group, Input, Machine, NodeId, Notice, Role, Start, Term, View};

/// From here on numbers are answered.
pub(crate) const ECHO: u64 = 1_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Toy {
    group: Group,
    id: NodeId,
    number: u64,
    due: Moment,
}

impl Machine for Toy {
    type Message = u64;
    type Saved = u64;

    const NAME: &'static str = "toy";
    const TERMS_ARE_TOKENS: bool = true;

    fn start(config: Config, start: Start<u64>, now: Moment) -> Toy {
        let number = match start {
            Start::Restarted(number) => number,
            Start::Founded | Start::Forgotten => 0,
        };
        Toy { group: config.group, id: config.id, number, due: now }
    }

    fn step(&mut self, now: Moment, input: Input<u64>) -> Effects<u64, u64> {
        let mut effects = Effects::none();
        if let Input::Received { from, message } = input
            && message >= ECHO
        {
            effects.persist = Some(message);
            effects.send.push(Envelope { to: from, message });
            return effects;
        }
        if input == Input::Tick && now >= self.due {
            self.number += 1;
            self.due = now + Span::millis(5);
            effects.persist = Some(self.number);
            effects.send =
                self.group.others(self.id).map(|to| Envelope { to, message: self.number }).collect();
            if self.number == 3 {
                effects.notify.push(Notice::Leads { term: Term(3), until: None });
            }
        }
        effects
    }

    fn deadline(&self) -> Moment {
        self.due
    }

    fn view(&self, _: Moment) -> View {
        View { role: Role::Follower, term: Term(self.number), leader: None, until: None, read_only: false }
    }

    fn group(&self) -> &Group {
        &self.group
    }

    fn kind(_: &u64) -> &'static str {
        "number"
    }
}

/// What such a machine kept: the number behind the file's head and its owner, before the checksum.
pub(crate) fn kept(folder: &Path) -> u64 {
    let bytes = std::fs::read(folder.join("state")).unwrap();
    let content = &bytes[16..bytes.len() - 32];
    let ((_, _, _), rest): ((String, String, u16), &[u8]) = postcard::take_from_bytes(content).unwrap();
    postcard::from_bytes(rest).unwrap()
}
