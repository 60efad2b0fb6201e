//! What an operator lets a browser do in its stead: sign acts with a key of its own, for a while, at one run of one server.
//!
//! Assumes that the secret half of the browser's key and the code of the sign-in go to that browser only. Guarantees that an act which a
//! browser signed is as good as its operator's, for this store, and that it is one of those that may be delegated: neither the rules nor
//! who the operators are. The same holds for the orders that pause and resume everything. Does not tell when a delegation ends: there is no clock here. The server that the delegation names counts that, and
//! takes acts of living sign-ins only; whoever can write the store by other means than a server is bound by none of it.

use alloc::boxed::Box;
use alloc::string::{String, ToString};

use serde::{Deserialize, Serialize};

use crate::hex;
use crate::id::{ContentHash, StoreId};
use crate::operator::{OperatorKey, PublicKey};
use crate::order::{Order, Signed};
use crate::refusal::Refusal;
use crate::store_info::StoreInfo;
use crate::time::{Span, as_millis};

/// The longest time that a browser may act for an operator.
pub const LONGEST: Span = Span::secs(8 * 60 * 60);

/// The longest address of a page, in bytes: a name has at most 253.
pub const MAX_ORIGIN_BYTES: usize = 300;

/// That a browser may act for an operator.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Delegation {
    /// The store.
    pub store: StoreId,
    /// The run of the server at which it counts.
    pub server: String,
    /// Where the page is that the browser opens, such as `https://host:7420`: at another address it counts as little as at another run.
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_ORIGIN_BYTES)))]
    pub origin: String,
    /// The public half of the browser's key.
    pub key: PublicKey,
    /// SHA-256 of the code that opens the sign-in, once.
    pub code: ContentHash,
    /// For how long. One that lasts no time ends those that the operator gave at this server before.
    #[serde(rename = "lasts_ms", with = "as_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub lasts: Span,
}

impl Delegation {
    /// The name, and the port if it is not the usual one, by which a browser asks for the page.
    pub fn host(&self) -> Option<&str> {
        let (scheme, host) = self.origin.split_once("://")?;
        let usual = match scheme {
            "http" => ":80",
            "https" => ":443",
            _ => return None,
        };
        let host = host.strip_suffix(usual).unwrap_or(host);
        (!host.is_empty() && !host.contains(['/', '@', '#', '?'])).then_some(host)
    }
}

impl Order for Delegation {
    const KIND: &'static str = "delegation";

    fn store(&self) -> StoreId {
        self.store
    }
}

/// The same, signed by the operator.
pub type SignedDelegation = Signed<Delegation>;

impl OperatorKey {
    /// Lets a browser act for this operator.
    pub fn delegate(&self, delegation: Delegation) -> SignedDelegation {
        self.sign_order(delegation)
    }

    /// Signs a text, as a browser does with a draft. In hexadecimal digits.
    pub fn sign_text(&self, text: &str) -> String {
        hex::encode(&self.sign_bytes(text.as_bytes()))
    }
}

impl SignedDelegation {
    /// Refuses what was not given by an operator of this store, for this run of the server, and for a time that is not too long.
    pub fn check(&self, info: &StoreInfo, server: &str) -> Result<(), Refusal> {
        self.check_store(info)?;
        self.check_operator(info)?;
        if self.order.server != server {
            return Err(Refusal::WrongKey {
                why: "the order was signed for another run of the server".to_string(),
            });
        }
        if self.order.origin.len() > MAX_ORIGIN_BYTES || self.order.host().is_none() {
            return Err(Refusal::invalid(
                "the order does not say at which address the page is",
                "sign in with `baton dashboard`",
            ));
        }
        if self.order.lasts > LONGEST {
            return Err(Refusal::invalid("a sign-in lasts eight hours at most", "ask for less: --lasts 8h"));
        }
        if !self.order.key.is_usable() || self.order.key == self.by {
            return Err(Refusal::invalid(
                "the key of a sign-in is a usable one, and not the operator's own",
                "sign in with `baton dashboard`",
            ));
        }
        self.check_signature()
    }
}

