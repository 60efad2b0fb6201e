//! Acts that need several operators.
//!
//! Where the policy asks for it, an act takes effect only when so many different operators have signed the very same order: the same act,
//! for the same epoch and number. Their signatures gather in the document. Assumes that the operators' keys are in different hands.
//! Guarantees that fewer than the policy says change nothing, that one operator can neither lower the number nor add keys of its own, that an order is carried
//! out once, and that neither an agent that comes and goes nor an operator that may act alone voids what others have signed, unless it was about what is over: an
//! approval or a rejection ends with its epoch, or once its question is answered, an approval also when another question is asked; a deposition when another agent leads. Does not guarantee that signatures last: once the rules or the list of
//! operators have changed, all that was gathered is void.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::delegation::{Via, operator};
use crate::document::Document;
use crate::name::{AgentName, ElectionName};
use crate::operator::{Act, ActOrder, MAX_OPERATORS, OperatorKey, PublicKey, SignedAct};
use crate::refusal::Refusal;

/// The kinds of acts that can need several operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ActKind {
    /// An agent shall lead.
    Appoint,
    /// Whoever leads, stops.
    Depose,
    /// Whoever leads, stops, and nobody may lead.
    Pause,
    /// The pause is over.
    Resume,
    /// The leader may go on.
    Approve,
    /// The leader may not go on.
    Reject,
    /// The rules.
    SetPolicy,
    /// A key is an operator's too.
    Enrol,
    /// A key is no operator's any more.
    Dismiss,
    /// The election is retired, with its policy.
    Forget,
}

impl ActKind {
    /// All of them, with their names.
    pub const ALL: [(ActKind, &'static str); 10] = [
        (ActKind::Appoint, "appoint"),
        (ActKind::Depose, "depose"),
        (ActKind::Pause, "pause"),
        (ActKind::Resume, "resume"),
        (ActKind::Approve, "approve"),
        (ActKind::Reject, "reject"),
        (ActKind::SetPolicy, "set-policy"),
        (ActKind::Enrol, "enrol"),
        (ActKind::Dismiss, "dismiss"),
        (ActKind::Forget, "forget"),
    ];

    /// Whether it could undo the quorum itself: who sets the policy or the list of operators alone needs nobody.
    fn guards_the_quorum(self) -> bool {
        match self {
            ActKind::SetPolicy | ActKind::Enrol | ActKind::Dismiss | ActKind::Forget => true,
            ActKind::Appoint
            | ActKind::Depose
            | ActKind::Pause
            | ActKind::Resume
            | ActKind::Approve
            | ActKind::Reject => false,
        }
    }
}

impl fmt::Display for ActKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(ActKind::ALL.iter().find(|(kind, _)| kind == self).map_or("?", |(_, name)| name))
    }
}

impl FromStr for ActKind {
    type Err = String;
    fn from_str(text: &str) -> Result<ActKind, String> {
        ActKind::ALL.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind).ok_or_else(|| {
            let names = ActKind::ALL.map(|(_, name)| name);
            format!("`{text}` is not an act that can need several operators; use {}", names.join(", "))
        })
    }
}

/// How many operators it takes, and for what.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Quorum {
    /// How many operators must sign the same act.
    pub quorum: u8,
    /// Which acts; none named means all. Above one operator, setting the policy and changing the operators always need the quorum.
    pub acts: Vec<ActKind>,
    /// Whether one operator may act at once, with a reason that is kept.
    pub break_glass: bool,
}

impl Default for Quorum {
    fn default() -> Quorum {
        Quorum { quorum: 1, acts: Vec::new(), break_glass: false }
    }
}

impl Quorum {
    /// Whether it is as if nobody had said anything.
    pub(crate) fn is_usual(&self) -> bool {
        *self == Quorum::default()
    }

