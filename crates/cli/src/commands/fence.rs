//! `baton fence`: touch a resource only with a current token.

use baton::election::bindings::FenceChange;
use baton::election::fence::{Entry, HoldRequest, MAX_HOLD_WITHOUT_LEASE};
use baton::election::lease;
use baton::election::time::Span;
use baton::election::{AgentName, Credential, ElectionName, Epoch, Margins, Moment, Refusal, ResourceName};
use baton::store::{Access, boot};
use baton::{Error, mint_credential};
use baton_warden::{ChildRegistry, Report, Start, WardenEvent, WardenHandle};
use clap::Args;
use serde_json::json;
use tokio::task::JoinHandle;

use super::acts;
use super::check::token_or_inherited;
use crate::context::{AgentOption, Context};
use crate::exit::{Exit, Speaker};
use crate::keys;
use crate::output::{Failure, Outcome};
use crate::screen::{Screen, StoreCommand};
use crate::warden_process::{self, CommandSetup, Duty, Holding, RunFolder, boot_time};

/// How long a hold lasts after its last sign of life: how long others wait if the holder is stopped.
const HOLD: Span = Span::secs(5);
/// How long it is waited in silence.
const IN_SILENCE: Span = Span::secs(1);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton fence db/orders --election refactor-auth --token 3     exits 0 or 5
  baton fence db/orders --token 3 -- psql -f migrate.sql       exclusive while CMD runs
  baton fence db/orders --log                                  what was accepted
  baton fence --json --log db/orders
  baton fence db/orders --bind refactor-auth                   an operator binds it to an election

The first use of a resource binds it to the election that was named; an operator can bind it to another. A token passes if it is current and not lower than the highest that the resource has seen. Without CMD there is a gap between the check and the act.")]
pub(crate) struct Fence {
    /// The resource [default with --log: all]
    resource: Option<ResourceName>,
    /// The token [default: $BATON_TOKEN_FILE or $BATON_TOKEN]
    #[arg(long, value_name = "N")]
    token: Option<Epoch>,
    /// The election that gave the token [default: $BATON_ELECTION, else the election the resource is bound to]
    #[arg(long, value_name = "ELECTION", env = "BATON_ELECTION", hide_env = true)]
    election: Option<ElectionName>,
    #[command(flatten)]
    who: AgentOption,
    /// A note for the log
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    /// How long to wait while another command uses the resource
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    wait: Span,
    /// Show the log of accepted tokens
    #[arg(long)]
    log: bool,
    /// Operator: bind the resource to this election, and undo an earlier binding
    #[arg(long, value_name = "ELECTION", conflicts_with_all = ["log", "free", "token", "command"], requires = "resource")]
    bind: Option<ElectionName>,
    /// Operator: remove the binding; the next use binds it again
    #[arg(long, conflicts_with_all = ["log", "token", "command"], requires = "resource")]
    free: bool,
    /// The command to run on the resource
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Somebody who has been let in, for the run of CMD.
struct Admission<'a> {
    context: &'a Context,
    resource: &'a ResourceName,
    election: ElectionName,
    token: Epoch,
    agent: Option<AgentName>,
    note: String,
    hold: HoldRequest,
    admitted_at: Moment,
}

impl StoreCommand for Fence {
    fn access(&self) -> Access {
        if self.log { Access::Read } else { Access::Write }
    }

    fn check(&self) -> Result<(), Failure> {
        if self.log {
            return Ok(());
        }
        if self.resource.is_none() {
            return Err(Failure::usage("no resource is named", "such as: baton fence db/orders --token 3"));
        }
        if self.bind.is_some() || self.free {
            return keys::load().map(drop);
        }
        token_or_inherited(self.token, self.election.as_ref())?;
        warden_process::look_for_program(&self.command)
    }

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let Some(resource) = self.resource.as_ref().filter(|_| !self.log) else {
            return self.show(context).await;
        };
        let change = match &self.bind {
            Some(election) => Some(FenceChange::Bind { election: election.clone() }),
            None => self.free.then_some(FenceChange::Free),
        };
        if let Some(change) = change {
            return change_binding(context, resource, &change).await;
        }
        let token = token_or_inherited(self.token, self.election.as_ref())?;
        if !self.command.is_empty() {
            return Ok(Screen::ended(self.hold(context, resource, token).await?));
        }
        let admitted = self.admit(context, resource, token, None).await;
        admitted.map_err(|error| refused(&error, resource))?;
        let data = json!({"outcome": "accepted", "resource": resource, "token": token});
        Ok(Screen::new(data, format!("{resource} accepts token {token}")))
    }
}

