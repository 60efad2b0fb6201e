//! Bugs to be planted, one at a time, in what ships.

/// A bug.
pub(crate) struct Mutant {
    /// What is wrong with it.
    pub(crate) name: &'static str,
    /// Where it is planted, from the root of the workspace.
    pub(crate) file: &'static str,
    /// What stands there, exactly once.
    pub(crate) old: &'static str,
    /// What shall stand there.
    pub(crate) new: &'static str,
    /// Who runs it.
    pub(crate) algorithm: &'static str,
    /// In which scenario it is hunted.
    pub(crate) scenario: &'static str,
    /// Which promises may be the first to break.
    pub(crate) breaks: &'static [&'static str],
}

const ONE_LEADER: &str = "one leader per term";
const VIEW_FIRST: &str = "the holder's view ends first";
const MINORITY: &str = "a minority never elects";
const RISE: &str = "tokens only rise";
const ONE_LEASE: &str = "one valid lease per store instant";
const WRITES: &str = "guarded writes never go back";
const AGREEMENT: &str = "agreement after healing";
const TIME: &str = "time goes on";
const NO_WITNESS: &str = "a witness never leads";
const STAYS_LOST: &str = "once lost, always lost";

const fn mutant(
    name: &'static str,
    (file, algorithm, scenario): (&'static str, &'static str, &'static str),
    old: &'static str,
    new: &'static str,
    breaks: &'static [&'static str],
) -> Mutant {
    Mutant { name, file, old, new, algorithm, scenario, breaks }
}

const RAFT_VOTE: &str = "crates/peer/src/raft/vote.rs";
const RAFT_LEAD: &str = "crates/peer/src/raft/lead.rs";
const RAFT: &str = "crates/peer/src/raft/mod.rs";
const GROUP: &str = "crates/peer/src/group.rs";
const TIMING: &str = "crates/peer/src/timing.rs";
const ROUNDS: &str = "crates/peer/src/rounds.rs";
const MEMORY_RECOVERY: &str = "crates/peer/src/memory_recovery.rs";
const MEMBERS: &str = "crates/peer/src/members.rs";
const ACCEPTOR: &str = "crates/peer/src/paxos/acceptor.rs";
const PAXOS_LEADER: &str = "crates/peer/src/paxos/leader.rs";
const PAXOS_ORDERS: &str = "crates/peer/src/paxos/orders.rs";
const PAXOS: &str = "crates/peer/src/paxos/mod.rs";
const LEASE: &str = "crates/election/src/lease.rs";
const TENURE: &str = "crates/election/src/tenure.rs";
const OBSERVE: &str = "crates/election/src/observe.rs";
const DOCUMENT: &str = "crates/election/src/document.rs";
const ACQUIRE: &str = "crates/election/src/decide/acquire.rs";
const HOLDER: &str = "crates/election/src/decide/holder.rs";
const MOVES: &str = "crates/election/src/decide/moves.rs";
const COMMAND: &str = "crates/election/src/command.rs";
const FENCE: &str = "crates/election/src/fence.rs";

