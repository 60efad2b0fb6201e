//! Drives `examples/leash.rs` from outside and looks at `/proc` with its own eyes.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a helper of tests")]

use std::fs::{self, File};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use baton_warden::BootTime;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A bound on a hang, not an expectation.
const HANG: Duration = Duration::from_secs(180);

/// A main process and a daemon that both ignore SIGTERM; the daemon has left its parent, session and group.
pub(crate) const EVIL: &str = r#"
trap '' TERM HUP INT
cat > "$LEASH_MARK/daemon.sh" <<'END'
trap '' TERM HUP INT
echo $$ > "$LEASH_MARK/daemon.new" && mv "$LEASH_MARK/daemon.new" "$LEASH_MARK/daemon"
while :; do sleep 1; done
END
(setsid sh "$LEASH_MARK/daemon.sh" </dev/null &)
while :; do sleep 1; done
"#;

/// One `leash run`, in its own folder.
pub(crate) struct Scene {
    pub(crate) dir: TempDir,
    pub(crate) run: Child,
}

impl Scene {
    pub(crate) fn start(life_ms: u64, grace_ms: u64, command: &[&str]) -> Self {
        Self::start_with_stdin(life_ms, grace_ms, command, Stdio::null())
    }

    pub(crate) fn start_with_stdin(life_ms: u64, grace_ms: u64, command: &[&str], stdin: Stdio) -> Self {
        let mut run = Command::new(leash());
        run.stdin(stdin);
        Self::launch(private_dir(), run, life_ms, grace_ms, command)
    }

    /// One whose command outlives its deadline.
    pub(crate) fn outliving(life_ms: u64, grace_ms: u64, command: &[&str]) -> Self {
        let mut run = Command::new(leash());
        run.env("LEASH_OUTLIVES", "1").stdin(Stdio::null());
        Self::launch(private_dir(), run, life_ms, grace_ms, command)
    }

    /// The mode and the paper, as the command could read them.
    pub(crate) fn shown(&self) -> (String, String) {
        let read = |name: &str| fs::read_to_string(self.path().join("sign").join(name)).unwrap_or_default();
        (read("mode").trim().to_owned(), read("paper"))
    }

    /// `run` is the command without arguments, or one that takes it as an argument.
    pub(crate) fn launch(
        dir: TempDir,
        mut run: Command,
        life_ms: u64,
        grace_ms: u64,
        command: &[&str],
    ) -> Self {
        let path = dir.path();
        let made = Command::new("mkfifo").args(["-m", "666"]).arg(path.join("control")).status().unwrap();
        assert!(made.success());
        let run = run
            .arg("run")
            .arg(path)
            .args([life_ms.to_string(), grace_ms.to_string(), "--".into()])
            .args(command)
            .env("INHERITED", "from-run")
            // The kernel continues stopped processes of a group whose last tie to its session is cut, which may
            // happen to the group of the tests at any time.
            .process_group(0)
            .stdout(File::create(path.join("stdout")).unwrap())
            .stderr(File::create(path.join("stderr")).unwrap())
            .spawn()
            .unwrap();
        Self { dir, run }
    }

