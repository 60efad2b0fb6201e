//! What a request is: a read, a write with its token, or something that is not let through.

use baton::election::Epoch;
use baton_http_listener::Problem;
use http::header::{CONNECTION, HeaderMap, TRANSFER_ENCODING, UPGRADE, VIA};
use http::request::Parts;
use http::{Method, StatusCode};

/// Where a write shows its token.
pub(crate) const TOKEN: &str = "baton-token";

/// Headers by which frameworks let a request pretend to be of another method.
const OVERRIDES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];
/// The parameter by which they do.
const OVERRIDING_PARAMETER: &[u8] = b"_method";

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It changes nothing.
    Read,
    /// It may change something, and shows this token.
    Write(Epoch),
}

/// Tells reads from writes. Whatever is not known to be a read is a write. So is a request of a safe method that has a body: an upstream
/// that does not read the body takes it for the next request, which may be a write.
pub(crate) fn kind(parts: &Parts, has_body: bool, own_name: &str) -> Result<Kind, Problem> {
    let headers = &parts.headers;
    if [Method::CONNECT, Method::TRACE].contains(&parts.method) {
        return Err(Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "invalid",
            format!("{} is not let through", parts.method),
            "a tunnel cannot be guarded",
        ));
    }
    if headers.contains_key(UPGRADE) || names(headers, &CONNECTION).any(|name| name == "upgrade") {
        return Err(Problem::new(
            StatusCode::NOT_IMPLEMENTED,
            "invalid",
            "another protocol is not let through",
            "what is sent through a websocket or a tunnel cannot be guarded: use plain requests",
        ));
    }
    if matches!(parts.method, Method::GET | Method::HEAD) && headers.contains_key(TRANSFER_ENCODING) {
        // It would reach the upstream without its body.
        return Err(Problem::new(
            StatusCode::LENGTH_REQUIRED,
            "invalid",
            format!("a {} with a body must say how long it is", parts.method),
            "send Content-Length, not Transfer-Encoding",
        ));
    }
    if names(headers, &VIA).any(|hop| hop.ends_with(own_name)) {
        return Err(Problem::new(
            StatusCode::LOOP_DETECTED,
            "loop",
            "this guard has seen the request before",
            "--upstream leads back to the guard",
        ));
    }
    if is_safe(&parts.method) && !has_body && !pretends(parts) {
        return Ok(Kind::Read);
    }
    token(headers).map(Kind::Write)
}

/// Whether a method changes nothing, by its definition.
pub(crate) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn token(headers: &HeaderMap) -> Result<Epoch, Problem> {
    let mut shown = headers.get_all(TOKEN).iter();
    let (first, second) = (shown.next(), shown.next());
    let Some(first) = first else {
        return Err(Problem::new(
            StatusCode::PRECONDITION_REQUIRED,
            "no-token",
            "a write must show the token of the leader",
            "send the header Baton-Token: under baton run it is in $BATON_TOKEN_FILE",
        ));
    };
    if second.is_some() {
        return Err(Problem::invalid("there are several headers Baton-Token", "send one"));
    }
    let text = first.to_str().unwrap_or_default();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let token = if digits { text.parse().ok() } else { None };
    token
        .ok_or_else(|| Problem::invalid("the header Baton-Token is not a token", "a token is a whole number"))
}

/// Whether a request of a harmless method could be taken for one of another.
fn pretends(parts: &Parts) -> bool {
    // To many servers an underscore in a name is a hyphen.
    let header = |name: &http::HeaderName| OVERRIDES.contains(&name.as_str().replace('_', "-").as_str());
    parts.headers.keys().any(header)
        || parts.uri.query().is_some_and(|query| {
            query.split(['&', ';']).any(|pair| {
                let name = pair.split('=').next().unwrap_or_default();
                decoded(name.as_bytes()).eq_ignore_ascii_case(OVERRIDING_PARAMETER)
            })
        })
}

/// Whether a service could take a segment of a path for `.` or `..`: however often it decodes the path, whether or not it takes a backslash for
/// a slash, and whether or not it leaves parameters (`..;a=b`) out.
pub(crate) fn climbs(path: &str) -> bool {
    let mut path = path.as_bytes().to_vec();
    loop {
        let dots = |segment: &[u8]| matches!(segment.split(|byte| *byte == b';').next(), Some(b"." | b".."));
        if path.split(|byte| matches!(byte, b'/' | b'\\')).any(dots) {
            return true;
        }
        // Each round makes it shorter, or is the last.
        let next = decoded(&path);
        if next.len() == path.len() {
            return false;
        }
        path = next;
    }
}

/// Text without its percent signs; one that means nothing stays.
fn decoded(bytes: &[u8]) -> Vec<u8> {
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut decoded, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let pair = if bytes[at] == b'%' { digit(at + 1).zip(digit(at + 2)) } else { None };
        match pair.and_then(|(high, low)| u8::try_from(high * 16 + low).ok()) {
            Some(byte) => (decoded.push(byte), at += 3).0,
            None => (decoded.push(bytes[at]), at += 1).0,
        }
    }
    decoded
}

