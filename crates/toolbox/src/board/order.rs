//! What is done to a task that is on the board.

use alloc::format;
use alloc::string::{String, ToString};

use baton_election::time::{Span, as_optional_millis};
use baton_election::{AgentName, Epoch, KeyHash, LeaseKey, OLDER_INSTRUCTION, Refusal};
use serde::{Deserialize, Serialize};

use super::{Adopt, Attempt, Outcome, Progress, State, Task};
use crate::bounds::{self, MAX_BODY_BYTES, MAX_NOTE_BYTES};
use crate::item::{Kind, called};
use crate::mandate::{Mandate, Sight};

/// How often a task is tried at most.
pub const MAX_ATTEMPTS: usize = 32;

/// A change of a task: the leader's (assign, adopt, retry, cancel), or its worker's (accept, progress, complete, fail).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "order", rename_all = "kebab-case")]
pub enum Order {
    /// Somebody shall do it; or, without a name, whoever was told shall do it in this epoch too.
    Assign(Assign),
    /// A worker that a predecessor assigned continues under this leader: the attempt and its worker stay.
    Adopt(Adopt),
    /// It shall be tried anew; who is at it is told to stop by that its reports are refused.
    Retry(Withdraw),
    /// It shall not be done.
    Cancel(Withdraw),
    /// The one who was told does it.
    Accept(Accept),
    /// It is so far.
    Progress(Report),
    /// It is done.
    Complete(Complete),
    /// It cannot be done, or not by this one.
    Fail(Fail),
}

/// Tells somebody to do a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Assign {
    /// The leader's.
    pub mandate: Mandate,
    /// Who; without it, who was told by a predecessor is told again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<AgentName>,
    /// How many attempts there were when this was decided: a request that comes late changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
}

/// Takes a task back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Withdraw {
    /// The leader's.
    pub mandate: Mandate,
    /// How many attempts there were when this was decided: a request that comes late changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
    /// How many orders of leaders had changed the task when this was decided: one that was overtaken by another order changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orders: Option<u64>,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_NOTE_BYTES)))]
    pub reason: String,
}

/// Begins to do a task. To accept it again with the same key is answered as the first time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Accept {
    /// Who.
    pub agent: AgentName,
    /// The hash of a key that the worker has minted: who has the key reports on the task.
    pub key_hash: KeyHash,
    /// The highest epoch of this election that the worker has heard of: an instruction of an older one is refused.
    #[serde(default)]
    pub seen: Epoch,
    /// How many attempts there were when this was decided: one that comes late begins none that was given since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
}

/// How far a task is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The worker's key.
    pub key: LeaseKey,
    /// In percent.
    #[cfg_attr(feature = "schema", schemars(range(max = 100)))]
    pub percent: u8,
    /// How long it will still take.
    #[serde(
        default,
        rename = "estimate_ms",
        with = "as_optional_millis",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub estimate: Option<Span>,
    /// In words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_NOTE_BYTES)))]
    pub note: String,
}

/// A task is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Complete {
    /// The worker's key.
    pub key: LeaseKey,
    /// What came of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_BODY_BYTES)))]
    pub result: String,
}

/// A task is given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Fail {
    /// The worker's key.
    pub key: LeaseKey,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_NOTE_BYTES)))]
    pub reason: String,
}

impl Order {
    /// Whether it is the leader's: only then the election is looked at.
    pub fn is_leaders(&self) -> bool {
        match self {
            Order::Assign(_) | Order::Adopt(_) | Order::Retry(_) | Order::Cancel(_) => true,
            Order::Accept(_) | Order::Progress(_) | Order::Complete(_) | Order::Fail(_) => false,
        }
    }
}

