//! What trace a request is part of: `$TRACEPARENT`, as W3C Trace Context has it, is passed on to the server as it is. What is none is not
//! sent.

use http::header::HeaderValue;

const VARIABLE: &str = "TRACEPARENT";

/// The header that tells of it, if this process is part of a trace.
pub(crate) fn header() -> Option<HeaderValue> {
    std::env::var(VARIABLE).ok().and_then(|text| checked(text.trim()))
}

/// `00-` and three numbers of 16, 8 and 1 bytes.
fn checked(text: &str) -> Option<HeaderValue> {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    let small = |c: char| c == '-' || c.is_ascii_digit() || ('a'..='f').contains(&c);
    let fits = lengths == [2, 32, 16, 2] && text.chars().all(small) && !text.starts_with("ff");
    if fits { HeaderValue::from_str(text).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_one_is_passed_on() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(checked(text).unwrap(), text);
        for odd in ["", "00", &text[1..], &text.replace('4', "G"), &text.replace("00-", "ff-"), "a\nb"] {
            assert!(checked(odd).is_none(), "{odd:?}");
        }
    }
}
