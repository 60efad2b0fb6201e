//! The arbiter between two writers: a remote, or the repository itself.

use std::io;
use std::path::{Path, PathBuf};

use baton_store::StoreError;

use crate::blame;
use crate::git::{Git, GitFailure};
use crate::refs::{NAMESPACE, Oid};

/// The arbiter, and how to reach it.
#[derive(Clone, Debug)]
pub(crate) struct Arbiter {
    /// How git is run.
    pub(crate) git: Git,
    /// The store, for people.
    pub(crate) location: String,
    /// Which of the two.
    pub(crate) seat: ArbiterLocation,
}

/// Where the arbiter is.
#[derive(Clone, Debug)]
pub(crate) enum ArbiterLocation {
    /// This repository, whose shared part is in this folder.
    Here(PathBuf),
    /// A remote, by its configured name or its URL.
    Remote(String),
}

impl Arbiter {
    /// Whether the arbiter is this repository.
    pub(crate) fn is_here(&self) -> bool {
        matches!(self.seat, ArbiterLocation::Here(_))
    }

    /// Where the arbiter is, for people.
    pub(crate) fn name(&self) -> String {
        match &self.seat {
            ArbiterLocation::Here(_) => "this repository".to_string(),
            ArbiterLocation::Remote(remote) => blame::without_secrets(remote),
        }
    }

    /// Where the refs with this name, or all of Baton's, stand at the remote.
    async fn listed(&self, remote: &str, pattern: &str) -> Result<Vec<(Oid, String)>, StoreError> {
        let output = self.git.run(&["ls-remote", "--quiet", "--", remote, pattern], b"").await;
        let output = output.map_err(|fault| blame::fault(&self.location, &fault))?;
        if !output.ok() {
            return Err(blame::failure(&self.location, &output));
        }
        let answer = output.text();
        let pairs = answer.lines().filter_map(|line| line.split_once('\t'));
        Ok(pairs.filter_map(|(oid, name)| Some((Oid::parse(oid)?, name.to_string()))).collect())
    }

    /// Where a ref stands at the remote; asked of a remote only.
    pub(crate) async fn remote_tip(&self, remote: &str, refname: &str) -> Result<Option<Oid>, StoreError> {
        // The pattern also fits refs whose names only end so.
        let listed = self.listed(remote, refname).await?;
        Ok(listed.into_iter().find(|(_, name)| name == refname).map(|(oid, _)| oid))
    }

    /// The names of all of Baton's refs.
    pub(crate) async fn names(&self) -> Result<Vec<String>, StoreError> {
        match &self.seat {
            ArbiterLocation::Remote(remote) => {
                let listed = self.listed(remote, &format!("{NAMESPACE}*")).await?;
                Ok(listed.into_iter().map(|(_, name)| name).collect())
            }
            ArbiterLocation::Here(_) => {
                let output = self.git.run(&["for-each-ref", "--format=%(refname)", NAMESPACE], b"").await;
                let output = output.map_err(|fault| blame::fault(&self.location, &fault))?;
                if !output.ok() {
                    return Err(blame::failure(&self.location, &output));
                }
                Ok(output.text().lines().map(str::to_string).collect())
            }
        }
    }

    /// Brings what a ref points to from the remote, and changes no ref, nor any file that the user knows.
    pub(crate) async fn fetch(
        &self,
        remote: &str,
        refname: &str,
        have: Option<&Oid>,
    ) -> Result<(), StoreError> {
        // What this clone has of the ref is all that the two sides need to compare; the user's branches are not.
        let tip = have.map_or(String::new(), |have| format!("--negotiation-tip={have}"));
        let mut arguments = Vec::new();
        if have.is_none() {
            arguments.extend(["-c", "fetch.negotiationAlgorithm=noop"]);
        }
        arguments.extend([
            "fetch",
            "--quiet",
            "--no-write-fetch-head",
            "--no-tags",
            "--no-prune",
            "--no-recurse-submodules",
            "--no-filter",
            "--refmap=",
        ]);
        arguments.extend(have.map(|_| tip.as_str()));
        arguments.extend(["--", remote, refname]);
        let output = self.git.run(&arguments, b"").await;
        let output = output.map_err(|fault| blame::fault(&self.location, &fault))?;
        // A ref that has gone meanwhile is seen at the next look.
        if output.ok() || output.stderr.contains("couldn't find remote ref") {
            return Ok(());
        }
        Err(blame::failure(&self.location, &output))
    }

