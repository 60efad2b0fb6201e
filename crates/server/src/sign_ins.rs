//! Sign-ins at the page: browsers that act for an operator, each with a key of its own.
//!
//! Assumes that a delegation was checked before it comes here. Guarantees that a code opens one sign-in,
//! once, within five minutes; that a sign-in is alive from then on until its time is over, it was closed, or
//! its operator ended it, by the boot-time clock; and that one that ended is not begun again by the same
//! order. Does not survive a restart: each browser must sign in anew.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_election::ContentHash;
use baton_election::delegation::{LONGEST, SignedDelegation};
use baton_election::operator::{MAX_OPERATORS, PublicKey};
use baton_election::time::{Moment, Span};
use baton_store::boot;

/// How long a link can be used.
const LINK: Span = Span::secs(5 * 60);
/// The most sign-ins of one operator that are known, those that ended among them until they could not be begun again.
const MOST_OF_ONE: usize = 200;
/// The most of all: as many as all operators that there may be have, so that none keeps another out.
const MOST: usize = MOST_OF_ONE * MAX_OPERATORS;
/// The most that are over and remembered, in one run of the server.
const MOST_SPENT: usize = 1_000_000;
/// How often somebody who waits for the end of a sign-in looks.
const LOOK: Duration = Duration::from_secs(2);

/// One sign-in.
#[derive(Debug)]
pub(crate) struct SignIn<W> {
    /// What the operator signed.
    pub(crate) given: SignedDelegation,
    /// As whom the server lets it in.
    pub(crate) who: W,
    begun: Moment,
}

impl<W> SignIn<W> {
    /// How much longer it lasts.
    pub(crate) fn left(&self, now: Moment) -> Span {
        self.given.order.lasts.minus(now.since(self.begun))
    }
}

/// How far a sign-in is.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// Nobody has used its link.
    Offered,
    /// A browser has: it shows a secret of this hash.
    Open(ContentHash),
    Ended,
}

/// Why a sign-in was not begun or opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotSignedIn {
    /// There are too many.
    TooMany,
    /// No link has this code: it was used, is too old, or was made for another run of the server.
    NoSuchCode,
}

/// Sign-ins by the keys of their browsers.
type SignInMap<W> = HashMap<PublicKey, (Arc<SignIn<W>>, Stage)>;

/// All sign-ins. `W` is the identity of the caller that began one.
pub(crate) struct SignIns<W> {
    known: Mutex<SignInMap<W>>,
    /// The keys of those that are over for longer than any lasts: an order is good for one sign-in, however old.
    spent: Mutex<HashSet<PublicKey>>,
}

impl<W> Default for SignIns<W> {
    fn default() -> SignIns<W> {
        SignIns { known: Mutex::default(), spent: Mutex::default() }
    }
}

impl<W> SignIns<W> {
    fn known(&self) -> MutexGuard<'_, SignInMap<W>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a sign-in, which its code opens; or, if it lasts no time, ends all of its operator. To say it again changes nothing.
    pub(crate) fn begin(&self, given: SignedDelegation, who: W, now: Moment) -> Result<(), NotSignedIn> {
        let mut known = self.known();
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.extend(
            known.extract_if(|_, (sign_in, _)| now.since(sign_in.begun) >= LONGEST).map(|(key, _)| key),
        );
        if given.order.lasts == Span::ZERO {
            let mine = known.values_mut().filter(|(sign_in, _)| sign_in.given.by == given.by);
            mine.for_each(|(_, stage)| *stage = Stage::Ended);
            return Ok(());
        }
        if known.contains_key(&given.order.key) {
            return Ok(());
        }
        if spent.contains(&given.order.key) {
            return Err(NotSignedIn::NoSuchCode);
        }
        let of_one = known.values().filter(|(sign_in, _)| sign_in.given.by == given.by).count();
        if of_one >= MOST_OF_ONE || known.len() >= MOST || spent.len() >= MOST_SPENT {
            return Err(NotSignedIn::TooMany);
        }
        let key = given.order.key;
        known.insert(key, (Arc::new(SignIn { given, who, begun: now }), Stage::Offered));
        Ok(())
    }

    /// Opens a sign-in by its code, at the host for which it was given. From then on it is known by this secret's hash.
    pub(crate) fn open(
        &self,
        code: &ContentHash,
        secret: ContentHash,
        host: &str,
        now: Moment,
    ) -> Result<Arc<SignIn<W>>, NotSignedIn> {
        let mut known = self.known();
        let fitting = known
            .values_mut()
            .find(|(sign_in, stage)| *stage == Stage::Offered && sign_in.given.order.code.same(code));
        match fitting {
            Some((sign_in, stage))
                if now.since(sign_in.begun) < LINK
                    && sign_in.left(now) > Span::ZERO
                    && sign_in.given.order.host().is_some_and(|given| given.eq_ignore_ascii_case(host)) =>
            {
                *stage = Stage::Open(secret);
                Ok(Arc::clone(sign_in))
            }
            Some(_) | None => Err(NotSignedIn::NoSuchCode),
        }
    }

    /// The living sign-in of this secret.
    pub(crate) fn by_secret(&self, secret: &ContentHash, now: Moment) -> Option<Arc<SignIn<W>>> {
        let known = self.known();
        let mut open = known.values().filter(|(sign_in, _)| sign_in.left(now) > Span::ZERO);
        let found = open.find(|(_, stage)| matches!(stage, Stage::Open(mine) if mine.same(secret)));
        found.map(|(sign_in, _)| Arc::clone(sign_in))
    }

