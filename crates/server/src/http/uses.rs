//! Who used the server when and from where: the access log, and the last use of each token.
//!
//! Of tokens as much is remembered as there are tokens; after a restart it begins anew. Requests that were refused are counted by token, and
//! all that showed none that is known as one.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use baton_api::endpoints::Row;
use baton_api::uses::TokenUse;
use baton_election::TokenId;
use baton_election::time::{Moment, Span};
use baton_election::tokens::{MAX_TOKENS, Role};
use baton_store::boot;
use http::StatusCode;
use http_body::Body as _;

use super::Service;
use super::identity::{Caller, Identity};
use super::peer::Peer;
use super::reply::Reply;
use crate::access::RequestLine;
use crate::metrics::{Counter, Recent};

/// What became known of a request on its way.
#[derive(Default)]
pub(super) struct RequestRecord {
    pub(super) row: Option<&'static Row>,
    pub(super) who: Option<Caller>,
    /// Of which election, as it stands in the path.
    pub(super) election: Option<String>,
    /// Why nobody was let in, for the log.
    pub(super) why: Option<String>,
}

/// When and from where each token was used, and how often it was refused.
#[derive(Default)]
pub(crate) struct Uses {
    by_token: Mutex<HashMap<TokenId, TokenUse>>,
    /// Refused requests without a token that is known.
    unknown: Counter,
    /// Those of the last while, if somebody wants to know.
    lately: Mutex<Option<RecentRefusals>>,
}

/// Refused requests of the last while, by token.
struct RecentRefusals {
    window: Span,
    refused: HashMap<Option<TokenId>, Recent>,
}

/// Whether an answer refuses who asked.
fn is_refusal(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS)
}

impl Uses {
    fn note(&self, identity: Option<&Identity>, peer: &Peer, status: StatusCode) {
        let refused = u64::from(is_refusal(status));
        if refused > 0 {
            self.note_refusal(identity);
        }
        let Some(Identity::Bearer(entry)) = identity else {
            self.unknown.add(refused);
            return;
        };
        let mut by_token = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        if by_token.len() >= 2 * MAX_TOKENS && !by_token.contains_key(&entry.id) {
            // Most of them were revoked. Those that are still used come again.
            by_token.clear();
        }
        let now = boot::wall();
        let first = TokenUse { last_used: now, last_address: peer.to_string(), refused: 0 };
        let used = by_token.entry(entry.id).or_insert(first);
        used.last_used = now;
        used.refused += refused;
        let address = peer.to_string();
        if used.last_address != address {
            used.last_address = address;
        }
    }

    fn lately(&self) -> MutexGuard<'_, Option<RecentRefusals>> {
        self.lately.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_refusal(&self, identity: Option<&Identity>) {
        let mut lately = self.lately();
        let Some(RecentRefusals { window, refused }) = &mut *lately else { return };
        let token = match identity {
            Some(Identity::Bearer(entry)) => Some(entry.id),
            Some(Identity::Anybody | Identity::User(_) | Identity::Onlooker) | None => None,
        };
        if refused.len() >= 2 * MAX_TOKENS && !refused.contains_key(&token) {
            refused.clear();
        }
        refused.entry(token).or_insert_with(|| Recent::over(*window)).add(boot::now(), 1);
    }

    /// Counts refusals over this time from here on.
    pub(crate) fn count_over(&self, window: Span) {
        *self.lately() = Some(RecentRefusals { window, refused: HashMap::new() });
    }

    /// How many requests with each token, and without one that is known, were refused lately.
    pub(crate) fn refused_lately(&self, now: Moment) -> Vec<(Option<TokenId>, u64)> {
        let mut lately = self.lately();
        let Some(RecentRefusals { refused, .. }) = &mut *lately else { return Vec::new() };
        refused.retain(|_, recent| recent.sum(now) > 0);
        refused.iter_mut().map(|(token, recent)| (*token, recent.sum(now))).collect()
    }

    /// What is known of each.
    pub(super) fn shown(&self) -> BTreeMap<TokenId, TokenUse> {
        let by_token = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        by_token.iter().map(|(id, used)| (*id, used.clone())).collect()
    }

    /// Tells how often each was refused, and how often those without a token that is known.
    pub(crate) fn each_refused(&self, mut tell: impl FnMut(&str, u64)) {
        for (id, used) in self.shown() {
            tell(&id.to_string(), used.refused);
        }
        tell("none", self.unknown.value());
    }
}

impl Service {
    /// Notes a request that was answered.
    pub(super) fn note_use(&self, asked: &RequestRecord, peer: &Peer, begun: Instant, reply: &Reply) {
        let identity = asked.who.as_ref().map(|who| &who.identity);
        self.uses.note(identity, peer, reply.status());
        let Some(log) = &self.access_log else { return };
        let (token, role) = match identity {
            Some(Identity::Bearer(entry)) => (Some(entry.id.to_string()), Some(role(entry.role))),
            Some(Identity::User(_)) => (None, Some(role(Role::Agent))),
            Some(Identity::Anybody | Identity::Onlooker) | None => (None, None),
        };
        log.note(&RequestLine {
            time: boot::wall(),
            address: peer.address(),
            uid: peer.uid(),
            token,
            role,
            route: asked.row.map(|row| row.name),
            election: asked.election.as_deref(),
            agent: asked.who.as_ref().and_then(|who| who.agent.get()).map(|agent| agent.as_str()),
            status: reply.status().as_u16(),
            why: asked.why.as_deref(),
            bytes: reply.body().size_hint().exact(),
            took_us: u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX),
        });
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Observer => "observer",
        Role::Agent => "agent",
        Role::Operator => "operator",
    }
}
