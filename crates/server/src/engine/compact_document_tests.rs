//! Every document that a long random walk leads to is packed and unpacked.

use baton_election::command::{
    Acknowledge, Acquire, Ending, Evidence, Finding, Pass, Release, Renew, Report, WriteCheckpoint,
};
use baton_election::operator::{Act, OperatorKey};
use baton_election::policy::ApprovalMode;
use baton_election::time::WallTime;
use baton_election::{Command, Credential, LeaseKey, State, decide};

use super::*;

/// A walk through the states of one election, by dice that always fall the same.
struct Walk {
    dice: u64,
    document: Option<Document>,
    lives: u8,
}

impl Walk {
    fn roll(&mut self, sides: u64) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % sides
    }

    fn credential(&self) -> Credential {
        let leader = self.document.as_ref().and_then(Document::lease_holder);
        let life = leader.map_or([self.lives; 8], |leader| leader.incarnation.0);
        Credential { incarnation: Incarnation(life), key: LeaseKey([life[0]; 16]) }
    }

    fn acquire(&mut self) -> Command {
        self.lives = self.lives.wrapping_add(1);
        let fresh = [self.lives; 8];
        let limits = Limits { renewals: (self.roll(4) == 0).then_some(3), ..Limits::default() };
        Command::Acquire(Acquire {
            agent: AgentName::new(&format!("agent-{}", self.roll(3))).unwrap(),
            incarnation: Incarnation(fresh),
            key_hash: LeaseKey([fresh[0]; 16]).hash(),
            ttl: Some(Span::secs(10)),
            task: (self.roll(2) == 0).then(|| "a task".to_string()),
            capabilities: std::collections::BTreeSet::new(),
            limits,
            reason: None,
            noticed: Some(Span::millis(self.roll(50))),
            offer: self.roll(4) == 0,
            contact: (self.roll(3) == 0).then(|| "http://h:1".to_string()),
            region: None,
            failing: Default::default(),
            waited: None,
            seen: None,
            open: None,
            through: (self.roll(3) == 0).then_some(TokenId([7; 6])),
        })
    }

    fn act(&mut self) -> Command {
        let reason = "so be it".to_string();
        let policy = |approval, limits| Policy {
            approval,
            limits,
            watchers: vec![AgentName::new("watcher").unwrap()],
            ..Policy::default()
        };
        let limits = Limits { tokens: Some(100), ..Limits::default() };
        let act = match self.roll(9) {
            0 => Act::Pause { reason },
            1 => Act::Resume,
            2 => Act::Depose { force: false, reason },
            3 => {
                Act::Appoint { agent: AgentName::new("agent-1").unwrap(), lasts: None, force: false, reason }
            }
            4 => Act::SetPolicy { policy: policy(ApprovalMode::Checkpoints, Limits::default()) },
            5 => Act::SetPolicy { policy: policy(ApprovalMode::None, limits) },
            6 | 7 => Act::SetPolicy { policy: Policy::default() },
            _ => Act::Reject { reason },
        };
        let document = self.document.clone();
        let document = document.unwrap_or_else(|| {
            Document::new(ElectionName::new("e").unwrap(), StoreId([1; 8]), Epoch(0), &[operator().public()])
        });
        Command::Operate(operator().sign(&document, act))
    }

    fn command(&mut self) -> Command {
        let (epoch, credential) =
            (self.document.as_ref().map_or(Epoch(0), |document| document.epoch), self.credential());
        let last = self.document.as_ref().and_then(|document| document.checkpoint.clone());
        match self.roll(12) {
            0..4 => self.acquire(),
            4 | 5 => {
                let spent_tokens = (self.roll(2) == 0).then_some(7);
                Command::Renew(Renew { spent_tokens, ..Renew::new(epoch, credential) })
            }
            6 => Command::Release(Release { epoch, credential, reason: None, ending: Ending::Stopped }),
            7 => {
                let to = AgentName::new("agent-2").unwrap();
                Command::Pass(Pass { epoch, credential, to, reason: None })
            }
            8 => Command::Checkpoint(WriteCheckpoint {
                epoch,
                credential,
                seq: last.map_or(1, |last| last.seq + 1),
                summary: "half".to_string(),
                state: "{\"done\":[1]}".to_string(),
                reference: None,
                covers: None,
            }),
            9 => {
                let hash = last.map_or(baton_election::ContentHash([0; 32]), |last| last.hash);
                Command::Acknowledge(Acknowledge { epoch, credential, hash })
            }
            10 => Command::Report(Report {
                epoch,
                finding: Finding::Validation,
                detail: "red".to_string(),
                by: AgentName::new("watcher").unwrap(),
                credential: None,
                number: None,
                checkpoint: None,
                open: None,
            }),
            _ => self.act(),
        }
    }
}

