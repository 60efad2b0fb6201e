//! Secrets in files.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::output::Failure;

/// More is no secret.
const MAX_BYTES: u64 = 64 * 1024;

/// The text of a file that nobody else can read.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    let place = path.display();
    let unreadable = |error: std::io::Error| {
        Failure::usage(format!("{place} cannot be read: {error}"), "name a file with the secret")
    };
    let file = File::open(path).map_err(unreadable)?;
    if is_shared(&file.metadata().map_err(unreadable)?) {
        return Err(Failure::usage(
            format!("others can read the secret in {place}"),
            format!("chmod 600 {place}"),
        ));
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

/// What a secret that is too short is answered with.
pub(crate) fn too_short(path: &Path) -> Failure {
    Failure::usage(
        format!("the secret in {} is shorter than 16 bytes", path.display()),
        "make one: (umask 077; openssl rand -hex 32 > FILE)",
    )
}

/// What a secret that is too long is answered with.
pub(crate) fn too_long(path: &Path, most: usize) -> Failure {
    Failure::usage(
        format!("the secret in {} is longer than {most} bytes", path.display()),
        "see whether it is the right file; 32 random bytes are enough: (umask 077; openssl rand -hex 32 > FILE)",
    )
}

/// Whether others than its owner can read a file, or change it. One that this user was given to read, such as a credential of a service
/// that is root's, is open to a group or by an access list: that shows in the bits of the group.
fn is_shared(file: &Metadata) -> bool {
    let own = file.uid() == rustix::process::geteuid().as_raw();
    file.mode() & if own { 0o077 } else { 0o007 } != 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "0123456789abcdef\n").unwrap();
        for (mode, taken) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read(&file).is_ok(), taken, "{mode:o}");
        }
    }
}
