//! How a connection is encrypted, and whose certificate is believed: the meaning of `sslmode`.
//!
//! As libpq has it: `disable`, `prefer` (the default) and `require` check no certificate, unless `require` is given the
//! authority to check by; `verify-ca` checks who signed it, `verify-full` also whom it names. The authority is that of
//! `sslrootcert=FILE`, else the system's.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use baton_store::UrlError;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

/// The parameters that are for this module.
pub(crate) const PARAMETERS: [&str; 4] = ["sslmode", "sslrootcert", "sslcert", "sslkey"];

/// What of a certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    Nothing,
    Authority,
    AuthorityAndName,
}

/// How to connect, by the parameters of the URL.
pub(crate) fn choose(
    parameters: &BTreeMap<String, String>,
) -> Result<(SslMode, MakeRustlsConnect), UrlError> {
    let value = |name: &str| parameters.get(name).map(String::as_str);
    let (mode, check) = match (value("sslmode").unwrap_or("prefer"), value("sslrootcert")) {
        ("disable", _) => (SslMode::Disable, Check::Nothing),
        ("prefer", _) => (SslMode::Prefer, Check::Nothing),
        ("require", None) => (SslMode::Require, Check::Nothing),
        ("require", Some(_)) | ("verify-ca", _) => (SslMode::Require, Check::Authority),
        ("verify-full", _) => (SslMode::Require, Check::AuthorityAndName),
        (other, _) => {
            return Err(UrlError::new(
                format!("`sslmode={other}` is not known"),
                "it is one of: disable, prefer, require, verify-ca, verify-full",
            ));
        }
    };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Verifier::new(check, value("sslrootcert").map(Path::new), &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| UrlError::new(error.to_string(), "this build of Baton has no TLS"))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match (value("sslcert"), value("sslkey")) {
        (None, None) => builder.with_no_client_auth(),
        (Some(cert), Some(key)) => {
            let chain = certificates(Path::new(cert))?;
            let secret =
                PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(Path::new(key), &error))?;
            builder
                .with_client_auth_cert(chain, secret)
                .map_err(|error| unreadable(Path::new(cert), &error))?
        }
        (Some(_), None) | (None, Some(_)) => {
            return Err(UrlError::new("sslcert and sslkey belong together", "give both, or neither"));
        }
    };
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok((mode, MakeRustlsConnect::new(config)))
}

fn unreadable(file: &Path, error: &dyn std::fmt::Display) -> UrlError {
    UrlError::new(format!("{} cannot be used: {error}", file.display()), "it must be a file in PEM form")
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, UrlError> {
    let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| unreadable(file, &error))?;
    if found.is_empty() {
        return Err(unreadable(file, &"it has no certificate"));
    }
    Ok(found)
}

/// Checks as much of a certificate as it was told to.
#[derive(Debug)]
struct Verifier {
    authority: Option<Arc<WebPkiServerVerifier>>,
    name: bool,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn new(check: Check, file: Option<&Path>, provider: &Arc<CryptoProvider>) -> Result<Verifier, UrlError> {
        let name = check == Check::AuthorityAndName;
        if check == Check::Nothing {
            return Ok(Verifier { authority: None, name, provider: Arc::clone(provider) });
        }
        let trusted = match file {
            Some(file) if file != Path::new("system") => certificates(file)?,
            Some(_) | None => rustls_native_certs::load_native_certs().certs,
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(trusted);
        let authority =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build();
        let authority = authority.map_err(|error| {
            UrlError::new(
                format!("there is no authority to check certificates by: {error}"),
                "name one: ?sslrootcert=FILE",
            )
        })?;
        Ok(Verifier { authority: Some(authority), name, provider: Arc::clone(provider) })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authority) = &self.authority else { return Ok(ServerCertVerified::assertion()) };
        // The chain is checked before the name.
        match authority.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.name => Ok(ServerCertVerified::assertion()),
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
