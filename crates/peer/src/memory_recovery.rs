//! Memory recovery: how a member that has forgotten its past finds out in which terms it may vote.
//!
//! A voter that lost its disk could vote twice in one term. So it asks the others, and takes part only when one of these holds:
//!
//! - **Enough remember.** [`needed`] other members of the newest list told it their terms, all with that list. It may vote in terms above
//!   the highest of them.
//! - **The leader took it in.** The leader put it into the list after it had asked, in its present life ([`pending_members`](crate::pending_members)). It may vote in terms above the
//!   leader's.
//! - **The group is being founded.** All others said twice in a row that they have forgotten too, in the same *lives*: at the
//!   instant between the two rounds nobody knew anything, so there is nothing to contradict. Whoever finds this out keeps it as
//!   a [`Founding`]; a member that is named there in its present life may begin at once, even if it did not hear all itself.
//!
//! **Assumes** that a member asks only after [`Timing::quarantine`](crate::Timing::quarantine), and that no candidate counts votes for longer than
//! the longest timeout. A vote that was given before the disk was lost has then either helped to elect somebody, in which case one of those who tell has
//! that term on its disk, or helps nobody any more. This is the one place where the uniqueness of terms leans on clocks.
//! Assumes also that a life's number is not drawn twice.
//!
//! **Guarantees** then that nobody who asked votes in a term in which it may have voted before. **Does not** guarantee an end: while too
//! many are silent, or have forgotten after the group was founded, a member that has forgotten waits.

use alloc::vec::Vec;

use baton_election::Moment;
use serde::{Deserialize, Serialize};

use crate::pending_members::AdmittedMembers;
use crate::{Group, GroupStamp, MAX_MEMBERS, NodeId, Random, Term};

/// The number of one start of a member that has forgotten, drawn anew each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MemberIncarnation(pub u64);

impl MemberIncarnation {
    /// Of a member with that seed that starts at that moment: even with the same seed no two starts of a clock are alike.
    pub const fn drawn(seed: u64, now: Moment) -> MemberIncarnation {
        let mixed = Random::seeded(now.as_nanos()).number();
        MemberIncarnation(Random::seeded(seed ^ mixed).number())
    }
}

/// What a member that has forgotten asks all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ask {
    /// In which life.
    pub life: MemberIncarnation,
    /// How many times all others have answered that they have forgotten.
    pub round: u64,
    /// How new its list of members is.
    pub stamp: GroupStamp,
}

/// What a member answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Answer {
    /// Of the one who asked: an answer to a former life must not count.
    pub life: MemberIncarnation,
    /// Of the question.
    pub round: u64,
    /// What it knows.
    pub memory: Memory,
    /// Its list of members, if it is newer than that of the one who asked.
    pub group: Option<Group>,
}

impl Answer {
    /// The highest term in it.
    pub fn highest_term(&self) -> Term {
        let list = self.group.as_ref().map_or(Term::ZERO, |group| group.stamp().term);
        match &self.memory {
            Memory::Forgotten { .. } => list,
            Memory::Kept { term, stamp, founding: _, admitted: _ } => list.max(*term).max(stamp.term),
        }
    }
}

/// What a member knows of the past.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Memory {
    /// Nothing.
    Forgotten {
        /// Since when.
        life: MemberIncarnation,
    },
    /// What it kept.
    Kept {
        /// The highest term it has seen.
        term: Term,
        /// How new its list is.
        stamp: GroupStamp,
        /// How it came to take part, if that names the one who asked in its present life.
        founding: Option<Founding>,
        /// It took the one who asked into the list as the leader, in its present life.
        admitted: bool,
    },
}

/// That all these members, in these lives, had forgotten at one instant. Empty for a group whose members were told that they are founding it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Founding(Vec<(NodeId, MemberIncarnation)>);

impl Founding {
    /// Whether that member was there in that life.
    pub fn names(&self, member: NodeId, life: MemberIncarnation) -> bool {
        self.0.contains(&(member, life))
    }

    /// Whether it could have been made by a group: one that comes over the network may be anything.
    fn is_sound(&self) -> bool {
        self.0.len() <= MAX_MEMBERS
    }
}

/// What follows from an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Not enough is known.
    Unknown,
    /// Not enough is known, and the next round of questions can begin at once.
    AskAgain,
    /// It may vote in terms above this.
    Above(Term),
    /// It takes part in founding the group, and may vote in any term.
    Founded(Founding),
}