/// The words of a header that is a list, in small letters.
pub(crate) fn names<'a>(
    headers: &'a HeaderMap,
    header: &'a http::HeaderName,
) -> impl Iterator<Item = String> + use<'a> {
    let values = headers.get_all(header).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|word| word.trim().to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "baton-0011";

    fn asked(method: &str, uri: &str, headers: &[(&str, &str)]) -> Result<Kind, StatusCode> {
        asked_with(false, method, uri, headers)
    }

    fn asked_with(body: bool, method: &str, uri: &str, headers: &[(&str, &str)]) -> Result<Kind, StatusCode> {
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        kind(&parts, body, NAME).map_err(|problem| problem.status())
    }

    #[test]
    fn what_is_not_known_to_be_a_read_is_a_write() {
        for method in ["GET", "HEAD", "OPTIONS"] {
            assert_eq!(asked(method, "/", &[]), Ok(Kind::Read));
        }
        for method in ["POST", "PUT", "PATCH", "DELETE", "PROPFIND", "QUERY", "get"] {
            assert_eq!(asked(method, "/", &[]), Err(StatusCode::PRECONDITION_REQUIRED), "{method}");
            assert_eq!(asked(method, "/", &[("baton-token", "7")]), Ok(Kind::Write(Epoch(7))));
        }
    }

    #[test]
    fn a_read_with_a_body_is_a_write() {
        for method in ["GET", "HEAD", "OPTIONS"] {
            assert_eq!(
                asked_with(true, method, "/", &[]),
                Err(StatusCode::PRECONDITION_REQUIRED),
                "{method}"
            );
            let token = [("baton-token", "7")];
            assert_eq!(asked_with(true, method, "/", &token), Ok(Kind::Write(Epoch(7))), "{method}");
        }
    }

    #[test]
    fn a_read_that_pretends_is_a_write() {
        let headers =
            ["X-HTTP-Method-Override", "x-http-method", "X-Method-Override", "X_HTTP_METHOD_OVERRIDE"];
        for header in headers {
            let pretending = [(header, "DELETE")];
            assert_eq!(asked("GET", "/", &pretending), Err(StatusCode::PRECONDITION_REQUIRED), "{header}");
        }
        for query in ["/?_method=DELETE", "/?a=b&_METHOD=PUT", "/?a;_method", "/?%5fmeth%6Fd=PUT"] {
            assert_eq!(asked("GET", query, &[]), Err(StatusCode::PRECONDITION_REQUIRED), "{query}");
        }
        for query in ["/?method=DELETE", "/?a=_method", "/_method", "/?%5", "/?%zz_method=1"] {
            assert_eq!(asked("GET", query, &[]), Ok(Kind::Read), "{query}");
        }
    }

    #[test]
    fn dot_segments_are_seen_however_they_are_written() {
        for path in [
            "/../admin",
            "/a/..",
            "/.",
            "/%2e%2e/admin",
            "/%2E./admin",
            "/%252e%252e/admin",
            "/a%2f..%2fadmin",
            "/..%5cadmin",
            "/..\\admin",
            "/..;/admin",
            "/..;a=b/admin",
        ] {
            assert!(climbs(path), "{path}");
        }
        for path in ["/", "/a.b/..c/c..", "/...", "/a%20b", "/100%", "/a;.."] {
            assert!(!climbs(path), "{path}");
        }
    }

    #[test]
    fn a_token_is_one_whole_number() {
        for text in ["", "+7", "-7", "7 ", "0x7", "7,7", "seven", "99999999999999999999999", "\u{665}"] {
            let given = asked("PUT", "/", &[("baton-token", text)]);
            assert!(given == Err(StatusCode::BAD_REQUEST) || text == "7 ", "{text:?}: {given:?}");
        }
        let twice = [("baton-token", "7"), ("baton-token", "7")];
        assert_eq!(asked("PUT", "/", &twice), Err(StatusCode::BAD_REQUEST));
    }

    #[test]
    fn tunnels_and_loops_are_refused() {
        let token = ("baton-token", "7");
        assert_eq!(asked("TRACE", "/", &[token]), Err(StatusCode::METHOD_NOT_ALLOWED));
        assert_eq!(asked("CONNECT", "a:1", &[token]), Err(StatusCode::METHOD_NOT_ALLOWED));
        assert_eq!(asked("GET", "/", &[("upgrade", "websocket")]), Err(StatusCode::NOT_IMPLEMENTED));
        assert_eq!(asked("GET", "/", &[("connection", "close, Upgrade")]), Err(StatusCode::NOT_IMPLEMENTED));
        let chunked = [("transfer-encoding", "chunked"), ("x-http-method-override", "PUT"), token];
        for method in ["GET", "HEAD"] {
            assert_eq!(asked(method, "/", &chunked), Err(StatusCode::LENGTH_REQUIRED));
            assert_eq!(asked(method, "/", &chunked[..1]), Err(StatusCode::LENGTH_REQUIRED));
        }
        assert_eq!(asked("GET", "/", &[("via", "1.1 a, 1.1 baton-0011")]), Err(StatusCode::LOOP_DETECTED));
        assert_eq!(asked("GET", "/", &[("via", "1.1 baton-0012")]), Ok(Kind::Read));
    }
}