/// Carries out an order. None if it was carried out before.
pub fn carry_out(task: &Task, order: &Order, sight: &Sight<'_>) -> Result<Option<Task>, Refusal> {
    if !task.is_consistent() {
        // Nobody here wrote it so.
        return Err(task.odd());
    }
    let mut next = task.clone();
    let changed = match order {
        Order::Assign(assign) => next.assign(assign, sight)?,
        Order::Adopt(adopt) => next.adopt(adopt, sight)?,
        Order::Retry(withdraw) => next.retry(withdraw, sight)?,
        Order::Cancel(withdraw) => next.cancel(withdraw, sight)?,
        Order::Accept(accept) => next.accept(accept, sight)?,
        Order::Progress(report) => next.report(report, sight)?,
        Order::Complete(complete) => next.complete(complete, sight)?,
        Order::Fail(fail) => next.fail(fail, sight)?,
    };
    if changed && order.is_leaders() {
        next.orders = next.orders.saturating_add(1);
    }
    assert!(next.fence >= task.fence, "a fence went back");
    assert!(next.is_consistent(), "a task contradicts itself: {next:?}");
    Ok(changed.then_some(next))
}

impl Task {
    /// An attempt is under way exactly while it is assigned or worked on, and only the last one can be.
    fn is_consistent(&self) -> bool {
        let open = self.attempts.iter().filter(|attempt| attempt.outcome.is_none()).count();
        let done = self.attempts.iter().filter(|a| a.outcome == Some(Outcome::Done)).count();
        open == usize::from(self.is_under_way())
            && (open == 0 || self.attempt().is_some())
            && done == usize::from(self.state == State::Done)
    }

    fn assign(&mut self, assign: &Assign, sight: &Sight<'_>) -> Result<bool, Refusal> {
        assign.mandate.check_for(self.fence, sight)?;
        let token = assign.mandate.token;
        if self.is_told(assign) {
            return Ok(false);
        }
        self.check_attempts(assign.attempts)?;
        match (self.state, &assign.to) {
            (State::Queued, Some(to)) => self.tell(to.clone(), token, sight)?,
            (State::Assigned, to) => {
                let Some(attempt) = self.attempts.last_mut() else { return Err(self.odd()) };
                if to.as_ref().is_none_or(|to| *to == attempt.agent) {
                    // The same instruction, given by its successor.
                    attempt.epoch = token;
                } else if let Some(to) = to {
                    let to = to.clone();
                    self.end(Outcome::Withdrawn, "assigned to another", sight);
                    self.tell(to, token, sight)?;
                }
            }
            (State::Queued, None) => {
                return Err(Refusal::invalid(
                    format!("nobody has {} yet", called(Kind::Task, &self.id)),
                    "say who shall do it",
                ));
            }
            (State::Working, _) => return Err(self.out_of_turn("take it back first: baton task retry")),
            (State::Done, _) => return Err(self.out_of_turn("what is done stays done: add another task")),
            (State::Failed | State::Cancelled, _) => {
                return Err(self.out_of_turn("queue it anew first: baton task retry"));
            }
        }
        self.fence = token;
        Ok(true)
    }

    /// Whether this very instruction was given already: it made the attempt under way, or was given again on top of it.
    fn is_told(&self, assign: &Assign) -> bool {
        let there = self.attempts.len() as u64;
        let made_it = |meant: u64| meant.checked_add(1) == Some(there);
        let fits = match self.state {
            State::Assigned => assign.attempts.is_none_or(|meant| meant == there || made_it(meant)),
            // The worker was quicker than the answer.
            State::Working => assign.to.is_some() && assign.attempts.is_none_or(made_it),
            State::Queued | State::Done | State::Failed | State::Cancelled => false,
        };
        fits && self.attempts.last().is_some_and(|attempt| {
            attempt.epoch == assign.mandate.token && assign.to.as_ref().is_none_or(|to| *to == attempt.agent)
        })
    }

    fn tell(&mut self, agent: AgentName, epoch: Epoch, sight: &Sight<'_>) -> Result<(), Refusal> {
        if self.attempts.len() >= MAX_ATTEMPTS {
            return Err(
                self.out_of_turn("it was tried often enough: cancel it, and add one that can be done")
            );
        }
        self.attempts.push(Attempt {
            agent,
            epoch,
            assigned: sight.wall,
            accepted: None,
            key_hash: None,
            outcome: None,
            note: String::new(),
            percent: 0,
            ended: None,
        });
        self.state = State::Assigned;
        self.progress = Progress::default();
        Ok(())
    }

