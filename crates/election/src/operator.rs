//! Operators: people with authority over agents, known by their Ed25519 keys.
//!
//! Every act is signed over the store, the election, the epoch, the number of the act and its content, so that it
//! can neither be moved to another election nor played again.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::audit::{Entry, Ordered};
use crate::document::Document;
use crate::hex;
use crate::id::{ContentHash, Epoch, StoreId};
use crate::name::{AgentName, ElectionName};
use crate::order::{Order, Signed};
use crate::policy::Policy;
use crate::quorum::{ActKind, Cosignature, Gathering};
use crate::refusal::Refusal;
use crate::time::{Span, WallTime, as_optional_millis};

/// The most operators of one election.
pub const MAX_OPERATORS: usize = 16;

/// An operator's public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// Whether some secret key can belong to it, and a signature of that one proves something.
    pub fn is_usable(&self) -> bool {
        VerifyingKey::from_bytes(&self.0).is_ok_and(|key| !key.is_weak())
    }

    /// Whether it was the secret key of this one that signed.
    pub(crate) fn signed(&self, bytes: &[u8], signature: &[u8; 64]) -> bool {
        VerifyingKey::from_bytes(&self.0)
            .is_ok_and(|key| key.verify_strict(bytes, &Signature::from_bytes(signature)).is_ok())
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&hex::encode(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = String;
    fn from_str(text: &str) -> Result<PublicKey, String> {
        hex::decode(text)
            .map(PublicKey)
            .ok_or_else(|| "an operator's public key has 64 hexadecimal digits".to_string())
    }
}

impl TryFrom<String> for PublicKey {
    type Error = String;
    fn try_from(text: String) -> Result<PublicKey, String> {
        text.parse()
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> String {
        key.to_string()
    }
}

/// An operator's secret key. It is never shown.
pub struct OperatorKey(SigningKey);

impl fmt::Debug for OperatorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperatorKey(of {})", self.public())
    }
}

impl OperatorKey {
    /// The key of this seed; 32 random bytes make a new one.
    pub fn from_seed(seed: [u8; 32]) -> OperatorKey {
        OperatorKey(SigningKey::from_bytes(&seed))
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    /// Signs whatever it is.
    pub(crate) fn sign_bytes(&self, bytes: &[u8]) -> [u8; 64] {
        self.0.sign(bytes).to_bytes()
    }

    /// Signs an act for an election as it stands.
    pub fn sign(&self, document: &Document, act: Act) -> SignedAct {
        self.sign_urgently(document, act, None)
    }

    /// The same; with a reason, without waiting for the other operators that the policy asks for.
    pub fn sign_urgently(&self, document: &Document, act: Act, break_glass: Option<String>) -> SignedAct {
        self.sign_order(ActOrder::new(document, act, break_glass))
    }
}

/// What an operator can do.
#[expect(clippy::large_enum_variant, reason = "acts are made, signed and kept one at a time")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "act")]
pub enum Act {
    /// This agent shall lead; whoever else does, stops.
    Appoint {
        /// Who.
        agent: AgentName,
        /// How long the election is kept for it; without it, until it is taken.
        #[serde(rename = "lasts_ms", default, with = "as_optional_millis")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
        lasts: Option<Span>,
        /// Do not wait for the running lease. Safe only behind fences.
        force: bool,
        /// Why.
        reason: String,
    },
    /// Whoever leads, stops.
    Depose {
        /// Do not wait for the running lease. Safe only behind fences.
        force: bool,
        /// Why.
        reason: String,
    },
    /// Whoever leads, stops, and nobody may lead.
    Pause {
        /// Why.
        reason: String,
    },
    /// The same, since everything is paused: what ends that ends this.
    Halt {
        /// Why.
        reason: String,
        /// When everything was paused: it is of that pause, and of no other. One that does not say it is of none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<WallTime>,
    },
    /// The pause is over.
    Resume,
    /// The leader may go on.
    Approve {
        /// The checkpoint that was looked at, if one was asked about.
        checkpoint: Option<ContentHash>,
    },
    /// The leader may not go on.
    Reject {
        /// Why.
        reason: String,
    },
    /// These are the rules.
    SetPolicy {
        /// All of them.
        #[serde(deserialize_with = "crate::wire::object")]
        policy: Policy,
    },
    /// This key is an operator's too.
    Enrol {
        /// Its public half.
        key: PublicKey,
    },
    /// This key is no operator's any more.
    Dismiss {
        /// Its public half.
        key: PublicKey,
    },
    /// Something to be remembered. It changes nothing.
    Note {
        /// What.
        text: String,
    },
    /// This candidate should lead, where the policy lets operators vote. The last vote of each counts.
    Vote {
        /// Who.
        agent: AgentName,
    },
    /// The election is retired: its record keeps only the numbers that must never be given again.
    Forget {
        /// Why.
        reason: String,
    },
}

impl Act {
    /// The word for it.
    pub fn name(&self) -> &'static str {
        match self {
            Act::Appoint { .. } => "appoint",
            Act::Depose { .. } => "depose",
            Act::Pause { .. } => "pause",
            Act::Halt { .. } => "halt",
            Act::Resume => "resume",
            Act::Approve { .. } => "approve",
            Act::Reject { .. } => "reject",
            Act::SetPolicy { .. } => "set-policy",
            Act::Enrol { .. } => "enrol",
            Act::Dismiss { .. } => "dismiss",
            Act::Note { .. } => "note",
            Act::Vote { .. } => "vote",
            Act::Forget { .. } => "forget",
        }
    }

