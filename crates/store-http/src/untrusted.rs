//! A certificate that one of both ends does not accept: this client the server's, or the server this client's.
//!
//! Nothing was carried out: the server reads no request before it has accepted the certificate. With TLS 1.3 a client has sent its first request by the time
//! at which it hears that its certificate is not accepted, so that this comes as a failure to read.

use std::error::Error;
use std::io;

use rustls::AlertDescription;

/// Why there is no connection, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Untrusted {
    pub(crate) why: String,
    pub(crate) hint: String,
}

impl Untrusted {
    /// What a failure says of certificates, if it does.
    pub(crate) fn of(cause: &(dyn Error + 'static)) -> Option<Untrusted> {
        match tls_error(cause)? {
            rustls::Error::InvalidCertificate(why) => Some(Untrusted::server(why)),
            rustls::Error::AlertReceived(alert) => Untrusted::client(*alert),
            _ => None,
        }
    }

    fn server(why: &rustls::CertificateError) -> Untrusted {
        // What openssl makes unless it is told otherwise.
        if format!("{why:?}").contains("CaUsedAsEndEntity") {
            return Untrusted {
                why: "its certificate is an authority's (CA:TRUE), not a server's".to_string(),
                hint: "give the server one that is not: openssl req -x509 … -addext basicConstraints=critical,CA:FALSE, or let that authority sign one".to_string(),
            };
        }
        let why = match why {
            // The second is of an authority that has the name of one that is trusted.
            rustls::CertificateError::UnknownIssuer | rustls::CertificateError::BadSignature => {
                "its certificate is signed by an authority that this client does not trust".to_string()
            }
            other => format!("its certificate is not accepted: {other}"),
        };
        let hint = "name the authority that signed it, and the host by a name in the certificate: https://HOST?ca=FILE";
        Untrusted { why, hint: hint.to_string() }
    }

    /// What a server says of a client's certificate.
    fn client(alert: AlertDescription) -> Option<Untrusted> {
        let log = "the server's access log says why";
        let (why, hint) = match alert {
            AlertDescription::CertificateRequired => (
                "the server accepts only clients with a certificate".to_string(),
                "show one: https://HOST?cert=FILE&key=FILE".to_string(),
            ),
            AlertDescription::CertificateExpired => (
                "the certificate of this client has expired".to_string(),
                "put a new one in its place: the files are read again when they change".to_string(),
            ),
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRevoked
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::AccessDenied
            // The signature of its authority is wrong.
            | AlertDescription::DecryptError => (
                format!("the server does not accept the certificate of this client: {}", in_words(alert)),
                format!("see whether the server trusts its authority: baton serve --client-ca FILE; {log}"),
            ),
            _ => return None,
        };
        Some(Untrusted { why, hint })
    }
}

/// What an alert says of a certificate.
fn in_words(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::UnknownCA => "it does not know the authority",
        AlertDescription::CertificateRevoked => "it is revoked",
        AlertDescription::UnsupportedCertificate => "it is of a kind that the server does not support",
        AlertDescription::AccessDenied => "access is denied",
        AlertDescription::DecryptError => "a signature is wrong",
        _ => "it is invalid",
    }
}

/// The TLS error within a failure. One failure of the system may hold another.
fn tls_error<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(error) = cause.downcast_ref() {
        return Some(error);
    }
    tls_error(cause.downcast_ref::<io::Error>()?.get_ref()?)
}

#[cfg(test)]
mod tests {
    use rustls::CertificateError;

    use super::*;

    fn told(error: rustls::Error) -> Option<Untrusted> {
        let inner = io::Error::new(io::ErrorKind::InvalidData, error);
        Untrusted::of(&io::Error::other(inner))
    }

    #[test]
    fn a_certificate_that_is_not_accepted_is_told_in_words() {
        let server = told(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)).unwrap();
        assert!(server.why.contains("does not trust") && server.hint.contains("?ca=FILE"), "{server:?}");
        let expired = told(rustls::Error::InvalidCertificate(CertificateError::Expired)).unwrap();
        assert!(expired.why.starts_with("its certificate is not accepted: "), "{expired:?}");
        let client = told(rustls::Error::AlertReceived(AlertDescription::UnknownCA)).unwrap();
        assert_eq!(
            client.why,
            "the server does not accept the certificate of this client: it does not know the authority"
        );
        assert!(client.hint.contains("--client-ca"), "{client:?}");
        let expired = told(rustls::Error::AlertReceived(AlertDescription::CertificateExpired)).unwrap();
        assert_eq!(expired.why, "the certificate of this client has expired");
    }

    #[test]
    fn an_authoritys_certificate_is_told_in_words() {
        let odd = rustls::OtherError(std::sync::Arc::new(CaUsedAsEndEntity));
        let said = told(rustls::Error::InvalidCertificate(CertificateError::Other(odd))).unwrap();
        assert_eq!(said.why, "its certificate is an authority's (CA:TRUE), not a server's");
        assert!(said.hint.contains("CA:FALSE"), "{said:?}");
    }

    #[test]
    fn what_passes_says_nothing_of_certificates() {
        assert_eq!(told(rustls::Error::AlertReceived(AlertDescription::InternalError)), None);
        assert_eq!(told(rustls::Error::HandshakeNotComplete), None);
        assert_eq!(Untrusted::of(&io::Error::from(io::ErrorKind::ConnectionRefused)), None);
    }

    /// As the library that verifies certificates names it.
    #[derive(Debug)]
    struct CaUsedAsEndEntity;

    impl std::fmt::Display for CaUsedAsEndEntity {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("odd")
        }
    }

    impl Error for CaUsedAsEndEntity {}
}
