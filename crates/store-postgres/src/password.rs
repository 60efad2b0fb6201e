//! Where a password comes from that does not stand in the URL: `PGPASSWORD`, else the password file.
//!
//! The file is that of libpq: `$PGPASSFILE`, else `~/.pgpass`; lines of `host:port:database:user:password`, where `*`
//! stands for anything. A file that others can read is not used.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What a line of the password file must fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PasswordQuery<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: &'a str,
    pub(crate) database: &'a str,
    pub(crate) user: &'a str,
}

/// The password for this connection, if there is one.
pub(crate) fn find(wanted: &PasswordQuery<'_>) -> Option<String> {
    let file = match std::env::var_os("PGPASSFILE") {
        Some(file) => Some(PathBuf::from(file)),
        None => std::env::home_dir().map(|home| home.join(".pgpass")),
    };
    choose(std::env::var("PGPASSWORD").ok(), file.as_deref(), wanted)
}

fn choose(variable: Option<String>, file: Option<&Path>, wanted: &PasswordQuery<'_>) -> Option<String> {
    if let Some(password) = variable.filter(|password| !password.is_empty()) {
        return Some(password);
    }
    let file = file?;
    let private = std::fs::metadata(file).is_ok_and(|meta| meta.permissions().mode() & 0o077 == 0);
    let text = private.then(|| std::fs::read_to_string(file).ok()).flatten()?;
    text.lines().find_map(|line| fitting(line, wanted))
}

/// The password of a line, if the line fits.
fn fitting(line: &str, wanted: &PasswordQuery<'_>) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let fields = split(line);
    let [host, port, database, user, password] = fields.as_slice() else { return None };
    let pairs = [(host, wanted.host), (port, wanted.port), (database, wanted.database), (user, wanted.user)];
    pairs.iter().all(|(field, value)| *field == "*" || field == value).then(|| password.clone())
}

/// The fields of a line; a backslash takes the meaning from a colon or a backslash.
fn split(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            ':' => fields.push(String::new()),
            char => {
                let char = if char == '\\' { chars.next() } else { Some(char) };
                if let Some(last) = fields.last_mut() {
                    last.extend(char);
                }
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_comes_before_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pass");
        std::fs::write(&file, "# ours\nx:*:*:*:no\nh:*:*:*:yes\n").unwrap();
        let allow = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        allow(0o600);
        assert_eq!(choose(None, Some(&file), &WANTED).as_deref(), Some("yes"));
        assert_eq!(choose(Some("first".into()), Some(&file), &WANTED).as_deref(), Some("first"));
        allow(0o640);
        assert_eq!(choose(Some(String::new()), Some(&file), &WANTED), None, "others can read it");
        assert_eq!(choose(None, Some(&folder.path().join("none")), &WANTED), None);
    }

    const WANTED: PasswordQuery<'_> = PasswordQuery { host: "h", port: "5432", database: "d", user: "u" };

    #[test]
    fn a_line_fits_or_not() {
        let wanted = WANTED;
        assert_eq!(fitting("h:5432:d:u:p\\:w\\\\", &wanted).as_deref(), Some("p:w\\"));
        assert_eq!(fitting("*:*:*:u:secret", &wanted).as_deref(), Some("secret"));
        for other in ["# h:5432:d:u:p", "x:*:*:*:p", "h:5432:d:v:p", "h:5432:d:u", ""] {
            assert_eq!(fitting(other, &wanted), None, "{other}");
        }
    }
}
