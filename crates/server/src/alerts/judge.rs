//! What is wrong with an election, judged from what was observed of it. Pure: it reads no clock.
//!
//! Assumes that what was observed is as old as it says. Guarantees the same verdict for the same observations. Two leaders are seen only if
//! each said that it leads both before and after the other did: the last word of a leader that has just handed over proves
//! nothing. Does not prove the contrary: who tells nothing is not seen.

use baton_api::alerts::AlertKind;
use baton_api::describe::{SUSPECT, Suspicion};
use baton_election::time::{Moment, Span};
use baton_election::{AgentName, ElectionName, Epoch, TokenId};

use super::board::Subject;
use crate::census::Share;

/// From where on something is wrong. What is none is never wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// For how long nobody leads, while somebody waits.
    pub no_leader: Option<Span>,
    /// More changes of leader than this.
    pub flapping: Option<Rate>,
    /// More refused candidates than this; or more than as many at once in line.
    pub contention: Option<Rate>,
    /// More changes of leader than this that nobody planned: a warning.
    pub elections: Option<Rate>,
    /// How long a change of leader takes: a warning.
    pub transition: Option<Span>,
    /// Which part, in hundredths, of those who follow acknowledges a new leader: a warning.
    pub participation: Option<u8>,
    /// The suspicion level (φ) of a leader whose lease still runs: a warning.
    pub suspicion: Option<Suspicion>,
    /// More refused requests with one access token than this: a warning.
    pub refusals: Option<Rate>,
}

/// So many in so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many.
    pub count: u32,
    /// In how long.
    pub window: Span,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            no_leader: Some(Span::secs(60)),
            flapping: Some(Rate { count: 5, window: Span::secs(600) }),
            contention: Some(Rate { count: 100, window: Span::secs(60) }),
            elections: Some(Rate { count: 3, window: Span::secs(3_600) }),
            transition: Some(Span::secs(30)),
            participation: Some(100),
            suspicion: Some(SUSPECT),
            refusals: Some(Rate { count: 100, window: Span::secs(300) }),
        }
    }
}

/// What is known of one election at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Observation {
    /// For how long nobody has led it. None if somebody leads, if nobody ever did, or if an operator stopped it.
    pub(super) leaderless: Option<Span>,
    /// How many agents wait in line.
    pub(super) waiting: u64,
    /// How many agents stand, where a policy compares candidates.
    pub(super) candidates: u64,
    /// How many sessions follow.
    pub(super) followers: u64,
    /// How many requests were refused in the last minute because the rules bar the agent from leading.
    pub(super) barred: u64,
    /// Changes of leader in the window of flapping, and unplanned ones in that of elections.
    pub(super) changes: u64,
    pub(super) elections: u64,
    /// Candidates that were refused in the window of contention.
    pub(super) refused: u64,
    /// How long the last change of leader took, if it was one of the last hour.
    pub(super) took: Option<Span>,
    /// Of those who should know of the last change of leader, how many do, once they had the time to.
    pub(super) told: Option<(u64, u64)>,
    /// Who says that it leads.
    pub(super) avowals: Vec<ClaimedLeader>,
    /// Its leader, if that is silent while its lease runs.
    pub(super) suspected: Option<SuspectAgent>,
}

/// A leader that is silent while its lease runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SuspectAgent {
    pub(crate) agent: AgentName,
    /// Under which token it leads.
    pub(crate) epoch: Epoch,
    /// The suspicion level (φ).
    pub(crate) suspicion: Suspicion,
    /// How long its lease has not been renewed.
    pub(crate) silent: Span,
    /// For how much longer its lease lasts.
    pub(crate) left: Span,
}

impl Observation {
    /// Whether anybody would miss a leader.
    pub(super) fn is_wanted(&self) -> bool {
        self.waiting + self.candidates + self.followers + self.barred > 0
    }
}

/// That a session says that it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimedLeader {
    pub(crate) agent: AgentName,
    pub(crate) term: u64,
    /// When it said so first, without saying otherwise since.
    pub(crate) first: Moment,
    /// When it said so last.
    pub(crate) last: Moment,
}

impl ClaimedLeader {
    /// Whether both led at one moment, if what they say is true.
    fn overlaps(&self, other: &ClaimedLeader) -> bool {
        self.first.max(other.first) <= self.last.min(other.last)
    }
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) kind: AlertKind,
    pub(super) what: String,
    pub(super) hint: String,
}

/// What is wrong with an election.
pub(super) fn judge(election: &ElectionName, observed: &Observation, limits: &Thresholds) -> Vec<Finding> {
    let found = [
        no_leader(election, observed, limits),
        flapping(election, observed, limits),
        two_leaders(election, observed),
        contention(election, observed, limits),
        elections(election, observed, limits),
        slow(election, observed, limits),
        participation(election, observed, limits),
        suspected(election, observed, limits),
    ];
    found.into_iter().flatten().collect()
}

/// What is wrong with those who ask, given how many requests of each were refused lately.
pub(super) fn judge_refusals(
    refused: &[(Option<TokenId>, u64)],
    limits: &Thresholds,
) -> Vec<(Subject, Finding)> {
    let Some(Rate { count, window }) = limits.refusals else { return Vec::new() };
    let too_many = refused.iter().filter(|(_, refused)| *refused > u64::from(count));
    let told = too_many.map(|(token, refused)| {
        let whose = match token {
            Some(id) => format!("with the access token {id}"),
            None => "without an access token that is known".to_string(),
        };
        let finding = Finding {
            kind: AlertKind::UnauthorisedBurst,
            what: format!("{refused} requests {whose} were refused within {}", whole(window)),
            hint: "see from where: baton token list, or the access log".to_string(),
        };
        (Subject::Token(*token), finding)
    });
    told.collect()
}

