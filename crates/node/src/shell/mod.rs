//! The shell of a machine: gives it the time and the messages, and carries out what it asks for.
//!
//! One task owns the machine. It reads the boot-time clock for every step, keeps what must be kept on disk before it sends
//! or tells anything, and drops everything else that a step asked for if that fails.
//!
//! **Assumes** that whoever does the work watches [`LeadershipStatus`], ends it before [`LeadershipSnapshot::until`] whatever happens here, and says
//! [`WorkHandle::stopped`] only when nothing of it is left. **Guarantees** the order persist, send, tell; that nothing waits for a silent
//! member; and that after a failure of the disk the machine does not go on. **Does not** guarantee that the work learns of a loss
//! in time while this process stands still: [`LeadershipSnapshot::until`] is what counts.

mod heard_members;
mod joining;
mod requests;
mod resignation;
mod trouble;

use std::time::Duration;

use baton_election::{Moment, Span};
use baton_peer::{Effects, Group, Input, Machine, NodeId, Notice, Start, Term};
use baton_store::boot;
use tokio::sync::{mpsc, watch};

use crate::codec;
use crate::control::{self, ControlCall, ControlHandle, MachineCounters};
use crate::members::ListedMember;
use crate::members_file;
use crate::node::{Event, LeadershipSnapshot, LeadershipStatus, NodeError, NodeOptions, WorkMessage, word};
use crate::state::Keeper;
use crate::transport::{MAX_MESSAGE_BYTES, Outgoing, Received, Transport, flush, receive, waiting};

/// The longest that a member which leaves waits for its leadership to be handed over, and for its last words to be sent.
const FAREWELL_MAX: Span = Span::secs(2);
const LAST_WORDS_MAX: Duration = Duration::from_millis(500);
/// Messages that the machine is given at once, before what it asks for is carried out.
const BATCH_MAX: usize = 64;
/// A machine whose deadline is past after a tick is not asked again before this.
const BREATHER: Span = Span::millis(1);

use heard_members::HeardMembers;
use joining::Arrivals;
use resignation::Resignation;

/// The task that owns the machine.
pub(crate) struct Shell<M: Machine> {
    options: NodeOptions,
    machine: M,
    /// The list that counts, as the machine last told it.
    group: Group,
    born: Moment,
    start_word: &'static str,
    /// It was told that the group is new.
    founded: bool,
    keeper: Keeper<M::Saved>,
    /// What it kept last, to begin anew from.
    kept: Option<M::Saved>,
    transport: Box<dyn Transport>,
    leadership: watch::Sender<LeadershipStatus>,
    events: mpsc::Sender<Event>,
    counters: MachineCounters,
    serial: u64,
    /// What the last step refused.
    refused: Option<&'static str>,
    /// What the file says the members shall be.
    wanted: Option<Vec<ListedMember>>,
    /// When the next step towards it may be tried.
    try_at: Moment,
    /// The nodes that are no members and were heard.
    arrivals: Arrivals,
    /// How often in a row the machine has refused to go towards the wanted list.
    refusals: u32,
    /// Until when it may take to leave, once it does.
    leaving: Option<Moment>,
    /// The leadership is being given up, since its work has stopped.
    resigning: Option<Resignation>,
    /// Somebody asked to hand over, to that one or to the best, and nothing has come of it yet.
    handing: Option<Option<NodeId>>,
    /// The file of members could not be used when it was last read.
    unusable: bool,
    heard_members: HeardMembers,
}

impl<M: Machine> Shell<M> {
    pub(crate) fn new(
        options: NodeOptions,
        start: Start<M::Saved>,
        keeper: Keeper<M::Saved>,
        transport: Box<dyn Transport>,
        leadership: watch::Sender<LeadershipStatus>,
        events: mpsc::Sender<Event>,
    ) -> Shell<M> {
        let now = boot::now();
        let (start_word, founded) = (word(&start), trouble::is_founded(&start));
        let kept = match &start {
            Start::Restarted(kept) => Some(kept.clone()),
            Start::Founded | Start::Forgotten => None,
        };
        let machine = M::start(options.config.clone(), start, now);
        Shell {
            group: machine.group().clone(),
            machine,
            born: now,
            start_word,
            founded,
            keeper,
            kept,
            transport,
            leadership,
            events,
            counters: MachineCounters::default(),
            serial: 0,
            refused: None,
            wanted: None,
            try_at: now,
            arrivals: Arrivals::default(),
            refusals: 0,
            leaving: None,
            resigning: None,
            handing: None,
            unusable: false,
            heard_members: HeardMembers::default(),
            options,
        }
    }

