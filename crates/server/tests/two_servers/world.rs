//! One store, the servers that came one after the other, two agents, and everything that can get lost between them.
//!
//! Only public calls of the engine are used. No lease ends during a play, since an hour is long: so whoever was told that it leads, and has
//! not released, must be waited for by every server. All clocks here are one and the same, so agents count without margins: a
//! nanosecond that a server does not wait is found.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use baton_api::CommandError;
use baton_api::command::Decided;
use baton_election::command::{Ending, Release, Renew};
use baton_election::time::{Moment, Span};
use baton_election::{Answer, Command, Epoch, Refusal};
use baton_server::Engine;
use baton_store::{MemoryStore, boot};
use tokio::sync::mpsc;

use crate::support::{Held, acquire, credential, election};

const TTL: Span = Span::secs(3_600);
/// What the store says of every record: renewals were not written for so long.
const UNWRITTEN: Span = Span::secs(3 * 3_600);
/// The most servers of a play.
const MAX_SERVERS: usize = 3;
/// The agents of a play.
const AGENTS: usize = 2;
/// One that asks at the end whether anybody else is let in.
const STRANGER: u8 = 250;

/// One step of a play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// An agent asks the active server for the lease.
    Ask(usize),
    /// The same, and waits in line.
    Line(usize),
    Renew(usize),
    /// The same at the server before the active one: the agent has not heard of the other.
    RenewAtFormer(usize),
    Release(usize),
    /// An agent no longer waits for the answer to its request.
    GiveUp(usize),
    /// The next answer to an agent is lost.
    LoseNextAnswer,
    /// The active server stalls: what it writes is under way for as long as this lasts.
    Stall,
    /// Whatever is under way arrives.
    Flow,
    /// The next write of the active server is applied, and the store's answer lost.
    LoseNextSwap,
    /// Another server becomes the active one, after the lease of the one before it.
    TakeOver,
}

/// A bug, planted around the engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The store writes whatever it is given.
    NoCompare,
    /// What a server answers is delivered after another has taken over.
    LateAnswers,
    /// An agent whose answer was lost counts from the request that found its lease.
    CountsWhatItFound,
    /// An agent releases, and goes on working.
    ReleasesFirst,
}

/// How often what matters came to pass: a promise about what never happens proves nothing.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sights {
    pub(crate) claimed: usize,
    pub(crate) confirmed: usize,
    pub(crate) taken_over: usize,
    pub(crate) deposed: usize,
    pub(crate) outlived: usize,
}

impl Sights {
    pub(crate) fn add(&mut self, other: Sights) {
        self.claimed += other.claimed;
        self.confirmed += other.confirmed;
        self.taken_over += other.taken_over;
        self.deposed += other.deposed;
        self.outlived += other.outlived;
    }
}

/// A promise that was broken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

struct Server {
    engine: Engine,
    link: Held,
}

#[derive(Default)]
struct Agent {
    /// It has done something.
    begun: bool,
    /// Counts its incarnations.
    life: u8,
    /// The lease that it was told of.
    token: Option<Epoch>,
    /// Until when it is sure to lead.
    sure_until: Option<Moment>,
    /// The request whose answer it waits for.
    asking: Option<u64>,
}

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    Acquire,
    Renew,
    Release,
}

/// What came of a request.
struct Reply {
    server: usize,
    agent: usize,
    number: u8,
    request: u64,
    wish: RequestKind,
    asked_at: Moment,
    outcome: Result<Decided, CommandError>,
}

pub(crate) struct World {
    fault: Option<Fault>,
    inner: MemoryStore,
    servers: Vec<Server>,
    /// The place of the active one.
    active: Arc<AtomicUsize>,
    agents: [Agent; AGENTS],
    /// The agent that was given each token.
    given: BTreeMap<Epoch, u8>,
    requests: u64,
    lose_next_answer: bool,
    replies: (mpsc::UnboundedSender<Reply>, mpsc::UnboundedReceiver<Reply>),
    pub(crate) sights: Sights,
}

impl World {
    pub(crate) async fn new(fault: Option<Fault>) -> World {
        let mut world = World {
            fault,
            inner: MemoryStore::default(),
            servers: Vec::new(),
            active: Arc::default(),
            agents: Default::default(),
            given: BTreeMap::new(),
            requests: 0,
            lose_next_answer: false,
            replies: mpsc::unbounded_channel(),
            sights: Sights::default(),
        };
        world.take_over().await;
        world
    }

    fn server(&self) -> &Server {
        &self.servers[self.active.load(Ordering::SeqCst)]
    }

    fn number(&self, agent: usize) -> u8 {
        10 * (1 + u8::try_from(agent).unwrap()) + self.agents[agent].life
    }

