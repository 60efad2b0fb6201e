//! What a failed request means: not sent, may have been carried out, refused.

use std::error::Error;

use baton_api::CommandError;
use baton_election::Refusal;
use baton_store::StoreError;
use http::StatusCode;
use serde::Deserialize;

use crate::dial::NotForUs;
use crate::untrusted::Untrusted;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Nothing was sent.
    NotSent(String),
    /// It was sent, and nobody knows what became of it.
    NoAnswer(String),
    /// Nothing was carried out: one end does not accept the other's certificate. To wait helps only if it was accepted before.
    Untrusted { told: Box<Untrusted>, before: bool },
    /// The server refused.
    Rejected(Box<Rejection>),
    /// It is not the active one, and names the one that is.
    Elsewhere(String),
    /// It is not the active one, and knows of none.
    NotActive(String),
}

/// A server's refusal of a request.
#[derive(Debug)]
pub(crate) struct Rejection {
    status: StatusCode,
    /// The format that the server speaks, if it says so.
    format: Option<u32>,
    refusal: Option<Refusal>,
    code: String,
    detail: String,
    hint: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Problem {
    code: String,
    detail: String,
    hint: String,
    /// Whether the server that says so is the active one, if it says that.
    active: Option<bool>,
}

impl Fault {
    /// A failed request, as the client library tells it. `before` says whether a server had answered.
    pub(crate) fn of(error: &hyper_util::client::legacy::Error, before: bool) -> Fault {
        let mut words = Vec::new();
        let mut source: Option<&dyn Error> = error.source();
        while let Some(cause) = source {
            if let Some(not) = cause.downcast_ref::<NotForUs>() {
                return Fault::not_for_us(not);
            }
            if let Some(told) = Untrusted::of(cause) {
                return Fault::Untrusted { told: Box::new(told), before };
            }
            words.push(cause.to_string());
            source = cause.source();
        }
        let why = words.pop().unwrap_or_else(|| error.to_string());
        if error.is_connect() { Fault::NotSent(why) } else { Fault::NoAnswer(why) }
    }

    /// This user is not let in, and to ask again does not help.
    fn not_for_us(why: &NotForUs) -> Fault {
        Fault::Rejected(Box::new(Rejection {
            status: StatusCode::FORBIDDEN,
            format: None,
            refusal: None,
            code: "forbidden".to_string(),
            detail: why.to_string(),
            hint: why.hint.clone(),
        }))
    }

