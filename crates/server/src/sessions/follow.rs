//! Which sessions follow which elections, and which of them know of a change.
//!
//! What happened is not kept for anybody: of each election that is followed only the number of its last event
//! is. A session that asks is told how those elections stand that changed since what it acknowledged, however
//! often they did.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::time::Duration;

use baton_api::sessions::{ElectionNews, NewsRequest, NewsResponse, NotifyReport};
use baton_election::time::Span;
use baton_election::{AgentName, ElectionName, Incarnation, LeaseKey, TokenId};
use baton_store::boot;
use serde::Serialize;
use tokio::sync::watch;

use super::{Sessions, State, Trouble};

/// The longest that one request waits for news.
pub(crate) const MAX_WAIT: Span = Span::secs(60);

/// How much is told at once, so that to write it down holds up no other request. The rest is told when it is asked for more.
const MAX_TOLD: usize = 256 * 1024;

/// What there is to tell a session.
struct Due {
    /// With the numbers of their last events, in the order of these, and of their names.
    elections: Vec<(u64, ElectionName)>,
    /// Tells what it is told from what it was told before it followed more.
    since: u64,
    /// Up to where all of that leads.
    event: u64,
    more: watch::Receiver<u64>,
}

/// Up to where a session knows everything: to the end of an event, or, if not all that it led to could be told at once, to some
/// election among those whose last event it is.
struct KnownUpTo {
    number: u64,
    election: Option<String>,
}

impl KnownUpTo {
    fn parse(text: &str) -> Option<KnownUpTo> {
        let (number, election) = match text.split_once('.') {
            Some((number, election)) => (number, Some(election.to_string())),
            None => (text, None),
        };
        Some(KnownUpTo { number: number.parse().ok()?, election })
    }

    /// Whether it knows of the last event of an election.
    fn covers(&self, latest: u64, election: &ElectionName) -> bool {
        match &self.election {
            None => latest <= self.number,
            Some(last) => (latest, election.as_str()) <= (self.number, last.as_str()),
        }
    }

    /// The last event of which it knows all.
    fn whole(&self) -> Option<u64> {
        if self.election.is_none() { Some(self.number) } else { self.number.checked_sub(1) }
    }
}

impl Sessions {
    /// Something happened to an election.
    pub(super) fn happened(&self, number: u64, election: &ElectionName) {
        let mut state = self.state();
        let State { sessions, followed, .. } = &mut *state;
        let Some(followed) = followed.get_mut(election) else { return };
        followed.latest = followed.latest.max(number);
        followed.exists = true;
        for session in followed.by.iter().filter_map(|incarnation| sessions.get(incarnation)) {
            session.news.send_modify(|count| *count += 1);
        }
    }

    /// Nobody knows what happened: everything may have.
    pub(super) fn missed(&self) {
        let mut state = self.state();
        let number = self.engine.follow();
        for followed in state.followed.values_mut() {
            followed.latest = number;
        }
        for session in state.sessions.values().filter(|session| !session.follows.is_empty()) {
            session.news.send_modify(|count| *count += 1);
        }
    }

    /// What is new to a session, which by asking says what it knows. If nothing is, this waits.
    pub(crate) async fn news(&self, ask: &NewsRequest, by: Option<TokenId>) -> Result<NewsResponse, Trouble> {
        // Not on the boot-time clock: thousands wait here, and such a timer is a descriptor.
        let wait = Duration::from_millis(ask.wait_ms.min(MAX_WAIT.as_millis()));
        let mut over = std::pin::pin!(tokio::time::sleep(wait));
        let mut waits = ask.wait_ms > 0;
        loop {
            let mut due = self.due(ask, by)?;
            if !due.elections.is_empty() || !waits {
                return self.told(due).await;
            }
            tokio::select! {
                changed = due.more.changed() => if changed.is_err() {
                    return Err(Trouble::NoSuchSession);
                },
                () = over.as_mut() => waits = false,
            }
        }
    }

    async fn told(&self, due: Due) -> Result<NewsResponse, Trouble> {
        let Due { elections, since, event, more: _ } = due;
        let (mut news, mut size, mut last) = (Vec::new(), 0, None);
        for (number, election) in elections {
            tokio::task::yield_now().await;
            let view = self.engine.view(&election).await.map_err(Trouble::Store)?;
            let (document, age_ms) = (view.document.map(Box::new), view.age.as_millis());
            let standing = ElectionNews { election, document, age_ms };
            size += size_of_json(&standing);
            // One at least, so that whoever asks gets on.
            if let Some(last) = last.filter(|_| size > MAX_TOLD) {
                return Ok(NewsResponse { event: self.id_of(since, last), news });
            }
            last = Some(format!("{number}.{}", standing.election));
            news.push(standing);
        }
        Ok(NewsResponse { event: self.id_of(since, event), news })
    }

