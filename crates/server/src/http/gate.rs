//! Keeps out browsers that speak for another site, whatever they ask for.

use baton_api::endpoints::Right;
use std::net::IpAddr;
use std::sync::Arc;

use baton_api::FORMAT_HEADER;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HOST, HeaderMap, ORIGIN};
use http::request::Parts;

use super::reply::Problem;
use baton_http_listener::Tls;

/// By what names the server is called. Loopback names nobody can bind to another address.
pub(super) struct Names {
    /// In lower case.
    pub(super) given: Vec<String>,
    /// Those in its certificate.
    pub(super) tls: Option<Arc<Tls>>,
}

impl Names {
    pub(super) fn include(&self, host: &str) -> bool {
        let name = name_in(host);
        is_loopback(name)
            || self.given.iter().any(|given| given.eq_ignore_ascii_case(name))
            || self.tls.as_ref().is_some_and(|tls| tls.names(name))
    }
}

/// Refuses what a page of another site could have sent. What is public may be asked by any name.
pub(super) fn admit(parts: &Parts, names: &Names, right: Right) -> Result<(), Problem> {
    let Some(host) = host(parts) else {
        return Err(Problem::invalid("the request names no host", "send the header Host"));
    };
    if host.contains('@') {
        return Err(Problem::invalid(
            "the host that the request names is none",
            "send Host: NAME or NAME:PORT",
        ));
    }
    if right > Right::Public && !names.include(host) {
        return Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "wrong-host",
            "this server is not called by that name",
            "use 127.0.0.1, localhost or [::1], a name in its certificate, or one that it was given: baton serve --name HOST",
        ));
    }
    let foreign = || {
        Problem::new(
            StatusCode::FORBIDDEN,
            "cross-site",
            "a page of another site asks",
            "this interface is for programs, and for pages of this server",
        )
    };
    if text(&parts.headers, &ORIGIN).is_some_and(|origin| !same_origin(origin, host)) {
        return Err(foreign());
    }
    let fetch = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    // A link may lead to the page from anywhere, also from the file by which `baton dashboard` opens it: it is the same for everybody, tells
    // nothing, and no other page can look into it.
    let opens_the_page = parts.method == http::Method::GET
        && parts.uri.path() == "/"
        && fetch("sec-fetch-mode") == Some("navigate");
    let site = fetch("sec-fetch-site");
    if !opens_the_page && site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return Err(foreign());
    }
    refuse_older(&parts.headers, baton_store::format())
}

/// The host that a request names.
pub(super) fn host(parts: &Parts) -> Option<&str> {
    let authority = || parts.uri.authority().map(http::uri::Authority::as_str);
    text(&parts.headers, &HOST).or_else(authority)
}

/// Refuses a body that is not JSON: a form of another site's page could send one.
pub(super) fn admit_body(parts: &Parts) -> Result<(), Problem> {
    let json = || text(&parts.headers, &CONTENT_TYPE).is_some_and(is_json);
    if super::has_body(&parts.headers) && json() {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "invalid",
        "the body must be JSON, and say so",
        "send Content-Type: application/json",
    ))
}

/// Refuses a client that says that it does not know the format that this server speaks. A client that names no format is
/// served: the paths and fields of `/v1` do not change.
fn refuse_older(headers: &HeaderMap, speaks: u32) -> Result<(), Problem> {
    let knows = headers.get(FORMAT_HEADER).and_then(|knows| knows.to_str().ok()?.parse::<u32>().ok());
    match knows {
        Some(knows) if knows < speaks => Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "newer-format",
            format!("this server is a newer Baton (format {speaks}; the client knows up to {knows})"),
            format!("update the client to a release that knows format {speaks}; nothing was changed"),
        )),
        Some(_) | None => Ok(()),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Option<&'a str> {
    // What cannot be read is nobody's name.
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