    /// Refuses what nobody could fulfil.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.quorum == 0
            || usize::from(self.quorum) > MAX_OPERATORS
            || self.acts.len() > ActKind::ALL.len()
        {
            return Err(Refusal::invalid(
                format!("a quorum is between 1 and {MAX_OPERATORS} operators"),
                "2 suits most teams: --quorum 2",
            ));
        }
        Ok(())
    }

    /// What fulfils both: as many operators as either asks for, for all acts for which either does; and one alone only where both let it.
    #[must_use]
    pub fn and(&self, other: &Quorum) -> Quorum {
        // A quorum of one operator asks for nothing.
        if other.quorum <= 1 {
            return self.clone();
        }
        if self.quorum <= 1 {
            return other.clone();
        }
        let named = |kind: &ActKind| self.acts.contains(kind) || other.acts.contains(kind);
        let acts = if self.acts.is_empty() || other.acts.is_empty() {
            Vec::new()
        } else {
            ActKind::ALL.iter().map(|(kind, _)| *kind).filter(named).collect()
        };
        let quorum = self.quorum.max(other.quorum);
        Quorum { quorum, acts, break_glass: self.break_glass && other.break_glass }
    }

    /// How many operators an act takes.
    pub fn needed(&self, act: &Act) -> usize {
        match act.kind() {
            None => 1,
            Some(kind) if self.acts.is_empty() || self.acts.contains(&kind) || kind.guards_the_quorum() => {
                usize::from(self.quorum)
            }
            Some(_) => 1,
        }
    }
}

/// One operator's signature under an order that stands elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Cosignature {
    /// Whose.
    pub by: PublicKey,
    /// The signature.
    #[serde(with = "crate::hex::as_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Signature"))]
    pub signature: [u8; 64],
    /// By what a browser signed in an operator's stead, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Via,
}

impl Cosignature {
    /// The operator whose it is.
    pub fn operator(&self) -> PublicKey {
        operator(self.by, &self.via)
    }
}

/// An order that some operators have signed, and more must sign.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gathering {
    /// What is ordered.
    pub order: ActOrder,
    /// Who signed it.
    pub signed: Vec<Cosignature>,
    /// The leader when the first operator signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<AgentName>,
}

impl Gathering {
    /// How many it takes, by the election's policy.
    pub fn needed(&self, document: &Document) -> usize {
        document.policy.operators.needed(&self.order.act)
    }

    /// Refuses an order that nobody should sign beside others, whatever the record says that it waits for that: one for another place, for what
    /// has not come to pass, or one that would count alone.
    pub fn check(&self, election: &ElectionName, document: &Document) -> Result<(), Refusal> {
        let ActOrder { store, election: of, epoch, number, act: _, break_glass } = &self.order;
        let wrong = |why: String| Err(Refusal::WrongKey { why });
        if *store != document.store || of != election || document.election != *election {
            return wrong(format!("what waits for signatures is an order for `{of}` in the store {store}"));
        }
        if *epoch > document.epoch || *number > document.acts.saturating_add(1) {
            return wrong(format!(
                "what waits for signatures is act {number} in epoch {epoch}, and the election is in epoch {} after {} acts",
                document.epoch, document.acts
            ));
        }
        if break_glass.is_some() {
            return wrong("what waits for signatures would need no other".to_string());
        }
        Ok(())
    }
}

impl OperatorKey {
    /// Signs the same as those who have signed it.
    pub fn cosign(&self, gathering: &Gathering) -> SignedAct {
        self.sign_order(gathering.order.clone())
    }
}

/// What comes of one more signature.
pub(crate) enum Gathered {
    /// It takes more. What is gathered then, and how many have signed this order; nothing new if it was there already.
    Waits(Option<Vec<Gathering>>, usize),
    /// It is enough; these signed it beside the last one.
    Enough(Vec<Cosignature>),
}

/// Adds a signature that was verified to what is gathered. An operator stands behind one order at a time.
pub(crate) fn gather(document: &Document, signed: &SignedAct, need: usize) -> Gathered {
    let known = document.gathering.as_ref().map_or(&[][..], |gathering| gathering.as_slice());
    let this = known.iter().find(|gathering| gathering.order == signed.order);
    let others = this.map_or(&[][..], |gathering| gathering.signed.as_slice());
    let by = signed.operator();
    if others.iter().any(|other| other.operator() == by) {
        return Gathered::Waits(None, others.len());
    }
    if others.len() + 1 >= need {
        return Gathered::Enough(others.to_vec());
    }
    let mut next: Vec<Gathering> = known.to_vec();
    for gathering in &mut next {
        gathering.signed.retain(|other| other.operator() != by);
    }
    next.retain(|gathering| !gathering.signed.is_empty());
    let own = Cosignature { by: signed.by, signature: signed.signature, via: signed.via.clone() };
    let have = others.len() + 1;
    match next.iter_mut().find(|gathering| gathering.order == signed.order) {
        Some(gathering) => gathering.signed.push(own),
        None => {
            let leader = document.leader.as_ref().map(|leader| leader.agent.clone());
            next.push(Gathering { order: signed.order.clone(), signed: Vec::from([own]), leader });
        }
    }
    Gathered::Waits(Some(next), have)
}