/// The key whose signature counts: that of the signer or, if an operator let a browser sign, the operator's.
pub(crate) fn operator(by: PublicKey, via: &Via) -> PublicKey {
    via.as_ref().map_or(by, |via| via.by)
}

/// A delegation as it stands beside a signature.
pub type Via = Option<Box<SignedDelegation>>;

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::document::Document;
    use crate::id::Epoch;
    use crate::name::ElectionName;
    use crate::operator::{Act, ActOrder, SignedAct};
    use crate::store_order::StoreChange;
    use crate::time::WallTime;

    fn key(seed: u8) -> OperatorKey {
        OperatorKey::from_seed([seed; 32])
    }

    fn delegation(browser: &OperatorKey) -> Delegation {
        Delegation {
            store: StoreId([1; 8]),
            server: "run".to_string(),
            origin: "http://127.0.0.1:7420".to_string(),
            key: browser.public(),
            code: ContentHash::of(b"code"),
            lasts: LONGEST,
        }
    }

    fn document(operator: &OperatorKey) -> Document {
        let name = ElectionName::new("e").unwrap();
        Document::new(name, StoreId([1; 8]), Epoch(3), &[operator.public()])
    }

    fn order(document: &Document, act: Act) -> ActOrder {
        ActOrder {
            store: document.store,
            election: document.election.clone(),
            epoch: document.epoch,
            number: document.acts + 1,
            act,
            break_glass: None,
        }
    }

    fn info(operator: &OperatorKey) -> StoreInfo {
        let created = WallTime::from_unix_millis(0);
        StoreInfo { operator_keys: vec![operator.public()], ..StoreInfo::new(StoreId([1; 8]), created) }
    }

    fn pause() -> Act {
        Act::Pause { reason: "r".to_string() }
    }

    /// What a browser sends: an order that it signed, with what allows it to.
    fn by_browser(browser: &OperatorKey, order: ActOrder, via: SignedDelegation) -> SignedAct {
        Signed { via: Some(Box::new(via)), ..browser.sign_order(order) }
    }

    #[test]
    fn a_browser_acts_for_its_operator_and_for_nobody_else() {
        let [operator, browser, other] = [1, 2, 3].map(key);
        let document = document(&operator);
        let via = operator.delegate(delegation(&browser));
        let signed = by_browser(&browser, order(&document, pause()), via.clone());
        assert_eq!((signed.verify(&document), signed.operator()), (Ok(()), operator.public()));
        let mut longer = via.clone();
        longer.order.lasts = Span::secs(1);
        let elsewhere = operator.delegate(Delegation { store: StoreId([2; 8]), ..delegation(&browser) });
        // A browser that lets another browser in.
        let second = Signed { via: Some(Box::new(via.clone())), ..browser.delegate(delegation(&other)) };
        let refused = [
            ("another browser with the same delegation", &other, via.clone()),
            ("no operator's delegation", &browser, other.delegate(delegation(&browser))),
            ("more than was signed", &browser, longer),
            ("for another store", &browser, elsewhere),
            ("passed on", &other, second),
        ];
        for (what, by, via) in refused {
            let signed = by_browser(by, order(&document, pause()), via);
            assert!(matches!(signed.verify(&document), Err(Refusal::WrongKey { .. })), "{what}");
        }
    }

    #[test]
    fn a_browser_changes_neither_rules_nor_operators() {
        let [operator, browser] = [1, 2].map(key);
        let document = document(&operator);
        let via = operator.delegate(delegation(&browser));
        for act in [
            Act::Enrol { key: browser.public() },
            Act::Dismiss { key: operator.public() },
            Act::SetPolicy { policy: crate::policy::Policy::default() },
        ] {
            let signed = by_browser(&browser, order(&document, act), via.clone());
            assert!(matches!(signed.verify(&document), Err(Refusal::WrongKey { .. })));
        }
        // Nor does it act alone where several must.
        let alone = ActOrder { break_glass: Some("now".to_string()), ..order(&document, pause()) };
        let signed = by_browser(&browser, alone, via.clone());
        assert!(matches!(signed.verify(&document), Err(Refusal::WrongKey { .. })));
        // Nor does it found anything where there is no operator.
        let nobodys = Document { operator_keys: alloc::sync::Arc::new(vec![]), ..document };
        let signed = by_browser(&browser, order(&nobodys, Act::Enrol { key: browser.public() }), via.clone());
        assert!(matches!(signed.verify(&nobodys), Err(Refusal::WrongKey { .. })));
    }

    #[test]
    fn a_browser_pauses_and_resumes_everything_and_changes_nothing_else_of_the_store() {
        let [operator, browser, other] = [1, 2, 3].map(key);
        let (info, at) = (info(&operator), WallTime::default());
        let via = operator.delegate(delegation(&browser));
        let by = |browser: &OperatorKey, change: StoreChange, glass: Option<String>| {
            let signed = browser.sign_store_urgently(&info, change, glass, at);
            Signed { via: Some(Box::new(via.clone())), ..signed }.carry_out(&info, at)
        };
        let pause = StoreChange::Pause { reason: "r".to_string() };
        let (paused, _) = by(&browser, pause.clone(), None).unwrap();
        assert_eq!(paused.paused.map(|pause| pause.by), Some(operator.public()), "it is the operator's");
        assert!(by(&browser, StoreChange::Resume, None).is_ok());
        assert!(by(&other, pause.clone(), None).is_err(), "another browser with the same delegation");
        assert!(by(&browser, pause, Some("now".to_string())).is_err(), "nor does it act alone");
        let rules = crate::store_quorum::StoreQuorum::default();
        for change in [
            StoreChange::Operators {
                after: vec![browser.public()],
                names: alloc::collections::BTreeMap::new(),
            },
            StoreChange::Operators {
                after: vec![operator.public(), browser.public()],
                names: alloc::collections::BTreeMap::new(),
            },
            StoreChange::Quorum { rules },
        ] {
            assert!(matches!(by(&browser, change, None), Err(Refusal::WrongKey { .. })));
        }
    }

    #[test]
    fn an_operator_counts_once_however_it_signs() {
        let [one, two, browser, another] = [1, 4, 2, 3].map(key);
        let mut document = document(&one);
        document.operator_keys = alloc::sync::Arc::new(vec![one.public(), two.public()]);
        let gathered = |document: &Document, signed: &SignedAct| {
            assert_eq!(signed.verify(document), Ok(()));
            match crate::quorum::gather(document, signed, 2) {
                crate::quorum::Gathered::Waits(next, have) => (next, have),
                crate::quorum::Gathered::Enough(with) => (None, with.len() + 1),
            }
        };
        let asked = || order(&document, pause());
        let (next, have) =
            gathered(&document, &by_browser(&browser, asked(), one.delegate(delegation(&browser))));
        assert_eq!(have, 1);
        let waiting = Document { gathering: next.map(alloc::sync::Arc::new), ..document.clone() };
        // The same operator with its own key, and at another browser.
        assert_eq!(gathered(&waiting, &one.sign_order(asked())), (None, 1));
        let again = by_browser(&another, asked(), one.delegate(delegation(&another)));
        assert_eq!(gathered(&waiting, &again), (None, 1));
        assert_eq!(gathered(&waiting, &two.sign_order(asked())), (None, 2), "another one is enough");
    }

    #[test]
    fn a_server_takes_what_an_operator_gave_for_it() {
        let [operator, browser] = [1, 2].map(key);
        let info = info(&operator);
        let given = |change: fn(&mut Delegation)| {
            let mut delegation = delegation(&browser);
            change(&mut delegation);
            operator.delegate(delegation).check(&info, "run")
        };
        assert_eq!(given(|_| ()), Ok(()));
        assert!(given(|delegation| delegation.store = StoreId([9; 8])).is_err());
        assert!(given(|delegation| delegation.server = "another".to_string()).is_err());
        assert!(given(|delegation| delegation.lasts = Span::secs(8 * 60 * 60 + 1)).is_err());
        assert!(browser.delegate(delegation(&key(5))).check(&info, "run").is_err(), "no operator");
        let mut forged = operator.delegate(delegation(&browser));
        forged.order.key = key(7).public();
        assert!(forged.check(&info, "run").is_err());
    }
}