fn is_json(kind: &str) -> bool {
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// A host without its port.
fn name_in(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// Whether a name without a port is only this machine's.
pub(crate) fn is_loopback(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

fn same_origin(origin: &str, host: &str) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn asked(method: Method, headers: &[(&str, &str)]) -> Result<(), Problem> {
        asked_for("/v1/elections", method, headers)
    }

    fn asked_for(path: &str, method: Method, headers: &[(&str, &str)]) -> Result<(), Problem> {
        let has_body = method == Method::POST;
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let names = Names { given: vec!["baton.example".to_string()], tls: None };
        admit(&parts, &names, Right::Read)?;
        if has_body { admit_body(&parts) } else { Ok(()) }
    }

    #[test]
    fn loopback_names_are_let_in() {
        for host in [
            "baton.example",
            "Baton.Example:7420",
            "localhost",
            "localhost:7420",
            "127.0.0.1:7420",
            "127.1.2.3",
            "[::1]:7420",
            "LOCALHOST",
        ] {
            assert!(asked(Method::GET, &[("host", host)]).is_ok(), "{host}");
        }
    }

    #[test]
    fn names_that_were_bound_to_loopback_are_not() {
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::2]"] {
            let problem = asked(Method::GET, &[("host", host)]).unwrap_err();
            assert_eq!(problem.to_value()["code"], "wrong-host", "{host}");
        }
        assert!(asked(Method::GET, &[]).is_err());
        for host in ["localhost:7420@evil.example", "localhost@evil.example", "user@localhost"] {
            let problem = asked(Method::GET, &[("host", host)]).unwrap_err();
            assert_eq!(problem.to_value()["code"], "invalid", "{host}");
        }
    }

    #[test]
    fn a_client_of_an_older_format_is_told_which_one_it_needs() {
        let refused = |knows: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(knows) = knows {
                headers.insert(FORMAT_HEADER, knows.parse().unwrap());
            }
            refuse_older(&headers, 3).map_err(|problem| problem.to_value())
        };
        // A newer client knows what an older server speaks, and what is no number says nothing.
        for knows in [None, Some("3"), Some("4"), Some("three"), Some("")] {
            assert_eq!(refused(knows), Ok(()), "{knows:?}");
        }
        let told = refused(Some("2")).unwrap_err();
        assert_eq!(told["code"], "newer-format", "{told}");
        assert!(told["hint"].as_str().unwrap().contains("format 3"), "{told}");
    }

    #[test]
    fn a_link_from_anywhere_leads_to_the_page_and_to_nothing_else() {
        let link =
            [("host", "localhost:7420"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        asked_for("/", Method::GET, &link).unwrap();
        assert!(asked_for("/v1/elections", Method::GET, &link).is_err());
        assert!(asked_for("/", Method::POST, &link).is_err());
        let fetched = [link[0], link[1], ("sec-fetch-mode", "cors")];
        assert!(asked_for("/", Method::GET, &fetched).is_err());
    }

    #[test]
    fn other_sites_are_not() {
        let host = ("host", "localhost:7420");
        for other in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://localhost:9999"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            let problem = asked(Method::GET, &[host, other]).unwrap_err();
            assert_eq!(problem.to_value()["code"], "cross-site", "{other:?}");
        }
        asked(Method::GET, &[host, ("origin", "http://localhost:7420")]).unwrap();
        asked(Method::GET, &[host, ("sec-fetch-site", "same-origin")]).unwrap();
    }

    #[test]
    fn what_changes_anything_is_json() {
        let host = ("host", "localhost");
        let length = ("content-length", "2");
        assert!(asked(Method::POST, &[host]).is_err());
        assert!(asked(Method::POST, &[host, length, ("content-type", "text/plain")]).is_err());
        assert!(
            asked(Method::POST, &[host, length, ("content-type", "application/x-www-form-urlencoded")])
                .is_err()
        );
        asked(Method::POST, &[host, length, ("content-type", "application/json; charset=utf-8")]).unwrap();
    }
}
