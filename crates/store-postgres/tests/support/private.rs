//! A PostgreSQL server of a test's own, to be stopped, killed and started again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use baton_store::conformance::free_port;

use super::{connect, random, rows};

pub struct Server {
    /// The URL of its database.
    pub url: String,
    bin: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
    settings: Vec<String>,
    running: Option<Child>,
}

impl Server {
    /// A server of the same programs as the one of this URL, with more settings: `name=value`.
    pub async fn like(shared: &str, settings: &[&str]) -> Server {
        let client = connect(shared).await;
        let bin = rows(&client, "SELECT setting FROM pg_config WHERE name = 'BINDIR'").await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let password = random();
        let mut server = Server {
            url: format!("postgres://baton:{password}@127.0.0.1:{port}/postgres"),
            bin: PathBuf::from(&bin[0]),
            folder,
            port,
            settings: settings.iter().map(|setting| (*setting).to_string()).collect(),
            running: None,
        };
        server.make(&password);
        server.start().await;
        server
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn make(&self, password: &str) {
        let file = self.folder().join("password");
        fs::write(&file, password).unwrap();
        if is_root() {
            for path in [self.folder(), &file] {
                std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let data = self.folder().join("data");
        let made = self
            .command("initdb")
            .args(["--username=baton", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"])
            .arg(format!("--pwfile={}", file.display()))
            .arg(format!("--pgdata={}", data.display()))
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    /// One more setting, from the next start on.
    pub fn set(&mut self, setting: &str) {
        self.settings.push(setting.to_string());
    }

    pub async fn start(&mut self) {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.folder().join("data"));
        let port = format!("port={}", self.port);
        let fixed = [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "fsync=off",
            "shared_buffers=16MB",
            &port,
        ];
        for setting in fixed.into_iter().chain(self.settings.iter().map(String::as_str)) {
            command.args(["-c", setting]);
        }
        self.running = Some(command.spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(60);
        while tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await.is_err() {
            assert!(Instant::now() < deadline, "the private server does not start");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends it as a crash would: nobody is told, the next start recovers.
    pub fn kill(&mut self) {
        let Some(mut child) = self.running.take() else { return };
        let id = rustix::process::Pid::from_child(&child);
        // "Immediate" of pg_ctl: the postmaster takes its children with it.
        rustix::process::kill_process(id, rustix::process::Signal::QUIT).unwrap();
        child.wait().unwrap();
    }

    fn command(&self, program: &str) -> Command {
        let program = self.bin.join(program);
        let mut command = if is_root() {
            // The server refuses to run as root; the rest lets it reach programs in a folder of root's.
            let mut command = Command::new("setpriv");
            command
                .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--securebits=+no_setuid_fixup"])
                .args(["--inh-caps=-all,+dac_override", "--ambient-caps=-all,+dac_override"])
                .arg(program);
            command
        } else {
            Command::new(program)
        };
        // Programs that were unpacked somewhere have their libraries beside them.
        let libraries =
            self.bin.ancestors().nth(3).into_iter().flat_map(|lib| fs::read_dir(lib).into_iter().flatten());
        let libraries: Vec<String> = libraries
            .filter_map(|entry| Some(entry.ok()?.path().to_string_lossy().into_owned()))
            .filter(|path| path.ends_with("-linux-gnu"))
            .collect();
        command.env("LD_LIBRARY_PATH", libraries.join(":")).current_dir(self.folder());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
