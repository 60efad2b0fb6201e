//! The simulator by itself, with a machine that is small enough to be seen through.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_election::{Moment, Span};
use baton_lab::{DiskFate, Elector, Fault, FaultTarget, Links, Network, Outcome, PlannedFault, Setup, World};
use baton_peer::{
    Config, Effects, Envelope, Group, Input, LossCause, Machine, NodeId, Notice, Role, Start, Term, Timing,
    View,
};

/// The first member leads, always: it asks all others in each heartbeat, and leads while a majority answers. Its term counts how
/// often it began to ask. Every member that is `RECKLESS` leads without asking.
#[derive(Debug, Clone)]
struct Toy<const RECKLESS: bool> {
    config: Config,
    term: u64,
    next_beat: Moment,
    asked: Moment,
    answers: Vec<NodeId>,
    until: Option<Moment>,
    leader: Option<NodeId>,
}

/// A question with its moment on the leader's clock, or the answer to it.
type Message = (u64, bool);
type Done = Effects<u64, Message>;

impl<const RECKLESS: bool> Toy<RECKLESS> {
    fn leads(&self) -> bool {
        RECKLESS || self.config.id.number() == 1
    }

    fn lose(&mut self, now: Moment, effects: &mut Done) {
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            self.leader = None;
            effects.notify.push(Notice::Lost { term: Term(self.term), why: LossCause::NoMajority });
        }
    }

    fn win(&mut self, effects: &mut Done) {
        let until = self.config.timing.lease_until(self.asked);
        if self.until.is_some() {
            effects.notify.push(Notice::Extended { term: Term(self.term), until });
        } else {
            effects.notify.push(Notice::Leads { term: Term(self.term), until: Some(until) });
        }
        self.until = Some(until);
        self.leader = Some(self.config.id);
    }
}

impl<const RECKLESS: bool> Machine for Toy<RECKLESS> {
    type Message = Message;
    type Saved = u64;
    const NAME: &'static str = "toy";
    const TERMS_ARE_TOKENS: bool = true;

    fn start(config: Config, start: Start<u64>, now: Moment) -> Self {
        let term = match start {
            Start::Restarted(term) => term,
            Start::Founded | Start::Forgotten => 0,
        };
        Toy { config, term, next_beat: now, asked: now, answers: Vec::new(), until: None, leader: None }
    }

    fn step(&mut self, now: Moment, input: Input<Message>) -> Done {
        let mut effects = Effects::none();
        self.lose(now, &mut effects);
        match input {
            Input::Tick if now >= self.next_beat => {
                self.next_beat = now + self.config.timing.heartbeat;
                effects.persist = Some(self.term);
                if self.leads() {
                    (self.asked, self.answers) = (now, vec![self.config.id]);
                    if self.until.is_none() {
                        self.term += 1;
                        effects.persist = Some(self.term);
                    }
                    if RECKLESS || self.config.group.majority() == 1 {
                        self.win(&mut effects);
                    }
                    let message = (now.as_nanos(), true);
                    effects.send =
                        self.config.group.others(self.config.id).map(|to| Envelope { to, message }).collect();
                }
            }
            Input::Received { from, message: (asked, true) } => {
                self.leader = Some(from);
                effects.send.push(Envelope { to: from, message: (asked, false) });
            }
            Input::Received { from, message: (asked, false) } => {
                if asked == self.asked.as_nanos() && !self.answers.contains(&from) {
                    self.answers.push(from);
                    let lease = self.config.timing.lease_until(self.asked);
                    if self.answers.len() == self.config.group.majority() && lease > now {
                        self.win(&mut effects);
                    }
                }
            }
            Input::Tick | Input::Stopped | Input::Transfer { .. } | Input::Reconfigure { .. } => {}
        }
        effects
    }

    fn deadline(&self) -> Moment {
        self.until.map_or(self.next_beat, |until| until.min(self.next_beat))
    }

    fn group(&self) -> &Group {
        &self.config.group
    }

    fn view(&self, _now: Moment) -> View {
        let role = if self.until.is_some() { Role::Leader } else { Role::Follower };
        View { role, term: Term(self.term), leader: self.leader, until: self.until, read_only: false }
    }

    fn kind(message: &Message) -> &'static str {
        if message.1 { "ask" } else { "answer" }
    }
}

fn setup(plan: Vec<(u64, Fault)>) -> Setup {
    let plan = plan.into_iter().map(|(at, fault)| PlannedFault { at: Span::secs(at), fault }).collect();
    Setup { plan, ..Setup::quiet(Elector::RAFT, 3, Timing::AGENTS) }
}

fn run(setup: &Setup) -> Outcome {
    World::<Toy<false>>::run(setup)
}

fn broken(setup: &Setup) -> &'static str {
    run(setup).broken.map_or("", |broken| broken.invariant)
}

