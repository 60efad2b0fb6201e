//! What is guarded: where it is, and what of a request and of an answer is passed on.

use std::net::IpAddr;
use std::path::PathBuf;

use baton_http_listener::Problem;
use baton_http_listener::outgoing::{self, Client, Trust};
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, VIA};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Response, Uri};
use hyper::body::Incoming;

use crate::StartError;
use crate::forward::Body;
use crate::problem::SAID_BY_GUARD;
use crate::request;

/// Headers that concern one connection only.
const OF_A_CONNECTION: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What is guarded.
pub(crate) struct Upstream {
    client: Client<Body>,
    scheme: Scheme,
    authority: Authority,
    /// What the path of every request is put behind; does not end in a slash.
    base: String,
    host: HeaderValue,
    /// By what this guard is known among those that pass a request on.
    pub(crate) name: String,
    via: HeaderValue,
}

impl Upstream {
    /// What a URL names; `authority` are the certificates that are believed, else the system's.
    pub(crate) fn new(url: &str, authority: Option<&PathBuf>, name: String) -> Result<Upstream, StartError> {
        let wrong = |why: &str| StartError::Upstream { url: url.to_string(), why: why.to_string() };
        let uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| wrong(&error.to_string()))?;
        let parts = uri.into_parts();
        let scheme = parts.scheme.filter(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme));
        let (Some(scheme), Some(address)) = (scheme, parts.authority) else {
            return Err(wrong("it is not http://HOST[:PORT][/PATH] or https://…"));
        };
        if address.as_str().contains('@') {
            return Err(wrong("it holds a password: send it with the requests"));
        }
        if parts.path_and_query.as_ref().is_some_and(|path| path.query().is_some()) {
            return Err(wrong("it has a query"));
        }
        let base = parts.path_and_query.map(|path| path.path().trim_end_matches('/').to_string());
        let header = |text: &str| HeaderValue::from_str(text).map_err(|error| wrong(&error.to_string()));
        let trust = match authority {
            _ if scheme == Scheme::HTTP => Trust::Nobody,
            Some(file) => Trust::File(file),
            None => Trust::System,
        };
        Ok(Upstream {
            client: outgoing::client(trust).map_err(StartError::Certificates)?,
            host: header(address.as_str())?,
            via: header(&format!("1.1 {name}"))?,
            base: base.unwrap_or_default(),
            authority: address,
            scheme,
            name,
        })
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn send(&self, request: http::Request<Body>) -> Result<Response<Incoming>, Problem> {
        let response = self.client.request(request).await;
        let mut response = response.map_err(|error| bad_gateway(&outgoing::cause(&error)))?;
        if response.status().is_informational() {
            return Err(bad_gateway("it changed to another protocol"));
        }
        let headers = response.headers_mut();
        strip(headers);
        headers.remove(SAID_BY_GUARD);
        headers.append(VIA, self.via.clone());
        Ok(response)
    }

    /// What of a request is passed on, as one to the upstream, and by which scheme it came. Its length is told anew, by what arrives.
    pub(crate) fn readdress(&self, parts: &mut Parts, peer: IpAddr, came_by: Scheme) -> Result<(), Problem> {
        let path = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        if !path.starts_with('/') {
            return Err(Problem::invalid("the request names no path", "a path begins with a slash"));
        }
        if !self.base.is_empty() && request::climbs(parts.uri.path()) {
            return Err(Problem::invalid(
                "the path has a segment `.` or `..`, by which it could leave the guarded part of the upstream",
                "send the path without dot segments",
            ));
        }
        let uri = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone());
        let uri = uri.path_and_query(format!("{}{path}", self.base)).build();
        parts.uri = uri.map_err(|error| Problem::invalid(error.to_string(), "send another path"))?;
        parts.version = http::Version::HTTP_11;
        parts.extensions = http::Extensions::new();
        let headers = &mut parts.headers;
        strip(headers);
        headers.remove(CONTENT_LENGTH);
        headers.remove(EXPECT);
        let asked_for = headers.insert(HOST, self.host.clone());
        if let Some(asked_for) = asked_for {
            headers.insert(HeaderName::from_static("x-forwarded-host"), asked_for);
        }
        let came_by = HeaderValue::from_static(if came_by == Scheme::HTTPS { "https" } else { "http" });
        headers.insert(HeaderName::from_static("x-forwarded-proto"), came_by);
        let mut passed_by: Vec<String> = request::names(headers, &FORWARDED_FOR).collect();
        passed_by.push(peer.to_string());
        if let Ok(passed_by) = HeaderValue::from_str(&passed_by.join(", ")) {
            headers.insert(FORWARDED_FOR, passed_by);
        }
        headers.append(VIA, self.via.clone());
        Ok(())
    }
}

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Headers for the other end that `Connection` must not take out: the service would judge the request by less than its client sent. Those
/// of Baton begin with `baton-`.
const END_TO_END: [&str; 8] = [
    "authorization",
    "cookie",
    "forwarded",
    "host",
    "set-cookie",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
];

/// Takes out what concerns one connection only, and what a header says does.
fn strip(headers: &mut HeaderMap) {
    let may_go = |name: &String| !name.starts_with("baton-") && !END_TO_END.contains(&name.as_str());
    let named: Vec<String> = request::names(headers, &CONNECTION).filter(may_go).collect();
    for name in named.iter().map(String::as_str).chain(OF_A_CONNECTION) {
        headers.remove(name);
    }
}

fn bad_gateway(why: &str) -> Problem {
    Problem::new(
        http::StatusCode::BAD_GATEWAY,
        "upstream",
        format!("the upstream failed: {why}"),
        "a write that it had received whole may have been carried out",
    )
}