impl Fence {
    /// What the holder does is a sign of life. If it shows that a limit is reached, the leadership ends, and the fence refuses the
    /// token; if it fails otherwise, the fence judges all the same.
    async fn renew_own(&self, context: &Context, election: &ElectionName, token: Epoch) {
        if let Ok(held) = context.lease(election, &self.who)
            && held.epoch == token
        {
            let renewal = baton::Renewal::new(held.epoch, held.credential);
            let _ = super::renew::renew(context, election, &held, &renewal).await;
        }
    }

    /// The election that the token is of, if that is known before the fence is asked.
    async fn of_election(&self, context: &Context, resource: &ResourceName) -> Option<ElectionName> {
        match &self.election {
            Some(election) => Some(election.clone()),
            None => Some(context.coordinator.fences().get(resource).await.ok()??.fence.election),
        }
    }

    /// What it is for, for the log.
    fn note(&self) -> String {
        if self.note.is_empty() { self.command.join(" ") } else { self.note.clone() }
    }

    /// A hold for CMD, with the credential of the lease where this user has it: such a hold is kept for as long as the token is current.
    async fn hold_request(
        &self,
        context: &Context,
        resource: &ResourceName,
        token: Epoch,
        run: Credential,
    ) -> HoldRequest {
        let election = self.of_election(context, resource).await;
        let held = election.and_then(|election| context.lease(&election, &self.who).ok());
        let lease = held.filter(|held| held.epoch == token).map(|held| held.credential);
        HoldRequest { lease, ..HoldRequest::short(run, HOLD) }
    }

    /// Asks the fence, again while another command runs on the resource.
    async fn admit(
        &self,
        context: &Context,
        resource: &ResourceName,
        token: Epoch,
        hold: Option<HoldRequest>,
    ) -> Result<(baton::election::Fence, Moment), Error> {
        let (agent, note) = (self.who.agent().ok(), self.note());
        let entry = Entry { resource, token, agent: agent.as_ref(), note: &note, hold };
        // A token is of one election. If that is not the one that the resource is bound to, the fence refuses.
        let begun = boot::now();
        let give_up_at = begun + self.wait;
        let mut said = false;
        let election = self.of_election(context, resource).await;
        let mut renew_at = boot::now();
        loop {
            // Before it is let in: who is past a limit must not begin. And again while it waits, so as not to begin with a lease that
            // is about to end.
            if let Some(election) = election.as_ref().filter(|_| boot::now() >= renew_at) {
                self.renew_own(context, election, token).await;
                renew_at = boot::now() + HOLD.scaled(1, 2);
            }
            let asked_at = boot::now();
            match context.coordinator.fences().admit(&entry, self.election.as_ref()).await {
                Err(Error::Refused(Refusal::Held { remaining, epoch, .. })) if boot::now() < give_up_at => {
                    if !said && boot::now() >= begun + IN_SILENCE {
                        self.say_that_it_waits(context, resource, epoch);
                        said = true;
                    }
                    let until = (boot::now() + remaining.min(Span::millis(100))).min(give_up_at);
                    boot::sleep_until(until).await?;
                }
                outcome => return Ok((outcome?, asked_at)),
            }
        }
    }

    fn say_that_it_waits(&self, context: &Context, resource: &ResourceName, token: Epoch) {
        let text = format!("{}; waits for at most {}", at_it(resource, token), self.wait);
        context.output.talk(&format!("baton: {text}"));
        if context.output.json {
            context.output.event(&json!({
                "event": "waiting", "resource": resource, "token": token, "wait_ms": self.wait.as_millis(), "message": text,
            }));
        }
    }

