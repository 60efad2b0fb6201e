//! The heart of `e2e_stopping` on every store that needs a server of others: CMD is gone before the next leader's starts.
//!
//! `e2e_stopping` has all of it on a folder, `e2e_helpers` this much in git and at a Baton server. An embedded file has one process alone, which is that server.
#![cfg(feature = "all-stores")]
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support::World;
use crate::support::faults::{FAULTS, suffer_each};
use crate::support::test_stores::{self, TestStore, in_each_server};

fn suffer(place: impl Fn() -> Option<TestStore> + Sync) {
    // Whether there is such a server is found out once, and said once.
    if place().is_some() {
        suffer_each(
            &FAULTS,
            || place().unwrap(),
            |place| {
                let world = World::on(&place.url);
                world.ok(&["init"]);
                world
            },
        );
    }
}

in_each_server!(suffer);
