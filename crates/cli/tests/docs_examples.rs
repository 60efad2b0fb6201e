//! The examples in the docs, run as a reader would: blocks that follow `<!-- run -->`, in order, in one shell per file.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support;

/// A command of an example and what it is said to print.
struct Step {
    command: String,
    prints: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn documents() -> Vec<PathBuf> {
    let guide = root().join("docs/guide");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(guide).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.push(root().join("README.md"));
    files.sort();
    files
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut marked = false;
    let mut inside = false;
    for line in text.lines() {
        match line {
            "<!-- run -->" => marked = true,
            "```console" if marked => inside = true,
            "```" => (marked, inside) = (false, false),
            _ if !inside => {}
            _ => match (line.strip_prefix("$ "), line.strip_prefix("> ")) {
                (Some(command), _) => steps.push(Step { command: command.to_string(), prints: Vec::new() }),
                (None, Some(more)) => {
                    let step = steps.last_mut().expect("what goes on has begun");
                    step.command.push('\n');
                    step.command.push_str(more);
                }
                (None, None) => {
                    steps.last_mut().expect("output follows a command").prints.push(line.to_string());
                }
            },
        }
    }
    steps
}

/// Numbers differ from run to run, and with them the width of columns.
fn plain(text: &str) -> Vec<String> {
    let squeeze = |line: &str| {
        let digits: String = line.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        let mut words = digits.replace("0.", "0").split_whitespace().collect::<Vec<_>>().join(" ");
        while words.contains("00") {
            words = words.replace("00", "0");
        }
        words
    };
    text.lines().map(squeeze).filter(|line| !line.is_empty()).collect()
}

/// Ends what an example has left running, if it failed before it did so itself.
struct Leftovers(String);

impl Drop for Leftovers {
    fn drop(&mut self) {
        for process in support::processes::of_world(&self.0) {
            process.signal(rustix::process::Signal::KILL);
        }
    }
}

/// An agent's command that has nothing to do, in the place of the real one.
fn agent_at(path: &Path) {
    std::fs::write(path, "#!/bin/sh\nexit 0\n").unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs the examples of one document in one folder; variables that are exported stay.
fn run(document: &Path) -> usize {
    let steps = steps(&std::fs::read_to_string(document).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let leftovers = Leftovers(folder.path().display().to_string());
    let bin = Path::new(env!("CARGO_BIN_EXE_baton")).parent().unwrap();
    let stand_ins = tempfile::tempdir().unwrap();
    agent_at(&stand_ins.path().join("claude"));
    let others = std::env::var("PATH").unwrap();
    let path = format!("{}:{}:{others}", bin.display(), stand_ins.path().display());
    let mut exported = String::new();
    for step in &steps {
        if step.command.starts_with("export ") {
            exported.push_str(&format!("{}; ", step.command));
            continue;
        }
        // The bound is for a hang.
        let done = Command::new("timeout")
            .args(["300", "sh", "-c", &format!("{exported}{}", step.command)])
            .current_dir(folder.path())
            .env("PATH", &path)
            .env("BATON_STATE_DIR", folder.path().join("state"))
            .env("BATON_CONFIG_DIR", folder.path().join("config"))
            .env("XDG_RUNTIME_DIR", folder.path())
            .env(support::MARK, &leftovers.0)
            // A reader types them in one terminal.
            .env("BATON_SESSION", "docs")
            .env_remove("BATON_STORE")
            .env_remove("BATON_AGENT")
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{}: `{}` failed: {out}{err}", document.display(), step.command);
        if !step.prints.is_empty() {
            let wanted = plain(&step.prints.join("\n"));
            assert_eq!(plain(&out), wanted, "{}: `{}` prints otherwise", document.display(), step.command);
        }
    }
    steps.len()
}

#[test]
fn what_the_docs_show_is_what_happens() {
    let counts: Vec<usize> = documents().iter().map(|document| run(document)).collect();
    assert!(counts.iter().sum::<usize>() >= 10, "the examples are found: {counts:?}");
}

/// Whoever types what the first page shows, from top to bottom and in one folder, meets no error. Only what builds Baton itself is left out.
#[test]
fn the_readme_is_run_from_top_to_bottom() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (used, rest) = text.split_once("## Use it").and_then(|(_, rest)| rest.split_once("\n## ")).unwrap();
    assert!(!rest.is_empty(), "the section ends");
    let shown = used.matches("```console").count();
    let marked = used.matches("<!-- run -->\n```console").count();
    assert!(shown >= 3, "its examples are found");
    assert_eq!(marked, shown, "each of its examples is run");
}
