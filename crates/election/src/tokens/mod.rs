//! Access tokens: who may reach a server, as what, for which elections and as which agents.
//!
//! An entry of the list says what it allows, and which proof opens it: a secret, a name in a client certificate, or claims of a JWT.
//! A secret is random and shown once; kept is its hash. Entries are created and revoked by orders that an operator signs for their number, so that none is moved to another store or played again. Assumes that secrets are
//! random. Guarantees that what is kept opens nothing. Does not guarantee when a token expires better than
//! the wall clock of the process that checks it: expiry is a convenience, and revocation is the act that
//! ends a token.

mod pattern;
mod proof;
mod secret;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::audit::{Entry, Ordered};
use crate::id::{ContentHash, StoreId, TokenId};
use crate::operator::{OperatorKey, PublicKey};
use crate::order::{Order, Signed};
use crate::quorum::Cosignature;
use crate::refusal::Refusal;
use crate::store_info::StoreInfo;
use crate::store_quorum::{Gathers, OrderKind, OrderOutcome, PendingOrder, Weighed, weigh};
use crate::time::WallTime;

pub use pattern::Pattern;
pub use proof::{CertificateName, Closeness, MAX_CLAIMS, MAX_PROOF_BYTES, Proof, Subject, check_claim};
pub use secret::{MAX_JWT_BYTES, TokenSecret, looks_like_jwt};

/// The most tokens of one store.
pub const MAX_TOKENS: usize = 1_000;
/// The most patterns of one kind in one token.
pub const MAX_PATTERNS: usize = 16;
/// The longest note.
pub const MAX_NOTE_CHARS: usize = 200;
/// The most text in all tokens together: a record must fit into every store.
const MAX_TEXT_BYTES: usize = 256 * 1024;

/// What who bears a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Sees.
    Observer,
    /// Sees and takes part.
    Agent,
    /// Sees, takes part, and hands in what an operator's key has signed.
    Operator,
}

impl Role {
    /// All of them, with their names.
    pub const ALL: [(Role, &'static str); 3] =
        [(Role::Observer, "observer"), (Role::Agent, "agent"), (Role::Operator, "operator")];
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Role::ALL.iter().find(|(role, _)| role == self).map_or("?", |(_, name)| name))
    }
}

impl FromStr for Role {
    type Err = String;
    fn from_str(text: &str) -> Result<Role, String> {
        Role::ALL
            .iter()
            .find(|(_, name)| *name == text)
            .map(|(role, _)| *role)
            .ok_or_else(|| format!("`{text}` is not a role; use one of observer, agent, operator"))
    }
}

/// What is kept of a token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// By what it is known.
    pub id: TokenId,
    /// What opens it.
    #[serde(deserialize_with = "crate::wire::object")]
    pub proof: Proof,
    /// What its bearer is.
    pub role: Role,
    /// As which agents it may act; as any if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<Pattern>,
    /// Which elections it may see and take part in; all if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elections: Vec<Pattern>,
    /// Which resources it may see and touch; if there is none, those that the patterns of its elections cover.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Pattern>,
    /// Whose it is, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// When it was made, for people.
    pub created: WallTime,
    /// When it expires, by the wall clock of the server that checks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<WallTime>,
    /// The operator who made it.
    pub by: PublicKey,
}

impl TokenEntry {
    /// Whether this is the token of that hash; takes the same time wherever they differ.
    pub fn opens(&self, hash: &ContentHash) -> bool {
        matches!(&self.proof, Proof::Secret { hash: Some(mine) } if mine.same(hash))
    }

    /// Whether its time is over.
    pub fn is_expired(&self, now: WallTime) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Whether it speaks of this election.
    pub fn covers_election(&self, election: &str) -> bool {
        self.elections.is_empty() || self.elections.iter().any(|pattern| pattern.covers(election))
    }

    /// The patterns of the resources that it may see and touch; all if there is none.
    pub fn resource_patterns(&self) -> &[Pattern] {
        if self.resources.is_empty() { &self.elections } else { &self.resources }
    }

