//! Why a request was not let through: `application/problem+json` with the stable codes of the command, and a header by which an
//! answer of the guard is told from one of the upstream.

use baton::Error;
use baton::election::Refusal;
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};

use crate::forward::Body;

/// On every answer of the guard's own, and on none of the upstream's.
pub(crate) const SAID_BY_GUARD: HeaderName = HeaderName::from_static("baton-guard");

/// Why a request was not let through.
#[derive(Clone, Debug)]
pub(crate) struct Problem(baton_door::Problem);

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<String>,
        hint: impl Into<String>,
    ) -> Problem {
        Problem(baton_door::Problem::new(status, code, detail, hint))
    }

    /// The request makes no sense.
    pub(crate) fn invalid(detail: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem(baton_door::Problem::invalid(detail, hint))
    }

    /// The guard cannot tell at the moment, and so refuses. The same may succeed in a moment.
    pub(crate) fn not_now(code: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Problem {
        let problem = baton_door::Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail, hint);
        Problem(problem.again_in(1))
    }

    pub(crate) fn into_reply(self) -> Response<Body> {
        signed(self.0).map(|body| Full::new(body).map_err(|never| match never {}).boxed_unsync())
    }
}

/// A failure, as the guard's own word.
pub(crate) fn signed(problem: baton_door::Problem) -> Response<Bytes> {
    let code = problem.code();
    let mut response = problem.into_response();
    response.headers_mut().insert(SAID_BY_GUARD, HeaderValue::from_static(code));
    response
}

impl From<baton_door::Problem> for Problem {
    fn from(problem: baton_door::Problem) -> Problem {
        Problem(problem)
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
            | Refusal::UnknownElection { .. }
            | Refusal::NoSuchItem { .. }
            | Refusal::OutOfTurn { .. }
            | Refusal::Exhausted { .. } => StatusCode::CONFLICT,
            // Another is at the resource.
            Refusal::Held { .. } => {
                let problem = baton_door::Problem::refused(StatusCode::SERVICE_UNAVAILABLE, &refusal);
                return Problem(problem.again_in(1));
            }
            // The resource is bound to another election, or the store was wiped: no request can help it.
            Refusal::Invalid { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem(baton_door::Problem::refused(status, &refusal))
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        match error {
            Error::Refused(refusal) => refusal.into(),
            error @ (Error::Store(_)
            | Error::NoStore(_)
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
