//! The secret half of a token: what its bearer shows.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use crate::hex;
use crate::id::{ContentHash, TokenId};

/// What a token begins with.
const PREFIX: &str = "baton_";
/// The longest JWT.
pub const MAX_JWT_BYTES: usize = 8 * 1024;
/// How many bytes of a hash tell a typing error.
const CHECK_BYTES: usize = 4;

/// Whether a text looks like a JWT: three parts in base64url, with dots between them. No token of Baton's own has a dot.
pub fn looks_like_jwt(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(is_letter);
    text.split('.').count() == 3 && text.split('.').all(is_part)
}

/// A token itself: `baton_ID_SECRET`. It is shown only once, to the operator that made it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSecret(String);

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(…)")
    }
}

impl TokenSecret {
    /// The token of this id and these random bytes.
    pub fn new(id: TokenId, secret: [u8; 32]) -> TokenSecret {
        let body = format!("{PREFIX}{id}_{}", hex::encode(&secret));
        let check = hex::encode(&ContentHash::of(body.as_bytes()).0[..CHECK_BYTES]);
        TokenSecret(format!("{body}{check}"))
    }

    /// Reads one, and tells what was mistyped or cut off. The error does not repeat it.
    pub fn parse(text: &str) -> Result<TokenSecret, &'static str> {
        if TokenId::shown_in(text).is_none() {
            return Err("it does not look like baton_ID_SECRET");
        }
        let cut = text.len().checked_sub(2 * CHECK_BYTES).and_then(|at| text.split_at_checked(at));
        let intact = cut.is_some_and(|(body, check)| {
            hex::decode::<CHECK_BYTES>(check).as_ref().map(<[u8; 4]>::as_slice)
                == Some(&ContentHash::of(body.as_bytes()).0[..CHECK_BYTES])
        });
        if intact { Ok(TokenSecret(text.to_string())) } else { Err("it was cut off or mistyped") }
    }

    /// The text, to be sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What is kept of it.
    pub fn hash(&self) -> ContentHash {
        ContentHash::of(self.0.as_bytes())
    }
}

impl TokenId {
    /// The id that stands in a token's text, which may be anything else besides.
    pub fn shown_in(token: &str) -> Option<TokenId> {
        token.strip_prefix(PREFIX)?.split_once('_')?.0.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jwt_is_told_from_a_token() {
        assert!(looks_like_jwt("eyJ.eyJ.c2ln") && looks_like_jwt("a-_.b.c"));
        let token = TokenSecret::new(TokenId([7; 6]), [9; 32]);
        for odd in
            [token.reveal(), "", "a.b", "a.b.c.d", "a..c", "a.b.", ".b.c", "a.b=.c", "a.b c.d", "a.b+.c"]
        {
            assert!(!looks_like_jwt(odd), "{odd}");
        }
    }

    #[test]
    fn a_token_tells_when_it_was_mistyped_and_never_itself() {
        let secret = TokenSecret::new(TokenId([7; 6]), [9; 32]);
        let text = secret.reveal().to_string();
        assert_eq!(TokenSecret::parse(&text), Ok(secret.clone()));
        assert_eq!(TokenId::shown_in(&text), Some(TokenId([7; 6])));
        for wrong in [text.replace("0909", "0908"), text[..text.len() - 1].to_string(), format!("{text}0")] {
            let error = TokenSecret::parse(&wrong).unwrap_err();
            assert_eq!(error, "it was cut off or mistyped");
        }
        for odd in ["", "baton_", "baton_é_é", "secret", "baton_07_00"] {
            assert!(TokenSecret::parse(odd).is_err(), "{odd}");
        }
        assert_eq!(format!("{secret:?}"), "TokenSecret(…)");
    }
}
