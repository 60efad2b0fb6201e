//! Approvals that nobody gave: forged, replayed, moved, or signed by somebody who is no operator. A real
//! server accepts none of them.

use baton_election::command::WriteCheckpoint;
use baton_election::document::Question;
use baton_election::operator::{Act, OperatorKey, SignedAct};
use baton_election::policy::ApprovalMode;
use baton_election::{ContentHash, Document, Epoch, Policy, StoreId};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::client::{HANG, post, receive, request};
use super::setting::{Setting, acquire, credential, election};

/// How many are tried.
const TRIES: u64 = 10_000;

/// Dice that always fall the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

/// The election waits for an approval of its leader's checkpoint number `seq`.
async fn ask_for_approval(setting: &Setting, seq: u64) -> Document {
    let at = setting.address;
    let document = setting.store.view(&election("mine")).await.unwrap().document.unwrap();
    let write = WriteCheckpoint {
        epoch: document.epoch,
        credential: credential(1),
        seq,
        summary: format!("step {seq}"),
        state: "{}".to_string(),
        reference: None,
        covers: None,
    };
    let written = post(at, "/v1/elections/mine/checkpoint", None, &json!(write)).await;
    assert_eq!(written.status, 200, "{written:?}");
    setting.store.view(&election("mine")).await.unwrap().document.unwrap()
}

fn question(document: &Document) -> Option<ContentHash> {
    match document.approval.question.as_ref() {
        Some(Question::Checkpoint { hash }) => Some(*hash),
        Some(Question::MoreTime) | None => None,
    }
}

/// What is known to whoever wants to pass for an operator.
struct Forger {
    dice: Dice,
    document: Document,
    /// The very approval that would be accepted.
    valid: SignedAct,
    /// Approvals that were accepted once.
    used: Vec<SignedAct>,
    /// The agent's own key, and that of an operator who was dismissed.
    agent: OperatorKey,
    dismissed: OperatorKey,
    operator: OperatorKey,
}

impl Forger {
    fn forge(&mut self) -> Value {
        let approve = |checkpoint| Act::Approve { checkpoint };
        let asked = question(&self.document);
        let document = self.document.clone();
        match self.dice.roll(9) {
            0 => json!(self.agent.sign(&document, approve(asked))),
            1 => json!(self.dismissed.sign(&document, approve(asked))),
            2 => json!(self.used[self.dice.roll(self.used.len())].clone()),
            // Of other bytes.
            3 => json!(self.operator.sign(&document, approve(None))),
            4 => {
                let mut other = asked.unwrap();
                other.0[self.dice.roll(32)] ^= 1 << self.dice.roll(8);
                json!(self.operator.sign(&document, approve(Some(other))))
            }
            // Given for something else.
            5 => {
                let mut elsewhere = document;
                match self.dice.roll(4) {
                    0 => elsewhere.election = election("other"),
                    1 => elsewhere.store = StoreId([9; 8]),
                    2 => elsewhere.epoch = Epoch(elsewhere.epoch.0 + 1 + self.dice.roll(9) as u64),
                    _ => elsewhere.acts += 1 + self.dice.roll(9) as u64,
                }
                json!(self.operator.sign(&elsewhere, approve(asked)))
            }
            // An agent's signature under an operator's name, and the other way round.
            6 => {
                let mut swapped = self.valid.clone();
                swapped.signature = self.agent.sign(&document, approve(asked)).signature;
                json!(swapped)
            }
            7 => {
                let mut swapped = self.valid.clone();
                swapped.by = self.agent.public();
                json!(swapped)
            }
            _ => self.mutated(),
        }
    }

    /// The valid one with one of its parts changed.
    fn mutated(&mut self) -> Value {
        let mut value = json!(self.valid);
        match self.dice.roll(6) {
            0 => {
                let mut signed = self.valid.clone();
                signed.signature[self.dice.roll(64)] ^= 1 << self.dice.roll(8);
                value = json!(signed);
            }
            1 => value["order"]["number"] = json!(self.dice.roll(100) as u64 + 1_000),
            2 => value["order"]["epoch"] = json!(self.dice.roll(100) as u64 + 1_000),
            3 => value["order"]["break_glass"] = json!("quickly"),
            4 => value["order"]["act"] = json!({ "act": "pause", "reason": "" }),
            _ => value["order"]["act"]["checkpoint"] = Value::Null,
        }
        value
    }
}