/// How many others must remember: a majority, so that each majority that the member may have voted with has one of them, and no older list
/// can elect anybody. In a group of two, the other one.
pub fn needed(group: &Group) -> usize {
    group.majority().min(group.size().saturating_sub(1))
}

/// What a member that remembers answers; who has forgotten answers [`MemoryRecovery::tell`].
pub fn tell(
    asker: NodeId,
    ask: &Ask,
    term: Term,
    group: &Group,
    (founding, admitted): (&Founding, &AdmittedMembers),
) -> Answer {
    let founding = founding.names(asker, ask.life).then(|| founding.clone());
    let admitted = admitted.names(asker, ask.life);
    answer(ask, group, Memory::Kept { term, stamp: group.stamp(), founding, admitted })
}

/// A list of members that nobody asked for, and nothing else: it answers no life.
pub fn list(group: &Group) -> Answer {
    let life = MemberIncarnation(0);
    Answer { life, round: 0, memory: Memory::Forgotten { life }, group: Some(group.clone()) }
}

/// To whom a witness that hears no leader tells its list: those that may lead. If one of them was taken out and put back, and the leader
/// was gone before it heard of it, nobody else would tell it that it may stand. As long as the list was never changed there is nothing to tell.
pub fn told_by_a_witness(me: NodeId, group: &Group) -> impl Iterator<Item = NodeId> + '_ {
    let tells = group.stamp().version > 0 && group.member(me).is_some_and(|member| member.witness);
    group.others(me).filter(move |other| tells && group.may_lead(*other))
}

fn answer(ask: &Ask, group: &Group, memory: Memory) -> Answer {
    let newer = (group.stamp() > ask.stamp).then(|| group.clone());
    Answer { life: ask.life, round: ask.round, memory, group: newer }
}

/// The memory recovery of one member in one life.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MemoryRecovery {
    life: MemberIncarnation,
    round: u64,
    /// Who remembers, with the list that it has. One entry per member.
    kept: Vec<(NodeId, GroupStamp)>,
    highest: Term,
    /// Who said in this round that it has forgotten.
    forgotten: Vec<(NodeId, MemberIncarnation)>,
    /// What all others said in the last complete round.
    before: Vec<(NodeId, MemberIncarnation)>,
}

impl MemoryRecovery {
    /// Nobody was asked yet.
    pub const fn begun(life: MemberIncarnation) -> MemoryRecovery {
        MemoryRecovery {
            life,
            round: 0,
            kept: Vec::new(),
            highest: Term::ZERO,
            forgotten: Vec::new(),
            before: Vec::new(),
        }
    }

    /// In which life it is called.
    pub const fn life(&self) -> MemberIncarnation {
        self.life
    }

    /// The members that were heard to remember, of those that it asks. Some of them may have forgotten, or
    /// gone, since.
    pub fn remembering(&self) -> impl Iterator<Item = NodeId> {
        self.kept.iter().map(|(id, _)| *id)
    }

    /// The members that were heard to have forgotten too, in this round or the last complete one.
    pub fn forgetful(&self) -> impl Iterator<Item = NodeId> {
        let earlier = self.before.iter().filter(|(id, _)| self.forgotten.iter().all(|(now, _)| now != id));
        self.forgotten.iter().chain(earlier).map(|(id, _)| *id)
    }

    /// The highest term of those that remember.
    pub const fn highest(&self) -> Term {
        self.highest
    }

    /// What to ask all others, again and again until there is a verdict.
    pub const fn ask(&self, stamp: GroupStamp) -> Ask {
        Ask { life: self.life, round: self.round, stamp }
    }

    /// What a member that has forgotten answers itself.
    pub fn tell(&self, ask: &Ask, group: &Group) -> Answer {
        answer(ask, group, Memory::Forgotten { life: self.life })
    }

    /// What to send to a member whose answer shows an older list: this one. Where all that remember are witnesses nobody else would tell it, and it
    /// would never count.
    pub fn put_right(&self, answer: &Answer, group: &Group) -> Option<Answer> {
        let is_behind = match answer.memory {
            Memory::Kept { stamp, .. } => answer.life == self.life && stamp < group.stamp(),
            Memory::Forgotten { .. } => false,
        };
        is_behind.then(|| list(group))
    }

