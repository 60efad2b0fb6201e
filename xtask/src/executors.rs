//! One executor decides: the core's `decide` is called where it belongs, and no store decides by itself.

use crate::Finding;
use crate::code_lines::test_items;
use crate::rust_code::{code_only, identifiers, line_of};
use crate::tree::Tree;

/// The conformance suite of stores, which makes documents to swap. Tests are all that run it.
const CONFORMANCE: &str = "crates/store/src/conformance/";

/// The crates that may call the core's `decide`.
const CALLERS: &[&str] = &["election", "executor", "lab", "model"];

/// The one file that decides by `Facts` of crates/executor, on documents in memory. A new one needs a reason.
const SERVER: &str = "crates/server/src/engine/mod.rs";

/// Finds calls of `decide` of the election crate outside of the crates that may, tests and examples, and stores that decide by themselves.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.under("crates/", ".rs") {
        let code = code_only(&file.text);
        let tests = test_items(&code);
        let in_test = |at| tests.iter().any(|(start, end)| (*start..*end).contains(&at));
        let mut report = |at, why: &str| findings.push(Finding::at(&file.path, line_of(&code, at), why));
        for (at, word) in identifiers(&code) {
            let (before, after) = (&code[..at], &code[at + word.len()..]);
            let asks_a_store = match word {
                "decider" => after.starts_with('('),
                "native" => after.starts_with("()") && before.ends_with('.'),
                _ => false,
            };
            if asks_a_store {
                report(at, "a store decides nothing: implement `Elections` of crates/api");
            }
            let decides = word == "decide" && is_of("election::", before) && !may_decide(&file.path)
                || word == "Facts" && is_of("executor::", before) && file.path != SERVER;
            if decides && !in_test(at) {
                report(at, "only crates/executor decides: send the command to an `Elections`");
            }
        }
    }
    findings
}

/// Whether a name stands behind the name of its crate, also within the braces of an import.
fn is_of(its_crate: &str, before: &str) -> bool {
    let item = before.rsplit(';').next().unwrap_or_default();
    let imported = item.rfind("use ").is_some_and(|at| item[at..].contains(its_crate));
    imported || before.ends_with(its_crate)
}

fn may_decide(path: &str) -> bool {
    let rest = path.strip_prefix("crates/").unwrap_or(path);
    let (name, inside) = rest.split_once('/').unwrap_or((rest, ""));
    let is_test = inside.starts_with("tests/")
        || inside.starts_with("examples/")
        || path.ends_with("tests.rs")
        || path.starts_with(CONFORMANCE);
    is_test || CALLERS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_file(path: &str, text: &str, expected: usize) {
        let found: Vec<String> =
            check(&Tree::sample(&[(path, text)])).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected, "{found:?}");
    }

    #[test]
    fn the_executor_and_tests_decide() {
        let call = "use baton_election::{Document, decide};\nfn f() { decide(document, command) }\n";
        check_file("crates/executor/src/executor.rs", call, 0);
        check_file("crates/baton/tests/library/leading.rs", call, 0);
        check_file("crates/store/src/conformance/swaps.rs", call, 0);
        check_file("crates/store-git/src/open.rs", &format!("#[cfg(test)]\nmod tests {{ {call} }}\n"), 0);
    }

    #[test]
    fn a_second_executor_is_found() {
        let call = "use baton_election::{\n    Document, decide,\n};\n";
        check_file("crates/baton/src/coordinator.rs", call, 1);
        check_file("crates/server/src/engine/mod.rs", call, 1);
        check_file("crates/server/src/engine_store.rs", call, 1);
        check_file("crates/store/src/memory.rs", &format!("#[cfg(test)]\nmod tests {{}}\n{call}"), 1);
        check_file("crates/cli/src/main.rs", "fn f() { baton::election::decide(a, b) }", 1);
        let facts = "use baton_executor::{Executor, Facts};\n";
        check_file("crates/server/src/engine/mod.rs", facts, 0);
        check_file("crates/server/src/engine_store.rs", facts, 1);
    }

    #[test]
    fn a_decision_of_another_kind_is_none() {
        check_file("crates/baton/src/fences.rs", "// decide(\nfn f() { self.decide(a); let decide = 1; }", 0);
    }

    #[test]
    fn a_store_that_decides_is_found() {
        check_file("crates/store/src/store.rs", "fn decider(&self) -> Option<&dyn D> { None }", 1);
        check_file("crates/baton/src/region.rs", "if store.native().is_some() {}", 1);
        check_file("crates/store-etcd/src/lib.rs", "mod native;\nlet native = settings.native;", 0);
    }
}
