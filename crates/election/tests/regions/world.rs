//! A fleet, two regions and four agents, with one clock: enough to lose a region at the worst moment.
//!
//! An agent looks at its region and asks for the fleet in two steps, between which anything may happen, as it may between the look and the swap.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_election::command::{Acquire, Ending, Release, Renew};
use baton_election::document::Cause;
use baton_election::operator::Act;
use baton_election::region::{Proof, RegionReading};
use baton_election::time::{Moment, Span, WallTime};
use baton_election::{
    Answer, Command, Credential, Document, ElectionName, Epoch, Evidence, Margins, Policy, Refusal, decide,
};
use proptest::prelude::*;

use crate::cast::{self, agent, credential, operator};

const TTL: Span = Span::secs(10);
const AGENTS: [&str; 4] = ["a", "b", "c", "d"];
const REGIONS: [&str; 2] = ["fleet/eu", "fleet/us"];

/// What may happen.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Wait {
        ms: u64,
    },
    /// An agent asks for a region.
    Stand {
        who: usize,
        region: usize,
    },
    Renew {
        who: usize,
    },
    Leave {
        who: usize,
    },
    Depose {
        region: usize,
    },
    /// An agent looks at its region, to ask for the fleet later.
    Look {
        who: usize,
    },
    /// It asks for the fleet, or renews it, by what it saw.
    Lead {
        who: usize,
    },
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = 0..AGENTS.len();
    let step = prop_oneof![
        4 => (1_u64..4_000).prop_map(|ms| Step::Wait { ms }),
        3 => (who.clone(), 0..REGIONS.len()).prop_map(|(who, region)| Step::Stand { who, region }),
        4 => who.clone().prop_map(|who| Step::Renew { who }),
        1 => who.clone().prop_map(|who| Step::Leave { who }),
        1 => (0..REGIONS.len()).prop_map(|region| Step::Depose { region }),
        4 => who.clone().prop_map(|who| Step::Look { who }),
        6 => who.prop_map(|who| Step::Lead { who }),
    ];
    prop::collection::vec(step, 20..120)
}

/// A lease as its holder knows it.
#[derive(Clone)]
struct Held {
    epoch: Epoch,
    credential: Credential,
    deadline: Moment,
}

/// What an agent believes.
#[derive(Clone, Default)]
struct Mind {
    region: Option<(String, Held)>,
    fleet: Option<Held>,
    look: Option<Arc<RegionReading>>,
}

pub(crate) struct World {
    now_ms: u64,
    places: BTreeMap<String, (Document, u64)>,
    lives: u32,
    credentials: BTreeMap<(String, String), (Credential, Epoch)>,
    minds: BTreeMap<&'static str, Mind>,
    granted: Vec<Epoch>,
}

impl World {
    pub(crate) fn new() -> World {
        let mut world = World {
            now_ms: 1,
            places: BTreeMap::new(),
            lives: 0,
            credentials: BTreeMap::new(),
            minds: BTreeMap::new(),
            granted: Vec::new(),
        };
        world.rule("fleet", &Policy { regions: true, ttl: TTL, ..Policy::default() }).unwrap();
        world
    }

    fn now(&self) -> Moment {
        Moment::from_nanos(0) + Span::millis(self.now_ms)
    }

    fn age(&self, of: &str) -> Span {
        self.places.get(of).map_or(Span::ZERO, |(_, stamp)| Span::millis(self.now_ms - stamp))
    }

    pub(crate) fn wait(&mut self, span: Span) {
        self.now_ms += span.as_millis();
    }

    pub(crate) fn document(&self, of: &str) -> Document {
        self.places[of].0.clone()
    }

    /// Decides and commits.
    pub(crate) fn ask(&mut self, of: &str, command: &Command) -> Result<Answer, Refusal> {
        let election = ElectionName::new(of).unwrap();
        let evidence = Evidence {
            election: &election,
            store: cast::STORE,
            age: self.age(of),
            wall: WallTime::from_unix_millis(cast::DAWN_MS),
            floor: Epoch(0),
            vanished_lease: Span::ZERO,
            operator_keys: &[operator("root").public()],
        };
        let old = self.places.get(of).map(|(document, _)| document);
        let decision = decide(old, command, &evidence)?;
        cast::persistence::check(old, &decision).unwrap();
        if let Some(next) = decision.next {
            let restarts = old.is_none_or(|old| old.beat != next.beat);
            let stamp = if restarts { self.now_ms } else { self.places[of].1 };
            self.places.insert(of.to_string(), (next, stamp));
        }
        Ok(decision.answer)
    }

    pub(crate) fn rule(&mut self, of: &str, policy: &Policy) -> Result<Answer, Refusal> {
        self.operate(of, Act::SetPolicy { policy: policy.clone() })
    }

    pub(crate) fn depose(&mut self, of: &str) {
        self.operate(of, Act::Depose { force: false, reason: String::new() }).unwrap();
    }

