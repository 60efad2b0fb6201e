//! Why nobody is elected, as far as one member can tell: for people, in its status and in its log.
//!
//! A group can wait for ever without a fault of anybody's: a member was never started, `--found` was given to some, too many have lost their memory. Each member
//! knows a part of why from whom it hears. **Assumes** nothing. **Guarantees** that nothing is decided by what is found here, and that it is told in the
//! log only once it has lasted, once for each thing found. **Does not** guarantee that it is all there is.

use baton_election::{Moment, Span};
use baton_peer::memory_recovery::{MemoryRecovery, needed};
use baton_peer::{Group, Machine, NodeId, Role, Start, Term, View};
use baton_store::boot;

use super::Shell;
use super::heard_members::silence;
use crate::node::Event;

/// So many longest timeouts a trouble lasts before it is told in the log.
const TOLD_TIMEOUTS: u64 = 2;

/// What a member knows of the others.
struct GroupView<'a> {
    me: NodeId,
    group: &'a Group,
    term: Term,
    /// It was told that the group is new.
    founded: bool,
    roll: Option<&'a MemoryRecovery>,
    /// Members that do not answer, or cannot be sent to.
    missing: Vec<NodeId>,
    /// Members that ask for what they have forgotten.
    forgetful: Vec<NodeId>,
}

impl GroupView<'_> {
    /// Why nobody is elected; none if somebody should be soon.
    fn trouble(&self) -> Option<String> {
        if self.group.member(self.me).is_none() {
            let ids: Vec<NodeId> = self.group.members().iter().map(|member| member.id).collect();
            let list = named(&ids);
            return Some(format!("this member is not in the list ({list}), and takes no part until it is"));
        }
        match self.roll {
            Some(roll) => self.trouble_of_the_forgetful(roll),
            None => self.trouble_of_voters(),
        }
    }

    /// This member has forgotten, or never knew anything.
    fn trouble_of_the_forgetful(&self, roll: &MemoryRecovery) -> Option<String> {
        let is_other = |id: &NodeId| *id != self.me && self.group.member(*id).is_some();
        let remember: Vec<NodeId> = roll.remembering().filter(is_other).collect();
        let forgot: Vec<NodeId> = self
            .group
            .others(self.me)
            .filter(|id| !remember.contains(id) && !self.missing.contains(id))
            .collect();
        let unknown: Vec<NodeId> = self.missing.iter().copied().filter(|id| !remember.contains(id)).collect();
        let needed = needed(self.group);
        if remember.is_empty() {
            let text = "it waits to hear from all members, since the group is new or this member has lost its memory";
            return (!unknown.is_empty()).then(|| format!("{text}; missing: {}", named(&unknown)));
        }
        if remember.len() >= needed {
            return None;
        }
        let (who, has) = if remember.len() == 1 { ("member", "has") } else { ("members", "have") };
        if remember.len() + unknown.len() >= needed {
            let text = format!(
                "it has no memory and needs {needed} others that have; so far {who} {}; missing: {}",
                named(&remember),
                named(&unknown)
            );
            return Some(text);
        }
        if roll.highest() == Term::ZERO {
            let without: Vec<NodeId> = [forgot, vec![self.me]].concat();
            return Some(some_found(&remember, &without));
        }
        Some(format!(
            "too many have lost their memory: {needed} others must have it, and only {who} {} {has}; nobody can be elected until \
             others come back with theirs, or a person founds the group anew",
            named(&remember)
        ))
    }

    /// This member votes.
    fn trouble_of_voters(&self) -> Option<String> {
        let votes = |id: &NodeId| !self.missing.contains(id) && !self.forgetful.contains(id);
        let voters: Vec<NodeId> = self.group.members().iter().map(|member| member.id).filter(votes).collect();
        if voters.len() >= self.group.majority() {
            let anybody = voters.iter().any(|id| self.group.may_lead(*id));
            return (!anybody).then(|| format!("of those that answer ({}) none may lead", named(&voters)));
        }
        let (forgetful, gone): (Vec<NodeId>, Vec<NodeId>) = self
            .group
            .members()
            .iter()
            .map(|member| member.id)
            .filter(|id| !votes(id))
            .partition(|id| self.forgetful.contains(id));
        if self.founded && self.term == Term::ZERO && gone.is_empty() {
            return Some(some_found(&voters, &forgetful));
        }
        let mut text = format!(
            "{} of {} members must vote, and only {} can",
            self.group.majority(),
            self.group.size(),
            named(&voters)
        );
        if !gone.is_empty() {
            text.push_str(&format!("; missing: {}", named(&gone)));
        }
        if !forgetful.is_empty() {
            text.push_str(&format!("; without memory, and asking: {}", named(&forgetful)));
        }
        Some(text)
    }
}

