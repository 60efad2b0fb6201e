//! `baton acquire`: lead, without a process that renews.

use baton::caller::{Caller, CallerSession, Holder, NotGranted};
use baton::election::ElectionName;
use baton::election::removal_rules::check_dependency;
use baton::election::time::Span;
use baton::store::Access;
use baton::{Bid, Error, Grant, Standby, TellStandby};
use clap::Args;
use serde_json::json;

use super::run::events::{LastStandby, standby_text};
use crate::context::{AgentOption, Context, usable_under, variable};
use crate::exit::{Exit, Speaker};
use crate::options::bid::BidOptions;
use crate::output::{Failure, clean};
use crate::region;
use crate::screen::{Screen, StoreCommand};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton acquire refactor-auth --as agent-a              now or never; exits 3 if another leads
  baton acquire refactor-auth --as agent-a --wait 10m   wait in line
  baton acquire refactor-auth --as agent-a --json       {\"outcome\":\"granted\",\"token\":3,…}
  baton acquire fleet --as agent-a --region fleet/eu    as the leader of fleet/eu

The lease key is kept in this user's private state folder. Renew before the lease ends: baton renew.

Give each agent a name of its own. Within one session the same call gets the same lease again.
From another session it exits with 3. The session is $BATON_SESSION, else that of Claude Code,
Codex or Gemini CLI, else the terminal; without any, use --repeat.")]
pub(crate) struct Acquire {
    /// The election
    pub(crate) election: ElectionName,
    #[command(flatten)]
    who: AgentOption,
    #[command(flatten)]
    bid_options: BidOptions,
    /// The region by whose lease it leads, an election right below [default: that of the `baton run` around]
    #[arg(long, value_name = "REGION")]
    region: Option<ElectionName>,
    /// Something that it depends on fails: bars it where the policy says that a leader needs it
    #[arg(long = "failing", value_name = "NAME")]
    failing: Vec<String>,
    /// How long to wait in line [default: do not wait]
    #[arg(long, value_name = "DURATION")]
    wait: Option<Span>,
    /// Get the lease again that this agent holds, also if another session of yours acquired it
    #[arg(long)]
    repeat: bool,
}

impl StoreCommand for Acquire {
    const ACCESS: Access = Access::Write;
    const SPEAKER: Speaker = Speaker::Candidate;

    fn check(&self) -> Result<(), Failure> {
        self.bid()?;
        CallerSession::of_caller(variable)?;
        Ok(())
    }

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let (mut bid, session) = (self.bid()?, CallerSession::of_caller(variable)?);
        bid.region =
            region::named_or_around(context, self.region.as_ref(), &self.election, &self.who).await?;
        let grant = self.grant(context, &bid, session.clone()).await?;
        let left = usable_under(grant.region.as_ref(), grant.asked_at(), grant.ttl);
        let cause = grant.document.last_transition.as_ref().map(|last| last.cause);
        let inherits = grant.document.checkpoint.as_ref().map(|checkpoint| checkpoint.seq);
        let data = json!({
            "outcome": "granted",
            "election": self.election,
            "agent": bid.agent,
            "token": grant.epoch,
            "expires_in_ms": left.as_millis(),
            "ttl_ms": grant.ttl.as_millis(),
            "cause": cause,
            "repeated": grant.repeated,
            "session": session,
            "region": grant.region.as_ref().map(baton::Region::election),
            "checkpoint": inherits,
        });
        let text =
            format!("{} leads {} with token {}; renew within {left}", bid.agent, self.election, grant.epoch);
        let note = inherits.map(|seq| {
            // As it can be typed: who set the variable need not say who acts.
            let set = std::env::var("BATON_AGENT").is_ok_and(|agent| agent == bid.agent.as_str());
            let who = if set { String::new() } else { format!(" --as {}", bid.agent) };
            format!("checkpoint {seq} was left for you: baton handover {}{who}", self.election)
        });
        Ok(Screen::new(data, text).notes(note))
    }
}

impl Acquire {
    fn bid(&self) -> Result<Bid, Failure> {
        let mut bid = self.bid_options.bid(&self.election, self.who.agent()?)?;
        for name in &self.failing {
            check_dependency(name)?;
            bid.failing.insert(name.clone());
        }
        Ok(bid)
    }

    /// Asks as a caller whose lease is kept between its calls.
    async fn grant(
        &self,
        context: &Context,
        bid: &Bid,
        session: Option<CallerSession>,
    ) -> Result<Grant, Failure> {
        let keys = context.state.leases();
        let told = LastStandby::default();
        let tell = |standby: Standby| {
            if !context.output.json && told.is_new(&standby) {
                context.output.talk(&clean(&standby_text(&bid.agent, &self.election, &standby)));
            }
        };
        // Only a caller that asked to wait is told why it does.
        let tell: Option<TellStandby<'_>> = if self.wait.is_some() { Some(&tell) } else { None };
        let caller = Caller { keys: &keys, session, repeat: self.repeat, tell };
        let granted = caller.acquire(&context.coordinator, &self.election, bid, self.wait).await;
        granted.map_err(|why| not_granted(context, why))
    }
}

/// Why it was not granted, as the user is told of it.
fn not_granted(context: &Context, why: NotGranted) -> Failure {
    match why {
        NotGranted::Error(error) => refused(context, &error),
        NotGranted::Elsewhere(elsewhere) => {
            let refusal = refused(context, &Error::Refused(elsewhere.refusal()));
            let (message, hint) = (elsewhere.to_string(), Some(elsewhere.hint()));
            let mut failure = Failure { message, hint, ..refusal };
            let session = elsewhere.holder.and_then(|Holder(session)| session);
            failure.facts.insert("session".to_string(), json!(session));
            failure
        }
        NotGranted::Ending { error, agent, election, cause, left } => {
            let message =
                format!("the leadership of {agent} was ended ({cause}); its lease may last {left} more");
            let hint = format!(
                "stop the work under it, then `baton release {election} --as {agent}`, and acquire again; or \
                 wait for the end of the lease"
            );
            Failure { message, hint: Some(hint), ..refused(context, &error) }
        }
        NotGranted::NotKept(not_kept) => not_kept.into(),
        NotGranted::Busy => {
            let busy = "other calls of this session are at it";
            Failure::new(Exit::Error, "busy", busy, "call it once at a time")
        }
    }
}

/// A refusal, and how well what is left of the lease is known.
fn refused(context: &Context, error: &Error) -> Failure {
    let mut failure = Failure::from_error(error, Speaker::Candidate);
    if failure.facts.contains_key("remaining_ms") {
        let at_most = !context.coordinator.tells_ages();
        failure.facts.insert("remaining_at_most".to_string(), json!(at_most));
    }
    failure
}
