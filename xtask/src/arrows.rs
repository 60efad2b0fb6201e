//! Which of our crates may depend on which.

use crate::Finding;
use crate::packages::{Kind, Package};

/// A row of [`TABLE`].
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The crate that depends.
    pub from: &'static str,
    /// What it may depend on in what is shipped. A `*` at the end stands for any rest of the name.
    pub to: &'static [&'static str],
    /// What only its tests may depend on besides.
    pub dev: &'static [&'static str],
}

/// Arrows point inward, to the pure core. To change a row, write a decision record in `docs/decisions`.
pub const TABLE: &[Row] = &[
    Row { from: "baton-election", to: &[], dev: &[] },
    Row { from: "baton-warden", to: &[], dev: &[] },
    Row { from: "baton-peer", to: &["baton-election"], dev: &[] },
    Row { from: "baton-node", to: &["baton-peer", "baton-store", "baton-election"], dev: &[] },
    Row { from: "baton-lab", to: &["baton-peer", "baton-election"], dev: &[] },
    Row { from: "baton-toolbox", to: &["baton-election"], dev: &[] },
    Row { from: "baton-store", to: &["baton-toolbox", "baton-election"], dev: &["baton-store"] },
    Row { from: "baton-api", to: &["baton-store", "baton-toolbox", "baton-election"], dev: &[] },
    Row { from: "baton-executor", to: &["baton-api", "baton-store", "baton-election"], dev: &[] },
    Row { from: "baton-store-*", to: &["baton-api", "baton-store", "baton-election"], dev: &[] },
    Row { from: "baton-store-firestore", to: &["baton-pubsub", "baton-store", "baton-election"], dev: &[] },
    Row { from: "baton-pubsub", to: &["baton-store", "baton-election"], dev: &[] },
    Row {
        from: "baton",
        to: &[
            "baton-pubsub",
            "baton-store-*",
            "baton-store",
            "baton-executor",
            "baton-api",
            "baton-election",
        ],
        dev: &[],
    },
    Row { from: "baton-model", to: &["baton-peer", "baton-election"], dev: &[] },
    Row { from: "baton-http-listener", to: &["baton-api", "baton-election"], dev: &[] },
    Row { from: "baton-guard", to: &["baton", "baton-http-listener"], dev: &["baton-store"] },
    Row {
        from: "baton-server",
        to: &["baton", "baton-http-listener", "baton-executor", "baton-store", "baton-api", "baton-election"],
        dev: &[],
    },
    Row {
        from: "baton-cli",
        to: &[
            "baton",
            "baton-http-listener",
            "baton-guard",
            "baton-lab",
            "baton-node",
            "baton-peer",
            "baton-server",
            "baton-warden",
            "baton-store",
            "baton-election",
        ],
        dev: &["baton-store-embedded", "baton-store-git"],
    },
    Row {
        from: "baton-bench",
        to: &["baton", "baton-lab", "baton-peer", "baton-store", "baton-election"],
        dev: &[],
    },
    Row { from: "xtask", to: &[], dev: &[] },
];

/// Whether a name is the one in the table, or begins as one with a `*` does.
fn fits(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

/// The row of a crate: its own, or that of all crates which are called alike.
fn row_of<'a>(table: &'a [Row], name: &str) -> Option<&'a Row> {
    table.iter().find(|row| row.from == name).or_else(|| table.iter().find(|row| fits(row.from, name)))
}

const HINT: &str = "xtask/src/arrows.rs has the table; changing it needs a decision record in docs/decisions";

/// Finds every package and every arrow that the table does not have, and every row without a package.
pub fn check(packages: &[Package], table: &[Row]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let Some(row) = row_of(table, &package.name) else {
            findings.push(Finding::whole(&package.manifest, format!("{} has no row; {HINT}", package.name)));
            continue;
        };
        for arrow in &package.arrows {
            let to = arrow.to.as_str();
            let among = |names: &[&str]| names.iter().any(|pattern| fits(pattern, to));
            let (allowed, what) = match arrow.kind {
                Kind::Shipped => (among(row.to), "dependency"),
                Kind::Dev => (among(row.to) || among(row.dev), "dev-dependency"),
            };
            if !allowed {
                let message = format!("{what} {} -> {to} is not allowed; {HINT}", package.name);
                findings.push(Finding::whole(&package.manifest, message));
            }
        }
    }
    for row in table {
        if !packages.iter().any(|package| fits(row.from, &package.name)) {
            let message = format!("the table has a row for {}, which does not exist", row.from);
            findings.push(Finding::whole("xtask/src/arrows.rs", message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::Arrow;

    const SMALL: &[Row] = &[
        Row { from: "core", to: &[], dev: &[] },
        Row { from: "outer", to: &["core"], dev: &["tool"] },
        Row { from: "tool", to: &[], dev: &[] },
    ];

    fn package(name: &str, arrows: &[(&str, Kind)]) -> Package {
        let arrows = arrows.iter().map(|&(to, kind)| Arrow { to: to.to_owned(), kind }).collect();
        Package { name: name.to_owned(), manifest: format!("crates/{name}/Cargo.toml"), arrows }
    }

    fn findings(outer: &[(&str, Kind)], core: &[(&str, Kind)]) -> Vec<String> {
        let packages = [package("core", core), package("outer", outer), package("tool", &[])];
        check(&packages, SMALL).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrows_of_the_table_pass() {
        let outer = [("core", Kind::Shipped), ("core", Kind::Dev), ("tool", Kind::Dev)];
        assert_eq!(findings(&outer, &[]), [""; 0]);
    }

    #[test]
    fn crates_that_are_called_alike_share_a_row_unless_one_has_its_own() {
        let table = [
            Row { from: "core", to: &[], dev: &[] },
            Row { from: "store-*", to: &["core"], dev: &[] },
            Row { from: "store-odd", to: &["core", "tool"], dev: &[] },
            Row { from: "outer", to: &["store-*"], dev: &[] },
        ];
        let check_all = |packages: &[Package]| check(packages, &table).len();
        let core = || package("core", &[]);
        let store = |name, to| package(name, &[(to, Kind::Shipped)]);
        let odd = || store("store-odd", "tool");
        let outer = || store("outer", "store-new");
        assert_eq!(check_all(&[core(), store("store-new", "core"), odd(), outer()]), 0);
        assert_eq!(check_all(&[core(), store("store-new", "tool"), odd(), outer()]), 1);
        assert_eq!(check_all(&[core(), store("store-new", "core"), odd(), store("outer", "core")]), 1);
    }

    #[test]
    fn an_arrow_outward_is_found_and_asks_for_a_decision() {
        let found = findings(&[], &[("outer", Kind::Shipped)]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("core -> outer") && found[0].contains("decision record"), "{found:?}");
    }

    #[test]
    fn an_arrow_for_tests_is_not_one_for_what_is_shipped() {
        let found = findings(&[("tool", Kind::Shipped)], &[("tool", Kind::Dev)]);
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("dev-dependency core -> tool"), "{found:?}");
        assert!(found[1].contains("dependency outer -> tool"), "{found:?}");
    }

    #[test]
    fn packages_and_rows_match_one_to_one() {
        let found = check(&[package("core", &[]), package("new", &[]), package("tool", &[])], SMALL);
        assert_eq!(found.len(), 2);
        assert!(found[0].message.contains("new has no row"));
        assert!(found[1].message.contains("outer, which does not exist"));
    }
}
