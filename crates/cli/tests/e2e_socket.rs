//! A server at a Unix socket: the kernel says which user asks.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]
#![allow(clippy::print_stderr, reason = "what was skipped is said")]

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::support;
use crate::support::processes::signal;
use crate::support::server::Server;
use crate::support::{Done, World, baton, exit_code, finish, until};

/// A user that is neither root nor whoever runs the tests.
const OTHER: u32 = 61_234;
/// What the kernel shows for users that it does not know.
const NOBODY: u32 = 65_534;

/// A server at a socket, a world that uses it, and the one that its file is in.
fn served(more: &[&str]) -> (Server, World, World) {
    let place = World::folder();
    let server = Server::at_socket(&place.file("server.redb"), more);
    let world = World::on(&server.url());
    (server, world, place)
}

fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A try to serve that fails.
fn refused(listen: &[&str]) -> Done {
    let place = World::folder();
    let mut command = baton();
    command.args(["serve", "--store"]).arg(format!("embedded:{}", place.file("no.redb").display()));
    for one in listen {
        command.args(["--listen", one]);
    }
    let done = finish(command, None);
    assert!(!place.file("no.redb").exists(), "it left a file behind");
    done
}

#[test]
fn agents_lead_by_a_socket_without_any_set_up() {
    let (mut server, world, _place) = served(&[]);
    let socket = server.socket().unwrap().to_path_buf();
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let baton = env!("CARGO_BIN_EXE_baton");
    // CMD finds the server as `run` did, and the checkpoint arrives.
    let work = format!(r#"echo $BATON_TOKEN > token; "{baton}" checkpoint job --summary "half done""#);
    let ran = ["run", "job", "--once", "--as", "alice", "--", "sh", "-c", &work];
    world.ok(&ran);
    assert_eq!(world.read_soon("token"), "1\n");
    assert_eq!(world.status("job")["checkpoint"]["summary"], "half done");

    // A standby waits in the server's line, and a watcher follows its stream.
    world.ok(&["acquire", "job", "--as", "bob", "--ttl", "1m"]);
    let watched = world.file("watched");
    let mut watcher = world.command(&["watch", "job", "--json", "--acknowledge", "--as", "dave"]);
    let mut watcher = watcher.stdout(fs::File::create(&watched).unwrap()).spawn().unwrap();
    until("the watcher sees bob", || fs::read_to_string(&watched).unwrap().contains("bob"));
    let waiting = ["run", "job", "--as", "carol", "--", "sh", "-c", "echo leads > carol; exec sleep 1000"];
    let mut standby = world.command(&waiting).stderr(Stdio::null()).spawn().unwrap();
    until("carol waits", || world.status("job").to_string().contains("carol"));
    world.ok(&["release", "job", "--as", "bob"]);
    assert_eq!(world.read_soon("carol"), "leads\n");
    until("the watcher sees carol", || fs::read_to_string(&watched).unwrap().contains("carol"));
    let sessions = world.ok(&["agents", "--sessions", "--json"]).jsons();
    assert!(sessions.iter().any(|session| session["agent"] == "dave"), "{sessions:?}");

    // Operators sign as everywhere.
    world.ok(&["init"]);
    world.ok(&["depose", "job", "--reason", "a test"]);
    until("carol is deposed", || world.status("job")["leader"]["agent"] != "carol");
    signal(standby.id(), Signal::TERM);
    assert!(exit_code(&mut standby).is_some());
    signal(watcher.id(), Signal::TERM);
    assert_eq!(exit_code(&mut watcher), Some(143));
    server.stop();
    assert!(!socket.exists(), "the socket is removed at the end");
    let gone = world.call(&["status", "job"]);
    let hint = format!("hint: see whether the server runs: baton serve --listen {}", server.url());
    assert!(
        gone.stderr.contains("there is no such socket") && gone.stderr.contains(&hint),
        "{}",
        gone.stderr
    );
}

#[test]
fn a_leader_keeps_its_lease_while_the_server_is_killed_and_started_again() {
    let (mut server, world, place) = served(&[]);
    let socket = server.socket().unwrap().to_path_buf();
    let mut leader = world.command(&[
        "run",
        "job",
        "--as",
        "alice",
        "--ttl",
        "1m",
        "--",
        "sh",
        "-c",
        "echo > leads; exec sleep 1000",
    ]);
    let mut leader = leader.stderr(Stdio::null()).spawn().unwrap();
    until("alice leads", || world.file("leads").exists());
    server.kill();
    assert!(fs::metadata(&socket).unwrap().file_type().is_socket(), "a killed server leaves its socket");
    let gone = world.call(&["status", "job"]);
    assert!(gone.stderr.contains("no server listens at this socket"), "{}", gone.stderr);
    let mut server = Server::at_socket(&place.file("server.redb"), &[]);
    assert_eq!(world.status("job")["leader"]["agent"], "alice");
    let renewals = || world.status("job")["leader"]["renewals"].as_u64().unwrap();
    let before = renewals();
    until("alice renews at the new server", || renewals() > before);
    assert_eq!(leader.try_wait().unwrap(), None, "its work went on");
    signal(leader.id(), Signal::TERM);
    assert!(exit_code(&mut leader).is_some());
    server.stop();
}

#[test]
fn two_servers_never_share_a_path() {
    let (server, world, _place) = served(&[]);
    let second = refused(&[&server.url()]).expect(1);
    assert!(second.stderr.contains("another server listens there"), "{}", second.stderr);
    assert!(
        second.stderr.contains(&format!("hint: use that server: --store {}", server.url())),
        "{}",
        second.stderr
    );
    // A server that is stopped is alive.
    signal(server.pid(), Signal::STOP);
    let third = refused(&[&server.url()]).expect(1);
    assert!(third.stderr.contains("another server listens there"), "{}", third.stderr);
    signal(server.pid(), Signal::CONT);
    world.ok(&["status"]);
}

#[test]
fn what_cannot_be_listened_at_is_said_and_left_as_it_is() {
    let place = World::folder();
    let file = place.file("file");
    fs::write(&file, "text").unwrap();
    let said = refused(&[&format!("unix:{}", file.display())]).expect(1);
    assert!(said.stderr.contains("something else than a socket is there"), "{}", said.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), "text");
    let long = format!("unix:/{}", "x".repeat(107));
    let said = refused(&[&long]).expect(1);
    assert!(
        said.stderr.contains("its path has 108 bytes, and a socket's has 107 at most"),
        "{}",
        said.stderr
    );
    let said = World::on(&long).call(&["status"]).expect(2);
    assert!(
        said.stderr.contains("its path has 108 bytes, and a socket's has 107 at most"),
        "{}",
        said.stderr
    );
    let said = refused(&[&format!("unix:{}/none/s", place.path().display())]).expect(1);
    assert!(
        said.stderr.contains("none must exist, and this user must be able to write it"),
        "{}",
        said.stderr
    );
    // Where others can write they could listen in its place, and keep it from starting.
    let open = place.file("open");
    fs::create_dir(&open).unwrap();
    for mode in [0o1777, 0o775] {
        set(&open, mode);
        let said = refused(&[&format!("unix:{}/s", open.display())]).expect(1);
        let why = "others than this user and root can write its folder";
        assert!(said.stderr.contains(why) && said.stderr.contains("hint: "), "{}", said.stderr);
    }
    // Sockets of other programs are left alone too, whether they listen or not.
    let theirs = place.file("theirs");
    let listener = UnixListener::bind(&theirs).unwrap();
    refused(&[&format!("unix:{}", theirs.display())]).expect(1);
    drop(listener);
    for (listen, why) in [
        (&["unix:relative"][..], "write the whole path of the socket"),
        (&["unix:/a", "unix:/b"], "one address and one Unix socket at most"),
        (&["127.0.0.1:0", "127.0.0.1:0"], "one address and one Unix socket at most"),
    ] {
        let said = refused(listen).expect(2);
        assert!(said.stderr.contains(why), "{listen:?}: {}", said.stderr);
    }
    let socket = format!("unix:{}", place.file("s").display());
    let done = finish(
        {
            let mut command = baton();
            command.current_dir(place.path()).args(["serve", "--listen", &socket, "--require-tokens"]);
            command
        },
        None,
    )
    .expect(2);
    assert!(done.stderr.contains("--require-tokens is for an address"), "{}", done.stderr);
}

