//! When which election must be looked at: exact, without a sweep, and nothing for elections that nobody waits for.
//!
//! An election has one moment at most, however many candidates come and go: to have more would be to look, and to remember, as often
//! as they ask.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_election::ElectionName;
use baton_election::time::Moment;
use baton_store::boot;
use tokio::sync::Notify;

/// The looks that are due some time.
#[derive(Default)]
pub(super) struct Timers {
    due: Mutex<Due>,
    sooner: Notify,
}

#[derive(Default)]
struct Due {
    moments: BTreeSet<(Moment, ElectionName)>,
    of: HashMap<ElectionName, Moment>,
}

impl Due {
    /// Says whether it is the first of all.
    fn set(&mut self, at: Moment, election: &ElectionName) -> bool {
        match self.of.get_mut(election) {
            Some(before) if *before <= at => return false,
            Some(before) => {
                self.moments.remove(&(*before, election.clone()));
                *before = at;
            }
            None => {
                self.of.insert(election.clone(), at);
            }
        }
        let first = self.moments.first().is_none_or(|(first, _)| at < *first);
        self.moments.insert((at, election.clone()));
        first
    }

    /// The first, if its moment has come; otherwise when it comes.
    fn take(&mut self, now: Moment) -> Result<ElectionName, Option<Moment>> {
        match self.moments.first() {
            Some((at, _)) if *at > now => Err(Some(*at)),
            Some(_) | None => {
                let (_, election) = self.moments.pop_first().ok_or(None)?;
                self.of.remove(&election);
                Ok(election)
            }
        }
    }
}

impl Timers {
    fn due(&self) -> MutexGuard<'_, Due> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at an election at this moment at the latest. A renewal does not change that: whoever looks too early sets another.
    pub(super) fn set(&self, at: Moment, election: &ElectionName) {
        if self.due().set(at, election) {
            self.sooner.notify_one();
        }
    }

    /// The next election whose moment has come.
    pub(super) async fn next(&self) -> ElectionName {
        loop {
            let taken = self.due().take(boot::now());
            match taken {
                Ok(election) => return election,
                Err(Some(at)) => {
                    tokio::select! {
                        _ = boot::sleep_until(at) => {}
                        () = self.sooner.notified() => {}
                    }
                }
                Err(None) => self.sooner.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ElectionName {
        ElectionName::new(text).unwrap()
    }

    fn at(nanos: u64) -> Moment {
        Moment::from_nanos(nanos)
    }

    #[test]
    fn an_election_has_one_moment_and_it_is_the_first() {
        let mut due = Due::default();
        assert!(due.set(at(50), &name("a")));
        assert!(!due.set(at(60), &name("a")), "it is looked at before that");
        assert!(!due.set(at(55), &name("b")));
        assert!(due.set(at(40), &name("b")));
        for later in 100..1_000 {
            assert!(!due.set(at(later), &name("a")));
        }
        assert_eq!((due.moments.len(), due.of.len()), (2, 2));
        assert_eq!(due.take(at(39)), Err(Some(at(40))));
        assert_eq!(due.take(at(70)), Ok(name("b")));
        assert_eq!(due.take(at(70)), Ok(name("a")));
        assert_eq!(due.take(at(70)), Err(None));
        assert!(due.of.is_empty());
    }
}
