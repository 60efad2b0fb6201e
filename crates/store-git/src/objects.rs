//! Reading and writing objects.
//!
//! One `git cat-file --batch` answers all questions of a store: it is started at the first and ends with the store.
//! It looks refs up anew for each question, and finds objects that other processes added since.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::git::{Git, GitFailure, GitProcess, Output};
use crate::refs::{Oid, resembles_description};

/// The largest object that can be a part of a record.
const MAX_OBJECT_BYTES: usize = 4 * 1024 * 1024;
/// The longest line that `cat-file` answers with.
const MAX_HEADER_BYTES: u64 = 1024;

/// The objects of a repository.
pub(crate) struct Objects {
    git: Git,
    // Taken out while a question is open: whoever drops an unanswered question drops the process with it, and the
    // next question is not given the former one's answer.
    session: Mutex<Option<Session>>,
}

/// An object that was found.
#[derive(Debug)]
pub(crate) struct Object {
    /// Its name.
    pub(crate) oid: Oid,
    /// `commit`, `tree`, `blob` or `tag`.
    pub(crate) kind: String,
    /// What is in it.
    pub(crate) body: Vec<u8>,
}

/// A running `git cat-file --batch`.
struct Session {
    _running: GitProcess,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Objects {
    /// The objects of the repository that `git` is run in.
    pub(crate) fn of(git: Git) -> Objects {
        Objects { git, session: Mutex::new(None) }
    }

    /// The object of a ref; none if there is no such ref.
    pub(crate) async fn at_ref(&self, refname: &str) -> Result<Option<Object>, GitFailure> {
        if !resembles_description(refname) {
            return self.find(refname).await;
        }
        let format = "--format=%(objectname) %(refname)";
        let listed = self.git.run(&["for-each-ref", format, refname], b"").await?.text();
        let found = listed.lines().find_map(|line| {
            let (oid, name) = line.split_once(' ')?;
            (name == refname).then_some(oid)
        });
        match found {
            Some(oid) => self.find(oid).await,
            None => Ok(None),
        }
    }

    /// The object of that name, or at a path in that commit (`OID:PATH`).
    pub(crate) async fn find(&self, name: &str) -> Result<Option<Object>, GitFailure> {
        let mut slot = self.session.lock().await;
        let reused = slot.is_some();
        match self.ask(&mut slot, name).await {
            // Whatever ended the former process may be over.
            Err(GitFailure::Broken(_)) if reused => self.ask(&mut slot, name).await,
            answer => answer,
        }
    }

    async fn ask(&self, slot: &mut Option<Session>, name: &str) -> Result<Option<Object>, GitFailure> {
        let mut session = match slot.take() {
            Some(session) => session,
            None => Session::start(&self.git)?,
        };
        match timeout(self.git.limit(), session.ask(name)).await {
            Ok(Ok(found)) => {
                *slot = Some(session);
                Ok(found)
            }
            Ok(Err(error)) => Err(GitFailure::Broken(error)),
            Err(_) => Err(GitFailure::Silent(self.git.limit())),
        }
    }

    /// Writes an object of this kind.
    pub(crate) async fn write(&self, kind: &str, body: &[u8]) -> Result<Result<Oid, Output>, GitFailure> {
        let output = self.git.run(&["hash-object", "-t", kind, "-w", "--stdin"], body).await?;
        match Oid::parse(output.text().trim_end()).filter(|_| output.ok()) {
            Some(oid) => Ok(Ok(oid)),
            None => Ok(Err(output)),
        }
    }
}

impl Session {
    fn start(git: &Git) -> Result<Session, GitFailure> {
        let mut running = git.start(&["cat-file", "--batch"])?;
        let pipes = (running.child.stdin.take(), running.child.stdout.take());
        // What it says in so many words is not needed, and must not fill a pipe that nobody reads.
        drop(running.child.stderr.take());
        let (Some(questions), Some(answers)) = pipes else {
            unreachable!("the pipes of a process were asked for when it was started")
        };
        Ok(Session { _running: running, questions, answers: BufReader::new(answers) })
    }

    async fn ask(&mut self, name: &str) -> io::Result<Option<Object>> {
        assert!(!name.contains('\n'), "one question is one line");
        self.questions.write_all(format!("{name}\n").as_bytes()).await?;
        self.questions.flush().await?;
        answer(&mut self.answers, name).await
    }
}

/// Reads what `cat-file` answers to a question.
pub(crate) async fn answer(
    answers: &mut (impl AsyncBufRead + Unpin),
    name: &str,
) -> io::Result<Option<Object>> {
    let mut header = String::new();
    let _length = (&mut *answers).take(MAX_HEADER_BYTES).read_line(&mut header).await?;
    if header.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "git cat-file ended"));
    }
    let header = header.trim_end_matches('\n');
    if header.strip_prefix(name) == Some(" missing") {
        return Ok(None);
    }
    let odd = || io::Error::new(io::ErrorKind::InvalidData, format!("git cat-file said `{header}`"));
    let mut words = header.split(' ');
    let (oid, kind, size) = (words.next(), words.next(), words.next());
    let oid = oid.and_then(Oid::parse).ok_or_else(odd)?;
    let size: usize = size.and_then(|size| size.parse().ok()).ok_or_else(odd)?;
    if size > MAX_OBJECT_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the object {oid} has {size} bytes; no record of Baton is as large"),
        ));
    }
    let mut body = vec![0; size + 1];
    let _length = answers.read_exact(&mut body).await?;
    body.truncate(size);
    Ok(Some(Object { oid, kind: kind.unwrap_or_default().to_string(), body }))
}
