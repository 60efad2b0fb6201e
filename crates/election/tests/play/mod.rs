//! A random play: clients with drifting clocks, a store that may lose replies and deliver late, operators, a fence.
//!
//! Every step is checked against what the design promises; `rules.rs` has the promises.

mod commands;
mod guard;
mod rules;
mod runner;
mod steps;

use std::collections::{BTreeMap, BTreeSet};

use baton_election::document::Cause;
use baton_election::{
    Answer, Command, Decision, Document, Epoch, Evidence, Fence, Incarnation, Margins, Moment, Refusal, Span,
    Tenure, TenureState, WallTime, decide,
};

use crate::cast;
pub(crate) use runner::run;
use steps::Step;
pub(crate) use steps::steps;

/// The agents' names.
const AGENTS: [&str; 3] = ["ann", "bob", "cat"];

/// What is promised in this play.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The store's stamps tell the age, and nobody forces anything.
    Stamped,
    /// Each observer tells the age by its own clock, which may run fast.
    Observed,
    /// Operators force: leases may overlap, tokens still rise.
    Forced,
}

/// How often each interesting thing happened, over all plays.
pub(crate) type Tally = BTreeMap<String, u64>;

/// One life of an agent, as it sees itself.
struct Client {
    /// How fast its clock runs, in thousandths.
    rate: u64,
    token: Epoch,
    tenure: Option<Tenure>,
    was_lost: bool,
    /// When each of its requests to acquire that is not answered yet was sent, in true time.
    unanswered: Vec<u64>,
}

/// A command that was sent.
#[derive(Clone)]
struct Sent {
    command: Command,
    /// Which life of which agent sent it, if an agent did.
    by: Option<(u8, u32)>,
    asked_at_ms: u64,
}

/// The world of one play.
pub(crate) struct Play {
    mode: Mode,
    now_ms: u64,
    document: Option<Document>,
    beat_at_ms: u64,
    lives: [u32; 3],
    clients: BTreeMap<(u8, u32), Client>,
    sent: Vec<Sent>,
    /// Until when each holder's lease lasts by the store's clock.
    leases: BTreeMap<Incarnation, u64>,
    /// Whom each token was given to.
    given: BTreeMap<Epoch, Incarnation>,
    /// Tokens of leaderships that are over.
    over: BTreeSet<Epoch>,
    /// The last leader, and why its leadership ended if it has.
    last_leader: Option<Incarnation>,
    ended_by: Option<Cause>,
    fence: Option<Fence>,
    fence_at_ms: u64,
    /// Until when the present hold lasts, and whose it is.
    hold: Option<(u8, u64)>,
    tally: Tally,
}

/// What went wrong, in words.
pub(crate) type Broken = String;

impl Play {
    pub(crate) fn new(mode: Mode) -> Play {
        Play {
            mode,
            now_ms: 1_000_000,
            document: None,
            beat_at_ms: 0,
            lives: [1; 3],
            clients: BTreeMap::new(),
            sent: Vec::new(),
            leases: BTreeMap::new(),
            given: BTreeMap::new(),
            over: BTreeSet::new(),
            last_leader: None,
            ended_by: None,
            fence: None,
            fence_at_ms: 0,
            hold: None,
            tally: Tally::new(),
        }
    }

    /// Plays all steps, and returns what happened how often.
    pub(crate) fn play(mut self, steps: &[Step]) -> Result<Tally, Broken> {
        for (number, step) in steps.iter().enumerate() {
            self.step(step)
                .and_then(|()| self.check_tenures())
                .map_err(|broken| format!("in step {}: {broken}", number + 1))?;
        }
        Ok(self.tally)
    }

    fn step(&mut self, step: &Step) -> Result<(), Broken> {
        match step {
            Step::Tick(ms) => {
                self.now_ms += ms;
                Ok(())
            }
            Step::Post(what) => {
                let sent = self.make(what);
                self.send(sent);
                Ok(())
            }
            Step::Do { what, heard, knows } => {
                let sent = self.make(what);
                self.send(sent.clone());
                self.deliver(&sent, *heard, *knows)
            }
            Step::Deliver { which, heard, knows } => {
                let Some(sent) = self.sent.get(which % self.sent.len().max(1)).cloned() else {
                    return Ok(());
                };
                self.deliver(&sent, *heard, *knows)
            }
            Step::Fence { who, run, knows } => self.enter(*who, *run, *knows),
            Step::Keep { run } => self.keep(*run),
            Step::Leave { run } => self.leave(*run),
        }
    }

    fn count(&mut self, what: impl Into<String>) {
        *self.tally.entry(what.into()).or_default() += 1;
    }

    fn send(&mut self, sent: Sent) {
        if let Some(by) = sent.by {
            let now_ms = self.now_ms;
            let client = self.client(by);
            match &sent.command {
                Command::Acquire(_) => client.unanswered.push(now_ms),
                // A lease is released only after the work has stopped.
                Command::Release(_) | Command::Pass(_) => client.tenure.iter_mut().for_each(Tenure::end),
                _ => {}
            }
        }
        self.sent.push(sent);
    }

