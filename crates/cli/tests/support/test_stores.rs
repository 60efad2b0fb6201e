//! The stores that elections are played out on: where each is, and how a person deletes a record there.

use std::path::{Path, PathBuf};
use std::process::Command;

use baton::store::conformance::{Required, required};

use super::World;

/// A store of its own for one test.
pub(crate) struct TestStore {
    pub(crate) url: String,
    /// Deletes the record of an election behind Baton's back; none where that is refused rather than survived.
    pub(crate) delete: Option<Delete>,
    /// What must live as long as the store.
    _folder: Option<tempfile::TempDir>,
}

type Delete = Box<dyn Fn(&str)>;

impl TestStore {
    fn new(url: String, delete: impl Fn(&str) + 'static) -> TestStore {
        TestStore { url, delete: Some(Box::new(delete)), _folder: None }
    }
}

/// A name that no other test uses.
pub(crate) fn unique(what: &str) -> String {
    // Two tests of one process may ask within one tick of the clock.
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let now = baton::store::boot::now().as_nanos();
    format!("{what}{:x}n{number}", now ^ u64::from(std::process::id()))
}

/// Runs a tool, which must succeed, and says what it printed.
#[track_caller]
pub(crate) fn tool(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{program} {arguments:?}: {text} {said}");
    text
}

pub(crate) fn at(variable: &str) -> Option<String> {
    match required(variable) {
        Required::At(at) => Some(at),
        Required::Missing => None,
    }
}

pub(crate) fn file() -> Option<TestStore> {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let url = format!("file:{}", root.display());
    let away = folder.path().join("away");
    // In one step: whoever is about to write must not find half of it.
    let delete = move |election: &str| std::fs::rename(root.join(election), &away).unwrap();
    Some(TestStore { url, delete: Some(Box::new(delete)), _folder: Some(folder) })
}

/// A clone with a bare remote. Who deletes a ref there is refused: the clones remember what stood in it.
pub(crate) fn git() -> Option<TestStore> {
    let folder = tempfile::tempdir().unwrap();
    let (remote, clone) = (folder.path().join("remote.git"), folder.path().join("clone"));
    let git = |arguments: &[&str]| tool("git", arguments);
    git(&["init", "--quiet", "--bare", &path(&remote)]);
    git(&["init", "--quiet", &path(&clone)]);
    let url = format!("git:{}?remote={}", path(&clone), path(&remote));
    Some(TestStore { url, delete: None, _folder: Some(folder) })
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

/// Makes a test in each store that needs a server of others: it calls `$play` with what makes a place there.
macro_rules! in_each_server {
    ($play:ident) => {
        in_each_server!($play: etcd postgres kubernetes firestore spanner);
    };
    ($play:ident: $($store:ident)*) => {
        $(
            #[test]
            fn $store() {
                $play(test_stores::$store);
            }
        )*
    };
}
pub(crate) use in_each_server;

/// An etcd of one member.
pub(crate) fn etcd() -> Option<TestStore> {
    etcd_at(at("BATON_TEST_ETCD")?)
}

/// An etcd of three members.
pub(crate) fn etcd_of_three() -> Option<TestStore> {
    etcd_at(at("BATON_TEST_ETCD3")?)
}

fn etcd_at(endpoints: String) -> Option<TestStore> {
    let (prefix, etcdctl) = (unique("e"), at("BATON_TEST_ETCDCTL")?);
    let url = format!("etcd://{endpoints}/{prefix}");
    Some(TestStore::new(url, move |election| {
        let patient = ["--endpoints", &endpoints, "--dial-timeout", "30s", "--command-timeout", "60s"];
        let deleted = tool(&etcdctl, &[&patient[..], &["del", &format!("{prefix}/{election}")]].concat());
        assert_eq!(deleted.trim(), "1");
    }))
}

pub(crate) fn postgres() -> Option<TestStore> {
    let server = at("BATON_TEST_POSTGRES")?;
    let table = unique("t");
    let url = format!("{server}?table={table}");
    Some(TestStore::new(url, move |election| {
        let delete = format!("DELETE FROM {table} WHERE key = '{election}'");
        assert_eq!(tool("psql", &[&server, "-c", &delete]).trim(), "DELETE 1");
    }))
}

pub(crate) fn kubernetes() -> Option<TestStore> {
    let (kubeconfig, kubectl) = (at("BATON_TEST_KUBECONFIG")?, at("BATON_TEST_KUBECTL")?);
    let namespace = unique("n");
    let own = ["--kubeconfig", &kubeconfig];
    tool(&kubectl, &[&own[..], &["create", "namespace", &namespace]].concat());
    let url = format!("k8s://{namespace}?kubeconfig={kubeconfig}");
    Some(TestStore::new(url, move |_| {
        let delete = ["--kubeconfig", &kubeconfig, "--namespace", &namespace, "delete", "lease", "--all"];
        assert!(tool(&kubectl, &delete).contains("deleted"));
    }))
}

pub(crate) fn firestore() -> Option<TestStore> {
    let server = at("BATON_TEST_FIRESTORE")?;
    let (project, collection) = (unique("p"), "leadership");
    let url = format!("firestore://{project}?collection={collection}&emulator={server}");
    Some(TestStore::new(url, move |_| {
        let documents = format!("http://{server}/v1/projects/{project}/databases/(default)/documents");
        let curl = |what: &[&str]| {
            // The emulator may refuse for a moment what somebody else is about to write.
            let patient = ["-sSfg", "--retry", "20", "--retry-all-errors", "--retry-delay", "1"];
            tool("curl", &[&patient[..], &["-H", "Authorization: Bearer owner"], what].concat())
        };
        let list = curl(&[&format!("{documents}/{collection}")]);
        let found: serde_json::Value = serde_json::from_str(&list).unwrap();
        let mut deleted = 0;
        for document in found["documents"].as_array().unwrap() {
            let name = document["name"].as_str().unwrap();
            curl(&["-X", "DELETE", &format!("http://{server}/v1/{name}")]);
            deleted += 1;
        }
        assert!(deleted > 0, "{list}");
    }))
}

pub(crate) fn spanner() -> Option<TestStore> {
    let (server, rest) = (at("BATON_TEST_SPANNER")?, at("BATON_TEST_SPANNER_REST")?);
    let database = format!("projects/p/instances/baton/databases/{}", unique("d"));
    let url = format!(
        "spanner://{}?emulator={server}&rest={rest}",
        database.replace("projects/", "").replace("/instances/", "/").replace("/databases/", "/")
    );
    Some(TestStore::new(url, move |election| {
        let post = |place: &str, body: &str| {
            // The emulator runs one transaction at a time and aborts the others.
            let patient = ["-sSf", "--retry", "50", "--retry-all-errors", "--retry-delay", "1"];
            let what = ["-X", "POST", "-d", body, &format!("http://{rest}/v1/{place}")];
            tool("curl", &[&patient[..], &what[..]].concat())
        };
        let session: serde_json::Value =
            serde_json::from_str(&post(&format!("{database}/sessions"), "{}")).unwrap();
        let mutation = format!(
            r#"{{"singleUseTransaction":{{"readWrite":{{}}}},
                "mutations":[{{"delete":{{"table":"Leadership","keySet":{{"keys":[["{election}"]]}}}}}}]}}"#
        );
        post(&format!("{}:commit", session["name"].as_str().unwrap()), &mutation);
    }))
}

/// Where a world keeps a log of its own.
pub(crate) fn log(world: &World) -> PathBuf {
    world.file("started")
}
