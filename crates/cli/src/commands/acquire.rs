//! `baton acquire`: lead, without a process that renews.

use std::collections::BTreeSet;

use baton::election::command;
use baton::election::policy::{self, Limits};
use baton::election::time::Span;
use baton::election::usefulness::check_dependency;
use baton::election::{AgentName, Credential, ElectionName, Epoch, Refusal};
use baton::store::{Access, boot};
use baton::{Bid, Campaign, Error, Grant, mint_credential};
use clap::Args;
use serde_json::json;

use crate::context::{Context, Global, Who, usable_under};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome};
use crate::region;
use crate::state::KeptLease;

/// How long a one-shot command waits for the others in line, once the nomination is over.
const IN_LINE: Span = Span::secs(3);

/// How many keys of other calls of the same agent are tried.
const MAX_KEYS: usize = 16;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton acquire refactor-auth --as agent-a              now or never; exits 3 if another leads
  baton acquire refactor-auth --as agent-a --wait 10m   wait in line
  baton acquire refactor-auth --as agent-a --json       {\"outcome\":\"granted\",\"token\":3,…}
  baton acquire fleet --as agent-a --region fleet/eu    as the leader of fleet/eu

The lease key is kept in this user's private state folder. Renew before the lease ends: baton renew.")]
pub(crate) struct Acquire {
    /// What to lead
    pub(crate) election: ElectionName,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    terms: Terms,
    /// The region by whose lease it leads, an election right below [default: that of the `baton run` around]
    #[arg(long, value_name = "REGION")]
    region: Option<ElectionName>,
    /// Something that it depends on fails: bars it where the policy says that a leader needs it
    #[arg(long = "failing", value_name = "NAME")]
    failing: Vec<String>,
    /// How long to wait in line [default: do not wait]
    #[arg(long, value_name = "DURATION")]
    wait: Option<Span>,
}

/// What an agent offers and asks for.
#[derive(Args, Clone, Debug)]
pub(crate) struct Terms {
    /// How long the lease lasts after each renewal, 1s to 7d [default: the policy's, 30s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) ttl: Option<Span>,
    /// What will be coordinated, in words
    #[arg(long, value_name = "TEXT")]
    pub(crate) task: Option<String>,
    /// Where this agent is reached while it leads: a URL, for those who ask who leads
    #[arg(long, value_name = "URL")]
    pub(crate) contact: Option<String>,
    /// For the policy `priority`: higher goes first
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true)]
    pub(crate) priority: i64,
    /// For the policy `capable`: what this agent can do
    #[arg(long = "capability", value_name = "C")]
    pub(crate) capability: Vec<String>,
    /// For the policy `capable`: how well it can do it
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true)]
    pub(crate) score: i64,
    /// For the policy `available`: how much it has to do already
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) load: u64,
    /// End after so much time as the leader
    #[arg(long, value_name = "DURATION")]
    pub(crate) budget_time: Option<Span>,
    /// End after so many model tokens (told by baton renew --spent N)
    #[arg(long, value_name = "N")]
    pub(crate) budget_tokens: Option<u64>,
    /// End after so many renewals
    #[arg(long, value_name = "N")]
    pub(crate) budget_renewals: Option<u64>,
    /// End after so much time without progress
    #[arg(long, value_name = "DURATION")]
    pub(crate) stall: Option<Span>,
}

impl Terms {
    /// What it bids. Nonsense is refused here, before anybody waits in line with it.
    pub(crate) fn bid(&self, election: &ElectionName, agent: AgentName) -> Result<Bid, Failure> {
        if election.as_str() == baton::SERVERS {
            // An agent that led it would keep every server of the store from answering.
            return Err(Failure::usage(
                format!("the servers themselves are elected in `{election}`"),
                "choose another name",
            ));
        }
        let bid = self.unchecked(agent);
        let checked = bid.ttl.map_or(Ok(()), policy::check_ttl).and_then(|()| bid.limits.check());
        let checked =
            checked.and_then(|()| bid.capabilities.iter().try_for_each(|c| policy::check_capability(c)));
        let checked = checked.and_then(|()| bid.contact.as_deref().map_or(Ok(()), command::check_contact));
        match checked {
            Ok(()) => Ok(bid),
            Err(refusal) => Err(Failure::from_error(&refusal.into(), Speaker::Candidate)),
        }
    }

