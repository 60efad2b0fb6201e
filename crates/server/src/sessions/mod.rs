//! Agents that are known to be there: one heartbeat renews all their leases, and followers say what they know.
//!
//! Assumes an engine. Guarantees that a heartbeat renews each lease that rides on its session by the engine's own decision, so that
//! nothing is held longer, or by another, than a renewal of its own would hold it; that what was lost is named until it is dropped; and
//! that a session is not forgotten for a stall of the server. Does not survive a restart: sessions are announced anew, and until
//! then their leases run on by themselves.

mod claims;
mod follow;
mod heartbeat;
mod load;
mod participation;
mod suspects;
mod suspicion;
mod usage;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use baton_api::describe::{Description, SUSPECT, Suspicion};
use baton_api::sessions::{
    Announce, EndSession, EndSessionResponse, HeartbeatReply, MAX_FOLLOWS, MAX_UNKNOWN_FOLLOWS, SessionView,
};
use baton_election::time::{Moment, Span};
use baton_election::{AgentName, Credential, ElectionName, Epoch, Incarnation, KeyHash, Refusal, TokenId};
use baton_store::StoreError;
use serde_json::Value;
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;

use crate::engine::Engine;
use load::Load;
pub(crate) use participation::Attendance;
use suspicion::Arrivals;
use usage::{Announcer, AnnouncerUsage};

/// The most sessions at once.
const MAX_SESSIONS: usize = 50_000;
/// How many are shown before others get a turn.
const SHOWN_AT_ONCE: usize = 64;
/// How many that ended are remembered, for those who wait for them.
const ENDED: usize = 1_000;
/// How often those that were not heard of are looked for. Until then they count as gone all the same.
const SWEEP: Duration = Duration::from_secs(5);

/// Why a session was not served.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It is not known: it was never announced, has ended, or the server was started anew.
    NoSuchSession,
    /// What it asks for makes no sense, or is another's.
    Refused(Refusal),
    /// There are too many.
    TooMany,
    /// One has too many.
    TooManyOfOne,
    /// The store failed.
    Store(StoreError),
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Trouble {
        Trouble::Refused(refusal)
    }
}

/// What one announcer may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLimits {
    pub(crate) sessions: usize,
    /// Elections that its sessions follow, each once for each session.
    pub(crate) follows: usize,
}

/// All sessions of one server.
pub(crate) struct Sessions {
    engine: Engine,
    /// What one announcer may have.
    most: SessionLimits,
    state: Mutex<State>,
    /// Counts acknowledgements, and sessions that ended.
    heard: watch::Sender<u64>,
    load: Load,
    /// Counts announcements, heartbeats and ends.
    pulse: AtomicU64,
    /// Tells this run of the server from others, in the numbers of events.
    run: String,
    tasks: Mutex<Vec<AbortHandle>>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<Incarnation, Session>,
    usage: AnnouncerUsage,
    followed: HashMap<ElectionName, FollowedElection>,
    /// Counts how often a session began to follow more.
    changes: u64,
    /// Who ended its session lately, and is not waited for.
    ended: VecDeque<Incarnation>,
}

/// One session.
struct Session {
    agent: AgentName,
    key_hash: KeyHash,
    /// With which access token it was announced. What was allowed to that one is not checked again, so that nobody goes on with another.
    by: Option<TokenId>,
    /// By whom it is counted.
    announcer: Announcer,
    /// Of its last request.
    number: u64,
    announced: Moment,
    /// When it was last heard of.
    beat: Moment,
    /// How long it may be silent: what it was told, and what it was told before that, in case it did not hear.
    lasts: Span,
    told: Span,
    rides: HashMap<ElectionName, LeaseEntry>,
    follows: BTreeSet<ElectionName>,
    /// Tells what it was told before it followed more from what it was told since.
    follows_since: u64,
    /// Up to which event it knows everything.
    acknowledged: Option<u64>,
    /// Counts what there is to tell it.
    news: watch::Sender<u64>,
    health: Option<Value>,
    progress: Option<Value>,
    description: Option<Description>,
    /// When it was heard of, lately.
    arrivals: Arrivals,
    /// What it says that it leads.
    avowals: Vec<claims::StandingClaim>,
}

/// A lease that rides on a session.
#[derive(Clone, Debug)]
struct LeaseEntry {
    token: Epoch,
    incarnation: Incarnation,
    /// How long it lasts after each renewal, once that is known.
    ttl: Option<Span>,
    /// Why it is lost, if it is.
    lost: Option<String>,
}

/// An election that is followed.
struct FollowedElection {
    /// Its last event.
    latest: u64,
    /// Something happened to it, so there is one.
    exists: bool,
    by: HashSet<Incarnation>,
    /// How many sessions know of its last change of leader, and how many should.
    round: Option<participation::NotificationRound>,
}