    /// A command arrives at the store: decided, checked, committed, and perhaps its sender hears of it.
    fn deliver(&mut self, sent: &Sent, heard: bool, knows: u8) -> Result<(), Broken> {
        let age_ms = if self.document.is_some() { self.now_ms - self.beat_at_ms } else { 0 };
        let (election, keys) = (cast::election(), [cast::operator("root").public()]);
        let evidence = Evidence {
            election: &election,
            store: cast::STORE,
            age: Span::millis(age_ms * u64::from(knows) / 100),
            wall: WallTime::from_unix_millis(cast::DAWN_MS + self.now_ms),
            floor: Epoch(0),
            vanished_lease: Span::ZERO,
            operator_keys: &keys,
        };
        let before = self.document.clone();
        let decided = decide(before.as_ref(), &sent.command, &evidence);
        if before.as_ref() != self.document.as_ref() {
            return Err("a decision changed the document that it was given".to_string());
        }
        self.check_plain(before.as_ref(), &sent.command, &evidence, &decided)?;
        match decided {
            Err(refusal) => {
                self.count(format!("refused {}", refusal.code()));
                if heard {
                    self.hear_refusal(sent, &refusal);
                }
            }
            Ok(decision) => {
                cast::persistence::check(before.as_ref(), &decision)?;
                let Decision { next, answer, persistence } = decision;
                if let Some(next) = next {
                    self.count(format!("a change was {persistence:?}"));
                    rules::check_once_lost(before.as_ref(), &sent.command, evidence.age)?;
                    self.commit(before.as_ref(), next, sent, &answer)?;
                }
                self.tally_answer(&answer);
                if heard {
                    self.hear(sent, &answer);
                }
            }
        }
        Ok(())
    }

    fn tally_answer(&mut self, answer: &Answer) {
        match answer {
            Answer::Granted { repeated: true, .. } => self.count("granted again"),
            Answer::Granted { cause, offer, .. } => {
                self.count(format!("granted after {cause}"));
                self.count(if *offer { "offered" } else { "granted" });
            }
            Answer::Renewed { .. } => self.count("renewed"),
            Answer::Ended { cause, .. } => self.count(format!("renewal ended by {cause}")),
            Answer::Released { .. } => self.count("released"),
            Answer::Checkpointed { .. } => self.count("checkpointed"),
            Answer::Acknowledged { .. } => self.count("acknowledged"),
            Answer::Signed { .. } => self.count("signed"),
            Answer::Done { .. } => self.count("done"),
        }
    }

    fn hear(&mut self, sent: &Sent, answer: &Answer) {
        let Some(by) = sent.by else { return };
        let (asked_at_ms, now_ms) = (sent.asked_at_ms, self.now_ms);
        let client = self.client(by);
        let (asked, now) = (client.clock(asked_at_ms), client.clock(now_ms));
        match answer {
            Answer::Granted { epoch, ttl, offer, .. } => {
                client.token = client.token.max(*epoch);
                let first_asked_ms =
                    client.unanswered.iter().copied().min().unwrap_or(asked_at_ms).min(asked_at_ms);
                let first_asked = client.clock(first_asked_ms);
                if client.tenure.is_none() {
                    client.tenure = Some(match offer {
                        true => Tenure::offered(now, *ttl, Margins::STANDARD),
                        false => Tenure::granted(first_asked, *ttl, Margins::STANDARD),
                    });
                }
                self.count("heard of a grant");
            }
            Answer::Renewed { epoch, .. } => {
                client.token = client.token.max(*epoch);
                let standing = client.tenure.as_mut().map(|tenure| tenure.renewed(asked, now));
                match standing {
                    Some(TenureState::Lost) => self.count("heard of a renewal too late"),
                    Some(_) => self.count("heard of a renewal in time"),
                    None => {}
                }
            }
            Answer::Ended { .. } => client.tenure.iter_mut().for_each(Tenure::end),
            Answer::Released { .. }
            | Answer::Checkpointed { .. }
            | Answer::Acknowledged { .. }
            | Answer::Signed { .. }
            | Answer::Done { .. } => {}
        }
    }

    fn hear_refusal(&mut self, sent: &Sent, refusal: &Refusal) {
        let Some(by) = sent.by else { return };
        let client = self.client(by);
        if let (Command::Acquire(_), Some(place)) =
            (&sent.command, client.unanswered.iter().position(|asked| *asked == sent.asked_at_ms))
        {
            let _ = client.unanswered.remove(place);
        }
        if let (Command::Renew(_), Refusal::Stale { .. }) = (&sent.command, refusal) {
            client.tenure.iter_mut().for_each(Tenure::end);
        }
    }

    fn client(&mut self, by: (u8, u32)) -> &mut Client {
        let rate = [990, 1_000, 1_010][usize::from(by.0 % 3)];
        self.clients.entry(by).or_insert(Client {
            rate,
            token: Epoch(0),
            tenure: None,
            was_lost: false,
            unanswered: Vec::new(),
        })
    }
}

impl Client {
    /// What its clock shows at a true time.
    fn clock(&self, true_ms: u64) -> Moment {
        Moment::from_nanos(Span::millis(true_ms).scaled(self.rate, 1_000).as_nanos())
    }
}