    /// A scene in which the evil daemon runs and has been adopted by the warden.
    pub(crate) fn evil(life_ms: u64, grace_ms: u64) -> Self {
        let scene = Self::start(life_ms, grace_ms, &["sh", "-c", EVIL]);
        let daemon: i32 = scene.file("daemon").trim().parse().unwrap();
        let warden = scene.warden();
        until("the daemon is orphaned", || parent(daemon) == Some(warden));
        scene
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn say(&self, order: &str) {
        let mut pipe = fs::OpenOptions::new();
        // Nobody reads in a program that has ended: it is not waited for without end.
        pipe.append(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        let control = self.path().join("control");
        until(&format!("{order} is heard"), || {
            let said = pipe
                .open(&control)
                .and_then(|mut pipe| std::io::Write::write_all(&mut pipe, format!("{order}\n").as_bytes()));
            said.is_ok()
        });
    }

    /// Waits for an event and gives its words after the first.
    pub(crate) fn event(&self, name: &str) -> Vec<String> {
        let mut words = Vec::new();
        until(&format!("event {name} in {}", self.path().display()), || {
            words = self.events().into_iter().rfind(|line| line[0] == name).unwrap_or_default();
            !words.is_empty()
        });
        words.split_off(1)
    }

    pub(crate) fn events(&self) -> Vec<Vec<String>> {
        let text = fs::read_to_string(self.path().join("events")).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    }

    /// Waits for a file and reads it.
    pub(crate) fn file(&self, name: &str) -> String {
        let path = self.path().join(name);
        until(&format!("file {}", path.display()), || path.exists());
        fs::read_to_string(path).unwrap()
    }

    pub(crate) fn warden(&self) -> i32 {
        self.event("warden")[0].parse().unwrap()
    }

    pub(crate) fn main(&self) -> i32 {
        self.event("started")[0].parse().unwrap()
    }

    pub(crate) fn deadline(&self) -> BootTime {
        BootTime::from_ns(self.event("deadline")[0].parse().unwrap())
    }

    /// Whether the warden has called `release`.
    pub(crate) fn released(&self) -> bool {
        self.path().join("released").exists()
    }

    /// Waits for run to exit.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        let mut status = None;
        let run = &mut self.run;
        until("run exits", || {
            status = run.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }

    /// Everything that descends from CMD.
    pub(crate) fn descendants(&self) -> Vec<i32> {
        let mark = format!("LEASH_MARK={}", self.path().display());
        pids()
            .filter(|pid| environ(*pid).split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()))
            .collect()
    }

    pub(crate) fn assert_nothing_left(&self) {
        assert_eq!(self.descendants(), [] as [i32; 0], "events: {:?}", self.events());
    }

    /// Checks the last words of an event: when the tree was gone, and that it was.
    pub(crate) fn assert_clear_in_time(&self, words: &[String]) {
        let [.., at, living] = words else { panic!("{words:?}") };
        assert_eq!(living, "0", "still alive; events: {:?}", self.events());
        let at = BootTime::from_ns(at.parse().unwrap());
        assert!(at <= self.deadline(), "clear at {at:?}; events: {:?}", self.events());
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Also where an assertion failed: nothing of the scene stays. SIGKILL ends stopped processes too.
        let _ = self.run.kill();
        let _ = self.run.wait();
        let warden =
            self.events().iter().find(|line| line[0] == "warden").and_then(|line| line[1].parse().ok());
        if let Some(warden) = warden.filter(|warden| name(*warden) == "leash") {
            signal(warden, Signal::CONT);
        }
    }
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// Waits for a condition.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < HANG, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for an instant.
pub(crate) fn until_time(at: BootTime) {
    until("time passes", || BootTime::now() >= at);
}

/// Neither gone nor a zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    stat(pid).is_some_and(|fields| fields[0] != "Z" && fields[0] != "X")
}

pub(crate) fn state(pid: i32) -> String {
    stat(pid).map(|fields| fields[0].clone()).unwrap_or_default()
}

pub(crate) fn parent(pid: i32) -> Option<i32> {
    stat(pid).map(|fields| fields[1].parse().unwrap())
}

pub(crate) fn children(of: i32) -> Vec<i32> {
    pids().filter(|pid| parent(*pid) == Some(of)).collect()
}

fn name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

fn stat(pid: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    Some(rest.split(' ').map(str::to_owned).collect())
}

fn environ(pid: i32) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
}

fn pids() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

pub(crate) fn private_dir() -> TempDir {
    let private = fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().permissions(private).tempdir().unwrap()
}

pub(crate) fn leash() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let leash = here.parent().unwrap().parent().unwrap().join("examples/leash");
    assert!(leash.exists(), "{} is not built; run `cargo test -p baton-warden`", leash.display());
    leash
}
