//! CMD in the care of a warden: what `baton run`, `baton peer` and `baton fence … -- CMD` share.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use baton::election::{Credential, ElectionName, Epoch, Moment, ResourceName};
use baton::store::{Access, StoreUrl};
use baton::{Coordinator, Memory};
use baton_warden::{BootTime, ChildRegistry, Shims, Terminal, Ticket, WardenExit, WardenHandle};
use rustix::fs::{Access as May, Mode, OFlags, access};
use serde::{Deserialize, Serialize};

use crate::checkpoint_file::{CheckpointFile, Publisher};
use crate::exit::Exit;
use crate::output::{Failure, Output, clean};
use crate::state_folder::{StateFolder, make_private_folder};

/// The hidden command of the warden.
pub(crate) const WARDEN: &str = "__warden";
/// The hidden command that becomes CMD.
pub(crate) const EXEC: &str = "__exec";

/// The hidden command that keeps a validator.
pub(crate) const VALIDATE: &str = "__validate";

/// What the warden does with its ticket when run is gone: CMD's tree is gone too.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Duty {
    /// The store.
    pub(crate) store: String,
    /// The private folder of the run, to be removed.
    pub(crate) folder: PathBuf,
    /// What to give back.
    pub(crate) gives_back: Holding,
}

/// What a run of CMD holds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Holding {
    /// The lease of an election.
    Lease {
        election: ElectionName,
        epoch: Epoch,
        credential: Credential,
        /// Published first: run may not have lived to do it.
        left: CheckpointFile,
    },
    /// The hold on a resource.
    Hold { resource: ResourceName, credential: Credential },
    /// Nothing: the leadership of a group of peers runs out by itself.
    Nothing,
}

impl Duty {
    /// As the warden is given it.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket::new(serde_json::to_string(self).unwrap_or_default())
    }

    async fn carry_out(&self, output: Output) -> Result<(), baton::Error> {
        let connect = Coordinator::connect_for(&self.store, Access::Write, Memory::new());
        match &self.gives_back {
            Holding::Lease { election, epoch, credential, left } => {
                let coordinator = connect.await?;
                if let Ok(state) = StateFolder::of(&coordinator.backend().location()) {
                    let (coordinator, election) = (coordinator.clone(), election.clone());
                    let publisher = Publisher { coordinator, election, credential: *credential, state };
                    if let Some(said) = left.publish_orphaned(&publisher, *epoch).await {
                        output.talk(&format!("baton: {}", clean(&said)));
                    }
                }
                let reason = "its `baton run` is gone; the warden ended CMD and released";
                coordinator.release_orphaned(election, *epoch, *credential, reason).await?;
            }
            Holding::Hold { resource, credential } => {
                connect.await?.fences().leave(resource, credential).await?;
            }
            Holding::Nothing => {}
        }
        Ok(())
    }
}