    /// Whether the server does not let this client in.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Fault::Rejected(said) => matches!(said.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN),
            Fault::Untrusted { .. } => true,
            Fault::NotSent(_) | Fault::NoAnswer(_) | Fault::Elsewhere(_) | Fault::NotActive(_) => false,
        }
    }

    /// An answer that is none.
    pub(crate) fn said(status: StatusCode, body: &[u8]) -> Fault {
        let problem: Problem = serde_json::from_slice(body).unwrap_or_default();
        if problem.code.is_empty() && status.is_server_error() {
            // Something between us and the server fails, which passes.
            return Fault::NoAnswer(format!("it answered {status}, which no Baton server does"));
        }
        let refusal = serde_json::from_slice(body).ok();
        let said = match problem.code.is_empty() {
            true => Rejection {
                status,
                format: None,
                refusal: None,
                code: String::new(),
                detail: format!("it answered {status}, which no Baton server does"),
                hint: "check host and port".to_string(),
            },
            false => Rejection {
                status,
                format: None,
                refusal,
                code: problem.code,
                detail: problem.detail,
                hint: problem.hint,
            },
        };
        Fault::Rejected(Box::new(said))
    }

    /// The same, from a server that says that it speaks this format.
    pub(crate) fn of_a_server_that_speaks(mut self, format: Option<u32>) -> Fault {
        if let Fault::Rejected(said) = &mut self {
            said.format = format;
        }
        self
    }

    /// The stable word for why the server said no, if it did.
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Fault::Rejected(said) => Some(&said.code),
            Fault::NotSent(_)
            | Fault::NoAnswer(_)
            | Fault::Untrusted { .. }
            | Fault::Elsewhere(_)
            | Fault::NotActive(_) => None,
        }
    }

    /// What a server says that does not decide, and perhaps who does; none if it is the word of one that does.
    pub(crate) fn of_inactive(body: &[u8], to: Option<String>) -> Option<Fault> {
        let problem: Problem = serde_json::from_slice(body).ok()?;
        match (problem.code.as_str(), to) {
            ("not-active", Some(to)) => Some(Fault::Elsewhere(to)),
            ("not-active", None) => Some(Fault::NotActive("no server is active at the moment".to_string())),
            // It had begun while it was: another may know what came of it.
            ("unknown", _) if problem.active == Some(false) => Some(Fault::NoAnswer(problem.detail)),
            (_, _) => None,
        }
    }

    /// As the failure of a look.
    pub(crate) fn of_reading(self, location: &str) -> StoreError {
        match self.of_command(location) {
            CommandError::Store(StoreError::Unknown { location, why }) => unavailable(&location, why),
            error => as_store_error(error, location),
        }
    }

    /// As the failure of a command.
    pub(crate) fn of_command(self, location: &str) -> CommandError {
        let error = match self {
            Fault::NotSent(why) | Fault::NotActive(why) => unavailable(location, why),
            Fault::Elsewhere(to) => unavailable(location, format!("it sends us to {to}")),
            Fault::NoAnswer(why) => StoreError::Unknown { location: location.to_string(), why },
            Fault::Untrusted { told, before } => {
                let (place, Untrusted { why, hint }) = (location.to_string(), *told);
                match before {
                    true => StoreError::Unavailable { location: place, why, hint },
                    false => StoreError::Refused { place, why, hint },
                }
            }
            Fault::Rejected(said) => match *said {
                Rejection { refusal: Some(refusal), .. } => return refusal.into(),
                Rejection { status: StatusCode::PAYLOAD_TOO_LARGE, detail, hint, .. } => {
                    return Refusal::Invalid { why: detail, hint }.into();
                }
                // The server's own store may need a newer one too: that is another status.
                Rejection { status: StatusCode::BAD_REQUEST, code, format: Some(format), .. }
                    if code == "newer-format" =>
                {
                    StoreError::Newer { place: location.to_string(), format, reads: baton_store::format() }
                }
                Rejection { code, detail, .. } if code == "unknown" => {
                    StoreError::Unknown { location: location.to_string(), why: detail }
                }
                Rejection {
                    status: StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS,
                    detail,
                    hint,
                    ..
                } => StoreError::Unavailable { location: location.to_string(), why: detail, hint },
                Rejection { detail, hint, .. } => {
                    StoreError::Refused { place: location.to_string(), why: detail, hint }
                }
            },
        };
        error.into()
    }
}

/// The failure of a look, whatever it is a failure of.
pub(crate) fn as_store_error(error: CommandError, location: &str) -> StoreError {
    match error {
        CommandError::Store(error) => error,
        CommandError::Refused(refusal) => StoreError::Refused {
            place: location.to_string(),
            why: refusal.to_string(),
            hint: refusal.hint(),
        },
        CommandError::System(why) => unavailable(location, why),
    }
}

