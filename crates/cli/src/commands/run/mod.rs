//! `baton run`: wait for the turn, then run CMD while leading, and only then.

pub(super) mod events;
mod files;
mod lead;
mod leadership;
pub(super) mod once_per;
mod output_relay;
mod read_only;
mod removal_rules;
pub(super) mod signals;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton::api::describe::Description;
use baton::election::lease;
use baton::election::time::Span;
use baton::election::{AgentName, Credential, ElectionName, Epoch};
use baton::store::Access;
use baton::toolbox::SlotRun;
use baton::{Bid, Campaign, Grant, Origin};
use baton_warden::{ChildRegistry, WardenHandle};
use clap::{Args, ValueEnum};
use tokio::sync::watch;

use crate::context::{Context, Global, name};
use crate::description::{DescribedAgent, DescriptionSource};
use crate::exit::{Exit, Speaker};
use crate::options::bid::BidOptions;
use crate::options::notify::NotifyOptions;
use crate::output::{Failure, Outcome};
use crate::region::{self, EnclosingRegion, RegionRun};
use crate::suspend;
use crate::warden_process::{self, CommandSetup, RunFolder};
use events::{EventPrinter, trouble};
use lead::Ending;
use once_per::{OncePer, SlotCheck};
use signals::Signals;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton run refactor-auth -- claude -p 'coordinate the refactoring'
  baton run nightly --once-per 1d -- ./nightly.sh                 from a timer on many machines
  baton run tidy --once -- ./tidy.sh                              after a loss, exit 4
  baton run deploy --ttl 10s --stall 5m --validate 'make check' -- ./deploy.sh

CMD gets the environment variables BATON_ELECTION, BATON_AGENT, BATON_TOKEN, BATON_TOKEN_FILE (updated when the token rises), BATON_KEY, \
BATON_KEY_FILE, BATON_LEASE_FILE (until when the lease may be used), BATON_MODE_FILE (`leading` or `read-only`), BATON_STORE, BATON_HANDOVER_FILE (what the \
predecessor left), BATON_CHECKPOINT_FILE (write here what the successor must know), BATON_PROGRESS_FILE \
(touch it to show progress) and, with --describe, BATON_DESCRIPTION_FILE.

Under the `baton run` of a region, such as fleet/eu, `baton run fleet -- CMD` leads fleet on behalf of that region, for as long as it also \
leads the region. CMD then also finds BATON_REGION.

At a terminal, CMD gets a terminal of its own: editors, shells and agents work as usual. Ctrl-C and changes of the window size reach CMD. A second \
Ctrl-C within a second ends CMD. Ctrl-Z ends a CMD that it would stop, and stops run until the shell continues it; a shell, \
and a program that reads keys itself, such as vim, keep the key. If stdin or stdout is no terminal, CMD inherits both.

When the leadership is lost, CMD and everything it started get SIGTERM, then SIGKILL, and are gone before \
the lease ends. Baton cannot do this while run and its warden are both stopped, or the machine is suspended; only fences protect then.

