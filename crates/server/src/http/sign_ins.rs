//! Signing in at the page, and the drafts of what a browser signs.

use std::sync::Arc;

use baton_api::endpoints::Endpoint;
use baton_api::server::EmptyResponse;
use baton_api::sign_ins::{
    CloseSignInRequest, CloseSignInResponse, DraftActRequest, DraftResponse, DraftStoreOrderRequest,
    OpenSignInRequest, PageStatus, SignInView, WaitingOrder,
};
use baton_election::delegation::SignedDelegation;
use baton_election::operator::ActOrder;
use baton_election::order::Signed;
use baton_election::store_order::StoreOrder;
use baton_election::{ContentHash, Refusal, hex};
use baton_store::boot;
use http::StatusCode;
use http::header::{COOKIE, HeaderMap, HeaderValue, SET_COOKIE};
use serde::Serialize;

use super::Service;
use super::calls::Call;
use super::identity::Identity;
use super::limits::ThrottleKey;
use super::reply::{Problem, Reply, json as answer};
use super::{feed, page};
use crate::sign_ins::{NotSignedIn, SignIn};

impl Service {
    /// What the page asks for: it and what it shows, signing in, and drafts.
    pub(super) async fn for_the_page(
        self: &Arc<Self>,
        endpoint: Endpoint,
        call: Call<'_>,
    ) -> Result<Reply, Problem> {
        match endpoint {
            Endpoint::Overview => self.overview(&call).await,
            Endpoint::Events => feed::stream(self, &call),
            Endpoint::Me => self.me(&call),
            Endpoint::BeginSignIn => self.begin_sign_in(&call).await,
            Endpoint::OpenSignIn => self.open_sign_in(&call).await,
            Endpoint::CloseSignIn => self.close_sign_in(&call).await,
            Endpoint::Draft => self.draft(&call).await,
            Endpoint::DraftStore => self.draft_of_store(&call).await,
            Endpoint::Page => page::file("index.html", &HeaderMap::new()),
            Endpoint::PageFile => page::file(call.name(0), &HeaderMap::new()),
            other => unreachable!("{other:?} is none of the page's"),
        }
    }

    /// What the cookie of this store is called: those of several servers of one machine lie in one jar.
    fn cookie_name(&self) -> String {
        format!("baton-{}", self.engine.info().id)
    }

