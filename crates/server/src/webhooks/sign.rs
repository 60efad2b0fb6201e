//! How a receiver knows that a delivery comes from this server: `Baton-Signature: t=SECONDS,v1=HEX`, where HEX is the HMAC-SHA256, by the
//! secret, of the seconds, a dot and the body. The seconds let a receiver refuse what is old.

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The shortest secret.
const SHORTEST: usize = 16;

/// What deliveries are signed with. It is never shown.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// The text of a file, without the white space around it; none if it is too short to keep anybody out.
    pub fn new(text: &str) -> Option<Secret> {
        let text = text.trim();
        (text.len() >= SHORTEST).then(|| Secret(text.as_bytes().to_vec()))
    }

    /// The value of the header.
    pub(super) fn sign(&self, seconds: u64, body: &[u8]) -> String {
        let mut signature = format!("t={seconds},v1=");
        // Any length of key will do.
        if let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) {
            mac.update(format!("{seconds}.").as_bytes());
            mac.update(body);
            for byte in mac.finalize().into_bytes() {
                let _ = write!(signature, "{byte:02x}");
            }
        }
        signature
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_others_compute() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac 0123456789abcdef
        let secret = Secret::new("0123456789abcdef\n").unwrap();
        assert_eq!(
            secret.sign(1_700_000_000, br#"{"a":1}"#),
            "t=1700000000,v1=9eb18f493f8ec135d9eb2dad817c369bb4e9cbfa818657897a7437c1cd8c3a23"
        );
    }

    #[test]
    fn a_short_secret_is_none() {
        assert!(Secret::new(" 0123456789abcde \n").is_none());
    }
}
