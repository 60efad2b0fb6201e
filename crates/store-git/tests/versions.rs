//! A later Baton reads the refs of earlier ones.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::path::Path;

use baton_store::conformance::fixtures::{FORMATS, read_every_kind};

use crate::support::{TestRepository, git};

#[tokio::test]
async fn refs_of_every_format_are_read() {
    for format in FORMATS {
        let bundle = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/format-{format}.bundle"));
        let place = TestRepository::new();
        git(&place.remote(), &["fetch", "-q", bundle.to_str().unwrap(), "refs/baton/*:refs/baton/*"]);
        let before = git(&place.remote(), &["for-each-ref"]);
        // Two accepted tokens fit into the fence.
        read_every_kind(&place.store("one"), &["fence-log"]).await;
        assert_eq!(git(&place.remote(), &["for-each-ref"]), before, "to read changes nothing");
    }
}
