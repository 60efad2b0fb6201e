//! An election as it is shown: to programs as one object, to people as a few lines.

use baton::View;
use baton::election::document::{Cause, Checkpoint, Document, Leader, Question, State, Transition};
use baton::election::policy::{ApprovalMode, Policy};
use baton::election::quorum::Gathering;
use baton::election::time::Span;
use serde_json::{Value, json};

use super::audit::act_line;
use crate::manifest;
use crate::output::clean;

/// An election for programs; null if there is none.
pub(crate) fn data(view: &View) -> Value {
    let Some(document) = &view.document else { return Value::Null };
    let mut data = all(document, view.age);
    if let Some(leader) = data["leader"].as_object_mut() {
        leader.insert("remaining_at_most".to_string(), json!(!view.exact));
        for unknown in
            ["phase", "renewals", "spent_tokens", "verdicts", "acquired"].iter().filter(|_| view.native)
        {
            leader.remove(*unknown);
        }
    }
    if let Some(election) = data.as_object_mut().filter(|_| view.native) {
        election.remove("policy");
    }
    data
}

fn all(document: &Document, age: Span) -> Value {
    let live = document.current_leader(age);
    json!({
        "election": document.election,
        "state": state_word(document, age),
        "token": document.epoch,
        "leader": document.leader.as_ref().map(|leader| holder(document, leader, age, live.is_some())),
        "outgoing": document.outgoing.as_ref().map(|leader| json!({
            "agent": leader.agent, "remaining_ms": leader.lease().minus(age).as_millis(),
        })),
        "task": document.task,
        "reserved_for": document.reserved_for.as_ref().map(|kept| &kept.agent),
        "paused": document.paused.as_ref().map(|pause| json!({"reason": pause.reason, "at": pause.at})),
        "question": document.approval.question,
        "checkpoint": document.checkpoint.as_ref().map(|checkpoint| json!({
            "seq": checkpoint.seq, "epoch": checkpoint.epoch, "by": checkpoint.by, "summary": checkpoint.summary,
            "hash": checkpoint.hash, "acknowledged_by": checkpoint.acknowledged_by,
        })),
        "departure": document.departure.as_ref().map(|departure| json!({
            "cause": departure.cause, "kind": departure.cause.handover(), "agent": departure.agent, "reason": departure.reason, "at": departure.at,
        })),
        "degraded": document.leaderless(age).map(|leaderless| json!({"since": leaderless.since})),
        "last_transition": document.last_transition.as_deref().map(transition),
        "policy": document.policy,
    })
}

/// A change of leader, with what can be told from it.
fn transition(last: &Transition) -> Value {
    let mut data = json!(last);
    data["kind"] = json!(last.cause.handover());
    data["took_ms"] = json!(last.phases.took().map(Span::as_millis));
    data
}

fn holder(document: &Document, leader: &Leader, age: Span, live: bool) -> Value {
    json!({
        "agent": leader.agent,
        "token": leader.epoch,
        "live": live,
        "phase": leader.phase,
        "contact": leader.contact,
        "region": leader.region,
        "ttl_ms": leader.ttl.as_millis(),
        "remaining_ms": document.lease_remaining(age).as_millis(),
        "renewals": leader.renewals,
        "spent_tokens": leader.spent_tokens,
        "verdicts": json!({"given": leader.verdicts.given, "bad_of_last_32": leader.verdicts.bad_of(32)}),
        "acquired": leader.acquired,
        "incarnation": leader.incarnation,
    })
}

/// The state in a word. A lease that has run out leaves a document that still names its holder: that is a vacancy in all but name. One whose
/// work is done is a vacancy in which nobody is missed.
fn state_word(document: &Document, age: Span) -> String {
    match document.state {
        State::Vacant if document.finished().is_some() => "done".to_string(),
        State::Held if document.current_leader(age).is_none() => "expired".to_string(),
        state => state.to_string(),
    }
}

/// An election as a row: name, state, leader, token, what is left of the lease, task.
pub(crate) fn row(view: &View) -> Vec<String> {
    let Some(document) = &view.document else { return Vec::new() };
    let (leader, age) = (document.leader.as_ref(), view.age);
    let left = if document.lease_holder().is_some() { remaining(document, view) } else { "-".into() };
    vec![
        document.election.to_string(),
        state_word(document, age),
        leader.map_or("-".to_string(), |leader| leader.agent.to_string()),
        document.epoch.to_string(),
        left,
        document.task.as_deref().unwrap_or("").to_string(),
    ]
}

/// What is left of the lease, and how well that is known.
fn remaining(document: &Document, view: &View) -> String {
    let left = document.lease_remaining(view.age);
    if view.exact || left == Span::ZERO { left.to_string() } else { format!("at most {left}") }
}

/// The head of those rows.
pub(crate) const HEAD: [&str; 6] = ["ELECTION", "STATE", "LEADER", "TOKEN", "LEASE", "TASK"];

