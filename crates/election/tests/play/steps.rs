//! What can happen: the steps of a random play, how they are drawn, and how they read in a report.

use std::fmt;

use baton_election::command::Ending;
use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};

/// The life of an agent that acts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Actor {
    /// Whoever the document names as its leader.
    Leader,
    /// Whoever's lease is waited for.
    Outgoing,
    /// The present life of one of the agents.
    Agent(u8),
    /// The life before it.
    Former(u8),
}

/// A command, before it is known who leads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StepKind {
    Acquire { agent: u8, fresh: bool, offer: bool, ttl_s: Option<u64>, renewals: Option<u64> },
    Renew { who: Actor, idle: bool, spent: Option<u64> },
    Release { who: Actor, ending: Ending },
    Pass { who: Actor, to: u8 },
    Checkpoint { who: Actor, seq_off: bool },
    Acknowledge { who: Actor },
    Report { itself: bool },
    Appoint { agent: u8, lasts_s: Option<u64>, force: bool },
    Depose { force: bool },
    Pause,
    Resume,
    Approve,
    Reject,
    Policy(u8),
    Enrol,
    Dismiss,
    Forget,
    Forge,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Time passes.
    Tick(u64),
    /// A command is sent and arrives. `heard`: its reply arrives too. `knows`: how much of the age is known, in percent.
    Do { what: StepKind, heard: bool, knows: u8 },
    /// A command is sent and stays on its way.
    Post(StepKind),
    /// Any command sent so far arrives: late, or once more.
    Deliver { which: usize, heard: bool, knows: u8 },
    /// Somebody asks the fence, to stay for the run of a command or not.
    Fence { who: Actor, run: Option<u8>, knows: u8 },
    /// A run keeps its hold.
    Keep { run: u8 },
    /// A run has ended.
    Leave { run: u8 },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Tick(ms) => write!(f, "tick {ms}ms"),
            Step::Do { what, heard, knows } => write!(f, "do {what:?}{}", how(*heard, *knows)),
            Step::Post(what) => write!(f, "post {what:?}"),
            Step::Deliver { which, heard, knows } => write!(f, "deliver {which}{}", how(*heard, *knows)),
            Step::Fence { who, run, knows } => write!(f, "fence {who:?} run {run:?}{}", how(true, *knows)),
            Step::Keep { run } => write!(f, "keep {run}"),
            Step::Leave { run } => write!(f, "leave {run}"),
        }
    }
}

fn how(heard: bool, knows: u8) -> String {
    let lost = if heard { "" } else { ", reply lost" };
    let knows = if knows == 100 { String::new() } else { format!(", knows {knows}% of the age") };
    format!("{lost}{knows}")
}

fn agent() -> impl Strategy<Value = u8> {
    0..3_u8
}

fn who() -> impl Strategy<Value = Actor> {
    prop_oneof![
        12 => Just(Actor::Leader),
        2 => Just(Actor::Outgoing),
        2 => agent().prop_map(Actor::Agent),
        2 => agent().prop_map(Actor::Former),
    ]
}

fn of_agents() -> impl Strategy<Value = StepKind> {
    let ttl = prop_oneof![3 => Just(None), 1 => (1..12_u64).prop_map(Some)];
    let renewals = prop_oneof![6 => Just(None), 1 => (0..4_u64).prop_map(Some)];
    let acquire = (agent(), any::<bool>(), prop_oneof![3 => Just(false), 1 => Just(true)], ttl, renewals);
    prop_oneof![
        14 => acquire.prop_map(|(agent, fresh, offer, ttl_s, renewals)| StepKind::Acquire {
            agent, fresh, offer, ttl_s, renewals
        }),
        12 => (who(), any::<bool>(), prop_oneof![4 => Just(None), 1 => (1..1_500_u64).prop_map(Some)])
            .prop_map(|(who, idle, spent)| StepKind::Renew { who, idle, spent }),
        2 => (who(), ending()).prop_map(|(who, ending)| StepKind::Release { who, ending }),
        2 => (who(), agent()).prop_map(|(who, to)| StepKind::Pass { who, to }),
        4 => (who(), prop_oneof![5 => Just(false), 1 => Just(true)])
            .prop_map(|(who, seq_off)| StepKind::Checkpoint { who, seq_off }),
        2 => who().prop_map(|who| StepKind::Acknowledge { who }),
        2 => any::<bool>().prop_map(|itself| StepKind::Report { itself }),
    ]
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![Just(Ending::Stopped), Just(Ending::Finished), Just(Ending::Orphaned)]
}

fn of_operators(force: bool) -> impl Strategy<Value = StepKind> {
    let forced = move || if force { any::<bool>().boxed() } else { Just(false).boxed() };
    let lasts = prop_oneof![Just(None), (1..20_u64).prop_map(Some)];
    prop_oneof![
        2 => (agent(), lasts, forced()).prop_map(|(agent, lasts_s, force)| StepKind::Appoint { agent, lasts_s, force }),
        3 => forced().prop_map(|force| StepKind::Depose { force }),
        1 => Just(StepKind::Pause),
        3 => Just(StepKind::Resume),
        5 => Just(StepKind::Approve),
        2 => Just(StepKind::Reject),
        1 => (0..7_u8).prop_map(StepKind::Policy),
        1 => Just(StepKind::Enrol),
        1 => Just(StepKind::Dismiss),
        2 => Just(StepKind::Forget),
        1 => Just(StepKind::Forge),
    ]
}

/// One step. `most` is the most of the age that anybody can believe, in percent: a fast clock believes more than all.
fn step(force: bool, most: u8) -> BoxedStrategy<Step> {
    let ticks = prop_oneof![
        Just(1),
        Just(400),
        1_000..4_000_u64,
        Just(5_000),
        Just(9_900),
        Just(10_000),
        Just(31_000)
    ];
    let what = move || prop_oneof![4 => of_agents(), 1 => of_operators(force)];
    let heard = || prop_oneof![5 => Just(true), 1 => Just(false)];
    let knows = move || prop_oneof![6 => Just(most), 1 => 0..=most];
    let run = prop_oneof![Just(None), (0..2_u8).prop_map(Some)];
    prop_oneof![
        6 => ticks.prop_map(Step::Tick),
        16 => (what(), heard(), knows()).prop_map(|(what, heard, knows)| Step::Do { what, heard, knows }),
        2 => what().prop_map(Step::Post),
        3 => (any::<u16>(), heard(), knows())
            .prop_map(|(which, heard, knows)| Step::Deliver { which: which.into(), heard, knows }),
        3 => (who(), run, knows()).prop_map(|(who, run, knows)| Step::Fence { who, run, knows }),
        1 => (0..2_u8).prop_map(|run| Step::Keep { run }),
        1 => (0..2_u8).prop_map(|run| Step::Leave { run }),
    ]
    .boxed()
}

/// A play: an operator sets the policy, one agent is first, and up to a hundred steps follow.
pub(crate) fn steps(force: bool, most: u8) -> BoxedStrategy<Vec<Step>> {
    let begin = |policy| {
        let first = StepKind::Acquire { agent: 0, fresh: false, offer: false, ttl_s: None, renewals: None };
        [StepKind::Policy(policy), first].map(|what| Step::Do { what, heard: true, knows: 100 })
    };
    (0..6_u8, proptest::collection::vec(step(force, most), 1..100))
        .prop_map(move |(policy, rest)| begin(policy).into_iter().chain(rest).collect())
        .boxed()
}
