//! What `baton peer` does not do: bad input, damaged memory, a full disk, strangers.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::support::peers::{Peers, STEADY, net};
use crate::support::{Done, World, finish, until};

fn refused(world: &World, arguments: &[&str]) -> Done {
    let done = world.call(&[&["peer", "--algorithm", "raft"], arguments, &["--", "true"]].concat()).expect(2);
    assert!(done.stderr.contains("hint:") || done.stderr.contains("--help"), "{}", done.stderr);
    done
}

#[test]
fn wrong_lists_addresses_and_rhythms_are_refused_with_a_hint() {
    let world = World::folder();
    let ours = "1=127.0.0.1:7001";
    for (arguments, why) in [
        (&["--id", "0", "--peer", ours][..], "from 1 to 1023"),
        (&["--id", "1", "--peer", "1"], "ID=HOST:PORT"),
        (&["--id", "1", "--peer", "2=127.0.0.1:7002"], "where does member 1 listen?"),
        (&["--id", "1", "--peer", ours, "--peer", "2=10.0.0.2:7001"], "would not have to prove who it is"),
        (&["--id", "1", "--peer", ours, "--listen", "0.0.0.0:7001"], "not a loopback address"),
        (&["--id", "1", "--peer", ours, "--peer", ours], "named twice"),
        (&["--id", "1", "--peer", ours, "--peer", "2=127.0.0.1:7001"], "members 1 and 2 are both at"),
        (&["--id", "1", "--peer", ours, "--peer", "2=127.0.0.1:0"], "port 0"),
        (&["--id", "1", "--peer", "1=127.0.0.1:7001,witness"], "no witness"),
        (&["--id", "1", "--peer", ours, "--witness"], "the same list"),
        (&["--id", "1", "--peer", ours, "--priority", "7"], "the same list"),
        (&["--id", "1", "--peer", ours, "--heartbeat", "1h"], "two and a half heartbeats"),
        (&["--id", "1", "--peer", ours, "--timeout", "15s"], "15s..20s"),
        (&["--id", "1", "--peer", ours, "--grace", "14s"], "over a third"),
        (&["--id", "1", "--peer", ours, "--secret-file", "missing"], "cannot be read"),
        (&["--id", "1", "--peer", ours, "--members", "missing"], "cannot be used with"),
        (&["--id", "1", "--members", "missing"], "cannot be read"),
        (&["--id", "1", "--peer", ours, "--tls-cert", "missing"], "--tls-key"),
    ] {
        let done = refused(&world, arguments);
        assert!(done.stderr.contains(why), "{arguments:?}: {}", done.stderr);
    }
    fs::write(world.file("empty"), "# nobody yet\n").unwrap();
    assert!(refused(&world, &["--id", "1", "--members", "empty"]).stderr.contains("it names no member"));
    let none = world.call(&["peer", "--algorithm", "raft", "--id", "1", "--peer", ours]).expect(2);
    assert!(none.stderr.contains("CMD"), "{}", none.stderr);
}