#[test]
fn nothing_breaks_when_nothing_goes_wrong() {
    let outcome = run(&setup(vec![]));
    assert_eq!(outcome.broken, None);
    let statistics = outcome.statistics;
    assert_eq!((statistics.leaderships, statistics.gaps.len()), (1, 1));
    assert_eq!(statistics.two_leaders, Span::ZERO);
    let sum = statistics.one_leader.plus(statistics.no_leader);
    assert_eq!(sum, statistics.simulated);
    assert!(statistics.one_leader > Span::secs(200), "{statistics:?}");
    assert!(statistics.writes_accepted > 30 && statistics.writes_refused == 0);
    assert_eq!(statistics.kinds["ask"], statistics.kinds["answer"]);
}

#[test]
fn the_same_setup_is_the_same_run() {
    let faults = vec![(20, Fault::Pause { target: FaultTarget::Leader(0), span: Span::secs(60) })];
    let mut setup = setup(faults);
    setup.network = Network { loss_permille: 100, ..setup.network };
    let watched = World::<Toy<false>>::watch(&setup);
    let again = World::<Toy<false>>::watch(&setup);
    assert_eq!(watched.1.entries, again.1.entries);
    assert_eq!((run(&setup), run(&setup)), (watched.0, again.0));
    let other = World::<Toy<false>>::watch(&Setup { seed: 1, ..setup.clone() });
    assert_ne!(watched.1.entries, other.1.entries);
}

#[test]
fn a_leader_that_is_cut_off_is_missed_and_measured() {
    let cut = Fault::Isolate { target: FaultTarget::Leader(0), outbound: false, inbound: true };
    let outcome = run(&setup(vec![(50, cut), (100, Fault::Mend)]));
    assert_eq!(outcome.broken, None);
    assert_eq!(outcome.statistics.leaderships, 2);
    let missed = outcome.statistics.gaps[1];
    assert!(missed > Span::secs(35) && missed < Span::secs(50), "{missed}");
    assert_eq!(outcome.statistics.failovers, [], "the same one leads again");
}

#[test]
fn a_process_that_dies_comes_back_and_its_work_runs_out() {
    let crash = |reboot| Fault::Crash {
        target: FaultTarget::Leader(0),
        disk: DiskFate::Kept,
        reboot,
        down: Span::secs(60),
    };
    let [died, rebooted] = [false, true].map(|reboot| run(&setup(vec![(50, crash(reboot))])));
    assert_eq!((&died.broken, &rebooted.broken), (&None, &None));
    assert_eq!((died.statistics.leaderships, rebooted.statistics.leaderships), (2, 2));
    assert!(rebooted.statistics.no_leader > died.statistics.no_leader, "orphaned work goes on");
}

#[test]
fn a_lost_disk_of_a_machine_that_counts_on_it_is_found() {
    let crash = Fault::Crash {
        target: FaultTarget::Leader(0),
        disk: DiskFate::Lost,
        reboot: true,
        down: Span::secs(30),
    };
    assert_eq!(broken(&setup(vec![(50, crash)])), "one leader per term");
}

#[test]
fn members_that_lead_without_asking_are_found() {
    let found = |setup: &Setup| World::<Toy<true>>::run(setup).broken.unwrap().invariant;
    assert_eq!(found(&setup(vec![])), "a minority never elects");
    let alone = Setup { members: 1, ..setup(vec![]) };
    assert_eq!(World::<Toy<true>>::run(&alone).broken, None);
}

#[test]
fn a_group_that_stays_without_a_leader_after_the_healing_is_found() {
    // One that has a plan which never heals would not be healed by it: the healing mends all by itself.
    let split = Fault::Cut(Links::split(&[0, 1, 1]));
    assert_eq!(broken(&setup(vec![(10, split)])), "");
    // Delays beyond every lease are no fault that heals.
    let slow = Setup { calm: Network::calm(Span::secs(20), Span::secs(30)), ..setup(vec![]) };
    let slow = Setup { network: slow.calm, ..slow };
    assert_eq!(broken(&slow), "liveness after healing");
}

#[test]
fn a_pause_holds_up_what_was_to_be_kept_and_what_waits() {
    let plan = vec![
        (0, Fault::SlowDisk { target: FaultTarget::Place(0), span: Span::secs(40), each: Span::secs(2) }),
        (1, Fault::Pause { target: FaultTarget::Place(0), span: Span::secs(12) }),
        (30, Fault::Pause { target: FaultTarget::Place(1), span: Span::secs(12) }),
    ];
    let (outcome, timeline) = World::<Toy<false>>::watch(&setup(plan));
    assert_eq!(outcome.broken, None);
    let text: Vec<String> = timeline.entries.iter().map(ToString::to_string).collect();
    assert!(text.iter().any(|line| line.contains("stands still")), "{text:#?}");
    let second = |line: &&String| line.contains("  2  ← 1: ask") && line.trim_start().starts_with("42");
    assert!(text.iter().filter(second).count() >= 2, "what waited is taken in at once: {text:#?}");
}