    /// What can be done next and is no repetition of what is so already. The second agent comes after the first.
    pub(crate) fn possible(&self) -> Vec<Act> {
        let mut acts = Vec::new();
        for (place, agent) in self.agents.iter().enumerate() {
            if place > 0 && !self.agents[place - 1].begun {
                break;
            }
            if agent.asking.is_some() {
                acts.push(Act::GiveUp(place));
                continue;
            }
            match agent.token {
                None => acts.extend([Act::Ask(place), Act::Line(place)]),
                Some(_) => acts.extend([Act::Renew(place), Act::Release(place)]),
            }
            if agent.token.is_some() && self.servers.len() > 1 {
                acts.push(Act::RenewAtFormer(place));
            }
        }
        if !self.lose_next_answer {
            acts.push(Act::LoseNextAnswer);
        }
        let link = &self.server().link;
        acts.push(if *link.hold.borrow() { Act::Flow } else { Act::Stall });
        if !link.lose_answer.load(Ordering::SeqCst) {
            acts.push(Act::LoseNextSwap);
        }
        if self.servers.len() < MAX_SERVERS {
            acts.push(Act::TakeOver);
        }
        acts
    }

    /// Does it, and lets everybody go as far as they can.
    pub(crate) async fn act(&mut self, act: Act) -> Result<(), Broken> {
        let active = self.active.load(Ordering::SeqCst);
        match act {
            Act::Ask(agent) => self.ask(agent, active, RequestKind::Acquire, Span::ZERO),
            Act::Line(agent) => self.ask(agent, active, RequestKind::Acquire, TTL),
            Act::Renew(agent) => self.ask(agent, active, RequestKind::Renew, Span::ZERO),
            Act::RenewAtFormer(agent) => {
                self.ask(agent, active - 1, RequestKind::Renew, Span::ZERO);
                if self.fault != Some(Fault::LateAnswers) {
                    // Nothing leaves a server whose lease is over.
                    self.agents[agent].asking = None;
                }
            }
            Act::Release(agent) => {
                self.ask(agent, active, RequestKind::Release, Span::ZERO);
                if self.fault != Some(Fault::ReleasesFirst) {
                    // Its work has stopped, and what it asks for next, it asks under a new name.
                    self.agents[agent] =
                        Agent { life: self.agents[agent].life + 1, begun: true, ..Agent::default() };
                }
            }
            Act::GiveUp(agent) => self.agents[agent].asking = None,
            Act::LoseNextAnswer => self.lose_next_answer = true,
            Act::Stall => drop(self.server().link.hold.send_replace(true)),
            Act::Flow => self.flow(),
            Act::LoseNextSwap => self.server().link.lose_answer.store(true, Ordering::SeqCst),
            Act::TakeOver => self.take_over().await,
        }
        self.settle().await
    }

    fn flow(&self) {
        for server in &self.servers {
            server.link.hold.send_replace(false);
        }
    }

    async fn take_over(&mut self) {
        let place = self.servers.len();
        let mut link = Held::on(&self.inner);
        (link.aged, link.careless) = (UNWRITTEN, self.fault == Some(Fault::NoCompare));
        let epoch = Epoch(u64::try_from(place).unwrap() + 1);
        if self.agents.iter().any(|agent| agent.sure_until.is_some()) {
            self.sights.taken_over += 1;
        }
        self.active.store(place, Ordering::SeqCst);
        // The connections to the server before it are cut, and who stood in line there stands there no longer.
        for agent in &mut self.agents {
            agent.asking = None;
        }
        let engine = Engine::take_over(Arc::new(link.clone()), epoch).await.unwrap();
        let active = Arc::clone(&self.active);
        engine.only_while(move || active.load(Ordering::SeqCst) == place);
        self.servers.push(Server { engine, link });
    }

    fn ask(&mut self, agent: usize, server: usize, wish: RequestKind, wait: Span) {
        self.requests += 1;
        let (request, number) = (self.requests, self.number(agent));
        (self.agents[agent].asking, self.agents[agent].begun) = (Some(request), true);
        let epoch = self.agents[agent].token.unwrap_or_default();
        let engine = self.servers[server].engine.clone();
        let replies = self.replies.0.clone();
        let asked_at = boot::now();
        tokio::spawn(async move {
            let credential = credential(number);
            let outcome = match wish {
                RequestKind::Acquire => engine.acquire(&election(), acquire(number, TTL), wait).await,
                RequestKind::Renew => {
                    let renew = Renew::new(epoch, credential);
                    engine.execute(&election(), &Command::Renew(renew)).await
                }
                RequestKind::Release => {
                    let release = Release { epoch, credential, reason: None, ending: Ending::Stopped };
                    engine.execute(&election(), &Command::Release(release)).await
                }
            };
            // The play may be over.
            let _ = replies.send(Reply { server, agent, number, request, wish, asked_at, outcome });
        });
    }

