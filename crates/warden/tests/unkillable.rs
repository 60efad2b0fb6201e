//! A descendant that belongs to another user cannot be killed: it is reported, and nothing is released
//! while it lives.
//!
//! Only root can set this up, by running the scene as an ordinary user with a set-user-id program at hand;
//! without root there is nothing to see.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use rustix::process::{Signal, geteuid};

use crate::support::{Scene, is_alive, leash, private_dir, signal, until};

const NOBODY: u32 = 65_534;

#[test]
fn a_process_of_another_user_is_reported_and_nothing_is_released() {
    if !geteuid().is_root() {
        return;
    }
    let dir = private_dir();
    let (copy, raise) = (dir.path().join("leash"), dir.path().join("raise"));
    fs::copy(leash(), &copy).unwrap();
    fs::copy("/usr/bin/setpriv", &raise).unwrap();
    fs::set_permissions(&raise, fs::Permissions::from_mode(0o4755)).unwrap();
    chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let mut run = Command::new("setpriv");
    run.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy);
    let script = format!(
        r#""{}" --reuid=0 --regid=0 --clear-groups sleep 600 & echo $! > "$LEASH_MARK/pid.new"
           mv "$LEASH_MARK/pid.new" "$LEASH_MARK/pid"; sleep 600"#,
        raise.display()
    );
    let scene = Scene::launch(dir, run, 600_000, 0, &["sh", "-c", &script]);
    let foreign: i32 = scene.file("pid").trim().parse().unwrap();
    until("it belongs to root", || real_user(foreign) == Some(0));

    let (warden, main) = (scene.warden(), scene.main());
    signal(i32::try_from(scene.run.id()).unwrap(), Signal::KILL);
    until("what can be killed is killed", || !is_alive(main));
    // The warden keeps trying and looks again and again: three more rounds of its life are enough to have
    // released.
    for _ in 0..3 {
        let before = switches(warden);
        until("the warden looks again", || switches(warden) > before);
        assert!(is_alive(foreign) && is_alive(warden) && !scene.released());
    }
    signal(foreign, Signal::KILL);
    let released = scene.file("released");
    assert!(released.ends_with(" 0\n"), "{released}");
}

fn real_user(pid: i32) -> Option<u32> {
    status(pid, "Uid:")?.split_whitespace().next()?.parse().ok()
}

/// How often it went to sleep by itself.
fn switches(pid: i32) -> u64 {
    status(pid, "voluntary_ctxt_switches:").and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

fn status(pid: i32, field: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(field)).map(str::to_owned)
}
