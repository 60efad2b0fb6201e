//! Becoming the leader.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use super::moves;
use crate::command::{Acquire, Answer, Decision, Evidence, MAX_CAPABILITIES, Persistence, check_contact};
use crate::document::{Cause, Document, Leader, State};
use crate::policy::{Policy, Select, check_capability, check_ttl};
use crate::refusal::{DEPENDENCY, Refusal};
use crate::region::{self, Flaw, Region};
use crate::removal_rules::{self, check_dependency};
use crate::time::Span;

pub(super) fn decide(
    document: Option<&Document>,
    acquire: &Acquire,
    evidence: &Evidence<'_>,
) -> Result<Decision, Refusal> {
    check(acquire)?;
    if let Some(retired) = document.filter(|document| document.is_retired()) {
        let fresh = Document { created_by: acquire.through, ..retired.emptied(evidence.operator_keys) };
        let region = region_of(&fresh, acquire)?;
        return Ok(granted(document, fresh, acquire, region, evidence));
    }
    let Some(document) = document else {
        if evidence.vanished_lease > Span::ZERO {
            return Err(Refusal::Held {
                by: None,
                epoch: evidence.floor,
                remaining: evidence.vanished_lease,
                ending: None,
            });
        }
        let new =
            Document::new(evidence.election.clone(), evidence.store, evidence.floor, evidence.operator_keys);
        let fresh = Document { created_by: acquire.through, ..new };
        let region = region_of(&fresh, acquire)?;
        return Ok(granted(None, fresh, acquire, region, evidence));
    };
    match (document.state, &document.leader) {
        (State::Paused, _) => {
            let pause = document.paused.as_ref();
            Err(Refusal::Paused {
                reason: pause.map_or(String::new(), |pause| pause.reason.clone()),
                since: pause.map(|pause| pause.at).unwrap_or_default(),
            })
        }
        (State::AwaitingApproval, _) => {
            Err(Refusal::AwaitingApproval { question: document.approval.question.clone() })
        }
        (State::Held, Some(leader)) if leader.incarnation == acquire.incarnation => {
            repeated(document, leader, acquire, evidence)
        }
        (State::Held | State::Vacant, _) => {
            only_once(document, acquire)?;
            wait_for_lease(document, evidence)?;
            eligible(document, acquire, evidence)?;
            let region = region_of(document, acquire)?;
            Ok(granted(Some(document), document.clone(), acquire, region, evidence))
        }
    }
}

fn check(acquire: &Acquire) -> Result<(), Refusal> {
    if let Some(ttl) = acquire.ttl {
        check_ttl(ttl)?;
    }
    acquire.limits.check()?;
    moves::check_text("task", acquire.task.as_deref().unwrap_or_default())?;
    moves::check_text("reason", acquire.reason.as_deref().unwrap_or_default())?;
    if let Some(contact) = &acquire.contact {
        check_contact(contact)?;
    }
    if acquire.capabilities.len() > MAX_CAPABILITIES {
        return Err(Refusal::invalid(
            format!("an agent claims at most {MAX_CAPABILITIES} capabilities"),
            "name the ones that matter",
        ));
    }
    if acquire.failing.len() > MAX_CAPABILITIES {
        return Err(Refusal::invalid(
            format!("an agent tells of at most {MAX_CAPABILITIES} failing dependencies"),
            "name the ones that matter",
        ));
    }
    acquire.failing.iter().try_for_each(|name| check_dependency(name))?;
    acquire.capabilities.iter().try_for_each(|capability| check_capability(capability))
}

/// The same incarnation asks again: the answer to the first time was lost, or it is told that its time is over.
fn repeated(
    document: &Document,
    leader: &Leader,
    acquire: &Acquire,
    evidence: &Evidence<'_>,
) -> Result<Decision, Refusal> {
    if leader.key_hash != acquire.key_hash {
        return Err(Refusal::WrongKey {
            why: "the lease key does not fit this incarnation's lease".to_string(),
        });
    }
    if evidence.age >= leader.lease() {
        return Err(Refusal::Stale {
            shown: leader.epoch,
            current: document.epoch,
            leader: Some(leader.agent.clone()),
            why: "the lease ran out; a new incarnation must ask".to_string(),
        });
    }
    let cause = document.last_transition.as_ref().map_or(Cause::First, |last| last.cause);
    Ok(Decision::unchanged(Answer::Granted {
        epoch: leader.epoch,
        ttl: leader.ttl,
        cause,
        offer: leader.offered,
        repeated: true,
    }))
}

/// Refuses an incarnation that has led: a request of its, delivered late, must not make it lead unawares.
fn only_once(document: &Document, acquire: &Acquire) -> Result<(), Refusal> {
    match document.departure.as_ref().filter(|departure| departure.incarnation == acquire.incarnation) {
        None => Ok(()),
        Some(departure) => Err(Refusal::Stale {
            shown: departure.epoch,
            current: document.epoch,
            leader: None,
            why: format!(
                "this incarnation's leadership ended ({}); a new incarnation must ask",
                departure.cause
            ),
        }),
    }
}

