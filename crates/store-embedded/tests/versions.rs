//! A later Baton opens the files of earlier ones: the database, and the journal that a killed process left.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::path::{Path, PathBuf};

use baton_store::Access;
use baton_store::conformance::fixtures::{FORMATS, read_every_kind};
use baton_store_embedded::EmbeddedStore;

use crate::support::TestStore;

/// A file of this format: its length, then what is not zero in it, each piece behind its offset.
fn fixture(place: &TestStore, format: u32) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/format-{format}.hex"));
    let text = std::fs::read_to_string(from).unwrap();
    let mut lines = text.lines();
    let mut bytes = vec![0; lines.next().unwrap().parse().unwrap()];
    for line in lines {
        let (offset, piece) = line.split_once(' ').unwrap();
        let offset = usize::from_str_radix(offset, 16).unwrap();
        for (at, digits) in piece.as_bytes().chunks(2).enumerate() {
            let digits = std::str::from_utf8(digits).unwrap();
            bytes[offset + at] = u8::from_str_radix(digits, 16).unwrap();
        }
    }
    let path = place.file(&format!("format-{format}.redb"));
    std::fs::write(&path, bytes).unwrap();
    path
}

#[tokio::test]
async fn files_of_every_format_are_opened_by_readers_and_writers() {
    for format in FORMATS {
        let place = TestStore::new();
        let path = fixture(&place, format);
        for access in [Access::Read, Access::Write] {
            let store = EmbeddedStore::open(&path, access).unwrap();
            // A server keeps candidates in memory, and one accepted token fits into the fence.
            read_every_kind(&store, &["candidate", "fence-log"]).await;
        }
    }
}
