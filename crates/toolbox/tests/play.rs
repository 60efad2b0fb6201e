//! A random play of leaders and workers over a few items: what must hold holds after every move.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;

use baton_election::command::{Acquire, Ending, Release};
use baton_election::time::{Span, WallTime};
use baton_election::{
    AgentName, Command, Credential, Document, ElectionName, Epoch, Evidence, Incarnation, ItemName, LeaseKey,
    StoreId, decide,
};
use baton_toolbox::board::{self, Accept, Adopt, Assign, Complete, Fail, Report, Withdraw};
use baton_toolbox::{
    AddTasks, Draw, Mandate, NewTask, Order, Outcome, Quota, SetQuota, Sight, State, Task, quota,
};
use proptest::prelude::*;

fn election() -> ElectionName {
    ElectionName::new("e").unwrap()
}

fn agent(number: u8) -> AgentName {
    AgentName::new(&format!("agent-{number}")).unwrap()
}

/// The election, and everybody who ever led it: nobody forgets its mandate.
struct Stage {
    document: Option<Document>,
    mandates: Vec<Mandate>,
    task: Option<Task>,
    quota: Option<Quota>,
    keys: u8,
    /// Keys that were accepted with, and by whom.
    accepted: Vec<(AgentName, LeaseKey)>,
    completed: usize,
    fences: (Epoch, Epoch),
    /// When the window began, and what was drawn in it.
    now: Span,
    window_began: Span,
    drawn: u64,
}

#[derive(Clone, Debug)]
enum Move {
    Elect(u8),
    Add(usize),
    Assign(usize, u8),
    Again(usize),
    Adopt(usize),
    Retry(usize),
    Cancel(usize),
    Accept(u8, bool),
    Progress(usize, u8),
    Complete(usize),
    Fail(usize),
    SetQuota(usize, u64, u64, u64),
    Draw(u8, u64),
    Wait(u64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        1 => (0..4_u8).prop_map(Move::Elect),
        1 => (0..6_usize).prop_map(Move::Add),
        4 => ((0..6_usize), (0..3_u8)).prop_map(|(m, a)| Move::Assign(m, a)),
        1 => (0..6_usize).prop_map(Move::Again),
        1 => (0..6_usize).prop_map(Move::Adopt),
        2 => (0..6_usize).prop_map(Move::Retry),
        1 => (0..6_usize).prop_map(Move::Cancel),
        4 => ((0..3_u8), any::<bool>()).prop_map(|(a, s)| Move::Accept(a, s)),
        3 => ((0..6_usize), (0..=101_u8)).prop_map(|(k, p)| Move::Progress(k, p)),
        2 => (0..6_usize).prop_map(Move::Complete),
        2 => (0..6_usize).prop_map(Move::Fail),
        2 => ((0..6_usize), (0..20_u64), (0..15_u64), (0..15_u64)).prop_map(|(m, w, a, b)| Move::SetQuota(m, w, a, b)),
        4 => ((0..3_u8), (0..8_u64)).prop_map(|(a, n)| Move::Draw(a, n)),
        2 => (0..900_u64).prop_map(Move::Wait),
    ];
    proptest::collection::vec(one, 1..120)
}

impl Stage {
    fn new() -> Stage {
        Stage {
            document: None,
            mandates: Vec::new(),
            task: None,
            quota: None,
            keys: 0,
            accepted: Vec::new(),
            completed: 0,
            fences: (Epoch(0), Epoch(0)),
            now: Span::ZERO,
            window_began: Span::ZERO,
            drawn: 0,
        }
    }

    fn command(&mut self, command: &Command) {
        let name = election();
        let evidence = Evidence {
            election: &name,
            store: StoreId([1; 8]),
            age: Span::ZERO,
            wall: WallTime::default(),
            floor: Epoch(0),
            vanished_lease: Span::ZERO,
            operator_keys: &[],
        };
        self.document =
            decide(self.document.as_ref(), command, &evidence).unwrap().next.or(self.document.take());
    }

