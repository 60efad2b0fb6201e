//! Bugs planted one at a time in what ships: the laboratory finds each of them.
//!
//! `BATON_CAMPAIGN=1 cargo test -p baton-lab --test it mutants -- --nocapture` plants and hunts them all, which takes many minutes, and tells how
//! many seeds each took; `BATON_MUTANT=WORDS` beside it hunts only those whose name has these words. Otherwise it is only
//! checked that every bug can still be planted.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stdout, reason = "the seeds that each took are wanted")]

mod list;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fmt, fs};

use list::{MUTANTS, Mutant};

/// Enough for the rarest: a bug that so many seeds do not show counts as missed.
const MOST_SEEDS: u64 = 400_000;
/// What the laboratory is built of.
const CRATES: [&str; 3] = ["election", "peer", "lab"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn source(root: &Path, mutant: &Mutant) -> String {
    fs::read_to_string(root.join(mutant.file)).unwrap()
}

#[test]
fn at_least_twenty_bugs_can_be_planted() {
    assert!(MUTANTS.len() >= 20, "{}", MUTANTS.len());
    let names: BTreeSet<&str> = MUTANTS.iter().map(|mutant| mutant.name).collect();
    assert_eq!(names.len(), MUTANTS.len(), "each has a name of its own");
    for mutant in MUTANTS {
        let found = source(&root(), mutant).matches(mutant.old).count();
        assert_eq!(found, 1, "{}: `{}` stands {found} times in {}", mutant.name, mutant.old, mutant.file);
        assert_ne!(mutant.old, mutant.new, "{}", mutant.name);
        assert!(!mutant.breaks.is_empty(), "{}", mutant.name);
    }
}

#[test]
fn every_planted_bug_is_caught() {
    if env::var_os("BATON_CAMPAIGN").is_none() {
        // Each takes a build of its own: that the list fits is checked above.
        return assert!(MUTANTS.iter().all(|mutant| mutant.file.starts_with("crates/")));
    }
    let wanted = env::var("BATON_MUTANT").unwrap_or_default();
    let place = Workshop::open();
    let mut missed = Vec::new();
    for mutant in MUTANTS.iter().filter(|mutant| mutant.name.contains(&wanted)) {
        let found = place.hunt(mutant);
        println!("{:<68} {found}", mutant.name);
        match found {
            HuntResult::Broken { invariant, .. } if mutant.breaks.contains(&invariant.as_str()) => {}
            other => missed.push(format!("{}: {other}; expected {:?}", mutant.name, mutant.breaks)),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// What a hunt found.
enum HuntResult {
    /// So many seeds until a promise broke.
    Broken { seeds: u64, invariant: String },
    /// Nothing.
    Nothing,
    /// It did not even build or run.
    Failed(String),
}

impl fmt::Display for HuntResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HuntResult::Broken { seeds, invariant } => write!(f, "{seeds:>7} seeds: {invariant}"),
            HuntResult::Nothing => write!(f, "MISSED in {MOST_SEEDS} seeds"),
            HuntResult::Failed(why) => write!(f, "FAILED: {why}"),
        }
    }
}

/// A copy of what the laboratory is built of, with a target folder of its own.
struct Workshop {
    folder: PathBuf,
}

impl Workshop {
    fn open() -> Workshop {
        let root = root();
        // Beside the other things that are built, so that the next hunt need not build all again.
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mutants");
        fs::create_dir_all(&folder).unwrap();
        let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
        let members = CRATES.map(|name| format!("\"crates/{name}\"")).join(", ");
        let manifest = manifest
            .replace(r#"members = ["crates/*", "bench", "xtask"]"#, &format!("members = [{members}]"))
            .replace(r#"default-members = ["crates/cli"]"#, "");
        assert!(manifest.contains(&members), "the workspace's manifest has another form");
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
        for name in CRATES {
            let copy = folder.join("crates").join(name);
            let _ = fs::remove_dir_all(&copy);
            copy_folder(&root.join("crates").join(name), &copy);
        }
        Workshop { folder }
    }

    fn hunt(&self, mutant: &Mutant) -> HuntResult {
        let file = self.folder.join(mutant.file);
        // As it was copied: somebody may be working on the original.
        let sound = source(&self.folder, mutant);
        fs::write(&file, sound.replace(mutant.old, mutant.new)).unwrap();
        let found = self.build_and_run(mutant);
        fs::write(&file, sound).unwrap();
        found
    }

    fn build_and_run(&self, mutant: &Mutant) -> HuntResult {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--offline", "--quiet", "-p", "baton-lab", "--example", "hunt"])
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", self.folder.join("target"))
            .env("RUSTFLAGS", "-A warnings")
            .output()
            .unwrap();
        if !built.status.success() {
            return HuntResult::Failed(String::from_utf8_lossy(&built.stderr).into_owned());
        }
        let hunt = Command::new(self.folder.join("target/debug/examples/hunt"))
            .args([mutant.algorithm, &MOST_SEEDS.to_string(), mutant.scenario])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&hunt.stdout);
        let first = said.lines().next().unwrap_or_default();
        let Some((seed, rest)) = first.strip_prefix("BROKEN seed ").and_then(|rest| rest.split_once(": "))
        else {
            return match first.starts_with("clean") {
                true => HuntResult::Nothing,
                false => HuntResult::Failed(String::from_utf8_lossy(&hunt.stderr).into_owned()),
            };
        };
        let invariant = rest.split_once(" at ").map_or(rest, |(invariant, _)| invariant);
        HuntResult::Broken { seeds: seed.parse::<u64>().unwrap() + 1, invariant: invariant.to_string() }
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}
