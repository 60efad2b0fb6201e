//! Elections that the store runs itself: commands become moves of its recipe, and what it shows becomes a document.
//!
//! There is no document to decide on: the store's own order decides who leads, its own counter gives the token, and it ends leases by
//! its own clock. What needs a document (policies, checkpoints, operators, fences) is refused.

use baton_election::command::{Acquire, Renew};
use baton_election::document::{Cause, Document, Leader, Phase, State};
use baton_election::policy::Limits;
use baton_election::removal_rules::Verdicts;
use baton_election::time::Span;
use baton_election::{
    Answer, Command, Credential, ElectionName, Epoch, Incarnation, KeyHash, Refusal, StoreId,
};
use baton_store::{NativeElections, NativeLeader, StoreError, boot};

use crate::error::Error;
use crate::local::{Executed, Local, Seen};

/// How long a lease lasts if nobody says: as long as that of a document's policy.
const DEFAULT_TTL: Span = Span::secs(30);

/// A candidate that stands in the store's own line.
pub(crate) struct Place<'a> {
    pub(crate) elections: &'a dyn NativeElections,
    pub(crate) election: &'a ElectionName,
    pub(crate) credential: Credential,
}

impl Place<'_> {
    /// Stands, or goes on standing. Refused while another leads; the place in line is kept.
    pub(crate) async fn acquire(&self, acquire: &Acquire) -> Result<Executed, Error> {
        let ttl = acquire.ttl.unwrap_or(DEFAULT_TTL);
        let standing = self.elections.stand(self.election, &acquire.agent, &self.credential, ttl).await?;
        if !standing.leads {
            return Err(Refusal::Held {
                by: Some(standing.leader.agent),
                epoch: standing.leader.epoch,
                remaining: standing.leader.left.or(standing.leader.ttl).unwrap_or(standing.ttl),
                ending: None,
            }
            .into());
        }
        let mut document = document(self.election, &standing.leader, standing.ttl);
        if let Some(leader) = &mut document.leader {
            (leader.agent, leader.incarnation) = (acquire.agent.clone(), self.credential.incarnation);
        }
        let answer = Answer::Granted {
            epoch: standing.epoch,
            ttl: standing.ttl,
            cause: Cause::First,
            offer: false,
            repeated: standing.stood,
        };
        Ok(Executed { answer, document, asked_at: standing.asked_at, ttl: Some(standing.ttl) })
    }

    async fn renew(&self, renew: &Renew) -> Result<Executed, Error> {
        let kept = self.elections.keep_alive(self.election, &self.credential).await?;
        let stale = |current| Refusal::Stale {
            shown: renew.epoch,
            current,
            leader: None,
            why: "the lease ended, or its key was deleted".to_string(),
        };
        match kept {
            Some(kept) if kept.epoch == renew.epoch => Ok(Executed {
                answer: Answer::Renewed {
                    epoch: kept.epoch,
                    awaiting_approval: false,
                    approval_wanted: false,
                },
                document: Document::new(self.election.clone(), StoreId([0; 8]), kept.epoch, &[]),
                asked_at: kept.asked_at,
                ttl: Some(kept.ttl),
            }),
            Some(kept) => Err(stale(kept.epoch).into()),
            None => Err(stale(renew.epoch).into()),
        }
    }

    /// Gives up the lead of this token, or the place in line. Refused if another leads by now: there was nothing to give up.
    async fn leave(&self, token: Epoch) -> Result<Executed, Error> {
        let asked_at = boot::now();
        let stood = self.elections.leave(self.election, &self.credential).await?;
        if !stood
            && token > Epoch(0)
            && let Some(leader) = self.elections.leader(self.election).await?
        {
            return Err(Refusal::Stale {
                shown: token,
                current: leader.epoch,
                leader: Some(leader.agent),
                why: "another leadership has begun".to_string(),
            }
            .into());
        }
        Ok(Executed {
            answer: Answer::Released { reserved_for: None },
            document: Document::new(self.election.clone(), StoreId([0; 8]), token, &[]),
            asked_at,
            ttl: None,
        })
    }
}

impl Local {
    /// Carries out a command in the store's own elections.
    pub(crate) async fn execute_natively(
        &self,
        elections: &dyn NativeElections,
        election: &ElectionName,
        credential: Option<Credential>,
        command: &Command,
    ) -> Result<Executed, Error> {
        let place = |credential| Place { elections, election, credential };
        match (command, credential) {
            (Command::Acquire(acquire), Some(credential)) => place(credential).acquire(acquire).await,
            (Command::Renew(renew), _) => place(renew.credential).renew(renew).await,
            (Command::Release(release), _) => place(release.credential).leave(release.epoch).await,
            (
                Command::Acquire(_)
                | Command::Pass(_)
                | Command::Checkpoint(_)
                | Command::Acknowledge(_)
                | Command::Report(_)
                | Command::Operate(_),
                _,
            ) => Err(StoreError::Refused {
                place: self.store.location(),
                why: "the store's own elections know nothing of this".to_string(),
                hint:
                    "run, acquire, renew, release, status and watch work here; for all else use Baton's own: \
                       another prefix, without ?election="
                        .to_string(),
            }
            .into()),
        }
    }

    /// What the store shows of an election of its own.
    pub(crate) async fn see_natively(
        &self,
        elections: &dyn NativeElections,
        election: &ElectionName,
    ) -> Result<Seen, Error> {
        let asked_at = boot::now();
        let leader = elections.leader(election).await?;
        let document =
            leader.as_ref().map(|leader| document(election, leader, leader.ttl.unwrap_or(DEFAULT_TTL)));
        // What is left is told in whole seconds, rounded down.
        let age =
            leader.as_ref().and_then(|leader| Some(leader.ttl?.minus(leader.left?.plus(Span::secs(1)))));
        let age = age.unwrap_or(Span::ZERO);
        match self.accept(document.as_ref(), age, asked_at, None) {
            // Another task saw a later leader meanwhile; this one was not to be believed long anyway.
            Ok(()) | Err(StoreError::Conflict) => Ok(Seen { document, age, asked_at, reading: None }),
            Err(error) => Err(error.into()),
        }
    }

    /// By what the leader is known that holds this credential.
    pub(crate) fn incarnation(&self, election: &ElectionName, credential: &Credential) -> Incarnation {
        match self.store.native() {
            Some(elections) => elections.incarnation_of(election, credential),
            None => credential.incarnation,
        }
    }
}

/// What the store shows, in the form that everything else is shown in.
fn document(election: &ElectionName, leader: &NativeLeader, ttl: Span) -> Document {
    let mut document = Document::new(election.clone(), StoreId([0; 8]), leader.epoch, &[]);
    let wall = boot::wall();
    document.state = State::Held;
    document.leader = Some(Leader {
        agent: leader.agent.clone(),
        incarnation: leader.incarnation,
        key_hash: KeyHash([0; 32]),
        epoch: leader.epoch,
        granted: leader.epoch,
        ttl,
        renewals: 0,
        offered: false,
        contact: None,
        region: None,
        through: None,
        phase: Phase::Serving,
        limits: Limits::default(),
        held: Span::ZERO,
        idle: Span::ZERO,
        spent_tokens: 0,
        verdicts: Verdicts::default(),
        acquired: wall,
        expires: wall + leader.left.unwrap_or(ttl),
    });
    document
}
