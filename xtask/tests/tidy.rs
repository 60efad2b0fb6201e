//! The checks of the tree, on the tree. The tests of each check with bad samples are in its module.

use std::path::Path;

use xtask::tree::Tree;
use xtask::{
    Finding, arrows, assertions, book, crate_docs, decisions, executors, glossary, links, packages, prose,
    purity, sizes, type_names, words,
};

#[test]
fn arrows_between_crates_point_inward() {
    let packages = packages::load(root()).expect("cargo reads the manifests");
    let arrows: usize = packages.iter().map(|package| package.arrows.len()).sum();
    assert!(arrows > 0, "cargo told of no dependency between our crates");
    check(arrows::check(&packages, arrows::TABLE));
}

#[test]
fn one_executor_decides() {
    check(executors::check(&tree()));
}

#[test]
fn files_are_short_enough_to_read() {
    check(sizes::check(&tree()));
}

#[test]
fn links_between_documents_lead_somewhere() {
    check(links::check(&tree()));
}

#[test]
fn the_site_has_every_page() {
    check(book::check(&tree()));
}

#[test]
fn no_forbidden_word_is_in_the_tree() {
    check(words::check(&tree()));
}

#[test]
fn the_glossary_has_each_word_once() {
    check(glossary::check(&tree()));
}

#[test]
fn types_are_named_after_things() {
    check(type_names::check(&tree()));
}

#[test]
fn prose_is_plain() {
    check(prose::check(&tree()));
}

#[test]
fn the_core_is_pure() {
    check(purity::check(&tree()));
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    check(purity::check_lints(&tree()));
}

#[test]
fn every_crate_begins_with_its_doc() {
    check(crate_docs::check_docs(&tree()));
}

#[test]
fn the_code_map_has_every_crate() {
    check(crate_docs::check_map(&tree()));
}

#[test]
fn decision_records_are_numbered_and_listed() {
    check(decisions::check(&tree()));
}

#[test]
fn every_test_can_fail() {
    check(assertions::check(&tree()));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is one folder below the root")
}

fn tree() -> Tree {
    let tree = Tree::load(root()).expect("git lists the files");
    assert!(tree.file("Cargo.toml").is_some(), "the tree was not read");
    tree
}

#[track_caller]
fn check(findings: Vec<Finding>) {
    let list: Vec<String> = findings.iter().map(|finding| format!("  {finding}")).collect();
    assert!(list.is_empty(), "{} findings:\n{}\n", list.len(), list.join("\n"));
}
