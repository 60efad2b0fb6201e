//! Who the operators are: in every election that exists, and in the store, for those that begin later.
//!
//! An election changes its list only by an act that one of its operators signed. The store's list, from which new elections take
//! theirs, is changed here only for one whose key is on it; whoever can write the store by other means is not bound by that.

use std::collections::{BTreeMap, BTreeSet};

use baton_api::elections::{AskInfo, Decides};
use baton_api::served::SERVERS;
use baton_election::operator::{Act, MAX_OPERATORS, OperatorKey, PublicKey};
use baton_election::store_order::StoreChange;
use baton_election::store_quorum::OrderOutcome;
use baton_election::{Answer, Document, ElectionName, Refusal, State};
use baton_store::{Key, Prefix};

use crate::coordinator::Coordinator;
use crate::error::Error;

/// How often an act is signed anew for an election whose leadership changes under it.
pub(crate) const MAX_ATTEMPTS: usize = 8;

/// How often it is looked for elections that have begun meanwhile.
const MAX_ROUNDS: usize = 8;

/// What became of an act on one of many elections.
enum Spreading {
    /// There is no such election.
    Absent,
    /// There was nothing to do.
    Not,
    Done,
    /// More operators must sign it. By that this operator withdrew from another act, of this name, if it had signed one.
    Waits(Option<&'static str>),
}

/// What became of an order on everything: in the store, and in the elections that exist.
#[derive(Debug, Default)]
pub struct Spread {
    /// How many operators have signed the order on the store and how many it takes, if it waits for more. Then no election was changed.
    pub signed: Option<(u64, u64)>,
    /// How many elections it changed.
    pub elections: usize,
    /// How many elections there are.
    pub met: usize,
    /// Those whose policy asks for more operators, and that wait for them.
    pub waiting: Vec<ElectionName>,
    /// Those of them where this operator stood behind another act, and does so no longer; with the name of that act.
    pub withdrawn: Vec<(ElectionName, &'static str)>,
    /// Those that could not be changed, and why. The same call again goes on with them.
    pub failed: Vec<(ElectionName, Error)>,
}

impl Spread {
    /// That of an order that waits for more operators.
    pub(crate) fn waiting_for(outcome: OrderOutcome) -> Option<Spread> {
        match outcome {
            OrderOutcome::Done => None,
            OrderOutcome::Signed { have, need } => {
                Some(Spread { signed: Some((have, need)), ..Spread::default() })
            }
        }
    }

    /// Both together.
    pub(crate) fn and(mut self, other: Spread) -> Spread {
        self.elections += other.elections;
        self.waiting.extend(other.waiting);
        self.withdrawn.extend(other.withdrawn);
        self.failed.extend(other.failed);
        self
    }
}

/// The operators of a store and of its elections.
#[derive(Clone, Copy)]
pub struct Operators<'a>(pub(crate) &'a Coordinator);

impl Coordinator {
    /// The operators: who they are, and who may act for them in a browser.
    pub fn operators(&self) -> Operators<'_> {
        Operators(self)
    }
}