#[test]
fn a_secret_must_be_long_and_private() {
    let world = World::folder();
    let file = world.file("secret");
    fs::write(&file, "short\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let arguments = ["--id", "1", "--peer", "1=127.0.0.1:7001", "--secret-file", "secret"];
    assert!(refused(&world, &arguments).stderr.contains("shorter than 16 bytes"));
    fs::write(&file, "x".repeat(5_000)).unwrap();
    let long = refused(&world, &arguments).stderr;
    assert!(long.contains("longer than 4096 bytes"), "{long}");
    fs::write(&file, "long enough, as secrets go\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refused(&world, &arguments).stderr.contains("chmod 600"));
}

#[test]
fn damaged_memory_of_another_or_in_use_is_refused_and_named() {
    let world = World::folder();
    let mut peers = Peers::new(&world, "raft", 1);
    peers.start(1);
    peers.leader_among(&[1], 0);
    let again = finish(peers.command(1, &["true"]), None).expect(2);
    assert!(
        again.stderr.contains("another process uses") && again.stderr.contains("data-1"),
        "{}",
        again.stderr
    );
    peers.kill(1);
    let file = peers.data(1).join("state");
    let whole = fs::read(&file).unwrap();
    let mut bytes = whole.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&file, &bytes).unwrap();
    // The warden of the killed one may still be about to go; its lock is not.
    let damaged = finish(peers.command(1, &["true"]), None).expect(7);
    assert!(damaged.stderr.contains(&file.display().to_string()), "{}", damaged.stderr);
    assert!(damaged.stderr.contains("checksum") && damaged.stderr.contains("hint:"), "{}", damaged.stderr);
    assert_eq!(fs::read(&file).unwrap(), bytes, "it was left as it is");
    let newer = [b"baton peer v9\n\0\0", &whole[16..]].concat();
    fs::write(&file, &newer).unwrap();
    let other = finish(peers.command(1, &["true"]), None).expect(7);
    assert!(other.stderr.contains("hint: start the version that wrote it"), "{}", other.stderr);
    assert_eq!(fs::read(&file).unwrap(), newer, "it was left as it is");
    fs::write(&file, &whole).unwrap();
    peers.algorithm = "paxos".to_string();
    let foreign = finish(peers.command(1, &["true"]), None).expect(2);
    assert!(foreign.stderr.contains("belongs to member 1 of group `peers` (raft)"), "{}", foreign.stderr);
}

/// A file system of a few pages, gone at the end. None where this user may not mount; in continuous integration nothing is skipped.
struct SmallMount(PathBuf);

impl SmallMount {
    fn mount(folder: PathBuf) -> Option<SmallMount> {
        fs::create_dir_all(&folder).unwrap();
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=32k,mode=0700", "none"])
            .arg(&folder)
            .output();
        if done.as_ref().is_ok_and(|output| output.status.success()) {
            return Some(SmallMount(folder));
        }
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{done:?}");
        None
    }
}

impl Drop for SmallMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_member_whose_disk_is_full_ends_its_command_and_says_so() {
    let world = World::folder();
    let mut peers = Peers::new(&world, "raft", 3);
    peers.rhythm = STEADY;
    let disks: Vec<SmallMount> = (1..=3).filter_map(|id| SmallMount::mount(peers.data(id))).collect();
    if disks.len() < 3 {
        return;
    }
    peers.start_all();
    let (leader, token) = peers.leader_among(&[1, 2, 3], 0);
    let others: Vec<u16> = [1, 2, 3].into_iter().filter(|id| *id != leader).collect();
    // Nothing more can be kept there, and the next election needs it.
    fill(&peers.data(leader));
    let data = peers.data(leader).display().to_string();
    // One that has lost its lease by then votes for the next one just the same.
    let _ = world.call(&["peer", "transfer", "--data", &data]);
    let (next, token) = peers.leader_among(&others, token);
    // It votes for the next one, and cannot keep that.
    assert_eq!(peers.ended(leader), Some(7), "{}", peers.log(leader));
    assert!(peers.log(leader).contains("state.next"), "{}", peers.log(leader));
    // The same with a leader that is asked to change the members: it must keep the list before it says so.
    fill(&peers.data(next));
    let data = peers.data(next).display().to_string();
    let _ = world.call(&["peer", "members", "remove", &leader.to_string(), "--data", &data]);
    assert_eq!(peers.ended(next), Some(7), "{}", peers.log(next));
    assert!(peers.log(next).contains("state.next"), "{}", peers.log(next));
    until("its command is gone", || fs::File::open(world.file("guard")).unwrap().try_lock().is_ok());
    assert_eq!(peers.journal().last(), Some(&(next, token)));
    peers.check();
}

/// Until not a byte fits.
fn fill(folder: &std::path::Path) {
    use std::io::Write;
    let mut file = fs::File::create(folder.join("ballast")).unwrap();
    while file.write_all(&[7; 512]).is_ok() {}
}

#[test]
fn a_stranger_neither_joins_nor_asks_and_members_of_another_rhythm_say_so() {
    let world = World::folder();
    let net = net();
    for (name, text) in [("ours", "the secret of this group"), ("theirs", "a secret of another group")] {
        fs::write(world.file(name), text).unwrap();
        fs::set_permissions(world.file(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let mut peers = Peers::new(&world, "raft", 3);
    peers.rhythm = STEADY;
    for id in 1..=3 {
        peers.know(id, &format!("{net}.{id}:7001"));
        let secret = if id == 3 { "theirs" } else { "ours" };
        // A group is founded by all together, or by those who are told so.
        peers.member(id).extra = ["--found", "--secret-file", secret].map(str::to_string).to_vec();
    }
    peers.start_all();
    let (leader, _) = peers.leader_among(&[1, 2], 0);
    until("the stranger is told", || peers.log(3).contains("does not know us"));
    until("it is complained of", || peers.log(leader).contains("was not let in"));
    assert_eq!(peers.told(3)["leader"], serde_json::Value::Null);

    let place = format!("{leader}={}", peers.address(leader));
    let ask = |secret: &str| world.call(&["peer", "status", "--connect", &place, "--secret-file", secret]);
    assert!(ask("ours").expect(0).stdout.contains("leads"));
    let stranger = ask("theirs").expect(1);
    assert!(stranger.stderr.contains("hint:") && stranger.stderr.contains("secret"), "{}", stranger.stderr);
    let none = world.call(&["peer", "transfer", "--connect", &place]).expect(1);
    assert!(
        none.stderr.contains("and we have none") && none.stderr.contains("give --secret-file"),
        "{}",
        none.stderr
    );

    // A member in another rhythm: its votes would break the lease of the others.
    peers.kill(3);
    peers.member(3).extra = ["--secret-file", "ours", "--timeout", "4001ms..6s"].map(str::to_string).to_vec();
    let mut odd = peers.command(3, &["true"]);
    // The later word counts for a person; clap refuses two, so the first goes.
    let words: Vec<String> = odd.get_args().map(|word| word.to_str().unwrap().to_string()).collect();
    let at = words.iter().position(|word| word == "--timeout").unwrap();
    let words: Vec<&String> =
        words.iter().enumerate().filter(|(n, _)| *n != at && *n != at + 1).map(|(_, word)| word).collect();
    odd = {
        let mut command = world.command(&[]);
        command.args(words);
        command
    };
    let log = fs::File::create(world.file("log-3")).unwrap();
    let mut odd = odd.stderr(log).spawn().unwrap();
    until("it is told", || peers.log(3).contains("must have the same"));
    odd.kill().unwrap();
    odd.wait().unwrap();
    peers.check();
}

#[test]
fn nobody_answers_where_nobody_runs() {
    let world = World::folder();
    for arguments in
        [&["peer", "status"][..], &["peer", "transfer"], &["peer", "status", "--data", "nowhere"]]
    {
        let done = world.call(arguments).expect(1);
        assert!(done.stderr.contains("hint:"), "{}", done.stderr);
    }
    let pilot = world.call(&["peer", "status", "--connect", "1=0:0000.0000.0001"]).expect(2);
    assert!(pilot.stderr.contains("hint:") && pilot.stderr.contains("--data DIR"), "{}", pilot.stderr);
}
