//! A leadership as its holder sees it: *safe*, then in *jeopardy*, then *lost*, and lost for good.
//!
//! Assumes that every `now` is of the one clock that `asked_at` was taken on, a clock that counts through a suspend.
//! Guarantees that [`Tenure::ensures`] is true only while nobody else can have been granted the lease. Does not
//! guarantee that the holder's work stops: whoever asks must act on the answer.

use crate::lease::{Margins, renewal_interval};
use crate::time::{Moment, Span};

/// How a leadership stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TenureState {
    /// Granted as an offer: it leads after one renewal.
    Offered,
    /// The last renewal came back in time.
    Safe,
    /// A renewal is overdue; the lease still holds.
    Jeopardy,
    /// The lease may be another's. Nothing revives it.
    Lost,
}

/// One leadership from its grant to its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tenure {
    margins: Margins,
    ttl: Span,
    asked_at: Moment,
    offered: bool,
    lost: bool,
}

impl Tenure {
    /// A grant that was asked for at `asked_at`: before the first attempt, whatever was retried.
    pub fn granted(asked_at: Moment, ttl: Span, margins: Margins) -> Tenure {
        Tenure { margins, ttl, asked_at, offered: false, lost: false }
    }

    /// A grant to a waiter that asked long ago, heard of at `heard_at`.
    pub fn offered(heard_at: Moment, ttl: Span, margins: Margins) -> Tenure {
        Tenure { margins, ttl, asked_at: heard_at, offered: true, lost: false }
    }

    /// A renewal that was asked for at `asked_at` (before its first attempt) is known to have been applied.
    ///
    /// Returns how the leadership stands. An answer that comes after the deadline changes nothing.
    pub fn renewed(&mut self, asked_at: Moment, now: Moment) -> TenureState {
        if self.standing(now) != TenureState::Lost {
            self.asked_at = self.asked_at.max(asked_at);
            self.offered = false;
        }
        self.standing(now)
    }

    /// The lease lasts so long from the last renewal on, as the answer to it said.
    pub fn lasts(&mut self, ttl: Span) {
        self.ttl = ttl;
    }

    /// The leadership has ended: it was refused, released, or its holder gave up.
    pub fn end(&mut self) {
        self.lost = true;
    }

    /// How the leadership stands. Once this is [`TenureState::Lost`], it stays so.
    pub fn standing(&mut self, now: Moment) -> TenureState {
        self.lost |= now >= self.deadline();
        match (self.lost, self.offered) {
            (true, _) => TenureState::Lost,
            (false, true) => TenureState::Offered,
            (false, false) if now >= self.jeopardy_at() => TenureState::Jeopardy,
            (false, false) => TenureState::Safe,
        }
    }

    /// Whether the holder surely leads for at least `span` more.
    pub fn ensures(&self, now: Moment, span: Span) -> bool {
        !self.lost && !self.offered && now + span < self.deadline()
    }

    /// When the work must have stopped.
    pub fn deadline(&self) -> Moment {
        if self.offered {
            return self.asked_at + crate::lease::offer(self.ttl);
        }
        self.margins.deadline(self.asked_at, self.ttl)
    }

    /// When to send the next renewal.
    pub fn renew_at(&self) -> Moment {
        if self.offered { self.asked_at } else { self.asked_at + renewal_interval(self.ttl) }
    }

    /// From when on a renewal is overdue: half of the usable lease is gone.
    pub fn jeopardy_at(&self) -> Moment {
        self.asked_at + self.margins.usable(self.ttl).scaled(1, 2)
    }

    /// How long the lease lasts after each renewal.
    pub fn ttl(&self) -> Span {
        self.ttl
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(0) + Span::millis(ms)
    }

    fn tenure() -> Tenure {
        Tenure::granted(at(0), Span::secs(10), Margins::STANDARD)
    }

    #[test]
    fn safe_then_jeopardy_then_lost() {
        let mut tenure = tenure();
        assert_eq!(tenure.standing(at(0)), TenureState::Safe);
        assert_eq!(tenure.standing(at(4_700)), TenureState::Safe);
        assert_eq!(tenure.standing(at(4_900)), TenureState::Jeopardy);
        assert_eq!(tenure.standing(at(9_600)), TenureState::Jeopardy);
        assert_eq!(tenure.standing(at(9_602)), TenureState::Lost);
    }

    #[test]
    fn once_lost_always_lost() {
        let mut tenure = tenure();
        assert_eq!(
            tenure.renewed(at(9_000), at(20_000)),
            TenureState::Lost,
            "applied in time, heard of too late"
        );
        assert_eq!(tenure.renewed(at(20_000), at(20_000)), TenureState::Lost);
        assert!(!tenure.ensures(at(0), Span::ZERO));
    }

    #[test]
    fn ensure_looks_ahead() {
        let mut tenure = tenure();
        assert!(tenure.ensures(at(4_000), Span::secs(5)));
        assert!(!tenure.ensures(at(5_000), Span::secs(5)));
        assert_eq!(tenure.renewed(at(3_000), at(5_000)), TenureState::Safe);
        assert!(tenure.ensures(at(5_000), Span::secs(5)));
        assert_eq!(
            tenure.renewed(at(1_000), at(5_001)),
            TenureState::Safe,
            "a late answer to an older renewal"
        );
        assert!(tenure.ensures(at(5_001), Span::secs(5)));
    }

    #[test]
    fn an_offer_leads_after_one_renewal_only() {
        let mut tenure = Tenure::offered(at(0), Span::secs(30), Margins::STANDARD);
        assert_eq!(tenure.standing(at(1)), TenureState::Offered);
        assert!(!tenure.ensures(at(1), Span::ZERO));
        assert_eq!(tenure.renewed(at(1), at(2)), TenureState::Safe);
        let mut late = Tenure::offered(at(0), Span::secs(30), Margins::STANDARD);
        assert_eq!(late.renewed(at(1), at(5_000)), TenureState::Lost);
    }
}
