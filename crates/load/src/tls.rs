//! TLS configuration: trusted authorities, and the checks of the server. Every error in a file or an option is found
//! here, before any connection is opened.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, RootCertStore,
    client::{Resumption, danger},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};

/// Servers whose sessions are cached.
const SESSIONS_MAX: usize = 256;

/// TLS options of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Certificates in PEM form that are trusted instead of the system's.
    pub ca: Option<PathBuf>,
    /// Accept any server without verification.
    pub insecure: bool,
    /// The server name to request, which the certificate must match; `None`: the host of the URL.
    pub server_name: Option<String>,
}

/// Why TLS cannot be configured as asked.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: std::io::Error,
    },
    /// A file does not contain what it should.
    #[error("`{}` holds no certificate in PEM form; a file with `-----BEGIN CERTIFICATE-----` is needed", path.display())]
    NotPem {
        /// Path of the file.
        path: PathBuf,
    },
    /// PEM, but not of a usable certificate.
    #[error("`{}` has a certificate that cannot be used", path.display())]
    Certificate {
        /// Path of the file.
        path: PathBuf,
        /// The error of the TLS library.
        #[source]
        source: rustls::Error,
    },
    /// The system has no trusted certificates.
    #[error(
        "the system has no trusted certificates ({reason}); name a file with --cacert, or believe any server with --insecure"
    )]
    NoRoots {
        /// The error of the system.
        reason: String,
    },
    /// Not a name that a certificate can have.
    #[error("`{name}` is neither a host name nor an address that a certificate can be for")]
    Name {
        /// The name as given.
        name: String,
    },
}

/// A TLS configuration for any host.
#[derive(Clone, Debug)]
pub struct Config {
    config: Arc<ClientConfig>,
    server_name: Option<String>,
}

/// A TLS configuration for one host.
#[derive(Clone, Debug)]
pub struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl Options {
    /// Reads all files and checks that they fit together.
    pub fn load(&self) -> Result<Config, TlsError> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the library's own cipher suites fit its versions");
        let builder = if self.insecure {
            let schemes = ring::default_provider()
                .signature_verification_algorithms
                .supported_schemes();
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anyone { schemes }))
        } else {
            builder.with_root_certificates(self.roots()?)
        };
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        Ok(Config {
            config: Arc::new(config),
            server_name: self.server_name.clone(),
        })
    }

    fn roots(&self) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = &self.ca {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|source| TlsError::Certificate {
                    path: path.clone(),
                    source,
                })?;
            }
            return Ok(roots);
        }
        // The system's trust store, not a built-in list: a server is trusted here exactly when other programs on this machine trust it, an
        // organisation's own authorities are known, and none is trusted longer than the system's updates say.
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let reason = found
                .errors
                .first()
                .map_or("none was found".into(), ToString::to_string);
            return Err(TlsError::NoRoots { reason });
        }
        Ok(roots)
    }
}

impl Config {
    /// The configuration for one host, unless the options name another.
    pub fn for_host(&self, host: &str) -> Result<Tls, TlsError> {
        let name = self.server_name.as_deref().unwrap_or(host);
        Ok(Tls {
            config: self.config.clone(),
            name: ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name {
                name: name.to_owned(),
            })?,
        })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = std::fs::read(path).map_err(|source| TlsError::Read {
        path: path.to_owned(),
        source,
    })?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    found
        .ok()
        .filter(|found| !found.is_empty())
        .ok_or(TlsError::NotPem {
            path: path.to_owned(),
        })
}

/// Accepts any server.
#[derive(Debug)]
struct Anyone {
    schemes: Vec<rustls::SignatureScheme>,
}

impl danger::ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<danger::ServerCertVerified, rustls::Error> {
        Ok(danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &rustls::DigitallySignedStruct,
    ) -> Result<danger::HandshakeSignatureValid, rustls::Error> {
        Ok(danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &rustls::DigitallySignedStruct,
    ) -> Result<danger::HandshakeSignatureValid, rustls::Error> {
        Ok(danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.schemes.clone()
    }
}
