//! How answers, refusals and documents look in a trace.

use std::fmt::Write;

use baton_election::document::{Leader, PhaseTimes, Question};
use baton_election::{Answer, Document, Refusal, Span};

use super::World;

/// An answer in one line.
pub(super) fn answer(answer: &Answer) -> String {
    match answer {
        Answer::Granted { epoch, ttl, cause, offer, repeated } => {
            let offer = if *offer { ", as an offer" } else { "" };
            let again = if *repeated { ", as before" } else { "" };
            format!("granted token {epoch} for {ttl}, cause {cause}{offer}{again}")
        }
        Answer::Renewed { epoch, awaiting_approval, approval_wanted } => {
            let awaiting = if *awaiting_approval { ", awaiting approval" } else { "" };
            let wanted = if *approval_wanted { ", approval wanted" } else { "" };
            format!("renewed, token {epoch}{awaiting}{wanted}")
        }
        Answer::Ended { cause, reason } => format!("ended by {cause}: {reason}"),
        Answer::Released { reserved_for: None } => "released".to_string(),
        Answer::Released { reserved_for: Some(agent) } => format!("released, kept for {agent}"),
        Answer::Checkpointed { seq, awaiting_approval, .. } => {
            let awaiting = if *awaiting_approval { ", awaiting approval" } else { "" };
            format!("checkpoint {seq} stands{awaiting}")
        }
        Answer::Acknowledged { seq } => format!("checkpoint {seq} acknowledged"),
        Answer::Signed { epoch, have, need } => format!("signed by {have} of {need}, epoch {epoch}"),
        Answer::Done { epoch, ended, waits } => {
            let ended = ended.as_ref().map_or(String::new(), |agent| format!(", ended {agent}"));
            let waits = if *waits == Span::ZERO { String::new() } else { format!(", {waits} to wait") };
            format!("done, epoch {epoch}{ended}{waits}")
        }
    }
}

/// A refusal with its facts and its hint.
pub(super) fn refusal(refusal: &Refusal) -> String {
    let facts = match refusal {
        Refusal::Held { remaining, .. } => format!(" [{remaining} left]"),
        Refusal::NotEligible { retry_in: Some(span), .. }
        | Refusal::Exhausted { retry_in: Some(span), .. } => {
            format!(" [in {span}]")
        }
        Refusal::Stale { leader: Some(leader), .. } => format!(" [{leader} leads]"),
        Refusal::NotEligible { retry_in: None, .. }
        | Refusal::Stale { leader: None, .. }
        | Refusal::Paused { .. }
        | Refusal::AwaitingApproval { .. }
        | Refusal::WrongKey { .. }
        | Refusal::UnknownElection { .. }
        | Refusal::NoSuchItem { .. }
        | Refusal::OutOfTurn { .. }
        | Refusal::Exhausted { retry_in: None, .. }
        | Refusal::Invalid { .. } => String::new(),
    };
    format!("refused {}: {refusal}{facts}\n  hint: {}", refusal.code(), refusal.hint())
}

impl World {
    /// The document in a few lines; of the last transition only what `before` did not show.
    pub(super) fn show(&self, before: Option<&Document>) -> String {
        let Some(document) = &self.document else { return "  no document\n".to_string() };
        let age = self.age();
        let mut text = format!("  {}, epoch {}, beat {}\n", document.state, document.epoch, document.beat);
        let mut line = |line: String| writeln!(text, "    {line}").expect("text");
        if document.is_retired() {
            line(format!("forgotten after {} acts", document.acts));
        }
        if let Some(leader) = &document.leader {
            line(format!("leader {}", self.leader(leader, age)));
        }
        if let Some(leader) = &document.outgoing {
            line(format!("outgoing {}", self.leader(leader, age)));
        }
        if let Some(kept) = &document.reserved_for {
            let lasts = kept.lasts.map_or("until it is taken".to_string(), |lasts| format!("for {lasts}"));
            line(format!("kept for {} {lasts}", kept.agent));
        }
        if let Some(agent) = &document.passed_over {
            line(format!("{agent} goes last"));
        }
        if let Some(departure) = &document.departure {
            let life = self.life_of(&departure.agent, departure.incarnation);
            line(format!(
                "token {} of {life} ended by {}: {:?}",
                departure.epoch, departure.cause, departure.reason
            ));
        }
        match &document.approval.question {
            Some(Question::Checkpoint { .. }) => line("asks to approve the checkpoint".to_string()),
            Some(Question::MoreTime) => line("asks to approve more time".to_string()),
            None => {}
        }
        for gathering in document.gathering.iter().flat_map(|all| all.iter()) {
            let (name, have) = (gathering.order.act.name(), gathering.signed.len());
            line(format!("{name} is signed by {have} of {}", gathering.needed(document)));
        }
        for vote in document.votes.iter().flat_map(|all| all.iter()) {
            line(format!("a vote for {}", vote.agent));
        }
        if let Some(checkpoint) = &document.checkpoint {
            let by = &checkpoint.acknowledged_by;
            let by = by.as_ref().map_or(String::new(), |agent| format!(", acknowledged by {agent}"));
            line(format!(
                "checkpoint {} of token {} by {}{by}",
                checkpoint.seq, checkpoint.epoch, checkpoint.by
            ));
        }
        let shown = before.and_then(|before| before.last_transition.as_ref());
        if let Some(last) = document.last_transition.as_ref().filter(|last| shown != Some(*last)) {
            let from = last.from.as_ref().map_or("nobody", |agent| agent.as_str());
            let (to, cause, phases) = (&last.to, last.cause, phases(&last.phases));
            line(format!("transition {}: {cause}, {from} -> {to}: {:?}{phases}", last.epoch, last.reason));
        }
        text
    }

    fn leader(&self, leader: &Leader, age: Span) -> String {
        let life = self.life_of(&leader.agent, leader.incarnation);
        let left = leader.lease().minus(age);
        let left = if left == Span::ZERO { "lease over".to_string() } else { format!("{left} left") };
        let offered = if leader.offered { ", offered" } else { "" };
        let renewals = leader.renewals;
        format!("{life}: token {}, {}{offered}, renewed {renewals} times, {left}", leader.epoch, leader.phase)
    }
}

fn phases(phases: &PhaseTimes) -> String {
    phases.named().iter().filter_map(|(name, span)| span.map(|span| format!(", {name} {span}"))).collect()
}
