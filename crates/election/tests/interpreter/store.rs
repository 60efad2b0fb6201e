//! Orders on the store as a whole, as a scenario writes them: `order CHANGE by=NAME`. The store begins with the operators ada, ben and cy.

use std::collections::BTreeMap;

use baton_election::operator::{OperatorKey, PublicKey};
use baton_election::store_order::{SignedStoreOrder, StoreChange};
use baton_election::store_quorum::{OrderOutcome, StoreQuorum};
use baton_election::{StoreInfo, WallTime};

use super::words::Words;
use super::{World, print};
use crate::cast;

/// The operators, and somebody who is none at first.
const PEOPLE: [&str; 4] = ["ada", "ben", "cy", "dan"];

/// What the store knows of itself, and orders that were signed and not sent.
pub(crate) struct Store {
    info: StoreInfo,
    drafts: BTreeMap<String, SignedStoreOrder>,
}

impl Default for Store {
    fn default() -> Store {
        let operator_keys = PEOPLE[..3].iter().map(|name| cast::operator(name).public()).collect();
        let info = StoreInfo { operator_keys, ..StoreInfo::new(cast::STORE, WallTime::default()) };
        Store { info, drafts: BTreeMap::new() }
    }
}

impl World {
    /// `order CHANGE by=NAME`, `sign DRAFT CHANGE by=NAME`, `deliver DRAFT`.
    pub(super) fn order(&mut self, name: &str, words: &mut Words) -> String {
        match name {
            "order" => {
                let order = self.signed(words);
                self.deliver(&order)
            }
            "sign" => {
                let draft = words.next();
                let order = self.signed(words);
                let _ = self.store.drafts.insert(draft, order);
                String::new()
            }
            "deliver" => {
                let order = self.store.drafts[&words.next()].clone();
                self.deliver(&order)
            }
            other => panic!("no order: {other}"),
        }
    }

    fn signed(&mut self, words: &mut Words) -> SignedStoreOrder {
        let by: OperatorKey = cast::operator(&words.option("by").expect("by whom"));
        let change = match words.next().as_str() {
            "pause" => StoreChange::Pause { reason: words.option("reason").unwrap_or_else(|| "fire".into()) },
            "resume" => StoreChange::Resume,
            "operators" => {
                let after = words.list("after");
                StoreChange::Operators {
                    after: after.iter().map(|name| cast::operator(name).public()).collect(),
                    names: BTreeMap::new(),
                }
            }
            "quorum" => StoreChange::Quorum {
                rules: StoreQuorum {
                    quorum: words.next().parse().expect("a number"),
                    orders: words.list("for").iter().map(|name| name.parse().expect("a kind")).collect(),
                    break_glass: words.flag("break-glass"),
                },
            },
            other => panic!("no order: {other}"),
        };
        by.sign_store_urgently(&self.store.info, change, words.option("glass"), self.wall())
    }

    fn deliver(&mut self, order: &SignedStoreOrder) -> String {
        match order.carry_out(&self.store.info, self.wall()) {
            Err(refusal) => format!("{}\n", print::refusal(&refusal)),
            Ok((next, outcome)) => {
                let answer = match outcome {
                    OrderOutcome::Done => "done".to_string(),
                    OrderOutcome::Signed { have, need } => format!("signed {have} of {need}"),
                };
                if next == self.store.info {
                    return format!("{answer} (nothing written)\n");
                }
                self.store.info = next;
                format!("{answer}\n{}", self.store_shown())
            }
        }
    }

    fn store_shown(&self) -> String {
        let info = &self.store.info;
        let names = |keys: Vec<PublicKey>| keys.into_iter().map(name_of).collect::<Vec<_>>().join(" ");
        let paused = info.paused.as_ref().map(|pause| format!(", paused by {}", name_of(pause.by)));
        let mut shown = format!(
            "  order {}: operators {}, quorum {}{}\n",
            info.orders,
            names(info.operator_keys.clone()),
            info.quorum.quorum,
            paused.unwrap_or_default()
        );
        for waiting in &info.waiting {
            let by = names(waiting.signed.iter().map(|one| one.operator()).collect());
            let live = if waiting.is_live(info, self.wall()) { "" } else { ", void" };
            shown.push_str(&format!("  waits: {}, signed by {by}{live}\n", waiting.order.change.kind()));
        }
        shown
    }
}

fn name_of(key: PublicKey) -> String {
    let known = PEOPLE.iter().find(|name| cast::operator(name).public() == key);
    known.map_or_else(|| format!("{key:.8}"), |name| (*name).to_string())
}