    /// Whether it may see and touch this resource.
    pub fn covers_resource(&self, resource: &str) -> bool {
        let patterns = self.resource_patterns();
        patterns.is_empty() || patterns.iter().any(|pattern| pattern.covers(resource))
    }

    /// Whether it may act as this agent.
    pub fn covers_agent(&self, agent: &str) -> bool {
        self.agents.is_empty() || self.agents.iter().any(|pattern| pattern.covers(agent))
    }

    fn text_bytes(&self) -> usize {
        let patterns = self.agents.iter().chain(&self.elections).chain(&self.resources);
        self.note.len()
            + self.proof.text_bytes()
            + patterns.map(|pattern| pattern.as_str().len()).sum::<usize>()
    }

    fn check(&self) -> Result<(), Refusal> {
        self.proof.check()?;
        if [&self.agents, &self.elections, &self.resources].iter().any(|kind| kind.len() > MAX_PATTERNS) {
            return Err(Refusal::invalid(
                format!("a token has at most {MAX_PATTERNS} patterns of a kind"),
                "use * for many names",
            ));
        }
        if self.note.chars().count() > MAX_NOTE_CHARS {
            return Err(Refusal::invalid(
                format!("the note is longer than {MAX_NOTE_CHARS} characters"),
                "shorten it",
            ));
        }
        Ok(())
    }
}

/// All tokens of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// The highest number that an order has used up, by being carried out or by beginning to wait for signatures. Each order is signed for its number.
    pub orders: u64,
    /// The hash of the last order's signature, to know it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<ContentHash>,
    /// Those that were created and not revoked.
    pub tokens: Vec<TokenEntry>,
    /// The orders that wait for more signatures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<PendingOrder<TokenOrder>>,
    /// The last order, as the audit log will have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_order: Option<Arc<Entry>>,
}

impl Tokens {
    /// The same, to be shown: without hashes, but for those of tokens that do not count yet. Whoever signs their orders needs those.
    #[must_use]
    pub fn shown(&self) -> Tokens {
        let tokens =
            self.tokens.iter().map(|entry| TokenEntry { proof: entry.proof.shown(), ..entry.clone() });
        let waiting = self.waiting.clone();
        Tokens { orders: self.orders, tokens: tokens.collect(), waiting, ..Tokens::default() }
    }
}

/// What an operator can do about tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "change")]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, on its way to the store")]
pub enum TokenChange {
    /// There shall be this one.
    Create {
        /// What is kept of it.
        #[serde(deserialize_with = "crate::wire::object")]
        token: TokenEntry,
    },
    /// The token is revoked.
    Revoke {
        /// Which.
        id: TokenId,
    },
}

/// A change of a store's tokens. It is signed for its number, so that it is not played again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TokenOrder {
    /// The store.
    pub store: StoreId,
    /// The number of the order.
    pub number: u64,
    /// What is ordered.
    pub change: TokenChange,
    /// Why it does not wait for the other operators that the store asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub break_glass: Option<String>,
}

impl Order for TokenOrder {
    const KIND: &'static str = "tokens";

    fn store(&self) -> StoreId {
        self.store
    }
}

impl Gathers for TokenOrder {
    fn kind(&self) -> OrderKind {
        match &self.change {
            TokenChange::Create { .. } => OrderKind::CreateToken,
            TokenChange::Revoke { .. } => OrderKind::RevokeToken,
        }
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn break_glass(&self) -> Option<&str> {
        self.break_glass.as_deref()
    }
}

/// The same, signed.
pub type SignedTokenOrder = Signed<TokenOrder>;

impl OperatorKey {
    /// Signs a change of a store's tokens as they are; if others have signed one to the same effect that waits for more, that one.
    pub fn sign_tokens(
        &self,
        info: &StoreInfo,
        tokens: &Tokens,
        change: TokenChange,
        at: WallTime,
    ) -> SignedTokenOrder {
        self.sign_tokens_urgently(info, tokens, change, None, at)
    }

