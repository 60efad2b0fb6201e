//! The document as it is written: the five fields that a person looks for stand first.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::document::{
    Approval, Checkpoint, Departure, Document, FORMAT, Leader, Pause, Reservation, State, Transition,
};
use crate::id::{Epoch, StoreId, TokenId};
use crate::name::{AgentName, ElectionName};
use crate::operator::{LastAct, PublicKey};
use crate::policy::Policy;
use crate::quorum::Gathering;
use crate::select::Vote;
use crate::time::WallTime;

/// Reads a structure from an object only. As it comes from serde it could also be an array of its fields in their order, and
/// one whose fields have defaults could be any array.
pub fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Object<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_map(Object(PhantomData))
}

/// Reads a list of structures, each from an object only.
pub fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    struct One<T>(T);

    impl<'de, T: Deserialize<'de>> Deserialize<'de> for One<T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<One<T>, D::Error> {
            object(deserializer).map(One)
        }
    }

    let all = Vec::<One<T>>::deserialize(deserializer)?;
    Ok(all.into_iter().map(|One(one)| one).collect())
}

/// The written form, as it is read. `coordinator`, `acquired` and `expires` are for people and are not read back.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct WireDocument {
    #[serde(default)]
    #[expect(dead_code, reason = "it is for people, and described in the schema")]
    coordinator: Option<AgentName>,
    epoch: Epoch,
    #[serde(default)]
    #[expect(dead_code, reason = "it is for people, and described in the schema")]
    acquired: Option<WallTime>,
    #[serde(default)]
    #[expect(dead_code, reason = "it is for people, and described in the schema")]
    expires: Option<WallTime>,
    task: Option<Arc<str>>,
    format: u32,
    election: ElectionName,
    store: StoreId,
    state: State,
    beat: u64,
    leader: Option<Leader>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outgoing: Option<Leader>,
    policy: Arc<Policy>,
    reserved_for: Option<Reservation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    passed_over: Option<AgentName>,
    paused: Option<Pause>,
    #[serde(default)]
    approval: Approval,
    operator_keys: Arc<Vec<PublicKey>>,
    #[serde(default)]
    acts: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_act: Option<Arc<LastAct>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gathering: Option<Arc<Vec<Gathering>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    votes: Option<Arc<Vec<Vote>>>,
    checkpoint: Option<Arc<Checkpoint>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    departure: Option<Arc<Departure>>,
    last_transition: Option<Arc<Transition>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_by: Option<TokenId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forgotten: Option<Epoch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<Epoch>,
}

/// The same, as it is written: nothing is copied for it.
#[derive(Serialize)]
struct BorrowedDocument<'a> {
    coordinator: Option<&'a AgentName>,
    epoch: Epoch,
    acquired: Option<WallTime>,
    expires: Option<WallTime>,
    task: Option<&'a str>,
    format: u32,
    election: &'a ElectionName,
    store: StoreId,
    state: State,
    beat: u64,
    leader: Option<&'a Leader>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outgoing: Option<&'a Leader>,
    policy: &'a Policy,
    reserved_for: Option<&'a Reservation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    passed_over: Option<&'a AgentName>,
    paused: Option<&'a Pause>,
    approval: &'a Approval,
    operator_keys: &'a [PublicKey],
    acts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_act: Option<&'a LastAct>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gathering: Option<&'a [Gathering]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    votes: Option<&'a [Vote]>,
    checkpoint: Option<&'a Checkpoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    departure: Option<&'a Departure>,
    last_transition: Option<&'a Transition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_by: Option<TokenId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forgotten: Option<Epoch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<Epoch>,
}

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Document {
            election,
            store,
            epoch,
            task,
            state,
            beat,
            leader,
            outgoing,
            policy,
            reserved_for,
            passed_over,
            paused,
            approval,
            operator_keys,
            acts,
            last_act,
            gathering,
            votes,
            checkpoint,
            departure,
            last_transition,
            created_by,
            forgotten,
            server,
        } = self;
        let leader = leader.as_ref();
        let written = BorrowedDocument {
            coordinator: leader.map(|leader| &leader.agent),
            epoch: *epoch,
            acquired: leader.map(|leader| leader.acquired),
            expires: leader.map(|leader| leader.expires),
            task: task.as_deref(),
            format: FORMAT,
            election,
            store: *store,
            state: *state,
            beat: *beat,
            leader,
            outgoing: outgoing.as_ref(),
            policy,
            reserved_for: reserved_for.as_ref(),
            passed_over: passed_over.as_ref(),
            paused: paused.as_ref(),
            approval,
            operator_keys,
            acts: *acts,
            last_act: last_act.as_deref(),
            gathering: gathering.as_deref().map(Vec::as_slice),
            votes: votes.as_deref().map(Vec::as_slice),
            checkpoint: checkpoint.as_deref(),
            departure: departure.as_deref(),
            last_transition: last_transition.as_deref(),
            created_by: *created_by,
            forgotten: *forgotten,
            server: *server,
        };
        written.serialize(serializer)
    }
}

