//! The token that is shown to the server: `$BATON_HTTP_TOKEN`, else what stands in the file `$BATON_HTTP_TOKEN_FILE`. It may be a JWT.
//!
//! It stands in no URL, no error and no log, and is sent over TLS or to a loopback address only. A file is looked at again every second while it is
//! used: whatever renews a JWT replaces it there. What cannot be read or is no token changes nothing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use baton_election::tokens::{MAX_JWT_BYTES, TokenSecret, looks_like_jwt};
use baton_store::StoreError;
use http::header::HeaderValue;

use crate::files::{self, Stamp};
use crate::open::Settings;

const VARIABLE: &str = "BATON_HTTP_TOKEN";
const FILE: &str = "BATON_HTTP_TOKEN_FILE";
/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What shows who asks.
#[derive(Clone)]
pub(crate) enum Token {
    None,
    /// It stays the same.
    Fixed(HeaderValue),
    /// It is in a file, which is read again when it changes.
    File(Arc<TokenFile>),
}

/// A token in a file.
pub(crate) struct TokenFile {
    file: PathBuf,
    settings: Settings,
    current: Mutex<Current>,
}

struct Current {
    header: HeaderValue,
    stamp: Stamp,
    looked: Instant,
}

impl Token {
    /// The token, if there is one.
    pub(crate) fn of(settings: &Settings) -> Result<Token, StoreError> {
        let variable = std::env::var(VARIABLE).ok().filter(|token| !token.trim().is_empty());
        let file = std::env::var_os(FILE).filter(|file| !file.is_empty());
        Token::choose(settings, variable, file.as_deref().map(Path::new))
    }

    fn choose(
        settings: &Settings,
        variable: Option<String>,
        file: Option<&Path>,
    ) -> Result<Token, StoreError> {
        match (variable, file) {
            (Some(text), _) => Ok(Token::Fixed(header(settings, &text, &format!("${VARIABLE}"))?)),
            (None, Some(file)) => {
                let (header, stamp) = read(settings, file)?;
                let current = Mutex::new(Current { header, stamp, looked: Instant::now() });
                let kept = TokenFile { file: file.to_path_buf(), settings: settings.clone(), current };
                Ok(Token::File(Arc::new(kept)))
            }
            (None, None) => Ok(Token::None),
        }
    }

    pub(crate) fn is_some(&self) -> bool {
        !matches!(self, Token::None)
    }

    /// The header that shows it.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        match self {
            Token::None => None,
            Token::Fixed(header) => Some(header.clone()),
            Token::File(kept) => Some(kept.header(LOOK)),
        }
    }
}

impl TokenFile {
    /// The header; the file is looked at if that was longer ago than this.
    fn header(&self, look: Duration) -> HeaderValue {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked.elapsed() >= look {
            current.looked = Instant::now();
            if Stamp::of(&self.file).is_ok_and(|stamp| stamp != current.stamp)
                && let Ok((header, stamp)) = read(&self.settings, &self.file)
            {
                (current.header, current.stamp) = (header, stamp);
            }
        }
        current.header.clone()
    }
}

fn refused(settings: &Settings, why: String, hint: String) -> StoreError {
    StoreError::Refused { place: settings.base.clone(), why, hint }
}

/// What stands in a file that nobody else can read, and how the file stood before it was read.
fn read(settings: &Settings, file: &Path) -> Result<(HeaderValue, Stamp), StoreError> {
    let place = file.display();
    let unreadable = |error: std::io::Error| {
        let why = format!("the token in {place} cannot be read: {error}");
        refused(settings, why, format!("see ${FILE}"))
    };
    let metadata = std::fs::metadata(file).map_err(unreadable)?;
    if files::is_shared(&metadata) {
        let why = format!("others can read the token in {place}");
        return Err(refused(settings, why, format!("chmod 600 {place}")));
    }
    let text = std::fs::read_to_string(file).map_err(unreadable)?;
    Ok((header(settings, &text, &place.to_string())?, Stamp::from(&metadata)))
}