fn unavailable(location: &str, why: String) -> StoreError {
    let (why, hint) = match why {
        // What a server that speaks TLS answers is not HTTP, and the other way around.
        why if location.starts_with("http://") && why.contains("HTTP version") => {
            (why, "perhaps it speaks TLS: https://HOST:PORT")
        }
        why if why.contains("InvalidContentType") => (
            "it speaks http, not https".to_string(),
            "write http://HOST:PORT, or give the server a certificate",
        ),
        why if why.contains("failed to lookup address") => {
            ("its name does not resolve".to_string(), "check the name of the host")
        }
        why => (why, "see whether the server runs: baton serve"),
    };
    let location = location.split_once("?owner=").map_or(location, |(socket, _)| socket);
    let hint = match location.starts_with("unix:") {
        true => format!("see whether the server runs: baton serve --listen {location}"),
        false => hint.to_string(),
    };
    StoreError::Unavailable { location: location.to_string(), why, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_at_a_socket_is_named_so_in_the_hint() {
        let said = unavailable("unix:/run/b.sock", "no server listens at this socket".to_string());
        assert_eq!(said.hint(), "see whether the server runs: baton serve --listen unix:/run/b.sock");
    }

    #[test]
    fn a_certificate_that_was_accepted_before_may_be_again() {
        let fault = |before| {
            let told = Untrusted { why: "no".to_string(), hint: "yes".to_string() };
            Fault::Untrusted { told: Box::new(told), before }.of_reading("l")
        };
        assert!(matches!(fault(false), StoreError::Refused { .. }));
        assert!(fault(true).is_passing());
    }

    #[test]
    fn a_refusal_is_the_same_here_as_there() {
        let refusal = Refusal::UnknownElection { election: "e".to_string() };
        let mut body = serde_json::to_value(&refusal).unwrap();
        body["detail"] = "there is no such election".into();
        body["status"] = 404.into();
        let fault = Fault::said(StatusCode::NOT_FOUND, body.to_string().as_bytes());
        assert!(matches!(fault.of_command("l"), CommandError::Refused(said) if said == refusal));
    }

    #[test]
    fn what_is_no_answer_of_a_server_is_refused() {
        let fault = Fault::said(StatusCode::NOT_FOUND, b"<html>");
        assert!(matches!(fault.of_command("l"), CommandError::Store(StoreError::Refused { .. })));
        let between = || Fault::said(StatusCode::BAD_GATEWAY, b"<html>");
        assert!(matches!(between().of_reading("l"), StoreError::Unavailable { .. }));
        assert!(matches!(between().of_command("l"), CommandError::Store(StoreError::Unknown { .. })));
    }

    #[test]
    fn what_a_server_did_that_was_overtaken_is_unknown_and_what_it_refused_before_is_not() {
        let told = |body: &str, to: Option<&str>| Fault::of_inactive(body.as_bytes(), to.map(str::to_string));
        let before = told(r#"{"code":"not-active"}"#, None).unwrap();
        assert!(matches!(before.of_command("l"), CommandError::Store(StoreError::Unavailable { .. })));
        let elsewhere = told(r#"{"code":"not-active"}"#, Some("http://b:1"));
        assert!(matches!(elsewhere, Some(Fault::Elsewhere(to)) if to == "http://b:1"));
        let after = told(r#"{"code":"unknown","active":false}"#, None).unwrap();
        assert!(matches!(after.of_command("l"), CommandError::Store(StoreError::Unknown { .. })));
        assert!(told(r#"{"code":"unknown"}"#, None).is_none(), "the active one does not know");
    }

    #[test]
    fn what_was_sent_is_unknown_and_what_was_not_is_not() {
        let lost = || Fault::NoAnswer("it hung up".to_string());
        assert!(matches!(lost().of_command("l"), CommandError::Store(StoreError::Unknown { .. })));
        assert!(matches!(lost().of_reading("l"), StoreError::Unavailable { .. }));
        let fault = Fault::NotSent("nobody listens".to_string());
        assert!(matches!(fault.of_command("l"), CommandError::Store(StoreError::Unavailable { .. })));
    }

    #[test]
    fn a_newer_server_says_which_format_it_needs_and_its_store_s_trouble_is_not_the_client_s() {
        let body = br#"{"code": "newer-format", "detail": "d", "hint": "h"}"#;
        let said = |status, format| Fault::said(status, body).of_a_server_that_speaks(format).of_reading("l");
        let error = said(StatusCode::BAD_REQUEST, Some(7));
        assert!(matches!(error, StoreError::Newer { format: 7, .. }), "{error:?}");
        assert!(error.hint().contains("format 7") && !error.is_passing(), "{error:?}");
        for (status, format) in
            [(StatusCode::BAD_REQUEST, None), (StatusCode::INTERNAL_SERVER_ERROR, Some(7))]
        {
            let error = said(status, format);
            assert!(matches!(&error, StoreError::Refused { hint, .. } if hint == "h"), "{error:?}");
        }
    }
}
