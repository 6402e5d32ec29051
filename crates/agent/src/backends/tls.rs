use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::SetupError;

/// TLS with the authorities of this system (OpenSSL's places, or what
/// `SSL_CERT_FILE` and `SSL_CERT_DIR` name) and those of a file.
pub(super) fn trusting(ca_file: Option<&Path>) -> Result<ClientConfig, SetupError> {
    let mut roots = RootCertStore::empty();
    // A system without any is found out by the connection, which says so.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca_file {
        add_file(&mut roots, path)?;
    }
    config(roots)
}

/// TLS that trusts nobody, for a client that never uses it: reading the
/// system's authorities takes longer than a local model's first word.
pub(super) fn unused() -> Result<ClientConfig, SetupError> {
    config(RootCertStore::empty())
}

/// The provider of cryptography is passed by value, so that none has to be
/// installed for the whole process.
fn config(roots: RootCertStore) -> Result<ClientConfig, SetupError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| SetupError::Client(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), SetupError> {
    let pem = std::fs::read(path).map_err(|source| SetupError::File {
        path: path.to_owned(),
        source,
    })?;
    let broken = |problem: String| SetupError::Certificates {
        path: path.to_owned(),
        problem,
    };
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| broken(error.to_string()))?;
    if certificates.is_empty() {
        return Err(broken("it has no BEGIN CERTIFICATE".to_owned()));
    }
    for certificate in certificates {
        let added = roots.add(certificate);
        added.map_err(|error| broken(error.to_string()))?;
    }
    Ok(())
}
