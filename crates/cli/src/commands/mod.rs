//! One file per command.

mod acquire;
#[cfg(any(feature = "guard", feature = "server"))]
mod address;
mod agents;
mod alerts;
mod approval;
mod audit;
mod breaker;
#[cfg(any(feature = "guard", feature = "server"))]
mod certificate;
mod check;
mod checkpoint;
mod completions;
mod cosign;
mod dashboard;
mod demo;
mod describe;
mod doctor;
#[cfg(feature = "server")]
mod doors;
mod enlist;
mod everything;
mod fence;
#[cfg(feature = "server")]
mod founding;
#[cfg(feature = "guard")]
mod guard;
mod handover;
mod history;
#[cfg(feature = "server")]
mod hooks;
mod init;
mod judge;
mod jwt;
#[cfg(feature = "server")]
mod keeping;
mod lab;
mod line;
mod listening;
#[cfg(feature = "server")]
mod neighbour;
mod note;
#[cfg(feature = "server")]
mod observe;
mod operator;
mod operators;
mod orders;
mod pass;
mod peer;
mod people;
mod policy;
mod proposal;
mod quota;
mod release;
mod renew;
mod report;
#[cfg(feature = "server")]
mod restore;
mod run;
#[cfg(feature = "server")]
mod serve;
mod sessions;
#[cfg(feature = "server")]
mod several;
mod show;
#[cfg(feature = "server")]
mod snapshots;
mod state;
mod status;
mod task;
mod telling;
#[cfg(feature = "server")]
mod thresholds;
mod token;
mod top;
mod tree;
mod watch;
mod withdraw;

use std::process::ExitCode;

use clap::Subcommand;

use crate::context::Global;
use crate::custody;
use crate::output::Outcome;

pub(crate) use peer::misplaced;

/// The commands.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Wait for the turn, then run CMD while leading, and only then
    Run(run::Run),
    /// Lead, without a process that renews
    Acquire(acquire::Acquire),
    /// Stay the leader
    Renew(renew::Renew),
    /// Stop being the leader; the work has stopped
    Release(release::Release),
    /// Stop being the leader, in favour of a named successor
    Pass(pass::Pass),
    /// Leave something for the successor
    Checkpoint(checkpoint::Checkpoint),
    /// See what the predecessor left, and take it on
    Handover(handover::Handover),
    /// Say that the leader is not useful: its leadership ends
    Report(report::Report),
    /// Have a command or a webhook judge every checkpoint of whoever leads
    Judge(judge::Judge),
    /// Stand for election where the policy compares candidates
    Enlist(enlist::Enlist),
    /// Stand no longer
    Withdraw(withdraw::Withdraw),
    /// See who leads what
    Status(status::Status),
    /// See it all in a terminal, as it changes
    Top(top::Top),
    /// See elections under each other: who leads each region, and the fleet from which
    Tree(tree::Tree),
    /// See every change as it happens
    Watch(watch::Watch),
    /// See who is there, how it fares, and what it leads
    Agents(agents::Agents),
    /// See who is known to be there, at a server
    Sessions(sessions::Sessions),
    /// See what is wrong with elections, at a server
    Alerts(alerts::Alerts),
    /// Is this token current? Exits 0 or 5
    Check(check::Check),
    /// See who led when, and why it changed
    History(history::History),
    /// The leader's board: add, assign, do and see tasks
    Task(Box<task::Task>),
    /// Propose something to the leader; leader: decide
    Proposal(proposal::Proposal),
    /// Share a budget, such as requests per minute; draw from a share
    Quota(quota::Quota),
    /// See who is barred from tasks after failures; operator: reset
    Breaker(breaker::Breaker),
    /// Keep small values that the successor inherits
    State(state::State),
    /// Touch a resource only with a current token
    Fence(fence::Fence),
    /// Let writes through to a service only with a current token
    #[cfg(feature = "guard")]
    Guard(guard::Guard),
    /// Elect a leader among peers, without a store, and run CMD while leading
    Peer(Box<peer::Peer>),
    /// Make a store, and make this user its operator
    Init(init::Init),
    /// Who the operators are; operator: add and remove one
    Operator(operators::Operator),
    /// Who may reach a server; operator: make and revoke tokens
    Token(token::Token),
    /// Operator: see and steer it all in a browser, signed in
    Dashboard(dashboard::Dashboard),
    /// Operator: this agent shall lead
    Appoint(operator::Appoint),
    /// Operator: whoever leads, stops
    Depose(operator::Depose),
    /// Operator: whoever leads, stops, and nobody may lead
    Pause(operator::Pause),
    /// Operator: the pause is over
    Resume(operator::Resume),
    /// Operator: the leader may go on
    Approve(operator::Approve),
    /// Operator: the leader may not go on
    Reject(operator::Reject),
    /// Operator: retire an election whose work is done
    Forget(operator::Forget),
    /// Operator: sign what another has signed, where it takes several
    Cosign(cosign::Cosign),
    /// Operator: vote for a candidate, where the policy lets operators vote
    Vote(note::Vote),
    /// Operator: have something remembered
    Note(note::Note),
    /// See what operators did, and verify it
    Audit(audit::Audit),
    /// See the rules of an election; operator: set them
    Policy(policy::Policy),
    /// Give a team one place for its elections
    #[cfg(feature = "server")]
    Serve(Box<serve::Serve>),
    /// Show a store's elections on a page, read-only, while agents work in it
    #[cfg(feature = "server")]
    Observe(observe::Observe),
    /// Put a snapshot of a server's store back, so that no token is given twice
    #[cfg(feature = "server")]
    Restore(restore::Restore),
    /// See it all: fail-over, fencing, hand-over, an operator's word
    Demo(demo::Demo),
    /// Put every algorithm through the same faults, from a seed
    Lab(lab::Lab),
    /// Check the store, its file system, clocks, keys and leftovers
    Doctor(doctor::Doctor),
    /// Print a completion script for a shell
    Completions(completions::Completions),
}