    /// Another leads from here on.
    fn elect(&mut self, number: u8) {
        if let Some(last) = self.mandates.last().copied() {
            let release = Release {
                epoch: last.token,
                credential: last.credential,
                reason: None,
                ending: Ending::Stopped,
            };
            self.command(&Command::Release(release));
        }
        let life = u8::try_from(self.mandates.len() + 1).unwrap();
        let credential = Credential { incarnation: Incarnation([life; 8]), key: LeaseKey([life; 16]) };
        let acquire = Acquire::new(agent(number), credential.incarnation, credential.key.hash());
        self.command(&Command::Acquire(acquire));
        self.mandates.push(Mandate { token: self.document.as_ref().unwrap().epoch, credential });
    }

    fn sight<'a>(&'a self, name: &'a ElectionName, item_age: Span) -> Sight<'a> {
        Sight {
            election: name,
            document: self.document.as_ref(),
            document_age: Span::ZERO,
            item_age,
            wall: WallTime::default(),
        }
    }

    fn mandate(&self, number: usize) -> Option<Mandate> {
        self.mandates.get(number % self.mandates.len().max(1)).copied()
    }

    fn key(&self, number: usize) -> LeaseKey {
        self.accepted.get(number % self.accepted.len().max(1)).map_or(LeaseKey([255; 16]), |(_, key)| *key)
    }

    fn order(&mut self, order: &Order) -> bool {
        let (name, Some(task)) = (election(), self.task.clone()) else { return false };
        let result = board::carry_out(&task, order, &self.sight(&name, Span::ZERO));
        let Ok(Some(next)) = result else { return false };
        if let Order::Assign(Assign { mandate, .. })
        | Order::Adopt(Adopt { mandate, .. })
        | Order::Retry(Withdraw { mandate, .. })
        | Order::Cancel(Withdraw { mandate, .. }) = order
        {
            let current = self.document.as_ref().unwrap().epoch;
            assert_eq!(mandate.token, current, "only the current leader's word counts");
            assert!(mandate.token >= task.fence);
        }
        self.task = Some(next);
        true
    }

    fn step(&mut self, step: &Move) {
        let name = election();
        match step {
            Move::Elect(number) => self.elect(*number),
            Move::Wait(ms) => self.now = self.now.plus(Span::millis(*ms)),
            Move::Add(number) => {
                let new = NewTask {
                    id: Some(ItemName::new("t").unwrap()),
                    title: "t".into(),
                    size: 1,
                    ..NewTask::default()
                };
                let add = AddTasks { mandate: self.mandate(*number), by: None, tasks: vec![new.clone()] };
                if let Ok(Some(task)) =
                    board::add(self.task.as_ref(), &add, &new, 0, &self.sight(&name, Span::ZERO))
                {
                    assert!(self.task.is_none(), "a task is added once");
                    self.task = Some(task);
                }
            }
            Move::Assign(number, to) => {
                let Some(mandate) = self.mandate(*number) else { return };
                self.order(&Order::Assign(Assign { mandate, to: Some(agent(*to)), attempts: None }));
            }
            Move::Again(number) => {
                let Some(mandate) = self.mandate(*number) else { return };
                self.order(&Order::Assign(Assign { mandate, to: None, attempts: None }));
            }
            Move::Adopt(number) => self.adopt(*number),
            Move::Retry(number) => self.withdraw(*number, Order::Retry),
            Move::Cancel(number) => self.withdraw(*number, Order::Cancel),
            Move::Accept(number, knows) => self.accept(*number, *knows),
            Move::Progress(key, percent) => {
                let report =
                    Report { key: self.key(*key), percent: *percent, estimate: None, note: String::new() };
                if self.order(&Order::Progress(report)) {
                    assert!(*percent <= 100);
                }
            }
            Move::Complete(key) => {
                let complete = Complete { key: self.key(*key), result: String::new() };
                self.completed += usize::from(self.order(&Order::Complete(complete)));
            }
            Move::Fail(key) => {
                self.order(&Order::Fail(Fail { key: self.key(*key), reason: String::new() }));
            }
            Move::SetQuota(number, whole, one, two) => {
                let Some(mandate) = self.mandate(*number) else { return };
                let shares = BTreeMap::from([(agent(0), *one), (agent(1), *two)]);
                let set = SetQuota { mandate, amount: *whole, window: Span::millis(1_000), shares };
                let quota_name = ItemName::new("q").unwrap();
                let age = self.now.minus(self.window_began);
                if let Ok(Some(written)) =
                    quota::set(self.quota.as_ref(), &quota_name, &set, &self.sight(&name, age))
                {
                    assert!(one + two <= *whole, "the shares exceed the whole");
                    self.quota = Some(written.next);
                }
            }
            Move::Draw(number, amount) => self.draw(*number, *amount),
        }
    }

