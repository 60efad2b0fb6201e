//! Who the operators are: in every election that exists, and in the store, for those that begin later.
//!
//! An election changes its list only by an act that one of its operators signed. The store's list, from which new elections take
//! theirs, is changed here only for one whose key is on it; whoever can write the store by other means is not bound by that.

use baton_election::operator::{Act, MAX_OPERATORS, OperatorKey, PublicKey, SignedKeys};
use baton_election::{ElectionName, Refusal, StoreInfo};
use baton_store::{Clock, Key, Record};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::local::Step;
use crate::there::insist;

/// How often an act is signed anew for an election whose leadership changes under it.
const MAX_ATTEMPTS: usize = 8;

/// What became of a change of the operators in the elections that exist.
#[derive(Debug, Default)]
pub struct Spread {
    /// How many elections it changed.
    pub elections: usize,
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
        let spread = self.spread(key, &Act::Enrol { key: public }).await?;
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
        self.local
            .change(&Key::Store, self.patience, |look| {
                let info = known(look.record)?;
                let next = order.carry_out(info)?;
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
        self.spread(by, &Act::Enrol { key }).await
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
        let spread = self.spread(by, &Act::Dismiss { key }).await?;
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

    /// Carries an act out in every election that it changes. One that is broken does not keep it from the others.
    async fn spread(&self, by: &OperatorKey, act: &Act) -> Result<Spread, Error> {
        let mut spread = Spread::default();
        for election in self.elections().await? {
            match self.spread_to(&election, by, act).await {
                Ok(changed) => spread.elections += usize::from(changed),
                Err(Error::Store(error)) if error.is_passing() => return Err(error.into()),
                Err(error) => spread.failed.push((election, error)),
            }
        }
        Ok(spread)
    }

    async fn spread_to(&self, election: &ElectionName, by: &OperatorKey, act: &Act) -> Result<bool, Error> {
        let mut attempts = 0;
        loop {
            let Some(document) = self.view(election).await?.document else { return Ok(false) };
            let done = match act {
                Act::Enrol { key } => document.operator_keys.contains(key),
                Act::Dismiss { key } => !document.operator_keys.contains(key),
                other => unreachable!("{} does not concern who the operators are", other.name()),
            };
            if done {
                return Ok(false);
            }
            attempts += 1;
            match self.operate(election, by, act).await {
                // The leadership changed after the act was signed, which is none of its business.
                Err(Error::Refused(Refusal::Stale { .. })) if attempts < MAX_ATTEMPTS => {}
                outcome => return outcome.map(|_| true),
            }
        }
    }
}

/// What a store knows of itself.
fn known(record: Option<&Record>) -> Result<&StoreInfo, Refusal> {
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
