//! How connections are encrypted: TLS 1.2 and 1.3 by ring. To other servers with verified certificates and without one of our own; on the
//! server's own listeners with certificates from files, which can be replaced while they are in use.

mod certificate;
mod challenge;
mod client_certificate;
mod development;
mod private_file;
mod server;

use std::{path::Path, sync::Arc};

pub use self::{
    certificate::{CertificateError, CertificateFiles, CertificateSlot, ServerCertificate, Validity},
    challenge::{ACME_TLS, challenge_config},
    client_certificate::{CertificateName, ClientCertificate},
    development::development_certificate,
    private_file::write_private,
    server::{ClientCertificates, server_config},
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};

/// The authorities that the system trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` name others), read now; empty where there are none.
pub fn system_authorities() -> RootCertStore {
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    authorities
}

/// The authorities in a PEM file.
pub fn authorities(path: &Path) -> Result<RootCertStore, CertificateError> {
    let mut authorities = RootCertStore::empty();
    for certificate in certificate::certificates(path, &certificate::read(path)?)? {
        authorities
            .add(certificate)
            .map_err(|source| CertificateError::Authority {
                path: path.to_owned(),
                source,
            })?;
    }
    Ok(authorities)
}

/// Settings of connections to servers whose certificates are of these authorities.
pub fn client_config(authorities: RootCertStore) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has ciphers for both versions")
        .with_root_certificates(authorities)
        .with_no_client_auth()
}