    /// Runs CMD while the resource is held.
    async fn hold(&self, context: &Context, resource: &ResourceName, token: Epoch) -> Outcome {
        let children = ChildRegistry::open()?;
        let folder = RunFolder::make()?;
        let mut warden = warden_process::prepare(children, &folder, CommandSetup::default()).await?;
        let run = mint_credential()?;
        let hold = self.hold_request(context, resource, token, run).await;
        let (fence, asked_at) = match self.admit(context, resource, token, Some(hold)).await {
            Ok(admitted) => admitted,
            Err(error) => {
                let _ = warden.dismiss().await;
                return Err(refused(&error, resource));
            }
        };
        let (election, agent, note) = (fence.election, self.who.agent().ok(), self.note());
        let mut inside =
            Admission { context, resource, election, token, agent, note, hold, admitted_at: asked_at };
        let duty = Duty {
            store: warden_process::absolute_store(&context.coordinator, &context.url),
            folder: folder.path().to_path_buf(),
            gives_back: Holding::Hold { resource: resource.clone(), credential: run },
        };
        let started = warden.start(Start {
            command: self.command.clone(),
            env: vec![("BATON_TOKEN".to_string(), token.to_string())],
            deadline: boot_time(Margins::STANDARD.deadline(asked_at, HOLD)),
            grace_ms: lease::default_grace(HOLD).as_millis(),
            ticket: duty.ticket(),
        });
        started.map_err(|error| Failure::new(Exit::Usage, "warden", error.to_string(), "see what CMD is"))?;
        let outcome = inside.watch_over(&mut warden).await;
        let _ = context.coordinator.fences().leave(resource, &run).await;
        let _ = warden.dismiss().await;
        outcome
    }

    async fn show(&self, context: &Context) -> Result<Screen, Failure> {
        let resources = match &self.resource {
            Some(resource) => vec![resource.clone()],
            None => context.coordinator.fences().list().await?,
        };
        let (mut data, mut rows) = (Vec::new(), Vec::new());
        for resource in &resources {
            for entry in context.coordinator.fences().accepted(resource).await? {
                let mut object = json!(entry);
                object["resource"] = json!(resource);
                data.push(object);
                let agent = entry.agent.map_or("-".to_string(), |agent| agent.to_string());
                rows.push(vec![
                    resource.to_string(),
                    entry.seq.to_string(),
                    entry.token.to_string(),
                    agent,
                    entry.at.to_string(),
                    entry.note,
                ]);
            }
        }
        let location = context.coordinator.backend().location();
        let none = match &self.resource {
            Some(resource) => format!("nothing was accepted for {resource} at {location}"),
            None => format!("no resources at {location}"),
        };
        Ok(Screen::table(data, &["RESOURCE", "SEQ", "TOKEN", "AGENT", "AT", "NOTE"], &rows, none))
    }
}

/// An operator binds a resource, or frees it.
async fn change_binding(
    context: &Context,
    resource: &ResourceName,
    change: &FenceChange,
) -> Result<Screen, Failure> {
    let own = keys::load()?;
    let changed = context.coordinator.fences().bind(&own, resource, change).await;
    let fence = changed.map_err(|error| acts::failure(&error, &own))?;
    let (election, highest) = (&fence.election, fence.highest);
    let (outcome, text) = match change {
        FenceChange::Bind { .. } => {
            ("bound", format!("{resource} belongs to {election}; tokens from {highest} on pass"))
        }
        FenceChange::Free => ("freed", format!("{resource} is free for the next election that is named")),
    };
    let data = json!({"outcome": outcome, "resource": resource, "election": election, "highest": highest});
    Ok(Screen::new(data, text))
}

/// Why somebody is not let in. What holds a resource is a command, not a lease.
fn refused(error: &Error, resource: &ResourceName) -> Failure {
    let mut failure = Failure::from_error(error, Speaker::Guard);
    if let Error::Refused(Refusal::Held { epoch, .. }) = error {
        failure.message = at_it(resource, *epoch);
        failure.hint = Some(format!(
            "it ends by itself, or is over {HOLD} after its last sign of life; to wait longer: --wait DURATION"
        ));
    }
    failure
}

