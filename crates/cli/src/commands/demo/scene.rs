//! What goes on: who leads, how the agents stand, and waiting for the next thing to be so.

use std::sync::Arc;
use std::time::Duration;

use baton::election::document::Cause;
use baton::election::time::Span;
use baton::election::{ElectionName, Epoch, Moment, ResourceName};
use baton::store::{Key, Record, boot};
use baton::{Coordinator, Follower, LeaderView};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::Stop;
use super::place::Place;
use super::processes::{Family, send};
use super::stage::{Stage, spoken};
use super::troupe::{Agent, ELECTION, Line, MAX_UNHEARD, RESOURCE, Refused, Standing, TTL, Troupe};
use crate::context::name;
use crate::exit::Exit;
use crate::output::Failure;

/// How often the living line is drawn and the agents are counted.
const TICK: Duration = Duration::from_millis(100);
/// How many writes it takes to be at work.
const AT_WORK: u64 = 4;
/// A bound on a hang: nothing in the demo takes nearly as long.
const PATIENCE: Span = Span::secs(20);

/// The scene.
pub(super) struct Scene<'a> {
    pub(super) stage: Stage,
    pub(super) place: &'a Place,
    pub(super) coordinator: Coordinator,
    pub(super) election: ElectionName,
    pub(super) resource: ResourceName,
    pub(super) troupe: Troupe,
    /// Every write that was refused, in order.
    pub(super) refused: Vec<Refused>,
    /// What was not as it must be.
    pub(super) failures: Vec<String>,
    follower: Follower,
    leader: Arc<LeaderView>,
    /// When the leader was seen to be as it is.
    seen_at: Moment,
    lines: mpsc::Receiver<Line>,
    ticks: Interval,
}

/// A leadership that began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leads {
    /// Which agent.
    pub(super) who: usize,
    pub(super) token: Epoch,
    /// When it was seen.
    pub(super) at: Moment,
}

