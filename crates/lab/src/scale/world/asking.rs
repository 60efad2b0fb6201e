//! How members talk with the store: looks, bids, renewals, and what they make of the answers.

use baton_election::TenureState;

use super::{
    Answer, Ask, BACKOFF_FIRST, BACKOFF_LONGEST, Event, Knowledge, QUEUE, RENEW_AGAIN, SECOND, SPREAD, World,
};
use crate::scale::Error;
use crate::scale::elections::{Member, Reply, moment};
use crate::scale::wheel::short;

impl World {
    /// A member turns to the store, for the first time.
    pub(super) fn turn(&mut self, now: u64, member: Member, ask: Ask) {
        match ask {
            Ask::Look | Ask::Bid => self.of(member).asking = true,
            Ask::Renew if !self.leads(now, member) => return self.lose(member),
            Ask::Renew => {}
        }
        self.send_request(now, member, ask, short(now));
    }

    fn send_request(&mut self, now: u64, member: Member, ask: Ask, since: u32) {
        self.tally.message(now);
        let travel = self.travel();
        self.wheel.plan(now + travel, Event::Asked { member, ask, since });
    }

    /// The member goes on as one of many.
    fn lose(&mut self, member: Member) {
        let known = self.of(member);
        (known.heard_at, known.asking) = (0, false);
    }

    pub(super) fn asked(&mut self, now: u64, member: Member, ask: Ask, since: u32) -> Result<(), Error> {
        let scope = self.scope(member);
        let done = self.store_busy_until.max(now) + SECOND / u64::from(self.setup.store_capacity);
        let (done, reply) = if done > now + QUEUE {
            self.tally.refusal(now);
            (now, Reply::Busy)
        } else {
            self.store_busy_until = done;
            self.tally.operation(done);
            let reply = match ask {
                Ask::Look => self.elections.read(scope, done),
                Ask::Bid => self.elections.acquire(scope, member, u64::from(since), done)?,
                Ask::Renew => self.elections.renew(scope, member, done)?,
            };
            (done, reply)
        };
        self.tally.message(done);
        let travel = self.travel();
        let answer = Answer { member, ask, since, reply };
        let place = match self.post_free.pop() {
            Some(place) => {
                let free = self.place(place);
                self.post[free] = answer;
                place
            }
            None => {
                self.post.push(answer);
                u32::try_from(self.post.len() - 1).map_err(|_| Error::Inconsistent)?
            }
        };
        self.wheel.plan(done + travel, Event::Answered(place));
        Ok(())
    }

    pub(super) fn answered(&mut self, now: u64, place: u32) {
        let Answer { member, ask, since, reply } = self.post[self.place(place)];
        self.post_free.push(place);
        if self.process(now, member).is_none() {
            self.of(member).asking = false;
            return;
        }
        match reply {
            Reply::Busy => self.try_again(now, member, ask, since),
            Reply::Granted { token } => self.granted(now, member, token),
            Reply::Renewed => self.renewed(now, member, since),
            Reply::Ended => self.lose(member),
            Reply::Led { by, token, remaining } => self.told(now, member, ask, by, token, remaining),
        }
    }

    fn try_again(&mut self, now: u64, member: Member, ask: Ask, since: u32) {
        let known = self.of(member);
        let longest = match ask {
            Ask::Look | Ask::Bid => BACKOFF_FIRST << known.tries.min(8),
            Ask::Renew => RENEW_AGAIN,
        };
        known.tries = known.tries.saturating_add(1);
        let wait = self.random.below(longest.min(BACKOFF_LONGEST));
        match ask {
            Ask::Look | Ask::Bid => self.wheel.plan(now + wait, Event::Turn(member, ask)),
            Ask::Renew if self.leads(now, member) => self.send_request(now + wait, member, ask, since),
            Ask::Renew => self.lose(member),
        }
    }

    fn granted(&mut self, now: u64, member: Member, token: u32) {
        if !self.leads(now, member) {
            return self.lose(member);
        }
        *self.of(member) = Knowledge { leader: member, token, heard_at: short(now), ..Knowledge::default() };
        let scope = self.scope(member);
        let due = self.elections.hold(scope, member).map(|hold| hold.tenure.renew_at().as_nanos() / 1_000);
        self.wheel.plan(due.unwrap_or(now), Event::Turn(member, Ask::Renew));
        if scope > 0 {
            // The region's seat in the fleet is this agent's: it looks who leads there.
            let seat = self.agents + scope - 1;
            self.of(seat).tries = 0;
            return self.turn(now, seat, Ask::Look);
        }
        match self.dead {
            None => self.grants += 1,
            Some(_) if self.news.led_at.is_none() => {
                self.news.led_at = Some(now);
                self.news.token = token;
                // Some asked the store after it had decided and before the new leader itself was told.
                self.news.know = self.fleet.iter().fold(0, |sum, &known| sum + u32::from(known >= token));
            }
            Some(_) => {}
        }
        if let Some(process) = self.process(now, member) {
            self.learn(now, process, token);
        }
    }

    fn renewed(&mut self, now: u64, member: Member, since: u32) {
        self.of(member).tries = 0;
        let scope = self.scope(member);
        let Some(hold) = self.elections.hold(scope, member) else { return self.lose(member) };
        if hold.tenure.renewed(moment(u64::from(since)), moment(now)) == TenureState::Lost {
            return self.lose(member);
        }
        let due = hold.tenure.renew_at().as_nanos() / 1_000;
        self.wheel.plan(due, Event::Turn(member, Ask::Renew));
    }

    /// The store told who leads.
    fn told(&mut self, now: u64, member: Member, ask: Ask, by: Member, token: u32, remaining: u32) {
        self.of(member).tries = 0;
        let news = token > self.of(member).token;
        if !news && ask == Ask::Look {
            // The same leader as before, which does not answer: once its lease has ended, others may lead.
            let wait = u64::from(remaining) + self.random.below(SPREAD);
            return self.wheel.plan(now + wait, Event::Turn(member, Ask::Bid));
        }
        // Another leads; or the same one, and renews: then it is only busy.
        *self.of(member) = Knowledge { leader: by, token, heard_at: short(now), ..Knowledge::default() };
        if self.scope(member) == 0
            && let Some(process) = self.process(now, member)
        {
            self.learn(now, process, token);
        }
        if news {
            self.send_report(now, member);
        }
    }
}
