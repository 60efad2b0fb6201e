//! What is asked of a member: by people, and by the file of members.

use baton_election::Span;
use baton_peer::{Group, Input, Machine, Member, NodeId, Role};
use baton_store::boot;

use super::Shell;
use crate::control;
use crate::members::{ListedMember, step_aside, step_towards};
use crate::node::{Event, NodeError};
use crate::transport::Peer;

/// So many refusals in a row, one for each heartbeat, are no matter of a moment.
const REFUSALS_BEFORE_TOLD: u32 = 20;

impl<M: Machine> Shell<M> {
    /// The file says who the members shall be.
    pub(super) fn want(&mut self, list: Result<Vec<ListedMember>, String>) {
        match list {
            Ok(listed) => {
                let peers: Vec<Peer> = listed.iter().map(ListedMember::peer).collect();
                self.options.peers = self.merged(&peers);
                self.transport.reach(&self.options.peers.clone());
                self.wanted = Some(listed);
                self.try_at = boot::now();
                if std::mem::take(&mut self.unusable) {
                    self.say(Event::Usable);
                }
            }
            Err(why) => {
                self.unusable = true;
                self.say(Event::Unwanted(why));
            }
        }
    }

    /// The list of the command line is for the first start; whoever changed it may think that it counts.
    pub(super) fn tell_of_another_list(&self) {
        let given = &self.options.config.group;
        if self.options.members_file.is_none() && given.members() != self.group.members() {
            let ids = |group: &Group| group.members().iter().map(|member| member.id).collect();
            self.say(Event::OtherList { counts: ids(&self.group), given: ids(given) });
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
        if self.acts() { step_towards(&self.group, &wanted, self.options.config.id) } else { None }
    }

    /// Whether this member is the one to change the list. With terms that are no tokens each member has a list of its own.
    fn acts(&self) -> bool {
        !M::TERMS_ARE_TOKENS || self.leadership.borrow().current.is_some_and(|current| !current.stop)
    }

    /// Whether this one can be taken into the list, or is there already.
    fn may_join(&mut self, id: NodeId) -> bool {
        let is_new = M::TERMS_ARE_TOKENS && self.group.member(id).is_none();
        !is_new || self.arrivals.may_join(boot::now(), id, &self.options.config.timing)
    }

    /// Goes one step towards the wanted list, if it is time. The machine refuses while the last step has not settled.
    pub(super) async fn pursue_wish(&mut self) -> Result<(), NodeError> {
        let now = boot::now();
        if self.options.never_leads
            && self.leadership.borrow().current.is_some_and(|current| !current.stop)
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
        let joins = members.iter().map(|member| member.id).find(|id| self.group.member(*id).is_none());
        if joins.is_some_and(|id| !self.may_join(id)) {
            return Ok(());
        }
        self.step(Input::Reconfigure { members }).await?;
        // A member that is gone may have to leave the list before another can join: with both in the list,
        // the leader would hear too few.
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
    pub(super) async fn answer(
        &mut self,
        ask: control::ControlRequest,
    ) -> Result<control::ControlReply, NodeError> {
        use control::{ControlReply, ControlRequest};
        match ask {
            ControlRequest::Status => Ok(ControlReply::Status(Box::new(self.status()))),
            ControlRequest::Transfer { to } => self.hand_over(to).await,
            ControlRequest::Members { change } => match &self.options.members_file {
                Some(file) => Ok(ControlReply::InFile(file.display().to_string())),
                None => self.change_members(change).await,
            },
        }
    }

    /// Hands over, unless the one that is named could not take it: with most algorithms the work would have stopped for nothing.
    async fn hand_over(&mut self, to: Option<NodeId>) -> Result<control::ControlReply, NodeError> {
        let (now, me) = (boot::now(), self.options.config.id);
        let leads = self.leadership.borrow().current.is_some();
        if let Some(to) = to.filter(|to| leads && *to != me && self.group.may_lead(*to)) {
            let view = self.machine.view(now);
            let silent = self
                .silent_for(now, &view, to)
                .map(|span| format!("has not answered for {}", span.whole_millis()));
            let gone = (!self.transport.connected().contains(&to)).then(|| "is out of reach".to_string());
            if let Some(why) = gone.or(silent) {
                return Ok(control::ControlReply::Refused(format!("member {to} {why}")));
            }
        }
        let answer = self.try_to(Input::Transfer { to }).await?;
        // With most algorithms the work stops at once; Raft asks the other one first.
        let waits = self.leadership.borrow().current.is_some_and(|current| !current.stop);
        self.handing = (answer == control::ControlReply::Begun && waits).then_some(to);
        Ok(answer)
    }

    /// What a step refused that nobody is there to be told of: a hand-over that was begun.
    pub(super) fn mind_hand_over(&mut self) {
        if let Some(why) = self.refused
            && let Some(to) = self.handing.take()
        {
            self.say(Event::NotHandedOver { to, why: why.to_string() });
        }
    }

    async fn try_to(&mut self, input: Input<M::Message>) -> Result<control::ControlReply, NodeError> {
        self.step(input).await?;
        Ok(match self.refused {
            Some(why) => control::ControlReply::Refused(why.to_string()),
            None => control::ControlReply::Begun,
        })
    }

    async fn change_members(&mut self, change: control::Change) -> Result<control::ControlReply, NodeError> {
        use control::{Change, ControlReply};
        let mut members: Vec<Member> = self.group.members().to_vec();
        let (member, address) = match change {
            Change::Add { member, address } => (member, address),
            Change::Remove { id } => {
                if self.group.member(id).is_none() {
                    return Ok(ControlReply::Refused(format!("there is no member {id}")));
                }
                members.retain(|known| known.id != id);
                return self.try_to(Input::Reconfigure { members }).await;
            }
        };
        let mut place = address.map(|address| Peer { id: member.id, address });
        if let Some(other) = self.neighbour(place.as_ref()) {
            return Ok(ControlReply::Refused(format!("member {other} is at that address already")));
        }
        let joins = self.group.member(member.id).is_none();
        if self.acts() && joins {
            // Where it is must be known for it to be heard. Nobody else's place is changed by that.
            self.find_at(place.take());
            if !self.may_join(member.id) {
                let text = "it has not been heard yet; start it first, and ask again in a moment";
                return Ok(ControlReply::Refused(format!("member {}: {text}", member.id)));
            }
        }
        members.retain(|known| known.id != member.id);
        members.push(member);
        let answer = self.try_to(Input::Reconfigure { members }).await?;
        if answer != ControlReply::Begun {
            return Ok(answer);
        }
        self.find_at(place);
        let is_here = self.arrivals.is_here(boot::now(), member.id, &self.options.config.timing)
            || self.transport.connected().contains(&member.id);
        if is_here || !joins {
            return Ok(answer);
        }
        let text = format!("member {} was not heard: start it", member.id);
        Ok(ControlReply::Warned(match M::TERMS_ARE_TOKENS {
            true => {
                let (majority, size) = (self.group.majority(), self.group.size());
                format!("{text}; {majority} of {size} members must be there from here on")
            }
            false => text,
        }))
    }

    /// Another member of the list that is known to be in that place.
    fn neighbour(&self, place: Option<&Peer>) -> Option<NodeId> {
        let Peer { id, address } = place?;
        let is_there =
            |peer: &&Peer| peer.address == *address && peer.id != *id && self.group.member(peer.id).is_some();
        self.options.peers.iter().find(is_there).map(|peer| peer.id)
    }

    /// From here on a member is looked for in this place.
    fn find_at(&mut self, place: Option<Peer>) {
        if let Some(peer) = place {
            self.options.peers = self.merged(&[peer]);
            self.transport.reach(&self.options.peers.clone());
        }
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
            silent_ms: self.silent_for(now, &view, member.id).map(Span::as_millis),
            forgetful: self.is_forgetful(now, member.id),
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
            trouble: self.trouble(now, &view),
            up_ms: now.since(self.born).as_millis(),
            start: self.start_word.to_string(),
            stamp: self.group.stamp(),
            members: self.group.members().iter().map(member).collect(),
            network: self.transport.counters(),
            machine: self.counters,
        }
    }
}
