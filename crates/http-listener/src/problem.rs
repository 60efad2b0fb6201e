//! How a failure is told: `application/problem+json` (RFC 9457) with the stable codes of the command.

use std::borrow::Cow;
use std::time::Duration;

use baton_api::problem::ProblemResponse;
use baton_election::Refusal;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};
use serde_json::{Map, Value};

/// Why a request was not carried out.
#[derive(Clone, Debug)]
pub struct Problem {
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

impl Problem {
    /// A status, the stable word for it, what is wrong, and what to do.
    pub fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<String>,
        hint: impl Into<String>,
    ) -> Problem {
        Problem { status, code, detail: detail.into(), hint: hint.into(), facts: Map::new(), header: None }
    }

    /// The request makes no sense.
    pub fn invalid(detail: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "invalid", detail, hint)
    }

    /// A command was refused; with the facts of that.
    pub fn refused(status: StatusCode, refusal: &Refusal) -> Problem {
        let facts = match serde_json::to_value(refusal) {
            Ok(Value::Object(facts)) => facts,
            Ok(_) | Err(_) => Map::new(),
        };
        Problem { facts, ..Problem::new(status, refusal.code(), refusal.to_string(), refusal.hint()) }
    }

    /// Nobody knows who asks.
    pub fn unauthorized(detail: &str, hint: &str) -> Problem {
        Problem {
            header: Some(Header::Challenge),
            ..Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail, hint)
        }
    }

    /// One has had enough for now. Nothing was done.
    pub fn too_many(detail: &str, wait: Duration) -> Problem {
        let millis = wait.as_millis();
        let hint = format!("try again in {millis} ms; nothing was done");
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many", detail, hint)
            .with("retry_in_ms", u64::try_from(millis).unwrap_or(u64::MAX))
            .again_in(wait.as_secs().saturating_add(1))
    }

    /// The same may succeed in so many seconds.
    #[must_use]
    pub fn again_in(self, seconds: u64) -> Problem {
        Problem { header: Some(Header::RetryAfter(seconds)), ..self }
    }

    /// With a fact more.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Problem {
        self.facts.insert(name.to_string(), value.into());
        self
    }

    /// The stable word for it.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// What it answers with.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// As the value that stands in the body.
    pub fn to_value(&self) -> Value {
        let response = ProblemResponse {
            facts: Cow::Borrowed(&self.facts),
            r#type: "about:blank".into(),
            title: self.status.canonical_reason().map(Into::into),
            status: self.status.as_u16(),
            code: self.code.into(),
            detail: (&self.detail).into(),
            hint: (&self.hint).into(),
        };
        serde_json::to_value(response).unwrap_or_default()
    }

    /// As an answer, of which nobody keeps a copy.
    pub fn into_response(self) -> Response<Bytes> {
        let body = serde_json::to_vec(&self.to_value()).unwrap_or_default();
        let mut response = Response::new(body.into());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        match self.header {
            None => {}
            Some(Header::Challenge) => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"baton\""));
            }
            Some(Header::RetryAfter(seconds)) => {
                headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
            }
        }
        response
    }
}