    fn withdraw(&mut self, number: usize, how: fn(Withdraw) -> Order) {
        let Some(mandate) = self.mandate(number) else { return };
        self.order(&how(Withdraw { mandate, reason: String::new(), attempts: None, orders: None }));
    }

    fn adopt(&mut self, number: usize) {
        let Some(mandate) = self.mandate(number) else { return };
        let before = self.task.clone();
        if self.order(&Order::Adopt(Adopt { mandate, attempts: None })) {
            let (before, after) = (before.unwrap(), self.task.as_ref().unwrap());
            let (was, is) = (before.attempt().unwrap(), after.attempt().unwrap());
            assert_eq!((&was.agent, was.key_hash), (&is.agent, is.key_hash), "who is at it stays");
            assert!(is.epoch > was.epoch && before.attempts.len() == after.attempts.len());
        }
    }

    fn accept(&mut self, number: u8, knows: bool) {
        self.keys += 1;
        let key = LeaseKey([self.keys; 16]);
        let current = self.document.as_ref().map_or(Epoch(0), |document| document.epoch);
        let seen = if knows { current } else { Epoch(0) };
        let accept = Accept { agent: agent(number), key_hash: key.hash(), seen, attempts: None };
        if self.order(&Order::Accept(accept)) {
            let attempt = self.task.as_ref().unwrap().attempt().unwrap();
            assert_eq!(attempt.agent, agent(number), "only who was told accepts");
            assert!(attempt.epoch >= seen, "an instruction of an older epoch was accepted");
            self.accepted.push((agent(number), key));
        }
    }

    fn draw(&mut self, number: u8, amount: u64) {
        let (name, Some(found)) = (election(), self.quota.clone()) else { return };
        self.keys = self.keys.wrapping_add(1);
        let draw = Draw { agent: agent(number), amount, id: Incarnation([self.keys; 8]) };
        let age = self.now.minus(self.window_began);
        let Ok((Some(written), told)) = quota::draw(&found, &draw, &self.sight(&name, age)) else { return };
        if written.begins {
            (self.window_began, self.drawn) = (self.now, 0);
        }
        self.drawn += amount;
        assert_eq!(told.amount, amount);
        assert!(amount <= found.shares.get(&agent(number)).copied().unwrap_or(0));
        assert!(self.drawn <= found.amount, "{} of {} were drawn in one window", self.drawn, found.amount);
        // Sent again it is not counted again.
        let (again, told_again) = quota::draw(&written.next, &draw, &self.sight(&name, Span::ZERO)).unwrap();
        assert_eq!((again, told_again.amount), (None, amount));
        self.quota = Some(written.next);
    }

    fn check(&mut self) {
        if let Some(task) = &self.task {
            assert!(task.fence >= self.fences.0, "the fence went back");
            self.fences.0 = task.fence;
            let done = task.attempts.iter().filter(|attempt| attempt.outcome == Some(Outcome::Done)).count();
            assert!(done <= 1 && self.completed == done, "a task was done {done} times");
            assert_eq!(done == 1, task.state == State::Done);
            assert_eq!(task.attempt().is_some(), task.is_under_way());
        }
        if let Some(quota) = &self.quota {
            assert!(quota.fence >= self.fences.1, "the fence went back");
            self.fences.1 = quota.fence;
            assert!(quota.shared() <= quota.amount);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_played(moves in moves()) {
        let mut stage = Stage::new();
        stage.elect(0);
        for step in &moves {
            // Numbers of lives and keys are bytes here.
            if stage.mandates.len() < 200 && stage.keys < 200 {
                stage.step(step);
                stage.check();
            }
        }
    }
}