    fn retry(&mut self, withdraw: &Withdraw, sight: &Sight<'_>) -> Result<bool, Refusal> {
        bounds::check("reason", &withdraw.reason, MAX_NOTE_BYTES)?;
        withdraw.mandate.check_for(self.fence, sight)?;
        self.check_attempts(withdraw.attempts)?;
        if !self.is_due(withdraw.orders, State::Queued)? {
            return Ok(false);
        }
        match self.state {
            // Somebody of this leadership did so already, or there is nothing to take back.
            State::Queued => return Ok(false),
            State::Assigned | State::Working => {
                self.end(Outcome::Withdrawn, &withdraw.reason, sight);
            }
            State::Failed | State::Cancelled => {}
            State::Done => return Err(self.out_of_turn("what is done stays done: add another task")),
        }
        self.state = State::Queued;
        self.reason.clone_from(&withdraw.reason);
        self.progress = Progress::default();
        self.fence = withdraw.mandate.token;
        Ok(true)
    }

    fn cancel(&mut self, withdraw: &Withdraw, sight: &Sight<'_>) -> Result<bool, Refusal> {
        bounds::check("reason", &withdraw.reason, MAX_NOTE_BYTES)?;
        withdraw.mandate.check_for(self.fence, sight)?;
        self.check_attempts(withdraw.attempts)?;
        if !self.is_due(withdraw.orders, State::Cancelled)? {
            return Ok(false);
        }
        match self.state {
            State::Cancelled => return Ok(false),
            State::Queued | State::Failed => {}
            State::Assigned | State::Working => {
                self.end(Outcome::Cancelled, &withdraw.reason, sight);
            }
            State::Done => return Err(self.out_of_turn("what is done stays done")),
        }
        self.state = State::Cancelled;
        self.reason.clone_from(&withdraw.reason);
        self.fence = withdraw.mandate.token;
        Ok(true)
    }

    fn accept(&mut self, accept: &Accept, sight: &Sight<'_>) -> Result<bool, Refusal> {
        self.check_attempts(accept.attempts)?;
        let standing = self.out_of_turn("do only what is assigned to you: baton task list --agent AGENT");
        let Some(attempt) = self.attempts.last_mut().filter(|attempt| attempt.outcome.is_none()) else {
            return Err(standing);
        };
        if attempt.agent != accept.agent {
            return Err(Refusal::out_of_turn(
                format!("{} is {}'s to do", called(Kind::Task, &self.id), attempt.agent),
                "do only what is assigned to you",
            ));
        }
        if let Some(key_hash) = attempt.key_hash {
            return if key_hash == accept.key_hash { Ok(false) } else { Err(standing) };
        }
        if attempt.epoch < accept.seen {
            return Err(Refusal::Stale {
                shown: attempt.epoch,
                current: accept.seen,
                leader: None,
                why: format!("{OLDER_INSTRUCTION}; the leader must give it again"),
            });
        }
        attempt.key_hash = Some(accept.key_hash);
        attempt.accepted = Some(sight.wall);
        self.state = State::Working;
        Ok(true)
    }

    fn report(&mut self, report: &Report, sight: &Sight<'_>) -> Result<bool, Refusal> {
        bounds::check("note", &report.note, MAX_NOTE_BYTES)?;
        if report.percent > 100 {
            return Err(Refusal::invalid(format!("{} percent", report.percent), "say 0 to 100"));
        }
        self.mine(&report.key, None)?;
        let progress = Progress {
            percent: report.percent,
            estimate: report.estimate.map(Span::whole_millis),
            note: report.note.clone(),
            at: Some(sight.wall),
        };
        self.progress = progress;
        Ok(true)
    }