fn some_found(founders: &[NodeId], others: &[NodeId]) -> String {
    format!(
        "--found was given to {}, and not to {}, or these have lost their memory: give it to all members of a group that has never had a leader, or to none",
        named(founders),
        named(others)
    )
}

/// In the order of the ids.
pub(super) fn named(ids: &[NodeId]) -> String {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.iter().map(ToString::to_string).collect::<Vec<String>>().join(", ")
}

impl<M: Machine> Shell<M> {
    /// Why nobody is elected, if that is so and not only a matter of a moment.
    pub(super) fn trouble(&self, now: Moment, view: &View) -> Option<String> {
        let timing = &self.options.config.timing;
        let begun = self.since(view).max(self.born + timing.quarantine());
        if view.leader.is_some() || now < begun + silence(timing) {
            return None;
        }
        let (me, connected) = (self.options.config.id, self.transport.connected());
        let is_missing = |id: &NodeId| !connected.contains(id) || self.silent_for(now, view, *id).is_some();
        let others: Vec<NodeId> = self.group.others(me).collect();
        let around = GroupView {
            me,
            group: &self.group,
            term: view.term,
            founded: self.founded,
            roll: self.machine.memory_recovery(),
            missing: others.iter().copied().filter(is_missing).collect(),
            forgetful: others.iter().copied().filter(|id| self.is_forgetful(now, *id)).collect(),
        };
        let is_member = self.group.member(me).is_some();
        // With Bully and Ring one is enough.
        if M::TERMS_ARE_TOKENS || !is_member { around.trouble() } else { None }
    }

    /// How long a member has been silent that should have answered.
    pub(super) fn silent_for(&self, now: Moment, view: &View, id: NodeId) -> Option<Span> {
        let is_asked = match view.role {
            Role::Leader | Role::Candidate => true,
            Role::Waiting => self.machine.memory_recovery().is_some(),
            Role::Follower => view.leader == Some(id),
        };
        if !M::TERMS_ARE_TOKENS || !is_asked || id == self.options.config.id {
            return None;
        }
        // Before that it was asked nothing.
        let asked = self.heard_members.heard(id).unwrap_or(self.born).max(self.since(view));
        let silent = now.since(asked);
        (silent > silence(&self.options.config.timing)).then_some(silent)
    }

    /// Since when the one leads that leads, or nobody does.
    fn since(&self, view: &View) -> Moment {
        match self.heard_members.leader {
            Some((leader, since)) if leader == view.leader => since,
            // It has just changed.
            Some(_) | None => boot::now(),
        }
    }

    pub(super) fn is_forgetful(&self, now: Moment, id: NodeId) -> bool {
        self.heard_members.is_forgetful(now, id, &self.options.config.timing)
    }

    /// Tells of what keeps the group from electing anybody, once it has lasted.
    pub(super) fn mind_trouble(&mut self) {
        let now = boot::now();
        let view = self.machine.view(now);
        self.heard_members.leader_since(now, view.leader);
        if self.heard_members.look_at.is_some_and(|at| now < at) {
            return;
        }
        let timing = self.options.config.timing;
        self.heard_members.look_at = Some(now + timing.heartbeat);
        let Some(trouble) = self.trouble(now, &view) else {
            self.heard_members.found = None;
            if view.leader.is_some() {
                self.heard_members.told = None;
            }
            return;
        };
        let since = match &self.heard_members.found {
            Some((found, since)) if *found == trouble => *since,
            Some(_) | None => now,
        };
        if now.since(since) >= timing.timeout_max.scaled(TOLD_TIMEOUTS, 1)
            && self.heard_members.told.as_ref() != Some(&trouble)
        {
            self.say(Event::Stuck(trouble.clone()));
            self.heard_members.told = Some(trouble.clone());
        }
        self.heard_members.found = Some((trouble, since));
    }
}

/// Whether the member was told that its group is new.
pub(super) fn is_founded<S>(start: &Start<S>) -> bool {
    matches!(start, Start::Founded)
}

#[cfg(test)]
mod tests {
    use baton_peer::memory_recovery::{self, Founding, MemberIncarnation};
    use baton_peer::pending_members::AdmittedMembers;
    use baton_peer::{GroupStamp, Member};

