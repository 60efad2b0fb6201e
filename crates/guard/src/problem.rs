//! Why a request was not let through: `application/problem+json` with the stable codes of the command, and a header by which an
//! answer of the guard is told from one of the upstream.

use baton::Error;
use baton::election::Refusal;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Map, Value, json};

use crate::forward::Body;

/// On every answer of the guard's own, and on none of the upstream's.
pub(crate) const SAID_BY_GUARD: HeaderName = HeaderName::from_static("baton-guard");

/// Why a request was not let through.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    hint: String,
    facts: Map<String, Value>,
    /// The same may succeed in a moment.
    again: bool,
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<String>,
        hint: impl Into<String>,
    ) -> Problem {
        let again = status == StatusCode::SERVICE_UNAVAILABLE;
        Problem { status, code, detail: detail.into(), hint: hint.into(), facts: Map::new(), again }
    }

    /// The request makes no sense.
    pub(crate) fn invalid(detail: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "invalid", detail, hint)
    }

    /// The guard cannot tell at the moment, and so refuses.
    pub(crate) fn not_now(code: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail, hint)
    }

    pub(crate) fn into_reply(self) -> Response<Body> {
        let mut object = self.facts;
        let own = [
            ("type", json!("about:blank")),
            ("title", json!(self.status.canonical_reason())),
            ("status", json!(self.status.as_u16())),
            ("code", json!(self.code)),
            ("detail", json!(self.detail)),
            ("hint", json!(self.hint)),
        ];
        object.extend(own.map(|(name, value)| (name.to_string(), value)));
        let body = serde_json::to_vec(&object).unwrap_or_default();
        let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync();
        let mut reply = Response::new(body);
        *reply.status_mut() = self.status;
        let headers = reply.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(SAID_BY_GUARD, HeaderValue::from_static(self.code));
        if self.again {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        reply
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let status = match &refusal {
            Refusal::Stale { .. }
            | Refusal::NotEligible { .. }
            | Refusal::Paused { .. }
            | Refusal::AwaitingApproval { .. }
            | Refusal::WrongKey { .. }
            | Refusal::UnknownElection { .. } => StatusCode::CONFLICT,
            // Another is at the resource.
            Refusal::Held { .. } => StatusCode::SERVICE_UNAVAILABLE,
            // The resource is bound to another election, or the store was wiped: no request can help it.
            Refusal::Invalid { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let facts = match serde_json::to_value(&refusal) {
            Ok(Value::Object(facts)) => facts,
            Ok(_) | Err(_) => Map::new(),
        };
        Problem { facts, ..Problem::new(status, refusal.code(), refusal.to_string(), refusal.hint()) }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        match error {
            Error::Refused(refusal) => refusal.into(),
            error @ (Error::Store(_)
            | Error::Url(_)
            | Error::Name(_)
            | Error::WaitedLongEnough { .. }
            | Error::Lost(_)
            | Error::System(_)) => {
                let hint = "without the store nobody can say whether the token is current; reads pass";
                Problem::not_now(error.code(), error.to_string(), hint)
            }
        }
    }
}