With --on-outage read-only, CMD keeps running when the lease cannot be renewed. Before the lease ends, the mode file says \
`read-only` and the token and key files are empty. CMD must watch the mode file and stop acting as leader within the \
grace period. When run gets the lease again, it writes the new token and key, and then the mode `leading`.")]
pub(crate) struct Run {
    /// The election
    election: ElectionName,
    /// The agent [default: $BATON_AGENT, else the host's name and this process's number]
    #[arg(long = "as", value_name = "AGENT", env = "BATON_AGENT", hide_env = true)]
    agent: Option<String>,
    #[command(flatten)]
    bid_options: BidOptions,
    /// The time from SIGTERM to SIGKILL, at most a third of the lease [default: min(5s, ttl/4)]
    #[arg(long, value_name = "DURATION")]
    grace: Option<Span>,
    /// How long to wait to become the leader [default: unlimited]
    #[arg(long, value_name = "DURATION")]
    wait: Option<Span>,
    /// Do not campaign again after a loss: exit 4
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    once_per: OncePer,
    /// When the lease cannot be renewed, because the store does not answer or run was suspended: stop CMD, or let it
    /// continue without leadership
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnOutage::Stop)]
    on_outage: OnOutage,
    /// A shell command that checks every checkpoint before it is published, and the work when CMD ends. An exit code other than
    /// 0 ends the leadership, and the last good checkpoint stays current
    #[arg(long, value_name = "CMD")]
    validate: Option<String>,
    /// Open a session at the server: follow the election and report CMD's CPU, memory and --describe file
    #[arg(long)]
    session: bool,
    /// A JSON file in which the agent describes itself, read every second; CMD gets its path in BATON_DESCRIPTION_FILE
    #[arg(long, value_name = "FILE")]
    describe: Option<PathBuf>,
    #[command(flatten)]
    notify: NotifyOptions,
    /// The command to run while leading
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// What becomes of CMD when its lease cannot be kept: it ends before the lease does, or goes on without leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnOutage {
    // No docs on these: they would spread the help of every option over several lines.
    Stop,
    ReadOnly,
}

/// What stays the same from one leadership to the next.
struct Runner<'a> {
    options: &'a Run,
    context: Context,
    bid: Bid,
    /// The run of a region around this one, if there is one.
    region: EnclosingRegion,
    events: EventPrinter,
    children: ChildRegistry,
    signals: Signals,
    store: String,
    /// The session that reports the agent's state, if there is one.
    described: Option<DescribedAgent>,
    /// The token of the last leadership, once there was one.
    led: Option<Epoch>,
    /// In which slots CMD runs, if in slots.
    slots: SlotCheck,
}

/// How the wait for the turn ended.
enum WaitEnd {
    /// It leads.
    Granted(Box<baton::Grant>),
    /// A signal ended it; the exit code that goes with it.
    AskedToStop(u8),
    /// The warden was killed; another is needed.
    WardenGone,
    /// Somebody else ran CMD in this slot.
    SlotOver(Box<SlotRun>),
}

impl Run {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let bid = self.bid_options.bid(&self.election, self.agent()?)?;
        self.check_grace(self.bid_options.ttl)?;
        warden_process::look_for_program(&self.command)?;
        let children = ChildRegistry::open()?;
        let signals = Signals::listen()?;
        let context = Context::open(global, Access::Write).await?;
        if context.origin == Origin::Here {
            context.output.found_store(&context.url);
        }
        self.notify.wait(&context.coordinator)?;
        let region = RegionRun::of(&context, global, &self.election, &bid.agent).await?.map(Arc::new);
        // Before the wait in line. The policy may change meanwhile: the grant is judged again.
        let look = tokio::time::timeout(LOOK, context.coordinator.view(&self.election)).await;
        let document = look.ok().and_then(Result::ok).and_then(|view| view.document);
        let policy = document.map(|document| (*document.policy).clone()).unwrap_or_default();
        if self.grace.is_some() && self.bid_options.ttl.is_none() {
            self.check_grace(Some(policy.ttl))?;
        }
        if policy.regions && region.is_none() {
            return Err(no_region(&self.election, &bid.agent));
        }
        let slots = SlotCheck::new(&context, &self.election, self.once_per.rule(&context)?);
        let store = warden_process::absolute_store(&context.coordinator, &context.url);
        let events = EventPrinter::new(context.output, &self.election, &bid.agent)?;
        let described = self.attend(&context, &bid)?;
        let mut runner = Runner {
            options: self,
            context,
            bid,
            region,
            events,
            children,
            signals,
            store,
            described,
            led: None,
            slots,
        };
        let outcome = runner.run().await;
        runner.context.remember();
        if let Some(described) = runner.described.take() {
            described.end().await;
        }
        runner.events.finish();
        outcome
    }

    /// Begins to tell how the agent is, if that was asked for.
    fn attend(&self, context: &Context, bid: &Bid) -> Result<Option<DescribedAgent>, Failure> {
        if !self.session && self.describe.is_none() {
            return Ok(None);
        }
        let source = DescriptionSource {
            file: self.description_file()?,
            measures: self.session,
            capabilities: bid.capabilities.clone(),
            output: context.output,
        };
        DescribedAgent::begin(&context.coordinator, &bid.agent, &self.election, source, self.session)
            .map(Some)
    }

    /// Where the agent describes itself: CMD may be elsewhere.
    fn description_file(&self) -> Result<Option<PathBuf>, Failure> {
        Ok(self.describe.as_ref().map(std::path::absolute).transpose()?)
    }

    fn agent(&self) -> Result<AgentName, Failure> {
        match self.agent.as_deref().filter(|agent| !agent.is_empty()) {
            Some(agent) => name(AgentName::new(agent)),
            None => Ok(default_agent()),
        }
    }

    /// The grace must leave most of the lease to work in.
    fn check_grace(&self, ttl: Option<Span>) -> Result<(), Failure> {
        match (self.grace, ttl) {
            (Some(grace), Some(ttl)) if grace > lease::max_grace(ttl) => Err(Failure::usage(
                format!("a grace of {grace} is over a third of the lease of {ttl}"),
                format!("use at most {}, or a longer --ttl", lease::max_grace(ttl)),
            )),
            (_, _) => Ok(()),
        }
    }
}

