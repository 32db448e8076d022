//! What connections trust, show and demand when they speak TLS. Whatever a file or an option can have wrong is found here, before any
//! connection is opened.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, RootCertStore, SupportedCipherSuite, SupportedProtocolVersion,
    client::{Resumption, danger},
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};

/// Servers whose sessions are remembered.
const SESSIONS_MAX: usize = 256;

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Certificates in PEM form that are trusted instead of the system's.
    pub ca: Option<PathBuf>,
    /// The client's own certificate with its chain, in PEM form.
    pub certificate: Option<PathBuf>,
    /// Its key; `None`: it is in the file of the certificate.
    pub key: Option<PathBuf>,
    /// Any server is believed.
    pub insecure: bool,
    /// The lowest version.
    pub min: Version,
    /// The highest version.
    pub max: Version,
    /// The cipher suites that are offered, the preferred first; none: those that the library offers by itself.
    pub ciphers: Vec<String>,
    /// Whether a later connection takes up the session of an earlier one.
    pub resumption: bool,
    /// The name that the server is asked for, and that its certificate must have; `None`: the host of the URL.
    pub server_name: Option<String>,
    /// Whether the server is told the name (SNI).
    pub tells_name: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ca: None,
            certificate: None,
            key: None,
            insecure: false,
            min: Version::Tls12,
            max: Version::Tls13,
            ciphers: Vec::new(),
            resumption: true,
            server_name: None,
            tells_name: true,
        }
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 1.2 (RFC 5246).
    Tls12,
    /// 1.3 (RFC 8446).
    Tls13,
}

impl Version {
    /// Reads `1.2` or `1.3`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "1.2" => Some(Self::Tls12),
            "1.3" => Some(Self::Tls13),
            _ => None,
        }
    }

    const fn number(self) -> &'static str {
        match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        }
    }

    fn supported(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::Tls12 => &rustls::version::TLS12,
            Self::Tls13 => &rustls::version::TLS13,
        }
    }
}

/// Why TLS cannot be spoken as asked for.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file holds something else.
    #[error("`{}` holds no {what} in PEM form; a file with `-----BEGIN {}-----` is needed", path.display(), what.to_uppercase())]
    NotPem {
        /// The file.
        path: PathBuf,
        /// What is looked for: `certificate` or `private key`.
        what: &'static str,
    },
    /// PEM, but not of a certificate that can be used.
    #[error("`{}` has a certificate that cannot be used", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// The key does not belong to the certificate, or is of a kind that is not known.
    #[error("the key in `{}` does not fit the certificate in `{}`", key.display(), certificate.display())]
    Key {
        /// The file of the key.
        key: PathBuf,
        /// The file of the certificate.
        certificate: PathBuf,
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// A key without its certificate.
    #[error("a client's key needs its certificate: --cert FILE")]
    KeyAlone,
    /// Nothing to trust.
    #[error(
        "the system has no trusted certificates ({reason}); name a file with --cacert, or believe any server with --insecure"
    )]
    NoRoots {
        /// What the system said.
        reason: String,
    },
    /// No version is left.
    #[error("TLS from version {} up to {} is no version at all", min.number(), max.number())]
    Versions {
        /// The lowest allowed.
        min: Version,
        /// The highest allowed.
        max: Version,
    },
    /// A cipher suite that is not known.
    #[error("`{name}` is no cipher suite that is spoken; there are {known}")]
    Cipher {
        /// What was given.
        name: String,
        /// All that there are.
        known: String,
    },
    /// No cipher suite is of a version that is spoken.
    #[error("none of the cipher suites is for TLS from version {} up to {}", min.number(), max.number())]
    NoCipher {
        /// The lowest allowed.
        min: Version,
        /// The highest allowed.
        max: Version,
    },
    /// A name that no certificate can be for.
    #[error("`{name}` is neither a host name nor an address that a certificate can be for")]
    Name {
        /// The name.
        name: String,
    },
}

/// TLS ready to be spoken with any host.
#[derive(Clone, Debug)]
pub struct Config {
    config: Arc<ClientConfig>,
    server_name: Option<String>,
}

/// TLS ready to be spoken with one host.
#[derive(Clone, Debug)]
pub struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

/// What the two sides agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite, such as `TLS13_AES_128_GCM_SHA256`.
    pub cipher: &'static str,
    /// The protocol chosen by ALPN.
    pub alpn: Option<String>,
}

impl Options {
    /// Reads all files and checks that they fit together; `http2`: connections are to carry HTTP/2, and nothing else.
    pub fn load(&self, http2: bool) -> Result<Config, TlsError> {
        let (min, max) = (self.min, self.max);
        let versions: Vec<_> = [Version::Tls12, Version::Tls13]
            .into_iter()
            .filter(|version| (min..=max).contains(version))
            .collect();
        if versions.is_empty() {
            return Err(TlsError::Versions { min, max });
        }
        let versions: Vec<_> = versions.into_iter().map(Version::supported).collect();
        let builder = ClientConfig::builder_with_provider(Arc::new(self.provider()?))
            .with_protocol_versions(&versions)
            .map_err(|_| TlsError::NoCipher { min, max })?;
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
        let mut config = match (&self.certificate, &self.key) {
            (None, None) => builder.with_no_client_auth(),
            (None, Some(_)) => return Err(TlsError::KeyAlone),
            (Some(certificate), key) => {
                let chain = certificates(certificate)?;
                let path = key.as_ref().unwrap_or(certificate);
                let pem = read(path)?;
                let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| TlsError::NotPem {
                    path: path.clone(),
                    what: "private key",
                })?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|source| TlsError::Key {
                        key: path.clone(),
                        certificate: certificate.clone(),
                        source,
                    })?
            }
        };
        config.alpn_protocols = vec![if http2 {
            b"h2".to_vec()
        } else {
            b"http/1.1".to_vec()
        }];
        config.enable_sni = self.tells_name;
        config.resumption = if self.resumption {
            Resumption::in_memory_sessions(SESSIONS_MAX)
        } else {
            Resumption::disabled()
        };
        Ok(Config {
            config: Arc::new(config),
            server_name: self.server_name.clone(),
        })
    }

    /// The cryptography, with the cipher suites that are wanted.
    fn provider(&self) -> Result<CryptoProvider, TlsError> {
        let mut provider = ring::default_provider();
        if self.ciphers.is_empty() {
            return Ok(provider);
        }
        let known = std::mem::take(&mut provider.cipher_suites);
        let names = |suite: &SupportedCipherSuite| {
            let name = suite.suite().as_str().unwrap_or_default();
            // The library calls those of 1.3 otherwise than everybody else.
            (name, name.replacen("TLS13_", "TLS_", 1))
        };
        for name in &self.ciphers {
            let found = known.iter().find(|suite| {
                let (own, common) = names(suite);
                own.eq_ignore_ascii_case(name) || common.eq_ignore_ascii_case(name)
            });
            provider.cipher_suites.push(*found.ok_or_else(|| {
                TlsError::Cipher {
                    name: name.clone(),
                    known: known
                        .iter()
                        .map(|suite| names(suite).1)
                        .collect::<Vec<_>>()
                        .join(", "),
                }
            })?);
        }
        Ok(provider)
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
        // The system's, not a list built in: a server is trusted here exactly when other programs on this machine trust it, an
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
    /// For connections to a host, unless the options name another.
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

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read {
        path: path.to_owned(),
        source,
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    found
        .ok()
        .filter(|found| !found.is_empty())
        .ok_or(TlsError::NotPem {
            path: path.to_owned(),
            what: "certificate",
        })
}

/// Believes any server.
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
