//! `baton run` and `baton peer` at a terminal: CMD has a terminal of its own, and the person's is as it was afterwards.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::support::peers::{Peers, STEADY};
use crate::support::screen::Screen;
use crate::support::{World, exit_code, processes, until};

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const CTRL_Z: &str = "\x1a";

/// Longer than two interrupts may be apart to count as one request.
const APART: Duration = Duration::from_millis(1_500);

fn run(world: &World, options: &[&str], script: &str) -> Command {
    world.command(&[&["run", "e", "--as", "a"], options, &["--", "sh", "-c", script]].concat())
}

/// Prints an arrow in front of what it says, so that it is told from what is typed.
const SAYS: &str = "say() { printf '\\055> %s;' \"$*\"; }; ";

/// Says that it is ready, and stays until it is ended.
fn stays(script: &str) -> String {
    format!("{SAYS}{script}\nsay ready; while :; do sleep 0.05; done")
}

fn is_raw(screen: &Screen) -> bool {
    screen.modes().contains("-icanon")
}

/// CMD is ready, and keys go to it.
fn is_ready(screen: &Screen) {
    screen.shows("-> ready", 1);
    until("the terminal is raw", || is_raw(screen));
}

/// The election is free, nothing of CMD is left, and the terminal is as it was.
fn is_over(world: &World, screen: &Screen, before: &str) {
    until("nobody leads", || world.status("e")["leader"].is_null());
    until("nothing of CMD is left", || processes::of_commands(world.mark()).is_empty());
    until("the modes are as before", || screen.modes() == before);
}

/// A shell with job control at a terminal.
fn shell(world: &World, screen: &Screen) -> Child {
    let mut shell = in_world(world, "bash");
    shell.args(["--norc", "--noprofile", "-i"]).env("PS1", "$ ").env("BATON", env!("CARGO_BIN_EXE_baton"));
    screen.start(&shell)
}