/// Whether a leadership without progress is ended, by its own limit or by the policy's.
fn must_progress(grant: &baton::Grant) -> bool {
    grant.document.leader.as_ref().is_some_and(|leader| leader.limits.stall.is_some())
}

/// Why an election is not led from here.
fn no_region(election: &ElectionName, agent: &AgentName) -> Failure {
    Failure::new(
        Exit::Held,
        "not-eligible",
        format!("only who leads a region of `{election}` may lead it, and {agent} leads none here"),
        format!("run it under a region: baton run {election}/eu -- sh -c 'baton run {election} -- CMD'"),
    )
}

/// How long it may take to find out what is only said, or checked early: the policy, for how long others go first.
const LOOK: Duration = Duration::from_secs(1);

/// How long a request that nobody waits for any more may still be on its way to the store.
const IN_FLIGHT: Duration = Duration::from_millis(100);

/// The host's name and this process's number, as far as a name can hold them.
fn default_agent() -> AgentName {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain: String = host.trim().chars().filter(char::is_ascii_alphanumeric).take(40).collect();
    let number = std::process::id();
    let text = format!("{}-{number}", plain.to_lowercase());
    AgentName::new(text.trim_start_matches('-')).unwrap_or_else(|_| unreachable!("`{text}` is a plain name"))
}

/// Until something else fails of what the agent depends on; for ever if nobody tells.
async fn fails_otherwise(said: &mut Option<watch::Receiver<Description>>, fails: &BTreeSet<String>) {
    let Some(said) = said else { return std::future::pending().await };
    if said.wait_for(|said| said.failing() != *fails).await.is_err() {
        std::future::pending().await
    }
}

