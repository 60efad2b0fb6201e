//! One file or folder per command. `approval`, `operator_names`, `pause_all` and `store_orders` are parts of several.

mod acquire;
mod acts;
mod agents;
mod alerts;
mod approval;
mod audit;
mod breaker;
mod check;
mod checkpoint;
mod completions;
mod cosign;
mod dashboard;
mod demo;
mod doctor;
mod enlist;
mod fence;
#[cfg(feature = "guard")]
mod guard;
mod handover;
mod history;
mod init;
mod judge;
mod lab;
mod note;
#[cfg(feature = "server")]
mod observe;
mod operator;
mod operator_names;
mod pause_all;
mod peer;
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
pub(crate) mod serve;
mod show;
#[cfg(feature = "server")]
mod snapshots;
mod state;
mod status;
mod store_orders;
mod task;
mod token;
mod top;
mod tree;
mod watch;

use std::process::ExitCode;

use clap::Subcommand;
use futures_util::future::LocalBoxFuture;

use crate::context::Global;
use crate::output::Outcome;
use crate::screen::StoreCommand;
use crate::warden_process;

pub(crate) use peer::misplaced;

/// The commands: what each is called, and what performs it.
macro_rules! commands {
    ($(#[doc = $about:literal] $(#[cfg($feature:meta)])? $name:ident($command:ty),)*) => {
        /// The commands.
        #[derive(Subcommand, Debug)]
        pub(crate) enum Command {
            $(#[doc = $about] $(#[cfg($feature)])? $name($command),)*
        }

        /// Carries out a command. Each future is boxed, so that the compiler makes no single one of all commands.
        pub(crate) async fn perform(command: Command, global: Global) -> Outcome {
            let outcome: LocalBoxFuture<'_, Outcome> = match &command {
                $($(#[cfg($feature)])? Command::$name(command) => Box::pin(command.perform(&global)),)*
            };
            outcome.await
        }
    };
}

commands! {
    /// Wait to become the leader, then run CMD for as long as the lease holds
    Run(run::Run),
    /// Become the leader without keeping a process running
    Acquire(acquire::Acquire),
    /// Renew the lease
    Renew(renew::Renew),
    /// Give up the leadership, perhaps to a named successor, after the work has stopped
    Release(release::Release),
    /// Save the state of the work for the next leader
    Checkpoint(checkpoint::Checkpoint),
    /// Read the previous leader's checkpoint, and acknowledge it
    Handover(handover::Handover),
    /// Report a problem with the leader, which can end its leadership
    Report(report::Report),
    /// Let a command or a webhook judge every checkpoint of the leader
    Judge(judge::Judge),
    /// Register or withdraw as a candidate, where the policy compares candidates
    Enlist(enlist::Enlist),
    /// Show elections and their leaders
    Status(status::Status),
    /// Show elections and agents in a terminal, live
    Top(top::Top),
    /// Show elections as a tree: each region's leader, and which region leads the fleet
    Tree(tree::Tree),
    /// Print each change of elections as it happens, and why
    Watch(watch::Watch),
    /// List agents and sessions: their health, and what each one leads
    Agents(agents::Agents),
    /// List a server's alerts: what is wrong with its elections
    Alerts(alerts::Alerts),
    /// Check that a token is current: exits 0 or 5
    Check(check::Check),
    /// Show past leaders, and why each leadership ended
    History(history::History),
    /// Add, assign, do and list tasks on the leader's board
    Task(Box<task::Task>),
    /// Make proposals to the leader; leader: accept or reject them
    Proposal(proposal::Proposal),
    /// Share a budget, such as requests per minute, among agents
    Quota(quota::Quota),
    /// List circuit breakers, which bar agents after failed tasks; operator: reset them
    Breaker(breaker::Breaker),
    /// Keep small values that the next leader inherits
    State(state::State),
    /// Use a resource only with a current token
    Fence(fence::Fence),
    /// Proxy a service, and pass on only writes with a current token
    #[cfg(feature = "guard")]
    Guard(guard::Guard),
    /// Elect a leader among peers, without a store, and run CMD as the leader
    Peer(Box<peer::Peer>),
    /// Create a store, with this user as its first operator
    Init(init::Init),
    /// List operators; operator: add and remove them
    Operator(operator::Operator),
    /// List a server's access tokens; operator: create and revoke them
    Token(token::Token),
    /// Operator: open a server's page in a browser, signed in
    Dashboard(dashboard::Dashboard),
    /// Operator: make an agent the next leader
    Appoint(acts::Appoint),
    /// Operator: end the current leadership
    Depose(acts::Depose),
    /// Operator: end the leadership, and let nobody lead until resumed
    Pause(acts::Pause),
    /// Operator: end a pause
    Resume(acts::Resume),
    /// Operator: approve the leader's checkpoint, so that it may continue
    Approve(acts::Approve),
    /// Operator: reject the leader's checkpoint, which ends its leadership
    Reject(acts::Reject),
    /// Operator: retire an election whose work is done
    Forget(acts::Forget),
    /// Operator: add a signature to an act that needs several operators
    Cosign(cosign::Cosign),
    /// Operator: vote for a candidate, where the policy asks for votes
    Vote(note::Vote),
    /// Show and verify the log of operators' acts; operator: add a note
    Audit(audit::Audit),
    /// Show the policy of an election; operator: change it
    Policy(policy::Policy),
    /// Run a server for a team's elections
    #[cfg(feature = "server")]
    Serve(Box<serve::Serve>),
    /// Serve a read-only page of a store while agents use it
    #[cfg(feature = "server")]
    Observe(observe::Observe),
    /// Restore a server's store from a snapshot, without reusing a token
    #[cfg(feature = "server")]
    Restore(restore::Restore),
    /// Watch fail-over, fencing, hand-over and an operator's act in 25 seconds
    Demo(demo::Demo),
    /// Test the election algorithms under simulated faults
    Lab(lab::Lab),
    /// Check the store, its file system, clocks, keys and leftover files
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

/// What other processes of ours are started as. Not for people.
pub(crate) fn hidden(arguments: &[String]) -> Option<ExitCode> {
    match arguments.get(1).map(String::as_str) {
        Some(warden_process::WARDEN) => Some(warden_process::warden(&arguments[2..])),
        Some(warden_process::EXEC) => Some(warden_process::exec(&arguments[2..])),
        Some(warden_process::VALIDATE) => Some(warden_process::validate(&arguments[2..])),
        Some(completions::ELECTIONS) => Some(completions::elections()),
        Some(demo::WORKER) => Some(demo::worker(&arguments[2..])),
        Some(_) | None => None,
    }
}
