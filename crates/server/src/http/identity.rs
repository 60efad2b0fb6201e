//! The identity of the caller, by the proof that it shows or by the connection that it comes over, and
//! whether it may do what it asks for.
//!
//! Whether a proof is needed is decided when the server is started, never by what stands in the store: the
//! first token that is created locks nobody out, and the last one that is revoked lets nobody in. A caller
//! that shows a token is bound by it wherever it asks. A token is known by one SHA-256 and a look into a
//! table; nothing is asked of the store. Whatever the proof, it opens an entry of the store's list, and that
//! entry alone says what its bearer may do ([`proofs`](super::proofs)).
//!
//! A user of the Unix socket needs no token. It has the role of an agent, for all elections and as any agent. It may also hand in what an operator's
//! key has signed, since the signature is what counts there. Access tokens and sign-ins take an operator's token at the socket too.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use baton_api::endpoints::Right;
use baton_door::ClientCertificate;
use baton_election::operator::PublicKey;
use baton_election::tokens::{TokenEntry, TokenSecret, looks_like_jwt};
use baton_election::{AgentName, ContentHash, ElectionName, TokenId, Tokens};
use baton_store::boot;
use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderMap};
use tokio::sync::watch;

use super::peer::Peer;
use super::proofs::{self, OpeningProof};
use super::reply::Problem;
use crate::jwt::Jwt;

/// How often a token that will expire is looked at: wall clocks are set.
const LOOK: Duration = Duration::from_secs(10);

/// The caller of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) identity: Identity,
    pub(crate) peer: Peer,
    /// The browser by whose sign-in it is let in, if it is.
    pub(crate) sign_in: Option<PublicKey>,
    /// As which agent it acts, once it has said so and may.
    pub(crate) agent: OnceLock<AgentName>,
}

impl Caller {
    /// The token that it showed.
    pub(super) fn token(&self) -> Option<TokenId> {
        match &self.identity {
            Identity::Bearer(entry) => Some(entry.id),
            Identity::Anybody | Identity::User(_) | Identity::Onlooker => None,
        }
    }

    /// Refuses an agent as which it may not act, and notes the one as which it does.
    pub(super) fn acts_as(&self, agent: &AgentName) -> Result<(), Problem> {
        self.identity.check_agent(agent)?;
        let _ = self.agent.set(agent.clone());
        Ok(())
    }
}

/// What is known of the caller.
#[derive(Clone, Debug)]
pub(crate) enum Identity {
    /// A caller that showed no token, where none is needed.
    Anybody,
    /// The caller that opened this entry.
    Bearer(Bearer),
    /// The server's own user or root, over the Unix socket, without a token.
    User(u32),
    /// Somebody at a server that only observes.
    Onlooker,
}

/// An entry of the list, and what opened it.
#[derive(Clone, Debug)]
pub(crate) struct Bearer {
    pub(super) entry: Arc<TokenEntry>,
    pub(super) shown: OpeningProof,
}

impl Deref for Bearer {
    type Target = TokenEntry;
    fn deref(&self) -> &TokenEntry {
        &self.entry
    }
}

/// The tokens that are in force.
pub(crate) struct Register {
    known: watch::Sender<Arc<TokenEntries>>,
    needed: bool,
    /// Whose JWTs are taken.
    jwt: Option<Arc<Jwt>>,
    /// Nobody may do more than look, whatever it shows.
    looks_only: bool,
}

pub(super) type TokenEntries = HashMap<TokenId, Arc<TokenEntry>>;

impl Register {
    pub(crate) fn new(tokens: &Tokens, needed: bool, jwt: Option<Arc<Jwt>>) -> Register {
        Register { known: watch::Sender::new(Arc::new(table(tokens))), needed, jwt, looks_only: false }
    }

    /// For a server that only observes, at a loopback address: everybody may look, and nobody may do more.
    pub(crate) fn of_onlookers() -> Register {
        Register { known: watch::Sender::default(), needed: false, jwt: None, looks_only: true }
    }

    /// Takes in what the store has.
    pub(crate) fn set(&self, tokens: &Tokens) {
        let table = table(tokens);
        self.known.send_if_modified(|known| {
            let differs = **known != table;
            if differs {
                *known = Arc::new(table);
            }
            differs
        });
    }

    /// Whether nobody could get in.
    pub(crate) fn is_empty(&self) -> bool {
        self.known.borrow().is_empty()
    }

