//! How who listens shows who it is, and how what is sent is encrypted: TLS with a certificate from files.
//!
//! Assumes that the files are a chain and its private key in PEM form. They are read again when one is told to; if that
//! fails, the former ones stay in use. Where a file names the authorities of clients, a client may show a certificate; one that none of them
//! signed ends the connection. Does not look at lists of revoked certificates.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
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
    /// The authorities of clients' certificates, if clients may show one.
    client_ca: Option<PathBuf>,
    current: RwLock<Arc<Current>>,
}

struct Current {
    acceptor: TlsAcceptor,
    /// Whom the certificate names stands in this one.
    leaf: CertificateDer<'static>,
    /// Verifies the certificates of clients, if they may show one.
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tls({})", self.certificate.display())
    }
}

impl Tls {
    /// Reads the certificate chain and its private key, and the authorities whose certificates clients may show.
    pub fn load(certificate: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Tls, TlsError> {
        let current = RwLock::new(Arc::new(read(certificate, key, client_ca)?));
        let client_ca = client_ca.map(Path::to_path_buf);
        Ok(Tls { certificate: certificate.to_path_buf(), key: key.to_path_buf(), client_ca, current })
    }

    /// Reads them again, for connections that come from here on.
    pub fn reload(&self) -> Result<(), TlsError> {
        let fresh = Arc::new(read(&self.certificate, &self.key, self.client_ca.as_deref())?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.current().acceptor.clone()
    }

    pub(crate) fn client_verifier(&self) -> Option<Arc<dyn ClientCertVerifier>> {
        self.current().clients.clone()
    }

    /// Whether the certificate is one of this host.
    pub fn names(&self, host: &str) -> bool {
        let current = self.current();
        let Ok(host) = ServerName::try_from(host) else { return false };
        ParsedCertificate::try_from(&current.leaf)
            .is_ok_and(|leaf| rustls::client::verify_server_name(&leaf, &host).is_ok())
    }
}

fn failed(file: &Path, why: impl ToString, hint: &str) -> TlsError {
    TlsError { file: file.to_path_buf(), why: why.to_string(), hint: hint.to_string() }
}

/// What verifies the certificates of clients. A client may also show none.
fn verifier(file: &Path, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let hint = "it must hold the certificates of the clients' authorities, in PEM form";
    let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut roots = RootCertStore::empty();
    for root in found.map_err(|error| failed(file, error, hint))? {
        roots.add(root).map_err(|error| failed(file, error, hint))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .allow_unauthenticated()
        .build()
        .map_err(|error| failed(file, error, hint))
}

fn read(certificate: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Current, TlsError> {
    let pem = "it must be a file in PEM form that this user can read";
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed(certificate, error, pem))?;
    let Some(leaf) = chain.first().cloned() else {
        return Err(failed(certificate, "it has no certificate", pem));
    };
    let mode = std::fs::metadata(key).map_err(|error| failed(key, error, pem))?.permissions().mode();
    if mode & 0o007 != 0 {
        let hint = format!("chmod o= {}", key.display());
        return Err(failed(key, "everybody on this machine can read it", &hint));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, error, pem))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let clients = client_ca.map(|file| verifier(file, &provider)).transpose()?;
    let verifier = clients.clone().unwrap_or_else(WebPkiClientVerifier::no_client_auth);
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_client_cert_verifier(verifier).with_single_cert(chain, secret));
    let mut config =
        config.map_err(|error| failed(certificate, error, "certificate and key must belong together"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if clients.is_some() {
        // A session that is resumed shows the certificate that it began with, not the one that the client has by then.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Current { acceptor: TlsAcceptor::from(Arc::new(config)), leaf, clients })
}

#[cfg(test)]
mod tests {
    use rustls::{ClientConfig, HandshakeKind};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::TlsConnector;

    use super::*;

    /// How a client that keeps sessions connects for the second time.
    async fn second_handshake(with_client_ca: bool) -> HandshakeKind {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let tls = Tls::load(&certificate, &key, with_client_ca.then_some(&*certificate)).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(client));
        let mut kind = None;
        for _ in 0..2 {
            let (here, there) = tokio::io::duplex(1 << 16);
            let name = ServerName::try_from("localhost").unwrap();
            let (here, there) = tokio::join!(connector.connect(name, here), tls.acceptor().accept(there));
            let (mut here, mut there) = (here.unwrap(), there.unwrap());
            // What is read comes after the sessions that the server offers.
            there.write_all(b"x").await.unwrap();
            here.read_exact(&mut [0]).await.unwrap();
            kind = here.get_ref().1.handshake_kind();
        }
        kind.unwrap()
    }

    #[tokio::test]
    async fn where_clients_may_show_a_certificate_no_session_is_resumed() {
        assert_eq!(second_handshake(false).await, HandshakeKind::Resumed);
        assert_eq!(second_handshake(true).await, HandshakeKind::Full);
    }
}
