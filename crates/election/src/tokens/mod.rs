//! Access tokens: who may reach a server, as what, for which elections and as which agents.
//!
//! A token is a random secret that is shown once; kept are its id, its hash and what it allows. Tokens are created and revoked by
//! orders that an operator signs for their number, so that none is moved to another store or played again. Assumes that secrets are
//! random. Guarantees that what is kept opens nothing. Does not guarantee when a token expires better than the wall clock of who
//! judges it: expiry is a convenience, and revocation is the act that ends a token.

mod pattern;
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
use crate::refusal::Refusal;
use crate::store_info::StoreInfo;
use crate::time::WallTime;

pub use pattern::Pattern;
pub use secret::TokenSecret;

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
    /// SHA-256 of the token. None where it is shown to others: such an entry opens nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<ContentHash>,
    /// What its bearer is.
    pub role: Role,
    /// As which agents it may act; as any if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<Pattern>,
    /// Which elections it may see and take part in; all if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elections: Vec<Pattern>,
    /// Whose it is, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// When it was made, for people.
    pub created: WallTime,
    /// When it expires, by the wall clock of who judges it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<WallTime>,
    /// The operator who made it.
    pub by: PublicKey,
}

impl TokenEntry {
    /// Whether this is the token of that hash; takes the same time wherever they differ.
    pub fn opens(&self, hash: &ContentHash) -> bool {
        self.hash.is_some_and(|mine| mine.same(hash))
    }

    /// Whether its time is over.
    pub fn is_expired(&self, now: WallTime) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Whether it speaks of this election.
    pub fn covers_election(&self, election: &str) -> bool {
        self.elections.is_empty() || self.elections.iter().any(|pattern| pattern.covers(election))
    }

    /// Whether it may act as this agent.
    pub fn covers_agent(&self, agent: &str) -> bool {
        self.agents.is_empty() || self.agents.iter().any(|pattern| pattern.covers(agent))
    }

    fn text_bytes(&self) -> usize {
        let patterns = self.agents.iter().chain(&self.elections).map(|pattern| pattern.as_str().len());
        self.note.len() + patterns.sum::<usize>()
    }