    pub(crate) async fn run(
        mut self,
        control_handle: ControlHandle,
        mut questions: mpsc::Receiver<ControlCall>,
        mut words: mpsc::Receiver<WorkMessage>,
    ) -> Result<(), NodeError> {
        self.transport.reach(&self.options.peers.clone());
        let folder = self.options.folder.clone();
        let control = control::serve(&folder, control_handle);
        tokio::pin!(control);
        let mut lists = members_file::watch(self.options.members_file.clone());
        self.tell_of_another_list();
        loop {
            self.tick_if_due().await?;
            self.go_on_resigning().await?;
            self.pursue_wish().await?;
            self.pass_on_complaints();
            self.mind_trouble();
            if self.has_left() {
                let _ = tokio::time::timeout(LAST_WORDS_MAX, flush(&mut *self.transport)).await;
                return Ok(());
            }
            let wake = self.wake_at(boot::now());
            tokio::select! {
                received = receive(&mut *self.transport) => {
                    self.hear(received.ok_or(NodeError::Network)?).await?;
                }
                Some((ask, answer)) = questions.recv() => {
                    let said = self.answer(ask).await?;
                    let _ = answer.send(said);
                }
                Some(word) = words.recv() => self.heed(word).await?,
                Some(list) = lists.recv() => self.want(list),
                served = &mut control => {
                    let error = served.err().unwrap_or_else(|| std::io::ErrorKind::BrokenPipe.into());
                    return Err(NodeError::Control { folder: self.options.folder, error });
                }
                _ = boot::sleep_until(wake) => {}
            }
        }
    }

    /// When there is something to do if nothing happens before.
    fn wake_at(&self, now: Moment) -> Moment {
        let mut wake = self.machine.deadline();
        if self.next_members().is_some() {
            wake = wake.min(self.try_at);
        }
        if let Some(leaving) = self.leaving {
            wake = wake.min(leaving);
        }
        wake.max(now + BREATHER)
    }

    /// Lets the machine do what is due. A member that does not lead first reads the messages that wait. If
    /// this process stood still, or waited for its disk, the leader may have spoken meanwhile, and its
    /// silence is only on this side.
    async fn tick_if_due(&mut self) -> Result<(), NodeError> {
        if boot::now() < self.machine.deadline() {
            return Ok(());
        }
        if self.leadership.borrow().current.is_none() {
            // Those who read from the network have stood still too.
            tokio::task::yield_now().await;
            if let Some(received) = waiting(&mut *self.transport).await {
                self.hear(received.ok_or(NodeError::Network)?).await?;
            }
        }
        match boot::now() < self.machine.deadline() {
            true => Ok(()),
            false => {
                self.step(Input::Tick).await?;
                self.mind_hand_over();
                Ok(())
            }
        }
    }