fn at_it(resource: &ResourceName, token: Epoch) -> String {
    format!("another command is at {resource}, with token {token}")
}

impl Admission<'_> {
    /// Until nothing of CMD is left, keeping the hold as long as the token is current. What the store is asked goes on beside the watch: a store that
    /// does not answer keeps no deadline and no word of the warden waiting.
    async fn watch_over(&mut self, warden: &mut WardenHandle) -> Outcome {
        let mut refused: Option<Failure> = None;
        let mut keeping: Option<HoldRenewal> = None;
        let mut beats = tokio::time::interval(std::time::Duration::from_nanos(HOLD.scaled(1, 3).as_nanos()));
        loop {
            tokio::select! {
                news = warden.next_report() => match news {
                    Ok(WardenEvent::Told(Report::Ended { how, .. })) => {
                        return refused.map_or(Ok(Exit::Command(how.exit_code())), Err);
                    }
                    Ok(WardenEvent::Told(_) | WardenEvent::Asked(_)) => {}
                    Ok(WardenEvent::Overdue | WardenEvent::Gone) | Err(_) => {
                        while warden.seize().await.is_err() {}
                        let lost = || Failure::new(Exit::Lost, "lost", "the warden was killed or stopped", "run it again");
                        return Err(refused.unwrap_or_else(lost));
                    }
                },
                _ = beats.tick(), if refused.is_none() && keeping.is_none() => keeping = Some(self.keep()),
                (asked_at, kept) = HoldRenewal::of(&mut keeping) => {
                    keeping = None;
                    match kept {
                        Ok(anew) => {
                            if anew {
                                self.admitted_at = asked_at;
                            }
                            let _ = warden.deadline(boot_time(Margins::STANDARD.deadline(asked_at, HOLD)));
                        }
                        Err(error @ Error::Refused(_)) => {
                            refused = Some(Failure::from_error(&error, Speaker::Guard));
                            let _ = warden.stop();
                        }
                        // The next beat tries again; the warden ends CMD if none comes through.
                        Err(_) => {}
                    }
                }
            }
        }
    }

    /// Keeps the hold once more. Without the lease it lasts a minute in all, so it is also asked for anew, early enough for several tries.
    fn keep(&self) -> HoldRenewal {
        let (coordinator, resource) = (self.context.coordinator.clone(), self.resource.clone());
        let (election, token, hold) = (self.election.clone(), self.token, self.hold);
        let (agent, note) = (self.agent.clone(), self.note.clone());
        let asked_at = boot::now();
        let runs_out =
            hold.lease.is_none() && asked_at >= self.admitted_at + MAX_HOLD_WITHOUT_LEASE.scaled(1, 2);
        let task = tokio::spawn(async move {
            coordinator.fences().keep(&resource, &election, &hold.credential).await?;
            if !runs_out {
                return Ok(false);
            }
            let (resource, agent) = (&resource, agent.as_ref());
            let entry = Entry { resource, token, agent, note: &note, hold: Some(hold) };
            Ok(coordinator.fences().admit(&entry, Some(&election)).await.is_ok())
        });
        HoldRenewal { asked_at, task }
    }
}

/// A sign of life on its way to the store. Dropped, it is given up. It tells whether the hold was also granted anew.
struct HoldRenewal {
    asked_at: Moment,
    task: JoinHandle<Result<bool, Error>>,
}

impl Drop for HoldRenewal {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl HoldRenewal {
    /// Waits for the answer, and says when it was asked for; for ever if there is none on its way.
    async fn of(keeping: &mut Option<HoldRenewal>) -> (Moment, Result<bool, Error>) {
        let Some(HoldRenewal { asked_at, task }) = keeping else { return std::future::pending().await };
        let kept = task.await.unwrap_or_else(|error| Err(Error::System(std::io::Error::other(error))));
        (*asked_at, kept)
    }
}