/// An election for people.
pub(crate) fn text(view: &View) -> String {
    let Some(document) = &view.document else { return String::new() };
    let age = view.age;
    let mut lines = vec![headline(document, view)];
    if let Some(task) = &document.task {
        lines.push(format!("  task        {}", clean(task)));
    }
    if let Some(leader) = document.leader.as_ref().filter(|_| !view.native) {
        lines.push(format!(
            "  phase       {}, {} renewals, since {}",
            leader.phase, leader.renewals, leader.acquired
        ));
    }
    lines.extend(document.leader.as_ref().and_then(|leader| verdicts(document, leader)));
    if let Some(contact) = document.leader.as_ref().and_then(|leader| leader.contact.as_ref()) {
        lines.push(format!("  contact     {}", clean(contact)));
    }
    if let Some(region) = document.leader.as_ref().and_then(|leader| leader.region.as_ref()) {
        lines.push(format!("  region      {} (token {})", region.election, region.epoch));
    }
    if document.server.is_some() {
        lines.push("  served      by servers, who alone know how old its lease is".to_string());
    }
    if let Some(outgoing) = &document.outgoing {
        let left = outgoing.lease().minus(age);
        lines.push(format!("  outgoing    {}, whose lease may last {left} more", outgoing.agent));
    }
    if let Some(departure) = &document.departure {
        let reason = if departure.reason.is_empty() {
            String::new()
        } else {
            format!(": {}", clean(&departure.reason))
        };
        lines.push(format!("  ended       {} ({}){reason}", departure.agent, why(departure.cause)));
    }
    lines.extend(document.reserved_for.as_ref().map(|kept| format!("  reserved    for {}", kept.agent)));
    match &document.approval.question {
        Some(Question::Checkpoint { hash }) => {
            lines.push(format!(
                "  approval    wanted for checkpoint {hash:.12}: baton approve {} --checkpoint {hash}",
                document.election
            ));
        }
        Some(Question::MoreTime) => {
            lines.push(format!("  approval    wanted for more time: baton approve {}", document.election));
        }
        None => {}
    }
    if let Some(checkpoint) = &document.checkpoint {
        let taken = match &checkpoint.acknowledged_by {
            Some(agent) => format!("acknowledged by {agent}"),
            None => "not yet acknowledged".to_string(),
        };
        lines.push(format!(
            "  checkpoint  {} by {}, {taken}: {}",
            checkpoint.seq,
            checkpoint.by,
            clean(&checkpoint.summary)
        ));
    }
    lines.extend(signatures(document));
    if let Some(last) = &document.last_transition {
        let from = last.from.as_ref().map_or(String::new(), |from| format!("{from} → "));
        lines.push(format!("  last change {from}{} ({}): {}", last.to, why(last.cause), clean(&last.reason)));
        lines.extend(took(last));
    }
    if !view.native {
        lines.push(format!("  policy      {}", policy_line(&document.policy)));
    }
    lines.join("\n")
}

/// Why it stands as it does, in a few words: why its leader leads, or why the last one does not.
pub(super) fn reason(document: &Document) -> Option<String> {
    let words = |cause: Cause, reason: &str| match reason {
        "" => why(cause),
        reason => format!("{}: {}", why(cause), clean(reason)),
    };
    match (&document.departure, &document.last_transition) {
        (Some(departure), _) => {
            Some(format!("{} ended ({})", departure.agent, words(departure.cause, &departure.reason)))
        }
        (None, Some(last)) => Some(words(last.cause, &last.reason)),
        (None, None) => None,
    }
}

/// A checkpoint for the person who decides on it: all that its hash stands for, whole.
pub(super) fn checkpoint(checkpoint: &Checkpoint) -> Vec<String> {
    let Checkpoint { seq, by, summary, hash, .. } = checkpoint;
    let summary = if summary.is_empty() { "(no summary)".to_string() } else { clean(summary) };
    let mut lines = vec![format!("checkpoint {seq} by {by}: {summary}")];
    lines.extend((checkpoint.state != "null").then(|| format!("state: {}", clean(&checkpoint.state))));
    if let Some(reference) = &checkpoint.reference {
        lines.push(format!("reference: {} (sha256 {})", clean(&reference.location), reference.sha256));
    }
    if let Some(covers) = &checkpoint.covers {
        lines.push(format!("{} (sha256 {})", manifest::covered(covers), covers.sha256));
    }
    lines.push(format!("hash: {hash}"));
    lines
}

/// A cause, and its kind where that says more.
fn why(cause: Cause) -> String {
    let (kind, cause) = (cause.handover().to_string(), cause.to_string());
    if kind == cause { cause } else { format!("{kind}: {cause}") }
}

/// How long a change of leader took, and which phases of it were measured.
fn took(last: &Transition) -> Option<String> {
    let measured = last.phases.named().into_iter();
    let measured: Vec<String> =
        measured.filter_map(|(name, span)| span.map(|span| format!("{name} {span}"))).collect();
    let took = last.phases.took().map_or(String::new(), |took| format!("{took}: "));
    (!measured.is_empty()).then(|| format!("  took        {took}{}", measured.join(", ")))
}

