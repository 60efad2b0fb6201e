//! Every screen as it is, but for times and ids. `UPDATE_EXPECT=1 cargo test -p baton-cli --test it screens` rewrites them.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write;

use expect_test::expect_file;

use crate::support::{Done, World};

const COMMANDS: [&str; 89] = [
    "run",
    "acquire",
    "renew",
    "release",
    "checkpoint",
    "handover",
    "report",
    "judge",
    "enlist",
    "status",
    "top",
    "tree",
    "watch",
    "agents",
    "alerts",
    "check",
    "history",
    "task",
    "task add",
    "task list",
    "task show",
    "task board",
    "task assign",
    "task retry",
    "task cancel",
    "task accept",
    "task progress",
    "task complete",
    "task fail",
    "task work",
    "proposal",
    "proposal make",
    "proposal list",
    "proposal show",
    "proposal accept",
    "proposal reject",
    "quota",
    "quota set",
    "quota show",
    "quota draw",
    "breaker",
    "breaker list",
    "breaker reset",
    "state",
    "state put",
    "state get",
    "state list",
    "fence",
    "guard",
    "peer",
    "peer status",
    "peer transfer",
    "peer members",
    "peer members add",
    "peer members remove",
    "init",
    "operator",
    "operator add",
    "operator remove",
    "token",
    "token create",
    "token list",
    "token revoke",
    "dashboard",
    "appoint",
    "depose",
    "pause",
    "resume",
    "approve",
    "reject",
    "forget",
    "cosign",
    "vote",
    "audit",
    "audit verify",
    "audit note",
    "policy",
    "serve",
    "observe",
    "restore",
    "demo",
    "lab",
    "lab run",
    "lab replay",
    "lab compare",
    "lab tune",
    "lab scale",
    "doctor",
    "completions",
];

/// The lengths of time that are the same every time.
const LASTING: [&str; 7] = ["0ms", "500ms", "1s", "2s", "3s", "10s", "30s"];

/// A screen, with what differs from one time to the next replaced.
fn steady(world: &World, text: &str) -> String {
    let text = text.replace(&world.path().display().to_string(), "WORLD");
    let mut steady = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\n']) {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-') {
            word.push(c);
            continue;
        }
        steady.push_str(&placeholder(&word));
        word.clear();
        steady.push(c);
    }
    steady.pop();
    steady.lines().map(|line| narrowed(line) + "\n").collect()
}

/// Columns are as wide as what was replaced.
fn narrowed(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let words: Vec<&str> = line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
    line[..indent].to_string() + &words.join("  ")
}

/// What stands for a word that is never the same.
fn placeholder(word: &str) -> String {
    let core = word.trim_end_matches(['.', ':']);
    let rest = &word[core.len()..];
    let hex = core.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c));
    let time = core.len() == 24 && core.ends_with('Z') && core.as_bytes()[10] == b'T';
    let number = |text: &str| text.parse::<f64>().is_ok();
    let passing = match core.strip_suffix("ms").or(core.strip_suffix('s')) {
        Some(value) if number(value) => !LASTING.contains(&core),
        Some(_) | None => false,
    };
    if time {
        return format!("TIME{rest}");
    }
    if hex && core.len() >= 12 {
        return format!("HEX{rest}");
    }
    if passing {
        return format!("SPAN{rest}");
    }
    word.to_string()
}

/// Calls as a person would type them, and what they see.
struct Session {
    world: World,
    transcript: String,
}

impl Session {
    fn new() -> Session {
        Session { world: World::new(), transcript: String::new() }
    }

    fn note(&mut self, shown: &str, done: &Done) {
        let Session { world, transcript } = self;
        writeln!(transcript, "$ baton {shown}").unwrap();
        for text in [&done.stdout, &done.stderr] {
            transcript.push_str(&steady(world, text));
        }
        writeln!(transcript, "[{}]\n", done.code).unwrap();
    }

    /// A line: words without spaces, or in single quotes.
    fn type_in(&mut self, line: &str) {
        let words: Vec<&str> = line
            .split('\'')
            .enumerate()
            .flat_map(
                |(place, part)| {
                    if place % 2 == 1 { vec![part] } else { part.split_whitespace().collect() }
                },
            )
            .collect();
        let waiting = words.contains(&"$WAITING").then(|| self.world.waiting(words[1]));
        let words: Vec<&str> = words
            .into_iter()
            .map(|word| waiting.as_deref().filter(|_| word == "$WAITING").unwrap_or(word))
            .collect();
        let done = self.world.call(&words);
        self.note(line, &done);
    }

    fn play(&mut self, lines: &[&str]) -> &str {
        for line in lines {
            self.type_in(line);
        }
        &self.transcript
    }
}

/// `docs/reference/cli.md`: every page of help, under a heading each.
struct Reference {
    world: World,
    page: String,
}

impl Reference {
    fn new() -> Reference {
        Reference { world: World::new(), page: REFERENCE.to_string() }
    }

    fn add(&mut self, heading: &str, arguments: &[&str]) -> String {
        let help = self.world.ok(arguments).stdout;
        write!(self.page, "\n{heading}\n\n```text\n{help}```\n").unwrap();
        help
    }
}

const REFERENCE: &str = "\
# The command line

