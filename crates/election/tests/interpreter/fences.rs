//! Guards and fences, as a scenario writes them.

use baton_election::bindings::FenceChange;
use baton_election::fence::{self, Entry, HoldRequest, LOG_PART, Sight};
use baton_election::{Credential, Fence, LeaseKey, Refusal, ResourceName, Span, StoreInfo};

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
            "bind" | "free" => self.order_fence(name, words),
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

    /// `fence RESOURCE AGENT [token= run=NAME ttl= election= stolen lease]`
    fn enter(&mut self, words: &mut Words) -> String {
        let (resource, agent) = (words.next(), words.next());
        let token = words.value("token").unwrap_or(self.held_token(&agent));
        let ttl = words.value("ttl").unwrap_or(Span::secs(10));
        let lease = words.flag("lease").then(|| cast::credential(&agent, 1));
        let stolen = words.flag("stolen");
        let hold =
            words.option("run").map(|run| HoldRequest { credential: credential(&run, stolen), ttl, lease });
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

    /// `keep RESOURCE RUN [stolen]`: the command goes on
    fn keep(&mut self, words: &mut Words) -> String {
        let (resource, run) = (words.next(), words.next());
        let (fence, at) = &self.fences[&resource];
        let sight = Sight {
            document: self.document.as_ref().expect("a document"),
            document_age: self.age(),
            fence_age: self.now.minus(*at),
            wall: self.wall(),
        };
        let decided = fence::keep(fence, &credential(&run, words.flag("stolen")), &sight);
        self.swap_fence(&resource, "kept", decided)
    }

    /// `leave RESOURCE RUN [stolen]`: the command has ended
    fn leave(&mut self, words: &mut Words) -> String {
        let (resource, run) = (words.next(), words.next());
        let stolen = words.flag("stolen");
        match fence::leave(&self.fences[&resource].0, &credential(&run, stolen)) {
            Ok(Some(fence)) => self.swap_fence(&resource, "left", Ok(fence)),
            Ok(None) => "it had left already\n".to_string(),
            Err(refusal) => self.swap_fence(&resource, "left", Err(refusal)),
        }
    }

    /// `bind RESOURCE ELECTION`, `free RESOURCE`: an operator's order
    fn order_fence(&mut self, name: &str, words: &mut Words) -> String {
        let resource = words.next();
        let change = match name {
            "bind" => FenceChange::Bind { election: words.next().parse().expect("a plain name") },
            _ => FenceChange::Free,
        };
        let root = cast::operator("root");
        let info =
            StoreInfo { operator_keys: vec![root.public()], ..StoreInfo::new(cast::STORE, self.wall()) };
        let name = ResourceName::new(&resource).expect("a plain name");
        let found = self.fences.get(&resource);
        // The clock of a hold goes on.
        let at = found.map_or(self.now, |(_, at)| *at);
        let order = root.sign_fence(&info, name, found.map(|(fence, _)| fence), change);
        let decided = order.carry_out(found.map(|(fence, _)| fence), &info, self.wall());
        let text = self.swap_fence(&resource, "ordered", decided);
        self.fences.entry(resource).and_modify(|(_, since)| *since = at);
        text
    }

    fn swap_fence(&mut self, resource: &str, word: &str, decided: Result<Fence, Refusal>) -> String {
        match decided {
            Err(refusal) => format!("{}\n", print::refusal(&refusal)),
            Ok(fence) => {
                let hold = fence.hold.as_ref().map_or("nobody holds it".to_string(), |hold| {
                    format!("held with token {} for {}", hold.token, hold.ttl)
                });
                let free = if fence.free { ", free" } else { "" };
                let (mark, election, entries) = (fence.highest, &fence.election, fence.tail.len());
                let text = format!(
                    "{word}\n  {resource} of {election}{free}: mark {mark}, {hold}, {entries} entries\n"
                );
                let _ = self.fences.insert(resource.to_string(), (fence, self.now));
                text
            }
        }
    }
}

/// What a run shows. Everybody can read its incarnation; somebody who stole that has another key.
fn credential(run: &str, stolen: bool) -> Credential {
    let own = cast::credential(run, 1);
    if stolen { Credential { key: LeaseKey([0; 16]), ..own } } else { own }
}