impl Command {
    /// Whether it serves many at once, and so wants all cores.
    pub(crate) fn serves(&self) -> bool {
        #[cfg(feature = "server")]
        if matches!(self, Command::Serve(_) | Command::Observe(_)) {
            return true;
        }
        #[cfg(feature = "guard")]
        if matches!(self, Command::Guard(_)) {
            return true;
        }
        false
    }
}

/// Carries out a command.
pub(crate) async fn perform(command: Command, global: Global) -> Outcome {
    match command {
        Command::Run(command) => command.perform(&global).await,
        Command::Acquire(command) => command.perform(&global).await,
        Command::Renew(command) => command.perform(&global).await,
        Command::Release(command) => command.perform(&global).await,
        Command::Pass(command) => command.perform(&global).await,
        Command::Checkpoint(command) => command.perform(&global).await,
        Command::Handover(command) => command.perform(&global).await,
        Command::Report(command) => command.perform(&global).await,
        Command::Judge(command) => command.perform(&global).await,
        Command::Enlist(command) => command.perform(&global).await,
        Command::Withdraw(command) => command.perform(&global).await,
        Command::Status(command) => command.perform(&global).await,
        Command::Top(command) => command.perform(&global).await,
        Command::Tree(command) => command.perform(&global).await,
        Command::Watch(command) => command.perform(&global).await,
        Command::Agents(command) => command.perform(&global).await,
        Command::Sessions(command) => command.perform(&global).await,
        Command::Alerts(command) => command.perform(&global).await,
        Command::Check(command) => command.perform(&global).await,
        Command::History(command) => command.perform(&global).await,
        Command::Task(command) => command.perform(&global).await,
        Command::Proposal(command) => command.perform(&global).await,
        Command::Quota(command) => command.perform(&global).await,
        Command::Breaker(command) => command.perform(&global).await,
        Command::State(command) => command.perform(&global).await,
        Command::Fence(command) => command.perform(&global).await,
        #[cfg(feature = "guard")]
        Command::Guard(command) => command.perform(&global).await,
        Command::Peer(command) => command.perform(&global).await,
        Command::Init(command) => command.perform(&global).await,
        Command::Operator(command) => command.perform(&global).await,
        Command::Token(command) => command.perform(&global).await,
        Command::Dashboard(command) => command.perform(&global).await,
        Command::Appoint(command) => command.perform(&global).await,
        Command::Depose(command) => command.perform(&global).await,
        Command::Pause(command) => command.perform(&global).await,
        Command::Resume(command) => command.perform(&global).await,
        Command::Approve(command) => command.perform(&global).await,
        Command::Reject(command) => command.perform(&global).await,
        Command::Forget(command) => command.perform(&global).await,
        Command::Cosign(command) => command.perform(&global).await,
        Command::Vote(command) => command.perform(&global).await,
        Command::Note(command) => command.perform(&global).await,
        Command::Audit(command) => command.perform(&global).await,
        Command::Policy(command) => command.perform(&global).await,
        #[cfg(feature = "server")]
        Command::Serve(command) => command.perform(&global).await,
        #[cfg(feature = "server")]
        Command::Observe(command) => command.perform(&global).await,
        #[cfg(feature = "server")]
        Command::Restore(command) => command.perform(&global).await,
        Command::Demo(command) => command.perform(&global).await,
        Command::Lab(command) => command.perform(&global),
        Command::Doctor(command) => command.perform(&global).await,
        Command::Completions(command) => command.perform(),
    }
}

/// What other processes of ours are started as. Not for people.
pub(crate) fn hidden(arguments: &[String]) -> Option<ExitCode> {
    match arguments.get(1).map(String::as_str) {
        Some(custody::WARDEN) => Some(custody::warden(&arguments[2..])),
        Some(custody::EXEC) => Some(custody::exec(&arguments[2..])),
        Some(custody::VALIDATE) => Some(custody::validate(&arguments[2..])),
        Some(demo::WORKER) => Some(demo::worker(&arguments[2..])),
        Some(_) | None => None,
    }
}
