//! Many commands in one message, each answered on its own.
//!
//! Those on one election are carried out in their order, those on different elections at the same time: what must be written goes to the disk
//! together. A plain renewal takes neither a task nor a copy: it is read, decided and answered in place.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_api::batch::{BatchEntry, BatchRequest, MAX_BATCH};
use baton_api::command::{CheckAnswer, CheckResponse, CommandResponse};
use baton_api::endpoints::{MAX_BODY, Right};
use baton_election::time::Span;
use baton_election::{Answer, Command, ElectionName};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;

use super::Service;
use super::calls::Call;
use super::identity::Caller;
use super::pace::Pace;
use super::parsing::{AtMost, parsed};
use super::reply::{Problem, Reply, reply};

/// How many elections of one batch are being written at once.
const AT_ONCE: usize = 256;
/// How large the answers of one batch that tell documents are at most, all together. The others leave them out.
const DOCUMENTS: usize = 8 * 1024 * 1024;

/// The election of an entry, and what is asked of it.
fn request(entry: BatchEntry) -> Result<(ElectionName, BatchRequest), Problem> {
    let (election, request) = entry.into_request();
    let election = ElectionName::new(&election).map_err(baton::Error::from)?;
    let request = request.ok_or_else(|| {
        Problem::invalid(
            format!("the entry of `{election}` asks for none or for several things"),
            "write one of acquire, renew, release, pass, checkpoint, acknowledge, report, operate, check",
        )
    })?;
    Ok((election, request))
}

/// An entry as it came.
enum Entry {
    Item(BatchEntry),
    Odd(Problem),
}

/// All entries. One that makes no sense spoils only itself.
fn parse(body: &[u8]) -> Result<Vec<Entry>, Problem> {
    if let Ok(AtMost::<BatchEntry, MAX_BATCH>(items)) = serde_json::from_slice(body) {
        return Ok(items.into_iter().map(Entry::Item).collect());
    }
    // The slow way, to find the odd ones.
    let texts: AtMost<&RawValue, MAX_BATCH> = serde_json::from_slice(body).map_err(|error| {
        Problem::invalid(
            format!("the body is not an array of entries: {error}"),
            format!("send at most {MAX_BATCH} at once; see /openapi.json"),
        )
    })?;
    Ok(texts.0.into_iter().map(|text| parse_one(text.get())).collect())
}

/// Reads a batch as it comes, for `fuzz/`.
#[cfg(feature = "fuzzing")]
pub(super) fn understand(body: &[u8]) {
    if let Ok(entries) = parse(body) {
        assert!(entries.len() <= MAX_BATCH, "a batch is bounded");
    }
}

fn parse_one(text: &str) -> Entry {
    let odd = |why: String| Entry::Odd(Problem::invalid(why, "see /openapi.json"));
    if text.len() > MAX_BODY {
        return odd(format!("the entry is larger than {MAX_BODY} bytes"));
    }
    match parsed(text.as_bytes()) {
        Ok(item) => Entry::Item(item),
        Err(error) => odd(format!("the entry is not what this takes: {error}")),
    }
}

/// The answers, in the order of the entries: those that were given at once stand one after the other in one piece of memory.
#[derive(Default)]
struct Answers {
    text: Vec<u8>,
    /// Where the answer of each entry ends, if it was given at once.
    ends: Vec<Option<usize>>,
    late: HashMap<usize, Vec<u8>>,
}

impl Answers {
    fn renewed(&mut self, answer: Answer, ttl: Span) {
        self.write(&CommandResponse::renewed(answer, ttl));
    }

    fn write(&mut self, value: &impl Serialize) {
        write(&mut self.text, value);
        self.ends.push(Some(self.text.len()));
    }

    fn later(&mut self) {
        self.ends.push(None);
    }

