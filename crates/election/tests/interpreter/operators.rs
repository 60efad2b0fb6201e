//! The acts of operators, as a scenario writes them. The operator is `root` unless the line says `by=`.

use baton_election::Policy;
use baton_election::command::Command;
use baton_election::document::Question;
use baton_election::operator::Act;
use baton_election::quorum::Quorum;
use baton_election::removal_rules::{Breakers, Performance};

use super::World;
use super::agents::limits;
use super::words::Words;
use crate::cast;

impl World {
    /// Signs an act for the election as it stands.
    pub(super) fn operate(&mut self, name: &str, words: &mut Words) -> Command {
        let by = cast::operator(&words.option("by").unwrap_or_else(|| "root".to_string()));
        let act = match name {
            "appoint" => Act::Appoint {
                agent: cast::agent(&words.next()),
                lasts: words.value("lasts"),
                force: words.flag("force"),
                reason: reason(words, "the best of them"),
            },
            "depose" => Act::Depose { force: words.flag("force"), reason: reason(words, "it went astray") },
            "pause" => Act::Pause { reason: reason(words, "lunch") },
            "resume" => Act::Resume,
            "approve" => Act::Approve { checkpoint: self.looked_at(words) },
            "reject" => Act::Reject { reason: reason(words, "not good enough") },
            "set-policy" => Act::SetPolicy { policy: policy(words) },
            "enrol" => Act::Enrol { key: cast::operator(&words.next()).public() },
            "dismiss" => Act::Dismiss { key: cast::operator(&words.next()).public() },
            "halt" => Act::Halt { reason: reason(words, "fire"), since: None },
            "note" => Act::Note { text: words.next() },
            "vote" => Act::Vote { agent: cast::agent(&words.next()) },
            "forget" => Act::Forget { reason: reason(words, "it is done") },
            other => panic!("no command: {other}"),
        };
        let unwritten = cast::unwritten(self.floor);
        let document = self.document.as_ref().unwrap_or(&unwritten);
        Command::Operate(by.sign_urgently(document, act, words.option("glass")))
    }

    /// The checkpoint that the operator looked at: the one that is asked about, or with `unseen` none.
    fn looked_at(&self, words: &mut Words) -> Option<baton_election::ContentHash> {
        if words.flag("unseen") {
            return None;
        }
        match self.document.as_ref()?.approval.question.as_ref()? {
            Question::Checkpoint { hash } => Some(*hash),
            Question::MoreTime => None,
        }
    }
}

fn reason(words: &mut Words, otherwise: &str) -> String {
    words.option("reason").unwrap_or_else(|| otherwise.to_string())
}

fn policy(words: &mut Words) -> Policy {
    let base = Policy::default();
    Policy {
        select: words.value("select").unwrap_or(base.select),
        ttl: words.value("ttl").unwrap_or(base.ttl),
        max_ttl: words.value("max-ttl").or(base.max_ttl),
        approval: words.value("approval").unwrap_or(base.approval),
        approval_ttl: words.value("approval-ttl").unwrap_or(base.approval_ttl),
        nomination: words.value("nomination").unwrap_or(base.nomination),
        designated: words.value("designated"),
        needs: words.list("needs"),
        limits: limits(words),
        watchers: words.list("watchers").iter().map(|name| cast::agent(name)).collect(),
        handover: words.value("handover").unwrap_or(base.handover),
        regions: words.flag("regions"),
        performance: words.value("bad").map(|bad| Performance {
            bad,
            of: words.value("of").expect("of how many"),
            cool_off: words.value("cool-off").expect("how long"),
        }),
        depends: words.list("depends"),
        breakers: words.value("breaker").map(|failures| Breakers {
            failures,
            cool_off: words.value("rest").expect("for how long"),
            probes: 1,
            generation: 0,
            bars: words.value("bars").unwrap_or_default(),
        }),
        operators: Quorum {
            quorum: words.value("quorum").unwrap_or(1),
            acts: words.list("acts").iter().map(|name| name.parse().expect("an act")).collect(),
            break_glass: words.flag("break-glass"),
        },
    }
}