    /// A member that is alone in its group needs to ask nobody, as long as nobody has led it. If others told
    /// it a list of one, the group has lost its memory: nobody knows what its only member did in it, and the
    /// member waits for ever.
    pub fn alone(&self, me: NodeId, group: &Group) -> Option<Founding> {
        let is_new = group.stamp() == GroupStamp::default() && self.kept.is_empty();
        let is_alone = group.size() == 1 && group.member(me).is_some();
        (is_new && is_alone).then(|| Founding([(me, self.life)].into()))
    }

    /// Takes an answer. The caller has taken over `answer.group` before, if that is newer than what it had; `group` is what it has.
    pub fn hear(&mut self, me: NodeId, group: &Group, from: NodeId, answer: &Answer) -> Verdict {
        let is_member = |id| group.member(id).is_some();
        if answer.life != self.life || from == me || !is_member(me) || !is_member(from) {
            return Verdict::Unknown;
        }
        match &answer.memory {
            Memory::Kept { founding: Some(founding), .. }
                if founding.is_sound() && founding.names(me, self.life) =>
            {
                Verdict::Founded(founding.clone())
            }
            Memory::Kept { term, admitted: true, .. } => {
                Verdict::Above(self.highest.max(*term).max(group.stamp().term))
            }
            Memory::Kept { term, stamp, founding: _, admitted: false } => {
                self.highest = self.highest.max(*term);
                self.forgotten.retain(|(id, _)| *id != from);
                self.kept.retain(|(id, _)| *id != from && is_member(*id));
                self.kept.push((from, *stamp));
                self.judge(group)
            }
            Memory::Forgotten { life } => {
                if answer.round == self.round {
                    self.forgotten.retain(|(id, _)| *id != from && is_member(*id));
                    self.forgotten.push((from, *life));
                }
                self.count_forgotten(me, group)
            }
        }
    }

    fn judge(&self, group: &Group) -> Verdict {
        let with_this_list = self.kept.iter().filter(|(_, stamp)| *stamp == group.stamp()).count();
        if with_this_list < needed(group) {
            return Verdict::Unknown;
        }
        Verdict::Above(self.highest.max(group.stamp().term))
    }

