//! Tests that assert nothing.
//!
//! A test passes this check if its body, or a helper that it calls, can fail on purpose: it asserts,
//! expects, panics or checks. Helpers are looked up by name in the test's own file, in the `tests/`
//! folder of its crate, and in the conformance suite, at any depth. A helper found in the wrong file by
//! its name lets a test pass that should not; that is the price of not resolving names.

use std::collections::BTreeSet;

use crate::Finding;
use crate::rust_code::{code_only, identifiers, line_of};
use crate::tree::Tree;

/// A test fails by a word that has one of these in it, or by one that is called and starts so.
const MARKS: &[&str] = &["assert", "expect", "panic"];
const CALLED_MARKS: &[&str] = &["check", "verify"];

struct Function {
    name: String,
    is_test: bool,
    line: usize,
    /// It fails on purpose by itself.
    marked: bool,
    calls: BTreeSet<String>,
}

/// Finds tests under `crates/` that cannot fail.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let files: Vec<(&str, Vec<Function>)> =
        tree.under("crates/", ".rs").map(|file| (file.path.as_str(), functions(&file.text))).collect();
    let mut findings = Vec::new();
    for (path, functions) in &files {
        let helpers = asserting(files.iter().filter(|(other, _)| is_reachable(path, other)));
        for test in functions.iter().filter(|function| function.is_test) {
            if !test.marked && test.calls.is_disjoint(&helpers) {
                let message = format!("the test `{}` asserts nothing", test.name);
                findings.push(Finding::at(path, test.line, message));
            }
        }
    }
    findings
}

fn is_reachable(from: &str, other: &str) -> bool {
    let tests = from.split('/').take(2).chain(["tests", ""]).collect::<Vec<_>>().join("/");
    from == other || other.contains("conformance") || other.starts_with(&tests)
}

/// The names of the helpers that can fail, directly or through one another.
fn asserting<'a>(files: impl Iterator<Item = &'a (&'a str, Vec<Function>)>) -> BTreeSet<String> {
    let helpers: Vec<&Function> = files.flat_map(|(_, functions)| functions).filter(|f| !f.is_test).collect();
    let mut known: BTreeSet<String> = BTreeSet::new();
    // Each round but the last adds a name, so there are at most as many rounds as helpers.
    loop {
        let before = known.len();
        let found = helpers.iter().filter(|helper| helper.marked || !helper.calls.is_disjoint(&known));
        let found: Vec<String> = found.map(|helper| helper.name.clone()).collect();
        known.extend(found);
        if known.len() == before {
            return known;
        }
    }
}

fn functions(text: &str) -> Vec<Function> {
    let code = code_only(text);
    let words: Vec<(usize, &str)> = identifiers(&code).collect();
    let mut functions = Vec::new();
    for pair in words.windows(2) {
        let [(at, "fn"), (name_at, name)] = *pair else { continue };
        let Some(body) = body(&code[name_at..]) else { continue };
        let attributes = attributes(&code[..at]);
        functions.push(Function {
            name: name.to_owned(),
            is_test: is_test(attributes),
            line: line_of(&code, at),
            marked: attributes.contains("should_panic") || is_marked(body),
            calls: calls(body),
        });
    }
    functions
}

/// From the opening brace of a function to its closing one; nothing for a declaration without a body.
fn body(code: &str) -> Option<&str> {
    let mut start = None;
    // Of brackets of any kind: the semicolon of `[u8; 3]` in a signature does not end it.
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' | '(' | '[' => {
                if c == '{' && depth == 0 {
                    start = Some(at);
                }
                depth += 1;
            }
            '}' | ')' | ']' => depth = depth.checked_sub(1)?,
            ';' if depth == 0 => return None,
            _ => {}
        }
        if let (0, Some(start)) = (depth, start) {
            return Some(&code[start..=at]);
        }
    }
    None
}

/// What stands between the item before and the `fn`: attributes and qualifiers.
fn attributes(before: &str) -> &str {
    let start = before.rfind(['}', ';', '{']).map_or(0, |at| at + 1);
    &before[start..]
}

fn is_test(attributes: &str) -> bool {
    attributes.split("#[").skip(1).any(|attribute| {
        let path = attribute.split(['(', ']']).next().unwrap_or_default();
        path.rsplit("::").next().unwrap_or_default().trim() == "test"
    })
}

fn is_marked(body: &str) -> bool {
    identifiers(body).any(|(at, word)| {
        let is_called = body[at + word.len()..].starts_with(['(', '!']);
        // A macro's own parameter may stand for anything.
        let is_parameter = body[..at].ends_with('$') && is_called;
        MARKS.iter().any(|mark| word.contains(mark))
            || is_called && CALLED_MARKS.iter().any(|mark| word.starts_with(mark))
            || is_parameter
    })
}

fn calls(body: &str) -> BTreeSet<String> {
    let is_call = |(at, word): &(usize, &str)| {
        let after = &body[at + word.len()..];
        after.starts_with('(') || after.starts_with("::<")
    };
    identifiers(body).filter(is_call).map(|(_, word)| word.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_tests(files: &[(&str, &str)], expected: &[&str]) {
        let found: Vec<String> = check(&Tree::sample(files)).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_test_that_asserts_nothing_is_found() {
        let source =
            "fn helper() { run(); }\n#[test]\n#[cfg(unix)]\nfn t() {\n    helper();\n    // assert!(x);\n}\n";
        check_tests(&[("crates/a/src/x.rs", source)], &["crates/a/src/x.rs:4: the test `t` asserts nothing"]);
        let source =
            "#[tokio::test(flavor = \"multi_thread\")]\nasync fn t() { let a = [0; 3]; run().await; }";
        check_tests(
            &[("crates/a/tests/x.rs", source)],
            &["crates/a/tests/x.rs:2: the test `t` asserts nothing"],
        );
    }

    #[test]
    fn tests_that_can_fail_pass() {
        for body in
            ["assert_eq!(a, b)", "prop_assert!(a)", "x.expect(\"b\")", "panic!()", "check(a)", "$case(store)"]
        {
            check_tests(&[("crates/a/src/x.rs", &format!("#[test]\nfn t() {{ {body}; }}"))], &[]);
        }
        check_tests(
            &[("crates/a/src/x.rs", "#[test]\n#[should_panic(expected = \"x\")]\nfn t() { run(); }")],
            &[],
        );
    }

    #[test]
    fn helpers_count_at_any_depth() {
        let source = "#[test]\nfn t() { outer(); }\nfn outer() { inner::<u8>() }\n";
        let helper = "pub fn inner<T>() -> [u8; 3] { assert!(true) }";
        check_tests(&[("crates/a/tests/x.rs", source), ("crates/a/tests/common/mod.rs", helper)], &[]);
        check_tests(&[("crates/a/tests/x.rs", source), ("crates/b/src/conformance.rs", helper)], &[]);
        let found = ["crates/a/tests/x.rs:2: the test `t` asserts nothing"];
        check_tests(&[("crates/a/tests/x.rs", source), ("crates/b/src/other.rs", helper)], &found);
    }

    #[test]
    fn functions_that_are_not_tests_are_left_alone() {
        let source = "trait T { fn a(&self); fn b(&self) {} }\n#[cfg(test)]\nfn c() {}\nfn test() {}\n";
        check_tests(&[("crates/a/src/x.rs", source)], &[]);
    }
}
