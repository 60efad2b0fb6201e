//! The region under which a command leads: of the `baton run` around it, or by a lease in the state folder.
//!
//! A `baton run` writes beside its other files until when its lease may be used, on this machine's boot-time clock. A process under its CMD that
//! leads the election above reads that again and again, so that no deadline is later than the region's. What cannot be read leaves the last
//! deadline that was read, which then passes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton::election::region;
use baton::election::time::{Moment, Span};
use baton::election::{AgentName, Credential, ElectionName, Epoch, Incarnation};
use baton::store::boot::Boot;
use baton::store::{Access, boot};
use baton::{Coordinator, Leadership, Memory, Region, Validity};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::context::{AgentOption, Context, Global, HeldLease, followed, name, variable};
use crate::exit::Speaker;
use crate::output::Failure;
use crate::state_folder::{read_json, write_private};

/// How often what the surrounding run writes is read.
const LOOK: Duration = Duration::from_millis(100);

/// What CMD is told of a region, which what it runs under another region must not take for its own.
pub(crate) const VARIABLES: [&str; 4] =
    ["BATON_REGION", "BATON_REGION_STORE", "BATON_REGION_KEY_FILE", "BATON_REGION_TOKEN_FILE"];

/// How the lease of a `baton run` stands, for the processes under its CMD.
#[derive(Serialize, Deserialize)]
struct LeaseNote {
    election: ElectionName,
    incarnation: Incarnation,
    token: Epoch,
    /// When the work under it must have stopped, on the clock of `boot`.
    deadline: Moment,
    ttl_ms: u64,
    boot: String,
}

/// Notes how a lease stands. Best effort: who reads an older note stops earlier.
pub(crate) fn note(path: &Path, lead: &Leadership) {
    let Validity { token, deadline } = *lead.validity().borrow();
    let note = LeaseNote {
        election: lead.election().clone(),
        incarnation: lead.credential().incarnation,
        token,
        deadline,
        ttl_ms: lead.grant().lasts().as_millis(),
        boot: Boot::current().boot,
    };
    let _ = write_private(path, &serde_json::to_vec(&note).unwrap_or_default());
}

/// The `baton run` of a region around this process.
#[derive(Clone)]
pub(crate) struct RegionRun {
    region: ElectionName,
    store: String,
    coordinator: Coordinator,
    file: PathBuf,
}

impl RegionRun {
    /// That of a region of this election, led by this agent, if there is one.
    pub(crate) async fn of(
        context: &Context,
        global: &Global,
        election: &ElectionName,
        agent: &AgentName,
    ) -> Result<Option<RegionRun>, Failure> {
        let (Some(region), Some(file)) = (surrounding(election)?, variable("BATON_LEASE_FILE")) else {
            return Ok(None);
        };
        if variable("BATON_AGENT").as_deref() != Some(agent.as_str()) {
            return Ok(None);
        }
        let store = variable("BATON_STORE").unwrap_or_else(|| context.url.clone());
        let coordinator = in_store(context, global.store.as_ref().map(|_| store.as_str())).await?;
        Ok(Some(RegionRun { region, store, coordinator, file: PathBuf::from(file) }))
    }