    fn unchecked(&self, agent: AgentName) -> Bid {
        Bid {
            agent,
            ttl: self.ttl,
            task: self.task.clone(),
            contact: self.contact.clone(),
            priority: self.priority,
            capabilities: self.capability.iter().cloned().collect(),
            score: self.score,
            load: self.load,
            region: None,
            failing: BTreeSet::new(),
            limits: Limits {
                time: self.budget_time,
                tokens: self.budget_tokens,
                renewals: self.budget_renewals,
                stall: self.stall,
            },
        }
    }
}

impl Acquire {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let mut bid = self.terms.bid(&self.election, self.who.agent()?)?;
        for name in &self.failing {
            check_dependency(name)
                .map_err(|refusal| Failure::from_error(&refusal.into(), Speaker::Candidate))?;
            bid.failing.insert(name.clone());
        }
        let context = Context::open(global, Access::Write).await?;
        bid.region =
            region::named_or_around(&context, self.region.as_ref(), &self.election, &self.who).await?;
        let granted = self.grant(&context, &bid).await;
        context.remember();
        let grant = granted.map_err(|error| match error {
            Stop::Refused(error) => refused(&context, &error),
            Stop::Failed(failure) => failure,
        })?;
        let left = usable_under(grant.region.as_ref(), grant.asked_at, grant.ttl);
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
            "region": grant.region.as_ref().map(baton::Region::election),
            "checkpoint": inherits,
        });
        let text =
            format!("{} leads {} with token {}; renew within {left}", bid.agent, self.election, grant.epoch);
        context.output.say(&data, &text)?;
        if let Some(seq) = inherits {
            // As it can be typed: who set the variable need not say who acts.
            let set = std::env::var("BATON_AGENT").is_ok_and(|agent| agent == bid.agent.as_str());
            let who = if set { String::new() } else { format!(" --as {}", bid.agent) };
            let text = format!("checkpoint {seq} was left for you: baton handover {}{who}", self.election);
            context.output.talk(&text);
        }
        Ok(Exit::Done)
    }

    /// Asks with the key of an earlier call first: if its answer was lost, it leads already.
    async fn grant(&self, context: &Context, bid: &Bid) -> Result<Grant, Stop> {
        // Looked up first: a store that cannot be asked this leaves no key behind.
        let wait = self.wait_in_line(context).await.map_err(Stop::Refused)?;
        for _ in 0..MAX_KEYS {
            if let Some(kept) = context.state.lease(&self.election, &bid.agent) {
                let error = match self.ask(context, bid, kept.credential, wait).await {
                    Ok(grant) => return self.extended(context, bid, grant).await,
                    Err(Stop::Refused(error)) if !may_be_granted(&error) => error,
                    Err(stop) => return Err(stop),
                };
                // Who holds the lease still has to release with this key, once its work has stopped.
                if let Some(stop) = self.still_of_use(context, bid, &kept, &error).await {
                    return Err(stop);
                }
                context.state.drop_lease_of(&self.election, &bid.agent, kept.credential);
                match error {
                    // Its leadership is over.
                    Error::Refused(Refusal::Stale { .. } | Refusal::WrongKey { .. }) => {}
                    // Whoever waits begins anew.
                    Error::Refused(_) if kept.epoch.0 > 0 && self.wait.is_some() => {}
                    error => return Err(Stop::Refused(error)),
                }
            }
            let credential = mint_credential().map_err(Stop::Refused)?;
            // Kept before it is asked with, so that a crash in between loses nothing.
            let asked = KeptLease::new(credential, Epoch(0), Span::ZERO, boot::now());
            let reserved = context.state.reserve_lease(&self.election, &bid.agent, &asked);
            if reserved.map_err(Stop::Failed)? {
                let asked = self.ask(context, bid, credential, wait).await;
                if let Err(Stop::Refused(error)) = &asked
                    && !may_be_granted(error)
                {
                    context.state.drop_lease_of(&self.election, &bid.agent, credential);
                }
                return asked;
            }
            context.state.drop_spoilt_lease(&self.election, &bid.agent);
        }
        let busy = "other calls of this agent are at it";
        Err(Stop::Failed(Failure::new(Exit::Error, "busy", busy, "call it once at a time")))
    }

    /// Why the caller must stop with the key in its place: the election still waits for the end of its lease, or may.
    async fn still_of_use(
        &self,
        context: &Context,
        bid: &Bid,
        kept: &KeptLease,
        error: &Error,
    ) -> Option<Stop> {
        let view = match context.coordinator.view(&self.election).await {
            Ok(view) => view,
            Err(error) => return Some(Stop::Refused(error)),
        };
        let document = view.document.as_ref()?;
        let holder = document.lease_holder()?;
        if holder.incarnation != kept.credential.incarnation || view.age >= holder.lease() {
            return None;
        }
        let failure = match (error, &document.departure) {
            // Nobody asks for that token again: what is in the way is the caller's own former lease.
            (Error::Refused(Refusal::Stale { .. }), Some(departure)) => {
                let (election, agent) = (&self.election, &bid.agent);
                let left = document.lease_remaining(view.age);
                let cause = departure.cause;
                let message =
                    format!("the leadership of {agent} was ended ({cause}); its lease may last {left} more");
                let hint = format!(
                    "stop the work under it, then `baton release {election} --as {agent}`, and acquire again; or \
                     wait for the end of the lease"
                );
                Failure { message, hint: Some(hint), ..refused(context, error) }
            }
            (error, _) => refused(context, error),
        };
        Some(Stop::Failed(failure))
    }

    async fn ask(
        &self,
        context: &Context,
        bid: &Bid,
        credential: Credential,
        wait: Option<Span>,
    ) -> Result<Grant, Stop> {
        let (coordinator, election) = (&context.coordinator, &self.election);
        let asked = match wait {
            None => coordinator.acquire(election, bid, credential, None, None).await,
            Some(_) => {
                let campaign = Campaign { bid: bid.clone(), wait };
                coordinator.wait_for_grant(election, &campaign, credential).await
            }
        };
        let grant = asked.map_err(Stop::Refused)?;
        let lease = KeptLease::new(credential, grant.epoch, grant.ttl, grant.asked_at).under(region_of(bid));
        context.state.keep_lease(&self.election, &bid.agent, &lease).map_err(Stop::Failed)?;
        Ok(grant)
    }

    /// How long to wait in line: where candidates are compared, even one who does not want to.
    async fn wait_in_line(&self, context: &Context) -> Result<Option<Span>, Error> {
        let document = context.coordinator.view(&self.election).await?.document;
        let compares = document.filter(|document| document.policy.select.compares());
        Ok(self.wait.or(compares.map(|document| document.policy.nomination.plus(IN_LINE))))
    }

    /// It leads already: asking again is a sign of life.
    async fn extended(&self, context: &Context, bid: &Bid, mut grant: Grant) -> Result<Grant, Stop> {
        let shown = match &bid.region {
            Some(region) => Some(region.shown_to(&context.coordinator).await.map_err(Stop::Refused)?),
            None => None,
        };
        let renewal = baton::Renewal { region: shown, ..baton::Renewal::new(grant.epoch, grant.credential) };
        let renewed = context.coordinator.renew(&self.election, &renewal).await.map_err(Stop::Refused)?;
        if let baton::election::Answer::Ended { cause, reason } = renewed.answer {
            return Err(Stop::Refused(Error::Lost(format!("it was ended ({cause}): {reason}"))));
        }
        (grant.asked_at, grant.ttl) = (renewed.asked_at, renewed.ttl.unwrap_or(grant.ttl));
        let lease =
            KeptLease::new(grant.credential, grant.epoch, grant.ttl, grant.asked_at).under(region_of(bid));
        context.state.keep_lease(&self.election, &bid.agent, &lease).map_err(Stop::Failed)?;
        Ok(grant)
    }
}

fn region_of(bid: &Bid) -> Option<ElectionName> {
    bid.region.as_ref().map(|region| region.election().clone())
}

/// Why it was not granted.
enum Stop {
    Refused(Error),
    Failed(Failure),
}

/// Whether a request that failed so may have been granted, or may yet be.
fn may_be_granted(error: &Error) -> bool {
    match error {
        Error::Store(error) => error.is_passing(),
        Error::System(_) => true,
        Error::Refused(_)
        | Error::Url(_)
        | Error::Name(_)
        | Error::WaitedLongEnough { .. }
        | Error::Lost(_) => false,
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
