//! A small language in which scenarios are written, and the world that they happen in.
//!
//! The world has one document, one store clock, agents with their lives and keys, operators, candidates and fences.
//! Nothing happens by itself: a scenario says every step, and each leaves its trace.

pub(crate) mod agents;
mod fences;
mod field;
pub(crate) mod file;
mod operators;
mod paper;
mod print;
pub(crate) mod states;
mod store;
mod words;

use std::collections::BTreeMap;

use baton_election::log::Log;
use baton_election::{
    AgentName, Answer, Candidate, Command, Document, Epoch, Evidence, Fence, Incarnation, Span, WallTime,
    decide,
};

use crate::cast;
use states::{Coverage, STATES};
use words::Words;

/// Everything that a scenario can touch.
#[derive(Default)]
pub(crate) struct World {
    now: Span,
    document: Option<Document>,
    /// When the document's last beat was committed.
    beat_at: Span,
    floor: Epoch,
    vanished_lease: Span,
    /// What the caller of the next command says of the age, if it knows less than the store.
    claimed_age: Option<Span>,
    lives: BTreeMap<String, u32>,
    tokens: BTreeMap<String, Epoch>,
    drafts: BTreeMap<String, Command>,
    last: Option<Command>,
    candidates: BTreeMap<String, (Candidate, Span)>,
    fences: BTreeMap<String, (Fence, Span)>,
    fence_log: Log<baton_election::fence::Accepted>,
    store: store::Store,
}

impl World {
    /// Does one line, and returns its trace.
    pub(crate) fn run(&mut self, line: &str, coverage: &mut Coverage) -> String {
        if let Some((state, lines)) = line.strip_prefix("try ").and_then(|line| line.split_once(": ")) {
            let _ = self.set_state(state);
            return lines.split(", ").map(|line| self.run(line, coverage)).collect();
        }
        let mut words = Words::of(line);
        let name = words.next();
        if let Some(age) = words.value("age") {
            self.claimed_age = Some(age);
        }
        let trace = match name.as_str() {
            "state" => self.set_state(&words.next()),
            "tick" => self.tick(words.next().parse().expect("a length of time")),
            "restart" => self.restart(&words.next()),
            "vanish" => self.vanish(&mut words),
            "repeat" => self.send(self.last.clone().expect("a command to repeat"), coverage),
            "draft" => self.draft(&mut words),
            "send" => self.send(self.drafts[&words.next()].clone(), coverage),
            "enlist" | "withdraw" | "rank" => self.field(&name, &mut words),
            "check" | "fence" | "fill" | "keep" | "leave" | "bind" | "free" => self.guard(&name, &mut words),
            "order" | "sign" | "deliver" => self.order(&name, &mut words),
            "json" | "reread" => self.paper(&name, &mut words),
            _ => {
                let command = self.command(&name, &mut words);
                self.send(command, coverage)
            }
        };
        words.done();
        self.claimed_age = None;
        trace
    }

    /// Decides a command, commits what it decided, and lets its sender hear of it.
    fn send(&mut self, command: Command, coverage: &mut Coverage) -> String {
        coverage.visit(agents::name_of(&command), states::classify(self.document.as_ref(), self.age()));
        let (election, keys) = (cast::election(), [cast::operator("root").public()]);
        let evidence = Evidence {
            election: &election,
            store: cast::STORE,
            age: self.age(),
            wall: self.wall(),
            floor: self.floor,
            vanished_lease: self.vanished_lease,
            operator_keys: &keys,
        };
        let decision = decide(self.document.as_ref(), &command, &evidence);
        let trace = match decision {
            Err(refusal) => format!("{}\n", print::refusal(&refusal)),
            Ok(decision) => {
                cast::persistence::check(self.document.as_ref(), &decision).expect("a fitting persistence");
                self.hear(&command, &decision.answer);
                let answer = print::answer(&decision.answer);
                match decision.next {
                    None => format!("{answer} (nothing written)\n"),
                    Some(next) => {
                        let before = self.commit(next);
                        format!("{answer}\n{}", self.show(before.as_ref()))
                    }
                }
            }
        };
        self.last = Some(command);
        trace
    }

    /// Swaps a document in; the clock restarts if it beat.
    fn commit(&mut self, next: Document) -> Option<Document> {
        if self.document.as_ref().is_none_or(|old| old.pulse() != next.pulse()) {
            self.beat_at = self.now;
        }
        self.claimed_age = None;
        self.vanished_lease = Span::ZERO;
        self.document.replace(next)
    }

    /// The sender of a command remembers the token that it was told.
    fn hear(&mut self, command: &Command, answer: &Answer) {
        let (Answer::Granted { epoch, .. } | Answer::Renewed { epoch, .. }) = answer else { return };
        let name = match command {
            Command::Acquire(acquire) => acquire.agent.to_string(),
            _ => match self.document.as_ref().and_then(|document| document.leader.as_ref()) {
                Some(leader) => leader.agent.to_string(),
                None => return,
            },
        };
        let _ = self.tokens.insert(name, *epoch);
    }

    /// `state STATE`: everything begins anew, and the state's recipe is followed. `try STATE: COMMAND, COMMAND…` does
    /// the same unseen and then the commands.
    fn set_state(&mut self, name: &str) -> String {
        let (_, recipe) = STATES.iter().find(|(known, _)| *known == name).expect("a state");
        *self = World::default();
        for line in *recipe {
            let _ = self.run(line, &mut Coverage::default());
        }
        let way = if recipe.is_empty() { "nothing happened".to_string() } else { recipe.join(", ") };
        format!("  reached by: {way}\n{}", self.show(self.document.as_ref()))
    }

    fn tick(&mut self, span: Span) -> String {
        self.now = self.now.plus(span);
        String::new()
    }

    fn restart(&mut self, name: &str) -> String {
        let life = self.life(name) + 1;
        let _ = self.lives.insert(name.to_string(), life);
        String::new()
    }

    /// `vanish [lease= floor=]`: others delete the record; this client remembers what it saw of it.
    fn vanish(&mut self, words: &mut Words) -> String {
        self.document = None;
        self.vanished_lease = words.value("lease").unwrap_or(Span::ZERO);
        self.floor = words.value("floor").unwrap_or(self.floor);
        String::new()
    }

    /// `draft NAME COMMAND…`: made and signed, but not sent.
    fn draft(&mut self, words: &mut Words) -> String {
        let (draft, name) = (words.next(), words.next());
        let command = self.command(&name, words);
        let _ = self.drafts.insert(draft, command);
        String::new()
    }

    fn age(&self) -> Span {
        self.claimed_age.unwrap_or(self.now.minus(self.beat_at))
    }

    fn wall(&self) -> WallTime {
        WallTime::from_unix_millis(cast::DAWN_MS) + self.now
    }

    fn life(&self, name: &str) -> u32 {
        self.lives.get(name).copied().unwrap_or(1)
    }

    /// `a.2` for the second life of a.
    fn life_of(&self, agent: &AgentName, incarnation: Incarnation) -> String {
        let lives = 1..=self.life(agent.as_str());
        let life =
            lives.rev().find(|life| cast::credential(agent.as_str(), *life).incarnation == incarnation);
        life.map_or_else(|| format!("{agent}.?"), |life| format!("{agent}.{life}"))
    }
}
