//! Which server is asked, where there are several: the one that answered last, and others while it does not.
//!
//! Every command may be sent again, so that a server which takes long is not given up: others are asked beside it, and the first who
//! decides is believed. One who is not the active server says so, and perhaps who is. Such a word is followed if it is a server's that was
//! named in the URL, or one that such a one named before; never from `https` to `http`, nor with a token over plain `http` to another machine.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until};

use crate::fault::Fault;
use crate::open::is_loopback;
use crate::untrusted::Untrusted;
use crate::watch::jitter;

/// How many servers are remembered that others named.
const MAX_NAMED: usize = 16;
/// How often a redirect is followed in one request.
const MAX_HOPS: u32 = 8;
/// How long to wait once everybody has been asked and nobody decides; twice as long each time.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest such wait.
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// All servers that are known. `http://HOST:PORT` each, without a slash at its end.
pub(crate) struct Servers {
    known: Mutex<ServerList>,
    secret: bool,
}

struct ServerList {
    all: Vec<Arc<str>>,
    /// How many of them the URL names.
    own: usize,
    /// The place of the one that answered last.
    preferred: usize,
}

impl Servers {
    /// With `secret` something is shown to them that nobody on the way may read.
    pub(crate) fn new(bases: &[String], secret: bool) -> Servers {
        let all: Vec<Arc<str>> = bases.iter().map(|base| base.as_str().into()).collect();
        Servers { known: Mutex::new(ServerList { own: all.len(), all, preferred: 0 }), secret }
    }