/// What is left of what was gathered once a new epoch has begun, before anybody is granted it.
pub(crate) fn in_a_new_epoch(gathering: Option<Arc<Vec<Gathering>>>) -> Option<Arc<Vec<Gathering>>> {
    retained(gathering, |gathering| !is_answer(&gathering.order.act))
}

/// What is left once the leader asks about another checkpoint: an approval was of the former one. A rejection stays, since an agent that
/// writes checkpoint after checkpoint could otherwise never be rejected.
pub(crate) fn under_another_question(gathering: Option<Arc<Vec<Gathering>>>) -> Option<Arc<Vec<Gathering>>> {
    retained(gathering, |gathering| !matches!(gathering.order.act, Act::Approve { .. }))
}

/// Whether it answers a question that a leadership asked.
fn is_answer(act: &Act) -> bool {
    match act {
        Act::Approve { .. } | Act::Reject { .. } => true,
        Act::Appoint { .. }
        | Act::Depose { .. }
        | Act::Pause { .. }
        | Act::Halt { .. }
        | Act::Resume
        | Act::SetPolicy { .. }
        | Act::Enrol { .. }
        | Act::Dismiss { .. }
        | Act::Note { .. }
        | Act::Vote { .. }
        | Act::Forget { .. } => false,
    }
}

/// What is left once this agent leads: who is to be deposed is whoever led when that was first signed, and nobody else. What is to be
/// forgotten is the work until then.
pub(crate) fn under(
    gathering: Option<Arc<Vec<Gathering>>>,
    agent: &AgentName,
) -> Option<Arc<Vec<Gathering>>> {
    retained(gathering, |gathering| match gathering.order.act {
        Act::Depose { .. } => gathering.leader.as_ref() == Some(agent),
        Act::Forget { .. } => false,
        Act::Appoint { .. }
        | Act::Pause { .. }
        | Act::Halt { .. }
        | Act::Resume
        | Act::Approve { .. }
        | Act::Reject { .. }
        | Act::SetPolicy { .. }
        | Act::Enrol { .. }
        | Act::Dismiss { .. }
        | Act::Note { .. }
        | Act::Vote { .. } => true,
    })
}

/// What is left once this was done. It was gathered under other rules, or by others, if it changed those; a question that this answered is no longer asked, and the
/// next one is another, also in the same epoch; and who signed this stands behind nothing else.
pub(crate) fn after(
    gathering: Option<Arc<Vec<Gathering>>>,
    done: &SignedAct,
    with: &[Cosignature],
) -> Option<Arc<Vec<Gathering>>> {
    let guards = done.order.act.kind().is_some_and(ActKind::guards_the_quorum);
    let answers = is_answer(&done.order.act);
    let mut left = retained(gathering, |gathering| {
        let answered = answers && is_answer(&gathering.order.act);
        !guards && !answered && gathering.order != done.order
    })?;
    if done.order.act.kind().is_some() {
        let signed = |one: &Cosignature| {
            one.operator() == done.operator() || with.iter().any(|with| with.operator() == one.operator())
        };
        for gathering in Arc::make_mut(&mut left) {
            gathering.signed.retain(|one| !signed(one));
        }
    }
    retained(Some(left), |gathering| !gathering.signed.is_empty())
}

fn retained(
    gathering: Option<Arc<Vec<Gathering>>>,
    stays: impl Fn(&Gathering) -> bool,
) -> Option<Arc<Vec<Gathering>>> {
    let mut left = gathering?;
    if !left.iter().all(&stays) {
        Arc::make_mut(&mut left).retain(stays);
    }
    (!left.is_empty()).then_some(left)
}

/// Refuses a policy that asks for more operators than there are.
pub(crate) fn check_enough(quorum: &Quorum, operators: usize) -> Result<(), Refusal> {
    if usize::from(quorum.quorum) > operators.max(1) {
        return Err(Refusal::invalid(
            format!("the policy asks for {} operators; enrolled: {operators}", quorum.quorum),
            "add operators first: baton operator add KEY",
        ));
    }
    Ok(())
}
