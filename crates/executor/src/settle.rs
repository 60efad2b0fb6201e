//! Two histories of one record, and the operator's word on which one holds.

use std::sync::Arc;

use baton_api::Patience;
use baton_api::elections::{CommandError, Settlement};
use baton_election::audit::{Book, Entry};
use baton_election::document::{Approval, Leader, Pause};
use baton_election::handover::HandoverRule;
use baton_election::operator::{Act, OperatorKey};
use baton_election::policy::{ApprovalMode, Policy};
use baton_election::{
    Answer, Command, Decision, Document, Evidence, Incarnation, KeyHash, Refusal, Span, State, StoreInfo,
    decide,
};
use baton_store::{Claim, Key, Record, StoreError, boot};

use crate::executor::Executor;

impl Executor {
    /// An operator's appointment, made on top of the claim with the highest epoch, ends a divergence.
    pub(crate) async fn settle_histories(
        &self,
        patience: Patience,
        settlement: Settlement<'_>,
    ) -> Result<Answer, CommandError> {
        let Settlement { election, key, act, break_glass, diverged } = settlement;
        let StoreError::Diverged { claims, settles, .. } = &diverged else { return Err(diverged.into()) };
        if !matches!(act, Act::Appoint { .. }) {
            return Err(diverged.into());
        }
        let info = self.fresh_info(patience, true).await?;
        let Some(base) = common_ground(claims, &info) else { return Err(diverged.into()) };
        let decision = on_top(&base, key, (act, break_glass), &info)?;
        if let Some(next) = decision.next {
            for entry in last_acts(claims) {
                self.record_act(Book::Election(election.clone()), entry).await?;
            }
            let record = Record::Election(Box::new(next));
            self.swap_in(&Key::Election(election.clone()), settles, &record).await?;
        }
        Ok(decision.answer)
    }
}

/// What comes of the act on that ground. If it takes more operators than this one, it waits there for them, and nobody leads until they have signed it and one
/// has resumed the election.
fn on_top(
    base: &Document,
    key: &OperatorKey,
    (act, break_glass): (&Act, Option<&str>),
    info: &StoreInfo,
) -> Result<Decision, Refusal> {
    let evidence = Evidence {
        election: &base.election,
        store: info.id,
        age: Span::ZERO,
        wall: boot::wall(),
        floor: base.epoch,
        vanished_lease: Span::ZERO,
        operator_keys: &info.operator_keys,
    };
    let signed = key.sign_urgently(base, act.clone(), break_glass.map(str::to_string));
    let mut decision = decide(Some(base), &Command::Operate(signed), &evidence)?;
    if let (Answer::Signed { .. }, Some(next)) = (&decision.answer, &mut decision.next)
        && next.state != State::Paused
    {
        next.state = State::Paused;
        let reason = "it had two histories; which one holds waits for more operators".to_string();
        next.paused = Some(Pause { by: key.public(), reason, at: evidence.wall, halted: false });
    }
    Ok(decision)
}

/// What the claims show of operators' acts.
fn last_acts(claims: &[Claim]) -> impl Iterator<Item = &Entry> {
    claims.iter().filter_map(|claim| match claim.record.as_deref() {
        Some(Record::Election(document)) => document.last_act.as_ref()?.entry.as_ref(),
        Some(_) | None => None,
    })
}

