//! The certificate that a client showed when it connected.
//!
//! Assumes that the handshake has verified it: no connection with a certificate of another authority, or an expired one, comes this far.
//! Guarantees that a connection which outlives its certificate, or whose authority was taken out of the file, is noticed within
//! [`AGAIN`]. Does not look at lists of revoked certificates.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::pki_types::{CertificateDer, UnixTime};

use crate::tls::Tls;

/// How long a certificate that was verified is taken to be valid.
const AGAIN: Duration = Duration::from_secs(10);
/// A connection whose certificate expires within this time ends after the next answer, so that the client comes again with a fresh one.
const SOON: Duration = Duration::from_secs(60);
/// The most names of a certificate. Each is compared with every entry of the list.
const MAX_NAMES: usize = 16;

/// A client's certificate.
pub struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    tls: Arc<Tls>,
    /// When it was verified last, and with what outcome.
    verified: Mutex<Option<(Instant, Validity)>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Validity {
    Valid,
    EndsSoon,
    Invalid,
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClientCertificate({:?})", self.names())
    }
}

impl ClientCertificate {
    /// The certificate of whoever is at the other end of an encrypted connection, if there is one.
    pub(crate) fn of<S>(
        stream: &tokio_rustls::server::TlsStream<S>,
        tls: &Arc<Tls>,
    ) -> Option<Arc<ClientCertificate>> {
        let chain = stream.get_ref().1.peer_certificates()?;
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        // The handshake may have been some time ago: the first request verifies it again.
        Some(Arc::new(ClientCertificate { chain, tls: Arc::clone(tls), verified: Mutex::default() }))
    }

    /// The DNS names, in lower case, and the URIs among the subject alternative names. None if there are too many.
    pub fn names(&self) -> Option<Vec<String>> {
        let leaf = webpki::EndEntityCert::try_from(self.chain.first()?).ok()?;
        // No DNS name has a colon and every URI has one, so that neither is taken for the other.
        let dns = leaf.valid_dns_names().filter(|name| !name.contains(':')).map(str::to_ascii_lowercase);
        let uris = leaf.valid_uri_names().filter(|uri| uri.contains(':')).map(str::to_string);
        let names: Vec<String> = dns.chain(uris).take(MAX_NAMES + 1).collect();
        (names.len() <= MAX_NAMES).then_some(names)
    }

    /// Whether an authority that the server believes vouches for it, and it has not expired.
    pub fn is_valid(&self) -> bool {
        self.validity() != Validity::Invalid
    }

    /// Whether the connection should end, so that the client shows the certificate that it has by then.
    pub(crate) fn ends_soon(&self) -> bool {
        self.validity() != Validity::Valid
    }

    fn validity(&self) -> Validity {
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        match *verified {
            Some((at, validity)) if at.elapsed() < AGAIN => validity,
            Some(_) | None => {
                let now = UnixTime::now();
                let later = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs()) + SOON);
                let validity = match (self.is_valid_at(now), self.is_valid_at(later)) {
                    (false, _) => Validity::Invalid,
                    (true, false) => Validity::EndsSoon,
                    (true, true) => Validity::Valid,
                };
                *verified = Some((Instant::now(), validity));
                validity
            }
        }
    }

    fn is_valid_at(&self, time: UnixTime) -> bool {
        let (Some((leaf, others)), Some(verifier)) = (self.chain.split_first(), self.tls.client_verifier())
        else {
            return false;
        };
        verifier.verify_client_cert(leaf, others, time).is_ok()
    }
}
