//! TLS of a server's own listeners: certificates from PEM files, chosen by the name that a client asks for (SNI: RFC 6066, 3).

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ServerConfig,
    client::verify_server_name,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem, pem::PemObject},
    server::{ClientHello, ParsedCertificate, ResolvesServerCert},
    sign::CertifiedKey,
};

/// The files of one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, followed by those of the authorities between it and a root, as PEM.
    pub cert: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
}

/// A certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read, or is not PEM.
    #[error("{} cannot be read as PEM: {source}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// The file has no certificate.
    #[error("{} has no certificate (-----BEGIN CERTIFICATE-----)", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The key cannot be used with the certificate.
    #[error("the key in {} does not fit the certificate in {}: {source}", key.display(), cert.display())]
    Unfit {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What is wrong.
        source: rustls::Error,
    },
}

/// Settings of listeners with these certificates, TLS 1.2 and 1.3. A client that asks for none of their names gets the first.
pub fn server_config(
    files: &[CertificateFiles],
    protocols: &[&[u8]],
) -> Result<ServerConfig, CertificateError> {
    let provider = Arc::new(ring::default_provider());
    let keys: Result<Vec<_>, _> = files.iter().map(|files| load(files, &provider)).collect();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has ciphers for both versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(ByName(keys?)));
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    // Without tickets, sessions are resumed only from this process's own small memory of them.
    if let Ok(ticketer) = ring::Ticketer::new() {
        config.ticketer = ticketer;
    }
    Ok(config)
}

fn load(files: &CertificateFiles, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, CertificateError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| CertificateError::Pem { path, source }
    };
    let chain = CertificateDer::pem_file_iter(&files.cert).map_err(failed(&files.cert))?;
    let chain: Result<Vec<_>, _> = chain.collect();
    let chain = chain.map_err(failed(&files.cert))?;
    if chain.is_empty() {
        return Err(CertificateError::NoCertificate {
            path: files.cert.clone(),
        });
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(failed(&files.key))?;
    let key = CertifiedKey::from_der(chain, key, provider);
    Ok(Arc::new(key.map_err(|source| CertificateError::Unfit {
        cert: files.cert.clone(),
        key: files.key.clone(),
        source,
    })?))
}

/// Certificates, the first of which is for clients that ask for no name, or for an unknown one.
#[derive(Debug)]
struct ByName(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello
            .server_name()
            .and_then(|name| ServerName::try_from(name).ok());
        let is_for = |key: &&Arc<CertifiedKey>, name: &ServerName<'_>| {
            let parsed = key.cert.first().map(ParsedCertificate::try_from);
            parsed.is_some_and(|parsed| parsed.is_ok_and(|parsed| verify_server_name(&parsed, name).is_ok()))
        };
        let asked = name.and_then(|name| self.0.iter().find(|key| is_for(key, &name)));
        asked.or(self.0.first()).cloned()
    }
}