impl Operators<'_> {
    /// Makes this key an operator's on its own word, in the store and in every election that exists. Returns how many those are.
    ///
    /// Refused where there are operators already: then one of them must add it. A server refuses it too, unless it was started with this key.
    pub async fn enrol(self, key: &OperatorKey) -> Result<usize, Error> {
        self.enrol_by_code(key, None).await
    }

    /// The same, with the code that a server without an operator printed at its start. Stores do without one.
    pub async fn enrol_by_code(self, key: &OperatorKey, code: Option<&str>) -> Result<usize, Error> {
        Ok(self.enrol_named(key, code, None).await?.met)
    }

    /// The same, with what people call this operator. Another name for an operator is an order on the store: the first part of what is returned says
    /// whether it waits for more operators.
    pub async fn enrol_named(
        self,
        key: &OperatorKey,
        code: Option<&str>,
        name: Option<&str>,
    ) -> Result<Spread, Error> {
        let public = key.public();
        self.0.backend.info(self.0.patience, AskInfo { fresh: false, make: true }).await?;
        let founded = self.change_keys(key, (None, code), name.map(|name| (public, name)), |keys| {
            if keys.is_empty() {
                keys.push(public);
            }
            among(keys, public)
        });
        let signed = Spread::waiting_for(founded.await?).and_then(|waits| waits.signed);
        let mut spread = self.spread(key, &Act::Enrol { key: public }, None).await?;
        match spread.failed.pop() {
            Some((_, error)) => Err(error),
            None => Ok(Spread { signed, ..spread }),
        }
    }

    /// Whether this user could write the store's own record and every election that exists, as far as that can be tried without a
    /// change. For what must be done everywhere or nowhere.
    pub async fn check_writable(self) -> Result<(), Error> {
        let store = &self.0.backend;
        if self.0.decides() != Decides::Here {
            return Ok(());
        }
        store.writable(&Key::Store).await?;
        for key in store.list(&Prefix::Elections).await? {
            store.writable(&key).await?;
        }
        Ok(())
    }

    /// Makes another key an operator's too, by the word of as many operators as the store asks for.
    pub async fn add(self, by: &OperatorKey, key: PublicKey) -> Result<Spread, Error> {
        self.add_urgently(by, key, None, None).await
    }

    /// The same, with what people call it; with a reason to, without waiting for the other operators, wherever one may act alone. Another name for
    /// one who is an operator already is a change, too.
    pub async fn add_urgently(
        self,
        by: &OperatorKey,
        key: PublicKey,
        name: Option<&str>,
        break_glass: Option<&str>,
    ) -> Result<Spread, Error> {
        if !key.is_usable() {
            return Err(Refusal::invalid(
                format!("{key} is nobody's public key"),
                "copy what `baton operator key` prints on the other side",
            )
            .into());
        }
        self.0.info().await?;
        let named = name.map(|name| (key, name));
        let ordered = self.change_keys(by, (break_glass, None), named, |keys| {
            among(keys, by.public())?;
            if keys.contains(&key) {
                return Ok(());
            }
            if keys.len() >= MAX_OPERATORS {
                let why = format!("the store has {MAX_OPERATORS} operators, the most");
                return Err(Refusal::invalid(why, "remove one first"));
            }
            keys.push(key);
            Ok(())
        });
        match Spread::waiting_for(ordered.await?) {
            Some(signed) => Ok(signed),
            None => self.spread(by, &Act::Enrol { key }, break_glass).await,
        }
    }

    /// Makes a key an operator's no longer, by the same. An election that begins at this very moment may still have it:
    /// the same call again finds it.
    pub async fn remove(self, by: &OperatorKey, key: PublicKey) -> Result<Spread, Error> {
        self.remove_urgently(by, key, None).await
    }

    /// The same; with a reason to, without waiting for the other operators, wherever one may act alone.
    pub async fn remove_urgently(
        self,
        by: &OperatorKey,
        key: PublicKey,
        break_glass: Option<&str>,
    ) -> Result<Spread, Error> {
        let known = self.0.fresh_info(false).await?.operator_keys.contains(&key);
        let ordered = self.change_keys(by, (break_glass, None), None, |keys| {
            if !keys.contains(&key) {
                // Perhaps by a call that was broken off: elections may still have it.
                return Ok(());
            }
            among(keys, by.public())?;
            if keys.len() == 1 {
                return Err(Refusal::invalid(
                    "the last operator cannot be removed",
                    "add another first: baton operator add KEY",
                ));
            }
            keys.retain(|other| *other != key);
            Ok(())
        });
        if let Some(signed) = Spread::waiting_for(ordered.await?) {
            return Ok(signed);
        }
        let spread = self.spread(by, &Act::Dismiss { key }, break_glass).await?;
        if !known && spread.elections == 0 && spread.failed.is_empty() {
            return Err(Refusal::invalid(
                format!("{key} is not an operator's key here"),
                "`baton operator list` shows those that are",
            )
            .into());
        }
        Ok(spread)
    }

    /// Changes the keys that new elections begin with, unless they are so already.
    async fn change_keys(
        self,
        by: &OperatorKey,
        (break_glass, code): (Option<&str>, Option<&str>),
        named: Option<(PublicKey, &str)>,
        change: impl Fn(&mut Vec<PublicKey>) -> Result<(), Refusal>,
    ) -> Result<OrderOutcome, Error> {
        let ordered = self.0.orders().change(by, break_glass, code, |info| {
            let mut after = info.operator_keys.clone();
            if let Err(refusal) = change(&mut after) {
                return Some(Err(refusal));
            }
            let known = info.operator_names.iter().filter(|(key, _)| after.contains(key));
            let mut names: BTreeMap<PublicKey, String> =
                known.map(|(key, name)| (*key, name.clone())).collect();
            if let Some((key, name)) = named {
                names.insert(key, name.to_string());
            }
            let renamed = named
                .is_some_and(|(key, name)| info.operator_names.get(&key).is_none_or(|known| known != name));
            let changed = after != info.operator_keys || renamed;
            changed.then_some(Ok(StoreChange::Operators { after, names }))
        });
        let outcome = ordered.await?;
        self.0.fresh_info(true).await?;
        Ok(outcome)
    }

    /// Carries an act out in every election that it changes. One that is broken does not keep it from the others. With a reason, it waits for no other
    /// operator where the policy lets one act alone.
    pub(crate) async fn spread(
        self,
        by: &OperatorKey,
        act: &Act,
        break_glass: Option<&str>,
    ) -> Result<Spread, Error> {
        let mut spread = Spread::default();
        let mut met: BTreeSet<ElectionName> = BTreeSet::new();
        for _ in 0..MAX_ROUNDS {
            // Some may have begun meanwhile.
            let new: Vec<ElectionName> =
                self.0.elections().await?.into_iter().filter(|election| !met.contains(election)).collect();
            if new.is_empty() {
                break;
            }
            for election in new {
                let outcome = self.spread_to(&election, by, act, break_glass).await;
                spread.met += usize::from(!matches!(outcome, Ok(Spreading::Absent)));
                match outcome {
                    Ok(Spreading::Absent | Spreading::Not) => {}
                    Ok(Spreading::Done) => spread.elections += 1,
                    Ok(Spreading::Waits(withdrawn)) => {
                        spread.waiting.push(election.clone());
                        spread.withdrawn.extend(withdrawn.map(|act| (election.clone(), act)));
                    }
                    Err(Error::Store(error)) if error.is_passing() => return Err(error.into()),
                    Err(error) => spread.failed.push((election.clone(), error)),
                }
                met.insert(election);
            }
        }
        Ok(spread)
    }

    async fn spread_to(
        self,
        election: &ElectionName,
        by: &OperatorKey,
        act: &Act,
        break_glass: Option<&str>,
    ) -> Result<Spreading, Error> {
        let mut attempts = 0;
        loop {
            let Some(document) = self.0.view(election).await?.document else { return Ok(Spreading::Absent) };
            let servers = election.as_str() == SERVERS;
            let done = match act {
                Act::Enrol { key } => document.operator_keys.contains(key),
                Act::Dismiss { key } => !document.operator_keys.contains(key),
                // Without the servers nobody could end the pause.
                Act::Halt { .. } => document.state == State::Paused || servers,
                Act::Resume => !document.paused.as_ref().is_some_and(|pause| pause.halted),
                other => unreachable!("{} does not concern all elections", other.name()),
            };
            if done {
                return Ok(Spreading::Not);
            }
            attempts += 1;
            let rules = &document.policy.operators;
            let alone = break_glass.filter(|_| rules.break_glass && rules.needed(act) > 1);
            match self.0.operate_urgently(election, by, act, alone).await {
                // The leadership changed after the act was signed, which is none of its business.
                Err(Error::Refused(Refusal::Stale { .. })) if attempts < MAX_ATTEMPTS => {}
                Ok(Answer::Signed { .. }) => {
                    return Ok(Spreading::Waits(signed_before(&document, by.public(), act)));
                }
                outcome => return outcome.map(|_| Spreading::Done),
            }
        }
    }
}

/// The name of another act that this operator has signed and that waits for others.
fn signed_before(document: &Document, by: PublicKey, act: &Act) -> Option<&'static str> {
    let waits = document.gathering.iter().flat_map(|all| all.iter());
    let mut own = waits.filter(|gathering| gathering.signed.iter().any(|one| one.operator() == by));
    own.find(|gathering| gathering.order.act != *act).map(|gathering| gathering.order.act.name())
}

/// Refuses one who is not among the operators.
fn among(keys: &[PublicKey], key: PublicKey) -> Result<(), Refusal> {
    if keys.contains(&key) {
        return Ok(());
    }
    Err(Refusal::WrongKey { why: format!("the key {key} is not an operator's in this store") })
}
