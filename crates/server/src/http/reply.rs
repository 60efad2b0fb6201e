//! What is answered, and how failures look: `application/problem+json` with the command's own stable codes.

use std::convert::Infallible;
use std::time::Duration;

use baton_api::CommandError;
use baton_election::Refusal;
use baton_store::StoreError;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde::Serialize;
use serde_json::Value;

/// A body of any kind.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;
/// An answer to a request.
pub(crate) type Reply = Response<Body>;

/// Why a request was not carried out.
#[derive(Debug)]
pub(crate) struct Problem {
    told: baton_http_listener::Problem,
    /// What only the log has. Apart: most have none.
    why: Option<Box<LogReason>>,
}

/// A reason, in words for the log.
#[derive(Debug)]
struct LogReason(String);

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<String>,
        hint: impl Into<String>,
    ) -> Problem {
        baton_http_listener::Problem::new(status, code, detail, hint).into()
    }

    /// The request makes no sense.
    pub(crate) fn invalid(detail: impl Into<String>, hint: impl Into<String>) -> Problem {
        baton_http_listener::Problem::invalid(detail, hint).into()
    }

    /// Nobody knows who asks.
    pub(crate) fn unauthorized(detail: &str, hint: &str) -> Problem {
        baton_http_listener::Problem::unauthorized(detail, hint).into()
    }

    /// One has had enough for now. Nothing was done.
    pub(crate) fn too_many(detail: &str, wait: Duration) -> Problem {
        baton_http_listener::Problem::too_many(detail, wait).into()
    }

    /// The same may succeed in so many seconds.
    pub(crate) fn again_in(self, seconds: u64) -> Problem {
        Problem { told: self.told.again_in(seconds), ..self }
    }

    /// With a fact more.
    pub(crate) fn with(self, name: &str, value: impl Into<Value>) -> Problem {
        Problem { told: self.told.with(name, value), ..self }
    }

    /// With what the log has of it, and whoever asked does not learn.
    pub(crate) fn because(self, why: impl Into<String>) -> Problem {
        Problem { why: Some(Box::new(LogReason(why.into()))), ..self }
    }

    pub(crate) fn take_why(&mut self) -> Option<String> {
        self.why.take().map(|why| why.0)
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.told.status()
    }

    /// As the value that stands in the body.
    pub(crate) fn to_value(&self) -> Value {
        self.told.to_value()
    }

    pub(crate) fn into_reply(self) -> Reply {
        self.told.into_response().map(|body| Full::new(body).boxed_unsync())
    }
}

impl From<baton_http_listener::Problem> for Problem {
    fn from(problem: baton_http_listener::Problem) -> Problem {
        Problem { told: problem, why: None }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let status = match &refusal {
            Refusal::Held { .. }
            | Refusal::Stale { .. }
            | Refusal::NotEligible { .. }
            | Refusal::Paused { .. }
            | Refusal::AwaitingApproval { .. }
            | Refusal::OutOfTurn { .. }
            | Refusal::Exhausted { .. } => StatusCode::CONFLICT,
            Refusal::WrongKey { .. } => StatusCode::FORBIDDEN,
            Refusal::UnknownElection { .. } | Refusal::NoSuchItem { .. } => StatusCode::NOT_FOUND,
            // Understood, and against a rule that a schema cannot tell.
            Refusal::Invalid { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        };
        baton_http_listener::Problem::refused(status, &refusal).into()
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let status = match &error {
            StoreError::Conflict | StoreError::Unavailable { .. } | StoreError::Unknown { .. } => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            StoreError::Corrupt { .. }
            | StoreError::Newer { .. }
            | StoreError::Refused { .. }
            | StoreError::Misnamed { .. }
            | StoreError::Diverged { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem::new(status, error.code(), error.to_string(), error.hint())
    }
}

impl From<CommandError> for Problem {
    fn from(undecided: CommandError) -> Problem {
        match undecided {
            CommandError::Refused(refusal) => refusal.into(),
            CommandError::Store(error) => error.into(),
            CommandError::System(why) => baton::Error::System(std::io::Error::other(why)).into(),
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
    reply.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}
