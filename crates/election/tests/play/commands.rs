//! From what shall happen to the command that is sent.

use baton_election::command::{Acknowledge, Acquire, Finding, Pass, Release, Renew, Report, WriteCheckpoint};
use baton_election::document::{Leader, Phase, Question};
use baton_election::operator::Act;
use baton_election::policy::{ApprovalMode, Limits};
use baton_election::removal_rules::{Bars, Breakers, OpenBreaker, Performance};
use baton_election::{Command, ContentHash, Credential, Epoch, Incarnation, Policy, Span};

use super::steps::{Actor, StepKind};
use super::{AGENTS, Play, Sent};
use crate::cast;

impl Play {
    /// Makes a command as its sender would at this moment.
    pub(super) fn make(&mut self, what: &StepKind) -> Sent {
        let asked_at_ms = self.now_ms;
        let (by, command) = match *what {
            StepKind::Acquire { agent, fresh, offer, ttl_s, renewals } => {
                self.acquire(agent, fresh, offer, ttl_s, renewals)
            }
            StepKind::Renew { who, idle, spent } => {
                let (by, epoch, credential) = self.holder(who);
                let (progress, spent_tokens) = (!idle, spent);
                // Whatever it says of itself, it serves only once it has acknowledged.
                let phase = spent_tokens.map(|_| Phase::Serving);
                let renew = Renew { progress, spent_tokens, phase, ..Renew::new(epoch, credential) };
                (Some(by), Command::Renew(renew))
            }
            StepKind::Release { who, ending } => {
                let (by, epoch, credential) = self.holder(who);
                (Some(by), Command::Release(Release { epoch, credential, reason: None, ending }))
            }
            StepKind::Pass { who, to } => {
                let (by, epoch, credential) = self.holder(who);
                (Some(by), Command::Pass(Pass { epoch, credential, to: name(to), reason: None }))
            }
            StepKind::Checkpoint { who, seq_off } => self.checkpoint(who, seq_off),
            StepKind::Acknowledge { who } => {
                let (by, epoch, credential) = self.holder(who);
                let left = self.document.as_ref().and_then(|document| document.checkpoint.as_ref());
                let hash = left.map_or(ContentHash([0; 32]), |left| left.hash);
                (Some(by), Command::Acknowledge(Acknowledge { epoch, credential, hash }))
            }
            StepKind::Report { itself } => self.report(itself),
            StepKind::Appoint { .. }
            | StepKind::Depose { .. }
            | StepKind::Pause
            | StepKind::Resume
            | StepKind::Approve
            | StepKind::Reject
            | StepKind::Policy(_)
            | StepKind::Enrol
            | StepKind::Dismiss
            | StepKind::Forget
            | StepKind::Forge => (None, self.operate(what)),
        };
        Sent { command, by, asked_at_ms }
    }

    fn acquire(
        &mut self,
        agent: u8,
        fresh: bool,
        offer: bool,
        ttl_s: Option<u64>,
        renewals: Option<u64>,
    ) -> (Option<(u8, u32)>, Command) {
        let life = &mut self.lives[usize::from(agent)];
        *life += u32::from(fresh);
        let by = (agent, *life);
        let credential = credential(by);
        let acquire = Acquire {
            agent: name(agent),
            incarnation: credential.incarnation,
            key_hash: credential.key.hash(),
            ttl: ttl_s.map(Span::secs),
            task: None,
            capabilities: Default::default(),
            limits: Limits { renewals, ..Limits::default() },
            reason: None,
            noticed: None,
            offer,
            contact: None,
            region: None,
            failing: Default::default(),
            waited: None,
            seen: None,
            open: Some(Vec::new()),
            through: None,
        };
        (Some(by), Command::Acquire(acquire))
    }

    fn checkpoint(&mut self, who: Actor, seq_off: bool) -> (Option<(u8, u32)>, Command) {
        let (by, epoch, credential) = self.holder(who);
        let last = self.document.as_ref().and_then(|document| document.checkpoint.as_ref());
        let seq = last.map_or(1, |last| last.seq + 1) + u64::from(seq_off);
        let (summary, state) = (format!("at {}", self.now_ms), "{\"done\":[1,2]}".to_string());
        let write = WriteCheckpoint { epoch, credential, seq, summary, state, reference: None, covers: None };
        (Some(by), Command::Checkpoint(write))
    }

    fn report(&mut self, itself: bool) -> (Option<(u8, u32)>, Command) {
        let (by, epoch, credential) = self.holder(Actor::Leader);
        let report = Report {
            epoch: self.document.as_ref().map_or(epoch, |document| document.epoch),
            finding: [
                Finding::Validation,
                Finding::Budget,
                Finding::Stall,
                Finding::Sound,
                Finding::Dependency,
                Finding::Breaker,
            ][self.sent.len() % 6],
            detail: "red".to_string(),
            by: if itself { name(by.0) } else { cast::agent("watcher") },
            credential: itself.then_some(credential),
            number: None,
            checkpoint: None,
            open: Some(vec![OpenBreaker {
                capability: "rust".to_string(),
                failures: 3,
                reason: "red".to_string(),
                left: Span::secs(5),
            }]),
        };
        (itself.then_some(by), Command::Report(report))
    }