    /// Lets everybody go as far as they can, hears what was answered, and looks whether all is well.
    async fn settle(&mut self) -> Result<(), Broken> {
        // The clock of these timers stands still until nobody can go on: no time passes here.
        tokio::time::sleep(Duration::from_millis(400)).await;
        while let Ok(reply) = self.replies.1.try_recv() {
            self.hear(reply)?;
        }
        let sure = self.agents.iter().filter(|agent| agent.sure_until.is_some()).count();
        if sure > 1 {
            return Err(Broken(format!("{sure} agents are sure to lead at once")));
        }
        Ok(())
    }

    fn hear(&mut self, reply: Reply) -> Result<(), Broken> {
        let Reply { server, agent, number, request, wish, asked_at, outcome } = reply;
        if let Ok(Decided { answer: Answer::Granted { epoch, .. }, .. }) = &outcome {
            let before = *self.given.entry(*epoch).or_insert(number);
            if before != number {
                return Err(Broken(format!("token {epoch} was given to {before}, and to {number}")));
            }
        }
        let former = server != self.active.load(Ordering::SeqCst);
        if former && let Err(CommandError::Store(_)) = &outcome {
            self.sights.deposed += 1;
        }
        if self.agents[agent].asking != Some(request) || self.number(agent) != number {
            return Ok(());
        }
        self.agents[agent].asking = None;
        if std::mem::take(&mut self.lose_next_answer) {
            return Ok(());
        }
        self.take_in(agent, wish, asked_at, outcome)
    }

    /// What an agent makes of an answer that it hears.
    fn take_in(
        &mut self,
        agent: usize,
        wish: RequestKind,
        asked_at: Moment,
        outcome: Result<Decided, CommandError>,
    ) -> Result<(), Broken> {
        let trusting = self.fault == Some(Fault::CountsWhatItFound);
        let me = &mut self.agents[agent];
        match outcome.map(|decided| decided.answer) {
            Ok(answer @ Answer::Granted { epoch, .. }) => {
                me.token = Some(epoch);
                if trusting || !answer.is_unconfirmed() {
                    me.sure_until = Some(asked_at + TTL);
                }
                self.sights.confirmed +=
                    usize::from(matches!(answer, Answer::Granted { repeated: true, .. }));
                self.sights.claimed += usize::from(matches!(answer, Answer::Granted { offer: true, .. }));
            }
            Ok(Answer::Renewed { epoch, .. }) => {
                (me.token, me.sure_until) = (Some(epoch), Some(asked_at + TTL))
            }
            Err(CommandError::Refused(refusal)) if wish == RequestKind::Renew && me.sure_until.is_some() => {
                return Err(Broken(format!("the lease of agent {agent} was taken from it: {refusal}")));
            }
            Err(CommandError::Refused(Refusal::Stale { .. })) => {
                *me = Agent { life: me.life + 1, begun: true, ..Agent::default() };
            }
            // Nobody knows what came of it, or it is another's turn, or it has released.
            Err(_) | Ok(_) => {}
        }
        Ok(())
    }

    /// The end of a play: everything arrives, and whoever is sure to lead is waited for.
    pub(crate) async fn end(mut self) -> Result<Sights, Broken> {
        self.flow();
        for server in &self.servers {
            server.link.lose_answer.store(false, Ordering::SeqCst);
        }
        self.lose_next_answer = false;
        self.settle().await?;
        let sure = self.agents.iter().position(|agent| agent.sure_until.is_some());
        let Some(agent) = sure else { return Ok(self.sights) };
        let until = self.agents[agent].sure_until.unwrap();
        let (engine, token) = (self.server().engine.clone(), self.agents[agent].token.unwrap());
        let stranger = engine.acquire(&election(), acquire(STRANGER, TTL), Span::ZERO).await;
        let waits = match stranger {
            Err(CommandError::Refused(Refusal::Held { remaining, .. })) => boot::now() + remaining,
            other => {
                return Err(Broken(format!(
                    "agent {agent} is sure to lead, and a stranger is told {other:?}"
                )));
            }
        };
        if waits < until {
            let short = until.since(waits);
            return Err(Broken(format!("agent {agent} is sure to lead for {short} after its lease")));
        }
        let renew = Command::Renew(Renew::new(token, credential(self.number(agent))));
        match engine.execute(&election(), &renew).await {
            Ok(_) => self.sights.outlived += usize::from(self.servers.len() > 1),
            Err(error) => {
                return Err(Broken(format!("agent {agent} is sure to lead, and cannot renew: {error}")));
            }
        }
        Ok(self.sights)
    }
}
