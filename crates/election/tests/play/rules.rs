//! What the design promises, checked at every commit.

use baton_election::command::{Ending, Renew};
use baton_election::document::{Cause, Phase};
use baton_election::operator::Act;
use baton_election::{
    Answer, Command, Credential, Decision, Document, Epoch, Evidence, Incarnation, LeaseKey, Persistence,
    PlainLease, Refusal, Span, TenureState, WallTime, decide, fence,
};

use super::commands::credential;
use super::{Broken, Mode, Play, Sent};
use crate::cast;

/// Says what is broken unless it holds.
fn must(holds: bool, what: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(what()) }
}

/// A renewal, and others that differ from it a little.
fn variants(renew: &Renew) -> Vec<Renew> {
    let epoch = |by: i64| Epoch(renew.epoch.0.saturating_add_signed(by));
    let Credential { incarnation, key } = renew.credential;
    let other_life = Incarnation(incarnation.0.map(|byte| byte ^ 1));
    let other_key = LeaseKey(key.0.map(|byte| byte ^ 1));
    vec![
        renew.clone(),
        Renew { progress: !renew.progress, ..renew.clone() },
        Renew { epoch: epoch(1), ..renew.clone() },
        Renew { epoch: epoch(-1), ..renew.clone() },
        Renew { spent_tokens: Some(5), ..renew.clone() },
        Renew { phase: Some(Phase::Draining), ..renew.clone() },
        Renew { promotion: Some(Span::secs(1)), ..renew.clone() },
        Renew { credential: Credential { incarnation: other_life, key }, ..renew.clone() },
        Renew { credential: Credential { incarnation, key: other_key }, ..renew.clone() },
    ]
}

impl Play {
    /// Commits a decision, after and before checking it.
    pub(super) fn commit(
        &mut self,
        before: Option<&Document>,
        next: Document,
        sent: &Sent,
        answer: &Answer,
    ) -> Result<(), Broken> {
        self.check_order(before, &next)?;
        self.check_paper(&next)?;
        self.check_ends(before, &next, sent, answer)?;
        self.check_transition(before, &next)?;
        self.check_forgotten(before, &next)?;
        if before.is_none_or(|before| before.beat != next.beat) {
            self.beat_at_ms = self.now_ms;
        }
        let beaten = before.map_or(0, |before| before.beat) != next.beat;
        self.document = Some(next);
        self.follow_leases(sent, beaten)?;
        self.check_tokens()
    }

    /// A renewal by itself is the decision's own, or none at all.
    pub(super) fn check_plain(
        &mut self,
        before: Option<&Document>,
        command: &Command,
        evidence: &Evidence<'_>,
        decided: &Result<Decision, Refusal>,
    ) -> Result<(), Broken> {
        let Some(document) = before else { return Ok(()) };
        let Some(running) = PlainLease::of(document) else { return Ok(()) };
        let mut same = document.clone();
        running.put_into(&mut same);
        must(same == *document, || "what was taken out of a document is put back otherwise".to_string())?;
        let Command::Renew(renew) = command else { return Ok(()) };
        for odd in variants(renew) {
            if let Some((next, answer)) = running.renewed(&odd, evidence.age, evidence.wall) {
                next.put_into(&mut same);
                let plain =
                    Ok(Decision { next: Some(same.clone()), answer, persistence: Persistence::Volatile });
                let decided = decide(before, &Command::Renew(odd), evidence);
                must(plain == decided, || format!("decided otherwise: {plain:?} and {decided:?}"))?;
                if let Ok(decision) = &decided {
                    cast::persistence::check(before, decision)?;
                }
                let again = decided.ok().and_then(|decision| PlainLease::of(decision.next.as_ref()?));
                must(again == Some(next), || "after a plain renewal the next is not".to_string())?;
            }
        }
        let plain = running.renewed(renew, evidence.age, evidence.wall).is_some();
        must(!plain || decided.is_ok(), || "a renewal that was refused is plain".to_string())?;
        self.count(if plain { "a renewal was plain" } else { "a renewal was left to the decision" });
        Ok(())
    }