    /// Its kind, if a policy can ask for several operators to do it.
    pub fn kind(&self) -> Option<ActKind> {
        match self {
            Act::Appoint { .. } => Some(ActKind::Appoint),
            Act::Depose { .. } => Some(ActKind::Depose),
            Act::Pause { .. } | Act::Halt { .. } => Some(ActKind::Pause),
            Act::Resume => Some(ActKind::Resume),
            Act::Approve { .. } => Some(ActKind::Approve),
            Act::Reject { .. } => Some(ActKind::Reject),
            Act::SetPolicy { .. } => Some(ActKind::SetPolicy),
            Act::Enrol { .. } => Some(ActKind::Enrol),
            Act::Dismiss { .. } => Some(ActKind::Dismiss),
            Act::Forget { .. } => Some(ActKind::Forget),
            Act::Note { .. } | Act::Vote { .. } => None,
        }
    }
}

/// An act, bound to the state of the election that the operator saw.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActOrder {
    /// The store.
    pub store: StoreId,
    /// The election.
    pub election: ElectionName,
    /// The epoch that the operator saw.
    pub epoch: Epoch,
    /// The number of the act.
    pub number: u64,
    /// The act.
    pub act: Act,
    /// Why it does not wait for the other operators that the policy asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub break_glass: Option<String>,
}

impl ActOrder {
    /// The order of an act for an election as it stands; if others have signed one to the same effect that waits for more, that one.
    pub fn new(document: &Document, act: Act, break_glass: Option<String>) -> ActOrder {
        let mut waiting = document.gathering.iter().flat_map(|all| all.iter());
        let same = |one: &&Gathering| {
            one.order.act == act && break_glass.is_none() && one.check(&document.election, document).is_ok()
        };
        match waiting.find(same) {
            Some(gathering) => gathering.order.clone(),
            None => ActOrder {
                store: document.store,
                election: document.election.clone(),
                epoch: document.epoch,
                number: document.acts + 1,
                act,
                break_glass,
            },
        }
    }
}

impl Order for ActOrder {
    const KIND: &'static str = "order";

    fn store(&self) -> StoreId {
        self.store
    }

