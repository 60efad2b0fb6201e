//! One request to etcd: bounded in time, answered by the first member that can, sent again only where that is harmless.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::auth::{Auth, Token};
use crate::fault::{Fault, Meaning};
use crate::members::{MemberHandle, Members};
use crate::open::Settings;
use crate::wire::etcdserverpb::kv_client::KvClient;
use crate::wire::etcdserverpb::lease_client::LeaseClient;
use crate::wire::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};

/// How long a request may take, with all of its attempts.
const LIMIT: Duration = Duration::from_secs(10);
/// How long one attempt may take, where there are other members.
const ATTEMPT: Duration = Duration::from_secs(3);
/// A caller that gave up after this long has found the member too slow.
const GIVEN_UP: Duration = Duration::from_millis(250);

/// Whether a request may be sent again without knowing what became of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It may: twice is as good as once.
    Repeatable,
    /// It may not.
    Once,
}

/// A way to all members.
#[derive(Clone)]
pub(crate) struct Client {
    members: Arc<Members>,
    auth: Option<Arc<Auth>>,
    /// Where this is, for people.
    pub(crate) location: String,
    limit: Duration,
}

/// A connection to one member, with the token of one request.
#[derive(Clone)]
pub(crate) struct Connection {
    /// The way to it.
    pub(crate) channel: Channel,
    token: Option<Token>,
}

impl Connection {
    /// A message as it is sent: with the token, and only for a member that has a leader.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let metadata = request.metadata_mut();
        metadata.insert("hasleader", tonic::metadata::MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            metadata.insert("token", token.clone());
        }
        request
    }
}

/// What to do after a failed attempt.
enum Remedy {
    Nothing,
    Again,
    NewToken,
}

impl Client {
    /// A way to the members that a store's name lists. Asks nothing of them.
    pub(crate) fn of(settings: &Settings) -> Result<Client, baton_store::StoreError> {
        let location = settings.location();
        let members = Members::of(settings, &location)?;
        let auth = settings.user.clone().map(|user| Arc::new(Auth::of(user)));
        Ok(Client { members: Arc::new(members), auth, location, limit: LIMIT })
    }

    /// The same with another bound on every request.
    pub(crate) fn limited_to(&self, limit: Duration) -> Client {
        Client { limit, ..self.clone() }
    }

    /// What is in a range, as the majority has it.
    pub(crate) async fn range(&self, request: &RangeRequest) -> Result<RangeResponse, Fault> {
        self.call(Effect::Repeatable, |connection| async move {
            KvClient::new(connection.channel.clone())
                .range(connection.request(request.clone()))
                .await
                .map(Response::into_inner)
        })
        .await
    }

    /// A transaction.
    pub(crate) async fn txn(&self, effect: Effect, request: &TxnRequest) -> Result<TxnResponse, Fault> {
        self.call(effect, |connection| async move {
            KvClient::new(connection.channel.clone())
                .txn(connection.request(request.clone()))
                .await
                .map(Response::into_inner)
        })
        .await
    }

    /// A lease of a known id; granting it twice fails, and harms nothing.
    pub(crate) async fn grant(&self, request: LeaseGrantRequest) -> Result<LeaseGrantResponse, Fault> {
        self.call(Effect::Repeatable, |connection| async move {
            LeaseClient::new(connection.channel.clone())
                .lease_grant(connection.request(request))
                .await
                .map(Response::into_inner)
        })
        .await
    }

    /// Keeps a lease alive, once.
    pub(crate) async fn keep_alive(&self, id: i64) -> Result<LeaseKeepAliveResponse, Fault> {
        self.call(Effect::Repeatable, |connection| async move {
            let request = connection.request(stream::iter([LeaseKeepAliveRequest { id }]));
            let mut answers =
                LeaseClient::new(connection.channel.clone()).lease_keep_alive(request).await?.into_inner();
            answers.message().await?.ok_or_else(|| Status::unavailable("the answer ended before it began"))
        })
        .await
    }