    fn complete(&mut self, complete: &Complete, sight: &Sight<'_>) -> Result<bool, Refusal> {
        bounds::check("result", &complete.result, MAX_BODY_BYTES)?;
        if !self.mine(&complete.key, Some(Outcome::Done))? {
            return Ok(false);
        }
        self.progress.percent = 100;
        self.progress.estimate = None;
        self.end(Outcome::Done, "", sight);
        self.state = State::Done;
        self.reason.clear();
        self.result = Some(complete.result.clone());
        Ok(true)
    }

    fn fail(&mut self, fail: &Fail, sight: &Sight<'_>) -> Result<bool, Refusal> {
        bounds::check("reason", &fail.reason, MAX_NOTE_BYTES)?;
        if !self.mine(&fail.key, Some(Outcome::Failed))? {
            return Ok(false);
        }
        self.end(Outcome::Failed, &fail.reason, sight);
        self.state = State::Failed;
        self.reason.clone_from(&fail.reason);
        Ok(true)
    }

    /// Whether the attempt under way is of this key. False if it was ended so by this key before; whoever has no key to this task, or
    /// only to an attempt that was taken back, is refused.
    fn mine(&self, key: &LeaseKey, ending: Option<Outcome>) -> Result<bool, Refusal> {
        let opens = |attempt: &Attempt| attempt.key_hash.is_some_and(|hash| key.opens(&hash));
        let Some(place) = self.attempts.iter().rposition(opens) else {
            return Err(Refusal::WrongKey {
                why: format!("{} is not this worker's", called(Kind::Task, &self.id)),
            });
        };
        let attempt = &self.attempts[place];
        match attempt.outcome {
            None => Ok(true),
            Some(outcome) if Some(outcome) == ending && place + 1 == self.attempts.len() => Ok(false),
            Some(outcome) => Err(Refusal::out_of_turn(
                format!("this worker's attempt at {} has ended ({outcome})", called(Kind::Task, &self.id)),
                "stop the work on it",
            )),
        }
    }

    pub(super) fn check_attempts(&self, meant: Option<u64>) -> Result<(), Refusal> {
        let there = self.attempts.len();
        if meant.is_none_or(|meant| usize::try_from(meant) == Ok(there)) {
            return Ok(());
        }
        Err(Refusal::out_of_turn(
            format!("{} has been attempted {there} times by now", called(Kind::Task, &self.id)),
            "look at it again, and decide anew",
        ))
    }

    /// Whether an order is still to be carried out that was decided on when so many had changed the task. False if the one that came since
    /// made it what this would.
    fn is_due(&self, meant: Option<u64>, made: State) -> Result<bool, Refusal> {
        match meant {
            None => Ok(true),
            Some(meant) if meant == self.orders => Ok(true),
            Some(meant) if meant.checked_add(1) == Some(self.orders) && self.state == made => Ok(false),
            Some(_) => Err(self.out_of_turn("a later order was first: look at it again, and decide anew")),
        }
    }

    fn end(&mut self, outcome: Outcome, note: &str, sight: &Sight<'_>) {
        let percent = self.progress.percent;
        if let Some(attempt) = self.attempts.last_mut().filter(|attempt| attempt.outcome.is_none()) {
            attempt.outcome = Some(outcome);
            attempt.note = note.to_string();
            attempt.percent = percent;
            attempt.ended = Some(sight.wall);
        }
    }

    pub(super) fn out_of_turn(&self, hint: &str) -> Refusal {
        let by = match (self.state, self.worker()) {
            (State::Assigned | State::Working | State::Done | State::Failed, Some(agent)) => {
                format!(" ({agent})")
            }
            (_, _) => String::new(),
        };
        Refusal::out_of_turn(format!("{} is {}{by}", called(Kind::Task, &self.id), self.state), hint)
    }

    fn odd(&self) -> Refusal {
        Refusal::invalid(
            format!("{} contradicts itself", called(Kind::Task, &self.id)),
            "put it back by hand",
        )
    }
}