<!-- generated from the code: UPDATE_EXPECT=1 cargo test -p baton-cli --all-features --test it screens::help -->

What `baton help` prints, for every command and topic. [What scripts can rely on](scripts.md) has
the exit codes, the JSON and the environment of CMD.
";

#[test]
fn help() {
    let mut reference = Reference::new();
    reference.add("## baton", &["--help"]);
    let listed = reference.add("## All commands", &["help", "all"]);
    for topic in ["stores", "tokens", "exit-codes"] {
        reference.add(&format!("## Topic: {topic}"), &["help", topic]);
    }
    for command in COMMANDS {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let level = "#".repeat(words.len());
        reference.add(&format!("{level} baton {command}"), &words);
    }
    let named: Vec<&str> = listed
        .lines()
        .take_while(|line| *line != "Topics:")
        .filter(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(named.len() > 40, "{listed}");
    let missing: Vec<&&str> = named.iter().filter(|name| !COMMANDS.contains(name)).collect();
    assert!(missing.is_empty(), "no screen of {missing:?}");
    expect_file!["../../../docs/reference/cli.md"].assert_eq(&reference.page);
}

#[test]
fn agents() {
    let mut session = Session::new();
    let shown = session.play(&[
        "status",
        "acquire refactor-auth --as agent-a --task 'refactor authentication'",
        "acquire refactor-auth --as agent-b",
        "acquire refactor-auth --as agent-a",
        "status",
        "status refactor-auth",
        "renew refactor-auth --as agent-a --spent 1200",
        "check refactor-auth --token 1",
        "check refactor-auth --token 0",
        "fence db/orders --election refactor-auth --token 1 --as agent-a --note 'add an index'",
        "fence db/orders --log",
        "handover refactor-auth --look",
        "checkpoint refactor-auth --as agent-a --summary 'parser done' --state '{\"done\":[\"parser\"]}'",
        "release refactor-auth --to agent-b --as agent-a --reason 'out of context'",
        "status refactor-auth",
        "acquire refactor-auth --as agent-c",
        "acquire refactor-auth --as agent-b",
        "handover refactor-auth --as agent-b",
        "history refactor-auth",
        "release refactor-auth --as agent-b --reason 'all done'",
        "renew refactor-auth --as agent-b",
        "history refactor-auth --limit 1",
        "run refactor-auth --as agent-d -- echo working",
        "enlist refactor-auth --as agent-e --priority 5 --capability rust",
        "enlist refactor-auth --as agent-e --withdraw",
        "enlist refactor-auth --as agent-e --withdraw",
    ]);
    expect_file!["screens/agents.txt"].assert_eq(shown);
}

#[test]
fn operators() {
    let mut session = Session::new();
    let shown = session.play(&[
        "depose deploy",
        "init",
        "init",
        "operator list",
        "operator remove 00",
        "policy deploy",
        "policy deploy --select capable --need rust --approval checkpoints --stall 10m",
        "acquire deploy --as agent-a",
        "acquire deploy --as agent-b --capability rust",
        "checkpoint deploy --as agent-b --summary 'the plan'",
        "status deploy",
        "renew deploy --as agent-b",
        "approve deploy",
        "approve deploy --checkpoint $WAITING",
        "renew deploy --as agent-b",
        "depose deploy --reason 'goes in circles'",
        "status deploy",
        "renew deploy --as agent-b",
        "pause deploy --reason 'release freeze'",
        "acquire deploy --as agent-b --capability rust",
        "status deploy",
        "resume deploy",
        "appoint deploy agent-c --reason 'knows the code'",
        "status",
        "report deploy stall --as stranger",
        "reject deploy",
    ]);
    expect_file!["screens/operators.txt"].assert_eq(shown);
}

#[test]
fn regions() {
    let mut session = Session::new();
    let shown = session.play(&[
        "tree",
        "init",
        "policy fleet --regions yes",
        "acquire fleet --as a",
        "run fleet --as a -- true",
        "acquire fleet/eu --as a",
        "acquire fleet/us/east --as b",
        "acquire fleet --as a --region fleet",
        "acquire fleet --as a --region fleet/eu",
        "status fleet",
        "tree",
        "tree fleet/us",
        "tree none",
        "depose fleet/eu",
        "tree",
        "renew fleet --as a",
        "tree fleet",
    ]);
    expect_file!["screens/regions.txt"].assert_eq(shown);
}

#[test]
fn errors() {
    let mut session = Session::new();
    std::fs::write(session.world.file("plain"), "").unwrap();
    let shown = session.play(&[
        "acquire",
        "acquire --json",
        "acquire e",
        "acquire Wrong --as a",
        "acquire e --as a --ttl 500ms",
        "acquire e --as a --ttl 8d",
        "acquire e --as a --ttl soon",
        "run e --ttl 3s --grace 2s -- true",
        "run e",
        "acquire e --as a --store foo:bar",
        "acquire e --as a --store mem:",
        "acquire e --as a --store folder",
        "status --store file:plain",
        "status unknown",
        "history unknown",
        "watch --acknowledge --as a",
        "renew e --as a",
        "fence db --token 1",
        "check e",
        "acquire e --as a --json --ttl 500ms",
        "acquire --input missing.json",
    ]);
    expect_file!["screens/errors.txt"].assert_eq(shown);
}