#[test]
fn a_server_has_an_address_and_a_socket() {
    let place = World::folder();
    let store = format!("embedded:{}", place.file("server.redb").display());
    place.ok(&["init", "--store", &store]);
    let token = place.json(&["token", "create", "--role", "observer", "--store", &store]);
    let socket = format!("unix:{}", place.file("s").display());
    let log = place.file("log");
    let more = ["--listen", &socket, "--require-tokens", "--access-log", log.to_str().unwrap()];
    let server = Server::start_with(&place.file("server.redb"), &more);
    let (network, local) = (World::on(&server.url()), World::on(&socket));
    local.ok(&["acquire", "job", "--as", "alice"]);
    let refused = network.call(&["status", "job"]).expect(7);
    assert!(refused.stderr.contains("no token was shown"), "{}", refused.stderr);
    // Whoever shows a token is bound by it at the socket too.
    let bound = support::secure::with_token(
        &local,
        token["token"].as_str().unwrap(),
        &["acquire", "other", "--as", "bob"],
    );
    assert!(bound.expect(7).stderr.contains("role observer"));
    // Tokens are an operator's, whoever may use the socket.
    let refused = local.call(&["token", "list"]).expect(7);
    assert!(refused.stderr.contains("is an agent at this socket"), "{}", refused.stderr);
    let own = rustix::process::geteuid().as_raw();
    until("the log names the user", || {
        let text = fs::read_to_string(&log).unwrap();
        text.contains(&format!(
            "\"address\":null,\"uid\":{own},\"token\":null,\"role\":\"agent\",\"route\":\"acquire\""
        ))
    });
    // The operator who made the token has no browser that opens a socket.
    let refused = place.call(&["dashboard", "--print", "--store", &socket]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("a browser cannot open a Unix socket"), "{}", refused.stderr);
}