    fn known(&self) -> MutexGuard<'_, ServerList> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_alone(&self) -> bool {
        self.known().all.len() < 2
    }

    /// The one that answered last.
    pub(crate) fn preferred(&self) -> Option<Arc<str>> {
        let known = self.known();
        known.all.get(known.preferred).cloned()
    }

    fn prefer(&self, base: &Arc<str>) {
        let mut known = self.known();
        if let Some(place) = known.all.iter().position(|one| one == base) {
            known.preferred = place;
        }
    }

    /// The next server that is not in `these`, beginning after the preferred one.
    fn other_than(&self, these: &[Arc<str>]) -> Option<Arc<str>> {
        let known = self.known();
        let (before, after) = known.all.split_at(known.preferred.min(known.all.len()));
        after.iter().chain(before).find(|base| !these.contains(base)).cloned()
    }

    /// Where a server sends us, if we let it.
    fn follow(&self, from: &str, to: &str) -> Option<Arc<str>> {
        let (scheme, address) = to.split_once("://")?;
        let open = self.secret && !is_loopback(address);
        if scheme != "https" && (scheme != "http" || from.starts_with("https:") || open) {
            return None;
        }
        let mut known = self.known();
        if let Some(one) = known.all.iter().find(|one| ***one == *to) {
            return Some(Arc::clone(one));
        }
        if known.all.len() >= known.own + MAX_NAMED {
            // The first that was named is the oldest word. Whatever is asked for next is found by asking.
            let oldest = known.own;
            known.all.remove(oldest);
            known.preferred = 0;
        }
        let named: Arc<str> = to.into();
        known.all.push(Arc::clone(&named));
        Some(named)
    }

    /// Asks until a server decides, for so long; who takes longer than `patience` is not the only one asked.
    pub(crate) async fn ask<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        limit: Duration,
        patience: Duration,
        send: impl Fn(Arc<str>) -> F,
    ) -> Result<T, Fault> {
        let mut attempts = Attempts::new();
        let mut replies = FuturesUnordered::new();
        let deadline = Instant::now() + limit;
        let (mut next, mut again) = (self.preferred(), Instant::now() + patience);
        loop {
            if let Some(base) = next.take() {
                attempts.begins(&base);
                let reply = send(Arc::clone(&base));
                replies.push(async move { (base, reply.await) });
            }
            let (base, fault) = tokio::select! {
                Some((base, reply)) = replies.next(), if !replies.is_empty() => match reply {
                    Ok(answer) => {
                        self.prefer(&base);
                        return Ok(answer);
                    }
                    Err(fault) => (base, fault),
                },
                () = sleep_until(again.min(deadline)) => {
                    if Instant::now() >= deadline {
                        return Err(attempts.in_vain(limit));
                    }
                    again = Instant::now() + if replies.is_empty() { attempts.pause } else { patience };
                    next = attempts.next(self);
                    continue;
                }
            };
            attempts.ended(&base);
            match fault {
                Fault::Rejected(_) => {
                    self.prefer(&base);
                    return Err(fault);
                }
                Fault::NotSent(_) | Fault::NoAnswer(_) | Fault::Untrusted { .. } if self.is_alone() => {
                    return Err(fault);
                }
                Fault::NoAnswer(why) => attempts.hears(why, Outcome::MayHaveBeenDone),
                Fault::NotSent(why) => attempts.misses(why),
                Fault::NotActive(why) => attempts.hears(why, Outcome::NotDone),
                Fault::Untrusted { told, before } => attempts.distrusts(told, before),
                Fault::Elsewhere(to) => {
                    next = attempts.follow(self.follow(&base, &to));
                    attempts.hears(format!("{base} sends us to {to}"), Outcome::NotDone);
                }
            }
            if next.is_none() {
                next = attempts.untried(self);
            }
            if next.is_none() && replies.is_empty() && attempts.outcome == Outcome::Nothing {
                // Nobody is there at all, as with one server.
                return Err(attempts.nobody());
            }
            if next.is_none() && replies.is_empty() {
                again = Instant::now() + attempts.pause.mul_f64(jitter(0.5));
                attempts.pause = (attempts.pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// The best-known outcome of a request so far.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// Nobody could be reached.
    Nothing,
    /// Somebody is there, and did not do it.
    NotDone,
    MayHaveBeenDone,
}

/// The servers that were asked in one request.
struct Attempts {
    /// Servers that have not answered yet.
    flying: Vec<Arc<str>>,
    /// Servers that were asked in this round, which began when every server had been asked.
    tried: Vec<Arc<str>>,
    outcome: Outcome,
    /// Why the last one did not decide.
    word: String,
    /// What the last one was that TLS did not let through.
    untrusted: Option<Fault>,
    /// Whether one of them may be down, and come back.
    unreachable: bool,
    hops: u32,
    pause: Duration,
}

impl Attempts {
    fn new() -> Attempts {
        let (outcome, word) = (Outcome::Nothing, String::new());
        let (flying, tried, untrusted) = (Vec::new(), Vec::new(), None);
        Attempts { flying, tried, outcome, word, untrusted, unreachable: false, hops: 0, pause: PAUSE }
    }

    fn hears(&mut self, word: String, outcome: Outcome) {
        self.outcome = self.outcome.max(outcome);
        self.word = word;
    }

    fn misses(&mut self, why: String) {
        self.hears(why, Outcome::Nothing);
        self.unreachable = true;
    }

    fn distrusts(&mut self, told: Box<Untrusted>, before: bool) {
        self.hears(told.why.clone(), Outcome::Nothing);
        self.untrusted = Some(Fault::Untrusted { told, before });
    }

    fn begins(&mut self, base: &Arc<str>) {
        self.flying.push(Arc::clone(base));
        self.tried.push(Arc::clone(base));
    }

    fn ended(&mut self, base: &Arc<str>) {
        self.flying.retain(|one| one != base);
    }

    fn follow(&mut self, to: Option<Arc<str>>) -> Option<Arc<str>> {
        // A server that was asked in this round has not decided, whatever others say: the next round finds
        // out.
        let anew = |to: &Arc<str>| !self.tried.contains(to) && !self.flying.contains(to);
        let to = to.filter(|to| self.hops < MAX_HOPS && anew(to))?;
        self.hops += 1;
        Some(to)
    }

    fn untried(&self, servers: &Servers) -> Option<Arc<str>> {
        servers.other_than(&[&self.tried[..], &self.flying[..]].concat())
    }

    /// Whose turn it is after a while. If everybody was asked, a new round begins.
    fn next(&mut self, servers: &Servers) -> Option<Arc<str>> {
        self.untried(servers).or_else(|| {
            (self.tried, self.hops) = (Vec::new(), 0);
            self.untried(servers)
        })
    }

    /// Nobody could be reached: an error of certificates only if no server may come back.
    fn nobody(self) -> Fault {
        match self.untrusted {
            Some(untrusted) if !self.unreachable => untrusted,
            Some(_) | None => Fault::NotSent(self.word),
        }
    }

    fn in_vain(&self, limit: Duration) -> Fault {
        let word = if self.word.is_empty() { String::new() } else { format!(" ({})", self.word) };
        let why = format!("it did not answer within {limit:?}{word}");
        if self.outcome == Outcome::MayHaveBeenDone || !self.flying.is_empty() {
            Fault::NoAnswer(why)
        } else {
            Fault::NotSent(why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// What each server does when it is asked.
    #[derive(Clone, Copy)]
    enum Does {
        Decides,
        Hangs,
        Refuses,
        IsUntrusted,
        HangsUp,
        SendsTo(&'static str),
        IsNotActive,
    }

    struct Play {
        servers: Servers,
        roles: Mutex<BTreeMap<&'static str, Does>>,
        asked: AtomicUsize,
    }

    impl Play {
        fn new(own: &[&'static str], roles: &[(&'static str, Does)]) -> Play {
            let own: Vec<String> = own.iter().map(ToString::to_string).collect();
            let roles = Mutex::new(roles.iter().copied().collect());
            Play { servers: Servers::new(&own, false), roles, asked: AtomicUsize::new(0) }
        }

        fn becomes(&self, server: &'static str, does: Does) {
            self.roles.lock().unwrap().insert(server, does);
        }

        async fn ask(&self) -> Result<String, Fault> {
            let send = |base: Arc<str>| {
                self.asked.fetch_add(1, Ordering::Relaxed);
                let does = self.roles.lock().unwrap().get(&*base).copied();
                async move {
                    match does.unwrap_or(Does::Refuses) {
                        Does::Decides => Ok(base.to_string()),
                        Does::Hangs => std::future::pending().await,
                        Does::Refuses => Err(Fault::NotSent("refused".to_string())),
                        Does::IsUntrusted => {
                            let told = Untrusted { why: "no".to_string(), hint: String::new() };
                            Err(Fault::Untrusted { told: Box::new(told), before: false })
                        }
                        Does::HangsUp => Err(Fault::NoAnswer("it hung up".to_string())),
                        Does::SendsTo(to) => Err(Fault::Elsewhere(to.to_string())),
                        Does::IsNotActive => Err(Fault::NotActive("none".to_string())),
                    }
                }
            };
            self.servers.ask(Duration::from_secs(10), Duration::from_millis(400), send).await
        }
    }

    const A: &str = "http://a:1";
    const B: &str = "http://b:1";
    const C: &str = "http://c:1";

    #[tokio::test(start_paused = true)]
    async fn who_decided_last_is_asked_first() {
        let play = Play::new(&[A, B, C], &[(A, Does::Refuses), (B, Does::HangsUp), (C, Does::Decides)]);
        assert_eq!(play.ask().await.unwrap(), C);
        assert_eq!(play.asked.load(Ordering::Relaxed), 3);
        assert_eq!(play.ask().await.unwrap(), C);
        assert_eq!(play.asked.load(Ordering::Relaxed), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn who_hangs_is_not_waited_for_and_not_given_up() {
        let play = Play::new(&[A, B], &[(A, Does::Hangs), (B, Does::SendsTo(A))]);
        let begun = Instant::now();
        let take_over = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            play.becomes(B, Does::Decides);
            std::future::pending::<()>().await;
        };
        let answer = tokio::select! {
            answer = play.ask() => answer.unwrap(),
            () = take_over => unreachable!("it never ends"),
        };
        assert_eq!(answer, B);
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        assert!(play.asked.load(Ordering::Relaxed) < 15, "nobody is asked all the time");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_nobody_named_is_found_by_a_redirect_and_remembered() {
        let play = Play::new(&[A], &[(A, Does::SendsTo(B)), (B, Does::Decides)]);
        assert_eq!(play.ask().await.unwrap(), B);
        play.becomes(A, Does::Refuses);
        assert_eq!(play.ask().await.unwrap(), B);
        play.becomes(A, Does::Decides);
        play.becomes(B, Does::Refuses);
        assert_eq!(play.ask().await.unwrap(), A);
    }

    #[tokio::test(start_paused = true)]
    async fn a_redirect_into_the_open_or_in_a_circle_leads_nowhere() {
        let tls = "https://a:1";
        let play = Play::new(&[tls], &[(tls, Does::SendsTo(B)), (B, Does::Decides)]);
        assert!(matches!(play.ask().await, Err(Fault::NotSent(_))));
        let play = Play::new(&[A], &[(A, Does::SendsTo(B)), (B, Does::SendsTo(A))]);
        assert!(matches!(play.ask().await, Err(Fault::NotSent(_))));
        assert!(play.asked.load(Ordering::Relaxed) < 1_000, "it goes around at its own pace");
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_have_been_done_is_said() {
        let play = Play::new(&[A, B], &[(A, Does::HangsUp), (B, Does::IsNotActive)]);
        assert!(matches!(play.ask().await, Err(Fault::NoAnswer(_))));
        let play = Play::new(&[A, B], &[(A, Does::Hangs), (B, Does::IsNotActive)]);
        assert!(matches!(play.ask().await, Err(Fault::NoAnswer(_))));
        let play = Play::new(&[A, B], &[(A, Does::Refuses), (B, Does::IsNotActive)]);
        assert!(matches!(play.ask().await, Err(Fault::NotSent(_))));
        let begun = Instant::now();
        for all in [&[A][..], &[A, B, C]] {
            // Each of them refuses.
            let play = Play::new(all, &[]);
            assert!(matches!(play.ask().await, Err(Fault::NotSent(why)) if why == "refused"));
            assert_eq!(play.asked.load(Ordering::Relaxed), all.len());
        }
        assert_eq!(begun.elapsed(), Duration::ZERO, "who finds nobody there says so at once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_certificate_ends_the_asking_only_if_every_server_has_a_bad_one() {
        let bad = Does::IsUntrusted;
        for all in [&[A][..], &[A, B]] {
            let play = Play::new(all, &[(A, bad), (B, bad)]);
            assert!(matches!(play.ask().await, Err(Fault::Untrusted { .. })));
        }
        let play = Play::new(&[A, B], &[(A, bad), (B, Does::Decides)]);
        assert_eq!(play.ask().await.unwrap(), B);
        let play = Play::new(&[A, B], &[(A, bad), (B, Does::Refuses)]);
        assert!(matches!(play.ask().await, Err(Fault::NotSent(_))), "that one may come back");
    }
}