/// The header that shows a token.
fn header(settings: &Settings, text: &str, source: &str) -> Result<HeaderValue, StoreError> {
    let text = text.trim();
    let is_jwt = looks_like_jwt(text) && text.len() <= MAX_JWT_BYTES;
    if !is_jwt && let Err(why) = TokenSecret::parse(text) {
        let why = format!("what stands in {source} is not a token: {why}");
        let hint = "copy what `baton token create` printed, all of it; or a JWT of at most 8 KiB";
        return Err(refused(settings, why, hint.to_string()));
    }
    if settings.is_open() {
        let why = "over http:// everybody on the way could read the token".to_string();
        let hint = format!("use https://, or a tunnel to 127.0.0.1, or unset {VARIABLE} and {FILE}");
        return Err(refused(settings, why, hint));
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {text}")).map_err(|_| {
        refused(settings, format!("what stands in {source} cannot be sent"), "make another".to_string())
    })?;
    // So that it is not written by whoever logs headers.
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use baton_election::TokenId;

    use super::*;

    fn choose(
        settings: &Settings,
        variable: Option<String>,
        file: Option<&Path>,
    ) -> Result<Option<HeaderValue>, StoreError> {
        Token::choose(settings, variable, file).map(|token| token.header())
    }

    fn settings(url: &str) -> Settings {
        Settings::of(&url.parse().unwrap()).unwrap()
    }

    fn token() -> String {
        TokenSecret::new(TokenId([1; 6]), [2; 32]).reveal().to_string()
    }

    #[test]
    fn the_variable_comes_before_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, format!("{}\n", token())).unwrap();
        let allow = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        allow(0o600);
        let secure = settings("https://h");
        let shown = choose(&secure, None, Some(&file)).unwrap().unwrap();
        assert_eq!(shown, format!("Bearer {}", token()));
        assert!(!format!("{shown:?}").contains("0202"), "{shown:?}");
        let other = TokenSecret::new(TokenId([3; 6]), [4; 32]).reveal().to_string();
        assert_eq!(
            choose(&secure, Some(other.clone()), Some(&file)).unwrap().unwrap(),
            format!("Bearer {other}")
        );
        allow(0o640);
        let error = choose(&secure, None, Some(&file)).unwrap_err();
        assert!(error.hint().starts_with("chmod 600"), "{error}");
        assert!(choose(&secure, None, Some(&folder.path().join("none"))).is_err());
        assert!(choose(&secure, None, None).unwrap().is_none());
    }

    #[test]
    fn a_token_is_never_sent_in_the_open_nor_repeated() {
        assert!(choose(&settings("http://127.0.0.1"), Some(token()), None).unwrap().is_some());
        let error = choose(&settings("http://10.0.0.1"), Some(token()), None).unwrap_err();
        assert!(error.to_string().contains("http://10.0.0.1:7420"), "{error}");
        assert!(!format!("{error} {} {error:?}", error.hint()).contains("0202"), "{error}");
        let mistyped = token().replace("0202", "0203");
        let error = choose(&settings("https://h"), Some(mistyped), None).unwrap_err();
        assert!(error.to_string().contains("mistyped"), "{error}");
        assert!(!format!("{error} {error:?}").contains("0203"), "{error}");
    }

    #[test]
    fn a_file_that_was_replaced_is_read_again_and_a_bad_one_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let write = |text: &str, mode: u32| {
            let beside = folder.path().join("beside");
            std::fs::write(&beside, text).unwrap();
            std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(mode)).unwrap();
            std::fs::rename(&beside, &file).unwrap();
        };
        write("one.jwt.here\n", 0o600);
        let Token::File(kept) = Token::choose(&settings("https://h"), None, Some(&file)).unwrap() else {
            panic!("it is kept in a file");
        };
        let shown = || kept.header(Duration::ZERO).to_str().unwrap().to_string();
        assert_eq!(shown(), "Bearer one.jwt.here");
        write("two.jwt.here", 0o600);
        assert_eq!(
            kept.header(Duration::from_secs(3_600)),
            "Bearer one.jwt.here",
            "it is not looked at all the time"
        );
        assert_eq!(shown(), "Bearer two.jwt.here");
        for (text, mode) in [("", 0o600), ("half.a", 0o600), ("three.jwt.here", 0o644)] {
            write(text, mode);
            assert_eq!(shown(), "Bearer two.jwt.here", "{text}");
        }
        std::fs::remove_file(&file).unwrap();
        assert_eq!(shown(), "Bearer two.jwt.here");
        write(&token(), 0o600);
        assert_eq!(shown(), format!("Bearer {}", token()));
    }

    #[test]
    fn a_jwt_is_a_token_too() {
        let secure = settings("https://h");
        assert_eq!(choose(&secure, Some("a.b.c".to_string()), None).unwrap().unwrap(), "Bearer a.b.c");
        assert!(choose(&settings("http://10.0.0.1"), Some("a.b.c".to_string()), None).is_err());
        let long = format!("a.b.{}", "c".repeat(MAX_JWT_BYTES));
        for odd in ["a.b", "a.b.c.d", "a.b.c d", &long] {
            let error = choose(&secure, Some(odd.to_string()), None).unwrap_err();
            assert!(error.hint().contains("JWT"), "{error}");
        }
    }
}