    use super::*;

    fn id(number: u16) -> NodeId {
        NodeId::new(number).unwrap()
    }

    fn ids(numbers: &[u16]) -> Vec<NodeId> {
        numbers.iter().map(|number| id(*number)).collect()
    }

    fn group(size: u16) -> Group {
        Group::founded((1..=size).map(|number| Member::plain(id(number))).collect()).unwrap()
    }

    /// Member 1 has asked; these remember that term, those have forgotten.
    fn roll(group: &Group, remember: &[u16], term: u64, forgot: &[u16]) -> MemoryRecovery {
        let mut call = MemoryRecovery::begun(MemberIncarnation(7));
        let ask = call.ask(GroupStamp::default());
        for number in remember {
            let past = (&Founding::default(), &AdmittedMembers::default());
            let _ = call.hear(
                id(1),
                group,
                id(*number),
                &memory_recovery::tell(id(1), &ask, Term(term), group, past),
            );
        }
        for number in forgot {
            let other = MemoryRecovery::begun(MemberIncarnation(u64::from(*number)));
            let _ = call.hear(id(1), group, id(*number), &other.tell(&ask, group));
        }
        call
    }

    fn forgetful(group: &Group, roll: &MemoryRecovery, missing: &[u16]) -> Option<String> {
        let around = GroupView {
            me: id(1),
            group,
            term: Term::ZERO,
            founded: false,
            roll: Some(roll),
            missing: ids(missing),
            forgetful: Vec::new(),
        };
        around.trouble()
    }

    #[test]
    fn who_has_no_memory_says_whom_it_waits_for() {
        let three = group(3);
        let new = forgetful(&three, &roll(&three, &[], 0, &[2]), &[3]).unwrap();
        assert!(new.contains("waits to hear from all members") && new.ends_with("; missing: 3"), "{new}");
        assert_eq!(forgetful(&three, &roll(&three, &[], 0, &[2, 3]), &[]), None, "all are there");
        let found = forgetful(&three, &roll(&three, &[2], 0, &[3]), &[]).unwrap();
        assert!(found.contains("--found was given to 2, and not to 1, 3"), "{found}");
        let lost = forgetful(&three, &roll(&three, &[2], 9, &[3]), &[]).unwrap();
        assert!(lost.contains("too many have lost their memory") && lost.contains("member 2"), "{lost}");
        let waits = forgetful(&three, &roll(&three, &[2], 9, &[]), &[3]).unwrap();
        assert!(waits.contains("needs 2 others") && waits.contains("missing: 3"), "{waits}");
    }

    #[test]
    fn who_votes_says_who_does_not() {
        let voting = |founded, missing: &[u16], forgetful: &[u16]| {
            let three = group(3);
            let (missing, forgetful) = (ids(missing), ids(forgetful));
            let around = GroupView {
                me: id(1),
                group: &three,
                term: Term::ZERO,
                founded,
                roll: None,
                missing,
                forgetful,
            };
            around.trouble()
        };
        assert_eq!(voting(false, &[3], &[]), None, "two of three can vote");
        let alone = voting(false, &[2, 3], &[]).unwrap();
        assert!(alone.contains("2 of 3 members must vote, and only 1 can; missing: 2, 3"), "{alone}");
        let found = voting(true, &[], &[2, 3]).unwrap();
        assert!(found.contains("--found was given to 1, and not to 2, 3"), "{found}");
        let both = voting(false, &[2], &[3]).unwrap();
        assert!(both.contains("missing: 2") && both.contains("asking: 3"), "{both}");
    }

    #[test]
    fn who_is_not_in_the_list_or_finds_only_witnesses_says_so() {
        let around = |group, me| GroupView {
            me: id(me),
            group,
            term: Term(3),
            founded: false,
            roll: None,
            missing: if me == 2 { ids(&[1]) } else { Vec::new() },
            forgetful: Vec::new(),
        };
        let three = group(3);
        let out = around(&three, 4).trouble().unwrap();
        assert!(out.contains("not in the list (1, 2, 3)"), "{out}");
        let witness = |number| Member { witness: true, ..Member::plain(id(number)) };
        let weak = Group::founded(vec![Member::plain(id(1)), witness(2), witness(3)]).unwrap();
        let none = around(&weak, 2).trouble().unwrap();
        assert!(none.contains("(2, 3) none may lead"), "{none}");
    }
}