    /// By what a session acknowledges what it was told.
    fn id_of(&self, since: u64, what: impl Display) -> String {
        format!("{}-{since}-{what}", self.run)
    }

    fn due(&self, ask: &NewsRequest, by: Option<TokenId>) -> Result<Due, Trouble> {
        let mut state = self.state();
        let session = self.alive(&mut state, &ask.credential, by)?;
        let (more, since) = (session.news.subscribe(), session.follows_since);
        let known = ask.acknowledged.as_deref().and_then(|id| self.known_by(id, since));
        let whole = known.as_ref().and_then(KnownUpTo::whole);
        let heard = whole > session.acknowledged;
        session.acknowledged = session.acknowledged.max(whole);
        let follows = session.follows.clone();
        if heard {
            self.acknowledged(&mut state, ask.credential.incarnation, whole);
        }
        let latest = |election: &ElectionName| state.followed.get(election).map_or(0, |of| of.latest);
        let before = known.as_ref().map_or(0, |known| known.number);
        let event = follows.iter().map(&latest).max().unwrap_or(0).max(before);
        let is_new = |(latest, election): &(u64, ElectionName)| {
            known.as_ref().is_none_or(|known| !known.covers(*latest, election))
        };
        let follows_of_others = follows.clone();
        let all = follows.into_iter().map(|election| (latest(&election), election));
        let mut elections: Vec<(u64, ElectionName)> = all.filter(is_new).collect();
        drop(state);
        elections.sort_unstable();
        follows_of_others.iter().for_each(|election| self.engine.keep_following(election));
        if heard {
            self.heard.send_modify(|count| *count += 1);
        }
        Ok(Due { elections, since, event, more })
    }

    /// What a session knows that was told this in this run, since it follows what it follows.
    fn known_by(&self, id: &str, since: u64) -> Option<KnownUpTo> {
        KnownUpTo::parse(id.strip_prefix(&self.id_of(since, ""))?)
    }

    /// Waits until the followers of an election know of the change to this beat, for at most so long. A
    /// follower with the key `own` is the agent that made the change: it is not waited for.
    pub(crate) async fn told_of(
        &self,
        election: &ElectionName,
        beat: u64,
        own: LeaseKey,
        wait: Span,
        stops: impl Future<Output = ()>,
    ) -> NotifyReport {
        let begun = boot::now();
        let number = self.engine.event_of(election, beat);
        let mut heard = self.heard.subscribe();
        let mut followers = self.followers(election, own);
        let (mut told, mut stops) = (0, std::pin::pin!(stops));
        loop {
            heard.mark_unchanged();
            told += self.take_out(&mut followers, number);
            if followers.is_empty() {
                break;
            }
            tokio::select! {
                _ = heard.changed() => {}
                _ = boot::sleep_until(begun + wait.min(MAX_WAIT)) => {
                    told += self.take_out(&mut followers, number);
                    break;
                }
                () = stops.as_mut() => break,
            }
        }
        let silent: BTreeSet<AgentName> = followers.into_values().collect();
        let waited_ms = boot::now().since(begun).as_millis();
        NotifyReport { told, silent: silent.into_iter().collect(), waited_ms }
    }

    /// Everybody who follows an election and was heard of in time.
    fn followers(&self, election: &ElectionName, own: LeaseKey) -> HashMap<Incarnation, AgentName> {
        let state = self.state();
        let by = state.followed.get(election).into_iter().flat_map(|followed| &followed.by);
        let sessions = by.filter_map(|incarnation| Some((*incarnation, state.sessions.get(incarnation)?)));
        sessions
            .filter(|(_, session)| self.is_alive(session) && !own.opens(&session.key_hash))
            .map(|(incarnation, session)| (incarnation, session.agent.clone()))
            .collect()
    }

    /// Takes out the followers that know of an event, and says how many. A follower that has ended its
    /// session is taken out too, but not counted; one that fell silent stays.
    fn take_out(&self, followers: &mut HashMap<Incarnation, AgentName>, number: u64) -> u64 {
        let state = self.state();
        let mut told = 0;
        followers.retain(|incarnation, _| match state.sessions.get(incarnation) {
            Some(session) if session.acknowledged >= Some(number) => {
                told += 1;
                false
            }
            Some(_) => true,
            None => !state.ended.contains(incarnation),
        });
        told
    }
}

/// How long something is as JSON.
fn size_of_json(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
            self.0 += piece.len();
            Ok(piece.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // What cannot be written takes no room.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}