    /// The living sign-in of this key.
    pub(crate) fn alive(&self, key: &PublicKey, now: Moment) -> Option<Arc<SignIn<W>>> {
        let known = self.known();
        let (sign_in, stage) = known.get(key)?;
        let alive = matches!(stage, Stage::Open(_)) && sign_in.left(now) > Span::ZERO;
        alive.then(|| Arc::clone(sign_in))
    }

    /// Ends a sign-in. Returns whether it was alive.
    pub(crate) fn close(&self, key: &PublicKey, now: Moment) -> bool {
        let was = self.alive(key, now).is_some();
        if let Some((_, stage)) = self.known().get_mut(key) {
            *stage = Stage::Ended;
        }
        was
    }

    /// Waits until a sign-in is over, at most a little longer.
    pub(crate) async fn over(&self, key: &PublicKey) {
        while self.alive(key, boot::now()).is_some() {
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_election::StoreId;
    use baton_election::delegation::Delegation;
    use baton_election::operator::OperatorKey;

    use super::*;

    const HOST: &str = "localhost:1";

    fn at(seconds: u64) -> Moment {
        Moment::default() + Span::secs(seconds)
    }

    fn given(browser: u8, lasts: Span) -> SignedDelegation {
        OperatorKey::from_seed([1; 32]).delegate(Delegation {
            store: StoreId([1; 8]),
            server: "run".to_string(),
            origin: "http://localhost:1".to_string(),
            key: OperatorKey::from_seed([browser; 32]).public(),
            code: ContentHash::of(&[browser]),
            lasts,
        })
    }

    #[test]
    fn a_code_opens_one_sign_in_once() {
        let all = SignIns::default();
        let order = given(2, Span::secs(3_600));
        let (key, code, secret) = (order.order.key, ContentHash::of(&[2]), ContentHash::of(b"s"));
        all.begin(order.clone(), (), at(0)).unwrap();
        assert!(all.alive(&key, at(1)).is_none(), "nobody has opened it");
        assert!(all.open(&ContentHash::of(&[3]), secret, HOST, at(1)).is_err());
        assert!(all.open(&code, secret, "localhost:2", at(1)).is_err(), "at another address");
        all.open(&code, secret, HOST, at(1)).unwrap();
        assert_eq!(all.open(&code, ContentHash::of(b"t"), HOST, at(2)).err(), Some(NotSignedIn::NoSuchCode));
        assert!(all.alive(&key, at(3_599)).is_some() && all.by_secret(&secret, at(3_599)).is_some());
        assert!(all.by_secret(&ContentHash::of(b"t"), at(5)).is_none());
        assert!(all.alive(&key, at(3_600)).is_none() && all.by_secret(&secret, at(3_600)).is_none());
        // The same order does not begin it again.
        all.begin(order.clone(), (), at(3_700)).unwrap();
        assert!(all.open(&code, secret, HOST, at(3_700)).is_err() && all.alive(&key, at(3_700)).is_none());
        // Nor when nothing but its key is remembered.
        let long_after = at(LONGEST.as_millis() / 1_000 + 3_700);
        assert_eq!(all.begin(order, (), long_after).err(), Some(NotSignedIn::NoSuchCode));
        assert!(all.open(&code, secret, HOST, long_after).is_err());
    }

    #[test]
    fn a_link_is_used_within_minutes() {
        let all = SignIns::default();
        all.begin(given(2, LONGEST), (), at(0)).unwrap();
        assert!(all.open(&ContentHash::of(&[2]), ContentHash::of(b"s"), HOST, at(300)).is_err());
    }

    #[test]
    fn it_ends_when_it_is_closed_or_its_operator_says_so() {
        let all = SignIns::default();
        for browser in [2, 3] {
            all.begin(given(browser, LONGEST), (), at(0)).unwrap();
            all.open(&ContentHash::of(&[browser]), ContentHash::of(&[browser, 0]), HOST, at(1)).unwrap();
        }
        let [two, three] = [2, 3].map(|browser| given(browser, LONGEST).order.key);
        assert!(all.close(&two, at(2)) && !all.close(&two, at(2)));
        assert!(all.alive(&two, at(2)).is_none() && all.alive(&three, at(2)).is_some());
        all.begin(given(9, Span::ZERO), (), at(3)).unwrap();
        assert!(all.alive(&three, at(3)).is_none());
    }

    #[test]
    fn there_is_a_bound_and_those_of_yesterday_do_not_count() {
        let all = SignIns::default();
        let begin = |operator: u8, number: usize, now| {
            let mut order = given(2, LONGEST);
            order.by = PublicKey([operator; 32]);
            order.order.key = PublicKey([operator; 32]);
            order.order.key.0[..8].copy_from_slice(&number.to_le_bytes());
            all.begin(order, (), now)
        };
        for operator in (1..).take(MAX_OPERATORS) {
            for number in 0..MOST_OF_ONE {
                begin(operator, number, at(0)).expect("no operator is kept out by another");
            }
            assert_eq!(begin(operator, MOST_OF_ONE, at(1)), Err(NotSignedIn::TooMany));
        }
        assert_eq!(begin(99, 0, at(1)), Err(NotSignedIn::TooMany));
        assert_eq!(begin(1, MOST_OF_ONE, at(LONGEST.as_millis() / 1_000)), Ok(()));
    }
}
