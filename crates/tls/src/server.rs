//! TLS of a server's own listeners: certificates from PEM files, chosen by the name that a client asks for (SNI: RFC 6066, 3).

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    RootCertStore, ServerConfig,
    client::verify_server_name,
    crypto::{CryptoProvider, ring},
    pki_types::{
        CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName,
        pem::{self, PemObject},
    },
    server::{
        ClientHello, ParsedCertificate, ResolvesServerCert, WebPkiClientVerifier, danger::ClientCertVerifier,
    },
    sign::CertifiedKey,
};

/// The files of one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, followed by those of the authorities between it and a root, as PEM.
    pub cert: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
    /// The authority's last word on whether it is still good (OCSP: RFC 6960), as DER, which clients are given with it.
    pub ocsp: Option<PathBuf>,
}

/// Which certificates of their own clients may or must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// The authorities that sign them, as PEM.
    pub authorities: PathBuf,
    /// Lists of those that are revoked, as PEM.
    pub revoked: Vec<PathBuf>,
    /// Whether a client without one is turned away.
    pub are_required: bool,
}

/// A certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read, or is not PEM.
    #[error("{} cannot be read as PEM: {source}", path.display())]
    Pem {
        /// The PEM file.
        path: PathBuf,
        /// The error in it.
        source: pem::Error,
    },
    /// The file has no certificate.
    #[error("{} has no certificate (-----BEGIN CERTIFICATE-----)", path.display())]
    NoCertificate {
        /// The PEM file of the certificate.
        path: PathBuf,
    },
    /// The file has no list of revoked certificates.
    #[error("{} has no list of revoked certificates (-----BEGIN X509 CRL-----)", path.display())]
    NoList {
        /// The PEM file of revoked certificates.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file that was to be read.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Certificates of clients cannot be checked with these files.
    #[error("the certificates of clients cannot be checked by {}: {reason}", path.display())]
    Clients {
        /// The file of authorities.
        path: PathBuf,
        /// The cause, as rustls says it.
        reason: String,
    },
    /// The key cannot be used with the certificate.
    #[error("the key in {} does not fit the certificate in {}: {source}", key.display(), cert.display())]
    Unfit {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The cause, as rustls says it.
        source: rustls::Error,
    },
}

/// Settings of listeners with these certificates, TLS 1.2 and 1.3. A client that asks for none of their names gets the first.
pub fn server_config(
    files: &[CertificateFiles],
    clients: Option<&ClientCertificates>,
    protocols: &[&[u8]],
) -> Result<ServerConfig, CertificateError> {
    let provider = Arc::new(ring::default_provider());
    let keys: Result<Vec<_>, _> = files.iter().map(|files| load(files, &provider)).collect();
    let clients = match clients {
        Some(clients) => verifier(clients, &provider)?,
        None => WebPkiClientVerifier::no_client_auth(),
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has ciphers for both versions")
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::new(ByName(keys?)));
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    // Without tickets, sessions are resumed only from this process's own small memory of them.
    if let Ok(ticketer) = ring::Ticketer::new() {
        config.ticketer = ticketer;
    }
    Ok(config)
}

/// All objects of a kind in a PEM file.
fn read<T: PemObject>(path: &Path) -> Result<Vec<T>, CertificateError> {
    let objects = T::pem_file_iter(path).and_then(Iterator::collect);
    objects.map_err(|source| CertificateError::Pem {
        path: path.to_owned(),
        source,
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let found = read(path)?;
    if found.is_empty() {
        let path = path.to_owned();
        return Err(CertificateError::NoCertificate { path });
    }
    Ok(found)
}

fn load(files: &CertificateFiles, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, CertificateError> {
    let chain = certificates(&files.cert)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|source| CertificateError::Pem {
        path: files.key.clone(),
        source,
    })?;
    let key = CertifiedKey::from_der(chain, key, provider);
    let mut key = key.map_err(|source| CertificateError::Unfit {
        cert: files.cert.clone(),
        key: files.key.clone(),
        source,
    })?;
    if let Some(path) = &files.ocsp {
        let response = fs::read(path).map_err(|source| CertificateError::Read {
            path: path.clone(),
            source,
        })?;
        key.ocsp = Some(response);
    }
    Ok(Arc::new(key))
}

fn verifier(
    clients: &ClientCertificates,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
    let failed = |reason: &dyn fmt::Display| CertificateError::Clients {
        path: clients.authorities.clone(),
        reason: reason.to_string(),
    };
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(&clients.authorities)? {
        authorities.add(certificate).map_err(|error| failed(&error))?;
    }
    let mut revoked: Vec<CertificateRevocationListDer<'static>> = Vec::new();
    for file in &clients.revoked {
        let lists = read(file)?;
        if lists.is_empty() {
            return Err(CertificateError::NoList { path: file.clone() });
        }
        revoked.extend(lists);
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), Arc::clone(provider));
    let builder = builder.with_crls(revoked).allow_unknown_revocation_status();
    let builder = if clients.are_required {
        builder
    } else {
        builder.allow_unauthenticated()
    };
    builder.build().map_err(|error| failed(&error))
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
