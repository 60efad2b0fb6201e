//! Several servers on one store: they elect the active one with Baton itself, in an election of that store.
//!
//! Assumes nothing but what a store guarantees. Guarantees that at most one server answers at a time, and that a server that stops in
//! order hands over at once. Does not guarantee an order among who waited in line: they stand in line anew at the next server.

use std::sync::Arc;
use std::time::Duration;

use baton::{Bid, Campaign, Coordinator, Leadership, Memory, Patience};
use baton_election::time::Span;
use baton_election::{AgentName, ElectionName, Epoch};
use baton_store::{Key, Store, StoreError};
use tokio::sync::watch;

use crate::engine::Engine;
use crate::http::{ActiveTerm, Register, Service, ServingRole};
use crate::options::Options;
use crate::own_lease::OwnLease;
use crate::tokens;
use crate::webhooks::{Deliveries, Receiver, Tell};

/// How long a server waits after it failed to become active.
const AFTER_A_FAILURE: Duration = Duration::from_secs(1);
/// How long a server that stops waits for its lease to be given back. Otherwise it runs out.
const RELEASE: Duration = Duration::from_secs(2);

/// How one of several servers takes part.
#[derive(Clone, Debug)]
pub struct Membership {
    /// Where clients and the other servers' redirects reach it: `http://HOST:PORT`.
    pub contact: String,
    /// The servers' own lease: how long nobody is active after the active one died.
    pub ttl: Span,
}

/// What becomes of a server among several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleChange {
    /// It is the active one, in this epoch of theirs.
    Active(Epoch),
    /// It is no longer, for this reason.
    Standby(String),
    /// It could not take part for a moment, for this reason.
    Failed(String),
}

/// What a server has whatever its turn.
pub(crate) struct ServerParts {
    pub(crate) serving: Arc<ServingRole>,
    pub(crate) place: String,
    pub(crate) register: Arc<Register>,
    pub(crate) options: Options,
}

/// The receivers that are told of changes of leader, and how.
pub(crate) struct Heralds {
    pub(crate) receivers: Vec<Receiver>,
    pub(crate) tell: Tell,
}

/// A server's part among several.
pub(crate) struct Cluster {
    store: Arc<dyn Store>,
    coordinator: Coordinator,
    election: ElectionName,
    bid: Bid,
    contact: Arc<str>,
    parts: ServerParts,
    /// The receivers that are told of changes of leader, while this server is the active one.
    pub(crate) heralds: Option<Heralds>,
    tell: Box<dyn Fn(RoleChange) + Send + Sync>,
}

impl Cluster {
    /// Takes part in the election of a store's servers. A store that cannot be read is refused.
    pub(crate) async fn join(
        store: Arc<dyn Store>,
        membership: Membership,
        parts: ServerParts,
        tell: Box<dyn Fn(RoleChange) + Send + Sync>,
    ) -> Result<Cluster, StoreError> {
        store.read(&Key::Store).await?;
        let named = |text: &str, error: baton_election::InvalidName| StoreError::Refused {
            place: text.to_string(),
            why: error.to_string(),
            hint: "this is a fault of the server".to_string(),
        };
        let name = name_of(&membership.contact);
        let agent = AgentName::new(&name).map_err(|error| named(&name, error))?;
        let election = ElectionName::new(baton::SERVERS).map_err(|error| named(baton::SERVERS, error))?;
        let Membership { contact, ttl } = membership;
        let task = Some("the active server of this store".to_string());
        let bid = Bid { ttl: Some(ttl), contact: Some(contact.clone()), task, ..Bid::new(agent) };
        let coordinator = Coordinator::with_store(Arc::clone(&store), Memory::new());
        Ok(Cluster { store, coordinator, election, bid, contact: contact.into(), parts, heralds: None, tell })
    }