/// What waits for more operators.
fn signatures(document: &Document) -> Vec<String> {
    let one = |gathering: &Gathering| {
        let (have, need) = (gathering.signed.len(), gathering.needed(document));
        let (act, name) = (act_line(&gathering.order.act), &document.election);
        format!("  signatures  {have} of {need} operators: {act} (baton cosign {name})")
    };
    document.gathering.iter().flat_map(|all| all.iter()).map(one).collect()
}

fn headline(document: &Document, view: &View) -> String {
    let (name, age) = (&document.election, view.age);
    match (document.state, &document.leader) {
        (State::Held, Some(leader)) if document.current_leader(age).is_some() => {
            let left = remaining(document, view);
            format!("{name}: {} leads with token {} (lease {left} more)", leader.agent, leader.epoch)
        }
        (State::Held, Some(leader)) if leader.offered => format!("{name}: offered to {}", leader.agent),
        (State::Held, Some(leader)) => {
            format!("{name}: nobody leads; the lease of {} has run out", leader.agent)
        }
        (State::AwaitingApproval, Some(leader)) => {
            format!("{name}: waits for an operator's approval; {} holds the lease", leader.agent)
        }
        (State::AwaitingApproval, None) => format!("{name}: waits for an operator's approval"),
        (State::Paused, _) => {
            let reason = document.paused.as_ref().map_or("", |pause| pause.reason.as_str());
            let reason = if reason.is_empty() { String::new() } else { format!(": {}", clean(reason)) };
            let with = if document.paused.as_ref().is_some_and(|pause| pause.halted) {
                ", with everything"
            } else {
                ""
            };
            format!("{name}: paused by an operator{with}{reason}")
        }
        (State::Vacant, _) if document.finished().is_some() => {
            format!("{name}: done; nobody leads (last token {})", document.epoch)
        }
        (State::Vacant | State::Held, _) => format!("{name}: nobody leads (last token {})", document.epoch),
    }
}

/// What judges said of the leader, and from how many bad ones on that ends its leadership.
fn verdicts(document: &Document, leader: &Leader) -> Option<String> {
    let (verdicts, rule) = (&leader.verdicts, document.policy.performance.as_ref()?);
    let last = verdicts.given.min(u64::from(rule.of));
    (verdicts.given > 0).then(|| {
        let bad = verdicts.bad_of(rule.of);
        format!("  verdicts    {bad} of the last {last} bad; {} of {} end the leadership", rule.bad, rule.of)
    })
}

/// The rules of an election that are not the usual ones, in a line.
pub(super) fn policy_line(policy: &Policy) -> String {
    let mut parts = vec![format!("{}, lease {}", policy.select, policy.ttl)];
    parts.extend(policy.max_ttl.map(|ttl| format!("lease at most {ttl}")));
    parts.extend(policy.designated.as_ref().map(|agent| format!("designated {agent}")));
    parts.extend((!policy.needs.is_empty()).then(|| format!("needs {}", policy.needs.join(" "))));
    parts.extend((policy.nomination > Span::ZERO).then(|| format!("nomination {}", policy.nomination)));
    if policy.approval != ApprovalMode::None {
        parts.push(format!("approval by {} ({})", policy.approval, policy.approval_ttl));
    }
    parts.extend((!policy.handover.is_usual()).then(|| format!("hand-over {}", policy.handover)));
    if policy.regions {
        parts.push("led from its regions only".to_string());
    }
    let limits = &policy.limits;
    parts.extend(limits.time.map(|time| format!("leads for at most {time}")));
    parts.extend(limits.tokens.map(|tokens| format!("spends at most {tokens} tokens")));
    parts.extend(limits.renewals.map(|renewals| format!("renews at most {renewals} times")));
    parts.extend(limits.stall.map(|stall| format!("stalls for at most {stall}")));
    if !policy.watchers.is_empty() {
        let names: Vec<&str> = policy.watchers.iter().map(|agent| agent.as_str()).collect();
        parts.push(format!("watched by {}", names.join(" ")));
    }
    parts.extend(
        policy
            .performance
            .as_ref()
            .map(|rule| format!("performance {}/{} (cool-off {})", rule.bad, rule.of, rule.cool_off)),
    );
    parts.extend((!policy.depends.is_empty()).then(|| format!("depends on {}", policy.depends.join(" "))));
    parts.extend(policy.breakers.as_ref().map(|rule| {
        let resets =
            if rule.generation > 0 { format!(" (resets: {})", rule.generation) } else { String::new() };
        let bars = if rule.bars.is_usual() { String::new() } else { format!(" bar {}", rule.bars) };
        format!("breakers {}/{}{bars}{resets}", rule.failures, rule.cool_off)
    }));
    if policy.operators.quorum > 1 {
        let acts: Vec<String> = policy.operators.acts.iter().map(ToString::to_string).collect();
        let of = if acts.is_empty() { String::new() } else { format!(" for {}", acts.join(" ")) };
        parts.push(format!("quorum of {} operators{of}", policy.operators.quorum));
    }
    parts.extend(policy.operators.break_glass.then(|| "break-glass".to_string()));
    parts.join(", ")
}
