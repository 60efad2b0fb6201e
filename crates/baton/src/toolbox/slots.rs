//! Runs that happen once in each slot of time.
//!
//! The slot is named by the store's wall clock where the store has one that all its clients share ([`baton_store::Store::wall`]), otherwise by this
//! machine's. That clock decides which slot it is, and never who leads.

use baton_election::time::WallTime;
use baton_election::{AgentName, ItemName, Refusal};
use baton_store::boot;
use baton_store::toolbox::slot::{self, Again, RunEnd, SLOT_VALUE, SlotRun, SlotStanding, Slots};
use baton_store::toolbox::{Item, Kind, Mandate};

use super::Toolbox;
use crate::error::Error;

/// How often a mark is tried anew that another leader overtook. Each time a leader of a later epoch must have written.
const OVERTAKEN: u32 = 8;

/// Whether a slot is this leader's to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is marked, durably, and may be run.
    Run(MarkedSlot),
    /// It must not be run. [`SlotStanding::Free`] is never told here.
    Not(SlotStanding),
}

/// A slot that this leader marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedSlot {
    /// The mark.
    pub run: SlotRun,
    /// The version of the value that holds it.
    version: u64,
}

impl Toolbox {
    /// The last run that was marked, if any was.
    pub async fn last_slot(&self) -> Result<Option<SlotRun>, Error> {
        Ok(self.marked().await?.0)
    }

    /// How the present slot stands. A look, which marks nothing.
    pub async fn slot_standing(&self, slots: &Slots, again: Again) -> Result<SlotStanding, Error> {
        let wall = self.slot_clock().await?;
        let (last, _) = self.marked().await?;
        Ok(slot::standing(last.as_ref(), slots, slots.slot_at(wall), again))
    }

    /// Marks the present slot as run by this leader, before it runs anything. It may be repeated after any error by the same leader.
    pub async fn begin_slot(
        &self,
        mandate: Mandate,
        by: &AgentName,
        slots: &Slots,
        again: Again,
    ) -> Result<Begun, Error> {
        let run = mandate.credential.incarnation;
        let wall = self.slot_clock().await?;
        let slot = slots.slot_at(wall);
        for _ in 0..OVERTAKEN {
            let (last, version) = self.marked().await?;
            if let Some(mine) = last.as_ref().filter(|last| last.run == run) {
                // The answer to an earlier attempt was lost. One leadership marks one slot.
                return Ok(Begun::Run(MarkedSlot { run: mine.clone(), version }));
            }
            match slot::standing(last.as_ref(), slots, slot, again) {
                SlotStanding::Free => {}
                over => return Ok(Begun::Not(over)),
            }
            let mark = SlotRun { slot, lasts: slots.every(), run, by: by.clone(), at: wall, ended: None };
            match self.put(&slot_value(), mandate, &mark.to_json(), Some(version)).await {
                Ok(value) => return Ok(Begun::Run(MarkedSlot { run: mark, version: value.version() })),
                // Somebody whose leadership ends in this moment has marked it.
                Err(Error::Refused(Refusal::OutOfTurn { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Refusal::out_of_turn(
            "other leaders mark the slot again and again",
            "look who leads: baton status, baton history",
        )
        .into())
    }

    /// Notes how the run of a marked slot ended. Without it the run counts as not done.
    pub async fn end_slot(
        &self,
        mandate: Mandate,
        marked: &MarkedSlot,
        code: u8,
        success: bool,
    ) -> Result<SlotRun, Error> {
        let ended = Some(RunEnd { code, success, at: self.slot_clock().await? });
        let run = SlotRun { ended, ..marked.run.clone() };
        self.put(&slot_value(), mandate, &run.to_json(), Some(marked.version)).await?;
        Ok(run)
    }

    /// The mark, and the version of the value that holds it.
    async fn marked(&self) -> Result<(Option<SlotRun>, u64), Error> {
        let Some(Item::Value(value)) = self.item(Kind::Value, &slot_value()).await? else {
            return Ok((None, 0));
        };
        let last = value.latest().map(|latest| SlotRun::parse(&latest.value)).transpose()?;
        Ok((last.flatten(), value.version()))
    }

    /// The clock that names slots.
    async fn slot_clock(&self) -> Result<WallTime, Error> {
        Ok(self.coordinator.backend.wall().await?.unwrap_or_else(boot::wall))
    }
}

fn slot_value() -> ItemName {
    match ItemName::new(SLOT_VALUE) {
        Ok(name) => name,
        Err(error) => unreachable!("a plain name: {error}"),
    }
}