fn operator() -> OperatorKey {
    OperatorKey::from_seed([1; 32])
}

#[test]
fn every_document_is_unpacked_as_it_was_packed() {
    let (election, all) = (ElectionName::new("e").unwrap(), FieldInterner::default());
    let mut walk = Walk { dice: 7, document: None, lives: 0 };
    let (mut open, mut optional) = (0, [0; 8]);
    let mut states = HashSet::new();
    for step in 0..20_000 {
        let command = walk.command();
        let evidence = Evidence {
            election: &election,
            store: StoreId([1; 8]),
            age: Span::millis(walk.roll(if step % 7 == 0 { 30_000 } else { 3_000 })),
            wall: WallTime::from_unix_millis(1_700_000_000_000 + step),
            floor: Epoch(0),
            vanished_lease: Span::ZERO,
            operator_keys: &[operator().public()],
        };
        let decided = decide(walk.document.as_ref(), &command, &evidence);
        let Some(document) = decided.ok().and_then(|decision| decision.next) else { continue };
        let compact = CompactDocument::of(document.clone(), &all);
        assert_eq!(compact.document(&election), document);
        assert_eq!((compact.name(), compact.epoch(), compact.beat()), ("e", document.epoch, document.beat));
        assert_eq!(compact.policy(), &*document.policy);
        states.insert(document.state);
        open += usize::from(compact.running.is_some());
        let has = [
            document.leader.is_some() && compact.running.is_none(),
            document.outgoing.is_some(),
            document.reserved_for.is_some(),
            document.passed_over.is_some(),
            document.paused.is_some(),
            document.approval != Approval::default(),
            document.departure.is_some(),
            document.checkpoint.is_some(),
        ];
        optional.iter_mut().zip(has).for_each(|(count, has)| *count += usize::from(has));
        walk.document = Some(document);
    }
    assert_eq!(states.len(), 4, "{states:?}");
    assert!(
        states.contains(&State::Paused) && open > 0 && optional.iter().all(|count| *count > 0),
        "{open} {optional:?}"
    );
    assert!(all.0.lock().unwrap().len() < 10, "documents with the same fields share them");
}

#[test]
fn verdicts_on_a_plain_lease_are_kept_with_whose_they_are() {
    let (election, all) = (ElectionName::new("e").unwrap(), FieldInterner::default());
    let evidence = Evidence {
        election: &election,
        store: StoreId([1; 8]),
        age: Span::ZERO,
        wall: WallTime::default(),
        floor: Epoch(0),
        vanished_lease: Span::ZERO,
        operator_keys: &[],
    };
    let acquire = Acquire::new(AgentName::new("a").unwrap(), Incarnation([1; 8]), LeaseKey([1; 16]).hash());
    let mut document = decide(None, &Command::Acquire(acquire), &evidence).unwrap().next.unwrap();
    for (judge, bad) in [("w", true), ("x", false), ("w", true)] {
        let leader = document.leader.as_mut().unwrap();
        leader.verdicts = leader.verdicts.clone().and(&AgentName::new(judge).unwrap(), bad);
        let compact = CompactDocument::of(document.clone(), &all);
        assert!(compact.running.is_some(), "it is renewed plainly");
        assert_eq!(compact.document(&election), document);
    }
}

/// With its names: nothing is allocated for it beside that.
#[test]
fn a_plain_lease_is_small() {
    assert!(size_of::<CompactDocument>() <= 208, "{}", size_of::<CompactDocument>());
    let election = ElectionName::new(&"e".repeat(64)).unwrap();
    let compact = CompactDocument::of(
        Document::new(election, StoreId([1; 8]), Epoch(1), &[]),
        &FieldInterner::default(),
    );
    assert!(
        compact.optional.is_none() && matches!(compact.rest, Bytes::Few(..)),
        "{} bytes",
        compact.rest.len()
    );
}
