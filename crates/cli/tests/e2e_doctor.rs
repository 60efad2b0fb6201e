//! `baton doctor` on stores that are well and stores that are not.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use baton::election::ContentHash;
use serde_json::Value;
use tempfile::TempDir;

/// A place with nothing of the user's in it.
struct World {
    root: TempDir,
}

/// What the doctor said.
struct Diagnosis {
    code: Option<i32>,
    findings: Vec<Value>,
}

impl World {
    fn new() -> World {
        // Named by a short path, so that what is left of demos is looked for below it.
        World { root: tempfile::Builder::new().prefix("d").rand_bytes(6).tempdir_in("/tmp").unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn baton(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("BATON_")) {
                command.env_remove(name);
            }
        }
        for folder in ["runtime", "tmp"] {
            fs::create_dir_all(self.path(folder)).unwrap();
        }
        command
            .env("BATON_STATE_DIR", self.path("state"))
            .env("BATON_CONFIG_DIR", self.path("config"))
            .env("XDG_RUNTIME_DIR", self.path("runtime"))
            .env("TMPDIR", self.path("tmp"))
            .current_dir(self.root.path());
        command.args(arguments).output().unwrap()
    }

    /// Runs a command that must succeed.
    fn done(&self, arguments: &[&str]) {
        let done = self.baton(arguments);
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn doctor(&self, arguments: &[&str]) -> Diagnosis {
        let done = self.baton(&[&["doctor", "--json"], arguments].concat());
        let text = String::from_utf8(done.stdout).unwrap();
        let findings: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for finding in &findings {
            let fields: Vec<&str> = finding.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(fields, ["check", "detail", "hint", "verdict"], "{finding}");
        }
        Diagnosis { code: done.status.code(), findings }
    }

    /// The newest version file of a record.
    fn newest(&self, record: &str) -> PathBuf {
        let folder = self.path(".baton").join(record).join("versions");
        let numbers = fs::read_dir(&folder).unwrap().flatten();
        let highest = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok()).max();
        folder.join(highest.unwrap().to_string())
    }
}

impl Diagnosis {
    fn of(&self, check: &str) -> &Value {
        let found = self.findings.iter().find(|finding| finding["check"] == check);
        found.unwrap_or_else(|| panic!("nothing about {check} in {:?}", self.findings))
    }

    fn assert(&self, check: &str, verdict: &str, detail: &str) {
        let worst = |finding: &&Value| finding["check"] == check && finding["verdict"] == verdict;
        let found = self.findings.iter().find(worst).unwrap_or_else(|| self.of(check));
        assert_eq!(found["verdict"], verdict, "{found}");
        assert!(found["detail"].as_str().unwrap().contains(detail), "{found} does not say `{detail}`");
        let hinted = !found["hint"].is_null();
        assert_eq!(hinted, verdict != "ok", "what is wrong has a hint: {found}");
    }

    fn failures(&self) -> usize {
        self.findings.iter().filter(|finding| finding["verdict"] == "fail").count()
    }
}

/// The number of a process that has ended.
fn dead_process() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_healthy_store_is_well() {
    let world = World::new();
    world.done(&["init"]);
    world.done(&["acquire", "fleet/eu", "--as", "agent-a"]);
    world.done(&["fence", "db/orders", "--election", "fleet/eu", "--token", "1"]);
    let diagnosis = world.doctor(&["--write"]);
    assert_eq!((diagnosis.code, diagnosis.failures()), (Some(0), 0), "{:?}", diagnosis.findings);
    diagnosis.assert("store", "ok", "1 operator");
    diagnosis.assert("elections", "ok", "1 election (1 led");
    diagnosis.assert("records", "ok", "can be read");
    diagnosis.assert("write", "ok", "linked");
    diagnosis.assert("operator", "ok", "enrolled in this store");
    diagnosis.assert("state", "ok", "is private");
    diagnosis.assert("leases", "ok", "1 key of running leases");
    diagnosis.assert("temporaries", "ok", "nothing");
    diagnosis.assert("clocks", "ok", "up ");
    let plain = world.baton(&["doctor"]);
    let text = String::from_utf8(plain.stdout).unwrap();
    assert!(text.lines().all(|line| ["ok  ", "warn", "fail", "    "].contains(&&line[..4])), "{text}");
    assert!(!text.contains('\x1b'), "no colour in a pipe");
}

#[test]
fn a_look_at_what_is_not_there_makes_nothing() {
    let world = World::new();
    let diagnosis = world.doctor(&[]);
    assert_eq!(diagnosis.code, Some(0));
    diagnosis.assert("store", "warn", "there is no store");
    for name in [".baton", "state", "config"] {
        assert!(!world.path(name).exists(), "the doctor made {name}");
    }
    let odd = world.doctor(&["--store", "carrier-pigeon:coop"]);
    assert_eq!(odd.code, Some(2), "that is no store, good or bad");
    odd.assert("store", "fail", "carrier-pigeon");
}

