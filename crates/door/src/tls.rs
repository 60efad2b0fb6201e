//! How who listens shows who it is, and how what is sent is encrypted: TLS with a certificate from files.
//!
//! Assumes that the files are a chain and its private key in PEM form. They are read again when one is told to; if that
//! fails, the former ones stay in use. Does not ask clients for certificates: they show tokens.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use tokio_rustls::TlsAcceptor;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[error("{file} cannot be used: {why}", file = file.display())]
pub struct TlsError {
    /// Which file.
    pub file: PathBuf,
    /// Why not.
    pub why: String,
    /// What to do.
    pub hint: String,
}

/// A certificate and its key, and the files that they come from.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<Current>>,
}

struct Current {
    acceptor: TlsAcceptor,
    /// Whom the certificate names stands in this one.
    leaf: CertificateDer<'static>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tls({})", self.certificate.display())
    }
}

impl Tls {
    /// Reads the certificate chain and its private key.
    pub fn load(certificate: &Path, key: &Path) -> Result<Tls, TlsError> {
        let current = RwLock::new(Arc::new(read(certificate, key)?));
        Ok(Tls { certificate: certificate.to_path_buf(), key: key.to_path_buf(), current })
    }

    /// Reads them again, for connections that come from here on.
    pub fn reload(&self) -> Result<(), TlsError> {
        let fresh = Arc::new(read(&self.certificate, &self.key)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.current().acceptor.clone()
    }

    /// Whether the certificate is one of this host.
    pub fn names(&self, host: &str) -> bool {
        let current = self.current();
        let Ok(host) = ServerName::try_from(host) else { return false };
        ParsedCertificate::try_from(&current.leaf)
            .is_ok_and(|leaf| rustls::client::verify_server_name(&leaf, &host).is_ok())
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Current, TlsError> {
    let failed = |file: &Path, why: String, hint: &str| TlsError {
        file: file.to_path_buf(),
        why,
        hint: hint.to_string(),
    };
    let pem = "it must be a file in PEM form that this user can read";
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed(certificate, error.to_string(), pem))?;
    let Some(leaf) = chain.first().cloned() else {
        return Err(failed(certificate, "it has no certificate".to_string(), pem));
    };
    let mode =
        std::fs::metadata(key).map_err(|error| failed(key, error.to_string(), pem))?.permissions().mode();
    if mode & 0o007 != 0 {
        let hint = format!("chmod o= {}", key.display());
        return Err(failed(key, "everybody on this machine can read it".to_string(), &hint));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, error.to_string(), pem))?;
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret));
    let mut config = config.map_err(|error| {
        failed(certificate, error.to_string(), "certificate and key must belong together")
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Current { acceptor: TlsAcceptor::from(Arc::new(config)), leaf })
}
