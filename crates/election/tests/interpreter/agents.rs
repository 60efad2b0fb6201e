//! The commands of agents and watchers, as a scenario writes them.

use baton_election::command::{
    Acknowledge, Acquire, Command, Ending, Finding, Pass, Release, Renew, Report, WriteCheckpoint,
};
use baton_election::document::{Phase, Reference};
use baton_election::policy::Limits;
use baton_election::removal_rules::OpenBreaker;
use baton_election::{ContentHash, Credential, Epoch, LeaseKey, checkpoint_hash};

use super::World;
use super::words::Words;
use crate::cast;

/// The commands that every state is tried with.
pub(crate) const COMMANDS: [&str; 25] = [
    "acquire",
    "renew",
    "release",
    "pass",
    "checkpoint",
    "acknowledge",
    "report validation",
    "report sound",
    "report dependency",
    "report budget",
    "report stall",
    "report breaker",
    "appoint",
    "depose",
    "pause",
    "resume",
    "approve",
    "reject",
    "set-policy",
    "enrol",
    "dismiss",
    "halt",
    "note",
    "vote",
    "forget",
];

/// The name of a command in [`COMMANDS`].
pub(crate) fn name_of(command: &Command) -> &'static str {
    match command {
        Command::Report(report) => match report.finding {
            Finding::Validation => "report validation",
            Finding::Sound => "report sound",
            Finding::Dependency => "report dependency",
            Finding::Budget => "report budget",
            Finding::Stall => "report stall",
            Finding::Breaker => "report breaker",
        },
        Command::Operate(signed) => signed.order.act.name(),
        other => other.name(),
    }
}

impl World {
    /// The command that a line gives.
    pub(super) fn command(&mut self, name: &str, words: &mut Words) -> Command {
        match name {
            "acquire" => self.acquire(words),
            "renew" => self.renew(words),
            "release" => self.release(words),
            "pass" => self.pass(words),
            "checkpoint" => self.checkpoint(words),
            "acknowledge" => self.acknowledge(words),
            "report" => self.report(words),
            act => self.operate(act, words),
        }
    }

    /// `acquire AGENT [ttl= task= can= time= tokens= renewals= stall= reason= noticed= contact= failing= open= key=wrong offer]`
    fn acquire(&mut self, words: &mut Words) -> Command {
        let name = words.next();
        let credential = self.credential(&name, words);
        Command::Acquire(Acquire {
            agent: cast::agent(&name),
            incarnation: credential.incarnation,
            key_hash: credential.key.hash(),
            ttl: words.value("ttl"),
            task: words.option("task"),
            capabilities: words.list("can").into_iter().collect(),
            limits: limits(words),
            reason: words.option("reason"),
            noticed: words.value("noticed"),
            offer: words.flag("offer"),
            contact: words.option("contact"),
            region: None,
            failing: words.list("failing").into_iter().collect(),
            open: open(words),
            seen: None,
            waited: None,
            through: None,
        })
    }

    /// `renew AGENT [spent= phase= promotion= token= key=wrong idle]`
    fn renew(&mut self, words: &mut Words) -> Command {
        let name = words.next();
        Command::Renew(Renew {
            epoch: self.token(&name, words),
            credential: self.credential(&name, words),
            progress: !words.flag("idle"),
            spent_tokens: words.value("spent"),
            phase: words.option("phase").map(|phase| match phase.as_str() {
                "synchronising" => Phase::Synchronising,
                "serving" => Phase::Serving,
                "draining" => Phase::Draining,
                other => panic!("no phase: {other}"),
            }),
            promotion: words.value("promotion"),
            region: None,
        })
    }

    /// `release AGENT [reason= token= key=wrong finished orphaned]`
    fn release(&mut self, words: &mut Words) -> Command {
        let name = words.next();
        Command::Release(Release {
            epoch: self.token(&name, words),
            credential: self.credential(&name, words),
            reason: words.option("reason"),
            ending: match (words.flag("finished"), words.flag("orphaned")) {
                (true, _) => Ending::Finished,
                (false, true) => Ending::Orphaned,
                (false, false) => Ending::Stopped,
            },
        })
    }

    /// `pass AGENT to=AGENT [reason= token= key=wrong]`
    fn pass(&mut self, words: &mut Words) -> Command {
        let name = words.next();
        Command::Pass(Pass {
            epoch: self.token(&name, words),
            credential: self.credential(&name, words),
            to: cast::agent(&words.option("to").expect("pass needs to=")),
            reason: words.option("reason"),
        })
    }

