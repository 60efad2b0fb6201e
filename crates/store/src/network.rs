//! What the network did, in words for people: libraries wrap it into words of their own.

use std::error::Error;
use std::io::{self, ErrorKind};

/// What a failure of the network was, if it was one: found among all that caused an error.
pub fn network_failure(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut cause = Some(error);
    let mut found = None;
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>();
        found = io.and_then(|io| of_kind(io.kind())).or_else(|| of_words(&error.to_string())).or(found);
        // An error of IO names the cause of what it wraps, and not what it wraps, as its own cause.
        cause = match io.and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    found
}

fn of_kind(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::ConnectionRefused => Some("nothing listens there (connection refused)"),
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::UnexpectedEof => Some("the connection was cut"),
        ErrorKind::TimedOut => Some("no connection was made in time"),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Some("no way leads there from here"),
        _ => None,
    }
}

/// What only says in words what it is.
fn of_words(words: &str) -> Option<&'static str> {
    if words.contains("failed to lookup address") || words.contains("dns error") {
        return Some("its host is not known by that name (DNS)");
    }
    if words.starts_with("deadline has elapsed") {
        return Some("no connection was made in time");
    }
    let odd = ["InvalidContentType", "frame with invalid size", "unexpected message from connection"];
    if odd.iter().any(|odd| words.contains(odd)) {
        return Some("what answers there speaks another protocol");
    }
    let cut = ["h2 protocol error", "connection closed"];
    cut.iter().any(|cut| words.contains(cut)).then_some("the connection was cut")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_network_did_is_found_below_what_others_say_of_it() {
        let wrapped = |kind: ErrorKind| io::Error::other(io::Error::other(io::Error::from(kind)));
        let refused = network_failure(&wrapped(ErrorKind::ConnectionRefused)).unwrap();
        assert!(refused.contains("connection refused"), "{refused}");
        assert_eq!(network_failure(&wrapped(ErrorKind::UnexpectedEof)), Some("the connection was cut"));
        let unknown = io::Error::other("failed to lookup address information: Name or service not known");
        assert!(network_failure(&unknown).unwrap().contains("DNS"));
        let odd = network_failure(&io::Error::other("received corrupt message of type InvalidContentType"));
        assert_eq!(odd, Some("what answers there speaks another protocol"));
        assert_eq!(network_failure(&io::Error::other("invalid peer certificate")), None);
    }
}
