//! What a request must be allowed to do, by what it asks for. A route without a right does not compile.

use baton_election::Command;
use baton_election::tokens::Role;

use super::route::Ask;

/// What is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Right {
    /// Nothing: not even a token.
    Public,
    /// To see.
    Read,
    /// To take part.
    Act,
    /// To hand in what an operator's key has signed: the signature is what counts.
    Operate,
    /// To see and order access tokens, and to let browsers sign in.
    Administer,
}

impl Right {
    /// The word for it, as the description of the interface has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Right::Public => "public",
            Right::Read => "read",
            Right::Act => "act",
            Right::Operate => "operate",
            Right::Administer => "administer",
        }
    }

    /// The least role that has it.
    pub(crate) fn least_role(self) -> Role {
        match self {
            Right::Public | Right::Read => Role::Observer,
            Right::Act => Role::Agent,
            Right::Operate | Right::Administer => Role::Operator,
        }
    }

    /// The most that a role may.
    pub(crate) fn of_role(role: Role) -> Right {
        match role {
            Role::Observer => Right::Read,
            Role::Agent => Right::Act,
            Role::Operator => Right::Administer,
        }
    }

    /// What a command needs, wherever it comes from.
    pub(crate) fn of_command(command: &Command) -> Right {
        match command {
            Command::Acquire(_)
            | Command::Renew(_)
            | Command::Release(_)
            | Command::Pass(_)
            | Command::Checkpoint(_)
            | Command::Acknowledge(_)
            | Command::Report(_) => Right::Act,
            Command::Operate(_) => Right::Operate,
        }
    }
}

impl Ask {
    /// What is needed to ask for this.
    pub(crate) fn right(self) -> Right {
        match self {
            Ask::Health | Ask::Ready | Ask::OpenApi | Ask::Page | Ask::PageFile => Right::Public,
            // Whoever has the code of a link was given it by an operator.
            Ask::OpenSignIn => Right::Public,
            Ask::Store
            | Ask::Elections
            | Ask::Audits
            | Ask::Election
            | Ask::Leader
            | Ask::History
            | Ask::Audit
            | Ask::AuditPart
            | Ask::Watch
            | Ask::Candidates
            | Ask::Candidate
            | Ask::Waiting
            | Ask::Fences
            | Ask::Fence
            | Ask::FenceLog
            | Ask::Overview
            | Ask::Events
            | Ask::Me
            | Ask::CloseSignIn => Right::Read,
            // Sessions, metrics and the store's audit log need a token that is not limited to some elections.
            Ask::Sessions | Ask::Metrics | Ask::StoreAudit | Ask::StoreAuditPart => Right::Read,
            // A token that is limited to some elections gets the alerts of those.
            Ask::Alerts => Right::Read,
            Ask::Board
            | Ask::Tasks
            | Ask::Task
            | Ask::Proposals
            | Ask::Proposal
            | Ask::Quotas
            | Ask::Quota
            | Ask::Values
            | Ask::Value
            | Ask::Breakers
            | Ask::Breaker => Right::Read,
            // Each entry of a batch needs what it needs by itself.
            Ask::Batch => Right::Read,
            Ask::Enlist
            | Ask::Withdraw
            | Ask::Acquire
            | Ask::Renew
            | Ask::Release
            | Ask::Pass
            | Ask::Checkpoint
            | Ask::Acknowledge
            | Ask::Report
            | Ask::Admit
            | Ask::KeepHold
            | Ask::LeaveHold
            | Ask::Announce
            | Ask::Heartbeat
            | Ask::News
            | Ask::EndSession
            | Ask::AddTasks
            | Ask::OrderTask
            | Ask::Propose
            | Ask::RuleOn
            | Ask::SetQuota
            | Ask::Draw
            | Ask::PutValue => Right::Act,
            Ask::Operate | Ask::OrderFence | Ask::OrderStore => Right::Operate,
            Ask::Tokens
            | Ask::OrderTokens
            | Ask::TokensAudit
            | Ask::BeginSignIn
            | Ask::Draft
            | Ask::DraftStore => Right::Administer,
        }
    }

    /// Whether it concerns the store as a whole: a token for some elections only is not enough.
    pub(crate) fn is_of_the_store(self) -> bool {
        matches!(
            self,
            Ask::OrderStore
                | Ask::DraftStore
                | Ask::StoreAudit
                | Ask::StoreAuditPart
                | Ask::Tokens
                | Ask::OrderTokens
                | Ask::TokensAudit
                | Ask::Sessions
                | Ask::Metrics
        )
    }
}