    /// One step of the machine, with all that it asks for.
    async fn step(&mut self, input: Input<M::Message>) -> Result<(), NodeError> {
        // `Stop` may be answered by `Stopped` at once, which asks for more; each leadership has one of each.
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let effects = self.machine.step(boot::now(), input);
            self.counters.steps += 1;
            self.refused = None;
            if self.carry_out(effects).await? {
                inputs.push(Input::Stopped);
            }
        }
        Ok(())
    }

    /// Keeps, then sends, then tells. Says whether the machine is to be told at once that the work has stopped.
    async fn carry_out(&mut self, effects: Effects<M::Saved, M::Message>) -> Result<bool, NodeError> {
        let Effects { persist, send, notify } = effects;
        if let Some(saved) = persist {
            self.keep(saved).await?;
        }
        let term = if send.is_empty() { Term::ZERO } else { self.machine.view(boot::now()).term };
        for envelope in send {
            let kind = M::kind(&envelope.message);
            // What cannot be put into bytes, or is too large, is lost like a message on the way.
            let Ok(bytes) = codec::encode(&envelope.message) else { continue };
            if bytes.len() <= MAX_MESSAGE_BYTES {
                self.counters.sent += 1;
                self.transport.send(Outgoing { to: envelope.to, kind, term, bytes });
            }
        }
        let mut stopped = false;
        for notice in notify {
            stopped |= self.tell(notice);
        }
        Ok(stopped)
    }

    /// Keeps this on disk. The task waits, and others go on meanwhile: a disk that hangs must not stop the clock of the work.
    async fn keep(&mut self, saved: M::Saved) -> Result<(), NodeError> {
        if let Err(error) = self.keeper.keep(saved.clone()).await {
            // Nobody must think that it still leads: what it promised is not known after the next start.
            self.leadership.send_modify(|leadership| leadership.current = None);
            return Err(error.into());
        }
        self.kept = Some(saved);
        self.counters.kept += 1;
        Ok(())
    }

    /// Tells whoever does the work, or people. Says whether the work has stopped already.
    fn tell(&mut self, notice: Notice) -> bool {
        match notice {
            Notice::Leads { term, until } => {
                self.serial += 1;
                self.counters.led += 1;
                let current = LeadershipSnapshot { serial: self.serial, term, until, stop: false };
                self.leadership.send_modify(|leadership| leadership.current = Some(current));
                self.transport.leads(Some(term));
            }
            Notice::Extended { term, until } => self.leadership.send_modify(|leadership| {
                if let Some(current) = leadership.current.as_mut().filter(|current| current.term == term) {
                    current.until = Some(until);
                }
            }),
            Notice::Stop { term } => {
                self.handing = None;
                self.leadership.send_modify(|leadership| {
                    if let Some(current) = leadership.current.as_mut().filter(|current| current.term == term)
                    {
                        current.stop = true;
                    }
                });
                return self.leaving.is_some() || self.resigning.is_some() || self.options.never_leads;
            }
            Notice::Lost { term, why } => {
                (self.resigning, self.handing) = (None, None);
                self.transport.leads(None);
                self.leadership.send_modify(|leadership| {
                    if let Some(current) = leadership.current.filter(|current| current.term == term) {
                        *leadership = LeadershipStatus { current: None, ended: Some((current.serial, why)) };
                    }
                });
            }
            Notice::Follows { leader, term } => self.say(Event::Follows { leader, term }),
            Notice::Leaderless { term } => self.say(Event::Leaderless { term }),
            Notice::Members(group) => {
                self.group = group.clone();
                self.say(Event::Members(group));
            }
            Notice::Refused(why) => {
                self.refused = Some(why);
                if self.resigning == Some(Resignation::Offered) {
                    self.resigning = Some(Resignation::Refused);
                }
            }
        }
        false
    }

    fn say(&self, event: Event) {
        // Nobody listens, or not quickly enough: people can ask for the status.
        let _ = self.events.try_send(event);
    }

    fn pass_on_complaints(&mut self) {
        for complaint in self.transport.complaints() {
            self.say(Event::Network(complaint));
        }
    }

    /// A message came, and perhaps others behind it: the machine hears them all, and then what it asks for is carried out, with one write for all. So a slow
    /// disk makes the answers late, and not each later than the one before.
    async fn hear(&mut self, first: Received) -> Result<(), NodeError> {
        let (mut all, mut next) = (Effects::none(), Some(Some(first)));
        for left in (0..BATCH_MAX).rev() {
            let Some(Some(received)) = &next else { break };
            if let Some(effects) = self.step_on(received) {
                // What is kept is all of it, so the last counts.
                all.persist = effects.persist.or(all.persist);
                all.send.extend(effects.send);
                all.notify.extend(effects.notify);
            }
            next = if left > 0 { waiting(&mut *self.transport).await } else { None };
        }
        self.refused = None;
        let stopped = self.carry_out(all).await?;
        self.mind_hand_over();
        if stopped {
            self.step(Input::Stopped).await?;
        }
        // The network has failed for good behind what came.
        if matches!(next, Some(None)) { Err(NodeError::Network) } else { Ok(()) }
    }

    fn step_on(&mut self, received: &Received) -> Option<Effects<M::Saved, M::Message>> {
        let from = received.from;
        let Some(message) = codec::decode(&received.bytes) else {
            self.counters.malformed += 1;
            return None;
        };
        self.counters.received += 1;
        self.counters.steps += 1;
        let now = boot::now();
        if self.group.member(from).is_none() {
            self.arrivals.note(now, from);
        }
        self.heard_members.note(now, &self.group, from, M::recovery_role(&message));
        Some(self.machine.step(now, Input::Received { from, message }))
    }
}