/// Refuses while a lease may be running.
fn wait_for_lease(document: &Document, evidence: &Evidence<'_>) -> Result<(), Refusal> {
    if document.lease_remaining(evidence.age) == Span::ZERO {
        return Ok(());
    }
    Refusal::held(document, evidence.age).map_or(Ok(()), Err)
}

/// Refuses whom the rules bar, for good or for the beginning of this vacancy.
fn eligible(document: &Document, acquire: &Acquire, evidence: &Evidence<'_>) -> Result<(), Refusal> {
    let not_eligible = |why, retry_in| Err(Refusal::NotEligible { why, retry_in });
    if let (Some(asked), Some(max)) = (acquire.ttl, document.policy.max_ttl)
        && asked > max
    {
        return not_eligible(
            format!("it asks for a lease of {asked}; the policy allows at most {max}"),
            None,
        );
    }
    let free_for = document.vacancy(evidence.age);
    if let Some(kept) = document.reserved_for.as_ref().filter(|kept| kept.agent != acquire.agent) {
        match kept.lasts {
            None => return not_eligible(format!("it is kept for {}", kept.agent), None),
            Some(lasts) if free_for < lasts => {
                let left = lasts.minus(free_for);
                return not_eligible(format!("it is kept for {}", kept.agent), Some(left));
            }
            Some(_) => {}
        }
    }
    let reserved_for_it = document.reserved_for.as_ref().is_some_and(|kept| kept.agent == acquire.agent);
    if document.passed_over.as_ref() == Some(&acquire.agent)
        && !reserved_for_it
        && free_for < document.others_first()
    {
        let cause = document.departure.as_ref().map_or_else(String::new, |d| format!(" ({})", d.cause));
        return not_eligible(
            format!("its leadership was ended{cause}; others go first"),
            Some(document.others_first().minus(free_for)),
        );
    }
    if document.reserved_for.as_ref().is_some_and(|kept| reserved_for_it && kept.by_operator) {
        return Ok(());
    }
    obeys(&document.policy, acquire)?;
    removal_rules::admit(&document.policy, acquire.open.as_deref())
}

/// What the policy demands of the agent itself; its place among others is not decided here.
fn obeys(policy: &Policy, acquire: &Acquire) -> Result<(), Refusal> {
    let refused = |why| Err(Refusal::NotEligible { why, retry_in: None });
    if let Some(failing) = policy.depends.iter().find(|name| acquire.failing.contains(*name)) {
        return refused(format!("{DEPENDENCY} `{failing}` is failing"));
    }
    match policy.select {
        Select::Designated if policy.designated.as_ref() != Some(&acquire.agent) => {
            let designated = policy.designated.as_ref().map_or("nobody", |agent| agent.as_str());
            refused(format!("{designated} is designated"))
        }
        Select::Capable => match policy.needs.iter().find(|need| !acquire.capabilities.contains(*need)) {
            Some(missing) => refused(format!("it lacks the capability `{missing}`")),
            None => Ok(()),
        },
        Select::First
        | Select::Priority
        | Select::Available
        | Select::RoundRobin
        | Select::Random
        | Select::Vote
        | Select::Designated => Ok(()),
    }
}

/// The region from which it would lead. One that is shown binds also where the policy asks for none.
fn region_of(document: &Document, acquire: &Acquire) -> Result<Option<Region>, Refusal> {
    let Some(proof) = &acquire.region else {
        return if document.policy.regions { Err(region::none_shown(&document.election)) } else { Ok(None) };
    };
    match region::check(&document.election, &acquire.agent, proof) {
        Ok(region) => Ok(Some(region)),
        Err(Flaw::Refused(refusal)) => Err(refusal),
        Err(Flaw::Over(why)) => Err(region::over(&why)),
    }
}

/// Grants the lease on the ground of `document`. That is `old`, or a fresh one if there is none or if it was retired.
fn granted(
    old: Option<&Document>,
    mut document: Document,
    acquire: &Acquire,
    region: Option<Region>,
    evidence: &Evidence<'_>,
) -> Decision {
    let offer = acquire.offer || acquire.is_late(document.epoch);
    let cause = moves::grant(&mut document, acquire, evidence);
    if let Some(leader) = &mut document.leader {
        leader.offered = offer;
        leader.region = region.map(Arc::new);
    }
    let ttl = document.leader.as_ref().map_or(Span::ZERO, |leader| leader.ttl);
    let answer = Answer::Granted { epoch: document.epoch, ttl, cause, offer, repeated: false };
    let persistence = old.map_or(Persistence::Durable, |old| moves::persistence(old, &document));
    Decision::change(document, answer, persistence)
}