impl Drop for Sessions {
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Sessions {
    /// None yet, and of each announcer so many at most. The tasks that this starts end with it.
    pub(crate) fn start(engine: Engine, run: String, most: SessionLimits) -> Arc<Sessions> {
        let changes = engine.changes();
        let sessions = Arc::new(Sessions {
            engine,
            most,
            state: Mutex::default(),
            heard: watch::Sender::new(0),
            load: Load::default(),
            pulse: AtomicU64::new(0),
            run,
            tasks: Mutex::default(),
        });
        let weak = Arc::downgrade(&sessions);
        let tasks = [
            tokio::spawn(pass_on(weak.clone(), changes)).abort_handle(),
            tokio::spawn(sweep(weak.clone())).abort_handle(),
            tokio::spawn(participation::open_all(
                weak.clone(),
                participation::changes_of_leader(&sessions.engine),
            ))
            .abort_handle(),
            tokio::spawn(load::measure(weak)).abort_handle(),
        ];
        sessions.tasks.lock().unwrap_or_else(PoisonError::into_inner).extend(tasks);
        sessions
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rises when there is something else to show of the sessions.
    pub(crate) fn pulse(&self) -> u64 {
        self.pulse.load(Ordering::Relaxed)
    }

    fn touch(&self) {
        self.pulse.fetch_add(1, Ordering::Relaxed);
    }

    /// Whose elections they take part in.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Whether a session is known, alive or not.
    pub(crate) fn knows(&self, incarnation: Incarnation) -> bool {
        self.state().sessions.contains_key(&incarnation)
    }

    /// An agent says that it is there, and what rides on its session. The bounds on the number of sessions
    /// never refuse a session that is known.
    pub(crate) async fn announce(
        &self,
        announce: Announce,
        by: Option<TokenId>,
    ) -> Result<HeartbeatReply, Trouble> {
        let Announce { agent, credential, number, follows, leases } = announce;
        let follows = checked_follows(follows)?;
        heartbeat::check_number(leases.len())?;
        let unfollowed = {
            let mut state = self.state();
            let now = self.engine.moment();
            let announcer = Announcer::of(by, &agent);
            let full = state.sessions.len() >= MAX_SESSIONS;
            let too_many = state.usage.sessions(&announcer) >= self.most.sessions;
            match state.sessions.get_mut(&credential.incarnation) {
                Some(known) if !credential.key.opens(&known.key_hash) => return Err(wrong_key().into()),
                Some(known) => {
                    known.in_turn(number)?;
                    known.agent = agent;
                    known.heard(&self.engine);
                    known.rides.clear();
                }
                None if full => return Err(Trouble::TooMany),
                None if too_many => return Err(Trouble::TooManyOfOne),
                None => {
                    let session = Session::new(agent, announcer.clone(), credential.key.hash(), now);
                    state.sessions.insert(credential.incarnation, session);
                    state.usage.add(announcer.clone(), 0);
                }
            }
            state.count_for(credential.incarnation, announcer);
            let unfollowed = self.follow(&mut state, credential.incarnation, follows);
            let session = state.sessions.get_mut(&credential.incarnation).ok_or(Trouble::NoSuchSession)?;
            session.in_turn(number)?;
            session.by = by;
            session.take_on(leases)?;
            unfollowed
        };
        self.touch();
        Ok(HeartbeatReply { unfollowed, ..self.renew_all(credential, by).await? })
    }

    /// From here on a session follows these, and is told how all of them stand if some are new. Returns those that it may not follow. Of an election
    /// that is not known to exist nothing but its name can be kept, so that a session has few of those.
    fn follow(
        &self,
        state: &mut State,
        incarnation: Incarnation,
        mut follows: BTreeSet<ElectionName>,
    ) -> Vec<ElectionName> {
        let Some(session) = state.sessions.get(&incarnation) else { return Vec::new() };
        let (announcer, before) = (session.announcer.clone(), session.follows.clone());
        let left: Vec<ElectionName> = before.difference(&follows).cloned().collect();
        let kept = before.len() - left.len();
        let others = state.usage.follows(&announcer) - before.len();
        let mut room = self.most.follows.saturating_sub(others + kept);
        let unknown = follows.intersection(&before).filter(|election| !self.knows_of(state, election));
        let mut unknown_room = MAX_UNKNOWN_FOLLOWS.saturating_sub(unknown.count());
        let (mut new, mut unfollowed) = (Vec::new(), Vec::new());
        for election in follows.difference(&before) {
            let known = self.knows_of(state, election);
            if room == 0 || !known && unknown_room == 0 {
                unfollowed.push(election.clone());
                continue;
            }
            room -= 1;
            unknown_room -= usize::from(!known);
            new.push(election.clone());
        }
        for election in &unfollowed {
            follows.remove(election);
        }
        state.usage.change_follows(&announcer, before.len(), follows.len());
        let Some(session) = state.sessions.get_mut(&incarnation) else { return unfollowed };
        session.follows = follows;
        if !new.is_empty() {
            state.changes += 1;
            (session.follows_since, session.acknowledged) = (state.changes, None);
            session.news.send_modify(|count| *count += 1);
        }
        self.excuse(state, incarnation, &left);
        left.iter().for_each(|election| state.unfollow(incarnation, election));
        for election in new {
            let followed = state.followed.entry(election);
            let followed = followed.or_insert_with(|| FollowedElection {
                latest: self.engine.follow(),
                exists: false,
                by: HashSet::new(),
                round: None,
            });
            followed.by.insert(incarnation);
        }
        unfollowed
    }

    /// Whether an election is known to exist. The store is not asked: a heartbeat must not wait for it.
    fn knows_of(&self, state: &State, election: &ElectionName) -> bool {
        state.followed.get(election).is_some_and(|followed| followed.exists)
            || self.engine.census().knows(election)
    }

    /// Ends a session. Its leases are released if the work under them has stopped.
    pub(crate) async fn end(
        &self,
        end: &EndSession,
        by: Option<TokenId>,
    ) -> Result<EndSessionResponse, Trouble> {
        let ended = {
            let mut state = self.state();
            self.alive(&mut state, &end.credential, by)?;
            if state.ended.len() == ENDED {
                state.ended.pop_front();
            }
            state.ended.push_back(end.credential.incarnation);
            let session = state.sessions.get(&end.credential.incarnation);
            let follows = session.map(|session| session.follows.clone()).unwrap_or_default();
            self.excuse(&mut state, end.credential.incarnation, &follows);
            state.remove(end.credential.incarnation).ok_or(Trouble::NoSuchSession)?
        };
        self.touch();
        self.heard.send_modify(|count| *count += 1);
        match end.stopped {
            true => Ok(self.release_all(ended.rides, end.credential.key).await),
            false => Ok(EndSessionResponse::default()),
        }
    }

    /// All of them, by their agents' names, the oldest of an agent first.
    pub(crate) async fn shown(&self) -> Vec<SessionView> {
        let known: Vec<Incarnation> = self.state().sessions.keys().copied().collect();
        let mut shown = Vec::with_capacity(known.len());
        // Heartbeats need the same lock, and other requests the thread.
        for some in known.chunks(SHOWN_AT_ONCE) {
            {
                let state = self.state();
                let some = some.iter().filter_map(|incarnation| state.sessions.get(incarnation));
                shown.extend(some.filter(|session| self.is_alive(session)).map(|session| self.show(session)));
            }
            tokio::task::yield_now().await;
        }
        shown.sort_by(|a, b| (&a.agent, b.age_ms).cmp(&(&b.agent, a.age_ms)));
        shown
    }

    fn show(&self, session: &Session) -> SessionView {
        let leases = session.rides.values().filter(|ride| ride.lost.is_none()).count();
        SessionView {
            agent: session.agent.clone(),
            age_ms: self.engine.moment().since(session.announced).as_millis(),
            silent_ms: self.engine.age(session.beat).as_millis(),
            lasts_ms: session.lasts.as_millis(),
            follows: session.follows.iter().cloned().collect(),
            leases: leases as u64,
            health: session.health.clone(),
            progress: session.progress.clone(),
            description: session.description.clone(),
            suspicion: self.suspicion(session),
            leads: session.avowals.iter().map(claims::StandingClaim::shown).collect(),
        }
    }

    /// The suspicion level (φ) of an agent: for people only.
    fn suspicion(&self, session: &Session) -> Suspicion {
        session.arrivals.suspicion(self.engine.age(session.beat), suspects::asked(session))
    }

    /// The same of each of these agents that has a session; of one with several, of the one that was heard of best.
    pub(crate) fn suspicions(&self, of: impl Fn(&AgentName) -> bool) -> HashMap<AgentName, Suspicion> {
        let state = self.state();
        let mut all: HashMap<AgentName, Suspicion> = HashMap::new();
        let those = state.sessions.values().filter(|session| of(&session.agent) && self.is_alive(session));
        for session in those {
            let suspicion = self.suspicion(session);
            let least = all.entry(session.agent.clone()).or_insert(suspicion);
            *least = suspicion.min(*least);
        }
        all
    }

    /// How many of those that are not forgotten yet are suspected to be gone.
    pub(crate) fn suspected(&self) -> u64 {
        let state = self.state();
        let suspected = |session: &&Session| self.is_alive(session) && self.suspicion(session) >= SUSPECT;
        state.sessions.values().filter(suspected).count() as u64
    }

    fn is_alive(&self, session: &Session) -> bool {
        self.engine.age(session.beat) < session.lasts
    }

    /// The session of this credential, if it is known, was heard of in time, and is spoken for with the token that announced it.
    fn alive<'a>(
        &self,
        state: &'a mut State,
        credential: &Credential,
        by: Option<TokenId>,
    ) -> Result<&'a mut Session, Trouble> {
        let known = state.sessions.get(&credential.incarnation).ok_or(Trouble::NoSuchSession)?;
        if !credential.key.opens(&known.key_hash) {
            return Err(wrong_key().into());
        }
        if known.by != by {
            return Err(Trouble::NoSuchSession);
        }
        if !self.is_alive(known) {
            state.remove(credential.incarnation);
            return Err(Trouble::NoSuchSession);
        }
        state.sessions.get_mut(&credential.incarnation).ok_or(Trouble::NoSuchSession)
    }
}

