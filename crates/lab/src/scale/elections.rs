//! The elections of a simulated fleet in a simulated store. Each decision is the shipped one.

use baton_election::command::{Acquire, Renew};
use baton_election::time::{Moment, Span, WallTime};
use baton_election::{
    AgentName, Answer, Command, Credential, Document, ElectionName, Epoch, Evidence, Incarnation, LeaseKey,
    Margins, Refusal, StoreId, Tenure, TenureState, decide,
};

use super::Error;
use super::wheel::short;

/// A member of an election: an agent, or a region's seat in the fleet.
pub(super) type Member = u32;

/// What the store answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// The asker leads, under this token.
    Granted { token: u32 },
    /// The asker's lease was renewed.
    Renewed,
    /// This one leads, under this token, for at most so many microseconds more without a renewal.
    Led { by: Member, token: u32, remaining: u32 },
    /// The asker does not lead any more.
    Ended,
    /// Too much to do; nothing was done.
    Busy,
}

/// A leadership as its holder sees it.
#[derive(Debug, Clone)]
pub(super) struct Hold {
    pub(super) member: Member,
    pub(super) token: u32,
    pub(super) tenure: Tenure,
    credential: Credential,
}

/// One election, as the store has it.
struct Election {
    name: ElectionName,
    document: Option<Document>,
    /// When the document's clock was restarted, on the store's clock.
    beat_at: u64,
    leader: Member,
}

/// All elections.
pub(super) struct Elections {
    elections: Vec<Election>,
    /// What the holder of each believes; apart from the documents, since they are looked at with every message.
    holds: Vec<Option<Hold>>,
    ttl: Span,
    key: LeaseKey,
    lives: u64,
}

/// A moment on everybody's clock: clocks do not drift here.
pub(super) fn moment(at: u64) -> Moment {
    Moment::from_nanos(at.saturating_mul(1_000))
}

impl Elections {
    pub(super) fn new(count: u32, ttl: Span) -> Result<Elections, Error> {
        let election = |number: u32| {
            let name = ElectionName::new(&format!("fleet/{number}")).map_err(|_| Error::Inconsistent)?;
            Ok(Election { name, document: None, beat_at: 0, leader: 0 })
        };
        let elections = (0..count).map(election).collect::<Result<_, Error>>()?;
        let holds = (0..count).map(|_| None).collect();
        Ok(Elections { elections, holds, ttl, key: LeaseKey([7; 16]), lives: 0 })
    }

    /// The leader's hold, as the holder itself sees it.
    pub(super) fn holder(&mut self, scope: u32, now: u64) -> Option<&Hold> {
        let hold = self.own(scope).as_mut()?;
        (hold.tenure.standing(moment(now)) != TenureState::Lost).then_some(&*hold)
    }

    /// The holder's own view, whether it has ended or not.
    pub(super) fn hold(&mut self, scope: u32, member: Member) -> Option<&mut Hold> {
        self.own(scope).as_mut().filter(|hold| hold.member == member)
    }

    fn own(&mut self, scope: u32) -> &mut Option<Hold> {
        let place = usize::try_from(scope).unwrap_or(0);
        &mut self.holds[place]
    }

    fn at(&mut self, scope: u32) -> &mut Election {
        let place = usize::try_from(scope).unwrap_or(0);
        &mut self.elections[place]
    }

    /// A look at who leads.
    pub(super) fn read(&mut self, scope: u32, now: u64) -> Reply {
        let election = self.at(scope);
        let age = moment(now).since(moment(election.beat_at));
        let Some(document) = &election.document else { return Reply::Led { by: 0, token: 0, remaining: 0 } };
        let remaining = short(document.lease_remaining(age).as_nanos().div_ceil(1_000));
        Reply::Led { by: election.leader, token: token(document.epoch), remaining }
    }

    /// A bid, asked for at `asked` and decided at `now`.
    pub(super) fn acquire(
        &mut self,
        scope: u32,
        member: Member,
        asked: u64,
        now: u64,
    ) -> Result<Reply, Error> {
        // No two bids are of the same life.
        self.lives += 1;
        let (ttl, key) = (self.ttl, self.key);
        let credential = Credential { incarnation: Incarnation(self.lives.to_le_bytes()), key };
        let agent = AgentName::new(&format!("a{member}")).map_err(|_| Error::Inconsistent)?;
        let bid = Acquire::new(agent, credential.incarnation, key.hash());
        let command = Command::Acquire(Acquire { ttl: Some(ttl), ..bid });
        match self.decide(scope, &command, now)? {
            Err(Refusal::Held { remaining, .. }) => {
                let election = self.at(scope);
                let token = election.document.as_ref().map_or(0, |document| token(document.epoch));
                let remaining = short(remaining.as_nanos().div_ceil(1_000));
                Ok(Reply::Led { by: election.leader, token, remaining })
            }
            Err(_) => Err(Error::Inconsistent),
            Ok(Answer::Granted { epoch, .. }) => {
                let before = self.own(scope).as_mut().map(|hold| hold.tenure.standing(moment(now)));
                if before.is_some_and(|standing| standing != TenureState::Lost) {
                    return Err(Error::TwoLeaders);
                }
                let tenure = Tenure::granted(moment(asked), ttl, Margins::STANDARD);
                self.at(scope).leader = member;
                *self.own(scope) = Some(Hold { member, token: token(epoch), tenure, credential });
                Ok(Reply::Granted { token: token(epoch) })
            }
            Ok(_) => Err(Error::Inconsistent),
        }
    }

    /// A renewal.
    pub(super) fn renew(&mut self, scope: u32, member: Member, now: u64) -> Result<Reply, Error> {
        let Some(hold) = self.hold(scope, member) else { return Ok(Reply::Ended) };
        let command = Command::Renew(Renew::new(Epoch(u64::from(hold.token)), hold.credential));
        match self.decide(scope, &command, now)? {
            Ok(Answer::Renewed { .. }) => Ok(Reply::Renewed),
            Ok(_) => Err(Error::Inconsistent),
            Err(_) => Ok(Reply::Ended),
        }
    }

    fn decide(&mut self, scope: u32, command: &Command, now: u64) -> Result<Result<Answer, Refusal>, Error> {
        let election = self.at(scope);
        let evidence = Evidence {
            election: &election.name,
            store: StoreId([1; 8]),
            age: moment(now).since(moment(election.beat_at)),
            wall: WallTime::from_unix_millis(now / 1_000),
            floor: Epoch(0),
            vanished_lease: Span::ZERO,
            operator_keys: &[],
        };
        let decision = match decide(election.document.as_ref(), command, &evidence) {
            Ok(decision) => decision,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if let Some(next) = decision.next {
            let beats = election.document.as_ref().is_none_or(|before| before.beat != next.beat);
            if beats {
                election.beat_at = now;
            }
            election.document = Some(next);
        }
        Ok(Ok(decision.answer))
    }
}

fn token(epoch: Epoch) -> u32 {
    u32::try_from(epoch.0).unwrap_or(u32::MAX)
}