impl Runner<'_> {
    async fn run(&mut self) -> Outcome {
        loop {
            if let Some(over) = self.slots.over().await? {
                return self.tell_over(&over);
            }
            let folder = RunFolder::make()?;
            let heard = self.options.bid_options.stall.is_some();
            let mut warden = self.prepare(&folder, heard).await?;
            let grant = match self.campaign(&mut warden).await? {
                WaitEnd::Granted(grant) => *grant,
                WaitEnd::WardenGone => continue,
                WaitEnd::AskedToStop(code) => return self.stop_waiting(warden, code).await,
                WaitEnd::SlotOver(over) => {
                    let _ = warden.dismiss().await;
                    return self.tell_over(&over);
                }
            };
            if let Err(failure) = self.options.check_grace(Some(grant.lasts())) {
                self.give_back(grant.credential, "the grace does not fit the lease").await;
                let _ = warden.dismiss().await;
                return Err(failure);
            }
            let (folder, warden) = if heard || !must_progress(&grant) {
                (folder, warden)
            } else {
                // The policy ends a leader without progress: CMD's output must be heard. A warden takes its folder along.
                let _ = warden.dismiss().await;
                let folder = RunFolder::make()?;
                let warden = self.prepare(&folder, true).await?;
                (folder, warden)
            };
            if let Some(code) = self.signals.asked() {
                self.give_back(grant.credential, "asked to stop before CMD was run").await;
                return self.stop_waiting(warden, code).await;
            }
            self.led = Some(grant.epoch);
            match self.lead(&folder, warden, grant).await? {
                Ending::Finished(code) => return Ok(Exit::Command(code)),
                Ending::NotRun(exit) => return Ok(exit),
                Ending::Suspended => {
                    if let Some(exit) = self.suspend().await? {
                        return Ok(exit);
                    }
                }
                Ending::Lost(why) => {
                    let once = self.options.once || self.slots.ends_with_a_loss();
                    // Then a person is told by the failure; a program gets the event too.
                    if !once || self.context.output.json {
                        self.events.tell("lost", None, &format!("lost the leadership: {why}"))?;
                    }
                    if once {
                        return Err(self.lost_for_good(&why));
                    }
                    if let Some(code) = self.signals.asked() {
                        self.events.tell("stopped", None, "asked to stop; it does not campaign again")?;
                        return Ok(Exit::Command(code));
                    }
                }
            }
        }
    }

    /// The leadership was lost, and it does not campaign again.
    fn lost_for_good(&self, why: &str) -> Failure {
        let hint = match self.options.once {
            true => "without --once it would campaign again",
            false => "the slot is marked, and not run again; with --retry-failed it would be",
        };
        let text = format!("{} lost the leadership of {}: {why}", self.bid.agent, self.options.election);
        Failure::new(Exit::Lost, "lost", text, hint)
    }

    async fn prepare(&self, folder: &RunFolder, heard: bool) -> Result<WardenHandle, Failure> {
        let given = CommandSetup { heard, terminal: true, hidden: &region::VARIABLES };
        warden_process::prepare(self.children, folder, given).await
    }

    /// Ctrl-Z ended CMD and freed the election: waits for the shell, if there is one, and then campaigns again.
    async fn suspend(&mut self) -> Result<Option<Exit>, Failure> {
        if self.options.once || self.slots.ends_with_a_loss() {
            return Err(self.lost_for_good("Ctrl-Z ended CMD"));
        }
        let text = "Ctrl-Z ended CMD; it campaigns again once the shell continues it";
        self.events.tell("suspended", None, text)?;
        self.events.finish();
        let continued = suspend::until_continued().await?;
        Ok((!continued).then_some(Exit::Command(suspend::SUSPENDED)))
    }

    /// A signal came before CMD was run, or run again.
    async fn stop_waiting(&self, warden: WardenHandle, code: u8) -> Outcome {
        let _ = warden.dismiss().await;
        let text = match self.led {
            None => "stopped while waiting; CMD was not run".to_string(),
            Some(token) => format!("stopped while waiting; CMD was not run again after token {token}"),
        };
        self.events.tell("stopped", None, &text)?;
        Ok(Exit::Command(code))
    }

    /// Gives back what was granted to this credential, if anything: the answer to a swap in flight may have been lost. Nothing
    /// was done under it; if this fails, it runs out.
    fn give_back(&self, credential: Credential, reason: &str) -> impl Future<Output = ()> + Send + use<> {
        let (coordinator, election) = (self.context.coordinator.clone(), self.options.election.clone());
        let reason = reason.to_string();
        async move {
            let _ = coordinator.give_up(&election, credential, &reason).await;
            // What was on its way when the wait was broken off may have arrived just after that look.
            tokio::time::sleep(IN_FLIGHT).await;
            let _ = coordinator.give_up(&election, credential, &reason).await;
        }
    }

    /// How long others go first, if the last leadership was ended for a fault. A store that does not say so at once is not waited
    /// for: it is only said.
    async fn others_go_first(&self) -> Option<String> {
        self.led?;
        let look = self.context.coordinator.view(&self.options.election);
        let view = tokio::time::timeout(LOOK, look).await.ok()?.ok()?;
        let document = view.document?;
        let left = document.others_first().minus(document.vacancy(view.age));
        let passed_over = document.passed_over.as_ref() == Some(&self.bid.agent) && left > Span::ZERO;
        passed_over
            .then(|| format!("; others go first for {left}, since its last leadership was ended for a fault"))
    }

    /// Waits in line; under a region, once that is led.
    fn turn(
        &self,
        wait: Option<Span>,
        credential: Credential,
    ) -> impl Future<Output = Result<Grant, baton::Error>> + Send + use<> {
        let (coordinator, election) = (self.context.coordinator.clone(), self.options.election.clone());
        let (mut bid, region_run, tell) = (self.bid.clone(), self.region.clone(), self.events.standby());
        if let Some(described) = &self.described {
            bid.failing.extend(described.said().borrow().failing());
        }
        async move {
            let region = match region_run {
                Some(region_run) => Some(region_run.led().await),
                None => None,
            };
            let campaign = Campaign { bid: Bid { region, ..bid }, wait };
            coordinator.wait_for_grant_telling(&election, &campaign, credential, &tell).await
        }
    }

    /// Waits for the turn.
    async fn campaign(&mut self, warden: &mut WardenHandle) -> Result<WaitEnd, Failure> {
        let mut said = self.described.as_ref().map(DescribedAgent::said);
        let fail = |error: baton::Error| Failure::from_error(&error, Speaker::Candidate);
        let coordinator = self.context.coordinator.clone();
        let election = self.options.election.clone();
        loop {
            if let Some(code) = self.signals.asked() {
                return Ok(WaitEnd::AskedToStop(code));
            }
            let credential = baton::mint_credential().map_err(fail)?;
            let fails = said.as_mut().map(|said| said.borrow_and_update().failing()).unwrap_or_default();
            // Otherwise the campaign tells whom it waits for, once it knows that it must.
            if let Some(others) = self.others_go_first().await {
                let text = format!("{} waits to lead {election}{others}", self.bid.agent);
                self.events.tell("waiting", None, &text)?;
            }
            let (turn, events) = (self.turn(self.options.wait, credential), self.events.clone());
            let granted = tokio::select! {
                // A signal that came first is heeded first: nothing is taken after it.
                biased;
                code = self.signals.next() => {
                    self.give_back(credential, "the wait for it was broken off").await;
                    return Ok(WaitEnd::AskedToStop(code));
                }
                over = self.slots.over_meanwhile() => {
                    self.give_back(credential, "the slot was run by another").await;
                    return Ok(WaitEnd::SlotOver(Box::new(over?)));
                }
                _ = warden.next_report() => {
                    self.give_back(credential, "the wait for it was broken off").await;
                    return Ok(WaitEnd::WardenGone);
                }
                () = fails_otherwise(&mut said, &fails) => {
                    // It asks anew, with what fails by now.
                    self.give_back(credential, "what it depends on fares otherwise").await;
                    continue;
                }
                granted = turn => granted,
                never = trouble(&coordinator, &events) => match never {},
            };
            match granted {
                // Granted and lost again before it could know of it.
                Err(baton::Error::Refused(baton::election::Refusal::Stale { .. })) => {}
                // The region was lost meanwhile, and may be led again.
                Err(baton::Error::Lost(_)) if self.region.is_some() => {}
                granted => return granted.map(|grant| WaitEnd::Granted(Box::new(grant))).map_err(fail),
            }
        }
    }
}