    fn count_forgotten(&mut self, me: NodeId, group: &Group) -> Verdict {
        let all = group.others(me).all(|other| self.forgotten.iter().any(|(id, _)| *id == other));
        // Who told a term and lost it since leaves this member as the last one that knows of it.
        if !all || !self.kept.is_empty() {
            return Verdict::Unknown;
        }
        self.forgotten.sort_unstable();
        if self.forgotten == self.before {
            let mut lives = core::mem::take(&mut self.forgotten);
            lives.push((me, self.life));
            return Verdict::Founded(Founding(lives));
        }
        self.before = core::mem::take(&mut self.forgotten);
        self.round += 1;
        Verdict::AskAgain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Member;

    fn id(number: u16) -> NodeId {
        NodeId::new(number).expect("a number of a test")
    }

    fn group(size: u16, term: u64) -> Group {
        let members = (1..=size).map(|n| Member::plain(id(n))).collect();
        Group::stamped(GroupStamp { term: Term(term), version: 0 }, members).expect("a group of a test")
    }

    fn kept(call: &MemoryRecovery, group: &Group, term: u64) -> Answer {
        let past = (&Founding::default(), &AdmittedMembers::default());
        tell(id(1), &call.ask(GroupStamp::default()), Term(term), group, past)
    }

    fn forgotten(call: &MemoryRecovery, life: u64) -> Answer {
        MemoryRecovery::begun(MemberIncarnation(life)).tell(&call.ask(GroupStamp::default()), &group(3, 0))
    }

    #[test]
    fn every_majority_with_the_asker_has_one_of_those_who_tell() {
        for size in 2..=9_u16 {
            let group = group(size, 0);
            let others_in_a_majority = group.majority() - 1;
            let others = group.size() - 1;
            assert!(needed(&group) + others_in_a_majority > others, "{size}");
            assert!(needed(&group) <= others, "{size}");
        }
    }

    #[test]
    fn who_remembers_and_who_does_not_can_be_told_to_people() {
        let group = group(4, 0);
        let mut call = MemoryRecovery::begun(MemberIncarnation(7));
        let heard = |call: &MemoryRecovery| {
            let (mut kept, mut lost): (Vec<_>, Vec<_>) =
                (call.remembering().collect(), call.forgetful().collect());
            kept.sort_unstable();
            lost.sort_unstable();
            (kept, lost)
        };
        call.hear(id(1), &group, id(2), &kept(&call.clone(), &group, 4));
        call.hear(id(1), &group, id(3), &forgotten(&call.clone(), 30));
        assert_eq!(heard(&call), ([id(2)].into(), [id(3)].into()));
        assert_eq!(call.highest(), Term(4));
        // In the next round it is not asked anew who has said so in the last one.
        let mut call = MemoryRecovery::begun(MemberIncarnation(7));
        for number in 2..=4_u16 {
            call.hear(id(1), &group, id(number), &forgotten(&call.clone(), u64::from(number) * 10));
        }
        call.hear(id(1), &group, id(2), &forgotten(&call.clone(), 20));
        assert_eq!(heard(&call), ([].into(), [id(2), id(3), id(4)].into()));
    }

    #[test]
    fn a_member_votes_only_above_all_that_it_was_told() {
        let group = group(5, 4);
        let mut call = MemoryRecovery::begun(MemberIncarnation(7));
        assert_eq!(call.hear(id(1), &group, id(2), &kept(&call.clone(), &group, 4)), Verdict::Unknown);
        assert_eq!(
            call.hear(id(1), &group, id(2), &kept(&call.clone(), &group, 4)),
            Verdict::Unknown,
            "twice is once"
        );
        assert_eq!(call.hear(id(1), &group, id(3), &kept(&call.clone(), &group, 9)), Verdict::Unknown);
        assert_eq!(call.hear(id(1), &group, id(4), &kept(&call.clone(), &group, 5)), Verdict::Above(Term(9)));
    }

    #[test]
    fn who_has_another_list_or_no_place_in_it_does_not_count() {
        let (now, old) = (group(3, 4), group(3, 2));
        let mut call = MemoryRecovery::begun(MemberIncarnation(7));
        assert_eq!(call.hear(id(1), &now, id(2), &kept(&call.clone(), &now, 4)), Verdict::Unknown);
        assert_eq!(call.hear(id(1), &now, id(3), &kept(&call.clone(), &old, 8)), Verdict::Unknown);
        assert_eq!(call.hear(id(1), &now, id(9), &kept(&call.clone(), &now, 4)), Verdict::Unknown);
        assert_eq!(call.hear(id(1), &now, id(1), &kept(&call.clone(), &now, 4)), Verdict::Unknown);
        assert_eq!(
            call.hear(id(1), &now, id(3), &kept(&call.clone(), &now, 4)),
            Verdict::Above(Term(8)),
            "what was told with an old list raises the bar nevertheless"
        );
    }

    #[test]
    fn a_list_of_a_later_term_raises_the_bar() {
        let group = group(2, 6);
        let mut call = MemoryRecovery::begun(MemberIncarnation(7));
        assert_eq!(call.hear(id(1), &group, id(2), &kept(&call.clone(), &group, 3)), Verdict::Above(Term(6)));
    }

    #[test]
    fn an_answer_to_a_former_life_does_not_count() {
        let group = group(2, 0);
        let late = kept(&MemoryRecovery::begun(MemberIncarnation(6)), &group, 3);
        assert_eq!(
            MemoryRecovery::begun(MemberIncarnation(7)).hear(id(1), &group, id(2), &late),
            Verdict::Unknown
        );
    }

    #[test]
    fn the_group_is_founded_when_all_have_forgotten_twice_in_the_same_lives() {
        let group = group(3, 0);
        let mut call = MemoryRecovery::begun(MemberIncarnation(1));
        let hear =
            |call: &mut MemoryRecovery, from, answer: &Answer| call.hear(id(1), &group, id(from), answer);
        let first = (forgotten(&call, 2), forgotten(&call, 3));
        assert_eq!(hear(&mut call, 2, &first.0), Verdict::Unknown);
        assert_eq!(hear(&mut call, 3, &first.1), Verdict::AskAgain);
        assert_eq!(hear(&mut call, 2, &first.0), Verdict::Unknown, "of the round before");
        assert_eq!(hear(&mut call, 3, &first.1), Verdict::Unknown, "of the round before");
        let second = (forgotten(&call, 2), forgotten(&call, 4));
        assert_eq!(hear(&mut call, 2, &second.0), Verdict::Unknown);
        assert_eq!(hear(&mut call, 3, &second.1), Verdict::AskAgain, "the third has begun a new life");
        let third = (forgotten(&call, 2), forgotten(&call, 4));
        assert_eq!(hear(&mut call, 3, &third.1), Verdict::Unknown);
        let Verdict::Founded(founding) = hear(&mut call, 2, &third.0) else {
            panic!("nobody knows anything")
        };
        assert!(founding.names(id(1), MemberIncarnation(1)) && founding.names(id(3), MemberIncarnation(4)));
        assert!(!founding.names(id(3), MemberIncarnation(3)));
    }

    #[test]
    fn whoever_is_named_in_a_founding_takes_part_and_a_later_life_does_not() {
        let group = group(3, 0);
        let founding = Founding(
            [(id(1), MemberIncarnation(7)), (id(2), MemberIncarnation(8)), (id(3), MemberIncarnation(9))]
                .into(),
        );
        let admitted = AdmittedMembers::default();
        let told = |call: &MemoryRecovery| {
            tell(id(1), &call.ask(GroupStamp::default()), Term(2), &group, (&founding, &admitted))
        };
        let mut call = MemoryRecovery::begun(MemberIncarnation(7));
        assert_eq!(call.hear(id(1), &group, id(2), &told(&call.clone())), Verdict::Founded(founding.clone()));
        let mut later = MemoryRecovery::begun(MemberIncarnation(17));
        assert_eq!(later.hear(id(1), &group, id(2), &told(&later.clone())), Verdict::Unknown);
        assert_eq!(later.hear(id(1), &group, id(3), &told(&later.clone())), Verdict::Above(Term(2)));
    }

    #[test]
    fn whom_the_leader_took_in_needs_nobody_else_in_that_life_alone() {
        let group = group(4, 4);
        let answer = |call: &MemoryRecovery, admitted| {
            let memory = Memory::Kept { term: Term(5), stamp: group.stamp(), founding: None, admitted };
            Answer { life: call.life, round: 0, memory, group: None }
        };
        let mut call = MemoryRecovery::begun(MemberIncarnation(7));
        assert_eq!(call.hear(id(1), &group, id(2), &answer(&call.clone(), false)), Verdict::Unknown);
        assert_eq!(call.hear(id(1), &group, id(2), &answer(&call.clone(), true)), Verdict::Above(Term(5)));
        let late = answer(&MemoryRecovery::begun(MemberIncarnation(6)), true);
        assert_eq!(call.hear(id(1), &group, id(2), &late), Verdict::Unknown, "it is of a former life");
        let without = self::group(1, 4);
        let mut call = MemoryRecovery::begun(MemberIncarnation(7));
        assert_eq!(call.hear(id(2), &without, id(1), &answer(&call.clone(), true)), Verdict::Unknown);
        let mut told = call.clone();
        told.highest = Term(9);
        assert_eq!(told.hear(id(1), &group, id(2), &answer(&call, true)), Verdict::Above(Term(9)));
    }

    #[test]
    fn nobody_founds_a_group_of_which_it_was_told_a_term() {
        let group = group(2, 0);
        let wide = self::group(3, 0);
        let mut call = MemoryRecovery::begun(MemberIncarnation(1));
        assert_eq!(call.hear(id(1), &wide, id(2), &kept(&call.clone(), &wide, 5)), Verdict::Unknown);
        for _ in 0..3 {
            assert_eq!(call.hear(id(1), &group, id(2), &forgotten(&call.clone(), 2)), Verdict::Unknown);
        }
    }

    #[test]
    fn who_is_alone_asks_nobody() {
        let call = MemoryRecovery::begun(MemberIncarnation(1));
        assert!(call.alone(id(1), &group(1, 0)).is_some());
        assert!(call.alone(id(1), &group(2, 0)).is_none());
        assert!(call.alone(id(2), &group(1, 0)).is_none(), "it is not in the list");
        assert!(
            call.alone(id(1), &group(1, 3)).is_none(),
            "somebody led it, and only who has forgotten knows until when"
        );
    }

    #[test]
    fn lives_of_one_seed_differ() {
        let life = |nanos| MemberIncarnation::drawn(5, Moment::from_nanos(nanos));
        assert_ne!(life(0), life(1));
        assert_eq!(life(3), life(3));
    }
}