    /// `checkpoint AGENT [seq= summary= state= size= reference= token= key=wrong]`
    fn checkpoint(&mut self, words: &mut Words) -> Command {
        let name = words.next();
        let last = self.document.as_ref().and_then(|document| document.checkpoint.as_ref());
        let due = last.map_or(1, |last| last.seq + 1);
        let size: Option<usize> = words.value("size");
        let state = size.map(|size| format!("\"{}\"", "x".repeat(size - 2))).or(words.option("state"));
        Command::Checkpoint(WriteCheckpoint {
            epoch: self.token(&name, words),
            credential: self.credential(&name, words),
            seq: words.value("seq").unwrap_or(due),
            summary: words.option("summary").unwrap_or_else(|| "half way".to_string()),
            state: state.unwrap_or_else(|| "{\"step\":1}".to_string()),
            reference: words
                .option("reference")
                .map(|location| Reference { sha256: ContentHash::of(location.as_bytes()), location }),
            covers: None,
        })
    }

    /// `acknowledge AGENT [another token= key=wrong]`: the checkpoint that stands, or another one
    fn acknowledge(&mut self, words: &mut Words) -> Command {
        let name = words.next();
        let another = words.flag("another");
        let last = self.document.as_ref().and_then(|document| document.checkpoint.as_ref());
        let hash = last
            .filter(|_| !another)
            .map_or_else(|| checkpoint_hash("another", "{}", None, None), |c| c.hash);
        Command::Acknowledge(Acknowledge {
            epoch: self.token(&name, words),
            credential: self.credential(&name, words),
            hash,
        })
    }

    /// `report validation|sound|dependency|budget|stall|breaker AGENT [as-leader detail= number= checkpoint= open= token= key=wrong]`
    fn report(&mut self, words: &mut Words) -> Command {
        let finding = match words.next().as_str() {
            "validation" => Finding::Validation,
            "sound" => Finding::Sound,
            "dependency" => Finding::Dependency,
            "budget" => Finding::Budget,
            "stall" => Finding::Stall,
            "breaker" => Finding::Breaker,
            other => panic!("no finding: {other}"),
        };
        let name = words.next();
        let as_leader = words.flag("as-leader");
        let current = self.document.as_ref().map_or(Epoch(1), |document| document.epoch);
        let shown = if as_leader { self.held_token(&name) } else { current };
        Command::Report(Report {
            epoch: words.value("token").unwrap_or(shown),
            finding,
            detail: words.option("detail").unwrap_or_else(|| "tests fail".to_string()),
            by: cast::agent(&name),
            credential: as_leader.then(|| self.credential(&name, words)),
            number: words.value("number"),
            checkpoint: words.value("checkpoint"),
            open: open(words),
        })
    }

    /// The token that the agent believes to hold, or the one that the line gives.
    fn token(&self, name: &str, words: &mut Words) -> Epoch {
        words.value("token").unwrap_or(self.held_token(name))
    }

    /// The token that the agent heard of last; 1 if it never heard of any.
    pub(super) fn held_token(&self, name: &str) -> Epoch {
        self.tokens.get(name).copied().unwrap_or(Epoch(1))
    }

    fn credential(&self, name: &str, words: &mut Words) -> Credential {
        let own = cast::credential(name, self.life(name));
        match words.option("key") {
            None => own,
            Some(_) => Credential { key: LeaseKey([0xbd; 16]), ..own },
        }
    }
}

/// The open breakers that whoever decides has seen: `open=CAPABILITY:LEFT,…`, or `open=none`. Without it, nobody looked.
fn open(words: &mut Words) -> Option<Vec<OpenBreaker>> {
    let seen = words.option("open")?;
    let open = |text: &str| {
        let (capability, left) = text.rsplit_once(':').expect("open=rust:30s");
        OpenBreaker {
            capability: capability.to_string(),
            failures: 3,
            reason: "no compiler".to_string(),
            left: left.parse().expect("how much longer"),
        }
    };
    Some(seen.split(',').filter(|text| *text != "none").map(open).collect())
}

/// The limits that a line gives: `time= tokens= renewals= stall=`
pub(super) fn limits(words: &mut Words) -> Limits {
    Limits {
        time: words.value("time"),
        tokens: words.value("tokens"),
        renewals: words.value("renewals"),
        stall: words.value("stall"),
    }
}
