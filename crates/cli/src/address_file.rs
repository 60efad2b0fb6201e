//! Where `baton serve` and `baton guard` listen, told to whoever started them.

use std::path::Path;

use crate::output::Failure;

/// Writes the address into the file of `--address-file`, if there is one.
pub(crate) fn announce(file: Option<&Path>, address: &str) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    std::fs::write(file, format!("{address}\n")).map_err(|error| {
        let message = format!("cannot write the address into {}: {error}", file.display());
        Failure::usage(
            message,
            "--address-file names a file in a folder that is there and that this user can write",
        )
    })
}
