//! The core stays pure: no clock, no IO, no threads, no random order.

use crate::Finding;
use crate::rust_code::{code_only, identifiers, line_of};
use crate::tree::Tree;

const SOURCE: &str = "crates/election/src/";
const ROOT: &str = "crates/election/src/lib.rs";
const MANIFEST: &str = "crates/election/Cargo.toml";

/// Names of the standard library that the core must not use, whatever the path they are reached by.
const IMPURE: &[(&str, &str)] = &[
    ("std", "the core is no_std: use core and alloc"),
    ("HashMap", "its order is random: use BTreeMap"),
    ("HashSet", "its order is random: use BTreeSet"),
    ("rand", "randomness comes in with the command"),
    ("getrandom", "randomness comes in with the command"),
    ("Instant", "time comes in with the evidence"),
    ("SystemTime", "time comes in with the evidence"),
];

/// Crates that the core must not depend on, tests aside.
const IMPURE_CRATES: &[&str] = &["getrandom", "libc", "rand", "rustix", "tokio"];

/// Checks the sources and the manifest of `crates/election`.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let root = tree.file(ROOT).map_or("", |file| file.text.as_str());
    let root_code = squeeze(&code_only(root));
    if !root_code.contains("#![no_std]") {
        findings.push(Finding::whole(ROOT, "the core has #![no_std], always: no cfg_attr"));
    }
    let manifest = tree.file(MANIFEST).map_or("", |file| file.text.as_str());
    if !root_code.contains("#![forbid(unsafe_code)]") && !workspace_forbids_unsafe(tree, manifest) {
        let message =
            "the core forbids unsafe code: by the lints of the workspace, or #![forbid(unsafe_code)]";
        findings.push(Finding::whole(ROOT, message));
    }
    for name in section_keys(manifest, "[dependencies]") {
        if IMPURE_CRATES.contains(&name) {
            findings.push(Finding::whole(MANIFEST, format!("the core must not depend on {name}")));
        }
    }
    for file in tree.under(SOURCE, ".rs").filter(|file| !is_test(&file.path)) {
        let code = before_tests(&code_only(&file.text));
        for (at, word) in identifiers(&code) {
            if let Some((name, why)) = IMPURE.iter().find(|(name, _)| *name == word) {
                findings.push(Finding::at(&file.path, line_of(&code, at), format!("`{name}`: {why}")));
            }
        }
    }
    findings
}

/// Every crate takes the lints of the workspace, which forbid unsafe code for all of them.
pub fn check_lints(tree: &Tree) -> Vec<Finding> {
    tree.under("", "/Cargo.toml")
        .filter(|file| !takes_workspace_lints(&file.text))
        .map(|file| Finding::whole(&file.path, "a crate has `[lints]` with `workspace = true`"))
        .chain(
            (!forbids_unsafe(tree))
                .then(|| Finding::whole("Cargo.toml", "the workspace has unsafe_code = \"forbid\"")),
        )
        .collect()
}

fn workspace_forbids_unsafe(tree: &Tree, manifest: &str) -> bool {
    takes_workspace_lints(manifest) && forbids_unsafe(tree)
}

fn takes_workspace_lints(manifest: &str) -> bool {
    section(manifest, "[lints]").any(|line| squeeze(line) == "workspace=true")
}

fn forbids_unsafe(tree: &Tree) -> bool {
    let manifest = tree.file("Cargo.toml").map_or("", |file| file.text.as_str());
    section(manifest, "[workspace.lints.rust]").any(|line| squeeze(line) == "unsafe_code=\"forbid\"")
}

/// The lines of one section of a manifest.
fn section<'a>(manifest: &'a str, header: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = manifest.lines().skip_while(move |line| line.trim() != header).skip(1);
    lines.take_while(|line| !line.trim_start().starts_with('['))
}

fn section_keys<'a>(manifest: &'a str, header: &'a str) -> impl Iterator<Item = &'a str> {
    section(manifest, header)
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|key| !key.is_empty())
}

fn squeeze(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.ends_with("_tests.rs") || path.contains("/tests/")
}

/// The code up to the tests of the file, which come last; what links std for them is blanked.
fn before_tests(code: &str) -> String {
    let link = "#[cfg(test)]\nextern crate std;";
    let code = code.replace(link, "\n");
    code.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKSPACE: &str = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n";
    const LINTS: &str = "[lints]\nworkspace = true\n";

    #[track_caller]
    fn check_core(workspace: &str, manifest: &str, source: &str, expected: &[&str]) {
        let tree = Tree::sample(&[("Cargo.toml", workspace), (MANIFEST, manifest), (ROOT, source)]);
        let found: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (finding, part) in found.iter().zip(expected) {
            assert!(finding.contains(part), "{finding} has no {part}");
        }
    }

    #[test]
    fn a_pure_core_passes() {
        let source = "//! Not std::time.\n#![no_std]\nextern crate alloc;\n#[cfg(test)]\nextern crate std;\n#[cfg(test)]\nmod tests { use std::fs; }\n";
        check_core(WORKSPACE, LINTS, source, &[]);
        check_core("", "", "#![no_std]\n#![forbid(unsafe_code)]\n", &[]);
    }

    #[test]
    fn a_missing_attribute_is_found() {
        check_core(WORKSPACE, LINTS, "// #![no_std]", &["#![no_std]"]);
        check_core(WORKSPACE, LINTS, "#![cfg_attr(not(test), no_std)]", &["#![no_std]"]);
        check_core(WORKSPACE, "", "#![no_std]", &["forbids unsafe"]);
        check_core("", LINTS, "#![no_std]", &["forbids unsafe"]);
        check(&Tree::default()).first().expect("no core at all is a finding");
    }

    #[test]
    fn impure_names_are_found() {
        check_core(
            WORKSPACE,
            LINTS,
            "#![no_std]\nuse std::time::Instant;",
            &["lib.rs:2: `std`", "`Instant`"],
        );
        for (name, _) in IMPURE {
            check_core(WORKSPACE, LINTS, &format!("#![no_std]\nuse x::{name};"), &[name]);
        }
    }

    #[test]
    fn impure_crates_are_found() {
        for name in IMPURE_CRATES {
            for manifest in [format!("{name}.workspace = true"), format!("{name} = \"1\"")] {
                let manifest = format!("{LINTS}[dependencies]\n{manifest}\n");
                check_core(WORKSPACE, &manifest, "#![no_std]", &[name]);
            }
        }
        let manifest = format!("{LINTS}[dev-dependencies]\nrand = \"1\"\n");
        check_core(WORKSPACE, &manifest, "#![no_std]", &[]);
    }

    #[test]
    fn a_crate_without_the_lints_is_found() {
        let found = check_lints(&Tree::sample(&[
            ("Cargo.toml", WORKSPACE),
            ("a/Cargo.toml", LINTS),
            ("b/Cargo.toml", ""),
        ]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "b/Cargo.toml");
        assert_eq!(check_lints(&Tree::sample(&[("Cargo.toml", "")]))[0].path, "Cargo.toml");
    }
}