impl TryFrom<WireDocument> for Document {
    type Error = String;

    /// Refuses what no Baton has written: a newer format, or fields that contradict each other.
    fn try_from(wire: WireDocument) -> Result<Document, String> {
        if wire.format > FORMAT {
            return Err(format!(
                "it was written by a newer Baton (format {}; this one reads up to {FORMAT})",
                wire.format
            ));
        }
        let document = Document {
            election: wire.election,
            store: wire.store,
            epoch: wire.epoch,
            task: wire.task,
            state: wire.state,
            beat: wire.beat,
            leader: wire.leader,
            outgoing: wire.outgoing,
            policy: wire.policy,
            reserved_for: wire.reserved_for,
            passed_over: wire.passed_over,
            paused: wire.paused,
            approval: wire.approval,
            operator_keys: wire.operator_keys,
            acts: wire.acts,
            last_act: wire.last_act,
            gathering: wire.gathering,
            votes: wire.votes,
            checkpoint: wire.checkpoint,
            departure: wire.departure,
            last_transition: wire.last_transition,
            created_by: wire.created_by,
            forgotten: wire.forgotten,
            server: wire.server,
        };
        match document.contradiction() {
            None => Ok(document),
            Some(why) => Err(why),
        }
    }
}

impl Document {
    /// What in this document cannot be true at once, if anything.
    pub fn contradiction(&self) -> Option<String> {
        match (self.state, &self.leader) {
            (State::Held, None) => return Some("it is held by nobody".into()),
            (State::Vacant | State::Paused, Some(leader)) => {
                return Some(format!("it is {} yet names {} as its leader", self.state, leader.agent));
            }
            (State::Held | State::AwaitingApproval, Some(leader)) if leader.epoch != self.epoch => {
                return Some(format!(
                    "its leader has epoch {} and itself epoch {}",
                    leader.epoch, self.epoch
                ));
            }
            (State::Held | State::AwaitingApproval, Some(_))
            | (State::Vacant | State::Paused | State::AwaitingApproval, None) => {}
        }
        if self.leader.is_some() && self.outgoing.is_some() {
            return Some("it has two holders of a lease".into());
        }
        if self.outgoing.as_ref().is_some_and(|leader| leader.epoch >= self.epoch) {
            return Some("its outgoing leader's token is still current".into());
        }
        if self.last_transition.as_ref().is_some_and(|transition| transition.epoch > self.epoch) {
            return Some("its last transition is from a later epoch".into());
        }
        if self.forgotten.is_some_and(|forgotten| forgotten > self.epoch) {
            return Some("it was forgotten in a later epoch".into());
        }
        if self.is_retired() && (self.state != State::Vacant || self.lease_holder().is_some()) {
            return Some(format!("it is forgotten yet {}", self.state));
        }
        None
    }
}