    /// Takes its turns as the active one until it is to stop.
    pub(crate) async fn serve_terms(self, mut stop: watch::Receiver<bool>) {
        loop {
            let lead = tokio::select! {
                lead = self.stand_by() => lead,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            self.be_active(lead, &mut stop).await;
            if *stop.borrow() {
                return;
            }
        }
    }

    /// Waits until this server is the active one, and says meanwhile who is.
    async fn stand_by(&self) -> Leadership {
        let mut follower = self.coordinator.follow(&self.election).await;
        let mut campaign = std::pin::pin!(self.campaign());
        loop {
            let known = follower.leader();
            let active = known.contact.clone().filter(|contact| !known.vacant && *contact != self.contact);
            self.parts.serving.stand_by(active);
            tokio::select! {
                lead = campaign.as_mut() => return lead,
                _ = follower.changed() => {}
            }
        }
    }

    async fn campaign(&self) -> Leadership {
        loop {
            match self.coordinator.campaign(&self.election, Campaign::new(self.bid.clone())).await {
                Ok(lead) => return lead,
                Err(error) => (self.tell)(RoleChange::Failed(error.to_string())),
            }
            tokio::time::sleep(AFTER_A_FAILURE).await;
        }
    }

    /// Answers until its lease is lost, a later server has shown itself, or it is to stop.
    async fn be_active(&self, lead: Leadership, stop: &mut watch::Receiver<bool>) {
        let epoch = lead.token();
        // The leases of all elections count from here at the earliest: after the grant, before which no other server's lease ran.
        let engine = match self.take_over(epoch).await {
            Ok(engine) => engine,
            Err(error) => {
                (self.tell)(RoleChange::Failed(error.to_string()));
                let _ = tokio::time::timeout(RELEASE, lead.release(&error.to_string())).await;
                return tokio::time::sleep(AFTER_A_FAILURE).await;
            }
        };
        let ServerParts { place, register, options, .. } = &self.parts;
        let lead = Arc::new(lead);
        let own_lease = OwnLease::of(&lead);
        engine.only_while({
            let own_lease = OwnLease::of(&lead);
            move || own_lease.holds()
        });
        let service =
            Service::new(engine.clone(), own_lease, place.clone(), Arc::clone(register), options.clone());
        let term = Arc::new(ActiveTerm::new(service, lead));
        let _deliveries = self.heralds.as_ref().map(|Heralds { receivers, tell }| {
            Deliveries::start(&engine, term.alerts(), term.run(), receivers.clone(), tell)
        });
        self.parts.serving.begin(&term);
        (self.tell)(RoleChange::Active(epoch));
        let why = tokio::select! {
            why = term.lead.lost() => Some(why),
            () = engine.deposed() => Some("another server has taken over".to_string()),
            _ = stop.wait_for(|stop| *stop) => None,
        };
        self.parts.serving.end(&term);
        match why {
            Some(why) => (self.tell)(RoleChange::Standby(why)),
            None => self.hand_over(&term.lead).await,
        }
    }

    /// Begins a turn. The list of tokens is read anew: this server refuses a token that was revoked while
    /// another server was active.
    async fn take_over(&self, epoch: Epoch) -> Result<Engine, StoreError> {
        let engine = Engine::take_over(Arc::clone(&self.store), epoch).await?;
        tokens::refresh(&*self.store, &self.parts.register).await?;
        Ok(engine)
    }

    /// Gives the lease back: this server says nothing of elections any more.
    async fn hand_over(&self, lead: &Leadership) {
        let once = Patience { retries: Some(2), ..Patience::default() };
        let reason = Some("the server stops".to_string());
        let coordinator = self.coordinator.clone().patient(once);
        let released = coordinator.release(&self.election, lead.token(), lead.credential(), reason);
        let _ = tokio::time::timeout(RELEASE, released).await;
    }
}

/// A server's name in the election: where it is reached, in the letters that a name may have.
fn name_of(contact: &str) -> String {
    let host = contact.split_once("://").map_or(contact, |(_, host)| host).to_ascii_lowercase();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = host.chars().map(plain).take(56).collect();
    format!("server-{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contact_makes_a_name() {
        let longest = format!("https://{}:1", "long.".repeat(60));
        for contact in
            ["http://127.0.0.1:7420", "https://[::1]:7420", "http://Host.Example:1/", "x", &longest]
        {
            AgentName::new(&name_of(contact)).unwrap();
        }
        assert_eq!(name_of("http://127.0.0.1:7420"), "server-127-0-0-1-7420");
    }
}