    /// The living sign-in that a browser shows by its cookie.
    pub(super) fn signed_in(&self, headers: &HeaderMap) -> Option<Arc<SignIn<Identity>>> {
        let name = self.cookie_name();
        let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut pairs =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.split_once('='));
        let (_, secret) = pairs.find(|(shown, _)| shown.trim() == name)?;
        self.sign_ins.by_secret(&ContentHash::of(secret.trim().as_bytes()), boot::now())
    }

    pub(super) fn me(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let sign_in = call.who.sign_in.and_then(|key| self.sign_ins.alive(&key, boot::now()));
        let (info, at) = (self.engine.info(), boot::wall());
        let live = info.waiting.iter().filter(|one| one.is_live(&info, at) && call.who.identity.sees_all());
        let waiting = live.map(|one| WaitingOrder {
            what: one.order.change.kind(),
            have: one.signed.len(),
            need: one.needed(&info),
        });
        answer(&PageStatus {
            store: info.id,
            server: self.run().to_string(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            paused: info.paused.as_deref().cloned(),
            waiting: waiting.collect(),
            operators: info.operator_names.clone(),
            observes: self.engine.observes(),
            signed_in: sign_in.as_deref().map(shown),
        })
    }

    /// An operator lets a browser sign in. Whoever hands this in is whom the browser is let in as.
    pub(super) async fn begin_sign_in(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        self.throttle.take(call.who, ThrottleKey::Nothing)?;
        let given: SignedDelegation = call.json().await?;
        given.check(&self.engine.info(), self.run())?;
        if !given.order.host().is_some_and(|host| self.names.include(host)) {
            // Somebody in between would have the operator let its own page in here.
            let why = format!("the order was signed for a page at {}, which is not here", given.order.origin);
            return Err(Refusal::WrongKey { why }.into());
        }
        self.sign_ins.begin(given, call.who.identity.clone(), boot::now())?;
        answer(&EmptyResponse {})
    }

    /// A browser shows the code of a link, and gets a cookie for it.
    pub(super) async fn open_sign_in(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let OpenSignInRequest { code } = call.json().await?;
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", error.to_string(), "try again")
        })?;
        let secret = hex::encode(&secret);
        let (code, shows) = (ContentHash::of(code.as_bytes()), ContentHash::of(secret.as_bytes()));
        let sign_in = self.sign_ins.open(&code, shows, call.host, boot::now())?;
        let mut reply = answer(&shown(&sign_in))?;
        let seconds = sign_in.left(boot::now()).as_millis() / 1_000;
        let secure = if self.names.tls.is_some() { "; Secure" } else { "" };
        let cookie = format!(
            "{}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}",
            self.cookie_name()
        );
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            reply.headers_mut().insert(SET_COOKIE, cookie);
        }
        Ok(reply)
    }

    /// Whoever is signed in ends that, and nobody else's.
    pub(super) async fn close_sign_in(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let CloseSignInRequest { key } = call.json().await?;
        let closed = call.who.sign_in == Some(key) && self.sign_ins.close(&key, boot::now());
        let mut reply = answer(&CloseSignInResponse { closed })?;
        let cookie = format!("{}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict", self.cookie_name());
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            reply.headers_mut().insert(SET_COOKIE, cookie);
        }
        Ok(reply)
    }

    /// The order that a browser would sign for an election as it stands.
    pub(super) async fn draft(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let DraftActRequest { key, act } = call.json().await?;
        let election = call.election()?;
        let sign_in = self.sign_ins.alive(&key, boot::now()).ok_or_else(not_signed_in)?;
        let Some(document) = self.engine.view(&election).await?.document else {
            return Err(Refusal::UnknownElection { election: election.to_string() }.into());
        };
        drafted(&ActOrder::new(&document, act, None), &sign_in)
    }

    /// The same for the store as it stands.
    async fn draft_of_store(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let DraftStoreOrderRequest { key, change } = call.json().await?;
        let sign_in = self.sign_ins.alive(&key, boot::now()).ok_or_else(not_signed_in)?;
        drafted(&StoreOrder::new(&self.engine.info(), change, None, boot::wall()), &sign_in)
    }

    /// Refuses what was signed in an operator's stead after its sign-in was over.
    pub(super) fn check_sign_in<O>(&self, signed: &Signed<O>) -> Result<(), Problem> {
        let Some(via) = &signed.via else { return Ok(()) };
        let alive = self.sign_ins.alive(&signed.by, boot::now());
        if alive.is_some_and(|sign_in| sign_in.given == **via) { Ok(()) } else { Err(not_signed_in()) }
    }
}

fn drafted(order: &impl Serialize, sign_in: &SignIn<Identity>) -> Result<Reply, Problem> {
    let (text, via) = (serde_json::to_string(order), serde_json::to_string(&sign_in.given));
    answer(&DraftResponse { text: text.unwrap_or_default(), via: via.unwrap_or_default() })
}

fn shown(sign_in: &SignIn<Identity>) -> SignInView {
    SignInView {
        key: sign_in.given.order.key,
        operator: sign_in.given.by,
        lasts_ms: sign_in.left(boot::now()).as_millis(),
    }
}

fn not_signed_in() -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "not-signed-in",
        "the sign-in is over, or there never was one",
        "run `baton dashboard` again",
    )
}

impl From<NotSignedIn> for Problem {
    fn from(why: NotSignedIn) -> Problem {
        match why {
            NotSignedIn::TooMany => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "there are too many sign-ins",
                "end those that are not needed: baton dashboard --sign-out",
            ),
            NotSignedIn::NoSuchCode => Problem::new(
                StatusCode::FORBIDDEN,
                "not-signed-in",
                "the link cannot be used: it works once, for five minutes, and not after a restart of the server",
                "run `baton dashboard` again",
            ),
        }
    }
}