    /// As one array.
    fn joined(mut self) -> Vec<u8> {
        let late: usize = self.late.values().map(Vec::len).sum();
        let mut joined = Vec::with_capacity(self.text.len() + late + self.ends.len() + 2);
        let mut begin = 0;
        for (number, end) in self.ends.iter().enumerate() {
            joined.push(if number == 0 { b'[' } else { b',' });
            match *end {
                Some(end) => {
                    joined.extend_from_slice(&self.text[begin..end]);
                    begin = end;
                }
                None => joined.append(&mut self.late.remove(&number).unwrap_or_else(|| b"null".to_vec())),
            }
        }
        if self.ends.is_empty() {
            joined.push(b'[');
        }
        joined.push(b']');
        joined
    }
}

fn write(text: &mut Vec<u8>, value: &impl Serialize) {
    let before = text.len();
    if serde_json::to_writer(&mut *text, value).is_err() {
        text.truncate(before);
        text.extend_from_slice(b"null");
    }
}

/// Writes one answer, without its document if there is no room for that.
fn write_within(response: CommandResponse, room: &AtomicUsize) -> Vec<u8> {
    let mut text = Vec::new();
    write(&mut text, &response);
    let take = |left: usize| left.checked_sub(text.len());
    if response.document.is_some() && room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
        text = Vec::new();
        write(&mut text, &CommandResponse { document: None, ..response });
    }
    text
}

/// What the elections of one batch share.
struct Share<'a> {
    /// How many bytes of documents may still be told.
    room: AtomicUsize,
    pace: &'a Pace,
}

/// What must be waited for: what the entries ask of each election, in their order, by their numbers.
#[derive(Default)]
struct PendingEntries {
    elections: HashMap<ElectionName, Vec<(usize, BatchRequest)>>,
}

impl Service {
    /// Each is answered on its own, in the order in which they came.
    pub(super) async fn batch(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let entries = call.parsers.parse(&call.body, parse).await?;
        let pace = Pace::default();
        let mut answers = Answers::default();
        let mut waiting = PendingEntries::default();
        answers.text.reserve(entries.len() * 112);
        answers.ends.reserve(entries.len());
        let mut now = self.engine.now();
        // A browser that is signed in only looks, and hands in what was signed.
        let may_act = call.who.sign_in.is_none() && call.who.identity.check(Right::Act).is_ok();
        for (number, entry) in entries.into_iter().enumerate() {
            if pace.breathe().await {
                now = self.engine.now();
            }
            let item = match entry {
                Entry::Item(item) => item,
                Entry::Odd(problem) => {
                    answers.write(&problem.to_value());
                    continue;
                }
            };
            if let Err(problem) = call.who.identity.check_election_name(&item.election) {
                answers.write(&problem.to_value());
                continue;
            }
            // Whatever was asked of the election before goes first.
            let free =
                waiting.elections.is_empty() || !waiting.elections.contains_key(item.election.as_str());
            if free
                && may_act
                && let Some(renew) = item.renewal()
                && let Some((answer, ttl)) = self.engine.renew_at_once(&item.election, renew, now)
            {
                answers.renewed(answer, ttl);
                continue;
            }
            match request(item) {
                Ok((election, what)) => {
                    waiting.elections.entry(election).or_default().push((number, what));
                    answers.later();
                }
                Err(problem) => answers.write(&problem.to_value()),
            }
        }
        self.wait_for(call.who, waiting, &mut answers, &pace).await;
        pace.breathe().await;
        Ok(reply(StatusCode::OK, "application/json", answers.joined().into()))
    }

    /// Carries out what could not be answered at once.
    async fn wait_for(&self, who: &Caller, waiting: PendingEntries, answers: &mut Answers, pace: &Pace) {
        let share = Share { room: AtomicUsize::new(DOCUMENTS), pace };
        let mut elections = waiting.elections.into_iter();
        let mut under_way = FuturesUnordered::new();
        loop {
            pace.breathe().await;
            while under_way.len() < AT_ONCE
                && let Some((election, asked)) = elections.next()
            {
                under_way.push(self.one_after_the_other(who, election, asked, &share));
            }
            match under_way.next().await {
                Some(done) => answers.late.extend(done),
                None => return,
            }
        }
    }

