//! Run's side, in this process: what is refused, and what does not block.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use baton_warden::{
    BootTime, ChildRegistry, Report, Start, Ticket, WardenEvent, WardenHandle, WardenHandleError,
};
use rustix::process::Signal;

use crate::support::{is_alive, leash, private_dir, signal, state, until};

fn start(command: &[&str]) -> Start {
    Start {
        command: command.iter().map(|arg| (*arg).to_owned()).collect(),
        env: vec![],
        deadline: BootTime::now().later(Duration::from_secs(600)),
        grace_ms: 1_000,
        ticket: Ticket::new("/nonexistent"),
    }
}

fn warden_command(exe: &Path) -> Command {
    let mut command = Command::new(exe);
    command.arg("__warden");
    command
}

async fn prepare(dir: &Path) -> WardenHandle {
    let registry = ChildRegistry::open().expect("a subreaper");
    WardenHandle::prepare(registry, warden_command(&leash()), dir).await.expect("a warden")
}

fn pid(handle: &WardenHandle) -> i32 {
    i32::try_from(handle.pid()).expect("a pid")
}

#[tokio::test]
async fn an_unused_warden_leaves_when_dismissed() {
    let dir = private_dir();
    let handle = prepare(dir.path()).await;
    let warden = pid(&handle);
    assert!(is_alive(warden));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the socket is still in the folder");
    handle.dismiss().await.unwrap();
    assert!(!is_alive(warden));
}

#[tokio::test]
async fn an_unused_warden_leaves_when_dropped() {
    let dir = private_dir();
    let handle = prepare(dir.path()).await;
    let warden = pid(&handle);
    drop(handle);
    until("the warden leaves", || !is_alive(warden));
}

#[tokio::test]
async fn a_folder_that_others_can_enter_is_refused() {
    let dir = private_dir();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let registry = ChildRegistry::open().unwrap();
    let refused = WardenHandle::prepare(registry, warden_command(&leash()), dir.path()).await;
    assert!(matches!(refused, Err(WardenHandleError::NotPrivate(_))));
}

#[tokio::test]
async fn a_warden_that_does_not_come_is_an_error_at_once() {
    let dir = private_dir();
    let registry = ChildRegistry::open().unwrap();
    for exe in ["/bin/true", "/nonexistent"] {
        let failed = WardenHandle::prepare(registry, warden_command(Path::new(exe)), dir.path()).await;
        assert!(matches!(failed, Err(WardenHandleError::Prepare(_))), "{exe}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a socket is left in the folder");
}

#[tokio::test]
async fn a_second_command_is_refused_and_the_first_runs_on() {
    let dir = private_dir();
    let mut handle = prepare(dir.path()).await;
    handle.start(start(&["sleep", "600"])).unwrap();
    assert!(matches!(handle.start(start(&["true"])), Err(WardenHandleError::Twice)));
    let WardenEvent::Told(Report::Started { pid }) = handle.next_report().await.unwrap() else {
        panic!("not started")
    };
    let main = i32::try_from(pid).unwrap();
    assert!(is_alive(main));
    handle.dismiss().await.unwrap();
    assert!(!is_alive(main), "dismissed while the command ran, and the command runs on");
}

#[tokio::test]
async fn a_command_too_long_to_say_is_refused() {
    let dir = private_dir();
    let mut handle = prepare(dir.path()).await;
    let long = "x".repeat(9 << 20);
    assert!(matches!(handle.start(start(&["true", &long])), Err(WardenHandleError::Line(_))));
    handle.start(start(&["true"])).unwrap();
    assert!(matches!(handle.next_report().await, Ok(WardenEvent::Told(Report::Started { .. }))));
    handle.dismiss().await.unwrap();
}

#[tokio::test]
async fn a_command_as_long_as_linux_allows_is_started() {
    let dir = private_dir();
    let mut handle = prepare(dir.path()).await;
    let longest = "x".repeat((128 << 10) - 1);
    handle.start(start(&["true", &longest, &longest, &longest, &longest])).unwrap();
    assert!(matches!(handle.next_report().await, Ok(WardenEvent::Told(Report::Started { .. }))));
    let ended = handle.next_report().await.unwrap();
    assert!(
        matches!(ended, WardenEvent::Told(Report::Ended { how: baton_warden::CommandExit::Exit(0), .. })),
        "{ended:?}"
    );
    handle.dismiss().await.unwrap();
}

#[tokio::test]
async fn orders_to_a_stopped_warden_do_not_block() {
    let dir = private_dir();
    let mut handle = prepare(dir.path()).await;
    let warden = pid(&handle);
    signal(warden, Signal::STOP);
    until("the warden is stopped", || state(warden) == "T");
    handle.start(start(&["sleep", "600"])).unwrap();
    // Several times what a socket holds.
    for seconds in 0..50_000 {
        handle.deadline(BootTime::now().later(Duration::from_secs(600 + seconds))).unwrap();
    }
    handle.stop().unwrap();
    signal(warden, Signal::CONT);
    loop {
        match handle.next_report().await.unwrap() {
            WardenEvent::Told(Report::Started { .. } | Report::Terminating { .. }) => {}
            WardenEvent::Told(Report::Ended { .. }) => break,
            other => panic!("{other:?}"),
        }
    }
    handle.dismiss().await.unwrap();
}

#[tokio::test]
async fn what_the_command_prints_can_be_heard() {
    let dir = private_dir();
    let registry = ChildRegistry::open().expect("a subreaper");
    let mut command = warden_command(&leash());
    command.stdout(Stdio::piped());
    let mut handle = WardenHandle::prepare(registry, command, dir.path()).await.expect("a warden");
    let (stdout, stderr) = handle.take_output();
    assert!(stderr.is_none(), "stderr is run's own");
    handle.start(start(&["/bin/echo", "heard"])).unwrap();
    while !matches!(handle.next_report().await, Ok(WardenEvent::Told(Report::Ended { .. }))) {}
    handle.dismiss().await.unwrap();
    assert_eq!(std::io::read_to_string(stdout.expect("a pipe")).unwrap(), "heard\n");
}