    /// The region, once the run around leads it: it may be waiting to lead again.
    pub(crate) async fn led(&self) -> Region {
        loop {
            if let Some(region) = self.as_noted() {
                return region;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn as_noted(&self) -> Option<Region> {
        let note = self.read()?;
        let credential: Credential = followed("BATON_KEY")?.parse().ok()?;
        // The files are not written at once: a key of another leadership is not this one's.
        if credential.incarnation != note.incarnation || note.deadline <= boot::now() {
            return None;
        }
        let ttl = Span::millis(note.ttl_ms);
        let (teller, validity) = watch::channel(Validity { token: note.token, deadline: note.deadline });
        tokio::spawn(self.clone().follow(note.incarnation, teller));
        Some(Region::led(&self.coordinator, &self.region, credential, ttl, validity))
    }

    fn read(&self) -> Option<LeaseNote> {
        let note: LeaseNote = read_json(&self.file)?;
        (note.election == self.region && note.boot == Boot::current().boot).then_some(note)
    }

    /// Tells of every renewal of one leadership, as long as somebody listens.
    async fn follow(self, incarnation: Incarnation, teller: watch::Sender<Validity>) {
        while !teller.is_closed() {
            if let Some(note) = self.read().filter(|note| note.incarnation == incarnation) {
                let told = Validity { token: note.token, deadline: note.deadline };
                teller.send_if_modified(|validity| std::mem::replace(validity, told) != told);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What CMD is told of the region.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let of_run = [("KEY", "BATON_KEY_FILE"), ("TOKEN", "BATON_TOKEN_FILE")];
        let files = of_run
            .iter()
            .filter_map(|(what, file)| Some((format!("BATON_REGION_{what}_FILE"), variable(file)?)));
        let named = [("BATON_REGION", self.region.to_string()), ("BATON_REGION_STORE", self.store.clone())];
        named.map(|(name, value)| (name.to_string(), value)).into_iter().chain(files).collect()
    }
}

/// The region of this election whose `baton run` is around this process, if one is.
fn surrounding(election: &ElectionName) -> Result<Option<ElectionName>, Failure> {
    let Some(of) = variable("BATON_ELECTION") else { return Ok(None) };
    let of = name(ElectionName::new(&of))?;
    let leads = variable("BATON_KEY").is_some();
    Ok((leads && region::parent(&of).as_ref() == Some(election)).then_some(of))
}

/// A client of the store that a region is in.
async fn in_store(context: &Context, url: Option<&str>) -> Result<Coordinator, Failure> {
    match url.filter(|url| *url != context.url) {
        None => Ok(context.coordinator.clone()),
        Some(url) => Coordinator::connect_for(url, Access::Read, Memory::new())
            .await
            .map_err(|error| Failure::from_error(&error, Speaker::Candidate)),
    }
}

/// The region by whose lease a command without a process asks: the one that is named, else that of the run around it.
pub(crate) async fn named_or_around(
    context: &Context,
    named: Option<&ElectionName>,
    election: &ElectionName,
    who: &AgentOption,
) -> Result<Option<Region>, Failure> {
    // A caller that acts as another agent than the run around it does not lead by its lease.
    let same = who.agent.is_some() && who.agent == variable("BATON_AGENT");
    let around = surrounding(election)?.filter(|_| same);
    let Some(name) = named.or(around.as_ref()) else { return Ok(None) };
    region::check_name(election, name)
        .map_err(|refusal| Failure::from_error(&refusal.into(), Speaker::Candidate))?;
    let held = context.lease(name, who)?;
    Ok(Some(of_lease(context, name, &held).await?))
}

async fn of_lease(context: &Context, region: &ElectionName, held: &HeldLease) -> Result<Region, Failure> {
    let (deadline, ttl) = match &held.kept {
        Some(kept) => {
            let ttl = Span::millis(kept.ttl_ms);
            (kept.deadline().unwrap_or_default(), ttl)
        }
        None => {
            let note: Option<LeaseNote> =
                variable("BATON_LEASE_FILE").and_then(|file| read_json(Path::new(&file)));
            let note = note.filter(|note| note.incarnation == held.credential.incarnation);
            note.map_or((Moment::default(), Span::ZERO), |note| (note.deadline, Span::millis(note.ttl_ms)))
        }
    };
    let (_, validity) = watch::channel(Validity { token: held.epoch, deadline });
    // A lease of the run around is in the store of that, whichever this command names.
    let url = variable("BATON_STORE").filter(|_| held.kept.is_none());
    let coordinator = in_store(context, url.as_deref()).await?;
    Ok(Region::led(&coordinator, region, held.credential, ttl, validity))
}

/// What a renewal of this lease must show, if it is one under a region.
pub(crate) async fn of_held(
    context: &Context,
    election: &ElectionName,
    held: &HeldLease,
) -> Result<Option<Region>, Failure> {
    match &held.kept {
        Some(kept) => {
            let Some(name) = &kept.region else { return Ok(None) };
            let who = AgentOption { agent: Some(held.agent.to_string()) };
            let of_region = context.lease(name, &who)?;
            Ok(Some(of_lease(context, name, &of_region).await?))
        }
        // Under a `baton run`, whose lease this is.
        None => {
            let Some(name) = variable("BATON_REGION").and_then(|name| ElectionName::new(&name).ok()) else {
                return Ok(None);
            };
            let (key, token) = (followed("BATON_REGION_KEY"), followed("BATON_REGION_TOKEN"));
            let key = key.and_then(|key| key.parse::<Credential>().ok());
            let (Some(credential), Some(Ok(token))) = (key, token.map(|token| token.parse::<Epoch>())) else {
                return Ok(None);
            };
            if region::parent(&name).as_ref() != Some(election) {
                return Ok(None);
            }
            let coordinator = in_store(context, variable("BATON_REGION_STORE").as_deref()).await?;
            // The run around keeps the deadline.
            let (_, validity) = watch::channel(Validity { token, deadline: boot::now() });
            Ok(Some(Region::led(&coordinator, &name, credential, Span::ZERO, validity)))
        }
    }
}

/// Shared by the tasks of one run.
pub(crate) type EnclosingRegion = Option<Arc<RegionRun>>;
