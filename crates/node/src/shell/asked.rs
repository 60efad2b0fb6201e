//! What is asked of a member: by people, and by the file of members.

use baton_peer::{Input, Machine, Member, Role};
use baton_store::boot;

use super::Shell;
use crate::control;
use crate::members::{Listed, step_aside, step_towards};
use crate::node::{Event, NodeError};
use crate::transport::Peer;

/// So many refusals in a row, one for each heartbeat, are no matter of a moment.
const REFUSALS_BEFORE_TOLD: u32 = 20;

impl<M> Shell<M>
where
    M: Machine + Send + 'static,
    M::Message: Send,
    M::Saved: Send + 'static,
{
    /// The file says who the members shall be.
    pub(super) fn wish(&mut self, wish: Result<Vec<Listed>, String>) {
        match wish {
            Ok(listed) => {
                let peers: Vec<Peer> = listed.iter().map(Listed::peer).collect();
                self.options.peers = self.merged(&peers);
                self.transport.reach(&self.options.peers.clone());
                self.wanted = Some(listed);
                self.try_at = boot::now();
            }
            Err(why) => self.say(Event::Unwanted(why)),
        }
    }

    /// These addresses, and the former ones of members of whom there is no newer one.
    fn merged(&self, newer: &[Peer]) -> Vec<Peer> {
        let kept = self.options.peers.iter().filter(|peer| {
            self.group.member(peer.id).is_some() && newer.iter().all(|newer| newer.id != peer.id)
        });
        newer.iter().chain(kept).cloned().collect()
    }

    /// The next list of members on the way to the wanted one, if this member is to go that way.
    pub(super) fn next_members(&self) -> Option<Vec<Member>> {
        let wanted: Vec<Member> = self.wanted.as_ref()?.iter().map(|listed| listed.member).collect();
        // With terms that are no tokens each member has a list of its own.
        let acts = !M::TERMS_ARE_TOKENS || self.desk.borrow().office.is_some_and(|office| !office.stop);
        if acts { step_towards(&self.group, &wanted, self.options.config.id) } else { None }
    }

    /// Goes one step towards the wanted list, if it is time. The machine refuses while the last step has not settled.
    pub(super) async fn pursue_wish(&mut self) -> Result<(), NodeError> {
        let now = boot::now();
        if self.options.never_leads
            && self.desk.borrow().office.is_some_and(|office| !office.stop)
            && now >= self.try_at
        {
            // The list does not say that this member is a witness; its user does.
            self.try_at = now + self.options.config.timing.heartbeat;
            return self.step(Input::Transfer { to: None }).await;
        }
        if now < self.try_at {
            return Ok(());
        }
        let Some(members) = self.next_members() else { return Ok(()) };
        self.try_at = now + self.options.config.timing.heartbeat;
        self.step(Input::Reconfigure { members }).await?;
        // Who is gone may have to make room before another can come: with both in the list, too few would be heard.
        if self.refused.is_some()
            && let Some(members) = self.members_without_one()
        {
            self.step(Input::Reconfigure { members }).await?;
        }
        self.mind_refusals();
        Ok(())
    }

    fn members_without_one(&self) -> Option<Vec<Member>> {
        let wanted: Vec<Member> = self.wanted.as_ref()?.iter().map(|listed| listed.member).collect();
        step_aside(&self.group, &wanted, self.options.config.id)
    }

    /// A step that is refused for long is told of, once; for a moment it is usual.
    fn mind_refusals(&mut self) {
        let Some(why) = self.refused else {
            self.refusals = 0;
            return;
        };
        self.refusals = self.refusals.saturating_add(1);
        if self.refusals == REFUSALS_BEFORE_TOLD {
            self.say(Event::Unwanted(format!("the members do not become those of the file: {why}")));
        }
    }

    /// Answers a question, or does what is wished for.
    pub(super) async fn answer(&mut self, ask: control::Ask) -> Result<control::Answer, NodeError> {
        use control::{Answer, Ask, Change};
        let input = match ask {
            Ask::Status => return Ok(Answer::Status(Box::new(self.status()))),
            Ask::Transfer { to } => Input::Transfer { to },
            Ask::Members { .. } if self.wanted.is_some() => {
                let text = "a file says who the members are; change that";
                return Ok(Answer::Refused(text.to_string()));
            }
            Ask::Members { change } => {
                let mut members: Vec<Member> = self.group.members().to_vec();
                match change {
                    Change::Add { member, address } => {
                        members.retain(|known| known.id != member.id);
                        members.push(member);
                        if let Some(address) = address {
                            self.options.peers = self.merged(&[Peer { id: member.id, address }]);
                            self.transport.reach(&self.options.peers.clone());
                        }
                    }
                    Change::Remove { id } => members.retain(|known| known.id != id),
                }
                Input::Reconfigure { members }
            }
        };
        self.step(input).await?;
        Ok(match self.refused {
            Some(why) => Answer::Refused(why.to_string()),
            None => Answer::Begun,
        })
    }

    fn status(&self) -> control::Status {
        let (now, me) = (boot::now(), self.options.config.id);
        let view = self.machine.view(now);
        let (addresses, connected) = (self.transport.addresses(), self.transport.connected());
        let member = |member: &Member| control::MemberStatus {
            id: member.id,
            witness: member.witness,
            priority: member.priority,
            address: addresses.iter().find(|peer| peer.id == member.id).map(|peer| peer.address.clone()),
            connected: member.id == me || connected.contains(&member.id),
        };
        control::Status {
            id: me,
            group: self.options.group.clone(),
            algorithm: M::NAME.to_string(),
            terms_are_tokens: M::TERMS_ARE_TOKENS,
            role: view.role.into(),
            term: view.term,
            leader: view.leader,
            leads: view.leads(now),
            lease_left_ms: control::left_ms(view.until.filter(|_| view.role == Role::Leader), now),
            read_only: view.read_only,
            up_ms: now.since(self.born).as_millis(),
            start: self.start_word.to_string(),
            stamp: self.group.stamp(),
            members: self.group.members().iter().map(member).collect(),
            network: self.transport.counters(),
            machine: self.counters,
        }
    }
}
