//! The operator's key: made by `baton init`, kept outside of the store.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use baton::election::hex;
use baton::election::operator::OperatorKey;

use crate::exit::Exit;
use crate::output::Failure;
use crate::state_folder::{config_root, write_durably};

/// Where the key lies.
pub(crate) fn path() -> Result<PathBuf, Failure> {
    Ok(config_root()?.join("operator.key"))
}

/// The key of this user.
pub(crate) fn load() -> Result<OperatorKey, Failure> {
    let path = path()?;
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Failure::new(
                Exit::Operator,
                "no-operator",
                format!("this user is not an operator: there is no key at {}", path.display()),
                "an operator is made with `baton init`; agents cannot act as one",
            ));
        }
        Err(error) => {
            return Err(Failure::new(
                Exit::Operator,
                "no-operator",
                format!("cannot read the operator's key at {}: {error}", path.display()),
                "it must be readable by the operator",
            ));
        }
    };
    refuse_shared(&path)?;
    hex::decode(text.trim()).map(OperatorKey::from_seed).ok_or_else(|| {
        Failure::new(
            Exit::Operator,
            "no-operator",
            format!("{} is not an operator's key", path.display()),
            "restore it from a backup; without it, a new operator must be enrolled by another one",
        )
    })
}

/// A key that others can read is no proof of anything.
fn refuse_shared(path: &std::path::Path) -> Result<(), Failure> {
    let mode = std::fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(Failure::new(
            Exit::Operator,
            "no-operator",
            format!("others can read the operator's key at {}", path.display()),
            format!("chmod 600 {}", path.display()),
        ));
    }
    Ok(())
}

/// The key of this user, made if there is none. Says whether it was made.
pub(crate) fn load_or_make() -> Result<(OperatorKey, bool), Failure> {
    let path = path()?;
    if path.exists() {
        return Ok((load()?, false));
    }
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(std::io::Error::other)?;
    write_durably(&path, format!("{}\n", hex::encode(&seed)).as_bytes())?;
    Ok((load()?, true))
}
