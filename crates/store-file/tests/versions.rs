//! A later Baton reads the folders of earlier ones.

use std::path::Path;

use baton_store::Access;
use baton_store::boot::Boot;
use baton_store::conformance::fixtures::{FORMATS, read_every_kind};
use baton_store_file::{FileStore, Machine};

use crate::support::tree;

#[tokio::test]
async fn folders_of_every_format_are_read_and_left_as_they_are() {
    for format in FORMATS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/format-{format}"));
        let before = tree(&folder);
        assert!(!before.is_empty(), "{} is the fixture of this format", folder.display());
        // Stamps are told by one machine only; these are of no real one.
        let here = Boot {
            machine: "fixture".to_string(),
            time_namespace: "time".to_string(),
            boot: "boot".to_string(),
        };
        let store =
            FileStore::open_on(Machine { here, ..Machine::current() }, &folder, Access::Read).unwrap();
        read_every_kind(&store, &[]).await;
        drop(store);
        assert_eq!(tree(&folder), before, "to read changes nothing");
    }
}