impl Session {
    fn new(agent: AgentName, announcer: Announcer, key_hash: KeyHash, now: Moment) -> Session {
        Session {
            agent,
            key_hash,
            by: None,
            announcer,
            number: 0,
            announced: now,
            beat: now,
            lasts: load::LONGEST,
            told: Span::ZERO,
            rides: HashMap::new(),
            follows: BTreeSet::new(),
            follows_since: 0,
            acknowledged: None,
            news: watch::Sender::new(0),
            health: None,
            progress: None,
            description: None,
            arrivals: Arrivals::new(),
            avowals: Vec::new(),
        }
    }
}

impl Session {
    /// It lives.
    fn heard(&mut self, engine: &Engine) {
        self.arrivals.heard(engine.age(self.beat));
        self.beat = engine.moment();
    }

    /// Refuses a request that was overtaken by a later one: what it says of the leases is not so any more.
    fn in_turn(&mut self, number: u64) -> Result<(), Refusal> {
        if number < self.number {
            return Err(Refusal::invalid(
                "a later request of this session was served before",
                "number requests in the order in which they are sent",
            ));
        }
        self.number = number;
        Ok(())
    }
}

impl State {
    fn remove(&mut self, incarnation: Incarnation) -> Option<Session> {
        let session = self.sessions.remove(&incarnation)?;
        self.usage.take_away(&session.announcer, session.follows.len());
        session.follows.iter().for_each(|election| self.unfollow(incarnation, election));
        Some(session)
    }

