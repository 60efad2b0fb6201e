//! Whose certificate is believed: one that names the host, signed by an authority of the system or of `?ca=FILE`.

use std::path::Path;
use std::sync::Arc;

use baton_store::StoreError;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

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
        None if settings.base.starts_with("http://") => {}
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
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| error.to_string())?;
    if found.is_empty() { Err("it has no certificate".to_string()) } else { Ok(found) }
}
