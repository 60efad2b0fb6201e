//! Replays what fuzzing found, or began with: every input of `fuzz/corpus` through its target. `scripts/fuzz` looks for more.
//! Time and memory are watched, too: no input may take long or much.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 12] = [
    ("batches", baton_server::fuzzing::batches),
    ("bodies", baton_server::fuzzing::bodies),
    ("frame", baton_store_embedded::fuzzing::frame),
    ("git", baton_store_git::fuzzing::output),
    ("jwt", baton_server::fuzzing::jwt),
    ("journal", baton_store_embedded::fuzzing::journal),
    ("messages", baton_node::fuzzing::messages),
    ("names", baton_store::fuzzing::names),
    ("pilot", baton_node::fuzzing::pilot),
    ("records", baton_store::fuzzing::records),
    ("routes", baton_server::fuzzing::routes),
    ("stream", baton_node::fuzzing::stream),
];

/// For one input, of at most some hundred kilobytes. Parsing one takes milliseconds; a machine may stand still.
const TOO_LONG: Duration = Duration::from_secs(30);
/// By how much the process may have grown at the end.
const TOO_MUCH_KIB: u64 = 512 * 1024;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

fn inputs(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(corpus().join(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn every_input_of_the_corpus_is_survived_in_time() {
    let before = resident_kib();
    let mut replayed = 0;
    for (name, target) in TARGETS {
        for (path, data) in inputs(name) {
            let begun = Instant::now();
            target(&data);
            // What is cut off or damaged is the next thing that a stranger sends.
            target(&data[..data.len() / 2]);
            let turned: Vec<u8> = data.iter().rev().copied().collect();
            target(&turned);
            let took = begun.elapsed();
            assert!(took < TOO_LONG, "{} took {took:?}", path.display());
            replayed += 1;
        }
    }
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < TOO_MUCH_KIB, "the process grew by {grown} KiB");
    assert!(replayed >= 3 * TARGETS.len(), "only {replayed} inputs");
}

#[test]
fn every_target_has_a_corpus_a_test_and_a_place_in_the_script() {
    let named: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_string()).collect();
    let folders: BTreeSet<String> = fs::read_dir(corpus())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(folders, named);
    let tests = fs::read_to_string(corpus().join("../targets.rs")).unwrap();
    let tested: BTreeSet<String> = tests
        .lines()
        .filter_map(|line| line.strip_prefix("target!(")?.split_once(','))
        .map(|(name, _)| name.to_string())
        .collect();
    assert_eq!(tested, named);
    let script = fs::read_to_string(corpus().join("../../scripts/fuzz")).unwrap();
    let all = script.lines().find_map(|line| line.strip_prefix("all=(")).unwrap().trim_end_matches(')');
    assert_eq!(all.split(' ').map(ToString::to_string).collect::<BTreeSet<_>>(), named);
}