/// A world that other users can reach, with a folder of theirs; none where this user cannot become one of them.
fn shared() -> Option<World> {
    let root = rustix::process::geteuid().is_root();
    if !root || Command::new("setpriv").arg("--version").output().is_err() {
        support::skip("this user cannot become another one");
        return None;
    }
    let world = World::folder_below(Path::new("/tmp"));
    set(world.path(), 0o755);
    for user in [OTHER, NOBODY] {
        fs::create_dir(world.file(&user.to_string())).unwrap();
        chown(world.file(&user.to_string()), Some(user), Some(user)).unwrap();
    }
    fs::copy(env!("CARGO_BIN_EXE_baton"), world.file("baton")).unwrap();
    Some(world)
}

/// A call as another user, with private folders of its own.
fn as_user(world: &World, user: u32, arguments: &[&str]) -> Command {
    let (name, plain) = (user.to_string(), world.command(arguments));
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &name, "--regid", &name, "--clear-groups", "--"]);
    command.arg(world.file("baton")).args(arguments).current_dir(world.file(&name));
    for (name, value) in plain.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        command.env(name, value);
    }
    for (variable, folder) in
        [("BATON_STATE_DIR", "state"), ("BATON_CONFIG_DIR", "config"), ("XDG_RUNTIME_DIR", "run")]
    {
        command.env(variable, world.file(&name).join(folder));
    }
    command.stdin(Stdio::null());
    command
}

#[test]
fn another_user_is_refused() {
    let Some(world) = shared() else { return };
    let server = Server::at_socket(&world.file("server.redb"), &[]);
    let (url, socket) = (server.url(), server.socket().unwrap());
    let ask = ["acquire", "job", "--as", "mallory", "--store", &url];
    // The mode keeps other users out.
    let said = finish(as_user(&world, OTHER, &ask), None).expect(7);
    let sentence = "the user 61234 may not use this socket: it is for the server's own user and for root";
    assert!(said.stderr.contains(sentence), "{}", said.stderr);
    assert!(said.stderr.contains("hint: run as the server's user"), "{}", said.stderr);
    // Where somebody has opened it, they send nothing to a server of another user.
    set(socket, 0o666);
    let said = finish(as_user(&world, OTHER, &ask), None).expect(7);
    let sentence = "its server runs as the user 0, and lets only that user and root in, not 61234";
    assert!(said.stderr.contains(sentence), "{}", said.stderr);
    let nothing = world.call(&["status", "job", "--store", &url]).expect(1);
    assert!(nothing.stderr.contains("there is no election `job`"), "nothing was done: {}", nothing.stderr);
}

#[test]
fn a_server_of_another_user_serves_that_user_and_root() {
    let Some(world) = shared() else { return };
    let folder = world.file(&OTHER.to_string());
    let (url, store) = (format!("unix:{}", folder.join("s").display()), "embedded:server.redb");
    let serve = ["serve", "--store", store, "--listen", &url, "--address-file", "address"];
    let mut child =
        as_user(&world, OTHER, &serve).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("it listens", || folder.join("address").exists());
    let acquired =
        finish(as_user(&world, OTHER, &["acquire", "job", "--as", "alice", "--store", &url]), None);
    acquired.expect(0);
    let seen = world.json(&["status", "job", "--store", &url]);
    assert_eq!(seen["leader"]["agent"], "alice", "root may look: {seen}");
    // Any user's process can listen at a path, so root's token is not shown to it unless the URL names that user.
    let own = format!("embedded:{}", world.file("own.redb").display());
    world.ok(&["init", "--store", &own]);
    let token = support::secure::text(&support::secure::create(&world, &own, &["--role", "agent"]), "token");
    let status = |url: &str| support::secure::with_token(&world, &token, &["status", "job", "--store", url]);
    let said = status(&url).expect(7);
    assert!(
        said.stderr.contains("the user 61234, who would see the access token of root"),
        "{}",
        said.stderr
    );
    assert!(said.stderr.contains("unix:/PATH?owner=61234"), "{}", said.stderr);
    let said = status(&format!("{url}?owner=61234"));
    assert!(!said.stderr.contains("who would see"), "it was asked, and knows no such token: {}", said.stderr);
    let said = status(&format!("{url}?owner=0")).expect(7);
    assert!(said.stderr.contains("the URL says owner=0"), "{}", said.stderr);
    signal(child.id(), Signal::TERM);
    assert_eq!(exit_code(&mut child), Some(0));
    // In a folder of root's it cannot listen, and a user that stands for many cannot tell them apart.
    let root = format!("unix:{}", world.file("s").display());
    let said =
        finish(as_user(&world, OTHER, &["serve", "--store", store, "--listen", &root]), None).expect(1);
    assert!(said.stderr.contains("Permission denied"), "{}", said.stderr);
    let own = format!("unix:{}", world.file("65534").join("s").display());
    let said =
        finish(as_user(&world, NOBODY, &["serve", "--store", store, "--listen", &own]), None).expect(1);
    assert!(
        said.stderr.contains("which the kernel shows for every user that it does not know"),
        "{}",
        said.stderr
    );
}
