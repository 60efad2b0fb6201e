//! What every command needs: the store, the agent, its lease key.

use baton::caller::KeptLease;
use baton::election::time::Span;
use baton::election::{AgentName, Credential, ElectionName, Epoch, Margins, Moment};
use baton::store::{Access, boot};
use baton::{Coordinator, Decides, DefaultStore, Error, Memory, Origin, default_store};
use clap::Args;

use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Output};
use crate::state_folder::StateFolder;

/// Options that every command has.
#[derive(Args, Clone, Debug)]
pub(crate) struct Global {
    /// The store: file:DIR, git:DIR?remote=R, etcd://… and others [default: $BATON_STORE, else the nearest .baton folder upwards]
    #[arg(long, global = true, value_name = "URL", help_heading = "Everywhere")]
    pub(crate) store: Option<String>,

    /// Print JSON, one object per line
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,

    /// Read the arguments as JSON, one object per line, from a file or - for stdin
    #[arg(long, global = true, value_name = "FILE", help_heading = "Everywhere")]
    pub(crate) input: Option<String>,
}

impl Global {
    /// The store that is meant.
    pub(crate) fn store(&self) -> Result<DefaultStore, Failure> {
        match &self.store {
            Some(url) => Ok(DefaultStore { url: url.clone(), origin: Origin::Named }),
            None => default_store().map_err(|error| Failure::from_error(&error.into(), Speaker::Candidate)),
        }
    }
}

/// For commands without a store: `--store` is not in their help, and refused instead of not heeded.
#[derive(Args, Clone, Debug)]
pub(crate) struct NoStore {
    #[arg(long, global = true, hide = true, value_name = "URL")]
    store: Option<String>,
}

impl NoStore {
    pub(crate) fn refuse(&self, command: &str) -> Result<(), Failure> {
        match self.store {
            Some(_) => Err(Failure::usage(format!("{command} uses no store"), "remove --store")),
            None => Ok(()),
        }
    }
}

/// The agent that acts.
#[derive(Args, Clone, Debug)]
pub(crate) struct AgentOption {
    /// The agent [default: $BATON_AGENT]
    #[arg(long = "as", value_name = "AGENT", env = "BATON_AGENT", hide_env = true)]
    pub(crate) agent: Option<String>,
}

impl AgentOption {
    pub(crate) fn agent(&self) -> Result<AgentName, Failure> {
        match self.agent.as_deref().filter(|agent| !agent.is_empty()) {
            Some(agent) => name(AgentName::new(agent)),
            None => Err(Failure::usage("no agent is named", "say who acts: --as AGENT, or set BATON_AGENT")),
        }
    }
}

/// A name, or the failure that says what is wrong with it.
pub(crate) fn name<T>(checked: Result<T, baton::election::InvalidName>) -> Result<T, Failure> {
    checked.map_err(|error| Failure::from_error(&Error::Name(error), Speaker::Candidate))
}

/// An open store, with this user's memory of it.
pub(crate) struct Context {
    pub(crate) coordinator: Coordinator,
    pub(crate) output: Output,
    pub(crate) url: String,
    pub(crate) origin: Origin,
    pub(crate) state: StateFolder,
    loaded: Memory,
}

impl Context {
    pub(crate) async fn open(global: &Global, access: Access) -> Result<Context, Failure> {
        let output = Output { json: global.json };
        let DefaultStore { url, origin } = global.store()?;
        refuse_memory(&url)?;
        if access == Access::Write && origin == Origin::Above {
            output.found_store(&url);
        }
        let fail = |error: Error| Failure::from_error(&error, Speaker::Candidate);
        let coordinator = Coordinator::connect_for(&url, access, Memory::new()).await.map_err(fail)?;
        let location = coordinator.backend().location();
        coordinator.when_made(move || output.made_store(&location));
        let state = StateFolder::of(&coordinator.backend().location())?;
        let loaded = state.memory();
        let coordinator = coordinator.remembering(loaded.clone());
        Ok(Context { coordinator, output, url, origin, state, loaded })
    }

    /// That there is nothing to be shown. A place that was mistyped does not look like an empty store.
    pub(crate) async fn no_elections(&self) -> String {
        match self.coordinator.info().await {
            Err(Error::Refused(refusal)) if self.coordinator.decides() != Decides::Store => {
                format!("no elections: {refusal} ({})", refusal.hint())
            }
            Ok(_) | Err(_) => format!("no elections in {}", self.coordinator.backend().location()),
        }
    }

    /// Keeps what was seen, so that the next call goes on counting.
    pub(crate) fn remember(&self) {
        let memory = self.coordinator.memory();
        if memory.differs_materially(&self.loaded) {
            self.state.keep_memory(&memory);
        }
    }

    /// Forgets a lease that was given back.
    pub(crate) fn forget(&self, election: &ElectionName, held: &HeldLease) {
        if let Some(kept) = &held.kept {
            self.state.leases().forget(election, &held.agent, kept);
        }
    }

    /// The lease that the caller holds: by `BATON_KEY` under `baton run`, else by the key in the state folder.
    pub(crate) fn lease(&self, election: &ElectionName, who: &AgentOption) -> Result<HeldLease, Failure> {
        // Who names another agent than the surrounding run's does not mean its lease.
        let named = who.agent.as_deref().filter(|agent| !agent.is_empty());
        if let Some(held) = inherited(election)?
            && named.is_none_or(|agent| agent == held.agent.as_str())
        {
            return Ok(held);
        }
        let agent = who.agent()?;
        match self.state.leases().held(election, &agent) {
            Some(kept) => {
                Ok(HeldLease { agent, credential: kept.credential, epoch: kept.epoch, kept: Some(kept) })
            }
            None => Err(Failure::new(
                Exit::Lost,
                "no-lease",
                format!("{agent} holds no lease of `{election}` that this user has the key of"),
                "get one with `baton acquire`; the key is in the state folder of the user that acquired",
            )),
        }
    }