#[tokio::test]
async fn of_ten_thousand_forged_or_replayed_approvals_none_is_accepted() {
    let setting = Setting::new(baton_server::Options::default()).await;
    let dismissed = OperatorKey::from_seed([8; 32]);
    let at = setting.address;
    let policy = Policy { approval: ApprovalMode::Checkpoints, ..Policy::default() };
    let server = baton::Coordinator::connect(&format!("http://{at}")).await.unwrap();
    server.operate(&election("mine"), &setting.operator, &Act::SetPolicy { policy }).await.unwrap();
    server.operators().add(&setting.operator, dismissed.public()).await.unwrap();
    let mut lease = acquire("alice", 1);
    lease["ttl_ms"] = json!(3_600_000);
    assert_eq!(post(at, "/v1/elections/mine/acquire", None, &lease).await.status, 200);
    // Some approvals are given and used, one by an operator who is dismissed after it.
    let mut used = Vec::new();
    for seq in 1..=4 {
        let document = ask_for_approval(&setting, seq).await;
        let by = if seq == 2 { &dismissed } else { &setting.operator };
        let signed = by.sign(&document, Act::Approve { checkpoint: question(&document) });
        let approved = post(at, "/v1/elections/mine/operate", None, &json!(signed)).await;
        assert_eq!(approved.status, 200, "{approved:?}");
        used.push(signed);
    }
    server.operators().remove(&setting.operator, dismissed.public()).await.unwrap();
    let document = ask_for_approval(&setting, 5).await;
    let valid = setting.operator.sign(&document, Act::Approve { checkpoint: question(&document) });
    let mut forger = Forger {
        dice: Dice(1),
        document: document.clone(),
        valid: valid.clone(),
        used,
        agent: OperatorKey::from_seed([66; 32]),
        dismissed,
        operator: OperatorKey::from_seed([7; 32]),
    };
    let mut stream = TcpStream::connect(at).await.unwrap();
    let mut refused = std::collections::BTreeMap::new();
    for number in 0..TRIES {
        let forged = forger.forge();
        let path = if number % 10 == 0 { "/v1/batch" } else { "/v1/elections/mine/operate" };
        let body = match path {
            "/v1/batch" => json!([{ "election": "mine", "operate": forged }]),
            _ => forged.clone(),
        };
        stream.write_all(request("POST", path, None, Some(&body)).as_bytes()).await.unwrap();
        let answer = tokio::time::timeout(HANG, receive(&mut stream)).await.unwrap();
        let code = match path {
            "/v1/batch" => answer.json()[0]["code"].as_str().unwrap_or("?").to_string(),
            _ => answer.code(),
        };
        let known = ["wrong-key", "stale", "invalid"].contains(&code.as_str());
        assert!(known, "{number}: {forged} was answered with {answer:?}");
        *refused.entry(code).or_insert(0_u64) += 1;
    }
    assert_eq!(refused.values().sum::<u64>(), TRIES, "{refused:?}");
    assert_eq!(refused.len(), 3, "each in its own way: {refused:?}");
    let after = setting.store.view(&election("mine")).await.unwrap().document.unwrap();
    assert_eq!((after.acts, after.epoch, after.state), (document.acts, document.epoch, document.state));
    // The approval that was not forged is accepted, once.
    let approve = post(at, "/v1/elections/mine/operate", None, &json!(valid)).await;
    assert_eq!(approve.status, 200, "{approve:?}");
    let epoch = approve.json()["answer"]["token"].clone();
    let again = post(at, "/v1/elections/mine/operate", None, &json!(valid)).await;
    assert_eq!((again.status, &again.json()["answer"]["token"]), (200, &epoch), "answered as the first time");
    let after = setting.store.view(&election("mine")).await.unwrap().document.unwrap();
    assert_eq!(after.acts, document.acts + 1, "and used once");
}
