//! The fence of a play: what it admits, and that it never goes back.

use baton_election::fence::{self, Entry, HoldRequest, Sight};
use baton_election::{Credential, Epoch, ResourceName, Span, WallTime};

use super::steps::Actor;
use super::{Broken, Play};
use crate::cast;

const HOLD_MS: u64 = 4_000;

impl Play {
    /// Somebody asks the fence with the token that it believes to hold.
    pub(super) fn enter(&mut self, who: Actor, run: Option<u8>, knows: u8) -> Result<(), Broken> {
        let (_, token, _) = self.holder(who);
        let Some(document) = &self.document else { return Ok(()) };
        let resource = ResourceName::new("db").expect("a plain name");
        let knows = knows.min(100);
        let entry = Entry {
            resource: &resource,
            token,
            agent: None,
            note: "",
            hold: run.map(|run| HoldRequest::short(credential(run), Span::millis(HOLD_MS))),
        };
        let sight = Sight {
            document,
            document_age: Span::millis(self.now_ms - self.beat_at_ms).scaled(knows.into(), 100),
            fence_age: Span::millis(self.now_ms - self.fence_at_ms).scaled(knows.into(), 100),
            wall: WallTime::default(),
        };
        let Ok(next) = fence::admit(self.fence.as_ref(), &entry, &sight) else {
            self.count("a fence refused");
            return Ok(());
        };
        let highest = self.fence.as_ref().map_or(Epoch(0), |fence| fence.highest);
        let leads = document.leader.as_ref().is_some_and(|leader| leader.epoch == token);
        let held = self.hold.is_some_and(|(holder, until)| until > self.now_ms && Some(holder) != run);
        if token < highest || next.highest < highest || !leads || held {
            return Err(format!(
                "token {token} was admitted; mark {highest}, it leads: {leads}, held: {held}"
            ));
        }
        self.hold = run.map(|run| (run, self.now_ms + HOLD_MS));
        (self.fence, self.fence_at_ms) = (Some(next), self.now_ms);
        self.count("a fence admitted");
        if highest != Epoch(0) && token > highest {
            self.count("a fence's mark rose");
        }
        Ok(())
    }

    /// A run keeps its hold; only while its token is current.
    pub(super) fn keep(&mut self, run: u8) -> Result<(), Broken> {
        let (Some(document), Some(fence)) = (&self.document, &self.fence) else { return Ok(()) };
        let sight = Sight {
            document,
            document_age: Span::millis(self.now_ms - self.beat_at_ms),
            fence_age: Span::millis(self.now_ms - self.fence_at_ms),
            wall: WallTime::default(),
        };
        let Ok(next) = fence::keep(fence, &credential(run), &sight) else { return Ok(()) };
        let token = next.hold.as_ref().map(|hold| hold.token);
        let leads = document.leader.as_ref().map(|leader| leader.epoch);
        if token.is_none() || token != leads || self.hold.is_none_or(|(_, until)| until <= self.now_ms) {
            return Err(format!("the hold of token {token:?} was kept; the leader's is {leads:?}"));
        }
        self.hold = Some((run, self.now_ms + HOLD_MS));
        (self.fence, self.fence_at_ms) = (Some(next), self.now_ms);
        self.count("a hold was kept");
        Ok(())
    }

    /// A run has ended.
    pub(super) fn leave(&mut self, run: u8) -> Result<(), Broken> {
        let Some(fence) = &self.fence else { return Ok(()) };
        let Ok(Some(next)) = fence::leave(fence, &credential(run)) else { return Ok(()) };
        self.hold = None;
        (self.fence, self.fence_at_ms) = (Some(next), self.now_ms);
        self.count("a hold was left");
        Ok(())
    }
}

fn credential(run: u8) -> Credential {
    cast::credential("run", run.into())
}