/// A vacant document above every claim. Either claimant may be at work, so that the longest of their leases is waited for,
/// and neither can shorten the wait for the other by releasing.
///
/// Who the operators are is the store's word: a claim that was made up may name others. Of what the claims say of the quorum all holds together, and if one
/// of them is paused, so is the ground: otherwise who writes a claim of its own would rid itself of both.
fn common_ground(claims: &[Claim], info: &StoreInfo) -> Option<Document> {
    let documents: Vec<&Document> = claims
        .iter()
        .filter_map(|claim| match claim.record.as_deref() {
            Some(Record::Election(document)) => Some(&**document),
            Some(_) | None => None,
        })
        .collect();
    let newest = documents.iter().max_by_key(|document| document.epoch)?;
    let holders = documents.iter().filter_map(|document| document.lease_holder());
    let outgoing = holders.max_by_key(|holder| holder.ttl).map(|holder| Leader {
        incarnation: Incarnation([0; 8]),
        key_hash: KeyHash([0; 32]),
        // An offer is waited for for less than a lease, and perhaps the other one holds a lease.
        offered: false,
        ..holder.clone()
    });
    let mut ground = (*newest).clone();
    ground.epoch = ground.epoch.next();
    ground.beat = documents.iter().map(|document| document.beat).max().unwrap_or(0) + 1;
    if let Some(most) = documents.iter().max_by_key(|document| document.acts) {
        (ground.acts, ground.last_act) = (most.acts, most.last_act.clone());
    }
    ground.gathering = None;
    ground.forgotten = documents.iter().filter_map(|document| document.forgotten).max();
    ground.checkpoint =
        documents.iter().filter_map(|document| document.checkpoint.clone()).max_by_key(|left| left.seq);
    if !info.operator_keys.is_empty() {
        ground.operator_keys = info.operator_keys.clone().into();
    }
    let rules = documents.iter().map(|document| &document.policy.operators);
    let mut rules = rules.fold(ground.policy.operators.clone(), |all, one| all.and(one));
    // A claim that was made up may ask for more than there are.
    rules.quorum = rules.quorum.min(u8::try_from(ground.operator_keys.len().max(1)).unwrap_or(u8::MAX));
    let policy = Arc::make_mut(&mut ground.policy);
    policy.operators = rules;
    ask_as_the_strictest(policy, &documents);
    ground.leader = None;
    ground.outgoing = outgoing;
    ground.approval = Approval::default();
    let paused = documents.iter().find(|document| document.state == State::Paused);
    ground.paused = paused.and_then(|document| document.paused.clone());
    ground.state = if paused.is_some() { State::Paused } else { State::Vacant };
    Some(ground)
}

/// What a person must approve, and whether a successor must acknowledge, as the strictest of the histories has it: one that was made up could leave it out.
///
/// Where one asks at checkpoints and another by time, time it is: a leader that writes no checkpoint is asked about too.
fn ask_as_the_strictest(policy: &mut Policy, documents: &[&Document]) {
    let asking = documents
        .iter()
        .map(|document| &document.policy)
        .filter(|policy| policy.approval != ApprovalMode::None);
    let modes: Vec<ApprovalMode> = asking.clone().map(|policy| policy.approval).collect();
    if modes.contains(&ApprovalMode::Time) {
        policy.approval = ApprovalMode::Time;
    } else if modes.contains(&ApprovalMode::Checkpoints) {
        policy.approval = ApprovalMode::Checkpoints;
    }
    if let Some(shortest) = asking.map(|policy| policy.approval_ttl).min() {
        policy.approval_ttl = shortest;
    }
    if documents.iter().any(|document| document.policy.handover == HandoverRule::Acknowledge) {
        policy.handover = HandoverRule::Acknowledge;
    }
}

#[cfg(test)]
mod tests {
    use baton_election::command::Acquire;
    use baton_election::id::StoreId;
    use baton_election::quorum::{ActKind, Quorum};
    use baton_election::{Epoch, WallTime};

    use super::*;

    fn act() -> Act {
        Act::Appoint { agent: "a".parse().unwrap(), lasts: None, force: false, reason: String::new() }
    }

    fn claim(document: Document) -> Claim {
        let record = Some(Box::new(Record::Election(Box::new(document.clone()))));
        Claim { epoch: document.epoch, leader: None, at: String::new(), record }
    }

    fn keys() -> [OperatorKey; 2] {
        [1, 2].map(|seed| OperatorKey::from_seed([seed; 32]))
    }

    fn info() -> StoreInfo {
        StoreInfo {
            operator_keys: keys().map(|key| key.public()).to_vec(),
            ..StoreInfo::new(StoreId([1; 8]), WallTime::default())
        }
    }

    /// One history with rules, and another, higher one, whose writer has left them out.
    fn histories(change: impl Fn(&mut Document)) -> [Claim; 2] {
        let keys = keys().map(|key| key.public());
        let plain = Document::new("e".parse().unwrap(), StoreId([1; 8]), Epoch(3), &keys);
        let mut ruled = plain.clone();
        change(&mut ruled);
        [claim(ruled), claim(Document { epoch: Epoch(9), ..plain })]
    }

    #[test]
    fn a_history_that_leaves_the_quorum_out_does_not_end_it() {
        let claims = histories(|document| Arc::make_mut(&mut document.policy).operators.quorum = 2);
        let ([one, two], info) = (keys(), info());
        let ground = common_ground(&claims, &info).unwrap();
        let decision = on_top(&ground, &one, (&act(), None), &info).unwrap();
        assert!(matches!(decision.answer, Answer::Signed { have: 1, need: 2, .. }), "{:?}", decision.answer);
        let waits = decision.next.unwrap();
        assert_eq!(
            (waits.state, waits.reserved_for.is_none()),
            (State::Paused, true),
            "nobody leads meanwhile"
        );
        let second = on_top(&waits, &two, (&act(), None), &info).unwrap();
        assert!(matches!(second.answer, Answer::Done { .. }), "{:?}", second.answer);
        let signed = second.next.unwrap();
        assert_eq!(
            (signed.reserved_for.is_some(), signed.state),
            (true, State::Paused),
            "until one resumes it"
        );
    }