    /// Epoch and beat never fall, and every grant is above all that were given.
    fn check_order(&self, before: Option<&Document>, next: &Document) -> Result<(), Broken> {
        let (epoch, beat) = before.map_or((Epoch(0), 0), |before| (before.epoch, before.beat));
        must(next.epoch >= epoch, || format!("the epoch fell from {epoch} to {}", next.epoch))?;
        must(next.beat >= beat, || format!("the beat fell from {beat} to {}", next.beat))?;
        if let Some(leader) = &next.leader {
            let fresh = before
                .and_then(|before| before.leader.as_ref())
                .is_none_or(|old| old.epoch != leader.epoch || old.incarnation != leader.incarnation);
            let highest = self.given.keys().next_back().copied().unwrap_or_default();
            must(!fresh || (leader.epoch > highest && leader.epoch > epoch), || {
                format!("token {} was given after token {highest} of epoch {epoch}", leader.epoch)
            })?;
        }
        Ok(())
    }

    /// The document does not contradict itself and survives being written and read.
    fn check_paper(&self, next: &Document) -> Result<(), Broken> {
        must(next.contradiction().is_none(), || format!("contradiction: {:?}", next.contradiction()))?;
        let serves = next.leader.as_ref().filter(|leader| leader.phase == Phase::Serving);
        must(serves.is_none_or(|leader| !next.is_unread_by(leader)), || {
            "a leader serves that has not acknowledged what was left".to_string()
        })?;
        if !next.beat.is_multiple_of(4) {
            return Ok(());
        }
        let text = serde_json::to_string(next).map_err(|error| format!("not written: {error}"))?;
        let read: Document = serde_json::from_str(&text).map_err(|error| format!("not read: {error}"))?;
        must(read == *next, || format!("read back as another document: {text}"))
    }

    /// A leadership that was ended from outside: the epoch has risen, and its holder is refused at once.
    fn check_ends(
        &mut self,
        before: Option<&Document>,
        next: &Document,
        sent: &Sent,
        answer: &Answer,
    ) -> Result<(), Broken> {
        let Some(old) = before.and_then(|before| before.leader.as_ref()) else { return Ok(()) };
        if next.leader.is_some() {
            return Ok(());
        }
        let epoch = before.map_or(Epoch(0), |before| before.epoch);
        let cause = ends_by(&sent.command, answer);
        self.count(format!("ended by {cause}"));
        self.ended_by = Some(cause);
        if matches!(sent.command, Command::Release(_) | Command::Pass(_)) {
            return must(next.epoch == epoch, || "a release raised the epoch".to_string());
        }
        must(next.epoch > epoch, || format!("{cause} left the epoch at {epoch}"))?;
        let (election, by) = (cast::election(), self.find(old.incarnation).unwrap_or_default());
        let renew = Renew {
            epoch: old.epoch,
            credential: credential(by),
            progress: true,
            spent_tokens: None,
            phase: None,
            promotion: None,
            region: None,
        };
        let evidence = Evidence {
            election: &election,
            store: cast::STORE,
            age: Span::ZERO,
            wall: WallTime::default(),
            floor: Epoch(0),
            vanished_lease: Span::ZERO,
            operator_keys: &[],
        };
        must(decide(Some(next), &Command::Renew(renew), &evidence).is_err(), || {
            format!("after {cause} the old leader could still renew")
        })
    }