/// What is nearly used of what a server keeps.
pub(super) fn judge_quotas(nearly_used: &[Share]) -> Vec<(Subject, Finding)> {
    let told = nearly_used.iter().map(|Share { what, token, used, limit }| {
        let whose = token.map_or("the store".to_string(), |id| format!("the access token {id}"));
        let finding = Finding {
            kind: AlertKind::QuotaNearlyUsed,
            what: format!("{whose} has {used} of at most {limit} {what}"),
            hint: "retire elections whose work is done: baton forget ELECTION".to_string(),
        };
        (Subject::Kept(what, *token), finding)
    });
    told.collect()
}

fn finding(kind: AlertKind, what: String, hint: String) -> Option<Finding> {
    Some(Finding { kind, what, hint })
}

fn no_leader(election: &ElectionName, observed: &Observation, limits: &Thresholds) -> Option<Finding> {
    let (since, most) = (observed.leaderless?, limits.no_leader?);
    let Observation { waiting, candidates, followers, barred, .. } = observed;
    if since < most || !observed.is_wanted() {
        return None;
    }
    let barred = if *barred > 0 { "; who asks may not lead by the rules" } else { "" };
    let what = format!(
        "nobody has led `{election}` for {}, while {waiting} wait in line, {candidates} stand and {followers} follow{barred}",
        whole(since)
    );
    finding(AlertKind::NoLeader, what, format!("see why nobody may lead: baton status {election}"))
}

fn flapping(election: &ElectionName, observed: &Observation, limits: &Thresholds) -> Option<Finding> {
    let Rate { count, window } = limits.flapping?;
    let changes = observed.changes;
    if changes <= u64::from(count) {
        return None;
    }
    let what = format!("`{election}` changed its leader {changes} times in {window}");
    finding(AlertKind::Flapping, what, format!("see why each of them ended: baton history {election}"))
}

fn two_leaders(election: &ElectionName, observed: &Observation) -> Option<Finding> {
    let avowals = &observed.avowals;
    let pair = avowals.iter().enumerate().find_map(|(number, one)| {
        avowals[number + 1..].iter().find(|other| one.overlaps(other)).map(|other| (one, other))
    });
    let (one, other) = pair?;
    let what = format!(
        "two lead `{election}` at once by their own word: {} in term {} and {} in term {}",
        one.agent, one.term, other.agent, other.term
    );
    let hint = "stop one of them, and see whether what they write to has a fence; Bully and Ring promise no single leader";
    finding(AlertKind::TwoLeaders, what, hint.to_string())
}

fn contention(election: &ElectionName, observed: &Observation, limits: &Thresholds) -> Option<Finding> {
    let Rate { count, window } = limits.contention?;
    let Observation { refused, waiting, .. } = observed;
    if *refused <= u64::from(count) && *waiting <= u64::from(count) {
        return None;
    }
    let what =
        format!("{refused} candidates of `{election}` were refused in {window}, and {waiting} wait in line");
    let hint = "let candidates wait in line (baton run does) instead of asking again, or divide the work into several elections";
    finding(AlertKind::HighContention, what, hint.to_string())
}

fn elections(election: &ElectionName, observed: &Observation, limits: &Thresholds) -> Option<Finding> {
    let Rate { count, window } = limits.elections?;
    let elections = observed.elections;
    if elections <= u64::from(count) {
        return None;
    }
    let what = format!("`{election}` had {elections} changes of leader in {window} that nobody planned");
    finding(AlertKind::FrequentElections, what, format!("see their causes: baton history {election}"))
}

fn slow(election: &ElectionName, observed: &Observation, limits: &Thresholds) -> Option<Finding> {
    let (took, most) = (observed.took?, limits.transition?);
    if took <= most {
        return None;
    }
    let what = format!("the last change of leader of `{election}` took {took}, over {most}");
    let hint =
        format!("see which phase took it: baton history {election}; a shorter --ttl is noticed sooner");
    finding(AlertKind::SlowTransition, what, hint)
}

fn participation(election: &ElectionName, observed: &Observation, limits: &Thresholds) -> Option<Finding> {
    let ((told, of), least) = (observed.told?, limits.participation?);
    if told.saturating_mul(100) >= of.saturating_mul(u64::from(least)) {
        return None;
    }
    let what = format!("{told} of {of} that follow `{election}` have acknowledged its last change of leader");
    finding(AlertKind::LowParticipation, what, "see who is silent: baton sessions".to_string())
}

fn suspected(election: &ElectionName, observed: &Observation, limits: &Thresholds) -> Option<Finding> {
    let (SuspectAgent { agent, suspicion, silent, left, .. }, least) =
        (observed.suspected.as_ref()?, limits.suspicion?);
    if *suspicion < least {
        return None;
    }
    let what = format!(
        "{agent} leads `{election}` and has been silent for {}: φ is {suspicion}, and its lease lasts {} more",
        whole(*silent),
        whole(*left)
    );
    let hint = format!(
        "see how it is: baton agents {agent}; its lease decides: wait for its end, or baton depose {election}"
    );
    finding(AlertKind::SuspectedLeader, what, hint)
}

/// Without fractions of a second: it is told anew with each look.
fn whole(span: Span) -> Span {
    Span::secs(span.as_millis() / 1_000)
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