    fn operate(&mut self, what: &StepKind) -> Command {
        let reason = "so be it".to_string();
        let question = self.document.as_ref().and_then(|document| document.approval.question.as_ref());
        let looked_at = match question {
            Some(Question::Checkpoint { hash }) => Some(*hash),
            Some(Question::MoreTime) | None => None,
        };
        let act = match *what {
            StepKind::Appoint { agent, lasts_s, force } => {
                Act::Appoint { agent: name(agent), lasts: lasts_s.map(Span::secs), force, reason }
            }
            StepKind::Depose { force } => Act::Depose { force, reason },
            StepKind::Pause => Act::Pause { reason },
            StepKind::Resume => Act::Resume,
            StepKind::Approve => Act::Approve { checkpoint: looked_at },
            StepKind::Policy(which) => Act::SetPolicy { policy: policy(which) },
            StepKind::Enrol => Act::Enrol { key: cast::operator("ada").public() },
            StepKind::Dismiss => Act::Dismiss { key: cast::operator("ada").public() },
            StepKind::Forget => Act::Forget { reason },
            _ => Act::Reject { reason },
        };
        let by = cast::operator(if matches!(what, StepKind::Forge) { "mallory" } else { "root" });
        let unwritten = cast::unwritten(Epoch(0));
        Command::Operate(by.sign(self.document.as_ref().unwrap_or(&unwritten), act))
    }

    /// Which life of which agent acts, with the token that it believes to hold.
    pub(super) fn holder(&mut self, who: Actor) -> ((u8, u32), Epoch, Credential) {
        let document = self.document.as_ref();
        let leader = document.and_then(|document| document.leader.as_ref());
        let outgoing = document.and_then(|document| document.outgoing.as_ref());
        let present = |agent: u8| (agent, self.lives[usize::from(agent)]);
        let by = match who {
            Actor::Leader => leader.or(outgoing).map_or(present(0), |leader| self.known(leader)),
            Actor::Outgoing => outgoing.or(leader).map_or(present(1), |leader| self.known(leader)),
            Actor::Agent(agent) => present(agent),
            Actor::Former(agent) => (agent, self.lives[usize::from(agent)].saturating_sub(1)),
        };
        let heard = self.client(by).token;
        // One that has not heard of its grant reads its token from the document.
        let shown = self.document.as_ref().and_then(|document| document.lease_holder());
        let mine = shown.filter(|leader| leader.incarnation == credential(by).incarnation);
        let token = if heard == Epoch(0) { mine.map_or(heard, |leader| leader.epoch) } else { heard };
        (by, token, credential(by))
    }

    fn known(&self, leader: &Leader) -> (u8, u32) {
        self.find(leader.incarnation).expect("every leader is of the cast")
    }

    /// The life that this incarnation is.
    pub(super) fn find(&self, incarnation: Incarnation) -> Option<(u8, u32)> {
        let agents = (0_u8..).zip(self.lives);
        agents
            .flat_map(|(agent, lives)| (0..=lives).map(move |life| (agent, life)))
            .find(|by| credential(*by).incarnation == incarnation)
    }
}

/// The credential of one life.
pub(super) fn credential(by: (u8, u32)) -> Credential {
    cast::credential(AGENTS[usize::from(by.0)], by.1)
}

fn name(agent: u8) -> baton_election::AgentName {
    cast::agent(AGENTS[usize::from(agent)])
}

/// A few policies that differ in what can end a leadership.
fn policy(which: u8) -> Policy {
    let base = Policy { ttl: Span::secs(10), watchers: vec![cast::agent("watcher")], ..Policy::default() };
    match which {
        0 => base,
        1 => Policy { approval: ApprovalMode::Checkpoints, ..base },
        2 => Policy { approval: ApprovalMode::Time, approval_ttl: Span::secs(20), ..base },
        3 => Policy {
            limits: Limits { time: Some(Span::secs(15)), tokens: Some(1_000), ..Limits::default() },
            ..base
        },
        4 => Policy { limits: Limits { stall: Some(Span::secs(6)), ..Limits::default() }, ..base },
        5 => Policy {
            performance: Some(Performance { bad: 2, of: 3, cool_off: Span::secs(20) }),
            depends: vec!["db".to_string()],
            breakers: Some(Breakers {
                failures: 3,
                cool_off: Span::secs(20),
                probes: 1,
                generation: 0,
                bars: Bars::Leadership,
            }),
            ..base
        },
        _ => Policy { ttl: Span::secs(3), ..base },
    }
}