    /// Every change of leader has exactly one transition, and nothing else has.
    fn check_transition(&mut self, before: Option<&Document>, next: &Document) -> Result<(), Broken> {
        let old = before.and_then(|before| before.leader.as_ref());
        let last = before.and_then(|before| before.last_transition.as_ref());
        let Some(entry) = &next.last_transition else {
            return must(next.leader.is_none(), || "a leader without a transition".to_string());
        };
        let begun = next.leader.as_ref().filter(|leader| {
            old.is_none_or(|old| (old.incarnation, old.epoch) != (leader.incarnation, leader.epoch))
        });
        let Some(leader) = begun else {
            let same = last.is_some_and(|last| {
                (last.epoch, last.cause, &last.from, &last.to)
                    == (entry.epoch, entry.cause, &entry.from, &entry.to)
            });
            return must(same, || "a transition without a change of leader".to_string());
        };
        if let Some(before) = before.and_then(|before| before.leader.as_ref()) {
            let _ = self.over.insert(before.epoch);
        }
        let goes_on = old.is_some_and(|old| old.incarnation == leader.incarnation);
        let cause = match (self.ended_by, old) {
            (_, Some(_)) if goes_on => Cause::Approval,
            (Some(cause), None) => cause,
            (None, Some(_)) => Cause::Failover,
            (None, None) => Cause::First,
            (Some(cause), Some(_)) => return Err(format!("it ended by {cause} and yet went on")),
        };
        let from = self.last_leader.and_then(|who| self.find(who)).map(|by| super::AGENTS[usize::from(by.0)]);
        must(entry.cause == cause, || format!("the cause is {cause}, not {}", entry.cause))?;
        must(entry.epoch == leader.epoch && entry.to == leader.agent, || {
            format!("a wrong transition: {entry:?}")
        })?;
        must(entry.from.as_ref().map(|agent| agent.as_str()) == from, || {
            format!("not from {from:?}: {entry:?}")
        })?;
        must(goes_on || self.last_leader != Some(leader.incarnation), || {
            "a life was granted twice in a row".to_string()
        })?;
        if !goes_on && self.given.values().any(|known| *known == leader.incarnation) {
            self.count("a forgotten life was granted again");
        }
        let _ = self.given.insert(leader.epoch, leader.incarnation);
        (self.last_leader, self.ended_by) = (Some(leader.incarnation), None);
        self.count(if goes_on { "an approval began an epoch" } else { "a leadership began" });
        Ok(())
    }

    /// What was forgotten is told of no more, and what begins after it follows nothing. No number goes back.
    fn check_forgotten(&mut self, before: Option<&Document>, next: &Document) -> Result<(), Broken> {
        let (acts, forgotten) = before.map_or((0, None), |before| (before.acts, before.forgotten));
        must(next.acts >= acts, || format!("the acts fell from {acts} to {}", next.acts))?;
        must(next.forgotten >= forgotten, || format!("it is forgotten that {forgotten:?} was"))?;
        let told = next.last_transition.as_ref().map(|last| last.epoch);
        must(told.is_none_or(|told| Some(told) > next.forgotten), || {
            format!("transition {told:?} is told after {:?} was forgotten", next.forgotten)
        })?;
        if !next.is_retired() {
            let again = before.is_some_and(Document::is_retired) && next.leader.is_some();
            if again {
                self.count("what was forgotten was led again");
            }
            return Ok(());
        }
        if let Some(leader) = before.and_then(|before| before.leader.as_ref()) {
            let _ = self.over.insert(leader.epoch);
        }
        (self.last_leader, self.ended_by) = (None, None);
        self.count("an election was forgotten");
        Ok(())
    }

    /// Follows until when each lease lasts, and makes sure that no two do.
    fn follow_leases(&mut self, sent: &Sent, beaten: bool) -> Result<(), Broken> {
        let sender = sent.by.map(|by| credential(by).incarnation);
        let holder = self.document.as_ref().and_then(|document| document.lease_holder());
        if let Some(holder) = holder.filter(|holder| beaten && Some(holder.incarnation) == sender) {
            let lease = holder.lease().as_millis();
            let _ = self.leases.insert(holder.incarnation, self.now_ms + lease);
        }
        if let (Command::Release(_) | Command::Pass(_), Some(sender)) = (&sent.command, sender) {
            let _ = self.leases.remove(&sender);
        }
        let valid: Vec<&Incarnation> =
            self.leases.iter().filter(|(_, until)| **until > self.now_ms).map(|(who, _)| who).collect();
        must(self.mode != Mode::Stamped || valid.len() <= 1, || format!("two leases are valid: {valid:?}"))
    }

