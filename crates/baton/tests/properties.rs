//! The table of properties in the docs is what the code says. `UPDATE_EXPECT=1` writes it anew.
#![cfg(feature = "all-stores")]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write;
use std::path::Path;

use baton::store::{Deletion, Durability, StoreProperties, Watching};
use baton::{Coordinator, STORES};

const BEGIN: &str = "<!-- generated from the code: UPDATE_EXPECT=1 cargo test -p baton --all-features --test it properties -->\n";
const END: &str = "<!-- end of what is generated -->\n";
/// A lease of 30 s is renewed every 10 s.
const RENEWALS_PER_HOUR: u32 = 360;

/// Opening asks nothing of a server.
async fn strengths_of(url: &str) -> StoreProperties {
    Coordinator::connect(url).await.unwrap().backend().properties()
}

fn row(name: &str, properties: &StoreProperties) -> String {
    let clock = if properties.stamped { "stamped" } else { "observed" };
    let watch = match properties.watch {
        Watching::Pushed => "pushed",
        Watching::Polled => "polled",
    };
    let durability = match properties.durability {
        Durability::Process => "dies with its process",
        Durability::Synced => "answered changes are synced",
        Durability::Remote => "up to the server",
    };
    let deletion = match properties.deletion {
        Deletion::Impossible => "deletion impossible",
        Deletion::Survives => "keeps rising",
        Deletion::NewStoreId => {
            "keeps rising for clients that saw it; wiped: a new store id, which fences refuse"
        }
    };
    let (held, waits) = (RENEWALS_PER_HOUR * properties.cost.per_renewal, properties.cost.looks_per_hour);
    format!(
        "| {name} | {clock}: {} | {watch} | {durability} | {deletion} | {} | {held} | {waits} |\n",
        properties.age, properties.partition
    )
}

#[tokio::test]
async fn the_table_in_the_docs_is_what_the_code_says() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, KUBECONFIG).unwrap();
    let done = std::process::Command::new("git").args(["init", "-q"]).arg(folder.path().join("r")).status();
    assert!(done.unwrap().success());
    let mut table = String::from(
        "| store | age of a lease | changes | durability | token after a deletion | a partition | operations/h, held | reads/h, waiting |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (name, url) in STORES.iter().flat_map(|kind| kind.rows) {
        let url = url.replace("{at}", &folder.path().display().to_string());
        write!(table, "{}", row(name, &strengths_of(&url).await)).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/stores.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(found, table, "docs/reference/stores.md is out of date");
}

const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
";