    /// Keeps the lease of a caller that is not a process.
    pub(crate) fn keep(
        &self,
        election: &ElectionName,
        held: &HeldLease,
        epoch: Epoch,
        asked_at: Moment,
        ttl: Span,
    ) -> Result<(), Failure> {
        let Some(kept) = &held.kept else { return Ok(()) };
        Ok(self.state.leases().keep(election, &held.agent, &kept.renewed(epoch, ttl, asked_at))?)
    }
}

/// A lease that the caller can prove to hold.
pub(crate) struct HeldLease {
    pub(crate) agent: AgentName,
    pub(crate) credential: Credential,
    pub(crate) epoch: Epoch,
    /// As it lies in the state folder; none under `baton run`.
    pub(crate) kept: Option<KeptLease>,
}

impl HeldLease {
    /// What the store answers while the lease lasts; none if it ends first. A lease that has ended already, or whose end is not
    /// known, since a `baton run` keeps it, ends nothing.
    pub(crate) async fn while_it_lasts<T>(&self, asked: impl Future<Output = T>) -> Option<T> {
        let end = self.kept.as_ref().and_then(KeptLease::deadline);
        let Some(end) = end.filter(|end| *end > boot::now()) else { return Some(asked.await) };
        tokio::select! {
            answered = asked => Some(answered),
            _ = boot::sleep_until(end) => None,
        }
    }

    /// A lease is given back only after the work has stopped: under `baton run` that is after CMD, which asks here.
    pub(crate) fn refuse_while_cmd_runs(&self) -> Result<(), Failure> {
        if self.kept.is_some() {
            return Ok(());
        }
        Err(Failure::usage(
            format!("{} leads with a CMD that runs, and its lease is given back only after that", self.agent),
            "end CMD: `baton run` releases then; BATON_CHECKPOINT_FILE takes what the successor must know",
        ))
    }
}

/// How long a lease asked for at that moment may still be used.
pub(crate) fn usable_for(asked_at: Moment, ttl: Span) -> Span {
    Margins::STANDARD.deadline(asked_at, ttl).since(boot::now())
}

/// The same under a region, whose lease may end before.
pub(crate) fn usable_under(region: Option<&baton::Region>, asked_at: Moment, ttl: Span) -> Span {
    let own = usable_for(asked_at, ttl);
    region.map_or(own, |region| own.min(region.deadline().since(boot::now())))
}

/// The lease of the `baton run` that this command runs under, if it is of this election.
fn inherited(election: &ElectionName) -> Result<Option<HeldLease>, Failure> {
    let (Some(key), Some(agent)) = (followed("BATON_KEY"), variable("BATON_AGENT")) else { return Ok(None) };
    if variable("BATON_ELECTION").is_some_and(|of| of != election.as_str()) {
        return Ok(None);
    }
    let credential = key.parse().map_err(|error: String| {
        Failure::usage(format!("BATON_KEY is not a lease key: {error}"), "unset it")
    })?;
    let epoch = current_token(Some(election))?.ok_or_else(|| {
        Failure::usage("BATON_KEY is set without BATON_TOKEN", "unset it, or run under `baton run`")
    })?;
    Ok(Some(HeldLease { agent: name(AgentName::new(&agent))?, credential, epoch, kept: None }))
}

/// What `baton run` gave to CMD: as its file has it, which follows what becomes of the leadership, else as CMD began with it.
pub(crate) fn followed(name: &str) -> Option<String> {
    let file = std::env::var_os(format!("{name}_FILE")).and_then(|path| std::fs::read_to_string(path).ok());
    let text = file.or_else(|| std::env::var(name).ok())?;
    Some(text.trim().to_string()).filter(|text| !text.is_empty())
}

/// Whether the surrounding `baton run` has lost its lease and lets CMD go on.
fn is_read_only() -> bool {
    let mode = std::env::var_os("BATON_MODE_FILE").and_then(|path| std::fs::read_to_string(path).ok());
    mode.is_some_and(|mode| mode.trim() == "read-only")
}

pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The token of the surrounding `baton run`, if it leads this election: that of another is worth nothing here. The file
/// follows when it rises.
pub(crate) fn current_token(election: Option<&ElectionName>) -> Result<Option<Epoch>, Failure> {
    let of = variable("BATON_ELECTION");
    if of.is_some() && of.as_deref() != election.map(ElectionName::as_str) {
        return Ok(None);
    }
    let text = followed("BATON_TOKEN");
    match text.as_deref() {
        None if is_read_only() => Err(Failure::new(
            Exit::Lost,
            "lost",
            "CMD goes on read-only: it does not lead at the moment",
            "wait until $BATON_MODE_FILE says `leading`",
        )),
        None => Ok(None),
        Some(text) => match text.parse() {
            Ok(epoch) => Ok(Some(epoch)),
            Err(_) => Err(Failure::usage(format!("`{text}` is not a token"), "a token is a whole number")),
        },
    }
}

fn refuse_memory(url: &str) -> Result<(), Failure> {
    if url.starts_with("mem:") {
        return Err(Failure::usage(
            "the store mem: lives in one process and cannot serve a command",
            "use a folder: --store file:.baton",
        ));
    }
    Ok(())
}
