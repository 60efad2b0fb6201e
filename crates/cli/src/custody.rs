//! CMD in the care of a warden: what `baton run`, `baton peer` and `baton fence … -- CMD` share.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use baton::election::{Credential, ElectionName, Epoch, Incarnation, Moment, ResourceName};
use baton::store::{Access, StoreUrl};
use baton::{Coordinator, Memory};
use baton_warden::{BootTime, Farewell, Household, Ticket, Ward};
use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::output::{Failure, Output};
use crate::state::make_private_folder;

/// The hidden command of the warden.
pub(crate) const WARDEN: &str = "__warden";
/// The hidden command that becomes CMD.
pub(crate) const EXEC: &str = "__exec";

/// What the warden does with its ticket when run is gone: CMD's tree is gone too.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Duty {
    /// The store.
    pub(crate) store: String,
    /// The private folder of the run, to be removed.
    pub(crate) folder: PathBuf,
    /// What to give back.
    pub(crate) gives_back: GivesBack,
}

/// What a run of CMD holds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum GivesBack {
    /// The lease of an election.
    Lease { election: ElectionName, epoch: Epoch, credential: Credential },
    /// The hold on a resource.
    Hold { resource: ResourceName, run: Incarnation },
    /// Nothing: the leadership of a group of peers runs out by itself.
    Nothing,
}

impl Duty {
    /// As the warden is given it.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket::new(serde_json::to_string(self).unwrap_or_default())
    }

    async fn carry_out(&self) -> Result<(), baton::Error> {
        let connect = Coordinator::connect_for(&self.store, Access::Write, Memory::new());
        match &self.gives_back {
            GivesBack::Lease { election, epoch, credential } => {
                let coordinator = connect.await?;
                let reason = "its `baton run` is gone; the warden ended CMD and released";
                coordinator.release_orphaned(election, *epoch, *credential, reason).await?;
            }
            GivesBack::Hold { resource, run } => connect.await?.leave_hold(resource, *run).await?,
            GivesBack::Nothing => {}
        }
        Ok(())
    }
}

/// Serves as a warden: `baton __warden SOCKET`.
pub(crate) fn warden(arguments: &[String]) -> ExitCode {
    let output = Output { json: false };
    let Some(socket) = arguments.first() else { return ExitCode::from(Exit::Usage.code()) };
    let shim: [OsString; 1] = [EXEC.into()];
    let served = baton_warden::serve(Path::new(socket), &shim, |ticket| {
        let Ok(duty) = serde_json::from_str::<Duty>(ticket.expose()) else { return };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let done = runtime.map(|runtime| runtime.block_on(duty.carry_out()));
        if let Ok(Err(error)) = done {
            output.talk(&format!(
                "baton: the warden could not give the lease back; it runs out by itself: {error}"
            ));
        }
        let _ = std::fs::remove_dir_all(&duty.folder);
    });
    match served {
        Ok(Farewell::Unneeded) => {
            // Run may have been killed while it waited: the folder of the socket is then nobody's.
            let _ = Path::new(socket).parent().map(std::fs::remove_dir_all);
            ExitCode::SUCCESS
        }
        Ok(Farewell::Dismissed | Farewell::Released) => ExitCode::SUCCESS,
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
        make_private_folder(&root)?;
        refuse_shared(&root)?;
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

/// Refuses a folder that somebody else could exchange under our hands.
fn refuse_shared(folder: &Path) -> Result<(), Failure> {
    let found = std::fs::metadata(folder)?;
    if found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Error,
        "system",
        format!("others can change {}, where the files of runs would be", folder.display()),
        "set XDG_RUNTIME_DIR to a folder of your own",
    ))
}

/// A warden that waits for its CMD. With `heard`, what CMD prints comes through [`Ward::take_output`].
pub(crate) async fn prepare(household: Household, folder: &RunFolder, heard: bool) -> Result<Ward, Failure> {
    prepare_without(household, folder, heard, &[]).await
}

/// The same for a CMD that must not see these variables of ours.
pub(crate) async fn prepare_without(
    household: Household,
    folder: &RunFolder,
    heard: bool,
    hidden: &[&str],
) -> Result<Ward, Failure> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(std::env::args_os().next().unwrap_or_default()).arg(WARDEN);
    for name in hidden {
        command.env_remove(name);
    }
    if heard {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    Ward::prepare(household, command, folder.path()).await.map_err(|error| {
        Failure::new(
            Exit::Error,
            "warden",
            error.to_string(),
            "CMD is not run without somebody to end it in time",
        )
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
            coordinator.store().location()
        }
        Ok(mut parsed) if parsed.scheme == "git" => {
            if let Ok(path) = std::path::absolute(&parsed.rest) {
                parsed.rest = path.display().to_string();
            }
            parsed.to_string()
        }
        Ok(mut parsed) if parsed.scheme == "https" => {
            if let Some(file) = parsed.parameters.get_mut("ca")
                && let Ok(path) = std::path::absolute(&*file)
            {
                *file = path.display().to_string();
            }
            parsed.to_string()
        }
        Ok(_) | Err(_) => url.to_string(),
    }
}