#[test]
fn a_version_file_that_was_changed_is_named() {
    let world = World::new();
    world.done(&["acquire", "good", "--as", "agent-a"]);
    world.done(&["acquire", "bad", "--as", "agent-a"]);
    let path = world.newest("bad");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    let before = fs::read(&path).unwrap();
    let diagnosis = world.doctor(&["--fix"]);
    assert_eq!(diagnosis.code, Some(7));
    diagnosis.assert("records", "fail", path.to_str().unwrap());
    diagnosis.assert("elections", "ok", "1 election (1 led");
    assert_eq!(fs::read(&path).unwrap(), before, "what is corrupt is nobody's to repair");
}

#[test]
fn a_record_of_another_machine_is_named() {
    let world = World::new();
    world.done(&["acquire", "moved", "--as", "agent-a"]);
    let path = world.newest("moved");
    let text = fs::read_to_string(&path).unwrap();
    let (first, body) = text.split_once('\n').unwrap();
    let line: Value = serde_json::from_str(first).unwrap();
    let theirs = first.replace(line["machine"].as_str().unwrap(), "another");
    let (header, _) = theirs.split_once(",\"sha256\"").unwrap();
    let hash = ContentHash::of(format!("{header}}}\n{body}").as_bytes());
    fs::write(&path, format!("{header},\"sha256\":\"{hash}\"}}\n{body}")).unwrap();
    let diagnosis = world.doctor(&[]);
    assert_eq!(diagnosis.code, Some(7));
    diagnosis.assert("records", "fail", "another machine");
    diagnosis.assert("records", "fail", path.to_str().unwrap());
}

#[test]
fn what_was_left_behind_is_found_and_removed() {
    let world = World::new();
    world.done(&["acquire", "e", "--as", "agent-a", "--ttl", "1s"]);
    // Waits until the lease of agent-a has run out.
    world.done(&["acquire", "e", "--as", "agent-b", "--ttl", "1h", "--wait", "30s"]);
    let temporary = world.path(".baton/e/.tmp-1-1-1");
    let file = File::create(&temporary).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(7_200)).unwrap();
    let fresh = world.path(".baton/e/.tmp-2-2-2");
    File::create(&fresh).unwrap();
    let dead = dead_process();
    let run = world.path(&format!("runtime/baton/run-{dead}-00"));
    let demo = world.path(&format!("tmp/baton-demo-{dead}-00"));
    let living = world.path(&format!("runtime/baton/run-{}-00", std::process::id()));
    for folder in [&run, &demo, &living] {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("token"), "1\n").unwrap();
    }
    let found = world.doctor(&[]);
    assert_eq!(found.code, Some(0), "{:?}", found.findings);
    found.assert("temporaries", "warn", temporary.to_str().unwrap());
    found.assert("runs", "warn", run.to_str().unwrap());
    found.assert("demos", "warn", demo.to_str().unwrap());
    found.assert("leases", "warn", "1 key of leases that have ended");
    assert!([&temporary, &run, &demo].iter().all(|path| path.exists()), "the doctor only looked");
    let fixed = world.doctor(&["--fix"]);
    assert_eq!(fixed.code, Some(0), "{:?}", fixed.findings);
    fixed.assert("temporaries", "ok", "removed 1 temporary file");
    fixed.assert("runs", "ok", "removed 1 folder");
    fixed.assert("demos", "ok", "removed 1 folder");
    fixed.assert("leases", "ok", "removed 1 key");
    assert!([&temporary, &run, &demo].iter().all(|path| !path.exists()), "what is left goes");
    assert!([&fresh, &living].iter().all(|path| path.exists()), "what may be in use stays");
    world.doctor(&[]).assert("leases", "ok", "1 key of running leases");
    world.done(&["renew", "e", "--as", "agent-b"]);
}

#[test]
fn keys_that_others_can_read_are_named() {
    let world = World::new();
    world.done(&["init"]);
    world.done(&["acquire", "e", "--as", "agent-a"]);
    let key = world.path("config/operator.key");
    chmod(&key, 0o644);
    let diagnosis = world.doctor(&[]);
    assert_eq!(diagnosis.code, Some(1));
    diagnosis.assert("operator", "fail", "others can read");
    let hint = diagnosis.of("operator")["hint"].as_str().unwrap().to_string();
    assert_eq!(hint, format!("chmod 600 {}", key.display()));
    chmod(&key, 0o600);
    chmod(&world.path("state"), 0o755);
    let open = world.doctor(&[]);
    assert_eq!(open.code, Some(0));
    open.assert("state", "warn", "others can enter");
    let stores = world.path("state/stores");
    let store = fs::read_dir(&stores).unwrap().flatten().next().unwrap().path();
    chmod(&store.join("leases/e/agent-a.json"), 0o644);
    let exposed = world.doctor(&[]);
    assert_eq!(exposed.code, Some(1));
    exposed.assert("state", "fail", "1 lease key");
}
