//! Certificates by which members know each other.
//!
//! Every member has a certificate of one authority that names it `peer-ID` among its DNS names, for example `peer-2`. Assumes that
//! this authority gives such a certificate to nobody else; one authority per group is best, since the name of the group is
//! told but not in the certificate. Whoever has any other certificate of the authority may ask how things are; who may also change
//! something is named `operator`, or has the certificate of the member that is asked. Guarantees that the member at the other end has the key of a certificate with its id,
//! in both directions, and that nobody can read or change what is said. Does not look at lists of revoked certificates.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_peer::NodeId;
use rustls::client::verify_server_name;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Which files.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The member's own certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authority of all members.
    pub authority: PathBuf,
}

/// Why the certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{file} cannot be used: {why}", file = file.display())]
pub struct CertificateError {
    /// Which file.
    pub file: PathBuf,
    /// Why not.
    pub why: String,
    /// What to do.
    pub hint: String,
}

/// What this member shows, and what it wants to see.
#[derive(Clone)]
pub struct Certificates {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
    leaf: CertificateDer<'static>,
    file: PathBuf,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificates({})", self.file.display())
    }
}

const PEM: &str = "it must be a file in PEM form that this user can read";

impl Certificates {
    /// Reads the files.
    pub fn load(files: &CertificateFiles) -> Result<Certificates, CertificateError> {
        let (chain, roots) = (certificates(&files.certificate)?, certificates(&files.authority)?);
        let Some(leaf) = chain.first().cloned() else {
            return Err(failed(&files.certificate, "it has no certificate", PEM));
        };
        let mut authority = RootCertStore::empty();
        for root in roots {
            authority.add(root).map_err(|error| failed(&files.authority, error, PEM))?;
        }
        let authority = Arc::new(authority);
        let provider = Arc::new(aws_lc_rs::default_provider());
        let guests =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&authority), Arc::clone(&provider))
                .build()
                .map_err(|error| {
                    failed(&files.authority, error, "it must hold the authority's certificate")
                })?;
        let secret = private_key(&files.key)?;
        let pair = "certificate and key must belong together";
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder.with_client_cert_verifier(guests).with_single_cert(chain.clone(), secret.clone_key())
            })
            .map_err(|error| failed(&files.certificate, error, pair))?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder.with_root_certificates(authority).with_client_auth_cert(chain, secret)
            })
            .map_err(|error| failed(&files.certificate, error, pair))?;
        Ok(Certificates {
            connector: TlsConnector::from(Arc::new(client)),
            acceptor: TlsAcceptor::from(Arc::new(server)),
            leaf,
            file: files.certificate.clone(),
        })
    }

    /// Refuses to be a member whom the certificate does not name: the others would.
    pub fn check_names(&self, id: NodeId) -> Result<(), CertificateError> {
        if names(&self.leaf, id) {
            return Ok(());
        }
        let hint = format!("it needs the DNS name `{}` among its subject alternative names", dns_name(id));
        Err(failed(&self.file, format!("it does not name member {id}"), &hint))
    }

    pub(crate) fn connector(&self) -> &TlsConnector {
        &self.connector
    }

    pub(crate) fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }
}

/// What a member is called in its certificate.
pub(crate) fn dns_name(id: NodeId) -> String {
    format!("peer-{id}")
}

/// The same, as it is looked for.
pub(crate) fn server_name(id: NodeId) -> Option<ServerName<'static>> {
    ServerName::try_from(dns_name(id)).ok()
}

/// Whether a certificate, whose chain has been verified, is this member's.
pub(crate) fn names(certificate: &CertificateDer<'_>, id: NodeId) -> bool {
    let Some(name) = server_name(id) else { return false };
    ParsedCertificate::try_from(certificate).is_ok_and(|leaf| verify_server_name(&leaf, &name).is_ok())
}

/// Whether a certificate, whose chain has been verified, is that of somebody who may change the group.
pub(crate) fn is_operator(certificate: &CertificateDer<'_>) -> bool {
    let Ok(name) = ServerName::try_from("operator") else { return false };
    ParsedCertificate::try_from(certificate).is_ok_and(|leaf| verify_server_name(&leaf, &name).is_ok())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed(file, error, PEM))
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, CertificateError> {
    let mode = File::open(file).and_then(|file| file.metadata()).map_err(|error| failed(file, error, PEM))?;
    if mode.permissions().mode() & 0o007 != 0 {
        let hint = format!("chmod o= {}", file.display());
        return Err(failed(file, "everybody on this machine can read it", &hint));
    }
    PrivateKeyDer::from_pem_file(file).map_err(|error| failed(file, error, PEM))
}

fn failed(file: &Path, why: impl ToString, hint: &str) -> CertificateError {
    CertificateError { file: file.to_path_buf(), why: why.to_string(), hint: hint.to_string() }
}
