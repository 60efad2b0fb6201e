//! Which of our crates may depend on which.

use crate::Finding;
use crate::packages::{Kind, Package};

/// A row of [`TABLE`].
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The crate that depends.
    pub from: &'static str,
    /// What it may depend on in what is shipped.
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
    Row { from: "baton-lab", to: &["baton-peer", "baton-store", "baton-election"], dev: &[] },
    Row { from: "baton-toolbox", to: &["baton-election"], dev: &[] },
    Row { from: "baton-store", to: &["baton-toolbox", "baton-election"], dev: &[] },
    Row { from: "baton-api", to: &["baton-store", "baton-toolbox", "baton-election"], dev: &[] },
    Row { from: "baton-executor", to: &["baton-api", "baton-store", "baton-election"], dev: &[] },
    Row { from: "baton-store-git", to: &["baton-store", "baton-election"], dev: &[] },
    Row { from: "baton-store-embedded", to: &["baton-store", "baton-election"], dev: &[] },
    Row { from: "baton-store-etcd", to: &["baton-api", "baton-store", "baton-election"], dev: &[] },
    Row { from: "baton-store-firestore", to: &["baton-pubsub", "baton-store", "baton-election"], dev: &[] },
    Row { from: "baton-store-http", to: &["baton-api", "baton-store", "baton-election"], dev: &[] },
    Row { from: "baton-store-kubernetes", to: &["baton-store", "baton-election"], dev: &[] },
    Row { from: "baton-store-postgres", to: &["baton-store", "baton-election"], dev: &[] },
    Row { from: "baton-store-spanner", to: &["baton-store", "baton-election"], dev: &[] },
    Row { from: "baton-pubsub", to: &["baton-store", "baton-election"], dev: &[] },
    Row {
        from: "baton",
        to: &[
            "baton-pubsub",
            "baton-store-embedded",
            "baton-store-etcd",
            "baton-store-firestore",
            "baton-store-git",
            "baton-store-http",
            "baton-store-kubernetes",
            "baton-store-postgres",
            "baton-store-spanner",
            "baton-store",
            "baton-executor",
            "baton-api",
            "baton-election",
        ],
        dev: &[],
    },
    Row { from: "baton-model", to: &["baton-peer", "baton-election"], dev: &[] },
    Row { from: "baton-door", to: &["baton-election"], dev: &[] },
    Row { from: "baton-guard", to: &["baton", "baton-door"], dev: &[] },
    Row {
        from: "baton-server",
        to: &["baton", "baton-door", "baton-executor", "baton-store", "baton-api", "baton-election"],
        dev: &[],
    },
    Row {
        from: "baton-cli",
        to: &[
            "baton",
            "baton-door",
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

const HINT: &str = "xtask/src/arrows.rs has the table; changing it needs a decision record in docs/decisions";

/// Finds every package and every arrow that the table does not have, and every row without a package.
pub fn check(packages: &[Package], table: &[Row]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let Some(row) = table.iter().find(|row| row.from == package.name) else {
            findings.push(Finding::whole(&package.manifest, format!("{} has no row; {HINT}", package.name)));
            continue;
        };
        for arrow in &package.arrows {
            let to = arrow.to.as_str();
            let (allowed, what) = match arrow.kind {
                Kind::Shipped => (row.to.contains(&to), "dependency"),
                Kind::Dev => (row.to.contains(&to) || row.dev.contains(&to), "dev-dependency"),
            };
            if !allowed {
                let message = format!("{what} {} -> {to} is not allowed; {HINT}", package.name);
                findings.push(Finding::whole(&package.manifest, message));
            }
        }
    }
    for row in table {
        if !packages.iter().any(|package| package.name == row.from) {
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