/// Another program in the folder of this world, with its variables.
fn in_world(world: &World, program: &str) -> Command {
    let mut command = Command::new(program);
    let call = world.command(&[]);
    command.envs(call.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(world.path());
    command
}

#[test]
fn cmd_has_a_terminal_of_its_own_that_is_as_large() {
    let (world, screen) = (World::new(), Screen::new());
    let before = screen.modes();
    let script = format!(
        "{SAYS}say $(stty size); say $(tty); [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && say all; say $(tty < /dev/tty); exit 7"
    );
    let mut run = screen.start(&run(&world, &[], &script));
    assert_eq!(exit_code(&mut run), Some(7), "{}", screen.shown());
    for words in ["-> 33 101;", "-> all;", "-> /dev/"] {
        screen.shows(words, 1);
    }
    let own = format!("-> {};", screen.name());
    assert!(!screen.shown().contains(&own), "{}", screen.shown());
    is_over(&world, &screen, &before);
}

#[test]
fn what_cmd_prints_comes_as_it_would_at_a_terminal_and_so_do_our_own_words() {
    let (world, screen) = (World::new(), Screen::new());
    let mut run = screen.start(&run(&world, &[], "echo one; echo two >&2"));
    assert_eq!(exit_code(&mut run), Some(0));
    screen.shows("released e", 1);
    let shown = screen.shown();
    assert!(shown.contains("one\r\ntwo\r\n"), "{shown:?}");
    let bare = shown.replace("\r\n", "");
    assert!(!bare.contains('\n'), "{shown:?}");
}

#[test]
fn keys_reach_cmd_one_by_one_and_so_does_a_new_size() {
    let (world, screen) = (World::new(), Screen::new());
    let script = format!(
        "{SAYS}trap 'say $(stty size)' WINCH; stty raw -echo; say ready; k=$(dd bs=1 count=1 2>/dev/null); say key $k; while :; do sleep 0.05; done"
    );
    let mut run = screen.start(&run(&world, &[], &script));
    is_ready(&screen);
    screen.type_in("q");
    screen.shows("-> key q;", 1);
    screen.resize(44, 120);
    screen.shows("-> 44 120;", 1);
    processes::signal(run.id(), Signal::TERM);
    assert_eq!(exit_code(&mut run), Some(143));
}

#[test]
fn an_editor_works() {
    let (world, screen) = (World::new(), Screen::new());
    let before = screen.modes();
    let call = world.command(&["run", "e", "--", "vim", "-u", "NONE", "-i", "NONE", "-N", "text"]);
    let mut run = screen.start(&call);
    until("the terminal is raw", || is_raw(&screen));
    // As soon as it draws its screen.
    screen.shows("~", 10);
    screen.type_in("ihello\x1b:wq\r");
    assert_eq!(exit_code(&mut run), Some(0), "{}", screen.shown());
    assert_eq!(fs::read_to_string(world.file("text")).unwrap(), "hello\n");
    is_over(&world, &screen, &before);
}

#[test]
fn the_end_of_input_reaches_cmd() {
    let (world, screen) = (World::new(), Screen::new());
    let mut run = screen.start(&run(&world, &[], &format!("{SAYS}say ready; say read $(cat)")));
    is_ready(&screen);
    screen.type_in(&format!("word\r{CTRL_D}"));
    assert_eq!(exit_code(&mut run), Some(0));
    screen.shows("-> read word;", 1);
}

#[test]
fn an_interrupt_is_for_cmd_and_a_second_one_within_a_second_ends_it() {
    let (world, screen) = (World::new(), Screen::new());
    let before = screen.modes();
    let script = stays("trap 'say interrupted' INT");
    let mut run = screen.start(&run(&world, &[], &script));
    is_ready(&screen);
    screen.type_in(CTRL_C);
    screen.shows("-> interrupted", 1);
    std::thread::sleep(APART);
    screen.type_in(CTRL_C);
    screen.shows("-> interrupted", 2);
    assert_eq!(world.status("e")["leader"]["agent"], "a");
    std::thread::sleep(APART);
    screen.type_in(&format!("{CTRL_C}{CTRL_C}"));
    assert_eq!(exit_code(&mut run), Some(143), "CMD's own end: it was asked by SIGTERM");
    is_over(&world, &screen, &before);
}

#[test]
fn a_third_interrupt_does_not_wait_for_the_grace() {
    let (world, screen) = (World::new(), Screen::new());
    let script = stays(
        "trap 'say interrupted' INT; trap 'touch asked' TERM; (trap '' TERM INT HUP; exec setsid sleep 100000) &",
    );
    let mut run = screen.start(&run(&world, &["--ttl", "30m", "--grace", "10m"], &script));
    is_ready(&screen);
    screen.type_in(&format!("{CTRL_C}{CTRL_C}"));
    until("CMD is asked", || world.file("asked").exists());
    screen.type_in(&format!("{CTRL_C}{CTRL_C}"));
    assert_eq!(exit_code(&mut run), Some(137));
    assert!(processes::of_commands(world.mark()).is_empty());
    assert_eq!(world.status("e")["state"], "vacant");
}

#[test]
fn ctrl_z_ends_the_work_and_frees_the_lease_and_fg_campaigns_again() {
    let (world, screen) = (World::new(), Screen::new());
    let mut shell = shell(&world, &screen);
    screen.type_in(
        "stty -a > before; \"$BATON\" run e --as a -- sh -c 'printf \"\\055> ready;\"; exec sleep 100000'\r",
    );
    is_ready(&screen);
    assert_eq!(world.status("e")["leader"]["agent"], "a");
    screen.type_in(CTRL_Z);
    screen.shows("Stopped", 1);
    until("the election is vacant", || world.status("e")["state"] == "vacant");
    assert!(processes::of_commands(world.mark()).iter().all(|process| process.pid == shell.id()));
    screen.type_in("stty -a > after; fg\r");
    screen.shows("-> ready", 2);
    assert_eq!(world.read_soon("after"), world.read_soon("before"));
    until("it leads again", || world.status("e")["token"] == 2);
    until("the terminal is raw", || is_raw(&screen));
    screen.type_in(&format!("{CTRL_C}{CTRL_C}"));
    until("the election is vacant", || world.status("e")["state"] == "vacant");
    screen.type_in("exit 0\r");
    assert_eq!(exit_code(&mut shell), Some(0));
}

#[test]
fn ctrl_z_where_no_shell_could_continue_it_ends_run() {
    let (world, screen) = (World::new(), Screen::new());
    let before = screen.modes();
    let mut run = screen.start(&run(&world, &[], &stays(":")));
    is_ready(&screen);
    screen.type_in(CTRL_Z);
    assert_eq!(exit_code(&mut run), Some(148), "{}", screen.shown());
    is_over(&world, &screen, &before);
}

#[test]
fn a_cmd_that_stops_itself_is_ended_and_frees_the_lease() {
    let (world, screen) = (World::new(), Screen::new());
    let before = screen.modes();
    let mut run = screen.start(&run(&world, &[], "kill -STOP $$"));
    assert_eq!(exit_code(&mut run), Some(148), "{}", screen.shown());
    is_over(&world, &screen, &before);
}

/// Ctrl-Z is a key of the shell there, for its own jobs.
/// A peer does for its CMD what run does.
#[test]
fn a_peer_gives_cmd_a_terminal_and_heeds_the_same_keys() {
    for (keys, code) in [(format!("{CTRL_C}{CTRL_C}"), 143), (CTRL_Z.to_string(), 148)] {
        let (world, screen) = (World::new(), Screen::new());
        let before = screen.modes();
        let mut peers = Peers::new(&world, "raft", 1);
        peers.rhythm = STEADY;
        let script = stays(
            "trap 'say interrupted' INT; say $(stty size); [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && say all",
        );
        let mut peer = screen.start(&peers.command(1, &["sh", "-c", &script]));
        is_ready(&screen);
        for words in ["-> 33 101;", "-> all;"] {
            screen.shows(words, 1);
        }
        screen.type_in(CTRL_C);
        screen.shows("-> interrupted", 1);
        std::thread::sleep(APART);
        screen.type_in(&keys);
        assert_eq!(exit_code(&mut peer), Some(code), "{}", screen.shown());
        until("nothing of CMD is left", || processes::of_commands(world.mark()).is_empty());
        until("the modes are as before", || screen.modes() == before);
    }
}

#[test]
fn a_shell_as_cmd_has_jobs_of_its_own() {
    let (world, screen) = (World::new(), Screen::new());
    let call = world.command(&["run", "e", "--as", "a", "--", "bash", "--norc", "--noprofile", "-i"]);
    let mut run = screen.start(&call);
    until("the terminal is raw", || is_raw(&screen));
    // By the job itself, so that it is in the foreground by then.
    screen.type_in("sh -c 'printf \"\\055> at work;\"; exec sleep 100000'\r");
    screen.shows("-> at work;", 1);
    screen.type_in(CTRL_Z);
    screen.shows("Stopped", 1);
    // A shell with stopped jobs wants to hear it twice.
    screen.type_in(&format!("{CTRL_Z}\rexit 5\rexit 5\r"));
    assert_eq!(exit_code(&mut run), Some(5), "{}", screen.shown());
    assert_eq!(world.status("e")["token"], 1);
}

#[test]
fn sigterm_ends_cmd_with_everything_that_it_started_in_its_session_and_beside_it() {
    let (world, screen) = (World::new(), Screen::new());
    let before = screen.modes();
    let script = stays("setsid sleep 100000 & (trap '' HUP; sleep 100000 &)");
    let mut run = screen.start(&run(&world, &[], &script));
    is_ready(&screen);
    processes::signal(run.id(), Signal::TERM);
    assert_eq!(exit_code(&mut run), Some(143));
    is_over(&world, &screen, &before);
}

#[test]
fn the_modes_are_restored_after_kill_9_of_run_and_everything_is_ended() {
    let (world, screen) = (World::new(), Screen::new());
    let before = screen.modes();
    let script = stays("trap '' TERM INT HUP; setsid sleep 100000 &");
    let mut run = screen.start(&run(&world, &["--ttl", "30m"], &script));
    is_ready(&screen);
    processes::signal(run.id(), Signal::KILL);
    run.wait().unwrap();
    is_over(&world, &screen, &before);
}

#[test]
fn the_modes_are_restored_after_kill_9_of_the_warden() {
    let (world, screen) = (World::new(), Screen::new());
    let before = screen.modes();
    let mut run = screen.start(&run(&world, &["--once"], &stays(":")));
    is_ready(&screen);
    let warden = processes::warden(run.id()).unwrap();
    processes::signal(warden, Signal::KILL);
    assert_eq!(exit_code(&mut run), Some(4), "{}", screen.shown());
    is_over(&world, &screen, &before);
}

#[test]
fn the_modes_are_restored_when_run_is_stopped_for_longer_than_its_lease() {
    let (world, screen) = (World::new(), Screen::new());
    let before = screen.modes();
    let mut run = screen.start(&run(&world, &["--ttl", "3s", "--once"], &stays(":")));
    is_ready(&screen);
    processes::signal(run.id(), Signal::STOP);
    is_over(&world, &screen, &before);
    processes::signal(run.id(), Signal::CONT);
    assert_eq!(exit_code(&mut run), Some(4), "{}", screen.shown());
    assert_eq!(screen.modes(), before);
}

#[test]
fn a_wait_for_the_turn_leaves_the_terminal_alone() {
    let (world, screen) = (World::new(), Screen::new());
    let before = screen.modes();
    world.ok(&["acquire", "e", "--as", "other", "--ttl", "10m"]);
    let mut run = screen.start(&run(&world, &[], "true"));
    screen.shows("waits to lead", 1);
    assert_eq!(screen.modes(), before);
    screen.type_in(CTRL_C);
    assert_eq!(exit_code(&mut run), Some(130), "{}", screen.shown());
}

/// Each bytes as it is: without a terminal's line ends, and stderr apart.
#[test]
fn pipes_at_a_terminal_are_passed_on_byte_for_byte() {
    let (world, screen) = (World::new(), Screen::new());
    let before = screen.modes();
    let script = "cat; printf 'o\\nu\\000t'; printf 'e\\nr' >&2; [ -t 0 ] || [ -t 1 ] || [ -t 2 ] || exit 9";
    fs::write(world.file("in"), b"\x03\x04\x1a\n\xff").unwrap();
    let call = run(&world, &[], script);
    let mut shell = in_world(&world, "sh");
    shell.args(["-c", "exec \"$0\" \"$@\" < in > out 2> err"]).arg(call.get_program()).args(call.get_args());
    assert_eq!(exit_code(&mut screen.start(&shell)), Some(9));
    assert_eq!(fs::read(world.file("out")).unwrap(), b"\x03\x04\x1a\n\xffo\nu\0t");
    let err = fs::read_to_string(world.file("err")).unwrap();
    assert!(err.contains("e\nr") && !err.contains('\r'), "{err:?}");
    assert_eq!(screen.modes(), before);
}

#[test]
fn with_stdout_elsewhere_cmd_has_the_persons_own_terminal_as_stdin() {
    let (world, screen) = (World::new(), Screen::new());
    let before = screen.modes();
    let mut command = screen.command(&run(&world, &[], "tty; stty -a; [ -t 2 ]"));
    command.stdout(File::create(world.file("out")).unwrap());
    assert_eq!(exit_code(&mut command.spawn().unwrap()), Some(0));
    assert_eq!(fs::read_to_string(world.file("out")).unwrap(), format!("{}\n{before}", screen.name()));
}

#[test]
fn stderr_elsewhere_stays_apart() {
    let (world, screen) = (World::new(), Screen::new());
    let mut command = screen.command(&run(&world, &[], "echo shown; echo apart >&2; [ -t 1 ] && ! [ -t 2 ]"));
    command.stderr(File::create(world.file("err")).unwrap());
    assert_eq!(exit_code(&mut command.spawn().unwrap()), Some(0));
    screen.shows("shown\r\n", 1);
    let err = fs::read_to_string(world.file("err")).unwrap();
    assert!(err.contains("apart\n") && err.contains("released e") && !err.contains('\r'), "{err:?}");
    assert_eq!(screen.shown(), "shown\r\n");
}

/// What it prints at its terminal is progress too, and what is printed apart is.
#[test]
fn output_at_a_terminal_is_a_sign_of_progress() {
    let (world, screen) = (World::new(), Screen::new());
    let script = "i=0; while [ $i -lt 12 ]; do echo $i; sleep 0.5; i=$((i+1)); done; exit 3";
    let mut run = screen.start(&run(&world, &["--ttl", "3s", "--stall", "3s"], script));
    assert_eq!(exit_code(&mut run), Some(3), "{}", screen.shown());
}

#[test]
fn a_background_job_is_neither_stopped_nor_in_the_way_and_fg_brings_its_keys() {
    let (world, screen) = (World::new(), Screen::new());
    let mut shell = shell(&world, &screen);
    screen.type_in(
        "\"$BATON\" run e --as a -- sh -c 'printf \"\\055> ready;\"; read x; printf \"\\055> got %s;\" \"$x\"; touch got' &\r",
    );
    screen.shows("-> ready;", 1);
    // The shell has its keys.
    screen.type_in("echo alive > alive\r");
    assert_eq!(world.read_soon("alive"), "alive\n");
    assert_eq!(world.status("e")["leader"]["agent"], "a");
    assert!(!world.file("got").exists());
    screen.type_in("fg\r");
    // It is in the foreground once the shell has given it the terminal; the word waits there.
    screen.type_in("word\r");
    screen.shows("-> got word;", 1);
    // Then the keys are the shell's again.
    until("nobody leads", || world.status("e")["leader"].is_null());
    screen.type_in("exit 0\r");
    assert_eq!(exit_code(&mut shell), Some(0));
}

/// Nobody reads the terminal, and CMD prints without end.
#[test]
fn a_terminal_that_is_held_stops_no_renewal() {
    let (world, screen) = (World::new(), Screen::held());
    let mut run = screen.start(&run(&world, &["--ttl", "2s"], "touch began; exec yes"));
    until("CMD runs", || world.file("began").exists());
    renews(&world, 10);
    assert_eq!(world.status("e")["token"], 1);
    processes::signal(run.id(), Signal::TERM);
    until("the election is vacant", || world.status("e")["state"] == "vacant");
    assert!(exit_code(&mut run).is_some());
}

#[test]
fn a_stderr_that_nobody_reads_stops_no_renewal() {
    let world = World::new();
    world.ok(&["acquire", "other", "--as", "a"]);
    let (_unread, stuck) = full_pipe();
    let mut call = run(&world, &["--ttl", "2s"], "echo $BATON_TOKEN >> began; exec sleep 100000");
    let mut run = call.stdout(Stdio::null()).stderr(stuck).spawn().unwrap();
    until("CMD runs", || world.file("began").exists());
    renews(&world, 10);
    assert_eq!(fs::read_to_string(world.file("began")).unwrap(), "1\n");
    processes::signal(run.id(), Signal::TERM);
    assert_eq!(exit_code(&mut run), Some(143));
}

/// Waits for so many renewals: some leases.
fn renews(world: &World, times: u64) {
    let count = || world.status("e")["leader"]["renewals"].as_u64().unwrap_or_default();
    until("the lease is renewed again and again", || count() >= times);
}

/// A pipe into which not a byte fits, and its other end, which nobody reads.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    use std::io::Write;
    let (reader, mut writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    for size in [4_096, 1] {
        while writer.write(&vec![b'.'; size]).is_ok() {}
    }
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    (reader, writer)
}
