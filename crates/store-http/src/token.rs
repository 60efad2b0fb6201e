//! The token that is shown to the server: `$BATON_HTTP_TOKEN`, else what stands in the file `$BATON_HTTP_TOKEN_FILE`.
//!
//! It stands in no URL, no error and no log. It is read once, when the store is opened, and is sent over TLS or to a loopback address only.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use baton_election::tokens::TokenSecret;
use baton_store::StoreError;
use http::header::HeaderValue;

use crate::open::Settings;

const VARIABLE: &str = "BATON_HTTP_TOKEN";
const FILE: &str = "BATON_HTTP_TOKEN_FILE";

/// The header that shows the token, if there is one.
pub(crate) fn header(settings: &Settings) -> Result<Option<HeaderValue>, StoreError> {
    let variable = std::env::var(VARIABLE).ok().filter(|token| !token.trim().is_empty());
    let file = std::env::var_os(FILE).filter(|file| !file.is_empty());
    choose(settings, variable, file.as_deref().map(Path::new))
}

fn choose(
    settings: &Settings,
    variable: Option<String>,
    file: Option<&Path>,
) -> Result<Option<HeaderValue>, StoreError> {
    let refused = |why: String, hint: String| StoreError::Refused { place: settings.base.clone(), why, hint };
    let (text, source) = match (variable, file) {
        (Some(text), _) => (text, format!("${VARIABLE}")),
        (None, Some(file)) => {
            let place = file.display();
            let unreadable = |error: std::io::Error| {
                refused(format!("the token in {place} cannot be read: {error}"), format!("see ${FILE}"))
            };
            let mode = std::fs::metadata(file).map_err(unreadable)?.permissions().mode();
            if mode & 0o077 != 0 {
                let why = format!("others can read the token in {place}");
                return Err(refused(why, format!("chmod 600 {place}")));
            }
            (std::fs::read_to_string(file).map_err(unreadable)?, place.to_string())
        }
        (None, None) => return Ok(None),
    };
    let secret = TokenSecret::parse(text.trim()).map_err(|why| {
        refused(
            format!("what stands in {source} is not a token: {why}"),
            "copy what `baton token create` printed, all of it".to_string(),
        )
    })?;
    if settings.is_open() {
        return Err(refused(
            "over http:// everybody on the way could read the token".to_string(),
            format!("use https://, or a tunnel to 127.0.0.1, or unset {VARIABLE} and {FILE}"),
        ));
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {}", secret.reveal())).map_err(|_| {
        refused(format!("what stands in {source} cannot be sent"), "make another".to_string())
    })?;
    // So that it is not written by whoever logs headers.
    header.set_sensitive(true);
    Ok(Some(header))
}

#[cfg(test)]
mod tests {
    use baton_election::TokenId;

    use super::*;

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
}