    /// The same; with a reason, without waiting for the other operators that the store asks for.
    pub fn sign_tokens_urgently(
        &self,
        info: &StoreInfo,
        tokens: &Tokens,
        change: TokenChange,
        break_glass: Option<String>,
        at: WallTime,
    ) -> SignedTokenOrder {
        let next = info.number_after(tokens.orders);
        let mut waiting = tokens.waiting.iter().filter(|one| one.check(info, next, at).is_ok());
        let order = match waiting.find(|one| one.order.change == change && break_glass.is_none()) {
            Some(waiting) => waiting.order.clone(),
            None => TokenOrder { store: info.id, number: next, change, break_glass },
        };
        self.sign_order(order)
    }
}

impl SignedTokenOrder {
    /// The tokens after it, and whether it was carried out; the same if it was the last.
    pub fn carry_out(
        &self,
        tokens: &Tokens,
        info: &StoreInfo,
        at: WallTime,
    ) -> Result<(Tokens, OrderOutcome), Refusal> {
        self.check_store(info)?;
        self.check_operator(info)?;
        self.check_signature()?;
        if tokens.last.is_some() && tokens.last_order.as_ref().is_some_and(|last| last.is_repeated_by(self)) {
            return Ok((tokens.clone(), OrderOutcome::Done));
        }
        let next = info.number_after(tokens.orders);
        match weigh(self, &tokens.waiting, info, next, at)? {
            Weighed::Waits(waiting, outcome) => {
                // An order that could not be carried out gathers nothing.
                let first = waiting.iter().find(|one| one.order == self.order);
                let by = first.and_then(|one| one.signed.first()).map_or(self.by, Cosignature::operator);
                self.changed(tokens, by)?;
                let orders = tokens.orders.max(self.order.number);
                Ok((Tokens { waiting, orders, ..tokens.clone() }, outcome))
            }
            Weighed::Enough(with, waiting) => {
                let by = with.first().map_or(self.by, Cosignature::operator);
                let changed = self.changed(tokens, by)?;
                let previous = tokens.last_order.as_ref().map(|last| last.hash);
                // The entries of the log have no gaps, unlike the numbers of orders.
                let place = tokens.last_order.as_ref().map_or(1, |last| last.number + 1);
                let ordered = Ordered::Tokens(Box::new(self.clone()));
                let entry = Entry::new(place, at, ordered, (None, None), with, previous);
                let next = Tokens {
                    orders: next,
                    last: Some(ContentHash::of(&self.signature)),
                    tokens: changed,
                    waiting,
                    last_order: Some(Arc::new(entry)),
                };
                Ok((next, OrderOutcome::Done))
            }
        }
    }