    /// From here on a session counts for this one.
    fn count_for(&mut self, incarnation: Incarnation, announcer: Announcer) {
        let Some(session) = self.sessions.get_mut(&incarnation) else { return };
        self.usage.take_away(&session.announcer, session.follows.len());
        session.announcer = announcer.clone();
        self.usage.add(announcer, session.follows.len());
    }

    fn unfollow(&mut self, incarnation: Incarnation, election: &ElectionName) {
        let full = self.followed.len() > participation::UNANSWERED;
        let Some(followed) = self.followed.get_mut(election) else { return };
        followed.by.remove(&incarnation);
        // Who fell silent before it answered is missed, though nobody follows any more.
        let missed = followed.round.as_ref().is_some_and(|round| !round.is_answered());
        if followed.by.is_empty() && (full || !missed) {
            self.followed.remove(election);
        }
    }
}

fn wrong_key() -> Refusal {
    Refusal::WrongKey { why: "the key does not fit this session".to_string() }
}

fn checked_follows(follows: Vec<ElectionName>) -> Result<BTreeSet<ElectionName>, Refusal> {
    let follows: BTreeSet<ElectionName> = follows.into_iter().collect();
    if follows.len() > MAX_FOLLOWS {
        return Err(Refusal::invalid(
            format!("a session follows at most {MAX_FOLLOWS} elections"),
            "announce another session for the others",
        ));
    }
    Ok(follows)
}

/// Passes changes on to those who follow.
async fn pass_on(sessions: Weak<Sessions>, mut changes: broadcast::Receiver<(u64, ElectionName)>) {
    loop {
        let event = changes.recv().await;
        let Some(sessions) = sessions.upgrade() else { return };
        match event {
            Ok((number, election)) => sessions.happened(number, &election),
            // It was too slow: whoever follows anything looks at it.
            Err(broadcast::error::RecvError::Lagged(_)) => sessions.missed(),
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

/// Forgets sessions that were not heard of.
async fn sweep(sessions: Weak<Sessions>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(sessions) = sessions.upgrade() else { return };
        let mut state = sessions.state();
        let silent = state.sessions.iter().filter(|(_, session)| !sessions.is_alive(session));
        let silent: Vec<Incarnation> = silent.map(|(incarnation, _)| *incarnation).collect();
        for incarnation in &silent {
            state.remove(*incarnation);
        }
        sessions.settle(&mut state);
        drop(state);
        if !silent.is_empty() {
            sessions.touch();
            sessions.heard.send_modify(|count| *count += 1);
        }
    }
}
