//! The page for people, inside the binary: a few files, none of which holds anything of an election.
//!
//! Everybody may have them: what they show is asked for by the same routes as everywhere. Nothing but files of this server is run, and
//! text is never taken for markup (`require-trusted-types-for`).

use std::sync::LazyLock;

use baton_election::ContentHash;
use bytes::Bytes;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};

use super::reply::{Problem, Reply, empty, reply, typed};

/// What the page may do: talk to this server, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// A file: its name, its kind, what is in it.
type File = (&'static str, &'static str, &'static str);

macro_rules! files {
    ($($name:literal $kind:expr;)*) => {
        /// All of them.
        const FILES: [File; [$($name),*].len()] = [$(($name, $kind, include_str!(concat!("../../page/", $name))),)*];
        /// Their names.
        pub(super) const NAMES: [&str; FILES.len()] = [$($name),*];
    };
}

files! {
    "index.html" HTML;
    "style.css" "text/css; charset=utf-8";
    "icon.svg" "image/svg+xml";
    "acts.js" SCRIPT;
    "agents.js" SCRIPT;
    "alerts.js" SCRIPT;
    "api.js" SCRIPT;
    "app.js" SCRIPT;
    "approvals.js" SCRIPT;
    "dialog.js" SCRIPT;
    "everything.js" SCRIPT;
    "audit.js" SCRIPT;
    "dom.js" SCRIPT;
    "election.js" SCRIPT;
    "elections.js" SCRIPT;
    "model.js" SCRIPT;
    "sign.js" SCRIPT;
    "stream.js" SCRIPT;
    "tasks.js" SCRIPT;
    "time.js" SCRIPT;
    "timeline.js" SCRIPT;
    "timelines.js" SCRIPT;
}

/// The kinds of the files, without what they are written in.
pub(super) fn kinds() -> Vec<&'static str> {
    let mut kinds: Vec<&str> = FILES.iter().filter_map(|(_, kind, _)| kind.split(';').next()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// By what a browser knows whether it has a file already.
static TAGS: LazyLock<[HeaderValue; FILES.len()]> = LazyLock::new(|| {
    FILES.map(|(_, _, text)| {
        let tag = format!("\"{:.16}\"", ContentHash::of(text.as_bytes()));
        HeaderValue::try_from(tag).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
    })
});

/// One of the files.
pub(super) fn file(name: &str, headers: &HeaderMap) -> Result<Reply, Problem> {
    let Some(place) = NAMES.iter().position(|known| *known == name) else {
        return Err(Problem::new(
            StatusCode::NOT_FOUND,
            "no-such-route",
            "the page has no such file",
            "the page is at /",
        ));
    };
    let (_, kind, text) = FILES[place];
    let tag = &TAGS[place];
    let known = headers.get(IF_NONE_MATCH).is_some_and(|shown| shown == tag || shown == "*");
    let mut file = match known {
        true => typed(StatusCode::NOT_MODIFIED, kind, empty()),
        false => reply(StatusCode::OK, kind, Bytes::from_static(text.as_bytes())),
    };
    let set = file.headers_mut();
    set.insert(ETAG, tag.clone());
    // It is asked each time whether there is another one: a new server brings a new page.
    set.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    set.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        set.insert(name, HeaderValue::from_static(value));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_takes_text_for_markup_or_code() {
        for (name, _, text) in FILES {
            for word in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
            {
                assert!(!text.contains(word), "{name} has {word}");
            }
        }
        let index = FILES[0].2;
        assert!(!index.contains("<script>") && !index.contains("style=") && !index.contains("onclick"));
    }

    #[test]
    fn every_file_that_is_asked_for_is_there() {
        let mut asked = 0;
        for (name, _, text) in FILES {
            let quoted = text.split('"').filter(|word| word.starts_with("./") || word.starts_with("/page/"));
            for word in quoted {
                let file = word.trim_start_matches("./").trim_start_matches("/page/");
                assert!(NAMES.contains(&file), "{name} asks for {file}");
                asked += 1;
            }
        }
        assert!(asked > NAMES.len(), "{asked}");
    }

    #[test]
    fn what_a_browser_has_is_not_sent_again() {
        let first = file("app.js", &HeaderMap::new()).unwrap();
        assert_eq!(first.status(), StatusCode::OK);
        let tag = first.headers().get(ETAG).unwrap().clone();
        let again = file("app.js", &HeaderMap::from_iter([(IF_NONE_MATCH, tag.clone())])).unwrap();
        assert_eq!((again.status(), again.headers().get(ETAG)), (StatusCode::NOT_MODIFIED, Some(&tag)));
        assert!(file("../Cargo.toml", &HeaderMap::new()).is_err());
    }
}