    /// The identity of the caller: by the headers of the request, else by the connection, or the certificate
    /// of the client. `charge` is asked before a signature is verified: strangers have so much of that and no
    /// more.
    pub(super) fn identify(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        client: Option<&Arc<ClientCertificate>>,
        charge: impl FnOnce() -> Result<(), Problem>,
    ) -> Result<Identity, Problem> {
        if self.looks_only {
            return Ok(Identity::Onlooker);
        }
        let Some(header) = headers.get(AUTHORIZATION) else {
            return match (peer, client) {
                (Peer::User { uid, .. }, _) => Ok(Identity::User(*uid)),
                (Peer::Address(_), Some(client)) => {
                    proofs::certified(&self.known.borrow(), client).map(Identity::Bearer)
                }
                (Peer::Address(_), None) if self.needed => Err(unauthorized("no token was shown")),
                (Peer::Address(_), None) => Ok(Identity::Anybody),
            };
        };
        let shown = header.to_str().ok().and_then(|text| text.split_once(' '));
        let Some((_, text)) = shown.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")) else {
            return Err(unauthorized("the header Authorization is not `Bearer TOKEN`"));
        };
        let text = text.trim();
        let hash = ContentHash::of(text.as_bytes());
        if looks_like_jwt(text) {
            let Some(jwt) = &self.jwt else { return Err(unauthorized("this server takes no JWT")) };
            let claims = proofs::claims(jwt, text, hash, charge)?;
            return proofs::claimed(&self.known.borrow(), jwt, claims).map(Identity::Bearer);
        }
        let entry = TokenId::shown_in(text).and_then(|id| self.known.borrow().get(&id).cloned());
        match entry.filter(|entry| entry.opens(&hash)) {
            Some(entry) if entry.is_expired(boot::wall()) => Err(unauthorized("the token has expired")),
            Some(entry) => Ok(Identity::Bearer(Bearer { entry, shown: OpeningProof::Secret })),
            None => Err(unauthorized(match TokenSecret::parse(text) {
                Ok(_) => "the token is not known here: it was revoked, or is another store's",
                Err(why) => why,
            })),
        }
    }

    /// Whether who was let in before is still.
    pub(super) fn knows(&self, identity: &Identity) -> bool {
        match identity {
            Identity::Anybody => !self.needed,
            Identity::User(_) => !self.looks_only,
            Identity::Onlooker => self.looks_only,
            Identity::Bearer(bearer) => {
                let known = self.known.borrow();
                known.get(&bearer.id).is_some_and(|known| *known == bearer.entry)
                    && !bearer.is_expired(boot::wall())
                    && bearer.shown.holds()
            }
        }
    }

    /// Waits until this identity is revoked or expires.
    pub(super) async fn ended(&self, identity: &Identity) {
        let Identity::Bearer(bearer) = identity else { return std::future::pending().await };
        let mut changes = self.known.subscribe();
        loop {
            changes.mark_unchanged();
            if !self.knows(identity) {
                return;
            }
            let left = bearer.expires.map(|expires| {
                let left = expires.as_unix_millis().saturating_sub(boot::wall().as_unix_millis());
                Duration::from_millis(left + 1).min(LOOK)
            });
            let left = left.or(bearer.shown.ends().then_some(LOOK));
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(left.unwrap_or_default()), if left.is_some() => {}
            }
        }
    }
}

fn table(tokens: &Tokens) -> TokenEntries {
    tokens.tokens.iter().map(|entry| (entry.id, Arc::new(entry.clone()))).collect()
}

/// Nobody who may ask at all.
pub(super) fn unauthorized(why: &str) -> Problem {
    Problem::unauthorized(
        why,
        "send Authorization: Bearer TOKEN (the command takes it from $BATON_HTTP_TOKEN); an operator makes one with `baton token create`",
    )
}

/// A browser takes no part: its cookie may be seen by whatever else listens at the same host.
pub(super) fn only_looks() -> Problem {
    let why = "a browser looks, and hands in what an operator's key has signed".to_string();
    forbidden(why, "take part with the command and a token")
}

fn forbidden(why: String, hint: impl Into<String>) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "forbidden", why, hint)
}

