//! What is answered, and how failures look: `application/problem+json` with the command's own stable codes.

use std::convert::Infallible;
use std::time::Duration;

use baton_election::Refusal;
use baton_store::{StoreError, Undecided};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// A body of any kind.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;
/// An answer to a request.
pub(crate) type Reply = Response<Body>;

/// Why a request was not carried out.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    hint: String,
    facts: Map<String, Value>,
    header: Option<Header>,
}

/// What is said in a header besides.
#[derive(Clone, Copy, Debug)]
enum Header {
    /// How to show who asks.
    Challenge,
    /// In how many seconds to come again.
    RetryAfter(u64),
}

/// How a problem is shown: RFC 9457.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct ProblemShown<'a> {
    /// The facts of a refusal. What has the same name below stands in their place.
    #[serde(flatten)]
    facts: &'a Map<String, Value>,
    r#type: &'static str,
    title: Option<&'static str>,
    status: u16,
    /// Stable; the command prints the same.
    code: &'static str,
    detail: &'a str,
    hint: &'a str,
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<String>,
        hint: impl Into<String>,
    ) -> Problem {
        Problem { status, code, detail: detail.into(), hint: hint.into(), facts: Map::new(), header: None }
    }

    /// The request makes no sense.
    pub(crate) fn invalid(detail: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "invalid", detail, hint)
    }

    /// Nobody knows who asks.
    pub(crate) fn unauthorized(detail: &str, hint: &str) -> Problem {
        Problem {
            header: Some(Header::Challenge),
            ..Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail, hint)
        }
    }

    /// One has had enough for now. Nothing was done.
    pub(crate) fn too_many(detail: &str, wait: Duration) -> Problem {
        let (seconds, millis) = (wait.as_secs().saturating_add(1), wait.as_millis());
        let hint = format!("try again in {millis} ms; nothing was done");
        let wait = Value::from(u64::try_from(millis).unwrap_or(u64::MAX));
        let facts = Map::from_iter([("retry_in_ms".to_string(), wait)]);
        Problem {
            facts,
            header: Some(Header::RetryAfter(seconds)),
            ..Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many", detail, hint)
        }
    }

    /// As the value that stands in the body.
    pub(crate) fn to_value(&self) -> Value {
        let shown = ProblemShown {
            facts: &self.facts,
            r#type: "about:blank",
            title: self.status.canonical_reason(),
            status: self.status.as_u16(),
            code: self.code,
            detail: &self.detail,
            hint: &self.hint,
        };
        serde_json::to_value(shown).unwrap_or_default()
    }

    pub(crate) fn into_reply(self) -> Reply {
        let body = serde_json::to_vec(&self.to_value()).unwrap_or_default();
        let mut reply = reply(self.status, "application/problem+json", body.into());
        match self.header {
            None => {}
            Some(Header::Challenge) => {
                let scheme = HeaderValue::from_static("Bearer realm=\"baton\"");
                reply.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            }
            Some(Header::RetryAfter(seconds)) => {
                reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
            }
        }
        reply
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let status = match &refusal {
            Refusal::Held { .. }
            | Refusal::Stale { .. }
            | Refusal::NotEligible { .. }
            | Refusal::Paused { .. }
            | Refusal::AwaitingApproval { .. } => StatusCode::CONFLICT,
            Refusal::WrongKey { .. } => StatusCode::FORBIDDEN,
            Refusal::UnknownElection { .. } => StatusCode::NOT_FOUND,
            // Understood, and against a rule that a schema cannot tell.
            Refusal::Invalid { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        };
        let facts = match serde_json::to_value(&refusal) {
            Ok(Value::Object(facts)) => facts,
            Ok(_) | Err(_) => Map::new(),
        };
        Problem { facts, ..Problem::new(status, refusal.code(), refusal.to_string(), refusal.hint()) }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let status = match &error {
            StoreError::Conflict | StoreError::Unavailable { .. } | StoreError::Unknown { .. } => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            StoreError::Corrupt { .. }
            | StoreError::Refused { .. }
            | StoreError::Misnamed { .. }
            | StoreError::Diverged { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem::new(status, error.code(), error.to_string(), error.hint())
    }
}

impl From<Undecided> for Problem {
    fn from(undecided: Undecided) -> Problem {
        match undecided {
            Undecided::Refused(refusal) => refusal.into(),
            Undecided::Store(error) => error.into(),
        }
    }
}

impl From<baton::Error> for Problem {
    fn from(error: baton::Error) -> Problem {
        let (code, hint) = (error.code(), error.hint().unwrap_or_default());
        match error {
            baton::Error::Refused(refusal) => refusal.into(),
            baton::Error::Store(error) => error.into(),
            baton::Error::Name(error) => Problem::invalid(error.to_string(), hint),
            other => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, code, other.to_string(), hint),
        }
    }
}

/// Something that is an answer.
pub(crate) fn json(value: &impl Serialize) -> Result<Reply, Problem> {
    match serde_json::to_vec(value) {
        Ok(body) => Ok(reply(StatusCode::OK, "application/json", body.into())),
        Err(error) => Err(Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "system",
            format!("the answer cannot be written: {error}"),
            "this is a fault of the server",
        )),
    }
}

pub(crate) fn reply(status: StatusCode, kind: &'static str, body: Bytes) -> Reply {
    typed(status, kind, Full::new(body).boxed_unsync())
}

/// That the server runs.
pub(crate) fn ok() -> Reply {
    reply(StatusCode::OK, "text/plain; charset=utf-8", Bytes::from_static(b"ok\n"))
}

/// Nothing.
pub(crate) fn empty() -> Body {
    Full::new(Bytes::new()).boxed_unsync()
}

pub(crate) fn typed(status: StatusCode, kind: &'static str, body: Body) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}