    /// Rules and operators outlast a sign-in, and to act alone where several must is nothing for a browser: they take the key itself.
    fn is_delegable(&self) -> bool {
        match &self.act {
            Act::Appoint { .. }
            | Act::Depose { .. }
            | Act::Pause { .. }
            | Act::Halt { .. }
            | Act::Resume
            | Act::Approve { .. }
            | Act::Reject { .. }
            | Act::Note { .. }
            | Act::Vote { .. } => self.break_glass.is_none(),
            // What forgets an election ends its rules too.
            Act::SetPolicy { .. } | Act::Enrol { .. } | Act::Dismiss { .. } | Act::Forget { .. } => false,
        }
    }
}

/// A signed act.
pub type SignedAct = Signed<ActOrder>;

impl SignedAct {
    /// What the document remembers of this act once it is done: all of it, so that the next act can put it into the log.
    pub(crate) fn remembered(
        &self,
        before: &Document,
        (ended, epoch): (Option<AgentName>, Epoch),
        with: Vec<Cosignature>,
        at: WallTime,
    ) -> LastAct {
        let previous = before.last_act.as_ref().and_then(|last| last.entry.as_ref()).map(|entry| entry.hash);
        let ordered = Ordered::Act(Box::new(self.clone()));
        let outcome = (ended.clone(), Some(epoch));
        LastAct {
            ended,
            number: before.acts + 1,
            act: self.order.act.name().to_string(),
            by: self.operator(),
            at,
            signature: ContentHash::of(&self.signature),
            entry: Some(Entry::new(before.acts + 1, at, ordered, outcome, with, previous)),
        }
    }

    /// Whether this very act is the last one that was done.
    pub(crate) fn is_repeated(&self, document: &Document) -> bool {
        let last = document.last_act.as_ref();
        last.is_some_and(|last| last.signature == ContentHash::of(&self.signature))
    }

    /// Whether it enrols its own signer where there is no operator yet. Here such an election accepts its first one on its own word, since
    /// whoever can write the store could add it anyway. A server, whose clients cannot write the store, refuses it first unless the signer
    /// is an operator of the store.
    pub fn founds(&self, document: &Document) -> bool {
        document.operator_keys.is_empty() && matches!(self.order.act, Act::Enrol { key } if key == self.by)
    }

    /// Refuses what is not signed, by an operator of this election, for this election as it stands.
    pub(crate) fn verify(&self, document: &Document) -> Result<(), Refusal> {
        let order = &self.order;
        if order.store != document.store || order.election != document.election {
            return Err(Refusal::WrongKey {
                why: format!(
                    "the order was signed for the election `{}` of store {}",
                    order.election, order.store
                ),
            });
        }
        let founds = self.founds(document);
        if document.operator_keys.is_empty() && !founds {
            return Err(Refusal::WrongKey { why: "no operator is enrolled in this election".to_string() });
        }
        let operator = self.operator();
        if !founds && !document.operator_keys.contains(&operator) {
            return Err(Refusal::WrongKey { why: format!("the key {operator} is not an operator's here") });
        }
        let is_gathered = document.gathering.iter().flat_map(|all| all.iter()).any(|one| one.order == *order);
        if !is_gathered && (order.epoch != document.epoch || order.number != document.acts + 1) {
            return Err(Refusal::Stale {
                shown: order.epoch,
                current: document.epoch,
                leader: document.leader.as_ref().map(|leader| leader.agent.clone()),
                why: "the election changed since the order was signed".to_string(),
            });
        }
        self.check_signature()
    }
}

/// The last act of an operator that was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LastAct {
    /// Its number.
    pub number: u64,
    /// Its name.
    pub act: String,
    /// Whose it was.
    pub by: PublicKey,
    /// When, for people.
    pub at: WallTime,
    /// Whose leadership it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<AgentName>,
    /// The hash of its signature, to know it again.
    pub signature: ContentHash,
    /// All of it, as the audit log will have it. None if an older Baton carried it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<Entry>,
}