    /// A token passes only if it is the leader's; those of the past never do.
    fn check_tokens(&mut self) -> Result<(), Broken> {
        let Some(document) = &self.document else { return Ok(()) };
        let leader = document.leader.as_ref().map(|leader| (leader.epoch, leader.incarnation));
        if let Some(departure) = &document.departure {
            let _ = self.over.insert(departure.epoch);
        }
        let mut stale = 0;
        for (token, given_to) in &self.given {
            match fence::check(*token, document, Span::ZERO) {
                Ok(()) => must(leader == Some((*token, *given_to)) && !self.over.contains(token), || {
                    format!("token {token} passes though its leadership is over")
                })?,
                Err(_) => stale += 1,
            }
        }
        must(self.over.iter().all(|token| fence::check(*token, document, Span::ZERO).is_err()), || {
            "a token of the past passes".to_string()
        })?;
        if stale > 0 {
            self.count("a stale token was refused");
        }
        Ok(())
    }

    /// Whoever believes to lead has a lease that nobody else can have.
    pub(super) fn check_tenures(&mut self) -> Result<(), Broken> {
        if self.mode == Mode::Forced {
            return Ok(());
        }
        let mut sure: Vec<(u8, u32)> = Vec::new();
        for (by, client) in &mut self.clients {
            let now = client.clock(self.now_ms);
            let ensured = client.tenure.as_ref().is_some_and(|tenure| tenure.ensures(now, Span::ZERO));
            let lost = client.tenure.as_mut().is_some_and(|tenure| tenure.standing(now) == TenureState::Lost);
            must(!client.was_lost || lost, || format!("{by:?} lost its leadership and has it again"))?;
            client.was_lost = lost;
            if ensured {
                let until = self.leases.get(&credential(*by).incarnation).copied().unwrap_or(0);
                must(self.mode == Mode::Observed || until > self.now_ms, || {
                    format!(
                        "{by:?} believes to lead; its lease ended at {until} ms, and it is {} ms",
                        self.now_ms
                    )
                })?;
                sure.push(*by);
            }
        }
        must(sure.len() <= 1, || format!("{sure:?} all believe to lead"))?;
        if !sure.is_empty() {
            self.count("somebody was sure to lead");
        }
        Ok(())
    }
}

/// Once lost, always lost: nothing that a holder asks after its lease is seen to be over restarts the lease.
pub(super) fn check_once_lost(before: Option<&Document>, command: &Command, age: Span) -> Result<(), Broken> {
    let lapsed = before.and_then(Document::lease_holder).is_some_and(|holder| age >= holder.lease());
    let restarts = matches!(command, Command::Renew(_) | Command::Checkpoint(_) | Command::Acknowledge(_));
    must(!(lapsed && restarts), || "a lease was restarted after it was over".to_string())
}

/// Why a leadership ended, judged by the command that ended it.
fn ends_by(command: &Command, answer: &Answer) -> Cause {
    match command {
        Command::Acquire(_) => Cause::Failover,
        Command::Release(release) => match release.ending {
            Ending::Stopped => Cause::Release,
            Ending::Finished => Cause::Finished,
            Ending::Orphaned => Cause::Failover,
        },
        Command::Pass(_) => Cause::Pass,
        Command::Report(report) => report.finding.cause().unwrap_or(Cause::First),
        Command::Operate(signed) => match &signed.order.act {
            Act::Appoint { .. } => Cause::Appoint,
            Act::Depose { .. } => Cause::Depose,
            Act::Pause { .. } | Act::Halt { .. } => Cause::Pause,
            Act::Approve { .. } => Cause::Failover,
            Act::Reject { .. } => Cause::Approval,
            Act::Resume
            | Act::SetPolicy { .. }
            | Act::Enrol { .. }
            | Act::Dismiss { .. }
            | Act::Note { .. }
            | Act::Vote { .. }
            | Act::Forget { .. } => Cause::First,
        },
        // Whatever else ends it reaches a limit, or says why.
        _ => match answer {
            Answer::Ended { cause, .. } => *cause,
            _ => Cause::Budget,
        },
    }
}