    fn operate(&mut self, of: &str, act: Act) -> Result<Answer, Refusal> {
        let key = operator("root");
        let blank = Document::new(ElectionName::new(of).unwrap(), cast::STORE, Epoch(0), &[key.public()]);
        let seen = self.places.get(of).map_or(blank, |(document, _)| document.clone());
        self.ask(of, &Command::Operate(key.sign(&seen, act)))
    }

    /// A new epoch under the same leadership, as an approval begins it.
    pub(crate) fn raise(&mut self, of: &str) {
        let (document, _) = self.places.get_mut(of).unwrap();
        document.epoch = document.epoch.next();
        document.leader.as_mut().unwrap().epoch = document.epoch;
    }

    pub(crate) fn credential(&self, who: &str, of: &str) -> Credential {
        let known = self.credentials.get(&(who.to_string(), of.to_string()));
        known.map_or_else(|| credential(who, 0), |(credential, _)| *credential)
    }

    fn epoch(&self, who: &str, of: &str) -> Epoch {
        self.credentials.get(&(who.to_string(), of.to_string())).map_or(Epoch(0), |(_, epoch)| *epoch)
    }

    fn seen(&self, of: &str) -> Arc<RegionReading> {
        let document = self.places.get(of).map(|(document, _)| document.clone());
        Arc::new(RegionReading { document, age: self.age(of) })
    }

    /// What an agent shows of a region that it leads or led.
    pub(crate) fn proof(&self, of: &str, who: &str) -> Proof {
        Proof {
            election: ElectionName::new(of).unwrap(),
            epoch: self.epoch(who, of),
            credential: self.credential(who, of),
            seen: Some(self.seen(of)),
        }
    }

    pub(crate) fn bid(&self, who: &str, region: Option<Proof>) -> Command {
        self.bid_for(who, "fleet", region)
    }

    pub(crate) fn bid_for(&self, who: &str, of: &str, region: Option<Proof>) -> Command {
        let life = credential(&format!("{who} in {of}"), self.lives + 1);
        let acquire = Acquire::new(agent(who), life.incarnation, life.key.hash());
        Command::Acquire(Acquire { ttl: Some(TTL), region, ..acquire })
    }

    fn granted_to(&mut self, who: &str, of: &str, answer: &Answer) {
        let life = credential(&format!("{who} in {of}"), self.lives + 1);
        self.lives += 1;
        if let Answer::Granted { epoch, .. } = answer {
            self.credentials.insert((who.to_string(), of.to_string()), (life, *epoch));
        }
    }

    pub(crate) fn grant(&mut self, who: &str, of: &str) -> Result<Answer, Refusal> {
        let answer = self.ask(of, &self.bid_for(who, of, None))?;
        self.granted_to(who, of, &answer);
        Ok(answer)
    }

    pub(crate) fn lead(&mut self, who: &str, of: &str, region: &str) -> Result<Answer, Refusal> {
        let proof = self.proof(region, who);
        let answer = self.ask(of, &self.bid_for(who, of, Some(proof)))?;
        self.granted_to(who, of, &answer);
        Ok(answer)
    }

    pub(crate) fn lead_from(&mut self, who: &str, region: &str) -> Result<Answer, Refusal> {
        self.lead(who, "fleet", region)
    }

    pub(crate) fn grant_fleet(&mut self, who: &str) -> Result<Answer, Refusal> {
        self.lead_from(who, "fleet/eu")
    }

    pub(crate) fn stay(&mut self, who: &str, of: &str, region: &str) -> Result<Answer, Refusal> {
        let region = Some(self.proof(region, who));
        let renew = Renew { region, ..Renew::new(self.epoch(who, of), self.credential(who, of)) };
        self.ask(of, &Command::Renew(renew))
    }

    pub(crate) fn renew(&mut self, who: &str, of: &str) {
        let renew = Renew::new(self.epoch(who, of), self.credential(who, of));
        self.ask(of, &Command::Renew(renew)).unwrap();
    }

    pub(crate) fn release(&mut self, who: &str, of: &str) {
        let (epoch, credential) = (self.epoch(who, of), self.credential(who, of));
        let release = Release { epoch, credential, reason: None, ending: Ending::Stopped };
        self.ask(of, &Command::Release(release)).unwrap();
    }

    fn deadline(&self) -> Moment {
        Margins::STANDARD.deadline(self.now(), TTL)
    }