/// Each is found within the seeds that its test plays.
pub(crate) const MUTANTS: &[Mutant] = &[
    mutant(
        "Raft: the term and the vote are not persisted",
        (RAFT, "raft", "mixed"),
        "Saved { term: self.term, vote: self.vote,",
        "Saved { term: Term::ZERO, vote: Vote::Free,",
        &[RISE, ONE_LEADER],
    ),
    mutant(
        "Raft: a member that starts does not wait",
        (RAFT, "raft", "herd"),
        "let quarantined_until = now + timing.quarantine();",
        "let quarantined_until = now;",
        &[VIEW_FIRST, ONE_LEADER, RISE],
    ),
    mutant(
        "Raft: a vote is granted twice in a term",
        (RAFT_VOTE, "raft", "mixed"),
        "self.led_by.is_none() && self.vote.is_open_to(from)",
        "self.led_by.is_none()",
        &[ONE_LEADER, VIEW_FIRST, RISE, AGREEMENT],
    ),
    mutant(
        "Raft: voters have no patience with a silent leader",
        (RAFT_VOTE, "raft", "mixed"),
        "now >= promise.until || promise.to == candidate",
        "true || promise.to == candidate",
        &[VIEW_FIRST],
    ),
    mutant(
        "Raft: a member that has just started votes",
        (RAFT_VOTE, "raft", "mixed"),
        "is_free && now >= self.quarantined_until && self.is_electable",
        "is_free && self.is_electable",
        &[VIEW_FIRST, ONE_LEADER, RISE],
    ),
    mutant(
        "Raft: a follower answers heartbeats without a promise",
        ("crates/peer/src/raft/follow.rs", "raft", "mixed"),
        "let until = now + self.timing.timeout_min;",
        "let until = now;",
        &[VIEW_FIRST],
    ),
    mutant(
        "Raft: the lease is counted from the answers",
        (RAFT_LEAD, "raft", "mixed"),
        "sent.map(|sent| self.timing.lease_until(sent))",
        "sent.map(|_| self.timing.lease_until(now))",
        &[VIEW_FIRST, STAYS_LOST],
    ),
    mutant(
        "Raft: a lease that has ended is made longer",
        (RAFT, "raft", "pause"),
        "State::Leader(leadership) if now >= leadership.until => {",
        "State::Leader(leadership) if now > leadership.until + self.timing.timeout_min => {",
        &[STAYS_LOST, VIEW_FIRST, TIME],
    ),
    mutant(
        "Raft: the successor stands before the work has stopped",
        ("crates/peer/src/raft/hand_over.rs", "raft", "mixed"),
        "out.notify(Notice::Stop { term });",
        "out.notify(Notice::Stop { term });\n            out.send(from, Message::TimeoutNow { term });",
        &[VIEW_FIRST],
    ),
    mutant(
        "Raft: a member that has forgotten votes as if nothing had happened",
        (RAFT, "raft", "disk"),
        "(blank, Some(Forgotten { call, ask_at: quarantined_until }))",
        "{ let _ = call; (blank, None) }",
        &[RISE, ONE_LEADER, VIEW_FIRST],
    ),
    mutant(
        "the witness counts twice",
        (GROUP, "raft", "mixed"),
        "self.count() >= group.majority()",
        "self.count() + group.members.iter().filter(|member| member.witness).count() >= group.majority()",
        &[MINORITY, ONE_LEADER, VIEW_FIRST, RISE],
    ),
    mutant(
        "a witness may lead",
        (GROUP, "raft", "mixed"),
        "self.member(id).is_some_and(|member| !member.witness)",
        "self.member(id).is_some()",
        &[NO_WITNESS],
    ),
    mutant(
        "half of a group is a majority",
        (GROUP, "paxos", "mixed"),
        "self.members.len() / 2 + 1",
        "self.members.len().div_ceil(2)",
        &[MINORITY, ONE_LEADER, VIEW_FIRST, RISE],
    ),
    mutant(
        "a leader's lease is as long as the voters' patience",
        (TIMING, "raft", "skew"),
        "self.margins.deadline(sent, self.timeout_min)",
        "sent + self.timeout_min",
        &[VIEW_FIRST],
    ),
    mutant(
        "a member that starts takes part at once",
        (TIMING, "paxos", "mixed"),
        "self.timeout_max.scaled(1_000 + drift, 1_000_u64.saturating_sub(drift).max(1))",
        "self.timeout_max.scaled(drift, 1_000_000)",
        &[VIEW_FIRST, ONE_LEADER, RISE],
    ),
    mutant(
        "one who remembers is enough to recover a memory",
        (MEMORY_RECOVERY, "raft", "disk"),
        "if with_this_list < needed(group) {",
        "if with_this_list < 1 {",
        &[RISE, ONE_LEADER, VIEW_FIRST],
    ),
    mutant(
        "a memory recovery does not raise the bar",
        (MEMORY_RECOVERY, "raft", "disk"),
        "Verdict::Above(self.highest.max(group.stamp().term))",
        "Verdict::Above(Term::ZERO)",
        &[RISE, ONE_LEADER, VIEW_FIRST],
    ),
    mutant(
        "who is told of a list with itself alone founds the group anew",
        (MEMORY_RECOVERY, "raft", "mixed"),
        "let is_new = group.stamp() == GroupStamp::default() && self.kept.is_empty();",
        "let is_new = self.kept.is_empty();",
        &[RISE, ONE_LEADER, VIEW_FIRST],
    ),
    mutant(
        "the list of members changes before a majority has the last one",
        (MEMBERS, "raft", "mixed"),
        "group.stamp().term != term || !spread.is_settled(group)",
        "group.stamp().term != term",
        &[RISE, ONE_LEADER, VIEW_FIRST, MINORITY],
    ),
    mutant(
        "Paxos: acceptors have no patience with a silent leader",
        (ACCEPTOR, "paxos", "mixed"),
        "self.patience.is_some_and(|patience| now < patience.until) || self.is_proposing()",
        "self.patience.is_some_and(|patience| now < patience.until && now > patience.until) || self.is_proposing()",
        &[VIEW_FIRST],
    ),
    mutant(
        "Paxos: a lower ballot is accepted after a higher promise",
        (ACCEPTOR, "paxos", "mixed"),
        "if vote.ballot < self.saved.promised {",
        "if vote.ballot < Term::ZERO {",
        &[VIEW_FIRST, RISE, ONE_LEADER],
    ),
    mutant(
        "Paxos: promises are not kept",
        (PAXOS, "paxos", "mixed"),
        "out.persist = Some(self.saved.clone());",
        "out.persist = Some(Saved { promised: Term::ZERO, vote: None, ..self.saved.clone() });",
        &[RISE, ONE_LEADER, VIEW_FIRST],
    ),
    mutant(
        "Paxos: the lease is counted from when the instance is chosen",
        (PAXOS_LEADER, "paxos", "mixed"),
        "(lead.token, self.timing.lease_until(sent))",
        "(lead.token, self.timing.lease_until(sent.max(now)))",
        &[VIEW_FIRST],
    ),
    mutant(
        "Paxos: whatever round is answered, all count as answered",
        (ROUNDS, "paxos", "mixed"),
        "self.open.iter_mut().filter(|round| round.number <= number)",
        "self.open.iter_mut().filter(|round| round.number > 0 && number > 0)",
        &[VIEW_FIRST],
    ),
    mutant(
        "Paxos: the successor stands before the work has stopped",
        (PAXOS_ORDERS, "paxos", "mixed"),
        "out.notify.push(Notice::Stop { term: lead.token });",
        "out.notify.push(Notice::Stop { term: lead.token });\n            if let Some(to) = to { say(to, Message::HandOver { released: lead.token }, out); }",
        &[VIEW_FIRST],
    ),
    mutant(
        "the guard and the drift are left out of a lease",
        (LEASE, "lease", "skew"),
        "ttl.scaled(1_000 - self.drift_permille, 1_000 + self.drift_permille).minus(guard)",
        "{ let _ = guard; ttl }",
        &[VIEW_FIRST],
    ),
    mutant(
        "a renewal that is answered late revives a leadership",
        (TENURE, "lease", "pause"),
        "if self.standing(now) != TenureState::Lost {",
        "if !self.lost {",
        &[STAYS_LOST, VIEW_FIRST],
    ),
    mutant(
        "a lease that was found is counted from the request that found it",
        (COMMAND, "lease", "mixed"),
        "if *repeated || *offer)",
        "if *repeated && *offer)",
        &[VIEW_FIRST],
    ),
    mutant(
        "an observer counts from its question",
        (OBSERVE, "lease-observed", "mixed"),
        "self.seen = Some((pulse, received_at));",
        "self.seen = Some((pulse, asked_at));",
        &[ONE_LEASE, VIEW_FIRST],
    ),
    mutant(
        "an observer does not see renewals",
        (OBSERVE, "lease-observed", "mixed"),
        "Some((seen, since)) if *seen == pulse => asked_at.since(*since),",
        "Some((seen, since)) if seen.epoch == pulse.epoch => asked_at.since(*since),",
        &[ONE_LEASE, VIEW_FIRST],
    ),
    mutant(
        "a lease is judged by the policy's length",
        (DOCUMENT, "lease", "mixed"),
        "self.lease_holder().map_or(Span::ZERO, |leader| leader.lease().minus(age))",
        "self.lease_holder().map_or(Span::ZERO, |_| self.policy.ttl.minus(age))",
        &[ONE_LEASE, VIEW_FIRST],
    ),
    mutant(
        "a running lease is not waited for",
        (ACQUIRE, "lease", "mixed"),
        "document.lease_remaining(evidence.age) == Span::ZERO",
        "document.lease_remaining(evidence.age) <= Span::MAX",
        &[ONE_LEASE, VIEW_FIRST],
    ),
    mutant(
        "a renewal does not restart the clock",
        (HOLDER, "lease", "mixed"),
        "leader.expires = evidence.wall + leader.ttl;\n    moves::beat(next);",
        "leader.expires = evidence.wall + leader.ttl;",
        &[ONE_LEASE, VIEW_FIRST],
    ),
    mutant(
        "the epoch does not rise with a grant",
        (MOVES, "lease", "mixed"),
        "document.epoch = document.epoch.max(evidence.floor).next();",
        "document.epoch = document.epoch.max(evidence.floor).max(crate::Epoch(1));",
        &[ONE_LEADER, RISE, WRITES],
    ),
    mutant(
        "a leader that is deposed is not waited for",
        (MOVES, "lease", "mixed"),
        "if force || waits == Span::ZERO {",
        "if force || waits < Span::MAX {",
        &[ONE_LEASE, VIEW_FIRST],
    ),
    mutant(
        "a fence forgets what it has seen",
        (FENCE, "lease", "mixed"),
        "next.highest = entry.token;",
        "next.highest = Epoch(0);",
        &[WRITES],
    ),
    mutant(
        "a fence takes a token below the highest",
        (FENCE, "lease", "mixed"),
        "if token < highest {",
        "if token < highest && token.0 == 0 {",
        &[WRITES],
    ),
];