    /// Moves a ref from what is expected (none: it must not exist) to a commit.
    pub(crate) async fn publish(
        &self,
        refname: &str,
        expected: Option<&Oid>,
        next: &Oid,
        seen: &str,
    ) -> Result<(), StoreError> {
        match &self.seat {
            ArbiterLocation::Remote(remote) => self.push(remote, refname, expected, next).await,
            ArbiterLocation::Here(common) => self.move_here(common, refname, expected, next, seen).await,
        }
    }

    async fn push(
        &self,
        remote: &str,
        refname: &str,
        expected: Option<&Oid>,
        next: &Oid,
    ) -> Result<(), StoreError> {
        let lease = format!("--force-with-lease={refname}:{}", expected.map_or("", Oid::as_str));
        let what = format!("{next}:{refname}");
        let options =
            ["push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--no-progress"];
        let mut arguments = options.to_vec();
        arguments.extend([lease.as_str(), "--", remote, what.as_str()]);
        match self.git.run(&arguments, b"").await {
            Ok(output) => blame::push(&self.location, &output),
            Err(GitFailure::Missing) => Err(blame::fault(&self.location, &GitFailure::Missing)),
            Err(GitFailure::Broken(error)) => {
                Err(StoreError::Unknown { location: self.location.clone(), why: error.to_string() })
            }
            Err(GitFailure::Silent(limit)) => Err(StoreError::Unknown {
                location: self.location.clone(),
                why: format!("the push did not finish within {} s", limit.as_secs()),
            }),
        }
    }

    async fn move_here(
        &self,
        common: &Path,
        refname: &str,
        expected: Option<&Oid>,
        next: &Oid,
        seen: &str,
    ) -> Result<(), StoreError> {
        let change = match expected {
            None => format!("create {refname} {next}\n"),
            Some(expected) => format!("update {refname} {next} {expected}\n"),
        };
        // The ref itself first: whoever reads what was seen, and then the ref, finds the ref at least as new.
        let script = format!("{change}update {seen} {next}\n");
        let output = match self.git.run(&["update-ref", "--stdin"], script.as_bytes()).await {
            Ok(output) => output,
            Err(GitFailure::Missing) => return Err(blame::fault(&self.location, &GitFailure::Missing)),
            Err(GitFailure::Broken(error)) => {
                return Err(StoreError::Unknown { location: self.location.clone(), why: error.to_string() });
            }
            Err(GitFailure::Silent(limit)) => {
                let why = format!("git did not finish within {} s", limit.as_secs());
                return Err(StoreError::Unknown { location: self.location.clone(), why });
            }
        };
        if output.ok() {
            let folder = refname.rsplit_once('/').map_or(refname, |(folder, _)| folder);
            let synced = sync(vec![common.join(folder), common.join("reftable")]).await;
            let unknown = |error: io::Error| StoreError::Unknown {
                location: self.location.clone(),
                why: format!("it was not written to the disk: {error}"),
            };
            return synced.map_err(unknown);
        }
        Err(blame::contention(&self.location, &output.stderr)
            .unwrap_or_else(|| blame::failure(&self.location, &output)))
    }

    /// Makes objects that were written here survive a power cut; a remote does that itself.
    pub(crate) async fn keep(&self, oids: &[&Oid]) -> Result<(), StoreError> {
        let ArbiterLocation::Here(common) = &self.seat else { return Ok(()) };
        let mut paths = Vec::new();
        for oid in oids {
            let (folder, file) = oid.as_str().split_at(2);
            let folder = common.join("objects").join(folder);
            paths.push(folder.join(file));
            paths.push(folder);
        }
        sync(paths).await.map_err(|error| StoreError::Unavailable {
            location: self.location.clone(),
            why: format!("it was not written to the disk: {error}"),
            hint: "look at the disk".to_string(),
        })
    }

    /// Keeps in mind, for this clone alone, where a ref was seen. What another process notes meanwhile is as good, and
    /// a memory that falls behind only notices less.
    pub(crate) async fn remember(&self, seen: &str, next: &Oid) {
        let _ = self.git.run(&["update-ref", seen, next.as_str()], b"").await;
    }
}

/// Writes files and the entries of folders to the disk, all at once: the disk then works once, not once for each.
///
/// Git itself syncs neither loose objects, unless it is told to, nor the folders that anything stands in.
async fn sync(paths: Vec<PathBuf>) -> io::Result<()> {
    let sync_one = |path: PathBuf| match std::fs::File::open(path) {
        Ok(file) => file.sync_all(),
        // It stands elsewhere, in a pack or in another form, which git syncs.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    let tasks = paths.into_iter().map(|path| tokio::task::spawn_blocking(move || sync_one(path)));
    for task in tasks.collect::<Vec<_>>() {
        task.await.map_err(io::Error::other)??;
    }
    Ok(())
}
