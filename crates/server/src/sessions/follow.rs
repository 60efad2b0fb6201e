//! Who follows what, and who knows of it.
//!
//! What happened is not kept for anybody: of each election that is followed only the number of its last event is. Whoever asks is told how
//! those stand that changed since what it acknowledged, however often they did.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use baton_election::time::Span;
use baton_election::{AgentName, ElectionName, Incarnation, LeaseKey, TokenId};
use baton_store::boot;
use baton_store::sessions::{AsItStands, AskNews, NewsOf, Notified};
use tokio::sync::watch;

use super::{Sessions, State, Trouble};

/// The longest that one request waits for news.
pub(crate) const MAX_WAIT: Span = Span::secs(60);

/// What there is to tell a session.
struct Due {
    elections: Vec<ElectionName>,
    /// Up to where that leads.
    event: String,
    more: watch::Receiver<u64>,
}

impl Sessions {
    /// Something happened to an election.
    pub(super) fn happened(&self, number: u64, election: &ElectionName) {
        let mut state = self.state();
        let State { sessions, followed, .. } = &mut *state;
        let Some(followed) = followed.get_mut(election) else { return };
        followed.latest = followed.latest.max(number);
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
    pub(crate) async fn news(&self, ask: &AskNews, by: Option<TokenId>) -> Result<NewsOf, Trouble> {
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

    async fn told(&self, due: Due) -> Result<NewsOf, Trouble> {
        let mut news = Vec::with_capacity(due.elections.len());
        for election in due.elections {
            let view = self.engine.view(&election).await.map_err(Trouble::Store)?;
            let (document, age_ms) = (view.document.map(Box::new), view.age.as_millis());
            news.push(AsItStands { election, document, age_ms });
        }
        Ok(NewsOf { event: due.event, news })
    }

    fn due(&self, ask: &AskNews, by: Option<TokenId>) -> Result<Due, Trouble> {
        let mut state = self.state();
        let session = self.alive(&mut state, &ask.credential, by)?;
        let (more, since) = (session.news.subscribe(), session.follows_since);
        let known = ask.acknowledged.as_deref().and_then(|id| self.number_of(id, since));
        let heard = known > session.acknowledged;
        session.acknowledged = session.acknowledged.max(known);
        let follows = session.follows.clone();
        let latest = |election: &ElectionName| state.followed.get(election).map_or(0, |of| of.latest);
        let event = follows.iter().map(&latest).max().unwrap_or(0).max(known.unwrap_or(0));
        let is_new = |election: &ElectionName| known.is_none_or(|known| latest(election) > known);
        let elections = follows.iter().filter(|election| is_new(election)).cloned().collect();
        drop(state);
        if heard {
            self.heard.send_modify(|count| *count += 1);
        }
        Ok(Due { elections, event: format!("{}-{since}-{event}", self.run), more })
    }

    /// The number of an event of this run, told to a session since it follows what it follows.
    fn number_of(&self, id: &str, since: u64) -> Option<u64> {
        let (told, number) = id.rsplit_once('-')?;
        if told == format!("{}-{since}", self.run) { number.parse().ok() } else { None }
    }

    /// Waits until those who follow an election know of the change to this beat, for at most so long. Who follows it with the same
    /// key is who made the change.
    pub(crate) async fn told_of(
        &self,
        election: &ElectionName,
        beat: u64,
        own: LeaseKey,
        wait: Span,
        stops: impl Future<Output = ()>,
    ) -> Notified {
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
        Notified { told, silent: silent.into_iter().collect(), waited_ms }
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

    /// Takes out who knows of an event, and says how many. Who has ended its session is not waited for; who fell silent stays.
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
