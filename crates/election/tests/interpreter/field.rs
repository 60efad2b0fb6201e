//! Candidates and their ranking, as a scenario writes them.

use baton_election::{Candidate, Span, candidate, select};

use super::words::Words;
use super::{World, print};
use crate::cast;

impl World {
    pub(super) fn field(&mut self, name: &str, words: &mut Words) -> String {
        match name {
            "enlist" => self.enlist(words),
            "withdraw" => self.withdraw(words),
            _ => self.rank(),
        }
    }

    /// `enlist AGENT [priority= score= load= can= ttl= key=wrong]`
    fn enlist(&mut self, words: &mut Words) -> String {
        let name = words.next();
        let own = cast::credential(&name, self.life(&name));
        let stranger = words.option("key").map(|_| cast::credential("stranger", 1).key);
        let wanted = Candidate {
            election: cast::election(),
            agent: cast::agent(&name),
            incarnation: own.incarnation,
            key_hash: stranger.unwrap_or(own.key).hash(),
            priority: words.value("priority").unwrap_or(0),
            capabilities: words.list("can").into_iter().collect(),
            score: words.value("score").unwrap_or(0),
            load: words.value("load").unwrap_or(0),
            ttl: words.value("ttl").unwrap_or(Span::secs(30)),
            beat: 0,
            withdrawn: false,
            enlisted: self.wall(),
            through: None,
        };
        let found = self.candidates.get(&name).map(|(found, at)| (found, self.now.minus(*at)));
        match candidate::enlist(found, &wanted) {
            Err(refusal) => format!("{}\n", print::refusal(&refusal)),
            Ok(next) => {
                let text = format!("enlisted, beat {}, since {}\n", next.beat, next.enlisted);
                let _ = self.candidates.insert(name, (next, self.now));
                text
            }
        }
    }

    /// `withdraw AGENT [key=wrong]`
    fn withdraw(&mut self, words: &mut Words) -> String {
        let name = words.next();
        let mut own = cast::credential(&name, self.life(&name));
        if words.option("key").is_some() {
            own.key = cast::credential("stranger", 1).key;
        }
        match candidate::withdraw(self.candidates.get(&name).map(|(found, _)| found), &own) {
            Err(refusal) => format!("{}\n", print::refusal(&refusal)),
            Ok(None) => "it does not stand (nothing written)\n".to_string(),
            Ok(Some(next)) => {
                let _ = self.candidates.insert(name, (next, self.now));
                "withdrawn\n".to_string()
            }
        }
    }

    /// `rank`: those that stand, in the policy's order
    fn rank(&self) -> String {
        let standing: Vec<Candidate> = self
            .candidates
            .values()
            .filter(|(candidate, at)| candidate.stands(self.now.minus(*at)))
            .map(|(candidate, _)| candidate.clone())
            .collect();
        let ranked = select::rank(self.document.as_ref().expect("a document"), &standing);
        let mut reversed = standing;
        reversed.reverse();
        let again = select::rank(self.document.as_ref().expect("a document"), &reversed);
        assert_eq!(ranked, again, "the order in which candidates are read must not matter");
        if ranked.is_empty() {
            return "nobody\n".to_string();
        }
        ranked
            .iter()
            .enumerate()
            .map(|(place, one)| format!("{}. {}: {}\n", place + 1, one.agent, one.reason))
            .collect()
    }
}