impl Identity {
    /// Refuses what its role does not do.
    pub(super) fn check(&self, right: Right) -> Result<(), Problem> {
        match self {
            Identity::Bearer(entry) if Right::of_role(entry.role) < right => Err(forbidden(
                format!("the token {} is of the role {}", entry.id, entry.role),
                format!("this takes the role {}", right.least_role()),
            )),
            Identity::User(uid) if right > Right::Operate => Err(forbidden(
                format!("the user {uid} is an agent at this socket, and showed no operator's token"),
                "this takes the role operator: show a token of that role ($BATON_HTTP_TOKEN)",
            )),
            Identity::Onlooker if right > Right::Read => Err(forbidden(
                "this server only observes".to_string(),
                "act in the store itself: baton --store …; or serve it: baton serve --take-over",
            )),
            Identity::Bearer(_) | Identity::Anybody | Identity::User(_) | Identity::Onlooker => Ok(()),
        }
    }

    /// Whether it speaks of this election.
    pub(super) fn sees(&self, election: &str) -> bool {
        match self {
            Identity::Bearer(entry) => entry.covers_election(election),
            Identity::Anybody | Identity::User(_) | Identity::Onlooker => true,
        }
    }

    /// Whether it speaks of all elections.
    pub(super) fn sees_all(&self) -> bool {
        match self {
            Identity::Bearer(entry) => entry.elections.is_empty(),
            Identity::Anybody | Identity::User(_) | Identity::Onlooker => true,
        }
    }

    /// Refuses an election that it does not speak of.
    pub(super) fn check_election(&self, election: &ElectionName) -> Result<(), Problem> {
        self.check_election_name(election.as_str())
    }

    /// The same of what may not even be a name.
    pub(super) fn check_election_name(&self, election: &str) -> Result<(), Problem> {
        match self {
            Identity::Bearer(entry) if !entry.covers_election(election) => Err(forbidden(
                format!("the token {} is not for this election", entry.id),
                "an operator makes one that is: baton token create --elections …",
            )),
            Identity::Bearer(_) | Identity::Anybody | Identity::User(_) | Identity::Onlooker => Ok(()),
        }
    }

    /// Whether it may see and touch this resource.
    pub(super) fn sees_resource(&self, resource: &str) -> bool {
        match self {
            Identity::Bearer(entry) => entry.covers_resource(resource),
            Identity::Anybody | Identity::User(_) | Identity::Onlooker => true,
        }
    }

    /// Refuses a resource that it may not touch, by its name alone: nobody learns from that which resources exist.
    pub(super) fn check_resource_name(&self, resource: &str) -> Result<(), Problem> {
        match self {
            Identity::Bearer(entry) if !entry.covers_resource(resource) => Err(forbidden(
                format!("the token {} is not for this resource", entry.id),
                "an operator makes one that is: baton token create --resources …",
            )),
            Identity::Bearer(_) | Identity::Anybody | Identity::User(_) | Identity::Onlooker => Ok(()),
        }
    }

    /// Refuses what concerns the whole store to a caller whose token is for some elections only.
    pub(super) fn check_store(&self) -> Result<(), Problem> {
        match self {
            Identity::Bearer(entry) if !entry.elections.is_empty() => Err(forbidden(
                format!("the token {} is for some elections only", entry.id),
                "this takes an operator's token without --elections",
            )),
            Identity::Bearer(_) | Identity::Anybody | Identity::User(_) | Identity::Onlooker => Ok(()),
        }
    }

    /// Refuses an agent as which it may not act.
    pub(super) fn check_agent(&self, agent: &AgentName) -> Result<(), Problem> {
        match self {
            Identity::Bearer(entry) if !entry.covers_agent(agent.as_str()) => Err(forbidden(
                format!("the token {} is not for the agent `{agent}`", entry.id),
                "an operator makes one that is: baton token create --agent …",
            )),
            Identity::Bearer(_) | Identity::Anybody | Identity::User(_) | Identity::Onlooker => Ok(()),
        }
    }

    /// The same where nobody may be named: who may act as some agents only must say as which.
    pub(super) fn check_some_agent(&self, agent: Option<&AgentName>) -> Result<(), Problem> {
        match (self, agent) {
            (_, Some(agent)) => self.check_agent(agent),
            (Identity::Bearer(entry), None) if !entry.agents.is_empty() => Err(forbidden(
                format!("the token {} is for some agents only, and none is known here", entry.id),
                "name the agent",
            )),
            (Identity::Bearer(_) | Identity::Anybody | Identity::User(_) | Identity::Onlooker, None) => {
                Ok(())
            }
        }
    }
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
