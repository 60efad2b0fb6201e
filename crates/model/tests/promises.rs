//! In every world of the catalogue every promise is kept, and what must happen does.
//!
//! `cargo test -p baton-model -- --nocapture` shows what was explored; with `BATON_CAMPAIGN` set it is much more.
#![expect(clippy::print_stdout, reason = "the report is what one runs this for")]

use std::sync::Mutex;
use std::thread;

use baton_model::{Config, Exploration, run};

/// Two searches at a time, each in one thread: as quick as one in two threads, and the same every time.
fn explored(configs: Vec<Config>) -> Vec<Exploration> {
    let left = Mutex::new(configs);
    let next = || left.lock().ok()?.pop();
    let search = || {
        let mut done = Vec::new();
        while let Some(config) = next() {
            let exploration = run(config);
            println!("{exploration}");
            done.push(exploration);
        }
        done
    };
    thread::scope(|scope| {
        let other = scope.spawn(search);
        let mut done = search();
        done.extend(other.join().expect("the search does not panic"));
        done
    })
}

#[test]
fn every_promise_is_kept_in_a_million_worlds() {
    let configs = Config::promises(std::env::var_os("BATON_CAMPAIGN").is_some());
    let count = configs.len();
    let explorations = explored(configs);
    let states: usize = explorations.iter().map(|exploration| exploration.states).sum();
    println!("{states} states in {count} configurations");
    assert_eq!(explorations.len(), count);
    for exploration in &explorations {
        assert!(exploration.broken.is_empty(), "{exploration}");
        assert_eq!(exploration.missing(), Vec::<&str>::new(), "{exploration}");
    }
    assert!(states > 1_000_000);
}