    #[test]
    fn a_history_that_asks_for_more_does_not_let_one_act_alone() {
        // Made up: it asks for more operators, but for fewer acts, and lets everybody break the glass.
        let [ruled, forged] = histories(|document| Arc::make_mut(&mut document.policy).operators.quorum = 2);
        let Some(Record::Election(mut document)) = forged.record.map(|record| *record) else {
            panic!("{ruled:?}")
        };
        let made_up = Quorum { quorum: 16, acts: vec![ActKind::Appoint], break_glass: true };
        Arc::make_mut(&mut document.policy).operators = made_up;
        let (claims, info) = ([ruled, claim(*document)], info());
        let ground = common_ground(&claims, &info).unwrap();
        assert_eq!(ground.policy.operators, Quorum { quorum: 2, acts: vec![], break_glass: false });
        let alone = on_top(&ground, &keys()[0], (&act(), Some("in a hurry")), &info);
        assert!(matches!(alone, Err(Refusal::Invalid { .. })), "{alone:?}");
    }

    #[test]
    fn the_longest_lease_is_waited_for_also_beside_an_offer() {
        let [one, other] = histories(|_| ()).map(|claim| match claim.record.map(|record| *record) {
            Some(Record::Election(document)) => *document,
            other => panic!("{other:?}"),
        });
        let led = |document: &Document, agent: &str, ttl, offer| {
            let acquire = Acquire {
                ttl: Some(ttl),
                offer,
                ..Acquire::new(agent.parse().unwrap(), Incarnation([1; 8]), KeyHash([1; 32]))
            };
            let evidence = Evidence {
                election: &document.election,
                store: document.store,
                age: Span::ZERO,
                wall: WallTime::default(),
                floor: document.epoch,
                vanished_lease: Span::ZERO,
                operator_keys: &[],
            };
            decide(Some(document), &Command::Acquire(acquire), &evidence).unwrap().next.unwrap()
        };
        let claims =
            [led(&one, "a", Span::secs(30), false), led(&other, "b", Span::secs(60), true)].map(claim);
        let ground = common_ground(&claims, &info()).unwrap();
        assert!(ground.lease_remaining(Span::ZERO) >= Span::secs(30), "{ground:?}");
    }

    #[test]
    fn a_history_that_leaves_approval_and_acknowledgement_out_does_not_end_them() {
        let claims = histories(|document| {
            let policy = Arc::make_mut(&mut document.policy);
            policy.approval = ApprovalMode::Checkpoints;
            policy.approval_ttl = Span::secs(60);
            policy.handover = HandoverRule::Acknowledge;
        });
        let ground = common_ground(&claims, &info()).unwrap();
        let told = |policy: &Policy| (policy.approval, policy.approval_ttl, policy.handover);
        let strict = (ApprovalMode::Checkpoints, Span::secs(60), HandoverRule::Acknowledge);
        assert_eq!(told(&ground.policy), strict);
        // One that asks in another way, and seldom, does not let anybody go on for longer.
        let [ruled, other] = claims;
        let Some(Record::Election(mut other)) = other.record.map(|record| *record) else {
            panic!("{ruled:?}")
        };
        let policy = Arc::make_mut(&mut other.policy);
        (policy.approval, policy.approval_ttl) = (ApprovalMode::Time, Span::secs(360_000));
        let ground = common_ground(&[ruled, claim(*other)], &info()).unwrap();
        assert_eq!(told(&ground.policy), (ApprovalMode::Time, Span::secs(60), HandoverRule::Acknowledge));
    }

    #[test]
    fn a_history_that_leaves_the_pause_out_does_not_end_it() {
        let claims = histories(|document| {
            document.state = State::Paused;
            let pause = Pause {
                by: keys()[0].public(),
                reason: "fire".to_string(),
                at: WallTime::default(),
                halted: false,
            };
            document.paused = Some(pause);
        });
        let ground = common_ground(&claims, &info()).unwrap();
        let settled = on_top(&ground, &keys()[0], (&act(), None), &info()).unwrap();
        let settled = settled.next.unwrap();
        assert_eq!(settled.state, State::Paused);
        assert_eq!(settled.paused.unwrap().reason, "fire");
    }
}
