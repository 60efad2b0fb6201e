//! Changing: one conditional statement, the mark beside it where it must change, one commit.
//!
//! The library runs an aborted transaction again by itself. The commit is sent once and never again, so that the answer
//! to it is the answer to the only one: aborted means not applied, and whatever else is no answer means that it may have
//! been. Until the commit is sent nothing can have been applied.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use baton_store::{AgeStamp, BoxFuture, Expect, Key, Record, StoreError, Swapped, Version};
use google_cloud_gax::error::rpc::{Code, Status};
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_spanner::statement::Statement;
use google_cloud_spanner::transaction::ReadWriteTransaction;

use crate::client::{Client, Session};
use crate::fault::{Kind, RequestError};
use crate::shape::{self, ElectionColumns};
use crate::sql;

/// Puts a record in the place of what is expected.
pub(crate) async fn swap(
    client: &Client,
    key: &Key,
    expect: &Expect,
    next: &Record,
    clock: AgeStamp,
) -> Result<Swapped, StoreError> {
    let (statements, version) = statements(client, key, expect, next, clock)?;
    transact(client, statements).await?;
    Ok(Swapped { version: Version::new(&version) })
}

/// The statements of a swap, and the version that the record has after it.
fn statements(
    client: &Client,
    key: &Key,
    expect: &Expect,
    next: &Record,
    clock: AgeStamp,
) -> Result<(Vec<Statement>, String), StoreError> {
    let tables = &client.settings.tables;
    let nonce = shape::nonce().ok_or_else(|| StoreError::Unavailable {
        location: client.location(),
        why: "this system has no random numbers".to_string(),
        hint: "try again".to_string(),
    })?;
    let text = next.to_json();
    let Record::Election(document) = next else {
        let version = shape::version_of_record(&text, &nonce);
        let statement = match expect {
            Expect::Absent => sql::insert_record(tables, key, &text, &version),
            Expect::Version(expected) => {
                sql::update_record(tables, key, shape::expected(expected).0, &text, &version, clock)
            }
        };
        return Ok((vec![statement], version));
    };
    let shown = ElectionColumns::of(document, text).ok_or_else(|| StoreError::Refused {
        place: client.location(),
        why: format!("no column takes the token {}", document.epoch),
        hint: "begin the election anew under another name".to_string(),
    })?;
    let version = shown.version(&nonce);
    let (statement, marked) = match expect {
        Expect::Absent => (sql::insert_election(tables, key, &shown, &version), None),
        Expect::Version(expected) => {
            let (expected, marked) = shape::expected(expected);
            (sql::update_election(tables, key, expected, &shown, &version, clock), marked)
        }
    };
    let mut statements = vec![statement];
    if marked != Some(shown.mark) {
        statements.push(sql::set_mark(tables, key, shown.mark));
    }
    Ok((statements, version))
}

/// How far a transaction has come.
#[derive(Clone, Copy)]
enum Stage {
    /// Nothing can have been applied.
    Stating,
    /// The first statement changed nothing: it is not what was expected.
    Lost,
    /// The commit may have been sent.
    Committing,
}

/// The same, shared with the transaction. It outlives a transaction that is given up.
#[derive(Clone)]
struct Progress(Arc<Mutex<Stage>>);

impl Progress {
    fn new() -> Progress {
        Progress(Arc::new(Mutex::new(Stage::Stating)))
    }

    fn set(&self, stage: Stage) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    fn stage(&self) -> Stage {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Throws the session away unless it is told that the transaction came to an end: one that is given up half-way stays
/// open in its session for a while.
struct Unfinished<'a> {
    client: &'a Client,
    number: Option<u64>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.client.forget(number);
        }
    }
}

/// Carries out statements in one transaction, if the first of them changes something; a conflict if not.
pub(crate) async fn transact(client: &Client, statements: Vec<Statement>) -> Result<(), StoreError> {
    let progress = Progress::new();
    let limit = client.settings.limit;
    let fault = match tokio::time::timeout(limit, attempt(client, &statements, &progress)).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(fault)) => fault,
        Err(_) => RequestError::late(limit, &client.settings),
    };
    Err(match progress.stage() {
        Stage::Lost => StoreError::Conflict,
        Stage::Committing => fault.at_commit(client.location()),
        Stage::Stating => fault.not_applied(client.location()),
    })
}

async fn attempt(client: &Client, statements: &[Statement], progress: &Progress) -> Result<(), RequestError> {
    let _turn = client.turn().await;
    let fault = match run(client, client.session().await?, statements, progress).await {
        Ok(()) => return Ok(()),
        Err(fault) => fault,
    };
    match (fault.kind, progress.stage()) {
        // The server was restarted, or the session was too old. Nothing was applied, and with a new one it goes on.
        (Kind::SessionGone, Stage::Stating) => {
            run(client, client.session().await?, statements, progress).await
        }
        _ => Err(fault),
    }
}

async fn run(
    client: &Client,
    session: Session,
    statements: &[Statement],
    progress: &Progress,
) -> Result<(), RequestError> {
    let mut unfinished = Unfinished { client, number: Some(session.number) };
    let (sent, progress, statements) =
        (Arc::clone(&client.statements), progress.clone(), statements.to_vec());
    // A closure that borrows would not be `Send`.
    let work =
        move |transaction: ReadWriteTransaction| -> BoxFuture<'static, google_cloud_spanner::Result<()>> {
            Box::pin(state(transaction, statements.clone(), progress.clone(), Arc::clone(&sent)))
        };
    let done = session
        .database
        .read_write_transaction()
        .set_transaction_tag("baton")
        .with_transaction_timeout(client.settings.limit)
        .with_commit_retry_policy(NeverRetry)
        .with_rollback_retry_policy(NeverRetry)
        .with_rollback_attempt_timeout(client.settings.limit)
        .build()
        .run(work)
        .await;
    unfinished.number = None;
    done.map(|_| ()).map_err(|error| client.failed(&session, &error))
}

/// One attempt of the transaction, up to its commit.
async fn state(
    transaction: ReadWriteTransaction,
    statements: Vec<Statement>,
    progress: Progress,
    sent: Arc<AtomicU64>,
) -> google_cloud_spanner::Result<()> {
    progress.set(Stage::Stating);
    for (place, statement) in statements.into_iter().enumerate() {
        sent.fetch_add(1, Ordering::Relaxed);
        let changed = transaction.execute_update(statement).await?;
        if place == 0 && changed == 0 {
            progress.set(Stage::Lost);
            // Any error ends the transaction; what it means is in the progress.
            return Err(google_cloud_spanner::Error::service(
                Status::default().set_code(Code::FailedPrecondition).set_message("something else is there"),
            ));
        }
    }
    progress.set(Stage::Committing);
    Ok(())
}
