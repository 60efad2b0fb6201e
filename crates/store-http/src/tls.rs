//! Whose certificate is believed: one that names the host, signed by an authority of the system or of `?ca=FILE`. And the certificate that this
//! client shows: `?cert=FILE&key=FILE`.

use std::path::Path;
use std::sync::Arc;

use baton_store::StoreError;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore};

use crate::files;
use crate::open::Settings;

/// How to check who the server is.
pub(crate) fn config(settings: &Settings) -> Result<ClientConfig, StoreError> {
    let refused = |why: String, hint: &str| StoreError::Refused {
        place: settings.base.clone(),
        why,
        hint: hint.to_string(),
    };
    let mut roots = RootCertStore::empty();
    match &settings.authority {
        Some(file) => {
            let found = read(file).map_err(|why| {
                refused(format!("{} cannot be used: {why}", file.display()), "it must be a file in PEM form")
            })?;
            roots.add_parsable_certificates(found);
        }
        // Without TLS nothing is checked, and nothing is read for it.
        None if !settings.base.starts_with("https://") => {}
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                let why = "this system has no authority to check certificates by".to_string();
                return Err(refused(why, "name one: https://HOST?ca=FILE"));
            }
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(error.to_string(), "this build of Baton has no TLS"))?;
    let config = config.with_root_certificates(roots);
    Ok(match &settings.identity {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let own = read_own(certificate, key).map_err(|(why, hint)| refused(why, &hint))?;
            config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)))
        }
    })
}

/// A certificate and its key; else why not, and what to do.
fn read_own(certificate: &Path, key: &Path) -> Result<CertifiedKey, (String, String)> {
    let pem = "it must be a file in PEM form that this user can read";
    let unusable = |file: &Path, why: &dyn ToString, hint: &str| {
        (format!("{} cannot be used: {}", file.display(), why.to_string()), hint.to_string())
    };
    let chain = read(certificate).map_err(|why| unusable(certificate, &why, pem))?;
    let metadata = std::fs::metadata(key).map_err(|error| unusable(key, &error, pem))?;
    if files::is_shared(&metadata) {
        let hint = format!("chmod 600 {}", key.display());
        return Err((format!("others can read the key in {}", key.display()), hint));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error, pem))?;
    CertifiedKey::from_der(chain, secret, &aws_lc_rs::default_provider())
        .map_err(|error| unusable(certificate, &error, "certificate and key must belong together"))
}

fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| error.to_string())?;
    if found.is_empty() { Err("it has no certificate".to_string()) } else { Ok(found) }
}
