//! Entry points for `fuzz/`: what git, or a remote behind it, may print.

use crate::git::Output;
use crate::open::Settings;
use crate::refs::{self, Oid};
use crate::tip::{self, Commit};
use crate::{blame, objects};
use baton_store::Key;

/// Reads the bytes as the output of each command that is asked.
pub fn output(data: &[u8]) {
    objects_of(data);
    let text = String::from_utf8_lossy(data);
    for line in text.lines() {
        if let Some(key) = refs::key_of(line) {
            assert_eq!(refs::of(&key), line, "a key has one ref");
        }
        let _ = Oid::parse(line).map(|oid| assert_eq!(oid.bytes().len() * 2, line.len()));
    }
    let output = Output { code: Some(1), stdout: data.to_vec(), stderr: text.into_owned() };
    let _ = Settings::parse(&output);
    assert!(blame::push("git:.", &output).is_err(), "a push that failed was taken for one that succeeded");
    assert!(blame::quote(&output.stderr).chars().count() <= 1000, "a quotation is bounded");
}

/// Reads the bytes as what `cat-file --batch` answers, one object after the other.
fn objects_of(data: &[u8]) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
    let mut answers = data;
    while let Ok(Some(object)) = runtime.block_on(objects::answer(&mut answers, "HEAD")) {
        let _ = Commit::parse(&object);
        for key in [Key::Store, Key::Tokens] {
            let _ = tip::record(&key, "a commit", &object.body);
        }
    }
}