    async fn one_after_the_other(
        &self,
        who: &Caller,
        election: ElectionName,
        asked: Vec<(usize, BatchRequest)>,
        share: &Share<'_>,
    ) -> Vec<(usize, Vec<u8>)> {
        let mut done = Vec::with_capacity(asked.len());
        for (number, what) in asked {
            share.pace.breathe().await;
            let text = self.one_of_many(who, &election, what, &share.room).await.unwrap_or_else(|problem| {
                let mut text = Vec::new();
                write(&mut text, &problem.to_value());
                text
            });
            done.push((number, text));
        }
        done
    }

    async fn one_of_many(
        &self,
        who: &Caller,
        election: &ElectionName,
        what: BatchRequest,
        room: &AtomicUsize,
    ) -> Result<Vec<u8>, Problem> {
        match what {
            BatchRequest::Command(mut command) => {
                if let Command::Acquire(acquire) = &mut *command {
                    acquire.through = who.token();
                }
                self.allow(who, &command)?;
                self.has_room(election, &command).await?;
                Ok(write_within(self.engine.execute(election, &command).await?.into(), room))
            }
            BatchRequest::Check(token) => {
                self.reads.may_look(who)?;
                self.reads.looked_at(who, 1);
                self.engine.check(election, token).await?;
                let mut text = Vec::new();
                write(&mut text, &CheckResponse { answer: CheckAnswer::Current { token } });
                Ok(text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_election::Epoch;
    use serde_json::Value;

    use super::*;

    #[test]
    fn one_that_makes_no_sense_spoils_only_itself() {
        let body = br#"[{"election":"e","check":{"token":1}},{"election":1},7,{"election":"\u0065","check":{"token":2}}]"#;
        let entries = parse(body).unwrap_or_else(|_| panic!("it is an array"));
        let odd: Vec<bool> = entries.iter().map(|entry| matches!(entry, Entry::Odd(_))).collect();
        assert_eq!(odd, [false, true, true, false]);
        assert!(parse(b"{}").is_err() && parse(b"[{}").is_err());
    }

    #[test]
    fn answers_stand_in_the_order_of_the_entries() {
        let mut answers = Answers::default();
        answers.write(&1);
        answers.later();
        answers.write(&3);
        answers.later();
        answers.late.insert(3, b"4".to_vec());
        answers.late.insert(1, b"2".to_vec());
        assert_eq!(answers.joined(), b"[1,2,3,4]");
        assert_eq!(Answers::default().joined(), b"[]");
    }

    #[test]
    fn documents_are_left_out_where_they_would_be_too_much() {
        let election = ElectionName::new("e").unwrap();
        let document =
            baton_election::Document::new(election, baton_election::StoreId([0; 8]), Epoch(1), &[]);
        let answer = Answer::Renewed { epoch: Epoch(1), awaiting_approval: false, approval_wanted: false };
        let told = || CommandResponse {
            answer: answer.clone(),
            ttl_ms: None,
            document: Some(Box::new(document.clone())),
            notified: None,
        };
        let room = AtomicUsize::new(usize::MAX);
        let whole = write_within(told(), &room);
        let room = AtomicUsize::new(whole.len() * 2 + 1);
        assert_eq!(write_within(told(), &room), whole);
        assert_eq!(write_within(told(), &room), whole);
        let short: Value = serde_json::from_slice(&write_within(told(), &room)).unwrap();
        assert!(short["answer"].is_object() && short.get("document").is_none(), "{short}");
    }

    #[test]
    fn more_entries_than_there_may_be_are_refused_before_they_are_looked_at() {
        let many = format!("[{}1]", "1,".repeat(MAX_BATCH));
        let refused = parse(many.as_bytes()).err().unwrap().to_value();
        assert!(refused["detail"].as_str().unwrap().contains("at most 20000 entries"), "{refused}");
        let large = format!(r#"[{{"election":"e","check":{{"token":1}}}},"{}"]"#, "x".repeat(MAX_BODY));
        let entries = parse(large.as_bytes()).unwrap_or_else(|_| panic!("it is an array"));
        let odd: Vec<bool> = entries.iter().map(|entry| matches!(entry, Entry::Odd(_))).collect();
        assert_eq!(odd, [false, true]);
    }
}