impl Scene<'_> {
    /// Makes the store and its operator. Nobody stands yet.
    pub(super) async fn set(stage: Stage, place: &Place) -> Result<Scene<'_>, Stop> {
        let (sender, lines) = mpsc::channel(MAX_UNHEARD);
        let troupe = Troupe::gather(sender)?;
        let coordinator = Coordinator::connect(&place.store()).await?;
        let election: ElectionName = name(ElectionName::new(ELECTION))?;
        let follower = coordinator.follow(&election).await;
        let leader = follower.leader();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut scene = Scene {
            stage,
            place,
            coordinator,
            election,
            resource: name(ResourceName::new(RESOURCE))?,
            troupe,
            refused: Vec::new(),
            failures: Vec::new(),
            follower,
            leader,
            seen_at: boot::now(),
            lines,
            ticks,
        };
        scene.command(&["init"]).await?;
        let text =
            format!("a store in {}, leases of {TTL}, every write through a fence", place.path().display());
        scene.tell("set", json!({"store": place.store(), "ttl": TTL}), &text)?;
        Ok(scene)
    }

    pub(super) fn tell(&mut self, event: &str, data: Value, text: &str) -> Result<(), Stop> {
        self.stage.tell(event, data, text)
    }

    pub(super) fn agent(&self, index: usize) -> &Agent {
        &self.troupe.agents[index]
    }

    pub(super) fn name(&self, index: usize) -> String {
        self.agent(index).name.to_string()
    }

    /// Notes down what is not as it must be.
    pub(super) fn expect(&mut self, so: bool, what: &str) -> Result<(), Stop> {
        if so {
            return Ok(());
        }
        self.failures.push(what.to_string());
        self.stage.complain(what)
    }

    /// Waits until something is so.
    pub(super) async fn until<T>(
        &mut self,
        what: &str,
        mut found: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T, Stop> {
        let give_up_at = boot::now() + PATIENCE;
        loop {
            if let Some(value) = found(self) {
                return Ok(value);
            }
            if boot::now() >= give_up_at {
                return Err(failed(format!("for {} this did not happen: {what}", spoken(PATIENCE))));
            }
            self.pump().await?;
        }
    }

    /// Waits for a leadership with a higher token.
    pub(super) async fn successor(&mut self, after: Epoch) -> Result<Leads, Stop> {
        self.until("another agent leads", |scene| scene.leads().filter(|leads| leads.token > after)).await
    }

    /// The leader, as far as it is known.
    pub(super) fn leads(&self) -> Option<Leads> {
        let LeaderView { agent, token, vacant, .. } = &*self.leader;
        let agent = agent.as_ref().filter(|_| !*vacant)?;
        let who = self.troupe.agents.iter().position(|one| one.name == *agent)?;
        Some(Leads { who, token: *token, at: self.seen_at })
    }

    /// Waits until a leader is at work: it has written a few times.
    pub(super) async fn at_work(&mut self, leads: Leads) -> Result<(), Stop> {
        self.until("the leader writes", |scene| {
            let agent = scene.agent(leads.who);
            (agent.token == Some(leads.token) && agent.writes >= AT_WORK).then_some(())
        })
        .await
    }

    /// A pause for the audience; life goes on meanwhile.
    pub(super) async fn rest(&mut self, span: Span) -> Result<(), Stop> {
        let until = boot::now() + span;
        while self.stage.pauses() && boot::now() < until {
            self.pump().await?;
        }
        Ok(())
    }

    /// Starts an agent that was ended, and waits until it stands in line.
    pub(super) async fn start_again(&mut self, who: usize) -> Result<(), Stop> {
        self.troupe.agents[who].gone().await?;
        self.troupe.start(who, self.place)?;
        self.until("it waits in line", |scene| {
            (scene.agent(who).standing == Standing::Waiting).then_some(())
        })
        .await?;
        let text = format!("{} is started again and waits in line", self.name(who));
        self.tell("started", json!({"agent": self.name(who)}), &text)
    }

    /// The processes of an agent that is there.
    pub(super) fn family(&self, who: usize) -> Result<Family, Stop> {
        match self.agent(who).run() {
            Some(run) => Ok(Family::of(run)),
            None => Err(failed(format!("the `baton run` of {} is gone", self.name(who)))),
        }
    }

    /// Says goodbye to an agent's `baton run`.
    pub(super) fn end(&mut self, who: usize, signal: Signal, pids: &[Pid]) {
        self.troupe.agents[who].standing = Standing::Ended;
        pids.iter().for_each(|pid| send(*pid, signal));
    }

    /// When the running lease ends unless it is renewed, by the store's own stamps.
    pub(super) async fn lease_end(&self) -> Result<Moment, Stop> {
        let key = Key::Election(self.election.clone());
        let reading = self.coordinator.backend().read(&key).await.map_err(baton::Error::from)?;
        let left = match (reading.record(), reading.age) {
            (Some(Record::Election(document)), Some(age)) => document.lease_remaining(age),
            (_, _) => Span::ZERO,
        };
        Ok(reading.asked_at + left)
    }

    /// Why a leadership began, as the history has it.
    pub(super) async fn cause(&self, leads: Leads) -> Result<Option<(Cause, String)>, Stop> {
        let history = self.coordinator.history(&self.election, 8).await?;
        let transition = history.into_iter().find(|transition| transition.epoch == leads.token);
        Ok(transition.map(|transition| (transition.cause, transition.reason)))
    }

    /// Runs a command of this program on the demo's store. Returns what it printed.
    pub(super) async fn command(&mut self, arguments: &[&str]) -> Result<String, Stop> {
        let mut command = self.place.baton();
        command.args(arguments).stdin(std::process::Stdio::null()).kill_on_drop(true);
        let done = command.output().await?;
        if !done.status.success() {
            let words = String::from_utf8_lossy(&done.stderr).trim().to_string();
            return Err(failed(format!("`baton {}` failed ({}): {words}", arguments.join(" "), done.status)));
        }
        Ok(String::from_utf8_lossy(&done.stdout).trim_end().to_string())
    }

    /// Takes in the next thing that happens.
    async fn pump(&mut self) -> Result<(), Stop> {
        tokio::select! {
            leader = self.follower.changed() => {
                self.seen_at = boot::now();
                self.leader = leader;
            }
            Some(line) = self.lines.recv() => self.refused.extend(self.troupe.take_in(&line)),
            _ = self.ticks.tick() => {
                if let Some(fallen) = self.troupe.find_fallen() {
                    return Err(failed(fallen));
                }
                let line = self.standings();
                self.stage.draw(&line)?;
            }
        }
        Ok(())
    }

    /// How the agents stand, in one line.
    fn standings(&self) -> String {
        let stand = |agent: &Agent| match agent.standing {
            Standing::Absent => format!("· {}", agent.name),
            Standing::Starting => format!("· {} starts", agent.name),
            Standing::Waiting => format!("○ {} waits", agent.name),
            Standing::Leading => {
                let token = agent.token.unwrap_or(Epoch(0));
                format!("● {} leads: token {token}, write {}", agent.name, agent.writes)
            }
            Standing::Frozen => format!("‖ {} is stopped", agent.name),
            Standing::Ended => format!("✗ {} is gone", agent.name),
        };
        self.troupe.agents.iter().map(stand).collect::<Vec<_>>().join("   ")
    }
}

fn failed(message: String) -> Stop {
    Failure::new(
        Exit::Error,
        "demo",
        message,
        "a machine that is very busy may be too slow for leases of two seconds; see also baton doctor",
    )
    .into()
}
