//! An apiserver of a test's own, which it may stop and kill.

use std::process::{Child, Command, Stdio};

use baton_store::conformance::{Required, required};

const SERVICES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/services");

pub(crate) struct Private {
    folder: tempfile::TempDir,
    successor: Option<Child>,
}

impl Private {
    /// None if there is no apiserver to be had.
    pub(crate) fn start() -> Option<Private> {
        let Required::At(_) = required("BATON_TEST_KUBECONFIG") else { return None };
        let private = Private { folder: tempfile::tempdir().unwrap(), successor: None };
        private.services(&["start", "kubernetes"]);
        Some(private)
    }

    fn services(&self, arguments: &[&str]) {
        let output = Command::new(SERVICES)
            .args(arguments)
            .env("BATON_SERVICES_DIR", self.folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn kubeconfig(&self) -> String {
        self.folder.path().join("kubernetes/admin.kubeconfig").display().to_string()
    }

    /// Of the user who may do what a Role allows.
    pub(crate) fn agent(&self) -> String {
        self.folder.path().join("kubernetes/agent.kubeconfig").display().to_string()
    }

    /// Sends a signal to one of its processes.
    pub(crate) fn signal(&self, signal: &str, process: &str) {
        let killed = Command::new("kill").args([&format!("-{signal}"), &self.pid(process)]).status().unwrap();
        assert!(killed.success());
    }

    fn pid(&self, process: &str) -> String {
        let text =
            std::fs::read_to_string(self.folder.path().join(format!("kubernetes/{process}.pid"))).unwrap();
        text.split(' ').next().unwrap().to_string()
    }

    /// Kills the apiserver outright. What is returned starts it again as it was.
    pub(crate) fn kill(&self) -> Command {
        let line = std::fs::read(format!("/proc/{}/cmdline", self.pid("kube-apiserver"))).unwrap();
        let line = String::from_utf8(line).unwrap();
        let mut words = line.trim_end_matches('\0').split('\0');
        let mut command = Command::new(words.next().unwrap());
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.signal("KILL", "kube-apiserver");
        command
    }

    pub(crate) fn restart(&mut self, mut command: Command) {
        self.successor = Some(command.spawn().unwrap());
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        if let Some(child) = &mut self.successor {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.services(&["stop"]);
    }
}
