//! The smallest `run`: keeps a command until a deadline that is moved by lines in a pipe.
//!
//! `leash run DIR LIFE_MS GRACE_MS -- CMD…` reads orders (`renew MS`, `lead MS`, `paper TEXT`, `validate SCRIPT`,
//! `unvalidate`, `stop`, `kill`, `own`) from the
//! pipe `DIR/control` and writes what happens to `DIR/events`. There is no lease: a *release* writes
//! `DIR/released`, with the paper of the leadership, the time and how many processes of CMD were alive at that
//! moment. With `LEASH_OUTLIVES` in the environment, CMD outlives its deadline; `DIR/status_files/mode` and `DIR/status_files/paper`
//! tell it so. It shows how a program wires the crate, and the tests drive it.
#![allow(clippy::print_stderr, reason = "a program for people and tests")]

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use baton_warden::{
    BootTime, ChildRegistry, Lead, Report, SecretFile, Shims, Start, StatusFiles, Ticket, Validation,
    WardenEvent, WardenHandle, WardenHandleError, exec_shim, keep_validator, serve,
};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;

/// In the environment of everything that descends from CMD, and of nothing else.
const MARK: &str = "LEASH_MARK";
/// Whether CMD goes on after its deadline.
const OUTLIVES: &str = "LEASH_OUTLIVES";

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let result = match args.get(1).and_then(|arg| arg.to_str()) {
        Some("run") => run(&args[2..]),
        Some("__warden") => warden(Path::new(&args[2])),
        Some("__exec") => {
            let error = exec_shim(args.into_iter().skip(2));
            eprintln!("leash: {error}");
            return ExitCode::from(error.exit_code());
        }
        Some("__validate") => match keep_validator(args.into_iter().skip(2)) {
            Ok(code) => return ExitCode::from(code),
            Err(error) => {
                eprintln!("leash: {error}");
                return ExitCode::from(error.exit_code());
            }
        },
        _ => Err("usage: leash run DIR LIFE_MS GRACE_MS -- CMD…".into()),
    };
    result.unwrap_or_else(|error| {
        eprintln!("leash: {error}");
        ExitCode::FAILURE
    })
}

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn warden(socket: &Path) -> Outcome<ExitCode> {
    serve(socket, Shims { command: &["__exec".into()], validator: &["__validate".into()] }, |ticket| {
        let (dir, paper) = ticket.expose().split_once('|').unwrap_or((ticket.expose(), ""));
        let line = format!("{paper} {} {}\n", BootTime::now().as_ns(), living(dir));
        let dir = Path::new(dir);
        // Renamed into place, so that nobody sees half of it.
        let written = fs::write(dir.join("released.new"), line)
            .and_then(|()| fs::rename(dir.join("released.new"), dir.join("released")));
        if let Err(error) = written {
            eprintln!("leash: {error}");
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

#[tokio::main(flavor = "current_thread")]
async fn run(args: &[OsString]) -> Outcome<ExitCode> {
    let text: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let [dir, life_ms, grace_ms, dashes, command @ ..] = text.as_slice() else {
        return Err("too few".into());
    };
    if dashes != "--" {
        return Err("no --".into());
    }
    let mut run = Run::new(dir).await?;
    let deadline = BootTime::now().later(Duration::from_millis(life_ms.parse()?));
    run.note(&format!("deadline {}", deadline.as_ns()))?;
    run.grace_ms = grace_ms.parse()?;
    fs::create_dir_all(Path::new(dir).join("sign"))?;
    run.handle.show(run.status_files("1"))?;
    run.handle.start(Start {
        command: command.to_vec(),
        env: vec![(MARK.into(), dir.clone())],
        deadline,
        grace_ms: run.grace_ms,
        ticket: run.ticket("1"),
    })?;
    let control = pipe::OpenOptions::new().read_write(true).open_receiver(Path::new(dir).join("control"))?;
    let mut control = BufReader::new(control).lines();
    loop {
        tokio::select! {
            line = control.next_line() => run.obey(&line?.unwrap_or_default())?,
            news = run.handle.next_report() => {
                if let Some(code) = run.hear(news?).await? {
                    run.handle.dismiss().await?;
                    return Ok(code);
                }
            }
        }
    }
}

struct Run {
    dir: PathBuf,
    registry: ChildRegistry,
    handle: WardenHandle,
    grace_ms: u64,
    /// CMD has ended, with this code. The validator may not have.
    ended: bool,
    code: ExitCode,
}

impl Run {
    async fn new(dir: &str) -> Outcome<Self> {
        let registry = ChildRegistry::open()?;
        let mut command = std::process::Command::new("/proc/self/exe");
        command.arg("__warden");
        let handle = WardenHandle::prepare(registry, command, Path::new(dir)).await?;
        let run =
            Self { dir: dir.into(), registry, handle, grace_ms: 0, ended: false, code: ExitCode::SUCCESS };
        run.note(&format!("warden {}", run.handle.pid()))?;
        Ok(run)
    }

    fn status_files(&self, text: &str) -> StatusFiles {
        let status_files = self.dir.join("sign");
        StatusFiles {
            mode: status_files.join("mode"),
            secrets: vec![SecretFile { path: status_files.join("paper"), text: text.into() }],
            outlives_lease: std::env::var_os(OUTLIVES).is_some(),
        }
    }

    fn ticket(&self, paper: &str) -> Ticket {
        Ticket::new(format!("{}|{paper}", self.dir.display()))
    }

    fn obey(&mut self, line: &str) -> Outcome<()> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("renew", ms) => {
                let deadline = BootTime::now().later(Duration::from_millis(ms.parse()?));
                self.note(&format!("deadline {}", deadline.as_ns()))?;
                self.handle.deadline(deadline)?;
            }
            ("lead", ms) => {
                let deadline = BootTime::now().later(Duration::from_millis(ms.parse()?));
                self.note(&format!("deadline {}", deadline.as_ns()))?;
                let (status_files, ticket) = (self.status_files("2"), self.ticket("2"));
                let led = self.handle.lead(Lead { deadline, grace_ms: self.grace_ms, ticket, status_files });
                if let Err(WardenHandleError::TooLate) = led {
                    return self.note("too late");
                }
                led?;
            }
            ("paper", text) => self.handle.show(self.status_files(text))?,
            ("validate", script) => {
                let command = ["sh", "-c", script].map(String::from).to_vec();
                let mark = (MARK.to_string(), self.dir.display().to_string());
                self.handle.validate(Validation { command, env: vec![mark] })?;
            }
            ("unvalidate", _) => self.handle.end_validation()?,
            ("stop", _) => self.handle.stop()?,
            ("kill", _) => self.handle.kill()?,
            ("own", _) => {
                let child = self.registry.spawn(|| std::process::Command::new("sleep").arg("600").spawn())?;
                self.note(&format!("own {}", child.id()))?;
            }
            _ => return Err(format!("unknown order: {line}").into()),
        }
        Ok(())
    }

    /// The exit code, once nothing of CMD is left.
    async fn hear(&mut self, news: WardenEvent) -> Outcome<Option<ExitCode>> {
        match news {
            WardenEvent::Told(Report::Ended { how, why }) => {
                self.note(&format!("ended {how:?} {why:?} {}", self.now_and_living()))?;
                self.code = ExitCode::from(how.exit_code());
                self.ended = true;
                Ok((!self.handle.is_validating()).then_some(self.code))
            }
            WardenEvent::Told(Report::Validated { how, why, said }) => {
                self.note(&format!("validated {how:?} {why:?} {} {said}", self.now_and_living()))?;
                Ok(self.ended.then_some(self.code))
            }
            WardenEvent::Told(Report::Started { pid }) => self.note(&format!("started {pid}")).map(|()| None),
            WardenEvent::Told(Report::Unkillable { pid, name }) => {
                self.note(&format!("unkillable {pid} {name}")).map(|()| None)
            }
            WardenEvent::Told(Report::Terminating { why }) => {
                self.note(&format!("terminating {why:?}")).map(|()| None)
            }
            WardenEvent::Told(Report::ReadOnly) => {
                self.note(&format!("read-only {}", BootTime::now().as_ns())).map(|()| None)
            }
            WardenEvent::Told(Report::Leading) => self.note("leading again").map(|()| None),
            // The last two only at a terminal.
            WardenEvent::Told(Report::Kept { .. } | Report::Suspended) | WardenEvent::Asked(_) => Ok(None),
            // Its death after the end of CMD, and of the validator, takes nothing along.
            WardenEvent::Gone if self.ended && !self.handle.is_validating() => Ok(Some(self.code)),
            WardenEvent::Overdue | WardenEvent::Gone => {
                self.note(&format!("{news:?}").to_lowercase())?;
                self.handle.seize().await?;
                self.note(&format!("seized {}", self.now_and_living()))?;
                Ok(Some(ExitCode::from(99)))
            }
        }
    }

    fn now_and_living(&self) -> String {
        format!("{} {}", BootTime::now().as_ns(), living(&self.dir.to_string_lossy()))
    }

    fn note(&self, line: &str) -> Outcome<()> {
        let mut events = OpenOptions::new().create(true).append(true).open(self.dir.join("events"))?;
        Ok(events.write_all(format!("{line}\n").as_bytes())?)
    }
}

/// How many processes descend from CMD, by their environment: not by the means that the crate uses.
fn living(dir: &str) -> usize {
    let mark = format!("{MARK}={dir}");
    let marked = |entry: io::Result<fs::DirEntry>| {
        let environ = fs::read(entry?.path().join("environ"))?;
        Ok::<_, io::Error>(environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()))
    };
    fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| marked(entry).ok()).filter(|m| *m).count()
}
