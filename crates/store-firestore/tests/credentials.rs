//! The service itself, without credentials that are of any use. Nothing here reaches Google.

#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::process::Command;
use std::time::{Duration, Instant};

use baton_election::ElectionName;
use baton_store::{Key, StoreError};

/// Set for the process that is asked to use the service.
const INSIDE: &str = "BATON_TEST_INSIDE";

/// Runs the test of that name again in a process with other surroundings.
fn again(test: &str, surroundings: &[(&str, &str)]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(INSIDE, "yes").env_remove("FIRESTORE_EMULATOR_HOST");
    command.envs(surroundings.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

async fn failure() -> StoreError {
    let began = Instant::now();
    let key = Key::Election(ElectionName::new("e").unwrap());
    let error = match baton_store_firestore::open(&"firestore://some-project".parse().unwrap()).await {
        Ok(store) => store.read(&key).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(began.elapsed() < Duration::from_secs(25), "it did not hang: {:?}", began.elapsed());
    error
}

#[tokio::test]
async fn a_broken_file_of_credentials_is_refused() {
    if std::env::var_os(INSIDE).is_none() {
        let file = std::env::temp_dir().join(format!("baton-broken-{}.json", std::process::id()));
        std::fs::write(&file, "{ not json").unwrap();
        again(
            "a_broken_file_of_credentials_is_refused",
            &[("GOOGLE_APPLICATION_CREDENTIALS", file.to_str().unwrap())],
        );
        std::fs::remove_file(file).unwrap();
        return;
    }
    let error = failure().await;
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(error.hint().contains("gcloud auth application-default login"), "{}", error.hint());
}

#[tokio::test]
async fn no_credentials_at_all_say_where_to_get_some() {
    if std::env::var_os(INSIDE).is_none() {
        // A metadata server that is not there, as on any machine outside of Google's.
        let nowhere = [("HOME", "/nonexistent"), ("GCE_METADATA_HOST", "127.0.0.1:1")];
        again("no_credentials_at_all_say_where_to_get_some", &nowhere);
        return;
    }
    let error = failure().await;
    assert!(matches!(error, StoreError::Refused { .. } | StoreError::Unavailable { .. }), "{error:?}");
    assert!(error.hint().contains("gcloud auth application-default login"), "{error}: {}", error.hint());
}
