//! Guards and fences, as a scenario writes them.

use baton_election::fence::{self, Entry, LOG_PART, Sight};
use baton_election::{Fence, Refusal, ResourceName, Span};

use super::words::Words;
use super::{World, print};
use crate::cast;

impl World {
    pub(super) fn guard(&mut self, name: &str, words: &mut Words) -> String {
        match name {
            "check" => self.check(words),
            "fence" => self.enter(words),
            "fill" => self.fill(words),
            "keep" => self.keep(words),
            _ => self.leave(words),
        }
    }

    /// `check AGENT [token=]`: a guard without a fence
    fn check(&mut self, words: &mut Words) -> String {
        let token = words.value("token").unwrap_or(self.held_token(&words.next()));
        let document = self.document.as_ref().expect("a document");
        match fence::check(token, document, self.age()) {
            Ok(()) => format!("token {token} may act\n"),
            Err(refusal) => format!("{}\n", print::refusal(&refusal)),
        }
    }

    /// `fence RESOURCE AGENT [token= run=NAME ttl= election=]`
    fn enter(&mut self, words: &mut Words) -> String {
        let (resource, agent) = (words.next(), words.next());
        let token = words.value("token").unwrap_or(self.held_token(&agent));
        let ttl = words.value("ttl").unwrap_or(Span::secs(10));
        let hold = words.option("run").map(|run| (cast::credential(&run, 1).incarnation, ttl));
        let mut document = self.document.clone().expect("a document");
        if let Some(election) = words.value("election") {
            document.election = election;
        }
        if let Some(store) = words.value("store") {
            document.store = store;
        }
        let name = ResourceName::new(&resource).expect("a plain name");
        let found = self.fences.get(&resource);
        let sight = Sight {
            document: &document,
            document_age: self.age(),
            fence_age: found.map_or(Span::ZERO, |(_, at)| self.now.minus(*at)),
            wall: self.wall(),
        };
        let entry = Entry { resource: &name, token, agent: Some(&cast::agent(&agent)), note: "write", hold };
        if let Some((fence, _)) = found {
            let keep = usize::try_from(LOG_PART).expect("small");
            self.fence_log = self.fence_log.with(fence.overflow(), keep).unwrap_or(self.fence_log.clone());
        }
        let decided = fence::admit(found.map(|(fence, _)| fence), &entry, &sight);
        self.swap_fence(&resource, "admitted", decided)
    }

    /// `fill RESOURCE AGENT TIMES`: so many entries, and what is left of them where
    fn fill(&mut self, words: &mut Words) -> String {
        let (resource, agent) = (words.next(), words.next());
        let times: u64 = words.next().parse().expect("a number");
        for _ in 0..times {
            let trace = self.enter(&mut Words::of(&format!("{resource} {agent}")));
            assert!(trace.starts_with("admitted"), "{trace}");
        }
        let (fence, _) = &self.fences[&resource];
        let numbers = |entries: &[fence::Accepted]| match (entries.first(), entries.last()) {
            (Some(first), Some(last)) => format!("{} to {}", first.seq, last.seq),
            (_, _) => "none".to_string(),
        };
        format!(
            "the fence has entries {}, the log {}\n",
            numbers(&fence.tail),
            numbers(&self.fence_log.entries)
        )
    }

    /// `keep RESOURCE RUN`: the command goes on
    fn keep(&mut self, words: &mut Words) -> String {
        let (resource, run) = (words.next(), words.next());
        let (fence, at) = &self.fences[&resource];
        let sight = Sight {
            document: self.document.as_ref().expect("a document"),
            document_age: self.age(),
            fence_age: self.now.minus(*at),
            wall: self.wall(),
        };
        let decided = fence::keep(fence, cast::credential(&run, 1).incarnation, &sight);
        self.swap_fence(&resource, "kept", decided)
    }

    /// `leave RESOURCE RUN`: the command has ended
    fn leave(&mut self, words: &mut Words) -> String {
        let (resource, run) = (words.next(), words.next());
        let left = fence::leave(&self.fences[&resource].0, cast::credential(&run, 1).incarnation);
        match left {
            Some(fence) => self.swap_fence(&resource, "left", Ok(fence)),
            None => "it had left already\n".to_string(),
        }
    }

    fn swap_fence(&mut self, resource: &str, word: &str, decided: Result<Fence, Refusal>) -> String {
        match decided {
            Err(refusal) => format!("{}\n", print::refusal(&refusal)),
            Ok(fence) => {
                let hold = fence.hold.as_ref().map_or("nobody holds it".to_string(), |hold| {
                    format!("held with token {} for {}", hold.token, hold.ttl)
                });
                let (mark, election, entries) = (fence.highest, &fence.election, fence.tail.len());
                let text =
                    format!("{word}\n  {resource} of {election}: mark {mark}, {hold}, {entries} entries\n");
                let _ = self.fences.insert(resource.to_string(), (fence, self.now));
                text
            }
        }
    }
}