    /// The tokens after what this operator has ordered.
    fn changed(&self, tokens: &Tokens, by: PublicKey) -> Result<Vec<TokenEntry>, Refusal> {
        let mut next = tokens.tokens.clone();
        match &self.order.change {
            TokenChange::Create { token } => create(&mut next, token, by)?,
            TokenChange::Revoke { id } => {
                next.retain(|entry| entry.id != *id);
                if next.len() == tokens.tokens.len() {
                    return Err(Refusal::invalid(
                        format!("there is no token {id}"),
                        "`baton token list` shows those that there are",
                    ));
                }
            }
        }
        Ok(next)
    }
}

fn create(tokens: &mut Vec<TokenEntry>, token: &TokenEntry, by: PublicKey) -> Result<(), Refusal> {
    token.check()?;
    if token.by != by || tokens.iter().any(|entry| entry.id == token.id) {
        return Err(Refusal::invalid(
            format!("the token {} is there already, or of somebody else", token.id),
            "make another: baton token create",
        ));
    }
    // Of two entries for one name nobody could say which one counts.
    let is_secret = matches!(token.proof, Proof::Secret { .. });
    if let Some(entry) = tokens.iter().find(|entry| !is_secret && entry.proof == token.proof) {
        return Err(Refusal::invalid(
            format!("the token {} is opened by the same {}", entry.id, entry.proof),
            format!("revoke that one first: baton token revoke {}", entry.id),
        ));
    }
    let text: usize = tokens.iter().chain([token]).map(TokenEntry::text_bytes).sum();
    if tokens.len() >= MAX_TOKENS || text > MAX_TEXT_BYTES {
        return Err(Refusal::invalid(
            format!("the store has {} tokens, and no room for another", tokens.len()),
            "revoke those that are not used: baton token list",
        ));
    }
    tokens.push(token.clone());
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use super::*;
    use crate::store_quorum::StoreQuorum;

    fn info(keys: &[&OperatorKey]) -> StoreInfo {
        StoreInfo {
            operator_keys: keys.iter().map(|key| key.public()).collect(),
            ..StoreInfo::new(StoreId([1; 8]), WallTime::from_unix_millis(0))
        }
    }

    /// The tokens after an order that does not wait.
    fn done(outcome: Result<(Tokens, OrderOutcome), Refusal>) -> Result<Tokens, Refusal> {
        outcome.map(|(tokens, outcome)| {
            assert_eq!(outcome, OrderOutcome::Done);
            tokens
        })
    }

    fn entry(number: u8, by: &OperatorKey) -> TokenEntry {
        let id = TokenId([number; 6]);
        TokenEntry {
            id,
            proof: Proof::Secret { hash: Some(TokenSecret::new(id, [number; 32]).hash()) },
            role: Role::Agent,
            agents: vec![],
            elections: vec![],
            resources: vec![],
            note: String::new(),
            created: WallTime::from_unix_millis(0),
            expires: None,
            by: by.public(),
        }
    }

    #[test]
    fn only_an_operator_creates_and_revokes_and_each_order_once() {
        let [one, stranger] = [1, 2].map(|seed| OperatorKey::from_seed([seed; 32]));
        let (info, none) = (info(&[&one]), Tokens::default());
        let create = |number, by: &OperatorKey| TokenChange::Create { token: entry(number, by) };
        let order = one.sign_tokens(&info, &none, create(1, &one), WallTime::default());
        let first = done(order.carry_out(&none, &info, WallTime::default())).unwrap();
        assert_eq!((first.orders, first.tokens.len()), (1, 1));
        assert_eq!(
            done(order.carry_out(&first, &info, WallTime::default())),
            Ok(first.clone()),
            "it may be repeated"
        );
        let foreign = stranger.sign_tokens(&info, &none, create(1, &stranger), WallTime::default());
        assert!(matches!(
            foreign.carry_out(&none, &info, WallTime::default()),
            Err(Refusal::WrongKey { .. })
        ));
        let mut forged = order.clone();
        forged.order.change = create(3, &one);
        assert!(matches!(forged.carry_out(&none, &info, WallTime::default()), Err(Refusal::WrongKey { .. })));
        let elsewhere = StoreInfo { id: StoreId([2; 8]), ..info.clone() };
        assert!(matches!(
            order.carry_out(&none, &elsewhere, WallTime::default()),
            Err(Refusal::WrongKey { .. })
        ));
        let revoke =
            one.sign_tokens(&info, &first, TokenChange::Revoke { id: TokenId([1; 6]) }, WallTime::default());
        let second = done(revoke.carry_out(&first, &info, WallTime::default())).unwrap();
        assert!(second.tokens.is_empty());
        assert!(
            matches!(order.carry_out(&second, &info, WallTime::default()), Err(Refusal::Invalid { .. })),
            "it does not come again"
        );
        let nothing =
            one.sign_tokens(&info, &second, TokenChange::Revoke { id: TokenId([1; 6]) }, WallTime::default());
        assert!(matches!(
            nothing.carry_out(&second, &info, WallTime::default()),
            Err(Refusal::Invalid { .. })
        ));
    }

    #[test]
    fn a_token_that_takes_two_opens_nothing_until_both_have_signed() {
        let [one, two, three] = [1, 2, 3].map(|seed| OperatorKey::from_seed([seed; 32]));
        let at = WallTime::default();
        let quorum = StoreQuorum { quorum: 2, ..StoreQuorum::default() };
        let info = StoreInfo { quorum: Box::new(quorum), ..info(&[&one, &two, &three]) };
        let change = TokenChange::Create { token: entry(1, &one) };
        let order = one.sign_tokens(&info, &Tokens::default(), change.clone(), at);
        let (waiting, outcome) = order.carry_out(&Tokens::default(), &info, at).unwrap();
        assert_eq!(outcome, OrderOutcome::Signed { have: 1, need: 2 });
        assert!(waiting.tokens.is_empty());
        assert_eq!(order.carry_out(&waiting, &info, at).unwrap(), (waiting.clone(), outcome), "counted once");
        let for_another = two.sign_tokens(&info, &waiting, TokenChange::Create { token: entry(2, &one) }, at);
        assert!(
            for_another.carry_out(&waiting, &info, at).is_err(),
            "an operator creates tokens in its own name only"
        );
        // Another order on tokens comes between, and the store's own orders go on.
        let mine = two.sign_tokens(&info, &waiting, TokenChange::Create { token: entry(3, &two) }, at);
        let (both, _) = mine.carry_out(&waiting, &info, at).unwrap();
        assert_eq!(both.waiting.len(), 2);
        let second = two.cosign_order(&both.waiting[0]);
        let created = done(second.carry_out(&both, &info, at)).unwrap();
        assert_eq!((created.tokens.len(), created.waiting.len()), (1, 1));
        assert_eq!(done(order.carry_out(&created, &info, at)), Ok(created.clone()), "a lost reply");
        // One is enough to revoke, and what was created once does not come again.
        let revoke = three.sign_tokens(&info, &created, TokenChange::Revoke { id: TokenId([1; 6]) }, at);
        let revoked = done(revoke.carry_out(&created, &info, at)).unwrap();
        assert!(revoked.tokens.is_empty());
        for again in [&order, &second] {
            assert!(matches!(again.carry_out(&revoked, &info, at), Err(Refusal::Invalid { .. })));
        }
        // What waits for a second signature is void once the operators have changed.
        let since = StoreInfo { rules: info.rules + 1, ..info.clone() };
        let late = one.cosign_order(&revoked.waiting[0]);
        assert!(matches!(late.carry_out(&revoked, &since, at), Err(Refusal::Invalid { .. })));
        assert!(done(late.carry_out(&revoked, &info, at)).is_ok());
    }

    #[test]
    fn a_token_order_that_became_void_does_not_begin_again() {
        let [one, two, three] = [1, 2, 3].map(|seed| OperatorKey::from_seed([seed; 32]));
        let at = WallTime::default();
        let quorum = StoreQuorum { quorum: 2, ..StoreQuorum::default() };
        let info = StoreInfo { quorum: Box::new(quorum), ..info(&[&one, &two, &three]) };
        let recorded =
            one.sign_tokens(&info, &Tokens::default(), TokenChange::Create { token: entry(1, &one) }, at);
        let (waiting, _) = recorded.carry_out(&Tokens::default(), &info, at).unwrap();
        // The rules change, by an order on the store: no order on tokens is carried out.
        let since = StoreInfo { rules: info.rules + 1, ..info };
        let other = two.sign_tokens(&since, &waiting, TokenChange::Create { token: entry(2, &two) }, at);
        let (without, _) = other.carry_out(&waiting, &since, at).unwrap();
        assert_eq!(without.waiting.len(), 1);
        for tokens in [&waiting, &without] {
            let again = recorded.carry_out(tokens, &since, at);
            assert!(matches!(again, Err(Refusal::Invalid { .. })), "{again:?}");
        }
        let restored = StoreInfo { floor: 1 << 32, ..since };
        let anew = one.sign_tokens(&restored, &without, TokenChange::Create { token: entry(1, &one) }, at);
        assert!(matches!(recorded.carry_out(&without, &restored, at), Err(Refusal::Invalid { .. })));
        assert!(anew.carry_out(&without, &restored, at).is_ok());
    }

    #[test]
    fn tokens_have_bounds() {
        let one = OperatorKey::from_seed([1; 32]);
        let (info, none) = (info(&[&one]), Tokens::default());
        let refused = |tokens: &Tokens, token: TokenEntry| {
            let order = one.sign_tokens(&info, tokens, TokenChange::Create { token }, WallTime::default());
            matches!(order.carry_out(tokens, &info, WallTime::default()), Err(Refusal::Invalid { .. }))
        };
        assert!(refused(&none, TokenEntry { proof: Proof::Secret { hash: None }, ..entry(1, &one) }));
        assert!(refused(&none, TokenEntry { note: "x".repeat(201), ..entry(1, &one) }));
        assert!(refused(&none, TokenEntry { agents: vec!["a".parse().unwrap(); 17], ..entry(1, &one) }));
        assert!(refused(&none, TokenEntry { resources: vec!["a".parse().unwrap(); 17], ..entry(1, &one) }));
        let full = Tokens { tokens: vec![entry(1, &one); MAX_TOKENS], ..none.clone() };
        assert!(refused(&full, entry(2, &one)));
        let heavy = TokenEntry { note: "x".repeat(MAX_TEXT_BYTES), ..entry(1, &one) };
        let heavy = Tokens { tokens: vec![heavy], ..none.clone() };
        assert!(refused(&heavy, TokenEntry { note: "x".to_string(), ..entry(2, &one) }));
        assert!(refused(&Tokens { tokens: vec![entry(2, &one)], ..none.clone() }, entry(2, &one)), "twice");
        assert!(!refused(&none, entry(2, &one)));
        let proof = Proof::Certificate { name: "spiffe://a/b".parse().unwrap() };
        let certified = |number| TokenEntry { proof: proof.clone(), ..entry(number, &one) };
        assert!(!refused(&none, certified(1)) && !certified(1).opens(&ContentHash([0; 32])));
        assert!(
            refused(&Tokens { tokens: vec![certified(1)], ..none.clone() }, certified(2)),
            "one name, twice"
        );
        let judged =
            Proof::Jwt { subject: "a".parse().unwrap(), claims: [("exp".into(), "1".into())].into() };
        assert!(refused(&none, TokenEntry { proof: judged, ..entry(1, &one) }));
    }

    #[test]
    fn what_is_shown_opens_nothing_and_an_order_survives_its_text() {
        let one = OperatorKey::from_seed([1; 32]);
        let kept = entry(1, &one);
        let hash = TokenSecret::new(kept.id, [1; 32]).hash();
        assert!(kept.opens(&hash) && !kept.opens(&ContentHash([0; 32])));
        let tokens = Tokens { orders: 3, last: Some(hash), tokens: vec![kept.clone()], ..Tokens::default() };
        let shown = serde_json::to_string(&tokens.shown()).unwrap();
        assert!(!shown.contains(&hash.to_string()), "{shown}");
        assert!(!tokens.shown().tokens[0].opens(&hash));
        let order = one.sign_tokens(
            &info(&[&one]),
            &tokens,
            TokenChange::Create { token: kept },
            WallTime::default(),
        );
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(serde_json::from_str::<SignedTokenOrder>(&text).unwrap(), order);
    }

    #[test]
    fn a_token_speaks_of_what_its_patterns_cover_until_it_expires() {
        let one = OperatorKey::from_seed([1; 32]);
        let token = TokenEntry {
            agents: vec!["ci-*".parse().unwrap()],
            elections: vec!["fleet/*".parse().unwrap(), "deploy".parse().unwrap()],
            expires: Some(WallTime::from_unix_millis(10)),
            ..entry(1, &one)
        };
        assert!(token.covers_election("deploy") && token.covers_election("fleet/eu"));
        assert!(!token.covers_election("other"));
        assert!(token.covers_agent("ci-7") && !token.covers_agent("alice"));
        assert!(!token.is_expired(WallTime::from_unix_millis(9)));
        assert!(token.is_expired(WallTime::from_unix_millis(10)));
        assert!(token.covers_resource("fleet/eu") && !token.covers_resource("db"), "as its elections are");
        let other = TokenEntry { resources: vec!["db/*".parse().unwrap()], ..token };
        assert!(other.covers_resource("db/orders") && !other.covers_resource("fleet/eu"));
        let any = entry(1, &one);
        assert!(any.covers_resource("db"));
        assert!(
            any.covers_election("x")
                && any.covers_agent("y")
                && !any.is_expired(WallTime::from_unix_millis(u64::MAX))
        );
    }
}
