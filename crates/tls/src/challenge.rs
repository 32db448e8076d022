//! Proof to an authority that this server has a name (ACME, TLS-ALPN-01: RFC 8737).

use std::{io, sync::Arc};

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::{
    ServerConfig,
    crypto::ring::{self, sign::any_ecdsa_type},
    pki_types::PrivateKeyDer,
    sign::{CertifiedKey, SingleCertAndKey},
};

/// The protocol by which an authority asks for the proof, and which no other client chooses (ALPN).
pub const ACME_TLS: &[u8] = b"acme-tls/1";

/// Settings of the handshake that proves to an authority that this server has a name; `digest` is the SHA-256 of the key authorization. They
/// are good for nothing else: the certificate is self-signed, and the client needs none of its own.
///
/// # Panics
/// If the digest does not have 32 bytes.
pub fn challenge_config(name: &str, digest: &[u8]) -> io::Result<ServerConfig> {
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let mut params = CertificateParams::new([name.to_owned()]).map_err(io::Error::other)?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let certificate = params.self_signed(&key).map_err(io::Error::other)?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(io::Error::other)?;
    let key = any_ecdsa_type(&key).map_err(io::Error::other)?;
    // Unchecked: webpki does not know the extension, which is critical.
    let certified = CertifiedKey::new(vec![certificate.der().clone()], key);
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has ciphers for both versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![ACME_TLS.to_vec()];
    Ok(config)
}
