//! Run's side, in this process: what is refused, and what does not block.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use baton_warden::{BootTime, Household, News, Report, Start, Ticket, Ward, WardError};
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

async fn prepare(dir: &Path) -> Ward {
    let household = Household::open().expect("a subreaper");
    Ward::prepare(household, warden_command(&leash()), dir).await.expect("a warden")
}

fn pid(ward: &Ward) -> i32 {
    i32::try_from(ward.pid()).expect("a pid")
}

#[tokio::test]
async fn an_unused_warden_leaves_when_dismissed() {
    let dir = private_dir();
    let ward = prepare(dir.path()).await;
    let warden = pid(&ward);
    assert!(is_alive(warden));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the socket is still in the folder");
    ward.dismiss().await.unwrap();
    assert!(!is_alive(warden));
}

#[tokio::test]
async fn an_unused_warden_leaves_when_dropped() {
    let dir = private_dir();
    let ward = prepare(dir.path()).await;
    let warden = pid(&ward);
    drop(ward);
    until("the warden leaves", || !is_alive(warden));
}

#[tokio::test]
async fn a_folder_that_others_can_enter_is_refused() {
    let dir = private_dir();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let household = Household::open().unwrap();
    let refused = Ward::prepare(household, warden_command(&leash()), dir.path()).await;
    assert!(matches!(refused, Err(WardError::NotPrivate(_))));
}

#[tokio::test]
async fn a_warden_that_does_not_come_is_an_error_at_once() {
    let dir = private_dir();
    let household = Household::open().unwrap();
    for exe in ["/bin/true", "/nonexistent"] {
        let failed = Ward::prepare(household, warden_command(Path::new(exe)), dir.path()).await;
        assert!(matches!(failed, Err(WardError::Prepare(_))), "{exe}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a socket is left in the folder");
}

#[tokio::test]
async fn a_second_command_is_refused_and_the_first_runs_on() {
    let dir = private_dir();
    let mut ward = prepare(dir.path()).await;
    ward.start(start(&["sleep", "600"])).unwrap();
    assert!(matches!(ward.start(start(&["true"])), Err(WardError::Twice)));
    let News::Told(Report::Started { pid }) = ward.next_report().await.unwrap() else {
        panic!("not started")
    };
    let main = i32::try_from(pid).unwrap();
    assert!(is_alive(main));
    ward.dismiss().await.unwrap();
    assert!(!is_alive(main), "dismissed while the command ran, and the command runs on");
}

#[tokio::test]
async fn a_command_too_long_to_say_is_refused() {
    let dir = private_dir();
    let mut ward = prepare(dir.path()).await;
    let long = "x".repeat(9 << 20);
    assert!(matches!(ward.start(start(&["true", &long])), Err(WardError::Line(_))));
    ward.start(start(&["true"])).unwrap();
    assert!(matches!(ward.next_report().await, Ok(News::Told(Report::Started { .. }))));
    ward.dismiss().await.unwrap();
}

#[tokio::test]
async fn a_command_as_long_as_linux_allows_is_started() {
    let dir = private_dir();
    let mut ward = prepare(dir.path()).await;
    let longest = "x".repeat((128 << 10) - 1);
    ward.start(start(&["true", &longest, &longest, &longest, &longest])).unwrap();
    assert!(matches!(ward.next_report().await, Ok(News::Told(Report::Started { .. }))));
    let ended = ward.next_report().await.unwrap();
    assert!(matches!(ended, News::Told(Report::Ended { how: baton_warden::How::Exit(0), .. })), "{ended:?}");
    ward.dismiss().await.unwrap();
}

#[tokio::test]
async fn orders_to_a_stopped_warden_do_not_block() {
    let dir = private_dir();
    let mut ward = prepare(dir.path()).await;
    let warden = pid(&ward);
    signal(warden, Signal::STOP);
    until("the warden is stopped", || state(warden) == "T");
    ward.start(start(&["sleep", "600"])).unwrap();
    // Several times what a socket holds.
    for seconds in 0..50_000 {
        ward.deadline(BootTime::now().later(Duration::from_secs(600 + seconds))).unwrap();
    }
    ward.stop().unwrap();
    signal(warden, Signal::CONT);
    loop {
        match ward.next_report().await.unwrap() {
            News::Told(Report::Started { .. } | Report::Terminating { .. }) => {}
            News::Told(Report::Ended { .. }) => break,
            other => panic!("{other:?}"),
        }
    }
    ward.dismiss().await.unwrap();
}

#[tokio::test]
async fn what_the_command_prints_can_be_heard() {
    let dir = private_dir();
    let household = Household::open().expect("a subreaper");
    let mut command = warden_command(&leash());
    command.stdout(Stdio::piped());
    let mut ward = Ward::prepare(household, command, dir.path()).await.expect("a warden");
    let (stdout, stderr) = ward.take_output();
    assert!(stderr.is_none(), "stderr is run's own");
    ward.start(start(&["/bin/echo", "heard"])).unwrap();
    while !matches!(ward.next_report().await, Ok(News::Told(Report::Ended { .. }))) {}
    ward.dismiss().await.unwrap();
    assert_eq!(std::io::read_to_string(stdout.expect("a pipe")).unwrap(), "heard\n");
}