    fn check(&self) -> Result<(), Refusal> {
        if self.hash.is_none() {
            return Err(Refusal::invalid("the token has no hash", "make it with `baton token create`"));
        }
        if self.agents.len() > MAX_PATTERNS || self.elections.len() > MAX_PATTERNS {
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
    /// How many orders were carried out; each is signed for its number.
    pub orders: u64,
    /// The hash of the last order's signature, to know it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<ContentHash>,
    /// Those that were created and not revoked.
    pub tokens: Vec<TokenEntry>,
    /// The last order, as the audit log will have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_order: Option<Arc<Entry>>,
}

impl Tokens {
    /// The same, to be shown: without hashes.
    #[must_use]
    pub fn shown(&self) -> Tokens {
        let tokens = self.tokens.iter().map(|entry| TokenEntry { hash: None, ..entry.clone() });
        Tokens { orders: self.orders, tokens: tokens.collect(), ..Tokens::default() }
    }
}

/// What an operator can do about tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "change")]
pub enum TokenChange {
    /// There shall be this one.
    Create {
        /// What is kept of it.
        #[serde(deserialize_with = "crate::wire::object")]
        token: TokenEntry,
    },
    /// It opens nothing any more.
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
}

impl Order for TokenOrder {
    const KIND: &'static str = "tokens";
}

/// The same, signed.
pub type SignedTokenOrder = Signed<TokenOrder>;

impl OperatorKey {
    /// Signs a change of a store's tokens as they are.
    pub fn sign_tokens(&self, store: StoreId, tokens: &Tokens, change: TokenChange) -> SignedTokenOrder {
        self.sign_order(TokenOrder { store, number: tokens.orders + 1, change })
    }
}

impl SignedTokenOrder {
    /// The tokens after it; the same if it was the last that was carried out.
    pub fn carry_out(&self, tokens: &Tokens, info: &StoreInfo, at: WallTime) -> Result<Tokens, Refusal> {
        let TokenOrder { store, number, change } = &self.order;
        self.check_store(*store, info)?;
        self.check_operator(info)?;
        self.check_signature()?;
        let signature = ContentHash::of(&self.signature);
        if *number == tokens.orders && tokens.last == Some(signature) {
            return Ok(tokens.clone());
        }
        if *number != tokens.orders + 1 {
            return Err(Refusal::invalid("the tokens changed since the order was signed", "try again"));
        }
        let previous = tokens.last_order.as_ref().map(|last| last.hash);
        // A restore leaves a gap between the numbers of orders; those of the log have none.
        let place = tokens.last_order.as_ref().map_or(*number, |last| last.number + 1);
        let ordered = Ordered::Tokens(Box::new(self.clone()));
        let entry = Entry::new(place, at, ordered, (None, None), Vec::new(), previous);
        let mut next = Tokens {
            orders: *number,
            last: Some(signature),
            tokens: tokens.tokens.clone(),
            last_order: Some(Arc::new(entry)),
        };
        match change {
            TokenChange::Create { token } => self.create(&mut next.tokens, token)?,
            TokenChange::Revoke { id } => {
                next.tokens.retain(|entry| entry.id != *id);
                if next.tokens.len() == tokens.tokens.len() {
                    return Err(Refusal::invalid(
                        format!("there is no token {id}"),
                        "`baton token list` shows those that there are",
                    ));
                }
            }
        }
        Ok(next)
    }

    fn create(&self, tokens: &mut Vec<TokenEntry>, token: &TokenEntry) -> Result<(), Refusal> {
        token.check()?;
        if token.by != self.by || tokens.iter().any(|entry| entry.id == token.id) {
            return Err(Refusal::invalid(
                format!("the token {} is there already, or of somebody else", token.id),
                "make another: baton token create",
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
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use super::*;

    fn info(keys: &[&OperatorKey]) -> StoreInfo {
        StoreInfo {
            operator_keys: keys.iter().map(|key| key.public()).collect(),
            ..StoreInfo::new(StoreId([1; 8]), WallTime::from_unix_millis(0))
        }
    }

    fn entry(number: u8, by: &OperatorKey) -> TokenEntry {
        let id = TokenId([number; 6]);
        TokenEntry {
            id,
            hash: Some(TokenSecret::new(id, [number; 32]).hash()),
            role: Role::Agent,
            agents: vec![],
            elections: vec![],
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
        let order = one.sign_tokens(info.id, &none, create(1, &one));
        let first = order.carry_out(&none, &info, WallTime::default()).unwrap();
        assert_eq!((first.orders, first.tokens.len()), (1, 1));
        assert_eq!(
            order.carry_out(&first, &info, WallTime::default()),
            Ok(first.clone()),
            "it may be repeated"
        );
        let foreign = stranger.sign_tokens(info.id, &none, create(1, &stranger));
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
        let revoke = one.sign_tokens(info.id, &first, TokenChange::Revoke { id: TokenId([1; 6]) });
        let second = revoke.carry_out(&first, &info, WallTime::default()).unwrap();
        assert!(second.tokens.is_empty());
        assert!(
            matches!(order.carry_out(&second, &info, WallTime::default()), Err(Refusal::Invalid { .. })),
            "it does not come again"
        );
        let nothing = one.sign_tokens(info.id, &second, TokenChange::Revoke { id: TokenId([1; 6]) });
        assert!(matches!(
            nothing.carry_out(&second, &info, WallTime::default()),
            Err(Refusal::Invalid { .. })
        ));
    }

    #[test]
    fn tokens_have_bounds() {
        let one = OperatorKey::from_seed([1; 32]);
        let (info, none) = (info(&[&one]), Tokens::default());
        let refused = |tokens: &Tokens, token: TokenEntry| {
            let order = one.sign_tokens(info.id, tokens, TokenChange::Create { token });
            matches!(order.carry_out(tokens, &info, WallTime::default()), Err(Refusal::Invalid { .. }))
        };
        assert!(refused(&none, TokenEntry { hash: None, ..entry(1, &one) }));
        assert!(refused(&none, TokenEntry { note: "x".repeat(201), ..entry(1, &one) }));
        assert!(refused(&none, TokenEntry { agents: vec!["a".parse().unwrap(); 17], ..entry(1, &one) }));
        let full = Tokens { tokens: vec![entry(1, &one); MAX_TOKENS], ..none.clone() };
        assert!(refused(&full, entry(2, &one)));
        let heavy = TokenEntry { note: "x".repeat(MAX_TEXT_BYTES), ..entry(1, &one) };
        let heavy = Tokens { tokens: vec![heavy], ..none.clone() };
        assert!(refused(&heavy, TokenEntry { note: "x".to_string(), ..entry(2, &one) }));
        assert!(refused(&Tokens { tokens: vec![entry(2, &one)], ..none.clone() }, entry(2, &one)), "twice");
        assert!(!refused(&none, entry(2, &one)));
    }

    #[test]
    fn what_is_shown_opens_nothing_and_an_order_survives_its_text() {
        let one = OperatorKey::from_seed([1; 32]);
        let kept = entry(1, &one);
        let hash = kept.hash.unwrap();
        assert!(kept.opens(&hash) && !kept.opens(&ContentHash([0; 32])));
        let tokens = Tokens { orders: 3, last: Some(hash), tokens: vec![kept.clone()], last_order: None };
        let shown = serde_json::to_string(&tokens.shown()).unwrap();
        assert!(!shown.contains(&hash.to_string()), "{shown}");
        assert!(!tokens.shown().tokens[0].opens(&hash));
        let order = one.sign_tokens(StoreId([1; 8]), &tokens, TokenChange::Create { token: kept });
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
        let any = entry(1, &one);
        assert!(
            any.covers_election("x")
                && any.covers_agent("y")
                && !any.is_expired(WallTime::from_unix_millis(u64::MAX))
        );
    }
}
