//! Certificates and access tokens of a test's own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Done, World, finish};

/// A certificate for this machine's own names, and its key.
pub(crate) struct Certificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificate {
    pub(crate) fn write(folder: &Path) -> Certificate {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_string(), "localhost".to_string()])
            .unwrap();
        let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        fs::write(&certificate, made.cert.pem()).unwrap();
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        Certificate { certificate, key }
    }

    pub(crate) fn arguments(&self) -> [&str; 4] {
        ["--tls-cert", self.certificate.to_str().unwrap(), "--tls-key", self.key.to_str().unwrap()]
    }

    /// A server's URL, with what its certificate is checked by.
    pub(crate) fn checked(&self, url: &str) -> String {
        format!("{url}?ca={}", self.certificate.display())
    }
}

/// A call with a token in the environment.
pub(crate) fn with_token(world: &World, token: &str, arguments: &[&str]) -> Done {
    let mut command = world.command(arguments);
    command.env("BATON_HTTP_TOKEN", token);
    finish(command, None)
}

/// Makes a token in a store.
pub(crate) fn create(world: &World, store: &str, more: &[&str]) -> Value {
    world.json(&[&["token", "create", "--store", store], more].concat())
}

pub(crate) fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap().to_string()
}