    /// Carries a step out, and says what happened.
    pub(crate) fn take(&mut self, step: &Step) -> &'static str {
        let happened = match step {
            Step::Wait { ms } => {
                self.now_ms += ms;
                "time passed"
            }
            Step::Stand { who, region } => self.stand(AGENTS[*who], REGIONS[*region]),
            Step::Renew { who } => self.renew_region(AGENTS[*who]),
            Step::Leave { who } => {
                let mind = self.minds.remove(AGENTS[*who]).unwrap_or_default();
                if let Some((of, _)) = mind.region {
                    self.release(AGENTS[*who], &of);
                }
                "left"
            }
            Step::Depose { region } if self.places.contains_key(REGIONS[*region]) => {
                let led = self.document(REGIONS[*region]).leader.is_some();
                if led {
                    self.depose(REGIONS[*region]);
                }
                if led { "deposed" } else { "nobody to depose" }
            }
            Step::Depose { .. } => "nobody to depose",
            Step::Look { who } => {
                let region = self.mind(AGENTS[*who]).region.map(|(of, _)| of);
                let look = region.map(|of| self.seen(&of));
                self.minds.entry(AGENTS[*who]).or_default().look = look;
                "looked"
            }
            Step::Lead { who } => self.lead_or_stay(AGENTS[*who]),
        };
        self.forget_what_ended();
        happened
    }

    fn mind(&self, who: &str) -> Mind {
        self.minds.get(who).cloned().unwrap_or_default()
    }

    /// What a holder does not hold any more by its own clock, it does not believe in.
    fn forget_what_ended(&mut self) {
        let now = self.now();
        for mind in self.minds.values_mut() {
            if mind.region.as_ref().is_none_or(|(_, held)| now >= held.deadline) {
                *mind = Mind::default();
            }
            if mind.fleet.as_ref().is_some_and(|held| now >= held.deadline) {
                mind.fleet = None;
            }
        }
    }

    fn stand(&mut self, who: &'static str, of: &str) -> &'static str {
        if self.mind(who).region.is_some() {
            return "stood already";
        }
        let Ok(Answer::Granted { epoch, .. }) = self.grant(who, of) else { return "refused" };
        let held = Held { epoch, credential: self.credential(who, of), deadline: self.deadline() };
        self.minds.insert(who, Mind { region: Some((of.to_string(), held)), ..Mind::default() });
        "a region was granted"
    }

    fn renew_region(&mut self, who: &'static str) -> &'static str {
        let Some((of, held)) = self.mind(who).region else { return "nothing to renew" };
        match self.ask(&of, &Command::Renew(Renew::new(held.epoch, held.credential))) {
            Ok(_) => {
                let deadline = self.deadline();
                if let Some((_, held)) = &mut self.minds.entry(who).or_default().region {
                    held.deadline = deadline;
                }
                "a region was renewed"
            }
            Err(_) => {
                self.minds.remove(who);
                "a region was lost"
            }
        }
    }

    fn lead_or_stay(&mut self, who: &'static str) -> &'static str {
        let mind = self.mind(who);
        let (Some((of, region)), Some(look)) = (mind.region, mind.look) else { return "did not look" };
        let proof = Proof {
            election: ElectionName::new(&of).unwrap(),
            epoch: region.epoch,
            credential: region.credential,
            seen: Some(look),
        };
        match mind.fleet {
            Some(held) => {
                let renew = Renew { region: Some(proof), ..Renew::new(held.epoch, held.credential) };
                let renewed = self.ask("fleet", &Command::Renew(renew));
                let deadline = self.deadline();
                let mind = self.minds.entry(who).or_default();
                match renewed {
                    Ok(Answer::Renewed { .. }) => {
                        mind.fleet = Some(Held { deadline, ..held });
                        "the fleet was renewed"
                    }
                    Ok(Answer::Ended { cause: Cause::Region, .. }) => {
                        mind.fleet = None;
                        "the fleet ended with its region"
                    }
                    Ok(_) | Err(_) => {
                        mind.fleet = None;
                        "the fleet was lost"
                    }
                }
            }
            None => {
                let Ok(answer) = self.ask("fleet", &self.bid(who, Some(proof))) else { return "refused" };
                self.granted_to(who, "fleet", &answer);
                let Answer::Granted { epoch, .. } = answer else { return "refused" };
                self.granted.push(epoch);
                let held =
                    Held { epoch, credential: self.credential(who, "fleet"), deadline: self.deadline() };
                self.minds.entry(who).or_default().fleet = Some(held);
                "the fleet was granted"
            }
        }
    }

    /// What must hold at every moment.
    pub(crate) fn promises(&self) -> Result<(), String> {
        let now = self.now();
        let leads = |mind: &&Mind| {
            mind.fleet.as_ref().is_some_and(|held| now < held.deadline)
                && mind.region.as_ref().is_some_and(|(_, held)| now < held.deadline)
        };
        let leading: Vec<&Mind> = self.minds.values().filter(leads).collect();
        if leading.len() > 1 {
            return Err(format!("{} believe to lead the fleet", leading.len()));
        }
        for (of, held) in leading.iter().filter_map(|mind| mind.region.as_ref()) {
            let document = self.document(of);
            let runs = document.lease_holder().filter(|holder| self.age(of) < holder.lease());
            if runs.is_none_or(|holder| holder.incarnation != held.credential.incarnation) {
                return Err(format!("the leader of the fleet has no lease of {of} any more"));
            }
        }
        if self.granted.windows(2).any(|two| two[0] >= two[1]) {
            return Err(format!("the fleet's tokens do not rise: {:?}", self.granted));
        }
        Ok(())
    }
}