    /// Ends a lease, with all keys that are bound to it.
    pub(crate) async fn revoke(&self, id: i64) -> Result<(), Fault> {
        self.call(Effect::Repeatable, |connection| async move {
            let request = connection.request(LeaseRevokeRequest { id });
            LeaseClient::new(connection.channel.clone()).lease_revoke(request).await.map(|_| ())
        })
        .await
    }

    /// How long a lease lasts.
    pub(crate) async fn time_to_live(&self, id: i64) -> Result<LeaseTimeToLiveResponse, Fault> {
        self.call(Effect::Repeatable, |connection| async move {
            let request = connection.request(LeaseTimeToLiveRequest { id });
            LeaseClient::new(connection.channel.clone())
                .lease_time_to_live(request)
                .await
                .map(Response::into_inner)
        })
        .await
    }

    /// Asks one member after the other, each at most once more than there are members.
    pub(crate) async fn call<T, F>(&self, effect: Effect, ask: impl Fn(Connection) -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let until = Instant::now() + self.limit;
        let (mut tries, mut renewed) = (0, false);
        loop {
            let member = self.members.current();
            let mut token = None;
            let fault = match self.attempt(&member, until, &mut token, &ask).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            match self.remedy(effect, &member, &fault) {
                Remedy::NewToken if !renewed => {
                    renewed = true;
                    if let Some(auth) = &self.auth {
                        auth.forget(token.as_ref()).await;
                    }
                }
                Remedy::Again if tries < self.members.count() && Instant::now() < until => tries += 1,
                Remedy::Nothing | Remedy::NewToken | Remedy::Again => return Err(fault),
            }
        }
    }

    async fn attempt<T, F>(
        &self,
        member: &MemberHandle,
        until: Instant,
        token: &mut Option<Token>,
        ask: &impl Fn(Connection) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let left = until.saturating_duration_since(Instant::now());
        let patience = if self.members.count() > 1 { left.min(ATTEMPT) } else { left };
        let mut guard =
            AttemptGuard { members: &self.members, index: member.index, since: Instant::now(), done: false };
        let mut sent = false;
        let work = async {
            if let Some(auth) = &self.auth {
                *token = auth.token(member).await?;
            }
            sent = true;
            let connection = Connection { channel: member.channel.clone(), token: token.clone() };
            ask(connection).await.map_err(|status| Fault::said(&member.name, status))
        };
        let answered = tokio::time::timeout(patience, work).await;
        guard.done = true;
        match answered {
            Ok(answer) => answer,
            Err(_) if sent => Err(Fault::Silent { member: member.name.clone(), after: patience }),
            Err(_) => Err(Fault::NotSent {
                member: member.name.clone(),
                why: format!("it did not authenticate this user within {patience:.1?}"),
            }),
        }
    }

    /// Decides what to do, and leaves a member that fails.
    fn remedy(&self, effect: Effect, member: &MemberHandle, fault: &Fault) -> Remedy {
        match fault.meaning() {
            Meaning::Elsewhere => {
                self.members.leave(member.index);
                Remedy::Again
            }
            Meaning::TokenIsOld => Remedy::NewToken,
            Meaning::NoUser if self.auth.is_some() => Remedy::NewToken,
            Meaning::Unclear => {
                self.members.hang_up(member.index);
                match effect {
                    Effect::Repeatable => Remedy::Again,
                    Effect::Once => Remedy::Nothing,
                }
            }
            Meaning::NoUser
            | Meaning::LeaseIsGone
            | Meaning::LeaseIsThere
            | Meaning::Refused(_)
            | Meaning::Busy(_) => Remedy::Nothing,
        }
    }
}

/// An attempt under way. A caller that drops it after a while has waited in vain: its next request goes to another member.
struct AttemptGuard<'a> {
    members: &'a Members,
    index: usize,
    since: Instant,
    done: bool,
}

impl Drop for AttemptGuard<'_> {
    fn drop(&mut self) {
        if !self.done && self.members.count() > 1 && self.since.elapsed() >= GIVEN_UP {
            self.members.hang_up(self.index);
        }
    }
}
