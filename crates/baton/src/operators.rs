//! Who the operators are: in every election that exists, and in the store, for those that begin later.
//!
//! An election changes its list only by an act that one of its operators signed. The store's list, from which new elections take
//! theirs, is changed here only for one whose key is on it; whoever can write the store by other means is not bound by that.

use std::collections::BTreeSet;

use baton_election::operator::{Act, MAX_OPERATORS, OperatorKey, PublicKey, SignedKeys};
use baton_election::{Answer, Document, ElectionName, Refusal, State, StoreInfo};
use baton_store::{Clock, Key, Record, boot};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::local::Step;
use crate::served::SERVERS;
use crate::there::insist;

/// How often an act is signed anew for an election whose leadership changes under it.
pub(crate) const MAX_ATTEMPTS: usize = 8;

/// How often it is looked for elections that have begun meanwhile.
const MAX_ROUNDS: usize = 8;

/// What became of an act on one of many elections.
enum Spreading {
    /// There was nothing to do.
    Not,
    Done,
    /// More operators must sign it. By that this operator withdrew from another act, of this name, if it had signed one.
    Waits(Option<&'static str>),
}

/// What became of a change of the operators in the elections that exist.
#[derive(Debug, Default)]
pub struct Spread {
    /// How many elections it changed.
    pub elections: usize,
    /// Those whose policy asks for more operators, and that wait for them.
    pub waiting: Vec<ElectionName>,
    /// Those of them where this operator stood behind another act, and does so no longer; with the name of that act.
    pub withdrawn: Vec<(ElectionName, &'static str)>,
    /// Those that could not be changed, and why. The same call again goes on with them.
    pub failed: Vec<(ElectionName, Error)>,
}

impl Coordinator {
    /// Makes this key an operator's on its own word, in the store and in every election that exists. Returns how many those are.
    ///
    /// Refused where there are operators already: then one of them must add it.
    pub async fn enrol(&self, key: &OperatorKey) -> Result<usize, Error> {
        let public = key.public();
        self.local.info(self.patience, true).await?;
        self.change_keys(key, |keys| {
            if keys.is_empty() {
                keys.push(public);
            }
            among(keys, public)
        })
        .await?;
        let spread = self.spread(key, &Act::Enrol { key: public }, None).await?;
        match spread.failed.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(self.elections().await?.len()),
        }
    }

    /// Carries out a signed change of the keys that new elections begin with.
    pub async fn set_operators(&self, order: &SignedKeys) -> Result<(), Error> {
        if let Some(decider) = self.store().decider() {
            return insist(self.patience, || decider.set_operators(order)).await;
        }
        self.change_store(|info| order.carry_out(info, boot::wall())).await
    }

    /// Changes what the store knows of itself, unless it is so already.
    pub(crate) async fn change_store(
        &self,
        carry_out: impl Fn(&StoreInfo) -> Result<StoreInfo, Refusal>,
    ) -> Result<(), Error> {
        self.local
            .change(&Key::Store, self.patience, |look| {
                let info = known(look.record)?;
                let next = carry_out(info)?;
                Ok(if next == *info {
                    Step::Done(())
                } else {
                    Step::Write(Record::Store(next), Clock::Keep, ())
                })
            })
            .await
    }

    /// Makes another key an operator's too, by the word of one.
    pub async fn add_operator(&self, by: &OperatorKey, key: PublicKey) -> Result<Spread, Error> {
        if !key.is_usable() {
            return Err(Refusal::invalid(
                format!("{key} is nobody's public key"),
                "copy what `baton operator key` prints on the other side",
            )
            .into());
        }
        self.info().await?;
        self.change_keys(by, |keys| {
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
        })
        .await?;
        self.spread(by, &Act::Enrol { key }, None).await
    }

    /// Makes a key an operator's no longer, by the word of one. An election that begins at this very moment may still have it:
    /// the same call again finds it.
    pub async fn remove_operator(&self, by: &OperatorKey, key: PublicKey) -> Result<Spread, Error> {
        let known = self.local.fresh_info(self.patience, false).await?.operator_keys.contains(&key);
        self.change_keys(by, |keys| {
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
        })
        .await?;
        let spread = self.spread(by, &Act::Dismiss { key }, None).await?;
        if !known && spread.elections == 0 && spread.failed.is_empty() {
            return Err(Refusal::invalid(
                format!("{key} is not an operator's key here"),
                "`baton operator list` shows those that are",
            )
            .into());
        }
        Ok(spread)
    }

    /// Changes the keys that new elections begin with, as often as somebody else changes them meanwhile.
    async fn change_keys(
        &self,
        by: &OperatorKey,
        change: impl Fn(&mut Vec<PublicKey>) -> Result<(), Refusal>,
    ) -> Result<(), Error> {
        for attempt in 1.. {
            let info = self.local.fresh_info(self.patience, false).await?;
            let mut after = info.operator_keys.clone();
            change(&mut after)?;
            if after == info.operator_keys {
                break;
            }
            match self.set_operators(&by.sign_keys(&info, after)).await {
                Err(Error::Refused(Refusal::Invalid { .. }))
                    if attempt < MAX_ATTEMPTS
                        && self.local.fresh_info(self.patience, false).await?.operator_keys
                            != info.operator_keys => {}
                outcome => {
                    outcome?;
                    break;
                }
            }
        }
        self.local.fresh_info(self.patience, true).await?;
        Ok(())
    }

    /// Carries an act out in every election that it changes. One that is broken does not keep it from the others. With a reason, it waits for no other
    /// operator where the policy lets one act alone.
    pub(crate) async fn spread(
        &self,
        by: &OperatorKey,
        act: &Act,
        break_glass: Option<&str>,
    ) -> Result<Spread, Error> {
        let mut spread = Spread::default();
        let mut met: BTreeSet<ElectionName> = BTreeSet::new();
        for _ in 0..MAX_ROUNDS {
            // Some may have begun meanwhile.
            let new: Vec<ElectionName> =
                self.elections().await?.into_iter().filter(|election| !met.contains(election)).collect();
            if new.is_empty() {
                break;
            }
            for election in new {
                match self.spread_to(&election, by, act, break_glass).await {
                    Ok(Spreading::Not) => {}
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
        &self,
        election: &ElectionName,
        by: &OperatorKey,
        act: &Act,
        break_glass: Option<&str>,
    ) -> Result<Spreading, Error> {
        let mut attempts = 0;
        loop {
            let Some(document) = self.view(election).await?.document else { return Ok(Spreading::Not) };
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
            match self.operate_urgently(election, by, act, alone).await {
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

/// What a store knows of itself.
pub(crate) fn known(record: Option<&Record>) -> Result<&StoreInfo, Refusal> {
    match record {
        Some(Record::Store(info)) => Ok(info),
        Some(_) | None => Err(Refusal::invalid("the store's own record is gone", "run baton init again")),
    }
}

/// Refuses one who is not among the operators.
fn among(keys: &[PublicKey], key: PublicKey) -> Result<(), Refusal> {
    if keys.contains(&key) {
        return Ok(());
    }
    Err(Refusal::WrongKey { why: format!("the key {key} is not an operator's in this store") })
}