/// Serves as a warden: `baton __warden SOCKET`.
pub(crate) fn warden(arguments: &[String]) -> ExitCode {
    let output = Output { json: false };
    let Some(socket) = arguments.first() else { return ExitCode::from(Exit::Usage.code()) };
    let shims = Shims { command: &[EXEC.into()], validator: &[VALIDATE.into()] };
    let served = baton_warden::serve(Path::new(socket), shims, |ticket| {
        let Ok(duty) = serde_json::from_str::<Duty>(ticket.expose()) else { return };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let done = runtime.map(|runtime| runtime.block_on(duty.carry_out(output)));
        if let Ok(Err(error)) = done {
            output.talk(&format!(
                "baton: the warden could not give the lease back; it runs out by itself: {error}"
            ));
        }
        let _ = std::fs::remove_dir_all(&duty.folder);
    });
    match served {
        Ok(WardenExit::Unneeded) => {
            // Run may have been killed while it waited: the folder of the socket is then nobody's.
            let _ = Path::new(socket).parent().map(std::fs::remove_dir_all);
            ExitCode::SUCCESS
        }
        Ok(WardenExit::Dismissed | WardenExit::Released) => ExitCode::SUCCESS,
        Err(error) => {
            output.talk(&format!("baton: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Becomes CMD: `baton __exec …`.
pub(crate) fn exec(arguments: &[String]) -> ExitCode {
    let error = baton_warden::exec_shim(arguments.iter().map(OsString::from));
    Output { json: false }.talk(&format!("baton: {error}"));
    ExitCode::from(error.exit_code())
}

/// Keeps a validator: `baton __validate …`.
pub(crate) fn validate(arguments: &[String]) -> ExitCode {
    match baton_warden::keep_validator(arguments.iter().map(OsString::from)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            Output { json: false }.talk(&format!("baton: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

/// Looks for the program of CMD as a shell would: 127 if there is none, 126 if it cannot be executed. It may still change before
/// it is run; this is for a mistyped name, which nobody should wait for.
pub(crate) fn look_for_program(command: &[String]) -> Result<(), Failure> {
    let Some(program) = command.first() else { return Ok(()) };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = match program.contains('/') {
        true => vec![PathBuf::from(program)],
        false => std::env::split_paths(&path).map(|folder| folder.join(program)).collect(),
    };
    let found: Vec<&PathBuf> = places.iter().filter(|place| place.exists()).collect();
    let runs = |place: &&PathBuf| place.is_file() && access(place.as_path(), May::EXEC_OK).is_ok();
    if found.iter().any(runs) {
        return Ok(());
    }
    match found.first() {
        None => Err(Failure::new(
            Exit::Command(127),
            "no-program",
            format!("there is no program `{program}`; nothing was run, and no lease was asked for"),
            "CMD comes after --; it is looked for in $PATH, and is no shell's line: for one, sh -c '…'",
        )),
        Some(place) => Err(Failure::new(
            Exit::Command(126),
            "no-program",
            format!("{} cannot be executed; nothing was run, and no lease was asked for", place.display()),
            format!("for a script: chmod +x {}", place.display()),
        )),
    }
}

/// The private folder of one run of CMD. Removed when it is dropped.
pub(crate) struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    pub(crate) fn make() -> Result<RunFolder, Failure> {
        let mut random = [0; 4];
        getrandom::fill(&mut random).map_err(std::io::Error::other)?;
        let name = format!("run-{}-{}", std::process::id(), baton::election::hex::encode(&random));
        let root = run_root();
        // A link that leads nowhere cannot be made a folder; the check says what it is.
        let made = make_private_folder(&root);
        if made.is_ok() || std::fs::symlink_metadata(&root).is_ok() {
            refuse_shared(&root)?;
        }
        made?;
        let path = root.join(name);
        make_private_folder(&path)?;
        Ok(RunFolder { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The longest name of a folder below which the name of a run and of its socket still fit: a socket's has 107 bytes.
const MAX_ROOT_BYTES: usize = 48;

/// Where the folders of runs are: the user's runtime folder, else one of the user's own among the temporary files.
pub(crate) fn run_root() -> PathBuf {
    let own = format!("baton-{}", rustix::process::geteuid().as_raw());
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let places =
        [runtime.map(|folder| PathBuf::from(folder).join("baton")), Some(std::env::temp_dir().join(&own))];
    let fits = |path: &PathBuf| path.as_os_str().len() <= MAX_ROOT_BYTES;
    places.into_iter().flatten().find(fits).unwrap_or_else(|| Path::new("/tmp").join(own))
}

/// Refuses a folder that somebody else could exchange under our hands. A link is one: its target may be anywhere.
fn refuse_shared(folder: &Path) -> Result<(), Failure> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Ok(open) = rustix::fs::open(folder, flags, Mode::empty()) {
        let found = std::fs::File::from(open).metadata()?;
        if found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0 {
            return Ok(());
        }
    }
    Err(Failure::new(
        Exit::Error,
        "system",
        format!("{} is a link, or others can change it; the files of runs would be there", folder.display()),
        "remove it, or set XDG_RUNTIME_DIR to a folder of your own",
    ))
}

/// What a CMD is given of ours.
#[derive(Clone, Copy, Default)]
pub(crate) struct CommandSetup<'a> {
    /// Whether what CMD prints comes through [`WardenHandle::take_output`].
    pub(crate) heard: bool,
    /// Whether CMD has a terminal of its own, where we are at one.
    pub(crate) terminal: bool,
    /// Variables of ours that CMD must not see.
    pub(crate) hidden: &'a [&'a str],
}

/// A warden that waits for its CMD.
pub(crate) async fn prepare(
    children: ChildRegistry,
    folder: &RunFolder,
    given: CommandSetup<'_>,
) -> Result<WardenHandle, Failure> {
    let terminal = if given.terminal { own_terminal() } else { None };
    let mut command = Command::new("/proc/self/exe");
    command.arg0(std::env::args_os().next().unwrap_or_default()).arg(WARDEN);
    for name in given.hidden {
        command.env_remove(name);
    }
    // At a terminal of its own, CMD is heard there.
    if given.heard && terminal.is_none() {
        command.stdout(Stdio::piped());
    }
    if given.heard && !terminal.as_ref().is_some_and(Terminal::has_stderr) {
        command.stderr(Stdio::piped());
    }
    WardenHandle::prepare_at(terminal, children, command, folder.path()).await.map_err(|error| {
        Failure::new(
            Exit::Error,
            "warden",
            error.to_string(),
            "CMD is not run without somebody to end it in time",
        )
    })
}

/// A terminal for CMD, if we are at one. Without it CMD has ours, as it has any other stdin and stdout.
fn own_terminal() -> Option<Terminal> {
    Terminal::open().unwrap_or_else(|error| {
        let output = Output { json: false };
        output.talk(&format!("baton: CMD has no terminal of its own, and is not interactive: {error}"));
        None
    })
}

/// A moment of the boot-time clock, as the warden has it.
pub(crate) fn boot_time(moment: Moment) -> BootTime {
    BootTime::from_ns(moment.as_nanos())
}

/// The store by a name that means the same in any folder: for CMD and for the warden.
pub(crate) fn absolute_store(coordinator: &Coordinator, url: &str) -> String {
    match url.parse::<StoreUrl>() {
        Ok(parsed) if ["file", "embedded"].contains(&parsed.scheme.as_str()) => {
            coordinator.backend().location()
        }
        Ok(mut parsed) if parsed.scheme == "git" => {
            if let Ok(path) = std::path::absolute(&parsed.rest) {
                parsed.rest = path.display().to_string();
            }
            parsed.to_string()
        }
        Ok(mut parsed) if parsed.scheme == "https" => {
            for name in ["ca", "cert", "key"] {
                if let Some(file) = parsed.parameters.get_mut(name)
                    && let Ok(path) = std::path::absolute(&*file)
                {
                    *file = path.display().to_string();
                }
            }
            parsed.to_string()
        }
        Ok(_) | Err(_) => url.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn the_folder_of_runs_is_a_folder_of_this_user_and_no_link() {
        let place = tempfile::tempdir().unwrap();
        let (own, link, dangling) =
            (place.path().join("own"), place.path().join("link"), place.path().join("dangling"));
        make_private_folder(&own).unwrap();
        refuse_shared(&own).unwrap();
        symlink(&own, &link).unwrap();
        symlink(place.path().join("nowhere"), &dangling).unwrap();
        for path in [&link, &dangling] {
            let refused = refuse_shared(path).unwrap_err();
            assert!(refused.message.contains("is a link"), "{refused:?}");
            assert!(refused.hint.is_some_and(|hint| hint.contains("XDG_RUNTIME_DIR")));
        }
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o770)).unwrap();
        assert!(refuse_shared(&own).is_err(), "its group can change it");
    }
}
