//! Encrypted connections, and certificates that are believed or not.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use baton_store::conformance::{Required, required};
use baton_store::{Key, StoreError};

use crate::support::private::Server;
use crate::support::store;

/// A server with a certificate for `localhost` and 127.0.0.1, signed by an authority of its own.
async fn server() -> Option<(Server, String, String)> {
    let Required::At(shared) = required("BATON_TEST_POSTGRES") else { return None };
    let mut server = Server::like(&shared, &[]).await;
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_text = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_string()]).unwrap();
    let certificate = certificate.signed_by(&key, &issuer).unwrap();
    let data = server.folder().join("data");
    fs::write(data.join("server.crt"), certificate.pem()).unwrap();
    fs::write(data.join("server.key"), key.serialize_pem()).unwrap();
    fs::set_permissions(data.join("server.key"), fs::Permissions::from_mode(0o600)).unwrap();
    let owner = fs::metadata(&data).unwrap();
    for file in ["server.crt", "server.key"] {
        use std::os::unix::fs::MetadataExt;
        std::os::unix::fs::chown(data.join(file), Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    let trusted = server.folder().join("authority.crt");
    fs::write(&trusted, authority_text).unwrap();
    server.kill();
    server.set("ssl=on");
    server.start().await;
    let by_name = server.url.replace("127.0.0.1", "localhost");
    Some((server, by_name, trusted.to_string_lossy().into_owned()))
}

/// Whether the session is encrypted, or why there is none.
async fn encrypted(url: &str) -> Result<bool, StoreError> {
    let name = crate::support::random();
    let joint = if url.contains('?') { '&' } else { '?' };
    let store = store(&format!("{url}{joint}application_name={name}&table=baton"))?;
    store.prepare().await?;
    store.read(&Key::Store).await?;
    let client = crate::support::connect(url.split('?').next().unwrap()).await;
    let sql = format!(
        "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = '{name}'"
    );
    Ok(crate::support::rows(&client, &sql).await.unwrap() == ["t"])
}

#[tokio::test]
async fn sslmode_means_what_libpq_means() {
    let Some((server, by_name, trusted)) = server().await else { return };
    assert!(encrypted(&server.url).await.unwrap(), "TLS is preferred");
    assert!(!encrypted(&format!("{}?sslmode=disable", server.url)).await.unwrap());
    assert!(
        encrypted(&format!("{}?sslmode=require", server.url)).await.unwrap(),
        "no certificate is checked"
    );
    for mode in ["require", "verify-ca"] {
        let url = format!("{}?sslmode={mode}&sslrootcert={trusted}", server.url);
        assert!(encrypted(&url).await.unwrap(), "{mode}: the authority is checked, the name is not");
    }
    assert!(encrypted(&format!("{by_name}?sslmode=verify-full&sslrootcert={trusted}")).await.unwrap());
    for (url, why) in [
        (format!("{}?sslmode=verify-full&sslrootcert={trusted}", server.url), "not valid for name"),
        (format!("{by_name}?sslmode=verify-full"), "UnknownIssuer"),
        (format!("{by_name}?sslmode=verify-ca&sslrootcert=system"), "UnknownIssuer"),
    ] {
        let error = encrypted(&url).await.unwrap_err();
        assert!(matches!(error, StoreError::Refused { .. }), "{url}: {error:?}");
        assert!(error.to_string().contains(why), "{url}: {error}");
        assert!(error.hint().contains("sslrootcert"), "{}", error.hint());
    }
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_required() {
    let Required::At(server) = required("BATON_TEST_POSTGRES") else { return };
    let error = store(&format!("{server}?sslmode=require")).unwrap().read(&Key::Store).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(error.hint().contains("TLS"), "{}", error.hint());
}
